//! Reads of a file that are timed: at random places for latency, in sequence for bandwidth.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::fs::Advice;
use sled::Observation;

use super::probe::Progress;
use super::residency::{Method, ranges_by};
use super::warm::left_as_it_was;
use crate::{Clock, memory_room};

/// Random reads that a latency is taken from.
const LATENCY_READS: usize = 32;
/// Fewest, however slow the device.
const LATENCY_READS_MIN: usize = 3;
/// Sequential reads of each size that a bandwidth is taken from.
const BANDWIDTH_READS: usize = 12;
/// Sizes of sequential reads: one for each size class of the device table.
const BANDWIDTH_BYTES: [usize; 3] = [128 << 10, 1 << 20, 8 << 20];
/// Bytes of a random read, and the alignment that direct reads need everywhere.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Bytes read at a time: the second-level cache holds them until they are used.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// The largest block that a file system packs, of those without direct reads: squashfs's.
const PACKED_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a processor's largest cache, if the system does not say, and at most: beyond it, some of
/// what is measured is still in there.
const CACHE_BYTES: usize = 32 << 20;
const CACHE_BYTES_MAX: usize = 128 << 20;
/// Bytes that go in and out of a processor's caches together, at the least.
const LINE_BYTES: usize = 64;

/// How the reader keeps the page cache out of its measurements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Direct,
    Buffered,
    Memory,
}

pub(super) struct Reader<'a> {
    file: File,
    size: u64,
    /// What of the file is no hole, in order.
    data: Vec<Range<u64>>,
    access: Access,
    clock: &'a Clock,
    random: Random,
    buffer: AlignedBuffer,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        file: File,
        size: u64,
        data: Vec<Range<u64>>,
        access: Access,
        clock: &'a Clock,
    ) -> Self {
        let largest = BANDWIDTH_BYTES[BANDWIDTH_BYTES.len() - 1];
        Self {
            file,
            size,
            data,
            access,
            clock,
            random: Random(size | 1),
            buffer: AlignedBuffer::new(largest),
        }
    }

    pub(super) fn observe(
        &mut self,
        limit: Duration,
        progress: impl Fn(Progress),
    ) -> io::Result<Vec<Observation>> {
        let mut observations = Vec::new();
        let deadline = self.clock.now() + limit / 3;
        for done in 0..LATENCY_READS {
            progress(Progress::Latency(done, LATENCY_READS));
            if done >= LATENCY_READS_MIN && self.clock.now() > deadline {
                break;
            }
            let at = self.random_offset(BLOCK_BYTES);
            if let Some((bytes, seconds)) = self.read(at, BLOCK_BYTES)? {
                let first_byte = Some(seconds);
                observations.push(Observation { bytes, first_byte, whole: seconds });
            }
        }
        let reads_max = BANDWIDTH_READS * BANDWIDTH_BYTES.len();
        let mut seconds_per_byte = 0.0;
        for (class, bytes) in BANDWIDTH_BYTES.into_iter().enumerate() {
            let share = limit.as_secs_f64() * 2.0 / 9.0;
            if self.size < bytes as u64 || seconds_per_byte * bytes as f64 > share {
                break;
            }
            if self.access == Access::Memory {
                leave_caches();
            }
            let deadline = self.clock.now() + limit * 2 / 9;
            // With room for the two reads that there are in any case.
            let mut at = self.random_offset(2 * bytes);
            // The first read of a run pays the latency, so it does not count.
            let mut continues = false;
            for done in 0..BANDWIDTH_READS {
                progress(Progress::Bandwidth(class * BANDWIDTH_READS + done, reads_max));
                if done >= 2 && self.clock.now() > deadline {
                    break;
                }
                if at + bytes as u64 > self.size {
                    at = 0;
                    continues = false;
                }
                let read = self.read(at, bytes)?;
                if let Some((bytes, seconds)) = read {
                    if continues {
                        observations.push(Observation { bytes, first_byte: None, whole: seconds });
                    }
                    seconds_per_byte = seconds / bytes as f64;
                }
                continues = read.is_some();
                at += bytes as u64;
            }
        }
        Ok(observations)
    }

    /// Reads and times; `None` where the range is cached or has a hole, and so would say nothing.
    fn read(&mut self, at: u64, bytes: usize) -> io::Result<Option<(u64, f64)>> {
        let range = at..at + bytes as u64;
        if !self.is_data(&(range.start..range.end.min(self.size))) {
            return Ok(None);
        }
        if self.access != Access::Buffered {
            return self.timed(range);
        }
        let Ok(cached) = self.is_cached(&range) else { return self.timed_and_dropped(range) };
        if cached {
            return Ok(None);
        }
        // Compressed blocks come whole, and the kernel reads ahead: left there, that would be in the
        // way of the next read.
        let around = range.start.saturating_sub(PACKED_BYTES_MAX)..range.end;
        let file = self.file.try_clone()?;
        left_as_it_was(&file, around, || self.timed_and_dropped(range))
    }

    fn timed(&mut self, range: Range<u64>) -> io::Result<Option<(u64, f64)>> {
        let start = self.clock.now();
        let read = if self.access == Access::Memory {
            read(&self.file, range, self.buffer.bytes(PIECE_BYTES))?
        } else {
            let bytes = usize::try_from(range.end - range.start).expect("it fits the buffer");
            self.file.read_at(self.buffer.bytes(bytes), range.start)?
        };
        let seconds = self.clock.now().saturating_sub(start).as_secs_f64();
        Ok((read > 0).then_some((read as u64, seconds)))
    }

    fn timed_and_dropped(&mut self, range: Range<u64>) -> io::Result<Option<(u64, f64)>> {
        let (at, length) = (range.start, NonZeroU64::new(range.end - range.start));
        let timed = self.timed(range)?;
        rustix::fs::fadvise(&self.file, at, length, Advice::DontNeed)?;
        Ok(timed)
    }

    fn is_data(&self, range: &Range<u64>) -> bool {
        let at = self.data.partition_point(|data| data.end <= range.start);
        self.data.get(at).is_some_and(|data| data.start <= range.start && range.end <= data.end)
    }

    fn is_cached(&self, range: &Range<u64>) -> io::Result<bool> {
        let data = std::slice::from_ref(range);
        let found = ranges_by(self.file.as_fd(), data, Method::Cachestat)?;
        Ok(found.iter().any(|(_, resident)| *resident))
    }

    fn random_offset(&mut self, bytes: usize) -> u64 {
        let places = self.size.saturating_sub(bytes as u64) / BLOCK_BYTES as u64 + 1;
        self.random.next() % places * BLOCK_BYTES as u64
    }
}

