//! The one stream that reads what is far, and what it teaches about its device.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::Advice;
use sled::{Device, Observation, SizeClass};
use store::Costs;

use crate::Error;
use crate::advise;
use crate::apart::{Apart, is_given_up};

/// Bytes of the read that finds out a latency: one page.
const FIRST_BYTES: usize = 4096;
/// Bytes asked of a device that may stall at a time: each must arrive within the limit.
const STEP_BYTES: usize = 256 << 10;
/// Bytes beyond a read that the device is asked for with it, where the kernel does not read ahead:
/// so it is busy while we compute. Where memory is short, at first no more than was read without a gap: the
/// kernel takes the next page away with those that were read, until others have grown old enough to go
/// first, and brings it back only after all that was asked for before.
const AHEAD_BYTES_MAX: u64 = 1 << 20;
/// How far behind a far range it is asked for others beside it, and for how many of these. As soon as half
/// of them have been read it is asked for the next, all at once: each call for itself would wake the device.
pub(crate) const BEHIND_BYTES_MAX: u64 = 16 << 20;
const BEHIND_RANGES_MAX: usize = 32;
/// Bytes of one stream after which it is taken for a reading of bandwidth.
const OBSERVE_BYTES: u64 = 8 << 20;
/// Bytes of a far range that are left when the kernel no longer reads ahead.
const EXACT_BYTES: u64 = 64 << 20;
/// Bytes asked for when it stops. What the kernel has read ahead bids it read the next window when
/// it is read, whatever it was advised; where that is in memory there is no next. This is three of
/// the largest windows that we have seen.
const STOP_BYTES: u64 = 24 << 20;
/// Share of a stream's time that reads must take for it to show the device's bandwidth and not ours.
const READING_SHARE_MIN: f64 = 0.7;

/// Reads ranges of a file that must come from a device. There is one of it
/// for each scan; who holds it may read.
pub(crate) struct FarReader<'a> {
    costs: &'a Costs,
    file: &'a File,
    path: &'a Path,
    reads: Reads<'a>,
    next: u64,
    /// Bytes that may be asked for ahead: where memory is short, as many as were read without a gap.
    ahead_bytes: u64,
    /// Where it was last looked whether memory is short, and what was found.
    looked_at: Range<u64>,
    is_short: bool,
    stream: Option<Stream>,
    reads_ahead: bool,
    /// Whether the kernel did so up to the next read.
    stops: bool,
    /// Where the far range ends that is read.
    end: u64,
    /// Up to where the device was asked for what comes after a read.
    asked: u64,
    /// What is far behind that, a little of it, in file order.
    behind: Vec<Range<u64>>,
    /// Up to where the device was asked for it.
    asked_behind: u64,
    waited: Duration,
}

/// A run of reads without a gap, after its first.
struct Stream {
    /// Where it comes from; `None` if that may be memory.
    device: Option<Device>,
    /// Whether it says something about the device: not if its start had been read ahead.
    teaches: bool,
    started: Duration,
    reading: Duration,
    bytes: u64,
}

impl Stream {
    fn starting(device: Option<&Device>, started: Duration) -> Self {
        let device = device.cloned();
        Self { device, teaches: true, started, reading: Duration::ZERO, bytes: 0 }
    }
}

enum Reads<'a> {
    /// In the caller's thread.
    Here(&'a File),
    /// In a thread of its own that can be left behind: the mount may not answer.
    Apart(Apart),
}

impl<'a> FarReader<'a> {
    pub(crate) fn new(
        file: &'a File,
        path: &'a Path,
        costs: &'a Costs,
        may_stall: bool,
    ) -> io::Result<Self> {
        let reads = if may_stall {
            Reads::Apart(Apart::new("far", file, costs)?)
        } else {
            Reads::Here(file)
        };
        Ok(Self {
            costs,
            file,
            path,
            reads,
            next: u64::MAX,
            ahead_bytes: 0,
            looked_at: 0..0,
            is_short: false,
            stream: None,
            reads_ahead: true,
            stops: false,
            end: 0,
            asked: 0,
            behind: Vec::new(),
            asked_behind: 0,
            waited: Duration::ZERO,
        })
    }

    /// How long reads took so far.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Says that a read at `offset` is of a far range that ends at `end`. Near its end the
    /// kernel is kept from reading ahead: beyond it lies what was near, and
    /// where memory is short has been used and evicted by now. Of what is far `behind` that the device is
    /// asked beside, unless memory is short: read one by one, small pieces would each take its latency.
    pub(crate) fn within(&mut self, offset: u64, end: u64, behind: Vec<Range<u64>>) {
        self.end = end;
        self.behind = behind;
        let reads_ahead = end - offset > EXACT_BYTES;
        if reads_ahead == self.reads_ahead {
            return;
        }
        let advice = if reads_ahead { Advice::Normal } else { Advice::Random };
        // Where advice is not taken, too much is read and nothing is wrong.
        if rustix::fs::fadvise(self.file, 0, None, advice).is_ok() {
            self.reads_ahead = reads_ahead;
            self.stops = self.next == offset;
        }
    }

