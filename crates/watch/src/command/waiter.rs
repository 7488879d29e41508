//! The process that was called: waits, hands signals on, and learns how the command ended.

use std::io::{self, Read as _};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Pid;
use store::Clock;

use super::report::{Line, is_stopped};
use super::run::{Ended, Outcome, Unobserved, let_go_of_streams};
use super::sys::{self, Sent, Signals};

/// How long what was learned may take to be written down, once the command has ended.
const WRITES_WITHIN: Duration = Duration::from_secs(2);

/// Signals by which a terminal stops its processes.
pub(super) const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
/// Signals that the kernel sends to all processes of a terminal, and so to the command.
const TERMINALS: [i32; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];
/// Signals by which the kernel tells that the terminal is gone, to who leads the session alone; the others
/// learn of it when that one ends.
const HANG_UPS: [i32; 2] = [libc::SIGHUP, libc::SIGCONT];
/// How long it takes at most until it is told that the command has stopped. Of one that is stopped
/// before it has become its program nobody tells.
const STOPS_WITHIN: Duration = Duration::from_millis(200);

/// Waits for the command to end, which has the `inherited` descriptors for itself.
pub(super) fn wait(
    stream: UnixStream,
    signals: &Signals,
    inherited: &[RawFd],
) -> io::Result<Outcome> {
    let mut waiter = Waiter {
        stream,
        signals,
        inherited,
        clock: Clock::real(),
        text: Vec::new(),
        has_run: false,
        command: None,
        ended: None,
        said: Vec::new(),
        until: None,
        stopping: None,
        stop: None,
    };
    loop {
        waiter.stop_if_due();
        let left = waiter.left();
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        if !waiter.comes_within(left)? {
            continue;
        }
        match waiter.read()? {
            Heard::More => {}
            Heard::Last => break,
            Heard::Outcome(outcome) => return Ok(outcome),
        }
    }
    waiter.outcome()
}

/// Who waits for a command, and what it heard of it.
struct Waiter<'a> {
    stream: UnixStream,
    signals: &'a Signals,
    inherited: &'a [RawFd],
    clock: Clock,
    /// What came and is no whole line.
    text: Vec<u8>,
    has_run: bool,
    /// While it runs.
    command: Option<Pid>,
    ended: Option<Ended>,
    said: Vec<String>,
    /// When it is waited no longer.
    until: Option<Duration>,
    /// A signal that is to stop the command.
    stopping: Option<i32>,
    /// That by which it was stopped, and by which this process is to stop.
    stop: Option<i32>,
}

/// What became of the waiting by what was read.
enum Heard {
    More,
    Last,
    Outcome(Outcome),
}

