//! Functions of Python's that the library calls: rank and filter.
//!
//! Threads of the engine call them, so what they raise is kept for whoever
//! waits for the set, and others take over a thread's work while it waits for
//! the GIL.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::entry::Entry;
use crate::kept::{Kept, Reference};

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

/// A function that the library calls while some set holds it.
#[derive(Debug)]
pub(crate) struct Callback {
    function: Reference,
    trouble: Arc<Trouble>,
}

impl Callback {
    /// What the library calls, and what its sets hold.
    pub(crate) fn new(
        function: Bound<'_, PyAny>,
        trouble: &Arc<Trouble>,
    ) -> PyResult<(Self, Py<Kept>)> {
        let (function, kept) = Reference::new(function)?;
        Ok((Self { function, trouble: Arc::clone(trouble) }, kept))
    }

    /// Calls it with an entry; `None` if it raised, its sets are gone, or Python ends.
    fn call<T>(
        &self,
        entry: &nearfirst::Entry,
        answer: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let called = || {
            Python::try_attach(|py| {
                let function = self.function.get(py)?;
                CALLING.set(true);
                let entry = Bound::new(py, Entry::new(entry.clone()));
                let answered = entry.and_then(|entry| answer(&function.call1((entry,))?));
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