    /// Fills `buffer` from `offset` on; returns how much there was before the end of the file.
    /// What it took is learned about `device`.
    pub(crate) fn read(
        &mut self,
        device: Option<&Device>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let clock = self.costs.clock();
        let start = clock.now();
        let continues = offset == self.next
            && self.stream.as_ref().is_some_and(|stream| stream.device.as_ref() == device);
        let own = offset..offset.saturating_add(buffer.len() as u64);
        let mut done = 0;
        let mut first_byte = None;
        let mut teaches = device.is_some();
        let mut is_alone = true;
        if !continues {
            self.finish_stream();
            self.asked = 0;
            self.ahead_bytes = if self.is_memory_short(offset) { 0 } else { AHEAD_BYTES_MAX };
            let first = FIRST_BYTES.min(buffer.len());
            // What was read or asked for ahead of it, or by others, says nothing about the device.
            teaches = teaches && !self.was_asked_for(&own) && !self.is_resident(own.clone());
            let is_all = buffer.len() == first;
            let mut ask = if is_all { self.take_behind(&own) } else { Vec::new() };
            if !ask.is_empty() {
                ask.insert(0, self.take_unasked(offset, first));
                teaches = false;
            }
            done = self.read_asking(offset, &mut buffer[..first], ask)?;
            first_byte = Some(clock.now().saturating_sub(start));
        }
        if done < buffer.len() && (done > 0 || continues) {
            let (at, rest) = (offset + done as u64, &mut buffer[done..]);
            let mut ask = if continues { Vec::new() } else { self.take_behind(&own) };
            is_alone = ask.is_empty();
            ask.insert(0, self.take_unasked(at, rest.len()));
            done += self.read_asking(at, rest, ask)?;
        }
        let took = clock.now().saturating_sub(start);
        self.waited += took;
        self.next = offset + done as u64;
        self.ahead_bytes = AHEAD_BYTES_MAX.min(self.ahead_bytes + done as u64);
        if first_byte.is_some() {
            // Nothing was read ahead of it, so that it shows the device whatever we compute beside.
            let first_byte = first_byte.map(|first| first.as_secs_f64());
            // A little more than the first page comes with it, and shows no bandwidth.
            let bytes = if is_alone { done } else { FIRST_BYTES.min(done) } as u64;
            let is_small = SizeClass::of(bytes) == SizeClass::Small;
            let whole = first_byte.filter(|_| is_small).unwrap_or(took.as_secs_f64());
            if let Some(device) = device.filter(|_| teaches) {
                self.costs.observe(device, Observation { bytes, first_byte, whole });
            }
            teaches &= is_alone;
            self.stream = Some(Stream { teaches, ..Stream::starting(device, clock.now()) });
        } else if let Some(stream) = &mut self.stream {
            stream.reading += took;
            stream.bytes += done as u64;
            if stream.bytes >= OBSERVE_BYTES {
                self.finish_stream();
                self.stream = Some(Stream::starting(device, clock.now()));
            }
        }
        Ok(done)
    }

    /// Whether a read at `offset` goes on where the last one ended.
    pub(crate) fn goes_on_at(&self, offset: u64) -> bool {
        offset == self.next
    }

    /// Of the far ranges behind a range, nearest first, those to ask for beside it.
    pub(crate) fn behind(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
        let mut bytes = 0;
        let fits = |range: &Range<u64>| {
            bytes += range.end - range.start;
            bytes <= AHEAD_BYTES_MAX
        };
        ranges.take_while(fits).take(BEHIND_RANGES_MAX).collect()
    }

    /// Says where the next range begins that counts as a continuation, after a piece was given back.
    pub(crate) fn continue_at(&mut self, offset: u64) {
        self.next = offset;
    }

    /// Learns from the stream so far and ends it.
    pub(crate) fn finish_stream(&mut self) {
        let Some(stream) = self.stream.take().filter(|stream| stream.teaches) else { return };
        let Some(device) = stream.device else { return };
        let whole = self.costs.clock().now().saturating_sub(stream.started).as_secs_f64();
        if stream.bytes == 0 || stream.reading.as_secs_f64() < READING_SHARE_MIN * whole {
            return;
        }
        let seen = Observation { bytes: stream.bytes, first_byte: None, whole };
        self.costs.observe(&device, seen);
    }

