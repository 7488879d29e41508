//! A process that stands in front of the one that works, so that a run ends even where a thread
//! of it cannot.
//!
//! A thread that waits for a hung FUSE program or a dead server is beyond any signal, and a process
//! is there until its last thread has ended. So where something is mounted that may not answer, the
//! work is done by a child: it says when it is done, and whoever started the run waits for the
//! parent, which ends then.

#![expect(unsafe_code, reason = "fork and signal masks have no safe interface")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::str::SplitAsciiWhitespace;
use std::sync::OnceLock;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use nearfirst::Local;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use watch::command::stop_as;

use crate::sets::interrupt;

/// How long a child that said that it was done may take to be gone: its memory is given back
/// meanwhile. It is left behind after that.
const GONE_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// How often it is looked whether a child that says nothing was killed.
const LOOKS_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How often that is, at most, of a child that was told to end: it may have to tidy up.
const LOOKS_UNTIL_IT_ENDS: u32 = 30;

/// How long is looked whether a child is stopped by what has come to its parent, and how often.
const STOP_LOOKS: u32 = 20;
const STOP_LOOKS_EVERY: Duration = Duration::from_millis(5);

/// What a main thread has.
const STACK_BYTES: usize = 8 << 20;

/// The exit code of a program that panicked.
const PANICKED: u8 = 101;

/// What ends a run early, and so is passed on.
const ENDS: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// What stops one and has it go on, which is passed on, too.
const STOPS: [i32; 2] = [libc::SIGTSTP, libc::SIGCONT];

/// Where the child says its exit code, if there is a parent to hear it.
static DONE: OnceLock<OwnedFd> = OnceLock::new();

/// Does `work`, in a child where something is mounted that may not answer.
///
/// To be called while the process has a single thread, and little memory, which is copied.
pub(crate) fn of(work: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    let mounts = Local::default().mounts().unwrap_or_default();
    if mounts.all().iter().any(|mount| mount.backing.may_stall())
        && let Ok(Some(front)) = Front::begin()
    {
        return front.wait();
    }
    let exit = match catch_unwind(AssertUnwindSafe(|| beside_main(work))) {
        Ok(exit) => exit,
        // It was said on stderr. A thread that hangs must not keep the one in front waiting for it.
        Err(_) if DONE.get().is_some() => ExitCode::from(PANICKED),
        Err(panic) => resume_unwind(panic),
    };
    if let Some(code) = (0..=u8::MAX).find(|code| ExitCode::from(*code) == exit) {
        tell(code);
        if DONE.get().is_some() {
            // SAFETY: nothing of ours is left to be done. What else a process does at its end would
            // keep the one in front waiting.
            unsafe { libc::_exit(code.into()) };
        }
    }
    exit
}

/// Does `work` in a thread of its own in a child. The kernel gives a signal to the main thread, even
/// while that waits for a dead mount and cannot take it.
fn beside_main(work: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    let mut work = Some(work);
    let mut run = || work.take().map_or(ExitCode::FAILURE, |work| work());
    if DONE.get().is_none() {
        return run();
    }
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("main".into()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, &mut run).map(ScopedJoinHandle::join)
    });
    match done {
        Ok(Ok(exit)) => exit,
        Ok(Err(panic)) => resume_unwind(panic),
        // No thread can be had.
        Err(_) => run(),
    }
}

/// Says, in a child, that the work is done; the process may end any time from then on.
pub(crate) fn tell(code: u8) {
    if let Some(done) = DONE.get() {
        // Without a parent nobody waits.
        let _ = rustix::io::write(done, &[code]);
        // Who reads what was written, or writes what was read, is not to wait for what is left behind.
        let _ = rustix::stdio::dup2_stdin(done);
        let _ = rustix::stdio::dup2_stdout(done);
        let _ = rustix::stdio::dup2_stderr(done);
    }
}

/// The parent's side.
struct Front {
    child: Pid,
    /// Without it, it is enough to hear that the work is done.
    gone: Option<OwnedFd>,
    done: OwnedFd,
    signals: OwnedFd,
}

