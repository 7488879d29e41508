//! What the threads of a scan share, and how each of them finds its next piece.

use std::io;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use sled::{Picker, Piece, Place, Plan, Sled, first_record_end};

use super::layout::{is_within, located};
use super::read::{short_or_failed, shrunk};
use super::ways::Ways;
use super::{Chunk, Control, ScanOptions, Source};
use crate::Error;
use crate::far::FarReader;
use crate::mapping::Mapping;
use crate::near::NearReader;
use crate::ranges::within;
use crate::sync::{Condvar, Mutex, lock};

/// Far bytes read after which it is asked again where data is: by then others may have brought some near.
const REFRESH_BYTES: u64 = 64 << 20;

/// The longest far piece. It is copied, and what holds it takes the place of as much of the file
/// where memory is short.
const FAR_BYTES_MAX: u64 = 256 << 10;
/// The longest near piece where no record must stay whole: a copy of it stays in a processor's own cache.
const NEAR_BYTES_MAX: u64 = 512 << 10;

/// Bytes from which on what was looked at is unmapped, where memory may be short: that interrupts all
/// processors, whatever its length.
const UNMAPPED_BYTES_MIN: u64 = 512 << 10;

/// Bytes whose presence in memory is asked for at once: some microseconds.
const ASKED_BYTES: u64 = 2 << 20;

pub(super) struct Shared<'a> {
    pub(super) source: Source<'a>,
    pub(super) options: ScanOptions,
    pub(super) size: u64,
    pub(super) near: NearReader<'a>,
    pub(super) mapping: Option<Arc<Mapping>>,
    pub(super) ways: Ways,
    /// Only part of the file was in memory: then memory may be short.
    pub(super) is_near_in_part: bool,
    /// Some of it was.
    pub(super) has_near: bool,
    /// In file order.
    pub(super) holes: Vec<Range<u64>>,
    /// What a chunk of a hole holds. Memory that is only read takes no page of its own.
    pub(super) zeros: Vec<u8>,
    pub(super) state: Mutex<State<'a>>,
    pub(super) changed: Condvar,
}

impl std::fmt::Debug for Shared<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("source", &self.source).finish_non_exhaustive()
    }
}

pub(super) struct State<'a> {
    pub(super) picker: Picker,
    /// If what leaves memory before its turn is to be fetched with what is far.
    pub(super) leaving: Option<Leaving>,
    /// Who takes the reader may read what is far; `None` while somebody does.
    pub(super) far: Option<Box<FarReader<'a>>>,
    pub(super) far_since_refresh: u64,
    /// Whether to fetch far pieces while near ones are left.
    pub(super) ahead: bool,
    /// Near pieces that are taken and not delivered yet.
    pub(super) near_at_work: usize,
    /// Nothing that starts at or after this is needed.
    pub(super) limit: u64,
    pub(super) failed: Option<Error>,
    pub(super) near_bytes: u64,
    pub(super) hole_bytes: u64,
    pub(super) far_bytes: u64,
    pub(super) waited: Duration,
    pub(super) stopped: bool,
    /// Threads that wait for any of this to change.
    waiting: usize,
}

/// How what has left memory before its turn is told, and fetched.
pub(super) struct Leaving {
    /// What it becomes: as a far piece, but nobody knows how much of it has left, so that it says
    /// nothing about the device.
    like: Piece,
    /// What of the file is no hole: holes are near, and never in memory.
    data: Vec<Range<u64>>,
}

pub(super) enum Work<'a> {
    Near(Piece),
    Far(Piece, Box<FarReader<'a>>),
}

/// Ends the scan for all when a callback panics in one thread.
pub(super) struct Alarm<'a, 'b>(pub(super) &'a Shared<'b>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let source = io::Error::other("a thread panicked");
            self.0.fail(Error::Io { path: self.0.source.path.to_owned(), source });
        }
    }
}

