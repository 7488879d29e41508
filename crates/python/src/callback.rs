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

/// Calls a function with an entry; `None` if it raised, or Python ends.
fn call<T>(
    function: &Py<PyAny>,
    entry: &nearfirst::Entry,
    trouble: &Trouble,
    answer: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send,
) -> Option<T> {
    let called = || {
        Python::try_attach(|py| {
            CALLING.set(true);
            let entry = Bound::new(py, Entry(entry.clone()));
            let answered = entry.and_then(|entry| answer(&function.bind(py).call1((entry,))?));
            CALLING.set(false);
            answered.map_err(|error| trouble.keep(error)).ok()
        })
    };
    tokio::task::block_in_place(called).flatten()
}

/// The rank that a function gives; the lowest to what it fails on.
pub(crate) fn rank(function: Py<PyAny>, trouble: Arc<Trouble>) -> nearfirst::Rank {
    Arc::new(move |entry| {
        let number = |value: &Bound<'_, PyAny>| value.extract::<f32>();
        call(&function, entry, &trouble, number).unwrap_or(f32::NEG_INFINITY)
    })
}

/// Whether a function keeps an entry; not if it fails on it.
pub(crate) fn predicate(
    function: Py<PyAny>,
    trouble: Arc<Trouble>,
) -> impl Fn(&nearfirst::Entry) -> bool + Send + Sync + 'static {
    move |entry| {
        let truth = |value: &Bound<'_, PyAny>| value.is_truthy();
        call(&function, entry, &trouble, truth).unwrap_or(false)
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
