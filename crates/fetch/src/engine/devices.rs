//! Devices by number, and what the scheduler is told of each.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use sled::{Device, Estimate};
use store::Costs;

use crate::scheduler::{AttemptId, DeviceId, DeviceTerms};

/// Bytes of the read whose cost tells how a device behaves.
const TYPICAL_BYTES: u64 = 64 << 10;

/// A disk that takes longer to its first byte moves a head: one stream is
/// then faster than several (SETS, section 4.3, figure 8).
const HEAD_LATENCY_S: f64 = 0.001;
/// Bytes that a head passes over without moving to another place.
const NEARBY_BYTES: u64 = 1 << 20;
/// Reads after which a disk that nothing was known of is what it then seems to be.
const TRIALS: u8 = 8;

/// Requests at a time that a solid-state disk begins with; its window grows if more is faster.
const DISK_WINDOW_START: u32 = 8;
/// Files that are opened side by side, or one after the other by one thread:
/// what is in memory is opened in microseconds, and handing over each would cost more.
const OPENS_MAX: u32 = 64;
/// Requests at a time that a server or a bucket begins with.
const SERVER_WINDOW_START: u32 = 16;
/// Round trips of a file on a server: its name, its opening, its first byte.
const TRIPS: f64 = 3.0;
/// Bytes in flight that a server begins with if nothing is known of it.
const ENOUGH_BYTES: u64 = 64 << 10;

/// The devices met so far.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    ids: HashMap<Device, DeviceId>,
    names: Vec<Device>,
    heads: Vec<bool>,
    /// Where the last read ended.
    ends: Vec<u64>,
    /// When the last read was over, of those that have a head.
    left: Vec<Duration>,
    /// What is read of those that have a head, in the order in which it was begun.
    under_way: Vec<Vec<AttemptId>>,
    /// How many reads more may show that a disk has no head.
    trials: Vec<u8>,
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
        let (terms, is_known) = terms(device, costs);
        self.heads.push(terms.by_position);
        self.ends.push(u64::MAX);
        self.left.push(Duration::ZERO);
        self.under_way.push(Vec::new());
        self.trials.push(if is_known { 0 } else { TRIALS });
        (id, Some(terms))
    }

    /// Notes a read; which device a number stands for, unless that read only went on
    /// where the last one ended, and tells nothing of what it takes to get there.
    pub(crate) fn moved_to(&mut self, id: DeviceId, reach: &Range<u64>) -> Option<Device> {
        let at = id.0 as usize;
        let end = std::mem::replace(self.ends.get_mut(at)?, reach.end);
        let goes_on = (end..end.saturating_add(NEARBY_BYTES)).contains(&reach.start);
        (!self.heads[at] || !goes_on).then(|| self.names[at].clone())
    }

    /// An attempt begins to read; whether of a device that has a head, and then it is to
    /// [end](Self::ended).
    pub(crate) fn began(&mut self, id: DeviceId, attempt: AttemptId) -> bool {
        let has_head = self.has_head(id);
        if has_head {
            self.under_way[id.0 as usize].push(attempt);
        }
        has_head
    }

    /// An attempt reads no more.
    pub(crate) fn ended(&mut self, id: DeviceId, attempt: AttemptId) {
        self.under_way[id.0 as usize].retain(|other| *other != attempt);
    }

    /// Notes that a read of a device with a head is over.
    pub(crate) fn left_at(&mut self, id: DeviceId, now: Duration) {
        if let Some(left) = self.left.get_mut(id.0 as usize) {
            *left = now;
        }
    }

    /// Since when the head is free for an attempt that waited behind the last read; zero without a
    /// head, `None` while it is at what was begun before. What was begun later is behind it.
    pub(crate) fn free_since(&self, id: DeviceId, attempt: AttemptId) -> Option<Duration> {
        let at = id.0 as usize;
        let first = self.under_way.get(at).and_then(|reads| reads.first());
        let is_first = first.is_none_or(|first| *first == attempt);
        is_first.then(|| self.left.get(at).copied().unwrap_or_default())
    }

    /// The terms of a disk that nothing was known of, once a read has shown
    /// that it has no head.
    pub(crate) fn learned(&mut self, id: DeviceId, costs: &Costs) -> Option<DeviceTerms> {
        let at = id.0 as usize;
        let left = self.trials.get_mut(at).filter(|left| **left > 0)?;
        *left -= 1;
        let (terms, _) = terms(&self.names[at], costs);
        if terms.by_position {
            return None;
        }
        *left = 0;
        self.heads[at] = false;
        Some(terms)
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

/// Whether a device is taken to have a head.
pub(crate) fn has_head(device: &Device, costs: &Costs) -> bool {
    terms(device, costs).0.by_position
}

/// The terms of a device, and whether they rest on something known of it.
///
/// A disk of which nothing is known is taken to have a head: one that has
/// none loses a moment until its first read is done, one that has one would
/// lose a seek for every file.
fn terms(device: &Device, costs: &Costs) -> (DeviceTerms, bool) {
    let estimate = costs.table().estimate(device, TYPICAL_BYTES);
    let latency = estimate.as_ref().map(|estimate| {
        (
            Duration::from_secs_f64(estimate.latency.p50),
            Duration::from_secs_f64(estimate.latency.p90),
        )
    });
    // What lies over several disks has several heads.
    let may_have_head = device.is_of("disk") || device.is_of("loop");
    let is_disk = may_have_head || device.is_of("dm") || device.is_of("md");
    let is_known = !may_have_head || estimate.is_some();
    let has_head = may_have_head
        && estimate.as_ref().is_none_or(|estimate| estimate.latency.p50 > HEAD_LATENCY_S);
    let (window_start, window_max) = match (has_head, is_disk) {
        (true, _) => (1, 1),
        (false, true) => (DISK_WINDOW_START, u32::MAX),
        (false, false) => (SERVER_WINDOW_START, u32::MAX),
    };
    let is_local = is_disk || *device == Device::memory();
    let enough = (!is_local).then(|| estimate.map_or(ENOUGH_BYTES, |known| enough(&known)));
    let opens_max = if is_local { OPENS_MAX } else { 0 };
    let by_position = has_head;
    let terms = DeviceTerms { window_max, window_start, enough, opens_max, by_position, latency };
    (terms, is_known)
}

/// What flows during the round trips of one file: others bring it meanwhile.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floats stays within bounds"
)]
fn enough(known: &Estimate) -> u64 {
    (TRIPS * known.latency.p50 * known.bandwidth.p50) as u64
}

