//! Who answers in the supervisor's place, should that be killed: without an answer the command's
//! programs would wait for ever, and without a listener their calls would fail.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags, WaitOptions, WaitStatus, pidfd_getfd,
    pidfd_open, waitpid,
};

use super::Observer;
use super::listener::is_over;
use super::report::{self, Line, Reporter};
use super::run::{Start, let_go_of_folder, let_go_of_streams};
use super::supervisor::{self, Told};
use super::sys::{self, Forked, Signals, Slot};

/// Becomes the guardian of a supervisor, which it makes; ends when nobody needs it any more.
#[expect(clippy::exit, reason = "the process was made for this, and is nobody's to return from")]
pub(super) fn stand_by(
    start: &Start<'_>,
    reporter: &Reporter,
    work: impl FnOnce(&mut Observer, &Reporter),
) -> ! {
    let guard = || guard(start, reporter, work);
    let code = i32::from(catch_unwind(AssertUnwindSafe(guard)).is_err());
    std::process::exit(code)
}

#[expect(clippy::exit, reason = "the supervisor is another process, which ends here")]
fn guard(start: &Start<'_>, reporter: &Reporter, work: impl FnOnce(&mut Observer, &Reporter)) {
    let Ok((to_us, ours)) = UnixStream::pair() else { return };
    let Ok(slot) = Slot::new() else { return };
    let Ok(children) = Signals::hold_those_of_children() else { return };
    // Should the supervisor die, we come to know how the command ends.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let supervisor = match sys::fork() {
        Ok(Forked::Parent(supervisor)) => supervisor,
        Ok(Forked::Child) => {
            drop((ours, children));
            let supervise = || supervisor::supervise(start, reporter, to_us, slot, work);
            let code = i32::from(catch_unwind(AssertUnwindSafe(supervise)).is_err());
            std::process::exit(code)
        }
        Err(error) => {
            reporter.tell(&Line::Unobserved(error.raw_os_error().unwrap_or(libc::EAGAIN)));
            return;
        }
    };
    drop((to_us, work));
    sys::close_inherited(start.inherited.iter().copied());
    let_go_of_streams([libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO]);
    let_go_of_folder();
    // A terminal's signals are not for us.
    let _ = rustix::process::setsid();
    let Some(supervisor) = Pid::from_raw(supervisor) else { return };
    let (listener, command) = learn(supervisor, &ours);
    let ended = waitpid(Some(supervisor), WaitOptions::empty()).ok().flatten();
    let status = ended.map(|(_, status)| status);
    let well = status.and_then(WaitStatus::exit_status) == Some(0);
    if let (false, Some(listener)) = (well, listener) {
        if let Some(signal) = status.and_then(WaitStatus::terminating_signal) {
            reporter.say(format_args!(
                "the observer was killed (signal {signal}): nothing of this run is learned or recorded"
            ));
        }
        answer(&listener, slot, &children, command, reporter);
    }
}

/// Takes the listener, and learns which process is the command's, while the supervisor lives.
fn learn(supervisor: Pid, stream: &UnixStream) -> (Option<OwnedFd>, Option<Pid>) {
    let (mut listener, mut command) = (None, None);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        match Told::parse(&line) {
            Some(Told::Listener(number)) => {
                listener = take(supervisor, number);
                let mut answer = stream;
                drop(answer.write_all(&[1]));
            }
            Some(Told::Command(number)) => command = Pid::from_raw(number),
            None => {}
        }
    }
    (listener, command)
}

fn take(process: Pid, number: RawFd) -> Option<OwnedFd> {
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, number as ForeignRawFd, PidfdGetfdFlags::empty()).ok()
}

/// Lets every call go on until nobody is left who could make one.
fn answer(
    listener: &OwnedFd,
    mut slot: Slot,
    children: &Signals,
    command: Option<Pid>,
    reporter: &Reporter,
) {
    // What the supervisor took and died with; if it was answered, nobody is there to hear this.
    drop(sys::let_go(listener.as_fd(), slot.last()));
    while !is_over(listener) {
        // What the supervisor did not come to tell may have been before the command became our child.
        reap(command, libc::WNOHANG, reporter);
        let mut asked =
            [PollFd::new(listener, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
        if poll(&mut asked, None).is_err() {
            continue;
        }
        if asked[0].revents().contains(PollFlags::IN)
            && let Ok(told) = slot.receive(listener.as_fd())
        {
            let id = told.id;
            drop(sys::let_go(listener.as_fd(), id));
        }
        while children.next().is_some() {}
    }
    // All are ending: that they can call no more comes first, that they have ended after it.
    reap(command, 0, reporter);
}

fn reap(command: Option<Pid>, options: libc::c_int, reporter: &Reporter) {
    report::reap(command, options, reporter, |line| {
        if line.is_end() {
            reporter.done();
        }
    });
}

/// Descriptor numbers are told, and taken by them.
pub(super) fn number_of(listener: &OwnedFd) -> RawFd {
    listener.as_raw_fd()
}
