//! What listing told of an object, for rank and filter functions and by stores.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nearfirst::{Name, Status, Tier, Version};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::costs::costs;
use crate::name;

/// What listing told of an object; of a file, also what the system tells who asks.
#[pyclass(frozen, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) told: nearfirst::Entry,
    /// Of a file that was only named: asked for once.
    status: OnceLock<Option<Status>>,
}

impl Entry {
    pub(crate) fn new(told: nearfirst::Entry) -> Self {
        Self { told, status: OnceLock::new() }
    }

    /// What the system knows of a file; `None` of what is none, or is not there.
    fn status(&self, py: Python<'_>) -> Option<&Status> {
        let (path, costs) = (self.told.name.path()?, costs());
        py.detach(|| self.status.get_or_init(|| costs.local().stat(path).ok())).as_ref()
    }
}

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
pub(crate) fn seconds(time: Option<SystemTime>) -> Option<f64> {
    Some(time?.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}

#[pymethods]
impl Entry {
    #[new]
    #[pyo3(signature = (name, size = None, *, version = None, modified = None, is_cold = false))]
    fn made(
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
        Ok(Self::new(nearfirst::Entry {
            size,
            version: version.map(Version::new),
            modified: since.and_then(|since| UNIX_EPOCH.checked_add(since)),
            tier,
            ..nearfirst::Entry::named(name::from_bytes(bytes.extract()?))
        }))
    }

    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        name::to_python(py, &self.told.name)
    }

    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        url(py, &self.told.name)
    }

    #[getter]
    fn size(&self, py: Python<'_>) -> Option<u64> {
        self.told.size.or_else(|| Some(self.status(py)?.size))
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> Option<String> {
        let known = self.told.version.clone();
        Some(known.or_else(|| Some(self.status(py)?.version()))?.as_str().to_owned())
    }

    #[getter]
    fn modified(&self, py: Python<'_>) -> Option<f64> {
        seconds(self.told.modified.or_else(|| self.status(py)?.modified()))
    }

    #[getter]
    fn is_cold(&self) -> bool {
        self.told.tier.is_cold()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearfirst.Entry {}>", self.name(py).repr()?))
    }
}
