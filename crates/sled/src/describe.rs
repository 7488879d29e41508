//! From where data is to what it costs.

use std::ops::Range;

use crate::{Device, DeviceTable, Estimate};

/// How far away data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In memory, or a hole: nothing has to be fetched.
    Near,
    /// On its device.
    Far,
    /// The system does not say whether it is in memory or on its device.
    Unknown,
    /// On a tier that must first recall it, such as tape.
    Cold,
}

/// A byte range of a file and where it is: what a store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 only of an object of a server that is empty.
    pub length: u64,
    /// Where it would be fetched from; of what is [`Place::Near`], memory.
    pub device: Device,
    /// How far away it is.
    pub place: Place,
}

/// A byte range of a file with one estimate (the paper's `struct sled`, section 3).
#[derive(Debug, Clone, PartialEq)]
pub struct Sled {
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 only of an object of a server that is empty.
    pub length: u64,
    /// Where it would be fetched from.
    pub device: Device,
    /// How far away it is.
    pub place: Place,
    /// What fetching costs; `None` where nobody knows.
    pub estimate: Option<Estimate>,
}

impl Sled {
    /// The bytes it covers.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }

    /// The sort key of near first: known latencies ascending, then what is
    /// unknown, by place. A latency that is unknown is not taken to be small.
    pub(crate) fn distance(&self) -> Distance {
        let latency = match (self.place, self.estimate) {
            (Place::Near, _) => 0.0,
            (_, Some(estimate)) => estimate.latency.p50.max(0.0),
            (_, None) => f64::INFINITY,
        };
        let class = match self.place {
            Place::Near => 0,
            Place::Far | Place::Unknown => 1,
            Place::Cold => 2,
        };
        // The bits of non-negative floats sort as the floats do.
        Distance { class, latency_bits: latency.to_bits() }
    }
}

/// Orders sleds near first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Distance {
    class: u8,
    latency_bits: u64,
}

impl Distance {
    /// That of what is near.
    pub(crate) const NEAREST: Self = Self { class: 0, latency_bits: 0 };
    /// Below that of anything that is not near.
    pub(crate) const FIRST_FAR: Self = Self { class: 1, latency_bits: 0 };
}

/// Says what each extent costs, merging neighbours that are alike.
///
/// `extents` are in file order, without gaps or overlaps.
pub fn describe(extents: impl IntoIterator<Item = Extent>, table: &DeviceTable) -> Vec<Sled> {
    let mut sleds: Vec<Sled> = Vec::new();
    for extent in extents {
        match sleds.last_mut() {
            Some(last) if last.place == extent.place && last.device == extent.device => {
                last.length += extent.length;
            }
            _ => sleds.push(Sled {
                offset: extent.offset,
                length: extent.length,
                device: extent.device,
                place: extent.place,
                estimate: None,
            }),
        }
    }
    for sled in &mut sleds {
        sled.estimate = match sled.place {
            Place::Unknown => None,
            Place::Near | Place::Far | Place::Cold => table.estimate(&sled.device, sled.length),
        };
    }
    sleds
}

/// As [`describe`], of a file of `device`: what is near of it costs what was observed there.
pub fn describe_on(
    device: &Device,
    extents: impl IntoIterator<Item = Extent>,
    table: &DeviceTable,
) -> Vec<Sled> {
    let mut sleds = describe(extents, table);
    for sled in sleds.iter_mut().filter(|sled| sled.place == Place::Near) {
        sled.estimate = table.estimate_near(device, sled.length);
    }
    sleds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, length: u64, place: Place) -> Extent {
        let device = if place == Place::Near { Device::memory() } else { Device::new("disk:a") };
        Extent { offset, length, device, place }
    }

    #[test]
    fn neighbours_that_are_alike_become_one() {
        let extents = [
            extent(0, 10, Place::Near),
            extent(10, 5, Place::Near),
            extent(15, 1, Place::Far),
            extent(16, 4, Place::Near),
        ];
        let sleds = describe(extents, &DeviceTable::default());
        let ranges: Vec<_> = sleds.iter().map(Sled::range).collect();
        assert_eq!(ranges, [0..15, 15..16, 16..20]);
    }

    #[test]
    fn an_unknown_place_has_no_estimate_even_on_a_known_device() {
        let mut table = DeviceTable::default();
        let device = Device::new("disk:a");
        table.observe(
            &device,
            crate::Observation { bytes: 1 << 20, first_byte: Some(0.01), whole: 0.02 },
        );
        let sleds = describe([extent(0, 10, Place::Unknown), extent(10, 10, Place::Far)], &table);
        assert_eq!(sleds[0].estimate, None);
        assert!(sleds[1].estimate.is_some());
    }
}