    fn is_resident(&self, range: Range<u64>) -> bool {
        store::resident_ranges(self.file, &[range])
            .is_ok_and(|found| found.iter().any(|(_, resident)| *resident))
    }

    /// Whether some of what lies from `offset` on had to leave memory. It is not looked again where the far
    /// range, or as much of it as may be asked for, lies within what was looked at: small ranges far
    /// apart take less to read than to ask each.
    fn is_memory_short(&mut self, offset: u64) -> bool {
        let end = self.end.min(offset.saturating_add(AHEAD_BYTES_MAX));
        if !self.looked_at.contains(&offset) || end > self.looked_at.end {
            self.looked_at = offset..offset.saturating_add(AHEAD_BYTES_MAX);
            self.is_short = store::was_evicted(self.file, &self.looked_at);
        }
        self.is_short
    }

    /// What to have the device fetch before `bytes` at `offset` are read: these and some beyond,
    /// within the far range, as far as that has not been done.
    fn take_unasked(&mut self, offset: u64, bytes: usize) -> Range<u64> {
        if self.reads_ahead {
            return 0..0;
        }
        let read_end = offset + bytes as u64;
        let ahead = if std::mem::take(&mut self.stops) { STOP_BYTES } else { self.ahead_bytes };
        let is_asked = (offset..=read_end + STOP_BYTES).contains(&self.asked);
        let start = if is_asked { self.asked } else { offset };
        let end = (read_end + ahead).min(self.end.max(read_end)).max(start);
        self.asked = end;
        start..end
    }

    /// Whether a range was asked for with one before it, or some of it.
    fn was_asked_for(&self, own: &Range<u64>) -> bool {
        let far_from_it = own.start.saturating_add(BEHIND_BYTES_MAX);
        own.start < self.asked_behind && self.asked_behind <= far_from_it
    }

    /// What is far behind the range that is entered by a read of `own`, as far as it was not asked for.
    fn take_behind(&mut self, own: &Range<u64>) -> Vec<Range<u64>> {
        if self.reads_ahead || self.ahead_bytes == 0 {
            return Vec::new();
        }
        if !self.was_asked_for(own) {
            self.asked_behind = own.start;
        } else if self.asked_behind >= own.end {
            self.asked = own.end;
        }
        let mut ask = std::mem::take(&mut self.behind);
        let all = ask.len();
        ask.retain(|range| range.start >= self.asked_behind);
        if 2 * ask.len() < all {
            return Vec::new();
        }
        self.asked_behind = ask.last().map_or(self.asked_behind, |last| last.end);
        ask
    }

    /// Fills `buffer` as far as there is something, once the device was asked for `ask`.
    fn read_asking(
        &mut self,
        offset: u64,
        buffer: &mut [u8],
        mut ask: Vec<Range<u64>>,
    ) -> Result<usize, Error> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            match self.reads.read(at, &mut buffer[done..], std::mem::take(&mut ask)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_given_up(&error) => {
                    return Err(Error::Stalled {
                        path: self.path.to_owned(),
                        offset: at,
                        limit: self.costs.local().wait_max(),
                    });
                }
                Err(source) => return Err(Error::Io { path: self.path.to_owned(), source }),
            }
        }
        Ok(done)
    }
}

impl Drop for FarReader<'_> {
    /// Takes back the advice: it is kept with the file, and would be heeded by whoever reads it next.
    fn drop(&mut self) {
        if !self.reads_ahead {
            let _ = rustix::fs::fadvise(self.file, 0, None, Advice::Normal);
        }
    }
}

impl Reads<'_> {
    /// Reads into `buffer` from `offset` on, once the device was asked for `ask`.
    fn read(&self, offset: u64, buffer: &mut [u8], ask: Vec<Range<u64>>) -> io::Result<usize> {
        match self {
            Self::Here(file) => {
                ask_for(file, ask);
                file.read_at(buffer, offset)
            }
            Self::Apart(apart) => {
                apart.read_at(offset, buffer, STEP_BYTES, move |file| ask_for(file, ask))
            }
        }
    }
}

fn ask_for(file: &File, ranges: Vec<Range<u64>>) {
    for range in ranges {
        drop(advise::fetch(file, range));
    }
}

#[cfg(test)]
mod tests {
    use testkit::{
        Dir, Facility, MemoryCgroup, cmd, evict, is_resident, noise, skip_unless, until_come,
    };

    use super::*;

    const PIECE_BYTES: usize = 256 << 10;
    const PIECE: u64 = PIECE_BYTES as u64;
    const END: u64 = 16 * PIECE;

