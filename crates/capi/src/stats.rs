//! What was fetched for sets, and what is on its way.

#![expect(unsafe_code, reason = "a C symbol is exported, and caller's memory is filled")]

use std::ffi::c_int;
use std::mem::offset_of;

use crate::error::answer;
use crate::memory::put_sized;
use crate::open_sets;
use crate::sets::SetId;

/// What a set is at. Later versions may add fields at its end. All but `names` is of all sets that share what their options allow.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
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

/// What the first version of [`SetStats`] has; fields that come later follow these.
const FIRST_BYTES: usize = offset_of!(SetStats, spilled_bytes_total) + size_of::<u64>();

/// What `set` is at. `size` is `sizeof (struct nf_set_stats)`; fields that only the
/// caller's version knows are 0.
///
/// Returns 0, or -1 with `errno`: `EBADF` (no such set), `EINVAL` (`stats` is null, or
/// `size` is below that of the first version).
///
/// # Safety
/// `stats` may be written for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_stats(set: SetId, stats: *mut SetStats, size: usize) -> c_int {
    answer(-1, || {
        let opened = open_sets::get(set)?;
        let told = SetStats::from(opened.set().stats());
        // SAFETY: the C caller promises that it may be written.
        unsafe { put_sized(stats, "stats", size, FIRST_BYTES, &told) }?;
        Ok(0)
    })
}
