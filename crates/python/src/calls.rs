//! What is asked of a store written in Python, until one of Python's own threads answers.
//!
//! A thread of the library's never runs a store's code: it would wait for the
//! GIL, and for a store that does not answer, where others have work.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nearfirst::{Error, Name};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use tokio::sync::oneshot;

use crate::answer;
use crate::entry::Entry;
use crate::kept::Reference;
use crate::name;

/// Threads of one store at most: more than a server answers at once, fewer than a process can have.
pub(crate) const THREADS_MAX: u32 = 64;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Request {
    List {
        folder: Name,
        /// What the names in the folder begin with.
        prefix: Name,
        recursive: bool,
    },
    /// More of a listing that began.
    More {
        folder: Name,
        listing: Py<PyAny>,
    },
    Stat {
        name: Name,
    },
    Read {
        entry: nearfirst::Entry,
        range: Range<u64>,
        /// Whether a longer range that was asked for in parts ends with it.
        is_last: bool,
    },
}

impl Request {
    /// What it is about.
    pub(crate) fn name(&self) -> &Name {
        match self {
            Self::List { folder: name, .. }
            | Self::More { folder: name, .. }
            | Self::Stat { name } => name,
            Self::Read { entry, .. } => &entry.name,
        }
    }
}

/// What is answered.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Names that became known, and the listing if there may be more.
    Names(Vec<nearfirst::Entry>, Option<Py<PyAny>>),
    Entry(nearfirst::Entry),
    Bytes(Bytes),
}

type Told = oneshot::Sender<Result<Reply, Error>>;

/// The calls of a store that wait for a thread.
#[derive(Debug)]
pub(crate) struct Queue {
    store: Reference,
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(Request, Told)>,
    /// Threads that wait for a call.
    idle: usize,
    threads: usize,
    closed: bool,
}

impl Queue {
    /// Of a store that one thread serves, to begin with.
    pub(crate) fn new(store: Reference) -> Arc<Self> {
        let state = Mutex::new(State { threads: 1, ..State::default() });
        Arc::new(Self { store, state, came: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks; the answer is lost if nobody waits for it any more. There is none once it is closed.
    pub(crate) fn ask(&self, request: Request) -> oneshot::Receiver<Result<Reply, Error>> {
        let (told, answer) = oneshot::channel();
        let mut state = self.state();
        if !state.closed {
            state.waiting.push_back((request, told));
        }
        drop(state);
        self.came.notify_one();
        answer
    }

    /// Says that a thread could not be started.
    fn not_started(&self) {
        self.state().threads -= 1;
    }

    /// Ends the threads that wait for calls, and the waits for calls that no thread has taken.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let untaken = std::mem::take(&mut state.waiting);
        drop(state);
        drop(untaken);
        self.came.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// The next call that somebody waits for, and whether another thread is to be started first.
    fn next(&self) -> Option<(Request, Told, bool)> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            match state.waiting.pop_front() {
                Some((_, told)) if told.is_closed() => {}
                Some((request, told)) => {
                    let starts = state.idle == 0 && state.threads < THREADS_MAX as usize;
                    state.threads += usize::from(starts);
                    return Some((request, told, starts));
                }
                None => {
                    state.idle += 1;
                    state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            }
        }
    }
}

/// The calls of a store, for the threads that answer them.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Calls(pub(crate) Arc<Queue>);

#[pymethods]
impl Calls {
    /// Says that no thread could be started where one was to be.
    fn not_started(&self) {
        self.0.not_started();
    }

    /// Waits for the next call; `None` once the store is not used any more.
    fn take(&self, py: Python<'_>) -> Option<Call> {
        loop {
            let (request, told, starts_another) = py.detach(|| self.0.next())?;
            if let Some(store) = self.0.store.get(py) {
                let told = Mutex::new(Some(told));
                return Some(Call { store: store.unbind(), request, told, starts_another });
            }
        }
    }
}

/// One call.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Call {
    #[pyo3(get)]
    store: Py<PyAny>,
    #[pyo3(get)]
    starts_another: bool,
    request: Request,
    told: Mutex<Option<Told>>,
}

impl Call {
    fn tell(&self, answer: Result<Reply, Error>) -> PyResult<()> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        let told = told.ok_or_else(|| PyRuntimeError::new_err("it was answered before"))?;
        // Nobody waits for it any more: the set was closed, or lost patience.
        let _unheard = told.send(answer);
        Ok(())
    }
}

#[pymethods]
impl Call {
    #[getter]
    fn is_listing(&self) -> bool {
        matches!(self.request, Request::List { .. })
    }

    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        name::to_python(py, self.request.name())
    }

    /// What the names to be listed in the folder begin with.
    #[getter]
    fn prefix<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        match &self.request {
            Request::List { prefix, .. } => Some(name::to_python(py, prefix)),
            _ => None,
        }
    }

    #[getter]
    fn recursive(&self) -> bool {
        matches!(self.request, Request::List { recursive: true, .. })
    }

    #[getter]
    fn listing(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match &self.request {
            Request::More { listing, .. } => Some(listing.clone_ref(py)),
            _ => None,
        }
    }

    /// What `read` is called with.
    #[getter]
    fn part(&self) -> Option<(Entry, u64, u64)> {
        match &self.request {
            Request::Read { entry, range, .. } => {
                Some((Entry::new(entry.clone()), range.start, range.end))
            }
            _ => None,
        }
    }

    /// Whether the part is the last of those that are read one after the other.
    #[getter]
    fn is_last(&self) -> bool {
        matches!(self.request, Request::Read { is_last: true, .. })
    }

    /// Says what the store gave.
    ///
    /// # Errors
    /// It is not what a store gives; then it is not answered yet.
    fn answer(&self, given: &Bound<'_, PyAny>) -> PyResult<()> {
        let reply = match &self.request {
            Request::List { .. } | Request::More { .. } => answer::names(given)?,
            Request::Stat { name } => Reply::Entry(answer::entry(given, name)?),
            Request::Read { .. } => Reply::Bytes(answer::bytes(given)?),
        };
        self.tell(Ok(reply))
    }

    /// Says what the store raised.
    fn fail(&self, error: Bound<'_, PyAny>) -> PyResult<()> {
        let py = error.py();
        self.tell(Err(answer::error(py, self.request.name(), PyErr::from_value(error))))
    }
}