#[cfg(test)]
mod tests {
    use store::{Clock, Local, TableFiles};

    use super::*;

    #[test]
    fn objects_of_a_scheme_that_is_called_as_disks_are_have_no_head() {
        let costs = Costs::with(Local::default(), TableFiles::default(), Clock::real());
        let begins_with = |name| terms(&Device::new(name), &costs).0.window_start;
        assert_eq!(begins_with("disk:a"), 1);
        assert_eq!(begins_with("disk://a"), SERVER_WINDOW_START);
    }

    #[test]
    fn what_waits_behind_another_read_tells_nothing_until_that_is_over() {
        let costs = Costs::with(Local::default(), TableFiles::default(), Clock::real());
        let mut devices = Devices::default();
        let (disk, _) = devices.meet(&Device::new("disk:a"), &costs);
        let [first, second, third] = [1, 2, 3].map(AttemptId);
        assert!(devices.began(disk, first) && devices.began(disk, second));
        assert_eq!(devices.free_since(disk, first), Some(Duration::ZERO));
        devices.left_at(disk, Duration::from_millis(5));
        assert_eq!(devices.free_since(disk, second), None);
        devices.left_at(disk, Duration::from_millis(9));
        devices.ended(disk, first);
        assert!(devices.began(disk, third));
        assert_eq!(devices.free_since(disk, second), Some(Duration::from_millis(9)));
        assert_eq!(devices.free_since(disk, third), None);
    }
}
