//! The interpreter that imports the module.

#![expect(unsafe_code, reason = "pyo3 has no call that tells interpreters apart")]

use pyo3::exceptions::PyImportError;
use pyo3::{PyResult, Python, ffi};

/// What the system calls the main one.
const MAIN: i64 = 0;

/// # Errors
/// `ImportError` in any but the main one: the classes, the engines and what is called at Python's end
/// are those of the process.
pub(crate) fn is_main(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: this thread is attached to an interpreter.
    if unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) } == MAIN {
        return Ok(());
    }
    let reason = "nearfirst works in the main interpreter of a process only, and this is another";
    Err(PyImportError::new_err(reason))
}
