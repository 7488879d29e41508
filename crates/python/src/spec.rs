//! Specs: which objects are wanted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use nearfirst::Name;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::error;
use crate::name;

/// Which objects are wanted; made by `glob`, `query`, `links`, `program` and `list_of`.
#[pyclass(frozen, eq, module = "nearfirst")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec(pub(crate) nearfirst::Spec);

#[pymethods]
impl Spec {
    #[staticmethod]
    fn parse(py: Python<'_>, text: &[u8]) -> PyResult<Self> {
        nearfirst::Spec::parse(text).map(Self).map_err(|error| error::of_spec(py, error))
    }

    #[staticmethod]
    fn glob(pattern: &[u8]) -> Self {
        Self(nearfirst::Spec::glob(pattern))
    }

    #[staticmethod]
    fn query(prefix: &[u8], text: String, suffix: &[u8]) -> Self {
        Self(nearfirst::Spec::query(Name::new(prefix), text, suffix))
    }

    #[staticmethod]
    fn program(folder: PathBuf, words: Vec<Vec<u8>>, suffix: &[u8]) -> Self {
        let words = words.into_iter().map(OsString::from_vec);
        Self(nearfirst::Spec::program(folder, words, suffix))
    }

    #[staticmethod]
    fn list(names: Vec<Vec<u8>>) -> Self {
        Self(nearfirst::Spec::list(names.into_iter().map(Name::new)))
    }

    /// So that it passes between processes.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class = py.get_type::<Self>();
        if let nearfirst::Spec::List(names) = &self.0 {
            let names: Vec<_> =
                names.iter().map(|name| PyBytes::new(py, name.as_bytes())).collect();
            return Ok((class.getattr("list")?, PyTuple::new(py, [names])?));
        }
        let text = self.0.to_text();
        if nearfirst::Spec::parse(&text).is_ok_and(|parsed| parsed == self.0) {
            return Ok((class.getattr("parse")?, PyTuple::new(py, [PyBytes::new(py, &text)])?));
        }
        Err(PyTypeError::new_err("this spec has no text form, and cannot pass to another process"))
    }

    fn __str__<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        name::to_python(py, &Name::from(self.0.to_text())).into_any()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearfirst.Spec {}>", self.__str__(py).repr()?))
    }
}
