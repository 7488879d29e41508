//! Sleds, delivery times and devices, for Python.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nearfirst::{Backing, Error, Name, Place, Plan};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::costs::costs;
use crate::error;

/// A byte range of a file with one estimate.
#[pyclass(frozen, get_all, module = "nearfirst")]
#[derive(Debug, Clone)]
pub(crate) struct Sled {
    offset: u64,
    length: u64,
    device: String,
    place: &'static str,
    latency: Option<f64>,
    latency_p90: Option<f64>,
    bandwidth: Option<f64>,
    bandwidth_p90: Option<f64>,
}

impl From<&nearfirst::Sled> for Sled {
    fn from(sled: &nearfirst::Sled) -> Self {
        let estimate = sled.estimate;
        Self {
            offset: sled.offset,
            length: sled.length,
            device: sled.device.name().to_owned(),
            place: place_word(sled.place),
            latency: estimate.map(|estimate| estimate.latency.p50),
            latency_p90: estimate.map(|estimate| estimate.latency.p90),
            bandwidth: estimate.map(|estimate| estimate.bandwidth.p50),
            bandwidth_p90: estimate.map(|estimate| estimate.bandwidth.p90),
        }
    }
}

#[pymethods]
impl Sled {
    fn __repr__(&self) -> String {
        let Self { offset, length, device, place, .. } = self;
        format!("<nearfirst.Sled {offset}+{length} {place} on {device}>")
    }
}

/// Estimated time to read a whole file.
#[pyclass(frozen, get_all, module = "nearfirst")]
#[derive(Debug, Clone)]
pub(crate) struct DeliveryTime {
    p50: f64,
    p90: f64,
    unknown_bytes: u64,
    cold_bytes: u64,
}

#[pymethods]
impl DeliveryTime {
    #[getter]
    fn is_known(&self) -> bool {
        self.unknown_bytes == 0
    }

    fn __repr__(&self) -> String {
        let Self { p50, p90, unknown_bytes, cold_bytes } = self;
        format!(
            "<nearfirst.DeliveryTime p50={p50:.6} p90={p90:.6} unknown_bytes={unknown_bytes} cold_bytes={cold_bytes}>"
        )
    }
}

/// Something with one latency and one bandwidth.
#[pyclass(frozen, get_all, module = "nearfirst")]
#[derive(Debug, Clone)]
pub(crate) struct Device {
    name: String,
    latency: Option<f64>,
    latency_p90: Option<f64>,
    bandwidth: Option<f64>,
    updated: Option<u64>,
    mounted_on: Vec<PathBuf>,
}

#[pymethods]
impl Device {
    fn __repr__(&self) -> String {
        format!("<nearfirst.Device {}>", self.name)
    }
}

/// The word for a place.
pub(crate) fn place_word(place: Place) -> &'static str {
    match place {
        Place::Near => "near",
        Place::Far => "far",
        Place::Unknown => "unknown",
        Place::Cold => "cold",
    }
}

/// The path of a file of this machine.
///
/// # Errors
/// Of a URL: where its parts are nobody says.
pub(crate) fn local(name: &[u8]) -> Result<&Path, Error> {
    let named = Name::new(name);
    if named.scheme().is_some() {
        let reason = "sleds are known of files of this machine, not of objects of servers";
        return Err(Error::unsupported(named.redacted(), reason));
    }
    Ok(Path::new(OsStr::from_bytes(name)))
}

fn described(py: Python<'_>, name: &[u8]) -> PyResult<Vec<nearfirst::Sled>> {
    let costs = costs();
    py.detach(|| local(name).and_then(|path| costs.path_sleds(path)))
        .map_err(|error| error::of(py, &error.name(), &error))
}

/// Where the parts of a file are; see `nearfirst.sleds`.
#[pyfunction]
pub(crate) fn sleds(py: Python<'_>, name: &[u8]) -> PyResult<Vec<Sled>> {
    Ok(described(py, name)?.iter().map(Sled::from).collect())
}

/// How long reading a file takes; see `nearfirst.delivery_time`.
#[pyfunction]
pub(crate) fn delivery_time(py: Python<'_>, name: &[u8], plan: &str) -> PyResult<DeliveryTime> {
    let plan = plan_of(plan)?;
    let nearfirst::DeliveryTime { p50, p90, unknown_bytes, cold_bytes } =
        nearfirst::delivery_time(&described(py, name)?, plan);
    Ok(DeliveryTime { p50, p90, unknown_bytes, cold_bytes })
}

/// A plan by its name.
///
/// # Errors
/// Another word.
pub(crate) fn plan_of(word: &str) -> PyResult<Plan> {
    match word {
        "best" => Ok(Plan::Best),
        "linear" => Ok(Plan::Linear),
        other => Err(PyValueError::new_err(format!("plan is 'best' or 'linear', not {other:?}"))),
    }
}

/// Every device behind a mount, and every other one that the table knows, by name.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    /// What is asked of a device is a read of this size, neither all latency nor all bandwidth.
    const READ_BYTES: u64 = 4 << 20;
    let costs = costs();
    py.detach(|| {
        let mut points = std::collections::BTreeMap::<_, Vec<PathBuf>>::new();
        points.insert(nearfirst::Device::memory(), Vec::new());
        for mount in costs.local().mounts()?.all() {
            if mount.backing != Backing::Pseudo {
                let device = costs.local().device_of(mount);
                points.entry(device).or_default().push(mount.point.clone());
            }
        }
        let table = costs.table();
        for device in table.devices() {
            points.entry(device.clone()).or_default();
        }
        let row = |(device, mounted_on): (nearfirst::Device, _)| {
            let estimate = table.estimate(&device, READ_BYTES);
            Device {
                latency: estimate.map(|estimate| estimate.latency.p50),
                latency_p90: estimate.map(|estimate| estimate.latency.p90),
                bandwidth: estimate.map(|estimate| estimate.bandwidth.p50),
                updated: Some(table.updated(&device)).filter(|&at| at > 0),
                name: device.name().to_owned(),
                mounted_on,
            }
        };
        Ok(points.into_iter().map(row).collect())
    })
}