/// Reads `range`, or to the end of the file, as programs do: again and again into one buffer.
/// Returns how much there was.
pub(super) fn read(file: &File, range: Range<u64>, buffer: &mut [u8]) -> io::Result<usize> {
    let mut at = range.start;
    while at < range.end {
        let piece = usize::try_from(range.end - at).map_or(buffer.len(), |n| n.min(buffer.len()));
        match file.read_at(&mut buffer[..piece], at)? {
            0 => break,
            read => at += read as u64,
        }
    }
    Ok(usize::try_from(at - range.start).expect("a range that is read fits in memory"))
}

/// Empties the processor's caches of what they hold of files: what was read into memory a while ago
/// is not in them, and takes twice as long to read as what is. Where memory is short some of them are.
pub(super) fn leave_caches() {
    let room = memory_room().and_then(|room| usize::try_from(room).ok());
    let bytes = cache_bytes().unwrap_or(CACHE_BYTES).min(room.unwrap_or(usize::MAX));
    // Not of zeros: those are all the same page.
    let other = std::hint::black_box(vec![1_u8; bytes]);
    std::hint::black_box(other.iter().step_by(LINE_BYTES).fold(0, |sum: u8, byte| sum ^ byte));
}

/// Bytes of the largest cache of the first processor.
fn cache_bytes() -> Option<usize> {
    let bytes_of = |index: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let size = std::fs::read_to_string(path).ok()?;
        Some(size.trim_end().strip_suffix('K')?.parse::<usize>().ok()? << 10)
    };
    (0..).map_while(bytes_of).max().map(|bytes| bytes.min(CACHE_BYTES_MAX))
}

/// A buffer that direct reads accept: it starts on a block.
///
/// So do those of `cat` and `wc`. Copied to a few bytes behind the start of a page, where `malloc` puts
/// a large block, a file comes from memory at two thirds of the speed or less: a processor takes what
/// it loads for what it has just stored a page further on.
pub(super) struct AlignedBuffer {
    space: Vec<u8>,
    skip: usize,
}

impl AlignedBuffer {
    pub(super) fn new(bytes: usize) -> Self {
        // Not of zeros: those are memory only when they are first written over, within a reading.
        let space = vec![1; bytes + BLOCK_BYTES];
        let skip = space.as_ptr().align_offset(BLOCK_BYTES);
        Self { space, skip }
    }

    pub(super) fn bytes(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.space[self.skip..self.skip + bytes]
    }
}

/// Xorshift: scatters reads, the same way each time.
pub(super) struct Random(pub(super) u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }
}

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
