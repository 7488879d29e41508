//! One file, handed out in chunks to several threads, near first.
//!
//! [`layout`] is what is known before it begins, [`work`] what the threads share and do, [`read`] how
//! they read a piece, [`ways`] whether they copy what is near.

mod layout;
mod read;
#[cfg(test)]
mod tests;
mod ways;
mod work;

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sled::{DeliveryTime, Extent, Place, Plan, Sled};
use store::{Backing, Costs, Located, Status};

use self::layout::{is_within, large_holes, located};
pub(crate) use self::read::{short_or_failed, shrunk};
use self::work::Shared;
use crate::Error;
use crate::far::FarReader;
use crate::mapping::Mapping;
use crate::near::NearReader;

/// Preferred chunk: large enough that handing it out costs nothing, small
/// enough that a slow device delivers one soon.
const CHUNK_BYTES: usize = 2 << 20;

/// What two threads search or count in a second, roughly: from memory, without a copy.
const COMPUTED_PER_S: f64 = 2e9;
/// Share of the time of fetching that fetching ahead must save at best to be done.
const AHEAD_GAIN_MIN: f64 = 0.1;

/// An open file to scan.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The file, open for reading. Its position is neither used nor moved.
    pub file: &'a File,
    /// Its name, for errors.
    pub path: &'a Path,
    /// What knows where its parts are and learns what they cost.
    pub costs: &'a Costs,
}

/// How to scan.
#[derive(Debug, Clone, Copy)]
pub struct ScanOptions {
    /// Preferred bytes of a chunk; by default 2 MiB, and 0 counts as 1. Chunks may be shorter,
    /// and with a separator as long as a record.
    pub chunk_bytes: usize,
    /// With a separator every chunk starts at the start of a record and ends
    /// just after a separator or at the end of the file. By default none:
    /// chunks end anywhere.
    pub separator: Option<u8>,
    /// Threads, the caller's included; by default one per processor.
    pub jobs: usize,
    /// Near first (the default), or file order.
    pub plan: Plan,
    /// Whether to fetch far chunks while near ones are left, where that can
    /// save time worth it. By default so; not for a search that may stop
    /// before it needs any.
    pub ahead: bool,
    /// Whether to estimate what is told of times ([`ScanReport::told`], [`ScanReport::saved_s`]). By
    /// default so; of a file that is all in memory nothing else needs the device tables, and to load
    /// them may take as long as to count 32 MiB.
    pub estimates: bool,
    /// Whether a large hole is one chunk, however long, of which only the first [`Chunk::bytes`] are
    /// shown. By default not so; for results that can be told of many zeros without seeing them.
    pub whole_holes: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self::with_jobs(std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get))
    }
}

impl ScanOptions {
    /// With so many threads, and all else by default: to ask how many there may be takes 0.1 ms.
    pub fn with_jobs(jobs: usize) -> Self {
        let (separator, plan) = (None, Plan::Best);
        let (ahead, estimates, whole_holes) = (true, true, false);
        Self { chunk_bytes: CHUNK_BYTES, separator, jobs, plan, ahead, estimates, whole_holes }
    }
}

/// A piece of the file, read.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Chunk<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// How many bytes of the file it covers.
    pub length: u64,
    /// Its bytes; never empty. All of them, but of a hole with [`ScanOptions::whole_holes`] as many as
    /// are in another chunk at most.
    pub bytes: &'a [u8],
    /// Whether it was in memory when last asked.
    pub near: bool,
    /// Whether it lies in a hole: then all bytes are zero, and nothing was read for them.
    pub hole: bool,
}

/// What a scan found and took.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// Size of the file when it began; what is appended later is not read.
    pub size: u64,
    /// Bytes delivered that were in memory, holes included.
    pub near_bytes: u64,
    /// Bytes delivered that were large holes of the file; they lay neither in memory nor anywhere else.
    pub hole_bytes: u64,
    /// Bytes delivered that had to be fetched, or may have had to.
    pub far_bytes: u64,
    /// How many of these may have been in memory: nobody tells, or they were read in file order as one
    /// with what was.
    pub unknown_bytes: u64,
    /// Bytes that were in memory and so did not have to be read from the file's device.
    pub saved_bytes: u64,
    /// Seconds that reading those from the device was estimated to take, median; `None`: unknown, or
    /// not asked for.
    pub saved_s: Option<f64>,
    /// Time that reads of far bytes took, much of it beside computation.
    pub waited: Duration,
    /// Time in all.
    pub elapsed: Duration,
    /// What reading all of it but large holes, by the plan, was estimated to take; of what is all in
    /// memory only where it was asked for.
    pub told: DeliveryTime,
    /// Whether it ended before the end of the file because it was told to.
    pub stopped: bool,
}

/// Lets a callback end a scan early.
pub struct Control<'a> {
    stop_before: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for Control<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control<'_> {
    /// Hands out no further chunk.
    pub fn stop(&self) {
        self.stop_before(0);
    }

    /// Hands out no further chunk that starts at or after `offset`.
    pub fn stop_before(&self, offset: u64) {
        (self.stop_before)(offset);
    }
}

