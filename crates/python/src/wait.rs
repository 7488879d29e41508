//! Waiting so that others run meanwhile and Ctrl-C is heard.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use nearfirst::Engine;
use pyo3::prelude::*;
use tokio::task::JoinHandle;

use crate::owned::Owned;

/// How long a wait may take no notice of a signal or of a closed set: shorter than a person notices.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future without the GIL, in the engine's runtime.
///
/// # Errors
/// What a signal handler raises; what `goes_on` gives, which is asked between slices.
pub(crate) fn wait<F>(
    py: Python<'_>,
    engine: &Engine,
    goes_on: impl Fn() -> PyResult<()>,
    future: F,
) -> PyResult<F::Output>
where
    F: Future<Output: Send> + Send,
{
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        let polled = py.detach(|| slice(engine, future.as_mut(), &waker));
        if let Poll::Ready(output) = polled {
            return Ok(output);
        }
        py.check_signals()?;
        goes_on()?;
    }
}

/// As [`wait`], of what may call a function of Python's, and be long about it: a task of the engine's
/// polls it, which is told when nobody waits any more. A signal that came within the function would be
/// the function's, if the thread that waits called it.
///
/// # Errors
/// As [`wait`].
pub(crate) fn wait_for_task<T: Send + 'static>(
    py: Python<'_>,
    engine: &Engine,
    goes_on: impl Fn() -> PyResult<()>,
    future: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    let mut task = Task(Owned::new(engine.handle().spawn(future)));
    let ended = wait(py, engine, goes_on, task.0.get_mut()?)?;
    Ok(ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
}

/// A task that ends when it is let go of.
struct Task<T>(Owned<JoinHandle<T>>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        // A fork has no thread that would end it.
        if let Ok(task) = self.0.get() {
            task.abort();
        }
    }
}

/// Polls once, and waits until it is worth to poll again or the slice is over.
fn slice<F: Future>(engine: &Engine, future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    let polled = {
        let _entered = engine.handle().enter();
        future.poll(&mut Context::from_waker(waker))
    };
    if polled.is_pending() {
        std::thread::park_timeout(SLICE);
    }
    polled
}
