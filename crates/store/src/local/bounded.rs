//! Calls that may never return, such as those to a dead network mount.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::sync::{Mutex, TryLockError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::sys::leave_signals_to_others;
use crate::sync::lock;

/// How long a thread whose call has returned waits for another: of many files on one mount each is
/// asked for by a call, and to begin a thread takes longer than most calls.
const IDLE_MAX: Duration = Duration::from_millis(100);

type Call = Box<dyn FnOnce() + Send>;

/// Threads that wait for a call.
type Threads = Vec<(ThreadId, Sender<Call>)>;

/// Those of the process of this number: a fork has none of them.
static IDLE: Mutex<(u32, Threads)> = Mutex::new((0, Vec::new()));

/// Runs `call` in a thread of its own and waits for it no longer than `limit`.
///
/// A call that does not return is left behind with its thread: the system
/// offers no way to take it back.
///
/// # Errors
/// The system's, where no thread can be had.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    Ok(begun(call)?.recv_timeout(limit).ok())
}

/// Runs `call`, which may never return, in a thread of its own, which is left behind then; what it
/// returns is received when it does.
///
/// # Errors
/// The system's, where no thread can be had.
pub fn begun<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let mut call: Call = Box::new(move || drop(sender.send(call())));
    while let Some((_, thread)) = idle(Vec::pop).flatten() {
        match thread.send(call) {
            Ok(()) => return Ok(receiver),
            // A call of its panicked.
            Err(SendError(returned)) => call = returned,
        }
    }
    thread::Builder::new().name("bounded".into()).spawn(move || work(call))?;
    Ok(receiver)
}

/// What may take long to be let go of, such as a file of a mount that may not answer. Counted until that is
/// done, as it keeps its mount busy.
#[derive(Debug)]
pub struct Lingering<T>(Option<T>);

static LINGERING: AtomicUsize = AtomicUsize::new(0);

impl<T> Lingering<T> {
    /// Of this.
    pub fn new(what: T) -> Self {
        LINGERING.fetch_add(1, Ordering::AcqRel);
        Self(Some(what))
    }
}

impl<T> Drop for Lingering<T> {
    fn drop(&mut self) {
        drop(self.0.take());
        LINGERING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether something in this process is [`Lingering`].
pub fn does_anything_linger() -> bool {
    LINGERING.load(Ordering::Acquire) > 0
}

fn work(mut call: Call) {
    leave_signals_to_others();
    loop {
        call();
        let own = thread::current().id();
        let (thread, next) = mpsc::channel();
        if idle(|threads| threads.push((own, thread))).is_none() {
            return;
        }
        let came = match next.recv_timeout(IDLE_MAX) {
            // Who has taken it out of the list by now is about to send.
            Err(RecvTimeoutError::Timeout) if !has_left(own) => next.recv().ok(),
            came => came.ok(),
        };
        let Some(next) = came else { return };
        call = next;
    }
}

/// Takes a thread out of the list; whether it was there.
fn has_left(own: ThreadId) -> bool {
    let mut idle = lock(&IDLE);
    let at = idle.1.iter().position(|(thread, _)| *thread == own);
    at.map(|at| idle.1.swap_remove(at)).is_some()
}

/// Uses the list of threads that wait; `None` if another does, who in a fork may be no more.
#[expect(clippy::mem_forget, reason = "to drop it could wait for a thread that a fork has not")]
fn idle<T>(use_it: impl FnOnce(&mut Threads) -> T) -> Option<T> {
    let mut idle = match IDLE.try_lock() {
        Ok(idle) => idle,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    let (process, threads) = &mut *idle;
    let own = std::process::id();
    if *process != own {
        std::mem::forget(std::mem::take(threads));
        *process = own;
    }
    Some(use_it(threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_returns_is_waited_for() {
        assert_eq!(within(Duration::from_mins(1), || 7).expect("a thread"), Some(7));
    }

    #[test]
    fn a_thread_takes_one_call_after_the_other() {
        let threads = (0..100).map(|_| {
            let id = within(Duration::from_mins(1), || std::thread::current().id());
            id.expect("a thread").expect("it returns")
        });
        let threads: std::collections::HashSet<_> = threads.collect();
        assert!(threads.len() < 50, "{} threads", threads.len());
    }

    #[test]
    fn a_call_that_hangs_is_left() {
        let (keep, hang) = mpsc::channel::<()>();
        let found = within(Duration::from_millis(1), move || hang.recv().is_ok());
        assert_eq!(found.expect("a thread"), None);
        drop(keep);
    }
}
