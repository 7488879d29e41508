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
    mut stream: UnixStream,
    signals: &Signals,
    inherited: &[RawFd],
) -> io::Result<Outcome> {
    let clock = Clock::real();
    let (mut command, mut ended, mut said) = (None, None, Vec::new());
    let mut has_run = false;
    let mut text = Vec::new();
    let (mut until, mut stopping, mut stop) = (None, None, None);
    loop {
        if stop.is_some_and(|signal| sys::stop_by(signal, || has_come(&stream))) {
            stop = None;
        }
        let left = until.map(|until: Duration| until.saturating_sub(clock.now()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let limit = stopping.map_or(left, |_| Some(left.unwrap_or(STOPS_WITHIN).min(STOPS_WITHIN)));
        let limit = limit.and_then(|limit| rustix::time::Timespec::try_from(limit).ok());
        // Signals that come before there is a command wait for it.
        let is_known = command.is_some() || ended.is_some();
        let mut asked = [PollFd::new(&stream, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        let nothing_came = match poll(&mut asked[..=usize::from(is_known)], limit.as_ref()) {
            Ok(ready) => ready == 0,
            Err(rustix::io::Errno::INTR) => false,
            Err(error) => return Err(error.into()),
        };
        let heard = !asked[0].revents().is_empty();
        if is_known {
            stopping = hand_on(signals, command, false).or(stopping);
        }
        if nothing_came
            && let Some(signal) = stopping.take()
            && command.and_then(is_stopped) == Some(true)
        {
            stop = Some(signal);
        }
        if !heard {
            continue;
        }
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer)?;
        text.extend_from_slice(&buffer[..read]);
        let mut is_done = read == 0;
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            match Line::parse(String::from_utf8_lossy(&line).trim_end_matches('\n')) {
                Some(Line::Runs(process)) => {
                    command = Pid::from_raw(process);
                    has_run = true;
                    stopping = hand_on(signals, command, true);
                    // It has its own; ours would keep who reads them from seeing their end.
                    let streams = [libc::STDIN_FILENO, libc::STDOUT_FILENO];
                    let may_go = |fd: &RawFd| !sys::is_locked(*fd);
                    let_go_of_streams(streams.into_iter().filter(may_go));
                    sys::close_inherited(inherited.iter().copied().filter(may_go));
                }
                // It did not come so far as to become its program.
                Some(Line::NotStarted(error)) if !has_run => return Ok(unobserved(error)),
                Some(Line::NotStarted(error)) => {
                    return Ok(Outcome::NotStarted(io::Error::from_raw_os_error(error)));
                }
                Some(Line::Unobserved(error)) => return Ok(unobserved(error)),
                Some(Line::Exited(code)) => ended = Some(Ended::Code(code)),
                Some(Line::Killed(signal)) => ended = Some(Ended::Signal(signal)),
                // Another may have continued it by now.
                Some(Line::Stopped(signal)) if command.and_then(is_stopped) != Some(false) => {
                    // By what cannot be held we have been stopped.
                    stop = Some(signal).filter(|signal| *signal != libc::SIGSTOP);
                    stopping = None;
                }
                Some(Line::Continued) => stop = None,
                Some(Line::Says(what)) => said.push(what),
                Some(Line::Done) => is_done = true,
                Some(Line::Stopped(_)) | None => {}
            }
        }
        if ended.is_some() {
            (command, stop) = (None, None);
            until = until.or_else(|| Some(clock.now() + WRITES_WITHIN));
        }
        if is_done && (ended.is_some() || read == 0) {
            break;
        }
    }
    if ended.is_none() && !has_run {
        let why = io::Error::other("those who would observe it were killed");
        return Ok(Outcome::Unobserved(Unobserved::Refused(why)));
    }
    let how = ended.ok_or_else(|| {
        let why = said.pop().unwrap_or_else(|| "they were killed".to_owned());
        io::Error::other(format!("those who observed the command are gone: {why}"))
    })?;
    Ok(Outcome::Ended { how, said })
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