    /// Pieces that have been asked for ahead after each of the first 4 MiB of a file.
    fn asked_ahead(path: &Path) -> Vec<u64> {
        let file = File::open(path).expect("it is there");
        let (local, files) = (store::Local::default(), store::TableFiles::default());
        let costs = Costs::with(local, files, store::Clock::manual());
        let mut far = FarReader::new(&file, path, &costs, false).expect("begun");
        let mut buffer = vec![0; PIECE_BYTES];
        let mut ahead = Vec::new();
        for at in (0..END).step_by(PIECE_BYTES) {
            far.within(at, END, Vec::new());
            assert_eq!(far.read(None, at, &mut buffer).expect("read"), PIECE_BYTES);
            assert!(far.asked <= END, "{}", far.asked);
            if far.asked < END {
                let mut beyond = (far.asked..far.asked + PIECE).step_by(FIRST_BYTES);
                assert!(!beyond.any(|at| is_resident(path, at..at + 1)), "after {at}");
            }
            ahead.push((far.asked - at) / PIECE - 1);
        }
        assert_eq!(ahead.last(), Some(&0));
        ahead
    }

    #[test]
    fn the_device_is_asked_for_what_follows() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let path = dir.create("a", noise(16 * PIECE_BYTES, 1));
        evict(&path);
        assert_eq!(asked_ahead(&path)[..4], [4, 4, 4, 4]);
    }

    #[test]
    fn memory_is_looked_at_again_beyond_where_it_was() {
        let dir = Dir::new();
        let path = dir.create("a", noise(16 * PIECE_BYTES, 1));
        let file = File::open(&path).expect("it is there");
        let (local, files) = (store::Local::default(), store::TableFiles::default());
        let costs = Costs::with(local, files, store::Clock::manual());
        let mut far = FarReader::new(&file, &path, &costs, false).expect("begun");
        let answers = [(PIECE, true), (2 * PIECE, true), (AHEAD_BYTES_MAX + PIECE, false)];
        for (end, is_known) in answers {
            (far.looked_at, far.is_short) = (0..AHEAD_BYTES_MAX, true);
            far.within(PIECE / 2, end, Vec::new());
            assert_eq!(far.is_memory_short(PIECE / 2), is_known, "to {end}");
        }
    }

    #[test]
    fn small_ranges_far_apart_are_asked_for_with_the_first() {
        const PAGE: u64 = FIRST_BYTES as u64;
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let path = dir.create("a", noise(16 * PIECE_BYTES, 1));
        evict(&path);
        let file = File::open(&path).expect("it is there");
        let (local, files) = (store::Local::default(), store::TableFiles::default());
        let costs = Costs::with(local, files, store::Clock::manual());
        let mut far = FarReader::new(&file, &path, &costs, false).expect("begun");
        let pages: Vec<_> = (0..40).map(|n| n * 8 * PAGE..(n * 8 + 1) * PAGE).collect();
        let mut buffer = vec![0; FIRST_BYTES];
        let mut asked: Vec<usize> = Vec::new();
        for (n, page) in pages.iter().enumerate() {
            let behind = FarReader::behind(pages[n + 1..].iter().cloned());
            far.within(page.start, page.end, behind);
            assert_eq!(far.read(None, page.start, &mut buffer).expect("read"), FIRST_BYTES);
            let before = asked.last().copied().unwrap_or(0);
            asked.push(pages.iter().filter(|page| page.end <= far.asked_behind).count());
            let (asked, rest) = pages.split_at(asked[n]);
            until_come(&path, asked[before..].iter().cloned());
            assert!(!rest.iter().any(|page| is_resident(&path, page.clone())), "after {n}");
            assert!(!is_resident(&path, page.end..page.end + PAGE), "nothing between them");
        }
        // As many as may be with the first, and the others once half of what is left is of these.
        let first_25 = [BEHIND_RANGES_MAX + 1; 25];
        assert_eq!(asked, [&first_25[..], &[pages.len(); 15]].concat());
    }

    #[test]
    fn where_memory_is_short_no_more_is_asked_for_ahead_than_was_read_in_order() {
        skip_unless!(Facility::Root, Facility::Cgroup("memory"));
        let dir = Dir::new();
        let path = dir.create("a", noise(128 * PIECE_BYTES, 1));
        evict(&path);
        let read = cmd("dd", [&*format!("if={}", path.display()), "of=/dev/null", "status=none"]);
        MemoryCgroup::new(8 << 20).run(read).succeeds();
        if !store::was_evicted(&File::open(&path).expect("it is there"), &(0..END)) {
            return testkit::skip("it is not known what left memory for want of room");
        }
        // Of the first piece a page was read by itself before.
        assert_eq!(asked_ahead(&path)[..8], [0, 1, 2, 3, 4, 4, 4, 4]);
    }
}
