//! A task of an event loop that waits for a member: it has a place of its own in the line.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use nearfirst::Turn;
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::bell::{Bell, Rope};
use crate::member::Member;
use crate::set::{Open, Set};

/// One who waits for the next member of a set, until it leaves.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Waiting {
    members: Py<Set>,
    open: Arc<Open>,
    rope: Arc<Rope>,
    turn: Mutex<Turn>,
}

impl Waiting {
    pub(crate) fn new(members: Py<Set>, open: Arc<Open>, bell: &Bell) -> Self {
        let rope = bell.rope();
        open.joined(&rope);
        Self { members, open, rope, turn: Mutex::default() }
    }

    fn left(&self) {
        self.open.left(&self.rope);
        // A fork has the place of its parent's task, and nobody who serves the line.
        if let Ok(set) = self.open.set() {
            set.leave(&mut self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.left();
    }
}

#[pymethods]
impl Waiting {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.members)
    }

    /// Whom the bell names when it is worth to poll again.
    #[getter]
    fn number(&self) -> u64 {
        self.rope.number
    }

    /// The next member if it is ready; else `None`, and the bell will ring.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<Member>> {
        self.open.goes_on()?;
        let (set, engine) = (self.open.set()?, self.open.engine()?);
        let polled = py.detach(|| {
            let _entered = engine.handle().enter();
            let waker = Waker::from(Arc::clone(&self.rope));
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            set.poll_next(&Context::from_waker(&waker), &mut turn)
        });
        match polled {
            Poll::Pending => self.open.goes_on().map(|()| None),
            Poll::Ready(None) => {
                self.open.goes_on()?;
                self.members.get().ended();
                Err(PyStopAsyncIteration::new_err(()))
            }
            Poll::Ready(Some(member)) => self.members.get().given(py, &self.open, member).map(Some),
        }
    }

    /// Gives up its place; a member that it was woken for is another's.
    fn leave(&self, py: Python<'_>) {
        py.detach(|| self.left());
    }
}