impl Waiter<'_> {
    fn stop_if_due(&mut self) {
        let Self { stream, stop, .. } = self;
        if stop.is_some_and(|signal| sys::stop_by(signal, || has_come(stream))) {
            *stop = None;
        }
    }

    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(self.clock.now()))
    }

    /// Waits for what is said, and no longer than is `left`, and hands signals on; whether something was.
    fn comes_within(&mut self, left: Option<Duration>) -> io::Result<bool> {
        let limit =
            self.stopping.map_or(left, |_| Some(left.unwrap_or(STOPS_WITHIN).min(STOPS_WITHIN)));
        let limit = limit.and_then(|limit| rustix::time::Timespec::try_from(limit).ok());
        // Signals that come before there is a command wait for it.
        let is_known = self.command.is_some() || self.ended.is_some();
        let mut asked =
            [PollFd::new(&self.stream, PollFlags::IN), PollFd::new(self.signals, PollFlags::IN)];
        let nothing_came = match poll(&mut asked[..=usize::from(is_known)], limit.as_ref()) {
            Ok(ready) => ready == 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        let comes = !asked[0].revents().is_empty();
        if is_known {
            self.stopping = hand_on(self.signals, self.command, false).or(self.stopping);
        }
        if nothing_came
            && let Some(signal) = self.stopping.take()
            && self.command.and_then(is_stopped) == Some(true)
        {
            self.stop = Some(signal);
        }
        Ok(comes)
    }

    /// Takes what was said.
    fn read(&mut self) -> io::Result<Heard> {
        let mut buffer = [0; 4096];
        let read = self.stream.read(&mut buffer)?;
        self.text.extend_from_slice(&buffer[..read]);
        let mut is_done = read == 0;
        while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let line = Line::parse(String::from_utf8_lossy(&line).trim_end_matches('\n'));
            match line.map_or(Heard::More, |line| self.hear(line)) {
                Heard::More => {}
                Heard::Last => is_done = true,
                outcome @ Heard::Outcome(_) => return Ok(outcome),
            }
        }
        if self.ended.is_some() {
            (self.command, self.stop) = (None, None);
            self.until = self.until.or_else(|| Some(self.clock.now() + WRITES_WITHIN));
        }
        let is_last = is_done && (self.ended.is_some() || read == 0);
        Ok(if is_last { Heard::Last } else { Heard::More })
    }

    fn hear(&mut self, line: Line) -> Heard {
        match line {
            Line::Runs(process) => self.runs(process),
            // It did not come so far as to become its program.
            Line::NotStarted(error) if !self.has_run => return Heard::Outcome(unobserved(error)),
            Line::NotStarted(error) => {
                let error = io::Error::from_raw_os_error(error);
                return Heard::Outcome(Outcome::NotStarted(error));
            }
            Line::Unobserved(error) => return Heard::Outcome(unobserved(error)),
            Line::Exited(code) => self.ended = Some(Ended::Code(code)),
            Line::Killed(signal) => self.ended = Some(Ended::Signal(signal)),
            // Another may have continued it by now.
            Line::Stopped(signal) if self.command.and_then(is_stopped) != Some(false) => {
                // By what cannot be held we have been stopped.
                self.stop = Some(signal).filter(|signal| *signal != libc::SIGSTOP);
                self.stopping = None;
            }
            Line::Continued => self.stop = None,
            Line::Says(what) => self.said.push(what),
            Line::Done => return Heard::Last,
            Line::Stopped(_) => {}
        }
        Heard::More
    }

    fn runs(&mut self, process: i32) {
        self.command = Pid::from_raw(process);
        self.has_run = true;
        self.stopping = hand_on(self.signals, self.command, true);
        // It has its own; ours would keep who reads them from seeing their end.
        let streams = [libc::STDIN_FILENO, libc::STDOUT_FILENO];
        let may_go = |fd: &RawFd| !sys::is_locked(*fd);
        let_go_of_streams(streams.into_iter().filter(may_go));
        sys::close_inherited(self.inherited.iter().copied().filter(may_go));
    }

    fn outcome(mut self) -> io::Result<Outcome> {
        if self.ended.is_none() && !self.has_run {
            let why = io::Error::other("those who would observe it were killed");
            return Ok(Outcome::Unobserved(Unobserved::Refused(why)));
        }
        let how = self.ended.ok_or_else(|| {
            let why = self.said.pop().unwrap_or_else(|| "they were killed".to_owned());
            io::Error::other(format!("those who observed the command are gone: {why}"))
        })?;
        Ok(Outcome::Ended { how, said: self.said })
    }
}

fn unobserved(error: i32) -> Outcome {
    Outcome::Unobserved(match error {
        libc::EBUSY => Unobserved::IsObserved,
        error => Unobserved::Refused(io::Error::from_raw_os_error(error)),
    })
}

/// Sends the command what was sent to us, by an alarm, too, that was set before we began. What the
/// terminal sends goes to its whole group, and so to the command, by itself, unless it came `early`,
/// before there was one, or the command has made a group of its own: started by a shell it would have
/// led that of the terminal. Gives a signal that is to stop it.
fn hand_on(signals: &Signals, command: Option<Pid>, early: bool) -> Option<i32> {
    let (mut stops, mut continues) = (None, None::<Sent>);
    loop {
        // Who continues a whole group has continued the command. Where a later stop has stopped it
        // again, that has come to us, too, by the time that this is seen.
        let left = continues.filter(|_| command.and_then(is_stopped) != Some(false));
        let Some(sent) = signals.next() else {
            if let (Some(command), Some(left)) = (command, left) {
                left.send(command);
            }
            return stops;
        };
        let is_of_children = sent.signal == libc::SIGCHLD && !sent.by_process;
        if is_of_children || sent.is_by_observers() {
            continue;
        }
        let is_ours = sent.by_process
            || early
            || !TERMINALS.contains(&sent.signal)
            || HANG_UPS.contains(&sent.signal) && leads_session();
        if sent.signal == libc::SIGCONT {
            continues = is_ours.then_some(sent);
            continue;
        }
        if STOPS.contains(&sent.signal) {
            (stops, continues) = (Some(sent.signal), None);
        }
        match command {
            Some(command) if is_ours => sent.send(command),
            Some(command) => sys::send_to_other_group_of(command, sent.signal),
            None => {}
        }
    }
}

/// Whether this process leads its session, which the command cannot.
fn leads_session() -> bool {
    rustix::process::getsid(None) == Ok(rustix::process::getpid())
}

/// Whether something was said that is not read yet.
fn has_come(stream: &UnixStream) -> bool {
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&now)) != Ok(0)
}
