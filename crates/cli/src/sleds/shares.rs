//! How many bytes are at each place.

use nearfirst::Place;
use serde::Serialize;

/// Bytes by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Shares {
    /// In memory, and holes.
    #[serde(rename = "near_bytes")]
    pub(super) near: u64,
    /// On their device.
    #[serde(rename = "far_bytes")]
    pub(super) far: u64,
    /// Either.
    #[serde(rename = "unknown_bytes")]
    pub(super) unknown: u64,
    /// On a tier that must recall them.
    #[serde(rename = "cold_bytes")]
    pub(super) cold: u64,
}

impl Shares {
    pub(super) fn add(&mut self, place: Place, bytes: u64) {
        let share = match place {
            Place::Near => &mut self.near,
            Place::Far => &mut self.far,
            Place::Unknown => &mut self.unknown,
            Place::Cold => &mut self.cold,
        };
        *share = share.saturating_add(bytes);
    }

    /// Adds those of others.
    pub(super) fn merge(&mut self, others: &Self) {
        for (place, bytes) in others.by_place() {
            self.add(place, bytes);
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.by_place().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// In the order in which they are shown.
    pub(super) fn by_place(&self) -> [(Place, u64); 4] {
        [
            (Place::Near, self.near),
            (Place::Far, self.far),
            (Place::Unknown, self.unknown),
            (Place::Cold, self.cold),
        ]
    }
}
