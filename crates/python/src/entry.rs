//! What listing told of an object, for rank and filter functions and by stores.

use std::time::{Duration, UNIX_EPOCH};

use nearfirst::{Name, Tier, Version};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::name;

/// What listing told of an object.
#[pyclass(frozen, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Entry(pub(crate) nearfirst::Entry);

/// The URL of a name: its own, or `file://` and the absolute path.
pub(crate) fn url<'py>(py: Python<'py>, of: &Name) -> PyResult<Bound<'py, PyAny>> {
    let text = name::to_python(py, of);
    if of.scheme().is_some() {
        return Ok(text.into_any());
    }
    let path = py.import("pathlib")?.getattr("Path")?.call1((text,))?;
    path.call_method0("absolute")?.call_method0("as_uri")
}

/// Seconds since 1970.
pub(crate) fn modified(of: &nearfirst::Entry) -> Option<f64> {
    let since = of.modified?.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64())
}

#[pymethods]
impl Entry {
    #[new]
    #[pyo3(signature = (name, size = None, *, version = None, modified = None, is_cold = false))]
    fn new(
        name: &Bound<'_, PyAny>,
        size: Option<u64>,
        version: Option<&str>,
        modified: Option<f64>,
        is_cold: bool,
    ) -> PyResult<Self> {
        let bytes = name.py().import("os")?.getattr("fsencode")?.call1((name,))?;
        let since = modified.map(Duration::try_from_secs_f64).transpose();
        let since = since.map_err(|error| PyValueError::new_err(format!("modified: {error}")))?;
        let tier = if is_cold { Tier::Cold { class: "COLD".into() } } else { Tier::Online };
        Ok(Self(nearfirst::Entry {
            size,
            version: version.map(Version::new),
            modified: since.and_then(|since| UNIX_EPOCH.checked_add(since)),
            tier,
            ..nearfirst::Entry::named(name::from_bytes(bytes.extract()?))
        }))
    }

    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        name::to_python(py, &self.0.name)
    }

    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        url(py, &self.0.name)
    }

    #[getter]
    fn size(&self) -> Option<u64> {
        self.0.size
    }

    #[getter]
    fn version(&self) -> Option<&str> {
        self.0.version.as_ref().map(nearfirst::Version::as_str)
    }

    #[getter]
    fn modified(&self) -> Option<f64> {
        modified(&self.0)
    }

    #[getter]
    fn is_cold(&self) -> bool {
        self.0.tier.is_cold()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearfirst.Entry {}>", self.name(py).repr()?))
    }
}
