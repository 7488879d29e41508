//! What was fetched for sets, and what is on its way, for Python.

use pyo3::prelude::*;

/// What a set is at; all but `names` is of all sets that share what their options allow.
#[pyclass(frozen, get_all, eq, hash, module = "nearfirst")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SetStats {
    /// Names that are known so far, what could not be listed among them.
    names: u64,
    /// Requests for data that are in flight.
    in_flight: u64,
    /// Requests for data that were made.
    requests: u64,
    /// Requests that were made again, since the one before failed.
    retries: u64,
    /// Requests that were made beside one that was late.
    hedges: u64,
    /// Requests that a server turned away, since it was busy.
    refusals: u64,
    /// Requests that brought nothing for too long.
    stalls: u64,
    /// Bytes that were fetched and not read, and the room that is kept for what may come.
    held_bytes: u64,
    /// The most that these were.
    held_bytes_max: u64,
    /// Bytes that lie on disk because the budget was full.
    spilled_bytes: u64,
    /// Bytes that were put there so far.
    spilled_bytes_total: u64,
}

impl From<nearfirst::SetStats> for SetStats {
    fn from(stats: nearfirst::SetStats) -> Self {
        Self {
            names: stats.names,
            in_flight: stats.in_flight,
            requests: stats.requests,
            retries: stats.retries,
            hedges: stats.hedges,
            refusals: stats.refusals,
            stalls: stats.stalls,
            held_bytes: stats.held_bytes,
            held_bytes_max: stats.held_bytes_max,
            spilled_bytes: stats.spilled_bytes,
            spilled_bytes_total: stats.spilled_bytes_total,
        }
    }
}

#[pymethods]
impl SetStats {
    fn __repr__(&self) -> String {
        let Self { names, requests, in_flight, held_bytes, .. } = self;
        format!(
            "<nearfirst.SetStats {names} names, {requests} requests, {in_flight} in flight, \
             {held_bytes} bytes held>"
        )
    }
}
