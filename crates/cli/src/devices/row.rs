//! A device and all that is known of it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use nearfirst::{Costs, Device, DeviceTable, Spread};

/// Reads of these sizes stand for the size classes of the device table.
const CLASS_BYTES: [u64; 3] = [128 << 10, 4 << 20, 64 << 20];

/// From where an estimate comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Calibration, corrected by what reads took.
    Measured,
    /// The kernel's statistics of its NFS mounts.
    NfsStatistics,
    /// Someone wrote it into the table.
    Given,
    /// What memory is taken to be until it is measured.
    Assumed,
    /// There is none: what the table has is of another disk, which had the name.
    AnotherDisk,
    /// There is none.
    Unknown,
}

/// One device.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) device: Device,
    /// Where it is mounted, each place once.
    pub(crate) mount_points: Vec<PathBuf>,
    /// Seconds to the first byte.
    pub(crate) latency: Option<Spread>,
    /// Bytes per second of reads of up to 128 KiB, up to 4 MiB and more. Of a server that had to
    /// send little only the latency is known.
    pub(crate) bandwidths: Option<[Spread; 3]>,
    /// From where that is known.
    pub(crate) source: Source,
    /// Since when, in seconds of Unix time, if that is known.
    pub(crate) updated_s: Option<u64>,
    /// Of FUSE mounts, whether files keep their cached pages when they are opened again.
    pub(crate) keeps_cache: Option<bool>,
}

impl Row {
    /// What `table` knows of `device`.
    pub(crate) fn new(table: &DeviceTable, device: &Device, mount_points: Vec<PathBuf>) -> Self {
        let latency = table.estimate(device, 0).map(|estimate| estimate.latency);
        let bandwidth = |bytes| table.estimate(device, bytes).map(|estimate| estimate.bandwidth);
        let bandwidths = match CLASS_BYTES.map(bandwidth) {
            [Some(small), Some(medium), Some(large)] => Some([small, medium, large]),
            _ => None,
        };
        let updated_s = table.updated(device);
        let is_listed = table.devices().any(|listed| listed == device);
        let source = match (latency.is_some(), table.is_learned(device)) {
            (false, _) if table.is_of_another(device) => Source::AnotherDisk,
            (false, _) => Source::Unknown,
            (true, true) => Source::Measured,
            (true, false) if !is_listed => Source::Assumed,
            (true, false) if device.name().starts_with("nfs:") => Source::NfsStatistics,
            (true, false) => Source::Given,
        };
        let keeps_cache = table.keeps_cache(device);
        let device = device.clone();
        Self { device, mount_points, latency, bandwidths, source, updated_s, keeps_cache }
    }
}

/// Every device behind a mount and every other one in the table, by name, memory first.
pub(super) fn all(costs: &Costs) -> io::Result<Vec<Row>> {
    let mut points: BTreeMap<Device, Vec<PathBuf>> = BTreeMap::new();
    points.insert(Device::memory(), Vec::new());
    for mount in costs.local().mounts()?.all().iter().filter(|mount| mount.has_device()) {
        let known = points.entry(costs.local().device_of(mount)).or_default();
        if !known.contains(&mount.point) {
            known.push(mount.point.clone());
        }
    }
    let table = costs.table();
    for device in table.devices() {
        points.entry(device.clone()).or_default();
    }
    let mut rows: Vec<_> =
        points.into_iter().map(|(device, points)| Row::new(&table, &device, points)).collect();
    rows.sort_by_key(|row| !row.device.is_memory());
    Ok(rows)
}