impl Front {
    /// Makes the child; `None` in the child itself.
    fn begin() -> io::Result<Option<Self>> {
        let (done, said) = pipe_with(PipeFlags::CLOEXEC)?;
        let (signals, mask) = take_signals()?;
        let parent = rustix::process::getpid();
        // SAFETY: the caller is the only thread, so that nothing is left locked in the child.
        let forked = unsafe { libc::fork() };
        let failed = (forked < 0).then(io::Error::last_os_error);
        if forked <= 0 {
            set_mask(&mask);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        // From here on there are two, and an error would have both do the work.
        let Some(child) = Pid::from_raw(forked) else {
            // A parent that was killed leaves no child at work.
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
            if rustix::process::getppid() != Some(parent) {
                let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
            }
            DONE.get_or_init(|| said);
            Local::be_left_behind();
            return Ok(None);
        };
        let gone = rustix::process::pidfd_open(child, PidfdFlags::empty()).ok();
        Ok(Some(Self { child, gone, done, signals }))
    }

    /// Waits until the work is done, or has ended in another way, or is not to be waited for.
    fn wait(&self) -> ExitCode {
        let mut told_to_end = None;
        loop {
            let of = [self.done.as_fd(), self.signals.as_fd()];
            let [done, signalled] = ready(of, &LOOKS_EVERY);
            if done {
                return self.ended();
            }
            if signalled {
                let told = self.pass_on().filter(|signal| ENDS.contains(signal));
                told_to_end = told.map(|signal| (signal, LOOKS_UNTIL_IT_ENDS)).or(told_to_end);
                continue;
            }
            if let Some(status) = self.killed() {
                return exit_of(status);
            }
            told_to_end = match told_to_end {
                Some((signal, 0)) => return end_by(signal),
                Some((signal, looks)) => Some((signal, looks - 1)),
                None => None,
            };
        }
    }

    /// How a child was ended of which a thread goes on, since it waits for a dead mount: nobody can
    /// wait for its end.
    fn killed(&self) -> Option<i32> {
        status_of(&self.stat()?)
    }

    /// Passes a signal on. What a terminal's keys send has gone to the child, too, if there was one
    /// by then; the second is nothing new to it.
    fn pass_on(&self) -> Option<i32> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        let read = rustix::io::read(&self.signals, &mut info).ok()?;
        let start = info.first_chunk().filter(|_| read == info.len())?;
        let signal = i32::try_from(u32::from_ne_bytes(*start)).ok()?;
        if signal == libc::SIGTSTP {
            self.stop();
        } else {
            self.send(signal);
        }
        Some(signal)
    }

    /// Stops the child, and this process with it. What went to the whole group stops the child, too: a
    /// second one could do so again once it goes on.
    fn stop(&self) {
        let is_stopped = (0..STOP_LOOKS).any(|_| {
            store::pause(STOP_LOOKS_EVERY);
            self.stat().is_some_and(|stat| state_of(&stat) == Some("T")) || is_to_go_on()
        });
        // To stop would forget it. It is passed on next.
        if is_to_go_on() {
            return;
        }
        if !is_stopped {
            self.send(libc::SIGTSTP);
        }
        stop_as(libc::SIGTSTP);
    }

    fn send(&self, signal: i32) {
        // SAFETY: a call without memory; the child has not been waited for, so that the number is its own.
        unsafe { libc::kill(self.child.as_raw_nonzero().get(), signal) };
    }

    fn stat(&self) -> Option<Vec<u8>> {
        std::fs::read(format!("/proc/{}/stat", self.child.as_raw_nonzero())).ok()
    }

    /// The exit of a child that has said its code, or has ended without a word.
    fn ended(&self) -> ExitCode {
        let mut code = [0];
        if matches!(rustix::io::read(&self.done, &mut code), Ok(1)) {
            if let Some(gone) = &self.gone {
                ready([gone.as_fd()], &GONE_WITHIN);
            }
            return ExitCode::from(code[0]);
        }
        let status = rustix::process::waitpid(Some(self.child), WaitOptions::empty());
        status.ok().flatten().map_or(ExitCode::FAILURE, |(_, status)| exit_of(status.as_raw()))
    }
}

/// How a process that is ending ends, from its `/proc/PID/stat`: its first thread has ended, or
/// cannot, though all are to. As `wait` tells it.
fn status_of(stat: &[u8]) -> Option<i32> {
    let mut fields = after_name(stat)?;
    let state = fields.next()?;
    let status = fields.nth(48)?.parse().ok()?;
    // That of one that is stopped is not how it ended.
    (state == "Z" || state == "D" && status != 0).then_some(status)
}

/// The letter of a process's state.
fn state_of(stat: &[u8]) -> Option<&str> {
    after_name(stat)?.next()
}

/// The fields of a `/proc/PID/stat` behind the program's name, in which there may be spaces and brackets.
fn after_name(stat: &[u8]) -> Option<SplitAsciiWhitespace<'_>> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    Some(std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace())
}

