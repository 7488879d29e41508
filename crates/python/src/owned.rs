//! What belongs to one process: a fork of it has a copy without the threads behind it.

use std::mem::ManuallyDrop;

use nearfirst::Process;
use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;

/// A value that a fork of its process neither uses nor drops.
///
/// A fork copies locks in whatever state they are, and none of the threads
/// that would release them: dropping the copy may wait for ever.
#[derive(Debug)]
pub(crate) struct Owned<T> {
    value: ManuallyDrop<T>,
    process: Process,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: Process::this() }
    }

    /// Whether this is the process that it was made in.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == Process::this()
    }

    /// The value, in the process that it was made in.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.ours().map(|()| &*self.value)
    }

    /// As [`Owned::get`], to be changed.
    pub(crate) fn get_mut(&mut self) -> PyResult<&mut T> {
        self.ours().map(|()| &mut *self.value)
    }

    fn ours(&self) -> PyResult<()> {
        if self.is_ours() {
            return Ok(());
        }
        let made = self.process.number();
        Err(PyRuntimeError::new_err(format!(
            "it was opened by process {made}, which this is a fork of; open sets after the fork"
        )))
    }
}

impl<T> Drop for Owned<T> {
    #[expect(
        unsafe_code,
        reason = "a value that must not be dropped everywhere is dropped by hand"
    )]
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped here only, and not used after: this is the owner's drop.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
