//! How long it takes to read a whole file.

use std::collections::BTreeMap;

use crate::{Device, Place, Sled, Spread};

/// The order in which a file is read (the paper's attack plan, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// In file order: the latency of a device is paid each time it is entered.
    Linear,
    /// Near first: the latency of each device is paid once.
    Best,
}

/// Estimated time to read a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeliveryTime {
    /// Seconds for the part whose cost is known: median.
    pub p50: f64,
    /// Seconds for the part whose cost is known: nine in ten take no longer.
    pub p90: f64,
    /// Bytes whose cost nobody knows; they come on top.
    pub unknown_bytes: u64,
    /// Bytes that must be recalled first; those with an estimate are in the times too.
    pub cold_bytes: u64,
}

impl DeliveryTime {
    /// Whether the times cover all of the file.
    pub fn is_known(&self) -> bool {
        self.unknown_bytes == 0
    }

    /// The time as one quantity, if it is known.
    pub fn known(&self) -> Option<Spread> {
        self.is_known().then_some(Spread { p50: self.p50, p90: self.p90 })
    }
}

impl std::ops::AddAssign for DeliveryTime {
    /// One file after another. That several come out badly at once is less
    /// likely than that one does: excesses add up as independent errors do, by their squares.
    fn add_assign(&mut self, other: Self) {
        let excess = (self.p90 - self.p50).hypot(other.p90 - other.p50);
        self.p50 += other.p50;
        self.p90 = self.p50 + excess;
        // Sparse files are as long as they like.
        self.unknown_bytes = self.unknown_bytes.saturating_add(other.unknown_bytes);
        self.cold_bytes = self.cold_bytes.saturating_add(other.cold_bytes);
    }
}

/// Estimates the time to read all of `sleds` by `plan`, in seconds.
///
/// Linear: latency each time the device changes, plus bytes / bandwidth.
/// Best: latency once per device, plus bytes / bandwidth.
/// (The paper names both plans and gives no formula, section 4.2.)
pub fn delivery_time(sleds: &[Sled], plan: Plan) -> DeliveryTime {
    let mut time = DeliveryTime::default();
    let mut entered: BTreeMap<&Device, Spread> = BTreeMap::new();
    let mut last: Option<&Device> = None;
    for sled in sleds {
        if sled.place == Place::Cold {
            time.cold_bytes += sled.length;
        }
        let enters = last != Some(&sled.device);
        last = Some(&sled.device);
        let Some(estimate) = sled.estimate else {
            time.unknown_bytes += sled.length;
            continue;
        };
        time.p50 += sled.length as f64 / estimate.bandwidth.p50;
        time.p90 += sled.length as f64 / estimate.bandwidth.p90;
        match plan {
            Plan::Linear if enters => {
                time.p50 += estimate.latency.p50;
                time.p90 += estimate.latency.p90;
            }
            Plan::Linear => {}
            Plan::Best => {
                entered.entry(&sled.device).or_insert(estimate.latency);
            }
        }
    }
    for latency in entered.values() {
        time.p50 += latency.p50;
        time.p90 += latency.p90;
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    const MB: u64 = 1_000_000;

    fn sled(offset: u64, length: u64, device: &str, latency: f64, bandwidth: f64) -> Sled {
        let place = if device == "memory" { Place::Near } else { Place::Far };
        Sled {
            offset,
            length,
            device: Device::new(device),
            place,
            estimate: Some(Estimate::exact(latency, bandwidth)),
        }
    }

    fn memory(offset: u64, length: u64) -> Sled {
        sled(offset, length, "memory", 175e-9, 48e6)
    }

    fn disk(offset: u64, length: u64) -> Sled {
        sled(offset, length, "disk", 0.018, 9e6)
    }

    #[test]
    fn the_papers_table_2_on_40_mb_cached_and_24_mb_on_disk() {
        let sleds = [memory(0, 40 * MB), disk(40 * MB, 24 * MB)];
        let time = delivery_time(&sleds, Plan::Best);
        assert!((time.p50 - 3.518).abs() < 0.0005, "{time:?}");
    }

    #[test]
    fn linear_pays_a_latency_at_every_change_and_best_once() {
        let sleds = [disk(0, MB), memory(MB, MB), disk(2 * MB, MB), disk(3 * MB, MB)];
        let transfer = 3.0 / 9.0 + 1.0 / 48.0;
        let linear = delivery_time(&sleds, Plan::Linear).p50;
        let best = delivery_time(&sleds, Plan::Best).p50;
        assert!((linear - (transfer + 2.0 * 0.018 + 175e-9)).abs() < 1e-9);
        assert!((best - (transfer + 0.018 + 175e-9)).abs() < 1e-9);
    }

    #[test]
    fn the_bad_case_pays_the_long_latency_and_the_low_bandwidth() {
        let mut sled = disk(0, 100);
        sled.estimate = Some(Estimate {
            latency: Spread { p50: 1.0, p90: 2.0 },
            bandwidth: Spread { p50: 10.0, p90: 5.0 },
        });
        for plan in [Plan::Linear, Plan::Best] {
            let time = delivery_time(std::slice::from_ref(&sled), plan);
            assert!((time.p50 - 11.0).abs() < 1e-9, "{plan:?}: {time:?}");
            assert!((time.p90 - 22.0).abs() < 1e-9, "{plan:?}: {time:?}");
        }
    }

    #[test]
    fn what_is_unknown_leaves_its_device_to_be_entered_again() {
        let mut unknown = sled(MB, MB, "tape", 1.0, 1.0);
        unknown.place = Place::Unknown;
        unknown.estimate = None;
        let sleds = [disk(0, MB), unknown, disk(2 * MB, MB)];
        let linear = delivery_time(&sleds, Plan::Linear).p50;
        assert!((linear - (2.0 / 9.0 + 2.0 * 0.018)).abs() < 1e-9, "{linear}");
    }

    #[test]
    fn what_is_unknown_is_counted_and_not_timed() {
        let mut unknown = disk(0, MB);
        unknown.place = Place::Unknown;
        unknown.estimate = None;
        let time = delivery_time(&[unknown, memory(MB, 48 * MB)], Plan::Best);
        assert_eq!(time.unknown_bytes, MB);
        assert!(!time.is_known());
        assert!((time.p50 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_bad_cases_of_many_files_do_not_all_come_true() {
        let one = DeliveryTime { p50: 1.0, p90: 3.0, ..DeliveryTime::default() };
        let mut sum = DeliveryTime::default();
        (0..100).for_each(|_| sum += one);
        assert!((sum.p50 - 100.0).abs() < 1e-9);
        assert!((sum.p90 - 120.0).abs() < 1e-9);
    }

    #[test]
    fn an_empty_file_takes_no_time() {
        assert_eq!(delivery_time(&[], Plan::Linear), DeliveryTime::default());
    }
}
