//! Objects of Python's that the library uses: functions and stores; what functions raised.

use std::sync::{Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

/// An object as sets hold it: Python's garbage collector sees through it.
///
/// The library refers to it weakly. A function that refers to its set, as a
/// method of who holds the set does, would otherwise keep it for ever.
#[pyclass(frozen, weakref, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Kept(Mutex<Option<Py<PyAny>>>);

#[pymethods]
impl Kept {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(held) => held.as_ref().map_or(Ok(()), |object| visit.call(object)),
            // In use, so no garbage.
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        drop(self.take());
    }
}

impl Kept {
    /// Keeps an object, if none is kept.
    pub(crate) fn fill(&self, object: Py<PyAny>) {
        // One too many is let go of unlocked: that may run Python, which may wait for the lock.
        let mut spare = Some(object);
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = spare.take();
        }
        drop(held);
        drop(spare);
    }

    /// What is kept, which is kept no more.
    pub(crate) fn take(&self) -> Option<Py<PyAny>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|object| object.clone_ref(py))
    }
}

/// A reference to an object that lasts as long as some set keeps it.
#[derive(Debug)]
pub(crate) struct Reference(Py<PyWeakrefReference>);

impl Reference {
    /// What the library refers by, and what its sets keep.
    pub(crate) fn new(object: Bound<'_, PyAny>) -> PyResult<(Self, Py<Kept>)> {
        let py = object.py();
        Self::to(py, Some(object.unbind()))
    }

    /// The same of an object that is still to come.
    pub(crate) fn empty(py: Python<'_>) -> PyResult<(Self, Py<Kept>)> {
        Self::to(py, None)
    }

    fn to(py: Python<'_>, object: Option<Py<PyAny>>) -> PyResult<(Self, Py<Kept>)> {
        let kept = Bound::new(py, Kept(Mutex::new(object)))?;
        let reference = PyWeakrefReference::new(&kept)?.unbind();
        Ok((Self(reference), kept.unbind()))
    }

    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }

    /// What sets keep, while some does.
    pub(crate) fn kept<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Kept>> {
        self.0.bind(py).upgrade_as::<Kept>().ok()?
    }

    /// The object, while some set keeps it.
    pub(crate) fn get<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        Some(self.kept(py)?.get().get(py)?.into_bound(py))
    }
}
