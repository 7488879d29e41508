//! Devices and what they take, for Python.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nearfirst::{Costs, Probe, probe_first, probe_memory};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::apart::Apart;
use crate::costs::costs_and_warnings;
use crate::error;
use crate::sled::Call;

/// What is asked of a device is a read of this size, neither all latency nor all bandwidth.
const READ_BYTES: u64 = 4 << 20;

/// Anything with one latency and one bandwidth.
#[pyclass(frozen, get_all, eq, module = "nearfirst")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Device {
    /// As sleds name it.
    name: String,
    /// Seconds to the first byte, in the median; `None` where nobody knows.
    latency: Option<f64>,
    /// Seconds to the first byte that nine in ten do not exceed.
    latency_p90: Option<f64>,
    /// Bytes per second of a read of 4 MiB, in the median.
    bandwidth: Option<f64>,
    /// When it was last measured, in seconds since 1970.
    updated: Option<u64>,
    /// Where it is mounted.
    mounted_on: Vec<PathBuf>,
}

/// A device as it is pickled, but for where it is mounted.
type Measured = (String, Option<f64>, Option<f64>, Option<f64>, Option<u64>);

impl Device {
    fn measured(&self) -> Measured {
        let device = self.clone();
        let Self { name, latency, latency_p90, bandwidth, updated, .. } = device;
        (name, latency, latency_p90, bandwidth, updated)
    }
}

#[pymethods]
impl Device {
    /// As it was pickled.
    #[staticmethod]
    fn _unpickled(measured: Measured, mounted_on: Vec<PathBuf>) -> Self {
        let (name, latency, latency_p90, bandwidth, updated) = measured;
        Self { name, latency, latency_p90, bandwidth, updated, mounted_on }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Call<'py, (Measured, Vec<PathBuf>)>> {
        let made_by = py.get_type::<Self>().getattr("_unpickled")?;
        Ok((made_by, (self.measured(), self.mounted_on.clone())))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.measured().into_pyobject(py)?.hash()
    }

    fn __repr__(&self) -> String {
        format!("<nearfirst.Device {}>", self.name)
    }
}

type Mounted = BTreeMap<nearfirst::Device, Vec<PathBuf>>;

/// The devices behind mounts, by where they are mounted.
fn mounted(costs: &Costs) -> io::Result<Mounted> {
    let mut points = Mounted::new();
    points.insert(nearfirst::Device::memory(), Vec::new());
    for mount in costs.local().mounts()?.all() {
        if mount.has_device() {
            let device = costs.local().device_of(mount);
            points.entry(device).or_default().push(mount.point.clone());
        }
    }
    Ok(points)
}

fn row(costs: &Costs, device: &nearfirst::Device, mounted_on: Vec<PathBuf>) -> Device {
    let table = costs.table();
    let estimate = table.estimate(device, READ_BYTES);
    Device {
        latency: estimate.map(|estimate| estimate.latency.p50),
        latency_p90: estimate.map(|estimate| estimate.latency.p90),
        bandwidth: estimate.map(|estimate| estimate.bandwidth.p50),
        updated: table.updated(device),
        name: device.name().to_owned(),
        mounted_on,
    }
}

/// Every device behind a mount, and every other one that the table knows, by name.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    let costs = costs_and_warnings(py)?;
    py.detach(|| {
        let mut points = mounted(&costs)?;
        let known: Vec<_> = costs.table().devices().cloned().collect();
        for device in known {
            points.entry(device).or_default();
        }
        let rows = points.into_iter().map(|(device, on)| row(&costs, &device, on));
        Ok(rows.collect())
    })
}

/// Measures devices; see `nearfirst.calibrate`.
#[pyfunction]
pub(crate) fn calibrate(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    seconds: f64,
    save: bool,
) -> PyResult<Vec<Device>> {
    let limit = Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("seconds: {error}")))?;
    let costs = costs_and_warnings(py)?;
    let all = py.detach(|| mounted(&costs))?;
    let is_all = paths.is_empty();
    let memory_is_known = costs.table().devices().any(nearfirst::Device::is_memory);
    let mut measured = Vec::new();
    // At once: many devices take minutes, and who is interrupted meanwhile loses nothing.
    let mut found_out = |found: Probe| -> PyResult<()> {
        let device = found.device.clone();
        if save {
            costs.calibrate(found);
            costs.save()?;
        } else {
            costs.calibrate_unsaved(found);
        }
        measured.push(device);
        Ok(())
    };
    if is_all || !memory_is_known {
        let clock = costs.clock().clone();
        let found = Apart::begin(move || probe_memory(&clock))?.ended(py, || Ok(()))?;
        let found = found.map_err(|error| error::of(py, &error.name(), &error))?;
        found_out(found)?;
    }
    let asked = paths.into_iter().map(|path| vec![path]);
    let places: Vec<_> = if is_all { all.values().cloned().collect() } else { asked.collect() };
    for places in places.into_iter().filter(|places| !places.is_empty()) {
        let costs_of = Arc::clone(&costs);
        let probed = move || probe_first(&costs_of, &places, limit, |_| ()).map(|(found, _)| found);
        match Apart::begin(probed)?.ended(py, || Ok(()))? {
            Ok(found) => found_out(found)?,
            // Nobody asked for it by name.
            Err(_) if is_all => {}
            Err(error) => return Err(error::of(py, &error.name(), &error)),
        }
    }
    measured.sort();
    measured.dedup();
    let on = |device| all.get(device).cloned().unwrap_or_default();
    Ok(measured.iter().map(|device| row(&costs, device, on(device))).collect())
}
