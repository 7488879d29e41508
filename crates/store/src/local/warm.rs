//! What reading from memory takes of the files of one file system.
//!
//! File systems keep their files in memory in pieces of different size, and small ones take twice
//! as long to copy. Programs that map a file or compute over it take another time; this is reading.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;

use rustix::fs::Advice;

use super::reader::{AlignedBuffer, PIECE_BYTES, leave_caches, read};
use super::residency::{Method, ranges_by};
use crate::Clock;

/// Bytes of one timed read; fewer would show what a call costs.
const READ_BYTES: u64 = 1 << 20;
/// Timed reads at most.
const READS_MAX: u64 = 8;
/// Times that what was read ahead is dropped: what waits for it may make the kernel read on.
const DROPS_MAX: usize = 8;
/// What the kernel may read ahead, of the devices that we have seen: two windows of 8 MiB.
const READ_AHEAD_BYTES: u64 = 16 << 20;

/// Reads up to `bytes` of the start of a file twice and times the second reading where it found all
/// in memory: bytes and seconds. It comes out of memory, and not out of the processor's caches.
///
/// What was not in memory before leaves again, whatever became of it.
///
/// # Errors
/// The system's; nothing is read where it does not say what is in memory.
pub(super) fn reads(file: &File, bytes: u64, clock: &Clock) -> io::Result<Vec<(u64, f64)>> {
    let count = READS_MAX.min(bytes / READ_BYTES);
    if count == 0 {
        return Ok(Vec::new());
    }
    left_as_it_was(file, 0..count * READ_BYTES, || second_reads(file, count, clock))
}

/// Has `work` read what it will of `range`, and drops what was not in memory before, there and
/// where the kernel may have read ahead.
pub(super) fn left_as_it_was<T>(
    file: &File,
    range: Range<u64>,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let before = resident(file, range.start..range.end + READ_AHEAD_BYTES)?;
    let done = work();
    for (part, _) in before.into_iter().filter(|(_, resident)| !resident) {
        drop_all(file, &part)?;
    }
    done
}

/// Drops what is of `range` in memory, and what is on its way there. The kernel drops nothing that
/// is still being read, and the next read of the device would wait for that.
fn drop_all(file: &File, range: &Range<u64>) -> io::Result<()> {
    for _ in 0..DROPS_MAX {
        let mut near = resident(file, range.clone())?;
        near.retain(|(_, resident)| *resident);
        if near.is_empty() {
            break;
        }
        for (part, _) in near {
            // Reading waits for it; what does not arrive is not there to be dropped.
            drop(file.read_at(&mut [0], part.end - 1));
        }
        let length = NonZeroU64::new(range.end - range.start);
        rustix::fs::fadvise(file, range.start, length, Advice::DontNeed)?;
    }
    Ok(())
}

fn second_reads(file: &File, count: u64, clock: &Clock) -> io::Result<Vec<(u64, f64)>> {
    let mut buffer = AlignedBuffer::new(PIECE_BYTES);
    let buffer = buffer.bytes(PIECE_BYTES);
    read(file, 0..count * READ_BYTES, buffer)?;
    leave_caches();
    let mut reads = Vec::new();
    for start in (0..count).map(|number| number * READ_BYTES) {
        let range = start..start + READ_BYTES;
        let is_near = resident(file, range.clone())?.iter().all(|(_, resident)| *resident);
        let began = clock.now();
        let found = read(file, range, buffer)? as u64;
        if is_near && found == READ_BYTES {
            reads.push((found, clock.now().saturating_sub(began).as_secs_f64()));
        }
    }
    Ok(reads)
}

fn resident(file: &File, range: Range<u64>) -> io::Result<Vec<(Range<u64>, bool)>> {
    ranges_by(file.as_fd(), &[range], Method::Cachestat)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;
    use crate::local::sys::page_bytes;

    /// It has no name.
    fn evict(file: &File) {
        testkit::evict(format!("/proc/self/fd/{}", file.as_raw_fd()));
    }

    /// A file of two megabytes of which one page is in memory; `None` where it cannot be known.
    fn one_page_near(at: u64) -> Option<File> {
        let mut file = tempfile::tempfile().expect("a file");
        if let Err(error) = resident(&file, 0..READ_BYTES) {
            testkit::skip(&format!("cachestat: {error}"));
            return None;
        }
        file.write_all(&vec![1; 2 << 20]).expect("written");
        evict(&file);
        rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advised");
        file.read_at(&mut [0], at * page_bytes()).expect("read");
        Some(file)
    }

    fn has_only_left(file: &File, at: u64) {
        let (page, near) = (page_bytes(), at * page_bytes());
        let left = resident(file, 0..2 * READ_BYTES).expect("it tells");
        let one_page =
            [(0..near, false), (near..near + page, true), (near + page..2 * READ_BYTES, false)];
        assert_eq!(left, one_page);
    }

    #[test]
    fn reading_leaves_in_memory_only_what_was_there() {
        let Some(file) = one_page_near(4) else { return };
        let found = reads(&file, READ_BYTES, &Clock::real()).expect("it can be read");
        assert_eq!(found.len(), 1);
        assert!(found.iter().all(|&(bytes, seconds)| bytes == READ_BYTES && seconds > 0.0));
        has_only_left(&file, 4);
    }

    #[test]
    fn what_the_kernel_read_ahead_leaves_too() {
        let mut file = tempfile::tempfile().expect("a file");
        let whole = 0..READS_MAX * READ_BYTES + 2 * READ_AHEAD_BYTES;
        if let Err(error) = resident(&file, whole.clone()) {
            testkit::skip(&format!("cachestat: {error}"));
            return;
        }
        let content = vec![1; usize::try_from(whole.end).expect("it fits in memory")];
        file.write_all(&content).expect("written");
        evict(&file);
        reads(&file, whole.end, &Clock::real()).expect("it can be read");
        assert_eq!(resident(&file, whole.clone()).expect("it tells"), [(whole, false)]);
    }

    #[test]
    fn what_a_broken_reading_brought_in_leaves_too() {
        let Some(file) = one_page_near(4) else { return };
        let broken: io::Result<()> = left_as_it_was(&file, 0..2 * READ_BYTES, || {
            read(&file, 0..READ_BYTES, &mut [0; 4096])?;
            Err(io::Error::other("a bad sector"))
        });
        assert_eq!(broken.expect_err("it broke").to_string(), "a bad sector");
        has_only_left(&file, 4);
    }

    #[test]
    fn too_little_is_not_timed() {
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(reads(&file, READ_BYTES - 1, &Clock::real()).expect("nothing to do"), []);
    }
}
