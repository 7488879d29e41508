//! Waiting on a thread for what the engine's runtime brings.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use fetch::engine::{Engine, blocking};
use tokio::task;

/// Waits in the engine's runtime, in which stores must be asked.
pub(crate) fn wait<F: Future>(engine: &Engine, future: F) -> F::Output {
    blocking(|| parked(engine, future))
}

fn parked<F: Future>(engine: &Engine, future: F) -> F::Output {
    let _entered = engine.handle().enter();
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
