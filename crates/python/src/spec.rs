//! Specs: which objects are wanted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use nearfirst::Name;
use pyo3::prelude::*;

use crate::error;
use crate::name;

/// Which objects are wanted.
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

    fn __str__<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        name::to_python(py, &Name::from(self.0.to_text())).into_any()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearfirst.Spec {}>", self.__str__(py).repr()?))
    }
}