impl<'a> Shared<'a> {
    pub(super) fn new(
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
            ways: Ways::new(size),
            is_near_in_part: false,
            has_near: false,
            holes: Vec::new(),
            zeros: Vec::new(),
            state: Mutex::new(State {
                picker: Picker::with_plan(sleds, options.chunk_bytes as u64, options.plan),
                leaving: None,
                far: Some(Box::new(far)),
                far_since_refresh: 0,
                ahead: options.ahead,
                near_at_work: 0,
                limit: u64::MAX,
                failed: None,
                near_bytes: 0,
                hole_bytes: 0,
                far_bytes: 0,
                waited: Duration::ZERO,
                stopped: false,
                waiting: 0,
            }),
            changed: Condvar::new(),
        }
    }

    pub(super) fn work<T, F, D>(&self, each: &F, deliver: &D)
    where
        F: Fn(&Chunk<'_>, &Control<'_>) -> T + Sync,
        D: Fn(Range<u64>, T, &Control<'_>) + Sync,
    {
        let stop_before = |offset| self.stop_before(offset);
        let control = Control { stop_before: &stop_before };
        let _alarm = Alarm(self);
        let mut buffer = Vec::new();
        let mut looked_at = 0..0;
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
                Work::Near(piece) => match self.bring_near(&piece, &mut buffer) {
                    Ok(()) => (piece.range(), true),
                    Err(error) => return self.fail(error),
                },
                Work::Far(piece, mut far) => {
                    let read = self.read_far(&piece, &mut far, &mut buffer);
                    let mut state = lock(&self.state);
                    state.far = Some(far);
                    state.stopped |= piece.offset >= state.limit;
                    let read = match read {
                        Ok(range) => (piece.offset < state.limit).then_some(range),
                        Err(error) => {
                            // With the same lock: who takes a reader that hangs waits as long again.
                            state.failed.get_or_insert(error);
                            None
                        }
                    };
                    self.wake(&state);
                    drop(state);
                    let Some(range) = read else { continue };
                    (range, false)
                }
            };
            let length = range.end - range.start;
            let hole = near && is_within(&self.holes, &range);
            let mapped = self.mapping.as_ref().filter(|_| !hole && buffer.is_empty());
            let bytes = match mapped {
                Some(mapping) => mapping.bytes(&range),
                None if hole => {
                    let all = self.zeros.len();
                    &self.zeros[..usize::try_from(length).map_or(all, |length| length.min(all))]
                }
                None => &buffer,
            };
            let chunk = Chunk { offset: range.start, length, bytes, near, hole };
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
            if let Some(mapping) = mapped.filter(|_| self.is_near_in_part) {
                looked_at = done_with(mapping, looked_at, &range);
            }
            deliver(range, result, &control);
            if near {
                let mut state = lock(&self.state);
                state.near_at_work -= 1;
                self.wake(&state);
            }
        }
    }

    /// Whether the file is still that long.
    fn reaches(&self, end: u64) -> bool {
        self.source.file.metadata().is_ok_and(|metadata| metadata.len() >= end)
    }

    /// Waits for something to do; `None` when there will be nothing more.
    pub(super) fn next_work(&self) -> io::Result<Option<Work<'a>>> {
        let mut state = lock(&self.state);
        loop {
            if state.failed.is_some() {
                return Ok(None);
            }
            self.refresh(&mut state)?;
            if state.ahead
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
                    if let Some(leaving) = &state.leaving {
                        let like = leaving.like.clone();
                        state.picker.give_back(&like, left.range());
                    }
                    continue;
                }
                // The answer may be in what is at work.
                Some(_) if !state.ahead && state.near_at_work > 0 => {}
                Some(_) => {
                    if let Some(far) = state.far.take() {
                        let piece = state.picker.take_at_most(FAR_BYTES_MAX);
                        return Ok(Some(Work::Far(piece.expect("it was just seen"), far)));
                    }
                }
                // Who reads what is far may give back the end of it.
                None if state.far.is_some() => return Ok(None),
                None => {}
            }
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Has those look again who wait. That is a call to the system, which most chunks can do without.
    fn wake(&self, state: &State<'_>) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Lets pieces that leave memory before their turn be fetched with the far ones, in file order.
    ///
    /// Where memory is short, what is fetched drives out what is near. A page
    /// fault would bring that back with what lies around it, beside the stream
    /// of the device, and so drive out the next piece just before its turn.
    pub(super) fn notice_what_leaves(&self, sleds: &[Sled]) {
        let mut state = lock(&self.state);
        let is_near_first = state.picker.peek().is_some_and(|piece| piece.place == Place::Near);
        if !self.is_near_in_part || !is_near_first {
            return;
        }
        // Some file systems do not tell what is in memory in this way. The first of it may have left already.
        let near = sleds.iter().filter(|sled| sled.place == Place::Near).map(Sled::range);
        let near = near.filter(|range| !is_within(&self.holes, range));
        let is_there = |part: Range<u64>| store::is_in_memory_in_part(self.source.file, &part);
        if !near.flat_map(parts).any(is_there) {
            return;
        }
        if let Some(far) = state.picker.take_far() {
            state.picker.give_back(&far, far.range());
            // What had to make room before would drive out what is near, and that before its turn.
            state.ahead &= !store::was_evicted(self.source.file, &far.range());
            let may_stall = self.near.may_stall();
            let data = store::data_ranges(self.source.file, self.size, may_stall);
            let mut like = far;
            like.place = Place::Unknown;
            state.leaving = Some(Leaving { like, data });
            if let Some(mapping) = &self.mapping {
                mapping.leaves_no_trace();
            }
        }
    }

    fn has_left(&self, state: &State<'_>, piece: &Piece) -> bool {
        let Some(leaving) = &state.leaving else { return false };
        if is_within(&self.holes, &piece.range()) {
            return false;
        }
        let data: Vec<_> = within(&leaving.data, &piece.range()).collect();
        let found = store::resident_ranges(self.source.file, &data);
        !found.is_ok_and(|ranges| ranges.iter().all(|(_, resident)| *resident))
    }

    pub(super) fn stop_before(&self, offset: u64) {
        let mut state = lock(&self.state);
        state.limit = state.limit.min(offset);
        state.stopped |= state.picker.stop_before(offset);
        self.wake(&state);
    }

    fn take_far(state: &mut State<'a>) -> Option<Work<'a>> {
        let far = state.far.take()?;
        if let Some(piece) = state.picker.take_far_at_most(FAR_BYTES_MAX) {
            return Some(Work::Far(piece, far));
        }
        state.far = Some(far);
        None
    }

    fn take_near(&self, state: &mut State<'_>) -> io::Result<Option<Piece>> {
        match self.options.separator {
            None => {
                let is_hole = |piece: &Piece| is_within(&self.holes, &piece.range());
                if !state.picker.peek().as_ref().is_some_and(is_hole) {
                    return Ok(state.picker.take_at_most(NEAR_BYTES_MAX));
                }
                // A hole is neither copied nor mapped.
                let mut piece = state.picker.take();
                if let Some(piece) = piece.as_mut().filter(|_| self.options.whole_holes) {
                    let end = piece.range().end;
                    let hole = self.holes.partition_point(|hole| hole.end < end);
                    piece.length = state.picker.take_on(end, self.holes[hole].end) - piece.offset;
                }
                Ok(piece)
            }
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
    pub(super) fn is_cut(&self, state: &State<'_>, end: u64) -> bool {
        end >= state.limit && end < self.size
    }

    /// Takes what follows `end`, for a record that goes on there (empty if
    /// nothing does), and whether that lies beyond a stop.
    pub(super) fn take_on(&self, end: u64) -> (Range<u64>, bool) {
        let to = end.saturating_add(FAR_BYTES_MAX.min(self.options.chunk_bytes as u64));
        let mut state = lock(&self.state);
        if self.is_cut(&state, end) {
            return (end..to.min(self.size), true);
        }
        (end..state.picker.take_on(end, to), false)
    }

    /// Asks again where data is, now and then, but not while something far is
    /// being read: until its last record is found, what follows it starts in
    /// the middle of one and must not be taken for near.
    pub(super) fn refresh(&self, state: &mut State<'_>) -> io::Result<()> {
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

    /// Unmaps what was read, with the other threads: one alone takes 8 ms for a GiB.
    pub(super) fn end_mapping(&self) {
        if let Some(mapping) = &self.mapping {
            mapping.help_unmap();
        }
    }

    pub(super) fn give_back(&self, piece: &Piece, range: Range<u64>) {
        let mut state = lock(&self.state);
        state.picker.give_back(piece, range);
        let limit = state.limit;
        state.stopped |= state.picker.stop_before(limit);
    }

    pub(super) fn fail(&self, error: Error) {
        let mut state = lock(&self.state);
        state.failed.get_or_insert(error);
        self.wake(&state);
    }
}

/// Unmaps a range that was looked at, with what was `before` it, once that is worth it; until then gives what is
/// to be unmapped with the next. What another thread looks at between them it maps again.
fn done_with(mapping: &Mapping, before: Range<u64>, range: &Range<u64>) -> Range<u64> {
    let mut all = before.start.min(range.start)..before.end.max(range.end);
    if before.is_empty() || all.end - all.start > 2 * UNMAPPED_BYTES_MIN {
        if !before.is_empty() {
            mapping.is_done_with(&before);
        }
        all = range.clone();
    }
    if all.end - all.start < UNMAPPED_BYTES_MIN {
        return all;
    }
    mapping.is_done_with(&all);
    0..0
}

/// A range in parts that are quickly asked about.
fn parts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    let step = usize::try_from(ASKED_BYTES).expect("it is small");
    range.step_by(step).map(move |start| start..end.min(start + ASKED_BYTES))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn small_pieces_are_unmapped_together_and_those_far_apart_are_not() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[1; 1 << 12]).expect("written");
        file.set_len(8 * UNMAPPED_BYTES_MIN).expect("lengthened");
        let mapping = Mapping::of(&file, 8 * UNMAPPED_BYTES_MIN).expect("mapped");
        let (small, far) = (UNMAPPED_BYTES_MIN / 4, 4 * UNMAPPED_BYTES_MIN);
        let rest = |before, range| done_with(&mapping, before, &range);
        assert_eq!(rest(0..0, 0..small), 0..small);
        assert_eq!(rest(0..small, 2 * small..3 * small), 0..3 * small);
        assert_eq!(rest(0..3 * small, 3 * small..4 * small), 0..0);
        assert_eq!(rest(0..small, far..far + small), far..far + small);
        assert_eq!(rest(0..small, far..far + UNMAPPED_BYTES_MIN), 0..0);
        assert_eq!(rest(0..0, 0..UNMAPPED_BYTES_MIN), 0..0);
    }
}
