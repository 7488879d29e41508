//! What the supervisor and the guardian tell the process that waits, a line each.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use store::lock;

use super::sys::{self, Became, Sent};
use super::waiter::STOPS;

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// The command runs, as this process.
    Runs(i32),
    /// It could not be started, for this reason of the system's.
    NotStarted(i32),
    /// It cannot be observed, for this reason of the system's.
    Unobserved(i32),
    /// It exited with this code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
    /// It was stopped by this signal.
    Stopped(i32),
    /// It goes on after it was stopped.
    Continued,
    /// Something for a person to know.
    Says(String),
    /// All is written down; nothing more is worth waiting for.
    Done,
}

impl Line {
    fn text(&self) -> String {
        match self {
            Self::Runs(process) => format!("runs {process}\n"),
            Self::NotStarted(error) => format!("not-started {error}\n"),
            Self::Unobserved(error) => format!("unobserved {error}\n"),
            Self::Exited(code) => format!("exited {code}\n"),
            Self::Killed(signal) => format!("killed {signal}\n"),
            Self::Stopped(signal) => format!("stopped {signal}\n"),
            Self::Continued => "continued \n".to_owned(),
            Self::Says(text) => format!("says {}\n", text.replace('\n', " ")),
            Self::Done => "done \n".to_owned(),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        let number = || rest.parse().ok();
        Some(match word {
            "runs" => Self::Runs(number()?),
            "not-started" => Self::NotStarted(number()?),
            "unobserved" => Self::Unobserved(number()?),
            "exited" => Self::Exited(number()?),
            "killed" => Self::Killed(number()?),
            "stopped" => Self::Stopped(number()?),
            "continued" => Self::Continued,
            "says" => Self::Says(rest.to_owned()),
            "done" => Self::Done,
            _ => return None,
        })
    }

    /// What is told of a child that became this.
    fn of(became: Became) -> Option<Self> {
        Some(match became.code {
            libc::CLD_EXITED => Self::Exited(became.status),
            libc::CLD_KILLED | libc::CLD_DUMPED => Self::Killed(became.status),
            libc::CLD_STOPPED => Self::Stopped(became.status),
            libc::CLD_CONTINUED => Self::Continued,
            _ => return None,
        })
    }

    /// Whether the command has ended.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::Exited(_) | Self::Killed(_))
    }

    /// What has the waiting process stop or go on as the command did. It stops itself where it can hold
    /// the signal, so that it does not if the command goes on meanwhile; `SIGSTOP` cannot be held, and
    /// so one process sends it and what ends it, in their order.
    fn signal(&self) -> Option<i32> {
        match self {
            Self::Stopped(libc::SIGSTOP) => Some(libc::SIGSTOP),
            Self::Continued | Self::Exited(_) | Self::Killed(_) | Self::NotStarted(_) => {
                Some(libc::SIGCONT)
            }
            _ => None,
        }
    }
}

/// Tells how the command stops, goes on and ends, and reaps all children, until there are none that
/// `options` (of the call `waitid`) wait for. Gives each line of the command's to `told`.
pub(super) fn reap(
    command: Option<Pid>,
    options: libc::c_int,
    reporter: &Reporter,
    mut told: impl FnMut(&Line),
) {
    while let Some(became) = sys::changed(options) {
        let process = Pid::from_raw(became.process);
        // Only what was seen may be taken: who stopped may have ended meanwhile.
        let kind = match became.code {
            libc::CLD_STOPPED => WaitIdOptions::STOPPED,
            libc::CLD_CONTINUED => WaitIdOptions::CONTINUED,
            _ => WaitIdOptions::EXITED,
        };
        let take = || {
            if let Some(process) = process {
                let _ = waitid(WaitId::Pid(process), kind | WaitIdOptions::NOHANG);
            }
        };
        // An end is taken only once it was told: should we be killed in between, another tells it. A stop
        // is taken before: told, it may be over and another begun, which would be taken for it.
        let is_end = kind == WaitIdOptions::EXITED;
        if !is_end {
            take();
        }
        if process == command
            && let Some(line) = Line::of(became)
        {
            reporter.tell_of(&line, process);
            told(&line);
        }
        if is_end {
            take();
        }
    }
}

/// Tells the process that waits for the command; clones tell the same one.
#[derive(Debug, Clone)]
pub struct Reporter {
    stream: Arc<Mutex<UnixStream>>,
    waiter: Pid,
}

impl Reporter {
    /// To the process `waiter`, by `stream`.
    pub(super) fn new(stream: UnixStream, waiter: Pid) -> Self {
        Self { stream: Arc::new(Mutex::new(stream)), waiter }
    }

    pub(super) fn tell(&self, line: &Line) {
        self.tell_of(line, None);
    }

