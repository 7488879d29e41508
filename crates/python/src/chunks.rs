//! What is left of a member, in the pieces in which it comes, for Python.

use std::ffi::c_int;

use bytes::Bytes;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::buffer;
use crate::member::Member;

/// What is left of a member, as read-only views of its bytes where they lie.
#[pyclass(frozen, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Chunks {
    member: Py<Member>,
}

impl Chunks {
    pub(crate) fn of(member: Py<Member>) -> Self {
        Self { member }
    }
}

#[pymethods]
impl Chunks {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.member)
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let bytes = self.member.get().next_chunk(py)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let chunk = Bound::new(py, Chunk { bytes })?;
        PyMemoryView::from(&chunk).map(Some)
    }
}

/// Whose memory a view shows.
#[pyclass(frozen, module = "nearfirst")]
#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
}

#[pymethods]
impl Chunk {
    #[expect(unsafe_code, reason = "Python's buffer protocol is a C interface")]
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: Python passes the view; the bytes live, unchanged, as long as the chunk.
        unsafe { buffer::lend(slf.as_any(), &slf.get().bytes, view, flags) }
    }
}
