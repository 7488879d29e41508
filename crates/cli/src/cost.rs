//! What files cost, to order them by.

use nearfirst::{Place, Plan, Sled, delivery_time};

/// What reading all of a file costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cost {
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
    /// That of a file with these sleds.
    pub(crate) fn of(sleds: &[Sled], plan: Plan) -> Self {
        if sleds.iter().all(|sled| sled.place == Place::Near) {
            return Self::Nothing;
        }
        let time = delivery_time(sleds, plan);
        match (time.cold_bytes, time.unknown_bytes) {
            (0, 0) => Self::Seconds(time.p50),
            (0, unknown) => Self::Unknown(unknown),
            (cold, _) => Self::Cold(cold),
        }
    }

    /// Sorts as the costs do: two bits of class, then the amount.
    pub(crate) fn key(self) -> u64 {
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
