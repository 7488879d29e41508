//! One file, handed out in chunks to several threads, near first.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sled::{DeliveryTime, Extent, Picker, Piece, Place, Plan, Sled, first_record_end, pull_edges};
use store::{Backing, Costs, Located, Status};

use crate::Error;
use crate::far::FarReader;
use crate::mapping::Mapping;
use crate::near::NearReader;
use crate::sync::{Condvar, Mutex, lock};

/// Preferred chunk: large enough that handing it out costs nothing, small
/// enough that a slow device delivers one soon.
const CHUNK_BYTES: usize = 2 << 20;
/// A record longer than this is not copied: it is brought into the page cache and handed out mapped.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// With longer chunks holes are read like data, rather than to hold that many zeros ready.
const ZEROS_BYTES_MAX: usize = 64 << 20;
/// Far bytes read after which it is asked again where data is: by then others may have brought some near.
const REFRESH_BYTES: u64 = 64 << 20;

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
    /// Preferred bytes of a chunk; by default 2 MiB. Chunks may be shorter,
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
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: CHUNK_BYTES,
            separator: None,
            jobs: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            plan: Plan::Best,
            ahead: true,
        }
    }
}

/// A piece of the file, read.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes; never empty.
    pub bytes: &'a [u8],
    /// Whether it was in memory when last asked.
    pub near: bool,
    /// Whether it lies in a hole: then all bytes are zero, and nothing was read for them.
    pub hole: bool,
}

