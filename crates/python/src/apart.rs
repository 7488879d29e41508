//! Work that may take for ever, done by a thread of its own: who waits for it hears Ctrl-C.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use nearfirst::Backing;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::costs::costs;
use crate::wait::SLICE;

/// Work that was begun. Dropped, it is left behind with its thread, which ends when the work does.
#[derive(Debug)]
pub(crate) struct Apart<T>(Receiver<T>);

impl<T: Send + 'static> Apart<T> {
    /// # Errors
    /// No threads.
    pub(crate) fn begin(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let run = move || drop(sender.send(work()));
        std::thread::Builder::new().name("nearfirst-apart".into()).spawn(run)?;
        Ok(Self(receiver))
    }

    /// Waits for its result without the GIL: once, but again after a signal.
    ///
    /// # Errors
    /// What a signal handler raises; what `goes_on` gives, which is asked between slices.
    pub(crate) fn ended(
        &mut self,
        py: Python<'_>,
        goes_on: impl Fn() -> PyResult<()>,
    ) -> PyResult<T> {
        loop {
            let receiver = &mut self.0;
            match py.detach(move || receiver.recv_timeout(SLICE)) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {
                    py.check_signals()?;
                    goes_on()?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the thread that was waited for is gone"));
                }
            }
        }
    }
}

/// Whether a call to the mount of a path may never return.
///
/// # Errors
/// As [`costs`].
pub(crate) fn may_stall(py: Python<'_>, path: &Path) -> PyResult<bool> {
    Ok(costs(py)?.local().backing_by_name(path).is_none_or(Backing::may_stall))
}

/// Does what a mount is asked for: apart where it may not answer.
///
/// # Errors
/// No threads; what a signal handler raises.
pub(crate) fn asked<T: Send + 'static>(
    py: Python<'_>,
    may_stall: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if may_stall { Apart::begin(work)?.ended(py, || Ok(())) } else { Ok(py.detach(work)) }
}
