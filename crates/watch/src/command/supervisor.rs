//! Starts the command, answers its calls and works on what it sees, until its last descendant ends.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use store::Clock;

use super::inbox::Inbox;
use super::listener::{Listener, is_over};
use super::report::{self, Line, Reporter};
use super::run::{Start, let_go_of_folder, let_go_of_streams};
use super::sys::{self, Slot};
use super::{Observer, filter, guardian};
use crate::descriptors;

/// How long the work may go on after the command's end: what was learned is kept within a second.
const WORK_MAX: Duration = Duration::from_secs(30);

/// What the guardian is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// The number of the listener's descriptor.
    Listener(RawFd),
    /// The number of the command's process; it says so itself.
    Command(i32),
}

impl Told {
    fn text(self) -> String {
        match self {
            Self::Listener(number) => format!("listener {number}\n"),
            Self::Command(number) => format!("command {number}\n"),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, number) = line.split_once(' ')?;
        match word {
            "listener" => number.parse().ok().map(Self::Listener),
            "command" => number.parse().ok().map(Self::Command),
            _ => None,
        }
    }
}

/// Starts the command and does `work` over what it does.
pub(super) fn supervise(
    start: &Start<'_>,
    reporter: &Reporter,
    mut guardian: UnixStream,
    slot: Slot,
    work: impl FnOnce(&mut Observer, &Reporter),
) {
    let panicking = reporter.clone();
    // Nobody reads what we write elsewhere.
    std::panic::set_hook(Box::new(move |panic| panicking.say(panic)));
    let failed = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EIO);
    // Who loses its parent becomes our child: so its memory stays ours to read where only a
    // parent's may be, and its end ours to see.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let told = || -> io::Result<_> {
        Ok([("runs", OwnedFd::from(reporter.stream()?)), ("command", guardian.try_clone()?.into())])
    };
    let (listener, go) = match told().and_then(|told| starter(start, told)) {
        Ok(started) => started,
        Err(error) => return reporter.tell(&Line::Unobserved(failed(&error))),
    };
    let listener = Arc::new(listener);
    // It answers once it has taken the listener. Without it the command can still be observed.
    drop(guardian.write_all(Told::Listener(guardian::number_of(&listener)).text().as_bytes()));
    drop(guardian.read(&mut [0]));
    let clock = Clock::real();
    let inbox = match Inbox::new() {
        Ok(inbox) => Arc::new(inbox),
        Err(error) => return reporter.tell(&Line::Unobserved(failed(&error))),
    };
    let answering = Listener::new(Arc::clone(&listener), slot, Arc::clone(&inbox), clock.clone());
    let (at_work, worked) = mpsc::sync_channel(0);
    let answer = move || {
        answering.run();
        end_with_work(&worked);
    };
    let (begun, begins) = mpsc::sync_channel(1);
    let reaping = reporter.clone();
    let reap = move || {
        if let Ok((command, starter)) = begins.recv() {
            reap(command, starter, &reaping);
        }
    };
    // Before the command, which otherwise runs without.
    let named = |name: &str| thread::Builder::new().name(name.into());
    let threads =
        named("reaper").spawn(reap).and_then(|it| Ok((it, named("listener").spawn(answer)?)));
    let reaper = match threads {
        Ok((reaper, _)) => reaper,
        Err(error) => return reporter.tell(&Line::Unobserved(failed(&error))),
    };
    let (command, starter) = match go() {
        Ok(started) => started,
        Err(error) => return reporter.tell(&Line::NotStarted(failed(&error))),
    };
    drop(guardian);
    give_way_in_need();
    if let (true, Ok(waiter)) = (start.dies_with_caller, reporter.stream()) {
        end_with_caller(waiter, command);
    }
    sys::close_inherited(start.inherited.iter().copied());
    let_go_of_streams([libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO]);
    let_go_of_folder();
    // A terminal's signals are not for us.
    let _ = rustix::process::setsid();
    drop(begun.send((command, starter)));
    let number = command.unsigned_abs();
    // Every process takes a descriptor, which tells of its end.
    descriptors::allow_all();
    if let Ok(mut observer) = Observer::new(Arc::clone(&inbox), &listener, number, clock) {
        work(&mut observer, reporter);
    }
    inbox.close();
    // What the command left running may run for ever, and we with it.
    sys::give_back_memory();
    // Whatever became of the work, calls are answered to the end.
    while !is_over(&listener) {
        let _ = poll(&mut [PollFd::new(&*listener, PollFlags::empty())], None);
    }
    // How the command ended must have been told.
    drop(reaper.join());
    drop(at_work);
}