/// What a scan found and took.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScanReport {
    /// Size of the file when it began; what is appended later is not read.
    pub size: u64,
    /// Bytes delivered that were in memory, holes included.
    pub near_bytes: u64,
    /// Bytes delivered that were large holes of the file; they lay neither in memory nor anywhere else.
    pub hole_bytes: u64,
    /// Bytes delivered that had to be fetched.
    pub far_bytes: u64,
    /// Bytes that were in memory and so did not have to be read from the file's device.
    pub saved_bytes: u64,
    /// Seconds that reading those from the device was estimated to take, median; `None`: unknown.
    pub saved_s: Option<f64>,
    /// Time that reads of far bytes took, much of it beside computation.
    pub waited: Duration,
    /// Time in all.
    pub elapsed: Duration,
    /// What reading all of it but large holes, by the plan, was estimated to take.
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
    let entry = source.costs.local().status(source.file).map_err(failed)?;
    let holes = large_holes(source, options, &entry);
    let near_reader =
        NearReader::new(source.file, source.costs, entry.backing.may_stall()).map_err(failed)?;
    let sleds = located(source, &near_reader, options, entry.size, &holes)
        .map_err(|error| short_or_failed(source, entry.size, 0, error))?;
    let read: Vec<Sled> =
        sleds.iter().filter(|sled| !is_within(&holes, &sled.range())).cloned().collect();
    let told = sled::delivery_time(&read, options.plan);
    let near: u64 = sleds.iter().filter(|sled| sled.place == Place::Near).map(|s| s.length).sum();
    let may_stall = entry.backing.may_stall() && near < entry.size;
    let far = FarReader::new(source.file, source.path, source.costs, may_stall).map_err(failed)?;
    let chunks = entry.size.div_ceil(options.chunk_bytes.max(1) as u64);
    // Reading a mapped hole of a file system in memory fills it, and fails where that is full.
    let may_map = entry.backing != Backing::Memory || entry.allocated >= entry.size;
    let mapping = may_map.then(|| Mapping::of(source.file, entry.size)).flatten().map(Arc::new);
    let options =
        ScanOptions { ahead: options.ahead && is_worth_fetching_ahead(near, &told), ..*options };
    let shared = Shared {
        zeros: if holes.is_empty() { Vec::new() } else { vec![0; options.chunk_bytes.max(1)] },
        holes,
        mapping,
        is_near_in_part: near < entry.size,
        ..Shared::new(source, &options, entry.size, &sleds, far, near_reader)
    };
    shared.notice_what_leaves();
    let helpers = options.jobs.max(1).min(usize::try_from(chunks).unwrap_or(usize::MAX))
        - usize::from(chunks > 0);
    std::thread::scope(|scope| {
        let work = || {
            shared.work(&each, &deliver);
            shared.end_mapping();
        };
        for _ in 0..helpers {
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
    let (saved_bytes, saved_s) = saved(source, &entry, state.near_bytes - state.hole_bytes);
    match state.failed {
        Some(error) => Err(error),
        None => Ok(ScanReport {
            saved_bytes,
            saved_s,
            size: entry.size,
            near_bytes: state.near_bytes,
            hole_bytes: state.hole_bytes,
            far_bytes: state.far_bytes,
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

/// Of `near` bytes those that lie on a device, too, and the seconds it would take to read them.
fn saved(source: &Source<'_>, entry: &Status, near: u64) -> (u64, Option<f64>) {
    if matches!(entry.backing, Backing::Memory | Backing::Pseudo) {
        return (0, Some(0.0));
    }
    // Small holes are near, but on no device.
    let length = near.min(entry.allocated);
    let device = entry.device.clone();
    let on_device = Extent { offset: 0, length, device, place: Place::Far };
    let extents = if length > 0 { vec![on_device] } else { Vec::new() };
    let sleds = source.costs.describe(Located { extents, reason: None });
    (length, sled::delivery_time(&sleds, Plan::Best).known().map(|time| time.p50))
}

/// The holes that are worth knowing: of a chunk or more, where asking is safe and cheap.
///
/// With a separator there are none: a hole is then part of a record.
fn large_holes(source: &Source<'_>, options: &ScanOptions, entry: &Status) -> Vec<Range<u64>> {
    let bytes_min = options.chunk_bytes.max(1) as u64;
    let sparse = entry.allocated.saturating_add(bytes_min) <= entry.size;
    let zeros_fit = options.chunk_bytes <= ZEROS_BYTES_MAX;
    if !sparse || !zeros_fit || options.separator.is_some() || entry.backing.may_stall() {
        return Vec::new();
    }
    // What is not known to be a hole is read.
    store::holes(source.file, entry.size, bytes_min).unwrap_or_default()
}

/// The sleds of the file, with their edges at records and at `holes`.
fn located(
    source: &Source<'_>,
    near: &NearReader<'_>,
    options: &ScanOptions,
    size: u64,
    holes: &[Range<u64>],
) -> io::Result<Vec<Sled>> {
    let mut sleds = source.costs.file_sleds(source.file)?;
    // The file may have grown since its size was pinned.
    sleds.retain(|sled| sled.offset < size);
    if let Some(last) = sleds.last_mut() {
        last.length = size - last.offset;
    }
    if sleds.is_empty() && size > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match options.separator {
        Some(separator) if options.plan == Plan::Best => {
            pull_edges(&sleds, separator, |offset, buffer| near.read_exact_at(buffer, offset))
        }
        // In file order a chunk that ends at a record starts the next one there.
        Some(_) => Ok(as_one(sleds)),
        None => Ok(cut_at_holes(sleds, holes)),
    }
}

/// The same sleds, cut so that what is near is either in a hole or outside, and no piece both.
fn cut_at_holes(sleds: Vec<Sled>, holes: &[Range<u64>]) -> Vec<Sled> {
    if holes.is_empty() {
        return sleds;
    }
    let mut cut = Vec::with_capacity(sleds.len() + 2 * holes.len());
    for sled in sleds {
        let Range { start, end } = sled.range();
        let inside = |edge: &u64| start < *edge && *edge < end && sled.place == Place::Near;
        let first = holes.partition_point(|hole| hole.end <= start);
        let near = holes[first..].iter().take_while(|hole| hole.start < end);
        let edges = near.flat_map(|hole| [hole.start, hole.end]).filter(inside);
        let mut at = start;
        for edge in edges.chain([end]) {
            cut.push(Sled { offset: at, length: edge - at, ..sled.clone() });
            at = edge;
        }
    }
    cut
}

/// In file order a chunk that ends at a record starts the next one there, so
/// that the edges between sleds do not matter: what is not wholly near is one stream.
fn as_one(sleds: Vec<Sled>) -> Vec<Sled> {
    let far = sleds.iter().find(|sled| sled.place != Place::Near);
    let Some(far) = far.cloned() else { return sleds };
    let end = sleds.last().map_or(0, |last| last.range().end);
    vec![Sled { offset: 0, length: end, ..far }]
}

/// Whether all of `range` is in one of `holes`.
fn is_within(holes: &[Range<u64>], range: &Range<u64>) -> bool {
    let hole = holes.partition_point(|hole| hole.end < range.end);
    holes.get(hole).is_some_and(|hole| hole.start <= range.start)
}

/// What a read at about `offset` that failed, or found less than the file had, means.
fn short_or_failed(source: &Source<'_>, size: u64, offset: u64, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => shrunk(source, size),
        io::ErrorKind::TimedOut => Error::Stalled {
            path: source.path.to_owned(),
            offset,
            limit: source.costs.local().wait_max(),
        },
        _ => Error::Io { path: source.path.to_owned(), source: error },
    }
}

fn shrunk(source: &Source<'_>, size: u64) -> Error {
    let path = source.path.to_owned();
    let found = source.file.metadata().map_or(0, |metadata| metadata.len());
    if found < size {
        Error::Truncated { path, expected: size, found }
    } else {
        Error::Io { path, source: io::Error::from_raw_os_error(libc::EIO) }
    }
}

struct Shared<'a> {
    source: Source<'a>,
    options: ScanOptions,
    size: u64,
    near: NearReader<'a>,
    mapping: Option<Arc<Mapping>>,
    /// Only part of the file was in memory: then memory may be short.
    is_near_in_part: bool,
    /// In file order.
    holes: Vec<Range<u64>>,
    /// What a chunk of a hole holds. Memory that is only read takes no page of its own.
    zeros: Vec<u8>,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

impl std::fmt::Debug for Shared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("source", &self.source).finish_non_exhaustive()
    }
}

struct State<'a> {
    picker: Picker,
    /// A far piece as others are, if what leaves memory before its turn is to be one of them.
    like_far: Option<Piece>,
    /// Who takes the reader may read what is far; `None` while somebody does.
    far: Option<FarReader<'a>>,
    far_since_refresh: u64,
    /// Near pieces that are taken and not delivered yet.
    near_at_work: usize,
    /// Nothing that starts at or after this is needed.
    limit: u64,
    failed: Option<Error>,
    near_bytes: u64,
    hole_bytes: u64,
    far_bytes: u64,
    waited: Duration,
    stopped: bool,
}

enum Work<'a> {
    Near(Piece),
    Far(Piece, FarReader<'a>),
}

/// Ends the scan for all when a callback panics in one thread.
struct Alarm<'a, 'b>(&'a Shared<'b>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let source = io::Error::other("a thread panicked");
            self.0.fail(Error::Io { path: self.0.source.path.to_owned(), source });
        }
    }
}

