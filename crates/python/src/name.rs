//! Names for Python: bytes that are no UTF-8 survive as `os.fsdecode` has them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use nearfirst::Name;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A name as `str`.
pub(crate) fn to_python<'py>(py: Python<'py>, name: &Name) -> Bound<'py, PyString> {
    let Ok(text) = OsStr::from_bytes(name.as_bytes()).into_pyobject(py);
    text
}

/// A name as it is shown: without the password that a URL may hold.
#[pyfunction]
pub(crate) fn redacted(name: &[u8]) -> Vec<u8> {
    from_bytes(name).redacted().as_bytes().to_vec()
}

/// A name of Python's, already as bytes.
pub(crate) fn from_bytes(bytes: &[u8]) -> Name {
    Name::new(bytes)
}
