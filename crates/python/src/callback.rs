//! Functions of Python's that the library calls: rank and filter.
//!
//! Threads of the engine call them, so what they raise is kept for whoever
//! waits for the set, and others take over a thread's work while it waits for
//! the GIL.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;

use crate::entry::Entry;

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// What a function raised first, until someone is told.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<PyErr>>);

impl Trouble {
    fn keep(&self, error: PyErr) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(error);
    }

    /// Raises what a function raised, once.
    pub(crate) fn check(&self) -> PyResult<()> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or(Ok(()), Err)
    }
}

/// A function as sets hold it: Python's garbage collector sees through it.
///
/// The library's closures refer to it weakly. A function that refers to its
/// set, as a method of who holds the set does, would otherwise keep it for ever.
#[pyclass(frozen, weakref, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Function(Mutex<Option<Py<PyAny>>>);

#[pymethods]
impl Function {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(held) => held.as_ref().map_or(Ok(()), |function| visit.call(function)),
            // In use, so no garbage.
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(held);
    }
}

impl Function {
    fn get(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref().map(|function| function.clone_ref(py))
    }
}

/// A function that the library calls while some set holds it.
#[derive(Debug)]
pub(crate) struct Callback {
    function: Py<PyWeakrefReference>,
    trouble: Arc<Trouble>,
}

impl Callback {
    /// What the library calls, and what its sets hold.
    pub(crate) fn new(
        function: Bound<'_, PyAny>,
        trouble: &Arc<Trouble>,
    ) -> PyResult<(Self, Py<Function>)> {
        let held = Bound::new(function.py(), Function(Mutex::new(Some(function.unbind()))))?;
        let function = PyWeakrefReference::new(&held)?.unbind();
        Ok((Self { function, trouble: Arc::clone(trouble) }, held.unbind()))
    }

    /// Calls it with an entry; `None` if it raised, its sets are gone, or Python ends.
    fn call<T>(
        &self,
        entry: &nearfirst::Entry,
        answer: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let called = || {
            Python::try_attach(|py| {
                let held = self.function.bind(py).upgrade_as::<Function>().ok()??;
                let function = held.get().get(py)?;
                CALLING.set(true);
                let entry = Bound::new(py, Entry(entry.clone()));
                let answered = entry.and_then(|entry| answer(&function.bind(py).call1((entry,))?));
                CALLING.set(false);
                answered.map_err(|error| self.trouble.keep(error)).ok()
            })
        };
        tokio::task::block_in_place(called).flatten()
    }

    /// As a rank; the lowest to what it fails on.
    pub(crate) fn rank(self) -> nearfirst::Rank {
        Arc::new(move |entry| {
            let number = |value: &Bound<'_, PyAny>| value.extract::<f32>();
            self.call(entry, number).unwrap_or(f32::NEG_INFINITY)
        })
    }

    /// As a filter, which keeps nothing that it fails on.
    pub(crate) fn predicate(self) -> impl Fn(&nearfirst::Entry) -> bool + Send + Sync + 'static {
        move |entry| {
            let truth = |value: &Bound<'_, PyAny>| value.is_truthy();
            self.call(entry, truth).unwrap_or(false)
        }
    }
}

/// # Errors
/// Within a rank or filter function: it is called while its set is waited for, and would wait for itself.
pub(crate) fn not_within_one() -> PyResult<()> {
    if CALLING.get() {
        return Err(PyRuntimeError::new_err("a rank or filter function must not use sets"));
    }
    Ok(())
}