/// Scans a file: `each` computes over a chunk, `deliver` takes the result.
///
/// Both are called from several threads at once, chunks in any order, each
/// byte exactly once. `deliver` is called only for chunks that were sound
/// when `each` had finished, and with ranges that together tile the file: a
/// mapped file that shrinks under its reader is [`Error::Truncated`] and not
/// a crash, even if `each` panics over what it then saw.
///
/// # Errors
/// [`Error::Io`], [`Error::Truncated`], [`Error::Stalled`]. Chunks delivered until then stand.
pub fn scan<T, F, D>(
    source: &Source<'_>,
    options: &ScanOptions,
    each: F,
    deliver: D,
) -> Result<ScanReport, Error>
where
    F: Fn(&Chunk<'_>, &Control<'_>) -> T + Sync,
    D: Fn(Range<u64>, T, &Control<'_>) + Sync,
{
    let failed = |error| Error::Io { path: source.path.to_owned(), source: error };
    let clock = source.costs.clock();
    let start = clock.now();
    let status = source.costs.local().status(source.file).map_err(failed)?;
    let holes = large_holes(source, options, &status);
    let mut near_reader =
        NearReader::new(source.file, source.costs, status.backing.may_stall()).map_err(failed)?;
    let sleds = located(source, &near_reader, options, status.size, &holes)
        .map_err(|error| short_or_failed(source, status.size, 0, error))?;
    let read: Vec<Sled> =
        sleds.iter().filter(|sled| !is_within(&holes, &sled.range())).cloned().collect();
    let told = sled::delivery_time(&read, options.plan);
    let bytes_of = |place| -> u64 {
        sleds.iter().filter(|sled| sled.place == place).map(|sled| sled.length).sum()
    };
    let (near, unknown) = (bytes_of(Place::Near), bytes_of(Place::Unknown));
    let may_stall = status.backing.may_stall() && near < status.size;
    let far = FarReader::new(source.file, source.path, source.costs, may_stall).map_err(failed)?;
    let chunks = status.size.div_ceil(options.chunk_bytes.max(1) as u64);
    let readers = options.jobs.max(1).min(usize::try_from(chunks).unwrap_or(usize::MAX));
    let mapping = Mapping::harmless(source.file, status.size, &status).map(Arc::new);
    if let Some(mapping) = mapping.as_ref().filter(|_| near == status.size) {
        near_reader.is_of_all(mapping, status.size, readers);
    }
    let options =
        ScanOptions { ahead: options.ahead && is_worth_fetching_ahead(near, &told), ..*options };
    let shared = Shared {
        zeros: if holes.is_empty() { Vec::new() } else { vec![0; options.chunk_bytes.max(1)] },
        holes,
        mapping,
        is_near_in_part: near < status.size,
        has_near: near > 0,
        ..Shared::new(source, &options, status.size, &sleds, far, near_reader)
    };
    shared.notice_what_leaves(&sleds);
    std::thread::scope(|scope| {
        let work = || {
            shared.work(&each, &deliver);
            shared.end_mapping();
        };
        for _ in 1..readers {
            // Where no thread can be had, fewer do the same work.
            if std::thread::Builder::new().name("scan".into()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let mut state = shared.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(far) = &mut state.far {
        far.finish_stream();
        state.waited = far.waited();
    }
    let near = state.near_bytes - state.hole_bytes;
    let (saved_bytes, saved_s) = saved(source, &status, near, options.estimates);
    match state.failed {
        Some(error) => Err(error),
        None => Ok(ScanReport {
            saved_bytes,
            saved_s,
            size: status.size,
            near_bytes: state.near_bytes,
            hole_bytes: state.hole_bytes,
            far_bytes: state.far_bytes,
            unknown_bytes: unknown.min(state.far_bytes),
            waited: state.waited,
            elapsed: clock.now().saturating_sub(start),
            told,
            stopped: state.stopped,
        }),
    }
}

/// Whether to fetch while near chunks are left.
///
/// That hides the time to compute over `near` bytes, and nothing more. Where
/// memory is full, as it often is when a file is in memory in part, it drives
/// out as many near bytes as it fetches in that time, and these cost as much
/// again: so it is done only where there is much to hide.
fn is_worth_fetching_ahead(near: u64, told: &DeliveryTime) -> bool {
    near as f64 / COMPUTED_PER_S >= AHEAD_GAIN_MIN * told.p50
}

/// Of so many bytes of a file that are in memory and in no large hole: how many did not have to be
/// read from its device, as they lie on one, and, with `estimates`, the seconds that was estimated to
/// take, median; `None`: unknown.
pub fn saved(
    source: &Source<'_>,
    status: &Status,
    near: u64,
    estimates: bool,
) -> (u64, Option<f64>) {
    let bytes = saved_bytes(status, near);
    (bytes, estimates.then(|| reading_s(source, status, bytes)).flatten())
}

fn saved_bytes(status: &Status, near: u64) -> u64 {
    match status.backing {
        Backing::Memory | Backing::Pseudo => 0,
        // Small holes are near, but on no device.
        _ => near.min(status.allocated),
    }
}

/// The seconds it would take to read so many bytes from the device of a file.
fn reading_s(source: &Source<'_>, status: &Status, length: u64) -> Option<f64> {
    if length == 0 {
        return Some(0.0);
    }
    let device = status.device.clone();
    let extents = vec![Extent { offset: 0, length, device, place: Place::Far }];
    let sleds = source.costs.describe(Located { extents, ..Located::default() });
    sled::delivery_time(&sleds, Plan::Best).known().map(|time| time.p50)
}
