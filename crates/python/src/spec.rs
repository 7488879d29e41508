//! Specs: which objects are wanted.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use nearfirst::{Glob, Name};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::error;
use crate::name;

/// Which objects are wanted; made by `glob`, `query`, `links`, `program` and `list_of`.
#[pyclass(frozen, eq, hash, module = "nearfirst")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Spec(pub(crate) nearfirst::Spec);

#[pymethods]
impl Spec {
    #[staticmethod]
    fn _parse(py: Python<'_>, text: &[u8]) -> PyResult<Self> {
        let parsed = nearfirst::Spec::parse(text).and_then(nearfirst::Spec::checked);
        parsed.map(Self).map_err(|error| error::of_spec(py, error))
    }

    #[staticmethod]
    fn _glob(py: Python<'_>, pattern: &[u8]) -> PyResult<Self> {
        let checked = nearfirst::Spec::glob(pattern).checked();
        checked.map(Self).map_err(|error| error::of_spec(py, error))
    }

    #[staticmethod]
    fn _query(prefix: &[u8], text: String, suffix: &[u8]) -> Self {
        Self(nearfirst::Spec::query(Name::new(prefix), text, suffix))
    }

    #[staticmethod]
    fn _program(folder: PathBuf, words: Vec<Vec<u8>>, suffix: &[u8]) -> Self {
        let words = words.into_iter().map(OsString::from_vec);
        Self(nearfirst::Spec::program(folder, words, suffix))
    }

    #[staticmethod]
    fn _list(names: Vec<Vec<u8>>) -> Self {
        Self(nearfirst::Spec::list(names.into_iter().map(Name::new)))
    }

    /// A query as it was pickled: there may be braces in its prefix.
    #[staticmethod]
    fn _unpickled_query(prefix: &[u8], text: String, suffix: &[u8]) -> Self {
        Self(nearfirst::Spec::Query { prefix: Glob::new(prefix), text, suffix: Glob::new(suffix) })
    }

    /// A program as it was pickled.
    #[staticmethod]
    fn _unpickled_program(folder: &[u8], words: Vec<Vec<u8>>, suffix: &[u8]) -> Self {
        Self(nearfirst::Spec::Program {
            folder: Glob::new(folder),
            words: words.into_iter().map(OsString::from_vec).collect(),
            suffix: Glob::new(suffix),
        })
    }

    /// So that it passes between processes.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let bytes = |text: &[u8]| PyBytes::new(py, text);
        let (made_by, arguments) = match &self.0 {
            nearfirst::Spec::Glob(glob) => ("_glob", (bytes(glob.text()),).into_pyobject(py)?),
            nearfirst::Spec::Query { prefix, text, suffix } => (
                "_unpickled_query",
                (bytes(prefix.text()), text, bytes(suffix.text())).into_pyobject(py)?,
            ),
            nearfirst::Spec::Program { folder, words, suffix } => {
                let words: Vec<_> = words.iter().map(|word| bytes(word.as_bytes())).collect();
                let arguments = (bytes(folder.text()), words, bytes(suffix.text()));
                ("_unpickled_program", arguments.into_pyobject(py)?)
            }
            nearfirst::Spec::List(names) => {
                let names: Vec<_> = names.iter().map(|name| bytes(name.as_bytes())).collect();
                ("_list", (names,).into_pyobject(py)?)
            }
            nearfirst::Spec::ListFile(_) => {
                ("_parse", (bytes(&self.0.to_text()),).into_pyobject(py)?)
            }
        };
        Ok((py.get_type::<Self>().getattr(made_by)?, arguments))
    }

    fn __str__<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        name::to_python(py, &Name::from(self.0.to_text())).into_any()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearfirst.Spec {}>", self.__str__(py).repr()?))
    }
}