impl<'a> Shared<'a> {
    fn new(
        source: &Source<'a>,
        options: &ScanOptions,
        size: u64,
        sleds: &[Sled],
        far: FarReader<'a>,
        near: NearReader<'a>,
    ) -> Self {
        Self {
            source: *source,
            near,
            options: *options,
            size,
            mapping: None,
            is_near_in_part: false,
            holes: Vec::new(),
            zeros: Vec::new(),
            state: Mutex::new(State {
                picker: Picker::with_plan(sleds, options.chunk_bytes as u64, options.plan),
                like_far: None,
                far: Some(far),
                far_since_refresh: 0,
                near_at_work: 0,
                limit: u64::MAX,
                failed: None,
                near_bytes: 0,
                hole_bytes: 0,
                far_bytes: 0,
                waited: Duration::ZERO,
                stopped: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn work<T, F, D>(&self, each: &F, deliver: &D)
    where
        F: Fn(&Chunk<'_>, &Control<'_>) -> T + Sync,
        D: Fn(Range<u64>, T, &Control<'_>) + Sync,
    {
        let stop_before = |offset| self.stop_before(offset);
        let control = Control { stop_before: &stop_before };
        let _alarm = Alarm(self);
        let mut buffer = Vec::new();
        loop {
            let work = match self.next_work() {
                Ok(Some(work)) => work,
                Ok(None) => return,
                Err(error) => {
                    return self.fail(short_or_failed(&self.source, self.size, 0, error));
                }
            };
            let (range, near) = match work {
                Work::Near(piece) if is_within(&self.holes, &piece.range()) => {
                    (piece.range(), true)
                }
                Work::Near(piece) => match self.bring_mapped(&piece, &mut buffer) {
                    Ok(()) => (piece.range(), true),
                    Err(error) => return self.fail(error),
                },
                Work::Far(piece, mut far) => {
                    let read = self.read_far(&piece, &mut far, &mut buffer);
                    let is_needed = {
                        let mut state = lock(&self.state);
                        state.far = Some(far);
                        state.stopped |= piece.offset >= state.limit;
                        piece.offset < state.limit
                    };
                    self.changed.notify_all();
                    if !is_needed && read.is_ok() {
                        continue;
                    }
                    match read {
                        Ok(range) => (range, false),
                        Err(error) => return self.fail(error),
                    }
                }
            };
            let length = range.end - range.start;
            let hole = near && is_within(&self.holes, &range);
            let mapped = self.mapping.as_ref().filter(|_| !hole && buffer.is_empty());
            let bytes = match mapped {
                Some(mapping) => mapping.bytes(&range),
                None if hole => &self.zeros[..usize::try_from(length).expect("at most a chunk")],
                None => &buffer,
            };
            let chunk = Chunk { offset: range.start, bytes, near, hole };
            // What vanishes under `each` may break what it relies on: that is no panic of its own.
            let result = panic::catch_unwind(AssertUnwindSafe(|| each(&chunk, &control)));
            let sound = match mapped {
                Some(mapping) => mapping.is_sound(),
                None => !hole || self.reaches(range.end),
            };
            if !sound {
                return self.fail(shrunk(&self.source, self.size));
            }
            let result = result.unwrap_or_else(|panic| panic::resume_unwind(panic));
            {
                let mut state = lock(&self.state);
                if near {
                    state.near_bytes += length;
                } else {
                    state.far_bytes += length;
                }
                if hole {
                    state.hole_bytes += length;
                }
            }
            // Unmapping interrupts all processors, so only where memory may be short.
            if let Some(mapping) = mapped.filter(|_| self.is_near_in_part) {
                mapping.is_done_with(&range);
            }
            deliver(range, result, &control);
            if near {
                lock(&self.state).near_at_work -= 1;
                self.changed.notify_all();
            }
        }
    }

    /// Whether the file is still that long.
    fn reaches(&self, end: u64) -> bool {
        self.source.file.metadata().is_ok_and(|metadata| metadata.len() >= end)
    }

    /// Waits for something to do; `None` when there will be nothing more.
    fn next_work(&self) -> io::Result<Option<Work<'a>>> {
        let mut state = lock(&self.state);
        loop {
            if state.failed.is_some() {
                return Ok(None);
            }
            self.refresh(&mut state)?;
            if self.options.ahead
                && self.options.jobs > 1
                && let Some(work) = Self::take_far(&mut state)
            {
                return Ok(Some(work));
            }
            match state.picker.peek() {
                Some(piece) if piece.place == Place::Near => {
                    let piece = self.take_near(&mut state)?;
                    let Some(left) = piece.as_ref().filter(|piece| self.has_left(&state, piece))
                    else {
                        state.near_at_work += 1;
                        return Ok(piece.map(Work::Near));
                    };
                    if let Some(far) = state.like_far.clone() {
                        state.picker.give_back(&far, left.range());
                    }
                    continue;
                }
                // The answer may be in what is at work.
                Some(_) if !self.options.ahead && state.near_at_work > 0 => {}
                Some(_) => {
                    if let Some(far) = state.far.take() {
                        let piece = state.picker.take().expect("it was just seen");
                        return Ok(Some(Work::Far(piece, far)));
                    }
                }
                // Who reads what is far may give back the end of it.
                None if state.far.is_some() => return Ok(None),
                None => {}
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Lets pieces that leave memory before their turn be fetched with the far ones, in file order.
    ///
    /// Where memory is short, what is fetched drives out what is near. A page
    /// fault would bring that back with what lies around it, beside the stream
    /// of the device, and so drive out the next piece just before its turn.
    fn notice_what_leaves(&self) {
        let mut state = lock(&self.state);
        let Some(near) = state.picker.peek().filter(|piece| piece.place == Place::Near) else {
            return;
        };
        // Some file systems do not tell what is in memory in this way.
        if !self.is_resident(&near) {
            return;
        }
        if let Some(far) = state.picker.take_far() {
            state.picker.give_back(&far, far.range());
            state.like_far = Some(far);
        }
    }

    fn has_left(&self, state: &State<'_>, piece: &Piece) -> bool {
        state.like_far.is_some()
            && !is_within(&self.holes, &piece.range())
            && !self.is_resident(piece)
    }

    fn is_resident(&self, piece: &Piece) -> bool {
        store::resident_ranges(self.source.file, &[piece.range()])
            .is_ok_and(|ranges| ranges.iter().all(|(_, resident)| *resident))
    }

    fn stop_before(&self, offset: u64) {
        let mut state = lock(&self.state);
        state.limit = state.limit.min(offset);
        state.stopped |= state.picker.stop_before(offset);
        drop(state);
        self.changed.notify_all();
    }

    fn take_far(state: &mut State<'a>) -> Option<Work<'a>> {
        let far = state.far.take()?;
        if let Some(piece) = state.picker.take_far() {
            return Some(Work::Far(piece, far));
        }
        state.far = Some(far);
        None
    }

    fn take_near(&self, state: &mut State<'_>) -> io::Result<Option<Piece>> {
        match self.options.separator {
            None => Ok(state.picker.take()),
            Some(separator) => {
                let mut read = |offset, buffer: &mut [u8]| self.near.read_exact_at(buffer, offset);
                let mut piece = state.picker.take_records(separator, &mut read)?;
                if let Some(piece) =
                    piece.as_mut().filter(|piece| self.is_cut(state, piece.range().end))
                {
                    // From its last byte on: that may be the separator.
                    let last = piece.range().end - 1;
                    let end = first_record_end(last, self.size, separator, &mut read)?;
                    piece.length = end.unwrap_or(self.size) - piece.offset;
                }
                Ok(piece)
            }
        }
    }

    /// Whether a piece ends at `end` because nothing that starts there is needed:
    /// its last record may well end later.
    fn is_cut(&self, state: &State<'_>, end: u64) -> bool {
        end >= state.limit && end < self.size
    }

    /// Takes what follows `end`, for a record that goes on there (empty if
    /// nothing does), and whether that lies beyond a stop.
    fn take_on(&self, end: u64) -> (Range<u64>, bool) {
        let to = end.saturating_add(self.options.chunk_bytes as u64);
        let mut state = lock(&self.state);
        if self.is_cut(&state, end) {
            return (end..to.min(self.size), true);
        }
        (end..state.picker.take_on(end, to), false)
    }

    /// Asks again where data is, now and then, but not while something far is
    /// being read: until its last record is found, what follows it starts in
    /// the middle of one and must not be taken for near.
    fn refresh(&self, state: &mut State<'_>) -> io::Result<()> {
        if state.far.is_none()
            || state.far_since_refresh < REFRESH_BYTES.max(self.size / 32)
            || self.options.plan == Plan::Linear
        {
            return Ok(());
        }
        state.far_since_refresh = 0;
        let sleds = located(&self.source, &self.near, &self.options, self.size, &self.holes)?;
        state.picker.refresh(&sleds);
        Ok(())
    }

    /// Makes a near piece readable: mapped, or, where that cannot be, in `buffer`.
    fn bring_mapped(&self, piece: &Piece, buffer: &mut Vec<u8>) -> Result<(), Error> {
        buffer.clear();
        let brought = if let Some(mapping) = &self.mapping {
            if !self.is_near_in_part && !self.near.may_stall() {
                return Ok(());
            }
            self.near.hold(mapping, &piece.range())
        } else {
            buffer.resize(usize::try_from(piece.length).expect("a piece fits in memory"), 0);
            self.near.read_exact_at(buffer, piece.offset)
        };
        brought.map_err(|error| short_or_failed(&self.source, self.size, piece.offset, error))
    }

    /// Unmaps what was read, with the other threads: one alone takes 8 ms for a GiB.
    fn end_mapping(&self) {
        if let Some(mapping) = &self.mapping {
            mapping.help_unmap();
        }
    }

    /// Reads a far piece into `buffer`, to the end of its last record; what
    /// is left over goes back. A record too long to copy is left to the mapping.
    fn read_far(
        &self,
        piece: &Piece,
        far: &mut FarReader<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Range<u64>, Error> {
        self.read_part(far, piece, piece.range(), buffer)?;
        let mut end = piece.range().end;
        let goes_on = {
            let mut state = lock(&self.state);
            state.far_since_refresh += piece.length;
            state.picker.follows(end) || self.is_cut(&state, end)
        };
        let Some(separator) = self.options.separator.filter(|_| goes_on) else {
            return Ok(piece.range());
        };
        let mut searched = 0;
        let mut is_beyond = false;
        loop {
            // Beyond a stop only the end of the record is ours.
            let unsearched = &buffer[searched..];
            let found = if is_beyond {
                memchr::memchr(separator, unsearched)
            } else {
                memchr::memrchr(separator, unsearched)
            };
            if let Some(at) = found {
                let cut = searched + at + 1;
                let cut_at = piece.offset + cut as u64;
                buffer.truncate(cut);
                self.give_back(piece, cut_at..end);
                far.continue_at(cut_at);
                return Ok(piece.offset..cut_at);
            }
            searched = buffer.len();
            let (more, is_cut) = self.take_on(end);
            if more.is_empty() {
                return Ok(piece.offset..end);
            }
            is_beyond = is_cut;
            end = more.end;
            if buffer.len() > RECORD_BYTES_MAX && self.mapping.is_some() {
                return self.bring_long_record(far, piece, more, separator, buffer);
            }
            self.read_part(far, piece, more, buffer)?;
        }
    }

    /// Brings the rest of a record that began with `piece` into the page cache and leaves it there.
    fn bring_long_record(
        &self,
        far: &mut FarReader<'_>,
        piece: &Piece,
        mut part: Range<u64>,
        separator: u8,
        buffer: &mut Vec<u8>,
    ) -> Result<Range<u64>, Error> {
        loop {
            buffer.clear();
            self.read_part(far, piece, part.clone(), buffer)?;
            let found = memchr::memchr(separator, buffer).map(|at| part.start + at as u64 + 1);
            if let Some(cut) = found {
                buffer.clear();
                self.give_back(piece, cut..part.end);
                return Ok(piece.offset..cut);
            }
            let (more, _) = self.take_on(part.end);
            if more.is_empty() {
                buffer.clear();
                return Ok(piece.offset..part.end);
            }
            part = more;
        }
    }

    /// Appends a part of the file to `buffer`.
    fn read_part(
        &self,
        far: &mut FarReader<'_>,
        piece: &Piece,
        part: Range<u64>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let kept = if part.start == piece.offset { 0 } else { buffer.len() };
        buffer.truncate(kept);
        let bytes = usize::try_from(part.end - part.start).expect("a part fits in memory");
        buffer.resize(kept + bytes, 0);
        // Of what may be in memory a read says nothing about the device.
        let learn = (piece.place == Place::Far).then_some(&piece.device);
        far.is_left(lock(&self.state).picker.far_end(part.end) - part.start);
        if far.read(learn, part.start, &mut buffer[kept..])? < bytes {
            return Err(shrunk(&self.source, self.size));
        }
        Ok(())
    }

    fn give_back(&self, piece: &Piece, range: Range<u64>) {
        let mut state = lock(&self.state);
        state.picker.give_back(piece, range);
        let limit = state.limit;
        state.stopped |= state.picker.stop_before(limit);
    }

    fn fail(&self, error: Error) {
        lock(&self.state).failed.get_or_insert(error);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    use proptest::prelude::*;
    use sled::Observation;

    use super::*;

    type Delivered = Vec<(Range<u64>, Vec<u8>)>;

    /// A file of lines, synced, of which the given share at the front is evicted.
    fn file_of(content: &[u8], evicted: f64) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(content).expect("written");
        file.as_file().sync_all().expect("synced");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let bytes = (content.len() as f64 * evicted) as u64;
        if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
            let advice = rustix::fs::Advice::DontNeed;
            rustix::fs::fadvise(file.as_file(), 0, Some(bytes), advice).expect("evicted");
        }
        file
    }

    fn scanned(
        file: &tempfile::NamedTempFile,
        options: &ScanOptions,
    ) -> Result<(Delivered, ScanReport), Error> {
        let costs = Costs::with(
            store::Local::default(),
            store::TableFiles::default(),
            store::Clock::manual(),
        );
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let found = Mutex::new(Vec::new());
        let report = scan(
            &source,
            options,
            |chunk, _| (chunk.offset, chunk.bytes.to_vec()),
            |range, (offset, bytes), _| {
                assert_eq!(range.start, offset);
                assert_eq!(range.end - range.start, bytes.len() as u64);
                lock(&found).push((range, bytes));
            },
        )?;
        let mut found = found.into_inner().expect("no panic");
        found.sort_by_key(|(range, _)| range.start);
        Ok((found, report))
    }

    fn whole(found: &[(Range<u64>, Vec<u8>)]) -> Vec<u8> {
        found.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_byte_comes_once_and_chunks_are_whole_records(
            lines in proptest::collection::vec(0_usize..9000, 0..60),
            evicted in 0.0_f64..1.0,
            chunk_bytes in 1_usize..40_000,
            jobs in 1_usize..4,
            records in any::<bool>(),
            linear in any::<bool>(),
            ahead in any::<bool>(),
        ) {
            let mut content = Vec::new();
            for (index, length) in lines.iter().enumerate() {
                content.extend((0..*length).map(|at| b'a' + u8::try_from((at + index) % 26).expect("a letter")));
                content.push(b'\n');
            }
            content.pop();
            let options = ScanOptions {
                chunk_bytes,
                separator: records.then_some(b'\n'),
                jobs,
                plan: if linear { Plan::Linear } else { Plan::Best },
                ahead,
            };
            let file = file_of(&content, evicted);
            let (found, report) = scanned(&file, &options).expect("it can be read");
            prop_assert_eq!(whole(&found), content.clone());
            prop_assert_eq!(report.near_bytes + report.far_bytes, content.len() as u64);
            prop_assert!(!report.stopped);
            if records {
                for (range, bytes) in &found {
                    let ends = bytes.last() == Some(&b'\n') || range.end == report.size;
                    prop_assert!(ends, "{range:?}");
                }
            } else {
                prop_assert!(found.iter().all(|(_, bytes)| bytes.len() <= chunk_bytes));
            }
        }

        #[test]
        fn a_file_with_holes_is_read_whole(
            islands in proptest::collection::vec((0_usize..64, 1_usize..6), 0..6),
            chunk_bytes in 1000_usize..40_000,
            jobs in 1_usize..4,
            linear in any::<bool>(),
            evicted in any::<bool>(),
        ) {
            const PAGE: usize = 4096;
            let mut content = vec![0; 70 * PAGE + 11];
            let file = tempfile::NamedTempFile::new().expect("a file");
            file.as_file().set_len(content.len() as u64).expect("made long");
            for (start, pages) in islands {
                let range = start * PAGE..(start + pages) * PAGE;
                file.as_file().write_all_at(&vec![b'x'; range.len()], range.start as u64).expect("written");
                content[range].fill(b'x');
            }
            if evicted {
                file.as_file().sync_all().expect("synced");
                let all = std::num::NonZeroU64::new(content.len() as u64);
                rustix::fs::fadvise(file.as_file(), 0, all, rustix::fs::Advice::DontNeed).expect("evicted");
            }
            let plan = if linear { Plan::Linear } else { Plan::Best };
            let options = ScanOptions { chunk_bytes, jobs, plan, ..ScanOptions::default() };
            let (found, report) = scanned(&file, &options).expect("it can be read");
            prop_assert!(whole(&found) == content);
            prop_assert_eq!(report.near_bytes + report.far_bytes, content.len() as u64);
            prop_assert!(report.hole_bytes <= memchr::memchr_iter(0, &content).count() as u64);
        }

        #[test]
        fn nothing_before_a_stop_is_missing(
            evicted in 0.0_f64..1.0,
            stop in 0_u64..300_000,
            jobs in 1_usize..4,
            records in any::<bool>(),
        ) {
            let content: Vec<u8> = b"0123456789abcde\n".repeat(16_384);
            let file = file_of(&content, evicted);
            let costs = Costs::with(
                store::Local::default(),
                store::TableFiles::default(),
                store::Clock::manual(),
            );
            let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
            let options = ScanOptions {
                chunk_bytes: 5000,
                separator: records.then_some(b'\n'),
                jobs,
                ..ScanOptions::default()
            };
            let delivered = Mutex::new(Vec::new());
            scan(
                &source,
                &options,
                |_, control| control.stop_before(stop),
                |range, (), _| lock(&delivered).push(range),
            )
            .expect("it can be read");
            let mut delivered = delivered.into_inner().expect("no panic");
            delivered.sort_by_key(|range| range.start);
            let mut reached = 0;
            for range in delivered {
                prop_assert!(!records || range.end % 16 == 0, "{range:?} ends within a record");
                if range.start == reached {
                    reached = range.end;
                }
            }
            prop_assert!(reached >= stop.min(content.len() as u64), "{reached} {stop}");
        }
    }

    /// A scan of records of 16 bytes, all far, in chunks of 5000, of which one was taken to be read.
    fn with_a_far_chunk_taken(check: impl FnOnce(&Shared<'_>, &Piece, &mut FarReader<'_>)) {
        let file = file_of(&b"0123456789abcde\n".repeat(16_384), 0.0);
        let costs = Costs::with(
            store::Local::default(),
            store::TableFiles::default(),
            store::Clock::manual(),
        );
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let options =
            ScanOptions { chunk_bytes: 5000, separator: Some(b'\n'), ..ScanOptions::default() };
        let size = 16 * 16_384;
        let device = sled::Device::new("disk:a");
        let far = Sled { offset: 0, length: size, device, place: Place::Far, estimate: None };
        let reader = FarReader::new(source.file, source.path, &costs, false).expect("here");
        let near = NearReader::new(source.file, &costs, false).expect("here");
        let shared = Shared::new(&source, &options, size, &[far], reader, near);
        let Ok(Some(Work::Far(piece, mut reader))) = shared.next_work() else {
            panic!("there is a far piece");
        };
        check(&shared, &piece, &mut reader);
    }

    #[test]
    fn what_follows_a_far_chunk_is_not_near_while_its_last_record_is_not_found() {
        with_a_far_chunk_taken(|shared, piece, _| {
            let mut state = lock(&shared.state);
            state.far_since_refresh = u64::MAX;
            shared.refresh(&mut state).expect("asked");
            let next = state.picker.peek().expect("there is more");
            assert_eq!((next.offset, next.place), (piece.range().end, Place::Far));
        });
    }

    #[test]
    fn a_far_chunk_is_whole_records_though_what_follows_is_no_longer_needed() {
        for (stop, whole) in [(4000, 0..4992), (4995, 0..5008)] {
            with_a_far_chunk_taken(|shared, piece, far| {
                shared.stop_before(stop);
                let mut ranges = vec![shared.read_far(piece, far, &mut Vec::new()).expect("read")];
                let next = || lock(&shared.state).picker.take();
                while let Some(piece) = next() {
                    ranges.push(shared.read_far(&piece, far, &mut Vec::new()).expect("read"));
                }
                let end = ranges.last().expect("the first").end;
                assert_eq!(0..end, whole, "{ranges:?}");
                assert!(ranges.iter().all(|range| range.end % 16 == 0), "{ranges:?}");
            });
        }
    }

    #[test]
    fn a_panic_in_one_thread_ends_the_work_of_all() {
        with_a_far_chunk_taken(|shared, _, _| {
            std::thread::scope(|scope| {
                let panics = scope.spawn(|| {
                    let _alarm = Alarm(shared);
                    panic!("as a callback does");
                });
                // Nothing is near, and who reads what is far does not come back.
                assert!(shared.next_work().is_ok_and(|work| work.is_none()));
                panics.join().expect_err("it panics");
            });
        });
    }

    #[test]
    fn a_hole_is_zeros_for_which_nothing_is_read() {
        let file = file_of(&vec![b'x'; 3 << 20], 0.0);
        let size = (1 << 40) + 5;
        file.as_file().set_len(size).expect("made long");
        file.as_file().write_all_at(b"end", size - 3).expect("written");
        let costs = Costs::load();
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        for plan in [Plan::Best, Plan::Linear] {
            let options =
                ScanOptions { chunk_bytes: 32 << 20, jobs: 2, plan, ..ScanOptions::default() };
            let outside = Mutex::new(Vec::new());
            let report = scan(
                &source,
                &options,
                |chunk, _| (!chunk.hole).then(|| chunk.bytes.to_vec()),
                |range, bytes, _| lock(&outside).extend(bytes.map(|bytes| (range.start, bytes))),
            )
            .expect("it can be read");
            let mut outside = outside.into_inner().expect("no panic");
            outside.sort();
            let bytes: u64 = outside.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            assert_eq!(report.hole_bytes + bytes, size);
            assert!(bytes < 64 << 20, "{bytes} bytes were read");
            assert!(outside[0].1[..3 << 20].iter().all(|&byte| byte == b'x'));
            assert!(outside.last().is_some_and(|(_, bytes)| bytes.ends_with(b"end")));
        }
    }

    #[test]
    fn what_was_near_saved_what_its_device_would_have_taken() {
        let file = file_of(&vec![b'x'; 1 << 20], 0.0);
        file.as_file().set_len(9 << 20).expect("made long");
        let costs = Costs::with(
            store::Local::default(),
            store::TableFiles::default(),
            store::Clock::manual(),
        );
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let entry = costs.local().status(&file).expect("asked");
        if matches!(entry.backing, Backing::Memory) {
            return; // Temporary files lie on no device here.
        }
        let near = (1 << 20) + (8 << 20);
        assert_eq!(saved(&source, &entry, near), (entry.allocated, None), "holes are on no device");
        let seen = Observation { bytes: 1 << 20, first_byte: Some(2.0), whole: 3.0 };
        costs.observe(&entry.device, seen);
        let (bytes, seconds) = saved(&source, &entry, 1 << 20);
        assert_eq!(bytes, 1 << 20);
        assert!(seconds.is_some_and(|seconds| (seconds - 3.0).abs() < 0.1), "{seconds:?}");
        assert_eq!(saved(&source, &entry, 0), (0, Some(0.0)));
    }

    #[test]
    fn what_is_cut_at_holes_is_near_and_covers_the_same() {
        let sled = |offset, length, place| {
            let device = sled::Device::memory();
            Sled { offset, length, device, place, estimate: None }
        };
        let sleds = vec![sled(0, 100, Place::Near), sled(100, 50, Place::Far)];
        let cut = cut_at_holes(sleds, &[10..20, 30..40, 90..120]);
        let ranges: Vec<_> = cut.iter().map(Sled::range).collect();
        assert_eq!(ranges, [0..10, 10..20, 20..30, 30..40, 40..90, 90..100, 100..150]);
    }

    #[test]
    fn what_leaves_memory_before_its_turn_is_fetched_in_order_with_what_is_far() {
        // Large enough that one folio is a small part of it.
        let content: Vec<u8> = b"0123456789abcde\n".repeat(1 << 20);
        for separator in [None, Some(b'\n')] {
            let file = file_of(&content, 0.5);
            let halves = [0..8 << 20, 8 << 20..16 << 20];
            let found = store::resident_ranges(file.as_file(), &halves).expect("it can be asked");
            if found != [(halves[0].clone(), false), (halves[1].clone(), true)] {
                // A file system that evicts nothing, such as tmpfs, or does not tell.
                return;
            }
            let costs = Costs::load();
            let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
            let options = ScanOptions {
                chunk_bytes: 1 << 20,
                separator,
                jobs: 1,
                ahead: false,
                ..ScanOptions::default()
            };
            let order = Mutex::new(Vec::new());
            let report = scan(
                &source,
                &options,
                |chunk, _| {
                    if chunk.near {
                        let advice = rustix::fs::Advice::DontNeed;
                        rustix::fs::fadvise(source.file, 0, None, advice).expect("evicted");
                    }
                    assert_eq!(
                        chunk.bytes,
                        &content[usize::try_from(chunk.offset).unwrap()..][..chunk.bytes.len()]
                    );
                },
                |range, (), _| lock(&order).push(range),
            )
            .expect("it can be read");
            let order = order.into_inner().expect("no panic");
            assert_eq!(order.iter().map(|range| range.end - range.start).sum::<u64>(), report.size);
            // First what was near, of which a folio in use stays; the end of the file left and comes last.
            assert!(order[0].start >= report.size / 2, "{order:?}");
            assert_eq!(order.last().map(|range| range.end), Some(report.size), "{order:?}");
            assert!(report.near_bytes < report.size / 4, "{report:?}");
        }
    }

    #[test]
    fn it_is_fetched_ahead_only_of_devices_that_keep_up_with_computing() {
        let of = |seconds| DeliveryTime { p50: seconds, p90: seconds, ..DeliveryTime::default() };
        // 1 GB in memory and 1 GB on an SSD, a disk and a server.
        assert!(is_worth_fetching_ahead(1_000_000_000, &of(0.4)));
        assert!(!is_worth_fetching_ahead(1_000_000_000, &of(8.0)));
        assert!(!is_worth_fetching_ahead(1_000_000_000, &of(1000.0)));
    }

    #[test]
    fn an_empty_file_is_no_chunk() {
        let (found, report) = scanned(&file_of(b"", 0.0), &ScanOptions::default()).expect("read");
        assert!(found.is_empty());
        assert_eq!(report.size, 0);
    }

    #[test]
    fn a_hole_that_is_cut_off_while_it_is_read_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1 << 20).expect("made long");
        let costs = Costs::load();
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let options = ScanOptions { chunk_bytes: 1 << 16, jobs: 1, ..ScanOptions::default() };
        let shorten = |_: &Chunk<'_>, _: &Control<'_>| source.file.set_len(5).expect("shortened");
        let result = scan(&source, &options, shorten, |_, (), _| panic!("delivered"));
        assert!(matches!(result, Err(Error::Truncated { found: 5, .. })), "{result:?}");
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_read_is_an_error_and_void_results_are_not_delivered() {
        for (evicted, separator) in [(0.0, None), (1.0, None), (0.0, Some(b'x'))] {
            let file = file_of(&vec![b'x'; 1 << 20], evicted);
            let costs = Costs::load();
            let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
            let options =
                ScanOptions { chunk_bytes: 1 << 16, separator, jobs: 1, ..ScanOptions::default() };
            let result = scan(
                &source,
                &options,
                |chunk, _| {
                    source.file.set_len(1 << 17).expect("shortened");
                    chunk.bytes.iter().all(|&byte| byte == b'x')
                },
                |_, sound, _| assert!(sound),
            );
            assert!(matches!(result, Err(Error::Truncated { found: 0x2_0000, .. })), "{result:?}");
        }
    }

    #[test]
    fn a_panic_over_bytes_that_vanished_is_the_truncation() {
        let file = file_of(&vec![b'x'; 1 << 20], 0.0);
        let costs = Costs::load();
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let panics = |chunk: &Chunk<'_>, _: &Control<'_>| {
            source.file.set_len(5).expect("shortened");
            assert_eq!(chunk.bytes.last(), Some(&b'x'), "as they were");
        };
        let result = scan(&source, &ScanOptions::default(), panics, |_, (), _| {});
        assert!(matches!(result, Err(Error::Truncated { found: 5, .. })), "{result:?}");
    }

    #[test]
    #[should_panic(expected = "its own")]
    fn a_panic_over_sound_bytes_goes_on() {
        let file = file_of(b"x", 0.0);
        let costs = Costs::load();
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let options = ScanOptions { jobs: 1, ..ScanOptions::default() };
        drop(scan(&source, &options, |_, _| panic!("its own"), |_, (): (), _| {}));
    }
}
