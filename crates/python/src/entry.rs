//! What listing told of an object, for rank and filter functions and by stores.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nearfirst::{Name, Tier, Version};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyDict, PyString};

use crate::costs::costs;
use crate::{apart, name};

/// What listing told of an object: what rank and filter functions are given, and stores give.
///
/// Of a file of this machine listing tells only the name. Its size, version and time, and
/// whether it is cold, are asked of the system when they are read, which takes as long as its
/// mount takes. Entries are equal that were told the same.
#[pyclass(frozen, eq, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) told: nearfirst::Entry,
    /// Of a file that was only named: asked for, and kept.
    known: OnceLock<nearfirst::Entry>,
}

/// By what a pickled one keeps, too.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.compared() == other.compared()
    }
}

impl Entry {
    fn compared(&self) -> (&Name, Option<u64>, Option<&str>, Option<f64>, bool) {
        let nearfirst::Entry { name, size, version, modified, tier, .. } = &self.told;
        let version = version.as_ref().map(Version::as_str);
        (name, *size, version, modified.map(nearfirst::unix_s), tier.is_cold())
    }

    pub(crate) fn new(told: nearfirst::Entry) -> Self {
        Self { told, known: OnceLock::new() }
    }

    /// With what the system knows of a file that was only named.
    ///
    /// # Errors
    /// No threads; what a signal handler raises.
    fn known(&self, py: Python<'_>) -> PyResult<&nearfirst::Entry> {
        let Some(path) = self.told.name.path() else { return Ok(&self.told) };
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let (told, costs) = (self.told.clone(), costs(py)?);
        let asked = apart::asked(py, apart::may_stall(py, path)?, move || costs.known(&told))?;
        Ok(self.known.get_or_init(|| asked))
    }
}

/// The URL of a name: its own, or `file://` and the absolute path.
pub(crate) fn url<'py>(py: Python<'py>, of: &Name) -> PyResult<Bound<'py, PyAny>> {
    let text = name::to_python(py, of);
    if of.scheme().is_some() {
        return Ok(text.into_any());
    }
    let path = py.import("pathlib")?.getattr("Path")?.call1((text,))?.call_method0("absolute")?;
    match path.str()?.to_str() {
        // Not encoded: so it is a name, too.
        Ok(text) => Ok(PyString::new(py, &format!("file://{text}")).into_any()),
        Err(_) => path.call_method0("as_uri"),
    }
}

/// # Errors
/// No number, or further away than the system's clock counts.
fn time(seconds: f64) -> PyResult<SystemTime> {
    let refused = |why: &str| PyValueError::new_err(format!("modified: {seconds}: {why}"));
    if seconds.is_nan() {
        return Err(refused("not a number of seconds"));
    }
    let away = Duration::try_from_secs_f64(seconds.abs());
    let away = away.map_err(|_| refused("too far from 1970"))?;
    let time =
        if seconds < 0.0 { UNIX_EPOCH.checked_sub(away) } else { UNIX_EPOCH.checked_add(away) };
    time.ok_or_else(|| refused("too far from 1970"))
}

/// The arguments of an entry that need no name.
type Positional<'py> = (Bound<'py, PyString>, Option<u64>);

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
        let modified = modified.map(time).transpose()?;
        let tier = if is_cold { Tier::Cold { class: "COLD".into() } } else { Tier::Online };
        Ok(Self::new(nearfirst::Entry {
            size,
            version: version.map(Version::new),
            modified,
            tier,
            ..nearfirst::Entry::named(name::from_bytes(bytes.extract()?))
        }))
    }

    /// Its name: a path as it was given, or a URL.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        name::to_python(py, &self.told.name)
    }

    /// Its URL; `file://` of a path.
    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        url(py, &self.told.name)
    }

    /// Bytes; not known of an object that was only named, or a file that is not there.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let known = self.told.likely_size();
        Ok(if known.is_some() { known } else { self.known(py)?.size })
    }

    /// What tells this content from a later one under the same name.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let known = match &self.told.version {
            None => self.known(py)?.version.as_ref(),
            known => known.as_ref(),
        };
        Ok(known.map(|version| version.as_str().to_owned()))
    }

    /// When its content last changed, in seconds since 1970.
    #[getter]
    fn modified(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let known = match self.told.modified {
            None => self.known(py)?.modified,
            known => known,
        };
        Ok(known.map(nearfirst::unix_s))
    }

    /// Whether it must be recalled before it can be read.
    #[getter]
    fn is_cold(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.told.tier.is_cold() || self.known(py)?.tier.is_cold())
    }

    /// To be pickled: of a file its name, about which the system is asked where it is unpickled.
    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Positional<'py>, Bound<'py, PyDict>)> {
        let (name, size, version, modified, is_cold) = self.compared();
        let more = [
            ("version", version.into_pyobject(py)?),
            ("modified", modified.into_pyobject(py)?),
            ("is_cold", is_cold.into_pyobject(py)?.to_owned().into_any()),
        ];
        Ok(((name::to_python(py, name), size), more.into_py_dict(py)?))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        let (name, size, version, modified, is_cold) = self.compared();
        (name.as_bytes(), size, version, modified, is_cold).into_pyobject(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearfirst.Entry {}>", self.name(py).repr()?))
    }
}