    /// As [`Reporter::tell`], of the command, if that runs.
    fn tell_of(&self, line: &Line, command: Option<Pid>) {
        let mut stream = lock(&self.stream);
        // Who is stopped reads nothing: what it is told may take all the room, and with it what has it go on.
        if !has_room(&stream) {
            Sent::by_observers(libc::SIGCONT).send(self.waiter);
        }
        // Who waited may have been killed; the command's programs go on all the same, and its number may
        // be another's.
        let is_there = stream.write_all(line.text().as_bytes()).is_ok();
        // It may be stopped again by now, and the waiting process with it, which is not to be undone.
        let goes_on = || *line != Line::Continued || !command.is_some_and(stops);
        if is_there
            && let Some(signal) = line.signal()
            && goes_on()
        {
            Sent::by_observers(signal).send(self.waiter);
        }
    }

    /// Something for a person to know; shown when the command has ended. Line breaks are lost.
    pub fn say(&self, what: impl std::fmt::Display) {
        self.tell(&Line::Says(what.to_string()));
    }

    /// Another end of the same stream.
    pub(super) fn stream(&self) -> io::Result<UnixStream> {
        lock(&self.stream).try_clone()
    }

    /// All that is worth waiting for has been said and written down.
    pub fn done(&self) {
        self.tell(&Line::Done);
    }
}

/// Whether a stream has room to spare: to the kernel, where three quarters are free.
fn has_room(stream: &UnixStream) -> bool {
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(stream, PollFlags::OUT)], Some(&now)) != Ok(0)
}

/// Whether a process is stopped, or is about to be by a signal that has come to it.
fn stops(process: Pid) -> bool {
    let sets = ["SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"];
    let [come, come_to_all, held, ignored, handled] = signals(process, sets);
    let taken = (come | come_to_all) & !held & !ignored & !handled;
    let is_taken = |signal: &i32| taken & 1 << (signal - 1) != 0;
    is_stopped(process) == Some(true) || STOPS.iter().chain([&libc::SIGSTOP]).any(is_taken)
}

/// Sets of signals of a process, by their names in its status, where they come after all its groups.
fn signals<const N: usize>(process: Pid, sets: [&str; N]) -> [u64; N] {
    let status = std::fs::read(format!("/proc/{}/status", process.as_raw_nonzero()));
    let status = String::from_utf8_lossy(&status.unwrap_or_default()).into_owned();
    sets.map(|name| {
        let set = status.lines().find_map(|line| line.strip_prefix(name));
        set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    })
}

/// Whether a process is stopped; `None` where nothing shows processes.
pub(super) fn is_stopped(process: Pid) -> Option<bool> {
    let Ok(stat) = std::fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())) else {
        return std::fs::exists("/proc/self/stat").is_ok_and(|shows| shows).then_some(false);
    };
    let name_end = stat.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    Some(stat.get(name_end + 2) == Some(&b'T'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use rustix::process::{Signal, kill_process};
    use testkit::{Facility, skip_unless, until};

    use super::*;

    #[test]
    fn who_is_stopped_goes_on_before_there_is_no_more_room_to_tell_it() {
        let mut waiter = Command::new("sleep").arg("1000").spawn().expect("it is there");
        let pid = Pid::from_child(&waiter);
        let (stream, mut told) = UnixStream::pair().expect("the machine allows it");
        let reporter = Reporter::new(stream, pid);
        kill_process(pid, Signal::STOP).expect("ours");
        until("it has stopped", || is_stopped(pid) == Some(true));
        let tells = thread::spawn(move || (0..5000).for_each(|_| reporter.say("something")));
        until("it goes on", || is_stopped(pid) == Some(false));
        io::copy(&mut told, &mut io::sink()).expect("it can be read");
        tells.join().expect("all is told");
        waiter.kill().expect("ours");
        waiter.wait().expect("ours");
    }

    #[test]
    fn signals_are_known_of_who_has_many_groups() {
        skip_unless!(Facility::Root, Facility::Tool("setpriv"));
        let groups: Vec<_> = (0..500).map(|at| (2_000_000_000 + at).to_string()).collect();
        let script = "trap '' TSTP; exec sleep 1000";
        let mut child = Command::new("setpriv")
            .args(["--groups", &groups.join(","), "sh", "-c", script])
            .spawn()
            .expect("it is there");
        let stop = 1 << (libc::SIGTSTP - 1);
        until("it is ignored", || signals(Pid::from_child(&child), ["SigIgn:"])[0] & stop != 0);
        child.kill().expect("ours");
        child.wait().expect("ours");
    }

    #[test]
    fn every_line_is_understood_as_it_was_meant() {
        let lines = [
            Line::Runs(7),
            Line::NotStarted(2),
            Line::Unobserved(16),
            Line::Exited(3),
            Line::Killed(9),
            Line::Stopped(20),
            Line::Continued,
            Line::Says("two words".to_owned()),
            Line::Done,
        ];
        for line in lines {
            assert_eq!(Line::parse(line.text().trim_end_matches('\n')), Some(line));
        }
        assert_eq!(Line::parse("what"), None);
        assert_eq!(Line::parse("exited well"), None);
    }
}
