//! What the listener has seen and the observer has not taken yet.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// Calls kept for an observer that does not come: about 200 bytes each. Beyond it they are lost.
const CALLS_MAX: usize = 1 << 17;
/// Calls after which an observer that rests is woken though nothing is urgent.
const CALLS_MANY: usize = 256;

/// A call that a program is about to make, or something that came to light with it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) at: Duration,
    pub(super) thread: u32,
    pub(super) process: u32,
    pub(super) what: What,
}

/// What a call is for.
#[derive(Debug)]
pub(super) enum What {
    /// A process is seen for the first time: who made it, and a descriptor that tells of its end.
    Met { parent: u32, end: Option<OwnedFd> },
    /// It is about to run another program.
    Executes { whole: Vec<u8>, folder: Arc<[u8]> },
    /// After it was about to: the program that it runs by now, and what that was called with.
    Runs { program: Option<Vec<u8>>, arguments: Vec<Arc<[u8]>> },
    /// It is about to open a file.
    Opens { whole: Vec<u8>, flags: u32 },
    /// It is about to change what names mean to it.
    ChangesRoot,
}

/// Shared by the listener, which must not wait, and the observer.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    bell: OwnedFd,
    /// Whether the observer waits for the bell, and not for a moment to pass.
    rests: AtomicBool,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    lost: bool,
    known: HashMap<u32, Known>,
    processes: HashMap<u32, u32>,
}

/// What the listener remembers of a process.
#[derive(Debug, Default)]
pub(super) struct Known {
    threads: Vec<u32>,
    /// Its working folder, while nothing changed it.
    pub(super) folder: Option<Arc<[u8]>>,
    /// Whether it asked to run another program since.
    pub(super) executes: bool,
}

/// What the observer takes at a time.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) calls: Vec<Call>,
    /// Whether some were thrown away.
    pub(super) lost: bool,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            state: Mutex::default(),
            bell,
            rests: AtomicBool::default(),
            is_closed: AtomicBool::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody will take anything any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        *self.state() = State::default();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The process that a thread belongs to, if that is known.
    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        self.state().processes.get(&thread).copied()
    }

    /// Remembers a thread; whether its process is new.
    pub(super) fn meet(&self, thread: u32, process: u32) -> bool {
        let mut state = self.state();
        state.processes.insert(thread, process);
        let is_new = !state.known.contains_key(&process);
        state.known.entry(process).or_default().threads.push(thread);
        is_new
    }

    /// Does something with what is remembered of a process, if anything is.
    pub(super) fn with<T>(&self, process: u32, change: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.state().known.get_mut(&process).map(change)
    }

    /// A process is gone; its number may be given to another.
    pub(super) fn forget(&self, process: u32) {
        let mut state = self.state();
        for thread in state.known.remove(&process).into_iter().flat_map(|known| known.threads) {
            state.processes.remove(&thread);
        }
    }

    /// Adds calls; whether the observer should be woken for them.
    pub(super) fn add(&self, calls: impl Iterator<Item = Call>) -> bool {
        let mut state = self.state();
        let before = state.calls.len();
        state.calls.extend(calls);
        if state.calls.len() > CALLS_MAX {
            state.calls.truncate(CALLS_MAX);
            state.lost = true;
        }
        let new = &state.calls[before.min(CALLS_MAX)..];
        let urgent =
            new.iter().any(|call| matches!(call.what, What::Executes { .. } | What::Runs { .. }));
        urgent || before < CALLS_MANY && state.calls.len() >= CALLS_MANY
    }

    /// Wakes the observer if that is urgent, or if it rests and there is something to take.
    pub(super) fn ring(&self, urgent: bool) {
        if urgent || !self.state().calls.is_empty() && self.rests.swap(false, Ordering::AcqRel) {
            // A bell that rings already cannot be rung; that is as well.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// What a thread was about to do it did not do: nothing that it asked for since then counts.
    pub(super) fn take_back(&self, thread: u32, since: Duration) {
        let mut state = self.state();
        while state.calls.pop_if(|call| call.thread == thread && call.at >= since).is_some() {}
    }

    pub(super) fn take(&self) -> Taken {
        let mut state = self.state();
        Taken { calls: std::mem::take(&mut state.calls), lost: std::mem::take(&mut state.lost) }
    }

    /// Asks for the bell at the next call; `false` if one is there already.
    pub(super) fn rest(&self) -> bool {
        self.rests.store(true, Ordering::Release);
        self.state().calls.is_empty()
    }

    /// The bell has been heard.
    pub(super) fn hush(&self) {
        self.rests.store(false, Ordering::Release);
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
