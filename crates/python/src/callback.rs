//! Functions of Python's that the library calls: rank and filter.
//!
//! Threads of the engine call them, so what they raise is kept for whoever
//! waits for the set, where Python's garbage collector sees it, and others take over a thread's work while it waits for
//! the GIL.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::IntoPyDict as _;

use crate::costs;
use crate::entry::Entry;
use crate::kept::{Kept, Reference};
use crate::wait::SLICE;

/// Calls that are under way. No locks: a fork would have them as they were.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// Python ends: no more calls are begun.
static OVER: AtomicBool = AtomicBool::new(false);

/// A call, until it returns.
struct UnderWay;

impl UnderWay {
    /// `None` once Python ends.
    fn begun() -> Option<Self> {
        // In this order: who ends Python sees it, or it sees that.
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        let begun = Self;
        (!OVER.load(Ordering::SeqCst)).then_some(begun)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Of a fork within a call, it is the parent's.
        let less = |calls: usize| Some(calls.saturating_sub(1));
        let _before = UNDER_WAY.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }
}

/// Begins no more calls, and waits for those that are under way: a thread that runs Python's code
/// when Python ends is ended by it in the middle of that, which takes the process with it. What reads
/// taught is written down.
///
/// # Errors
/// What a signal handler raises.
#[pyfunction]
fn python_ends(py: Python<'_>) -> PyResult<()> {
    OVER.store(true, Ordering::SeqCst);
    costs::save(py);
    while UNDER_WAY.load(Ordering::SeqCst) > 0 {
        py.detach(|| std::thread::park_timeout(SLICE));
        py.check_signals()?;
    }
    Ok(())
}

/// In a fork: the threads that make calls are its parent's.
#[pyfunction]
fn forked() {
    UNDER_WAY.store(0, Ordering::SeqCst);
    OVER.store(false, Ordering::SeqCst);
}

/// Has the end of Python wait for calls.
pub(crate) fn end_with_python(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    py.import("atexit")?.getattr("register")?.call1((wrap_pyfunction!(python_ends, module)?,))?;
    let in_child = [("after_in_child", wrap_pyfunction!(forked, module)?)].into_py_dict(py)?;
    py.import("os")?.getattr("register_at_fork")?.call((), Some(&in_child))?;
    Ok(())
}

thread_local! {
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// What a function raised first, until someone is told.
///
/// It is a reference: what was raised refers to who called, who may hold the set, and so its sets
/// keep it as they keep the function.
#[derive(Debug)]
pub(crate) struct Trouble {
    raised: Reference,
    /// Python ended before the function was called.
    is_late: AtomicBool,
}

impl Trouble {
    fn keep(&self, py: Python<'_>, error: PyErr) {
        if let Some(kept) = self.raised.kept(py) {
            kept.get().fill(error.into_value(py).into_any());
        }
    }

    /// Raises what a function raised, once.
    pub(crate) fn check(&self) -> PyResult<()> {
        if self.is_late.swap(false, Ordering::Relaxed) {
            let ends = "Python ends: rank and filter functions are not called any more";
            return Err(PyRuntimeError::new_err(ends));
        }
        let told = Python::try_attach(|py| {
            let raised = self.raised.kept(py)?.get().take()?;
            Some(PyErr::from_value(raised.into_bound(py)))
        });
        told.flatten().map_or(Ok(()), Err)
    }
}

/// What a function raised, but for what would pass for the end of the members.
fn no_end(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py)
        && !error.is_instance_of::<PyStopAsyncIteration>(py)
    {
        return error;
    }
    // As of a generator that raises one.
    let class = error.get_type(py);
    let told = PyRuntimeError::new_err(format!("a rank or filter function raised {class}"));
    told.set_cause(py, Some(error));
    told
}

/// A function that the library calls while some set holds it.
#[derive(Debug)]
pub(crate) struct Callback {
    function: Reference,
    trouble: Arc<Trouble>,
}

impl Callback {
    /// What the library calls, and what its sets hold.
    pub(crate) fn new(function: Bound<'_, PyAny>) -> PyResult<(Self, [Py<Kept>; 2])> {
        let (raised, kept) = Reference::empty(function.py())?;
        let (function, kept_function) = Reference::new(function)?;
        let trouble = Arc::new(Trouble { raised, is_late: AtomicBool::new(false) });
        Ok((Self { function, trouble }, [kept_function, kept]))
    }

    /// What its sets are told of.
    pub(crate) fn trouble(&self) -> Arc<Trouble> {
        Arc::clone(&self.trouble)
    }

    /// Calls it with an entry; `None` if it raised, its sets are gone, or Python ends, which who
    /// waits for them is told as well.
    fn call<T>(
        &self,
        entry: &nearfirst::Entry,
        answer: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let called = || {
            let Some(_under_way) = UnderWay::begun() else {
                self.trouble.is_late.store(true, Ordering::Relaxed);
                return None;
            };
            Python::try_attach(|py| {
                let function = self.function.get(py)?;
                CALLING.set(true);
                let entry = Bound::new(py, Entry::new(entry.clone()));
                let answered = entry.and_then(|entry| answer(&function.call1((entry,))?));
                CALLING.set(false);
                answered.map_err(|error| self.trouble.keep(py, no_end(py, error))).ok()
            })
        };
        tokio::task::block_in_place(called).flatten()
    }

    /// As a rank; the lowest to what it fails on.
    pub(crate) fn rank(self) -> nearfirst::Rank {
        Arc::new(move |entry| {
            let number = |value: &Bound<'_, PyAny>| value.extract::<f64>();
            self.call(entry, number).unwrap_or(f64::NEG_INFINITY)
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
