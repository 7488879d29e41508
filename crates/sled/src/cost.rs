//! What files cost, to order them by.

use crate::{Place, Plan, Sled, delivery_time};

/// What reading all of a file costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// It is wholly in memory.
    Nothing,
    /// So many seconds.
    Seconds(f64),
    /// Nobody knows, of so many bytes.
    Unknown(u64),
    /// So many bytes must be recalled.
    Cold(u64),
    /// The file could not be asked about.
    Unasked,
}

impl Cost {
    /// That of an object whose size nobody knows.
    pub const UNTOLD: Self = Self::Unknown(u64::MAX);

    /// That of a file with these sleds, read by `plan`.
    pub fn of(sleds: &[Sled], plan: Plan) -> Self {
        if sleds.iter().all(|sled| sled.place == Place::Near) {
            return Self::Nothing;
        }
        let time = delivery_time(sleds, plan);
        // What is empty is recalled, too, before it can be read.
        if sleds.iter().any(|sled| sled.place == Place::Cold) {
            return Self::Cold(time.cold_bytes);
        }
        match time.unknown_bytes {
            0 => Self::Seconds(time.p50),
            unknown => Self::Unknown(unknown),
        }
    }

    /// Sorts as the costs do: three bits of class, then the amount.
    pub fn key(self) -> u64 {
        const AMOUNT_MAX: u64 = (1 << 61) - 1;
        let (class, amount) = match self {
            Self::Nothing => (0, 0),
            // The bits of non-negative floats sort as the floats do; three are lost.
            Self::Seconds(seconds) => (1, seconds.max(0.0).to_bits() >> 3),
            Self::Unknown(bytes) => (2, bytes),
            Self::Cold(bytes) => (3, bytes),
            Self::Unasked => (4, 0),
        };
        class << 61 | amount.min(AMOUNT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Estimate};

    fn sled(place: Place, length: u64, known: bool) -> Sled {
        let estimate = known.then(|| Estimate::exact(0.01, 1e6));
        Sled { offset: 0, length, device: Device::new("disk:sda"), place, estimate }
    }

    #[test]
    fn files_come_by_what_is_near_known_unknown_and_cold() {
        let sleds = [
            &[sled(Place::Near, 1 << 40, false)][..],
            &[sled(Place::Far, 1000, true)],
            &[sled(Place::Near, 1000, true), sled(Place::Far, 2000, true)],
            &[sled(Place::Far, 1000, false)],
            &[sled(Place::Unknown, 2000, false), sled(Place::Far, 1 << 30, true)],
            &[sled(Place::Cold, 0, false)],
            &[sled(Place::Cold, 1000, true)],
            &[sled(Place::Cold, 2000, false), sled(Place::Far, 1 << 40, false)],
        ];
        let costs = sleds.iter().map(|sleds| Cost::of(sleds, Plan::Best));
        let keys: Vec<u64> = costs.chain([Cost::Unasked]).map(Cost::key).collect();
        assert!(keys.is_sorted_by(|one, next| one < next), "{keys:?}");
        assert_eq!((Cost::of(&[], Plan::Best).key(), keys[0]), (0, 0));
    }
}
