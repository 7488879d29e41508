//! Waiting on a thread for what the engine's runtime brings.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use fetch::engine::Engine;
use tokio::runtime::Handle;
use tokio::task;

thread_local! {
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Waits in the engine's runtime, in which stores must be asked.
///
/// Also within what is waited for: the predicate of a set may ask another one.
pub(crate) fn wait<F: Future>(engine: &Engine, future: F) -> F::Output {
    let is_of_engine = |handle: Handle| handle.id() == engine.handle().id();
    let is_task = task::try_id().is_some() && Handle::try_current().is_ok_and(is_of_engine);
    if is_task && !WAITS.get() {
        // Another thread does the work of this one meanwhile, if it is of the runtime.
        task::block_in_place(|| parked(engine, future))
    } else {
        parked(engine, future)
    }
}

fn parked<F: Future>(engine: &Engine, future: F) -> F::Output {
    let _entered = engine.handle().enter();
    let _waiting = Waiting::begin();
    // A task that waits here does not come to where it is given time anew.
    let mut future = pin!(task::unconstrained(future));
    let unpark = Arc::new(Unpark { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !unpark.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// Says that this thread waits, while it lives.
struct Waiting {
    before: bool,
}

impl Waiting {
    fn begin() -> Self {
        Self { before: WAITS.replace(true) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITS.set(self.before);
    }
}

/// Wakes the thread that waits; of several waits of one thread, the one that is meant.
struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