/// How a process ended, as `wait` tells it, as an exit of our own.
fn exit_of(status: i32) -> ExitCode {
    if libc::WIFSIGNALED(status) {
        return end_by(libc::WTERMSIG(status));
    }
    u8::try_from(libc::WEXITSTATUS(status)).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Which of these have something to read, after `limit` at most.
fn ready<const N: usize>(of: [BorrowedFd<'_>; N], limit: &Timespec) -> [bool; N] {
    let mut polled = of.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
    // A call that fails tells nothing, and is made again.
    let _ = poll(&mut polled, Some(limit));
    polled.map(|one| !one.revents().is_empty())
}

/// Has the signals that are passed on wait in a descriptor; the mask that was set before.
///
/// One that is ignored would come there, too, and end what was to live on.
fn take_signals() -> io::Result<(OwnedFd, libc::sigset_t)> {
    let is_ignored = interrupt::ignored();
    let mut taken = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `taken` is made by `sigemptyset` before it is used, `before` by `pthread_sigmask`; the
    // descriptor is nobody else's.
    unsafe {
        libc::sigemptyset(taken.as_mut_ptr());
        for signal in ENDS.into_iter().chain(STOPS).filter(|signal| !is_ignored(*signal)) {
            libc::sigaddset(taken.as_mut_ptr(), signal);
        }
        let signals = libc::signalfd(-1, taken.as_ptr(), libc::SFD_CLOEXEC);
        if signals < 0 {
            return Err(io::Error::last_os_error());
        }
        let signals = OwnedFd::from_raw_fd(signals);
        match libc::pthread_sigmask(libc::SIG_BLOCK, taken.as_ptr(), before.as_mut_ptr()) {
            0 => Ok((signals, before.assume_init())),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Whether what has a process go on waits to be passed on.
fn is_to_go_on() -> bool {
    let mut pending = MaybeUninit::uninit();
    // SAFETY: `sigpending` makes the set before it is used.
    unsafe {
        libc::sigpending(pending.as_mut_ptr()) == 0
            && libc::sigismember(pending.as_ptr(), libc::SIGCONT) == 1
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: `mask` is a whole set of signals.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Ends the process as the signal ended the child.
fn end_by(signal: i32) -> ExitCode {
    // What there is to see in a core dump is in the child's.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let mut all = MaybeUninit::uninit();
    // SAFETY: the set is made before it is used, and no handler of ours is in the way.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::sigemptyset(all.as_mut_ptr());
        set_mask(&all.assume_init());
        libc::raise(signal);
    }
    // One that does not end a process.
    ExitCode::from(128 + u8::try_from(signal).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_key_that_came_before_there_was_a_child_reaches_it() {
        // Shells have what they run in the background ignore it.
        // SAFETY: no handler of this process is replaced: it has none.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        // It begins with the mask of this thread.
        let mut child = Command::new("sleep").arg("60").spawn().expect("started");
        let (signals, mask) = take_signals().expect("descriptors");
        let mut key = [0_i32; size_of::<libc::siginfo_t>() / size_of::<i32>()];
        (key[0], key[2]) = (libc::SIGINT, libc::SI_KERNEL);
        // SAFETY: `key` is as large as the `siginfo_t` that the kernel reads.
        let sent = unsafe {
            let (process, thread) = (libc::getpid(), libc::gettid());
            let key = key.as_ptr();
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, libc::SIGINT, key)
        };
        assert_eq!(sent, 0);
        let (done, _said) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let front = Front { child: Pid::from_child(&child), gone: None, done, signals };
        assert_eq!(front.pass_on(), Some(libc::SIGINT));
        assert_eq!(child.wait().expect("a child").signal(), Some(libc::SIGINT));
        set_mask(&mask);
    }

    #[test]
    fn what_has_it_go_on_while_it_looks_whether_to_stop_is_passed_on() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("started");
        let (signals, mask) = take_signals().expect("descriptors");
        // SAFETY: a call without memory; this thread has it wait.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGCONT) };
        let (done, _said) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let front = Front { child: Pid::from_child(&child), gone: None, done, signals };
        front.stop();
        assert_ne!(front.stat().as_deref().and_then(state_of), Some("T"));
        assert_eq!(front.pass_on(), Some(libc::SIGCONT));
        child.kill().expect("a child");
        child.wait().expect("a child");
        set_mask(&mask);
    }

    /// A line of `/proc/PID/stat` of a process in that state, with that status.
    fn stat(state: &str, status: i32) -> Vec<u8> {
        format!("7 (a) Z (b) {state} {}{status}\n", "0 ".repeat(48)).into_bytes()
    }

    #[test]
    fn a_process_is_ending_when_its_first_thread_has_ended_or_cannot() {
        let ways = [("S", 0), ("Z", 9), ("Z", 0), ("D", 0), ("D", 9), ("T", 19)];
        let found = ways.map(|(state, status)| status_of(&stat(state, status)));
        assert_eq!(found, [None, Some(9), Some(0), None, Some(9), None]);
        let own = std::fs::read("/proc/self/stat").expect("it lives");
        assert_eq!((status_of(&own), status_of(b"")), (None, None));
    }
}
