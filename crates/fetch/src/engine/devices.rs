//! Devices by number, and what the scheduler is told of each.

use std::collections::HashMap;
use std::time::Duration;

use sled::Device;
use store::Costs;

use crate::scheduler::{DeviceId, DeviceTerms};

/// Bytes of the read whose cost tells how a device behaves.
const TYPICAL_BYTES: u64 = 64 << 10;

/// A disk that takes longer to its first byte moves a head: one stream is
/// then faster than several (SETS, section 4.3, figure 8).
const HEAD_LATENCY_S: f64 = 0.001;

/// Requests at a time that a solid-state disk begins with; its window grows if more is faster.
const DISK_WINDOW_START: u32 = 8;
/// Requests at a time that a server or a bucket begins with.
const SERVER_WINDOW_START: u32 = 16;

/// The devices met so far.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    ids: HashMap<Device, DeviceId>,
    names: Vec<Device>,
    heads: Vec<bool>,
}

impl Devices {
    /// The number of a device, and its terms if it was not met before.
    pub(crate) fn meet(
        &mut self,
        device: &Device,
        costs: &Costs,
    ) -> (DeviceId, Option<DeviceTerms>) {
        if let Some(id) = self.ids.get(device) {
            return (*id, None);
        }
        let id = DeviceId(u32::try_from(self.names.len()).expect("devices are few"));
        self.names.push(device.clone());
        self.ids.insert(device.clone(), id);
        let terms = terms(device, costs);
        self.heads.push(terms.by_position);
        (id, Some(terms))
    }

    /// Whether its reads are ordered by where they lie.
    pub(crate) fn has_head(&self, id: DeviceId) -> bool {
        self.heads.get(id.0 as usize).copied().unwrap_or(false)
    }

    /// Which device a number stands for.
    pub(crate) fn name(&self, id: DeviceId) -> Option<&Device> {
        self.names.get(id.0 as usize)
    }
}

fn terms(device: &Device, costs: &Costs) -> DeviceTerms {
    let estimate = costs.table().estimate(device, TYPICAL_BYTES);
    let latency = estimate.as_ref().map(|estimate| {
        (
            Duration::from_secs_f64(estimate.latency.p50),
            Duration::from_secs_f64(estimate.latency.p90),
        )
    });
    let is_disk = device.name().starts_with("disk:");
    let has_head =
        is_disk && estimate.is_some_and(|estimate| estimate.latency.p50 > HEAD_LATENCY_S);
    let (window_start, window_max) = match (has_head, is_disk) {
        (true, _) => (1, 1),
        (false, true) => (DISK_WINDOW_START, u32::MAX),
        (false, false) => (SERVER_WINDOW_START, u32::MAX),
    };
    DeviceTerms { window_max, window_start, by_position: has_head, latency }
}