/// Has the kernel kill this process first where memory runs out: the guardian answers in its place, and
/// the command does what it would do without us. The command must have been started, as it would inherit this.
fn give_way_in_need() {
    // Who cannot say so is one among others.
    drop(fs::write("/proc/self/oom_score_adj", "1000"));
}

/// Ends the process, once the command's last descendant has ended, if the work does not: where
/// threads are few it may wait for one for ever, and nobody would look for us.
#[expect(clippy::exit, reason = "there is no other way to end a thread that waits")]
fn end_with_work(worked: &mpsc::Receiver<()>) {
    if worked.recv_timeout(WORK_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
        std::process::exit(0)
    }
}

/// Kills the command if the process that waits for it ends first: the kernel was asked to kill that one
/// with its caller, as it would have killed the command.
fn end_with_caller(waiter: UnixStream, command: i32) {
    let command = Pid::from_raw(command).and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
    let Some(command) = command else { return };
    let kill = move || {
        while poll(&mut [PollFd::new(&waiter, PollFlags::empty())], None).is_err() {}
        // Otherwise it has ended.
        let _ = pidfd_send_signal(command, Signal::KILL);
    };
    // Short of threads it outlives its caller.
    drop(thread::Builder::new().name("caller".into()).spawn(kill));
}

/// Holds the thread that started the command until this is dropped.
type Starter = mpsc::SyncSender<()>;

type Go = Box<dyn FnOnce() -> io::Result<(i32, Starter)>>;

/// A thread under the filter, which starts the command when it is asked to: what it starts is under
/// the filter too, and this process is not.
///
/// To the kernel that thread is the command's parent, whose end a program may have asked to be
/// killed at. So it has to live as long as the command; but no longer, since it is under the filter.
fn starter(start: &Start<'_>, told: [(&'static str, OwnedFd); 2]) -> io::Result<(OwnedFd, Go)> {
    let (listening, listener) = mpsc::sync_channel(1);
    let (go, gone) = mpsc::sync_channel::<()>(1);
    let (started, has_started) = mpsc::sync_channel(1);
    let (words, mask) = (start.words.to_vec(), start.mask);
    thread::Builder::new().name("starter".into()).spawn(move || {
        let is_listening = sys::listen(&filter::program());
        let is_ready = is_listening.is_ok();
        drop(listening.send(is_listening));
        if !is_ready || gone.recv().is_err() {
            return;
        }
        let (program, arguments) = words.split_first().expect("a command has a word");
        let mut command = Command::new(program);
        mask.give(command.args(arguments), told);
        let child = command.spawn();
        drop(started.send(child.map(|child| child.id().cast_signed())));
        let _ = gone.recv();
    })?;
    let lost = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let listener = listener.recv().map_err(lost)??;
    let start = Box::new(move || {
        let _ = go.send(());
        let command = has_started.recv().map_err(lost)??;
        Ok((command, go))
    });
    Ok((listener, start))
}

/// Tells how the command ends, and reaps what became our child. The first thread to wait for the
/// command is the only one.
fn reap(command: i32, starter: Starter, reporter: &Reporter) {
    let mut starter = Some(starter);
    report::reap(Pid::from_raw(command), 0, reporter, |line| {
        starter.take_if(|_| line.is_end());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guardian_is_told_is_understood() {
        for told in [Told::Listener(7), Told::Command(1234)] {
            assert_eq!(Told::parse(told.text().trim_end()), Some(told));
        }
        assert_eq!(Told::parse("listener"), None);
    }
}
