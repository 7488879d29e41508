//! How many bytes are at each place, and `--stats` of commands that ask for no more than that.

use clap::Args;
use nearfirst::{Clock, Place, Sled};
use serde::Serialize;

use crate::{human, messages};

/// Bytes by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Shares {
    /// In memory, and holes.
    #[serde(rename = "near_bytes")]
    pub(crate) near: u64,
    /// On their device.
    #[serde(rename = "far_bytes")]
    pub(crate) far: u64,
    /// Either.
    #[serde(rename = "unknown_bytes")]
    pub(crate) unknown: u64,
    /// On a tier that must recall them.
    #[serde(rename = "cold_bytes")]
    pub(crate) cold: u64,
}

impl Shares {
    /// Of a file with these sleds.
    pub(crate) fn of(sleds: &[Sled]) -> Self {
        let mut shares = Self::default();
        for sled in sleds {
            shares.add(sled.place, sled.length);
        }
        shares
    }

    pub(crate) fn add(&mut self, place: Place, bytes: u64) {
        let share = match place {
            Place::Near => &mut self.near,
            Place::Far => &mut self.far,
            Place::Unknown => &mut self.unknown,
            Place::Cold => &mut self.cold,
        };
        *share = share.saturating_add(bytes);
    }

    /// Adds those of others.
    pub(crate) fn merge(&mut self, others: &Self) {
        for (place, bytes) in others.by_place() {
            self.add(place, bytes);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_place().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// In the order in which they are shown.
    pub(crate) fn by_place(&self) -> [(Place, u64); 4] {
        [
            (Place::Near, self.near),
            (Place::Far, self.far),
            (Place::Unknown, self.unknown),
            (Place::Cold, self.cold),
        ]
    }
}

/// `--stats` of a command that asks where files are.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct StatsFlag {
    /// Say on stderr how many files were asked about, where their bytes are and how long it took
    #[arg(long, help_heading = "Asking")]
    pub(crate) stats: bool,
}

/// What a run found out by asking.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answers {
    pub(crate) files: u64,
    pub(crate) shares: Shares,
}

impl Answers {
    /// Adds a file.
    pub(crate) fn add(&mut self, sleds: &[Sled]) {
        self.merge(&Self { files: 1, shares: Shares::of(sleds) });
    }

    /// Adds those of others.
    pub(crate) fn merge(&mut self, others: &Self) {
        self.files += others.files;
        self.shares.merge(&others.shares);
    }

    /// Says what `--stats` asks for, of a run that began with `clock`.
    pub(crate) fn say(&self, clock: &Clock) {
        let Shares { near, far, unknown, cold } = self.shares;
        messages::note(format_args!(
            "{} asked about: {} in memory, {} on devices, {} where nobody tells, {} offline; known \
             after {}",
            human::counted(self.files, "file"),
            human::bytes(near),
            human::bytes(far),
            human::bytes(unknown),
            human::bytes(cold),
            human::seconds(clock.now().as_secs_f64()),
        ));
    }
}
