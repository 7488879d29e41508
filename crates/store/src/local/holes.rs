//! Which parts of a file are holes.
//!
//! `FIEMAP` is no answer for a reader that leaves holes out: it calls preallocated space empty even
//! while the page cache holds data for it. `SEEK_HOLE` looks there, too.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};
use rustix::io::Errno;

/// Holes found at most, so that a file in shreds is not asked about for long; the rest is taken for data.
const HOLES_MAX: usize = 1 << 16;

/// The holes of at least `bytes_min` bytes among the first `size` of an open file, in file order.
///
/// All their bytes were zero when this was called, and no storage was behind them. The position of
/// `file` does not move; a `fcntl` lock that this process holds on the file is lost, since the file
/// is opened once more and closed.
///
/// # Errors
/// The system's, where the file cannot be opened again or its file system knows of no holes.
pub fn holes(file: &impl AsFd, size: u64, bytes_min: u64) -> io::Result<Vec<Range<u64>>> {
    // Seeking moves a position, which others may share: this needs one of its own.
    let again = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let own = open(again, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let mut holes = Vec::new();
    let mut at = 0;
    for _ in 0..HOLES_MAX {
        let start = match seek(&own, SeekFrom::Hole(at)) {
            Ok(start) if start < size => start,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = match seek(&own, SeekFrom::Data(start)) {
            Ok(end) => end.min(size),
            // No data up to the end of the file, which may have moved.
            Err(Errno::NXIO) => rustix::fs::fstat(&own)
                .map_or(start, |stat| u64::try_from(stat.st_size).unwrap_or(0).clamp(start, size)),
            Err(error) => return Err(error.into()),
        };
        if end - start >= bytes_min.max(1) {
            holes.push(start..end);
        }
        if end >= size || end <= at {
            break;
        }
        at = end;
    }
    Ok(holes)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom as Position};
    use std::os::unix::fs::FileExt as _;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn holes_lie_between_data_and_the_position_stays() {
        let mut file = tempfile::tempfile().expect("a file");
        file.set_len(100 * MIB).expect("made long");
        file.write_all_at(&[1; 4096], 10 * MIB).expect("written");
        file.write_all_at(&[1; 4096], 10 * MIB + 65_536).expect("written");
        file.write_all_at(&[1; 4096], 50 * MIB).expect("written");
        file.seek(Position::Start(7)).expect("a position");
        let found = holes(&file, 100 * MIB, MIB).expect("asked");
        let data = [10 * MIB..10 * MIB + 69_632, 50 * MIB..50 * MIB + 4096];
        let all = [0..data[0].start, data[0].end..data[1].start, data[1].end..100 * MIB];
        assert_eq!(found, all);
        assert_eq!(holes(&file, 20 * MIB, MIB).expect("asked")[1].end, 20 * MIB, "within the size");
        assert_eq!(file.stream_position().expect("a position"), 7);
    }

    #[test]
    fn preallocated_space_that_was_written_is_no_hole() {
        let file = tempfile::tempfile().expect("a file");
        let flags = rustix::fs::FallocateFlags::empty();
        if rustix::fs::fallocate(&file, flags, 0, 8 * MIB).is_err() {
            return; // This file system preallocates nothing.
        }
        file.write_all_at(b"x", 4 * MIB).expect("written, and not yet on disk");
        let found = holes(&file, 8 * MIB, 1).expect("asked");
        assert!(found.iter().all(|hole| !hole.contains(&(4 * MIB))), "{found:?}");
    }

    #[test]
    fn a_file_without_holes_and_an_empty_one_have_none() {
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(holes(&file, 0, 1).expect("asked"), []);
        file.write_all_at(&[1; 10_000], 0).expect("written");
        assert_eq!(holes(&file, 10_000, 1).expect("asked"), []);
    }
}
