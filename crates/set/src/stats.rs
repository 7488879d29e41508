//! What was fetched for sets, and what is on its way.

use fetch::scheduler::DeviceSnapshot;

use crate::Set;

/// What a set is at; all but `names` is of all sets of its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SetStats {
    /// Names that are known so far, what could not be listed among them.
    pub names: u64,
    /// Requests for data that are in flight.
    pub in_flight: u64,
    /// Requests for data that were made.
    pub requests: u64,
    /// Requests that were made again, since the one before failed.
    pub retries: u64,
    /// Requests that were made beside one that was late.
    pub hedges: u64,
    /// Requests that a server turned away, since it was busy.
    pub refusals: u64,
    /// Requests that brought nothing for too long.
    pub stalls: u64,
    /// Bytes that were fetched and not read, and the room that is kept for what may come: of an object
    /// whose size nobody told, that is for as much as one request asks for.
    pub held_bytes: u64,
    /// The most that these were.
    pub held_bytes_max: u64,
    /// Bytes that lie on disk because the budget was full.
    pub spilled_bytes: u64,
    /// Bytes that were put there so far.
    pub spilled_bytes_total: u64,
}

impl Set {
    /// What it is at now.
    pub fn stats(&self) -> SetStats {
        let snapshot = self.engine().snapshot();
        let sum = |of: fn(&DeviceSnapshot) -> u64| snapshot.devices.iter().map(of).sum();
        SetStats {
            names: self.known(),
            in_flight: sum(|device| device.in_flight.into()),
            requests: sum(|device| device.requests),
            retries: sum(|device| device.retries),
            hedges: sum(|device| device.hedges),
            refusals: sum(|device| device.refusals),
            stalls: sum(|device| device.stalls),
            held_bytes: snapshot.budget.used,
            held_bytes_max: snapshot.budget.peak,
            spilled_bytes: snapshot.budget.spilled,
            spilled_bytes_total: snapshot.budget.spilled_total,
        }
    }
}
