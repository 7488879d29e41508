//! How the copy of a file of this machine is known again: by its time, where that tells, else by its bytes.

use std::cmp::Ordering;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::SystemTime;

use nearfirst::{Error, Local, unix_parts};

use crate::wary::Wary;

const SECOND_NS: i128 = 1_000_000_000;
/// File systems that keep times less exactly than that keep them to 2 s at the coarsest, as FAT does.
const STEP_NS: i128 = 2 * SECOND_NS;
/// What Windows and older servers leave out of a time; nothing is written, copied and written again so fast.
const LEFT_OUT_NS: i128 = 1000;
/// Bytes compared at a time.
const CHUNK_BYTES: u64 = 256 << 10;

/// Whether what is `there` is the copy of a file, and not the file itself, as far as times tell: it has
/// that of the file, which was not written to within a step of when it was copied. Unknown where they
/// differ by less than some file systems keep.
pub(super) fn by_times(file: &Metadata, there: &Metadata) -> Option<bool> {
    if (file.dev(), file.ino()) == (there.dev(), there.ino()) || file.len() != there.len() {
        return Some(false);
    }
    let (written, kept) = (modified_ns(file), modified_ns(there));
    if written.abs_diff(kept) >= STEP_NS.unsigned_abs() {
        return Some(false);
    }
    let has_time = (0..LEFT_OUT_NS).contains(&(written - kept));
    (has_time && changed_ns(there) - written >= STEP_NS).then_some(true)
}

/// The age of a file beside what is `there`, where times are kept no more exactly than that one is: to
/// two seconds, to one, or but for what is left out.
pub(super) fn age(file: SystemTime, there: &Metadata) -> Ordering {
    let kept = modified_ns(there);
    let steps = [STEP_NS, SECOND_NS, LEFT_OUT_NS];
    let step = steps.into_iter().find(|step| kept % step == 0).unwrap_or(1);
    let (seconds, ns) = unix_parts(file);
    let written = i128::from(seconds) * SECOND_NS + i128::from(ns);
    written.div_euclid(step).cmp(&kept.div_euclid(step))
}

fn modified_ns(about: &Metadata) -> i128 {
    i128::from(about.mtime()) * SECOND_NS + i128::from(about.mtime_nsec())
}

/// When a copy got its time, or later.
fn changed_ns(about: &Metadata) -> i128 {
    i128::from(about.ctime()) * SECOND_NS + i128::from(about.ctime_nsec())
}

/// Whether two files have the same bytes.
///
/// # Errors
/// The system's; that a mount does not answer.
pub(super) fn by_bytes(local: &Local, file: &Path, there: &Path) -> Result<bool, Error> {
    let mut file = Chunks::open(local, file)?;
    let mut there = match Chunks::open(local, there) {
        // It is nobody's copy that this user may not read.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(false);
        }
        opened => opened?,
    };
    loop {
        let bytes = file.next()?;
        if bytes != there.next()? {
            return Ok(false);
        }
        if bytes.is_empty() {
            return Ok(true);
        }
    }
}

/// A file that is read from its beginning, in chunks of one length but the last.
struct Chunks<'a> {
    path: &'a Path,
    file: Wary<'a, File>,
}

impl<'a> Chunks<'a> {
    fn open(local: &'a Local, path: &'a Path) -> Result<Self, Error> {
        let at = path.to_owned();
        // Opening a FIFO that was put there meanwhile would not return.
        let open = move || OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(at);
        let file = Wary::open(local, path, open).map_err(|error| Error::io(path, error))?;
        Ok(Self { path, file })
    }

    fn next(&mut self) -> Result<Vec<u8>, Error> {
        let read = self.file.call(|file| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            file.take(CHUNK_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        read.map_err(|error| Error::io(self.path, error))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_file_is_as_old_as_its_copy_where_that_keeps_times_less_exactly() {
        let copy = tempfile::tempfile().expect("a file");
        let at = |seconds: u64, ns: u32| UNIX_EPOCH + Duration::new(seconds, ns);
        for (kept, file, age) in [
            ((101, 0), (101, 456_000_000), Ordering::Equal),
            ((101, 0), (102, 0), Ordering::Greater),
            // As FAT keeps 101.5.
            ((100, 0), (101, 500_000_000), Ordering::Equal),
            ((100, 0), (102, 0), Ordering::Greater),
            ((101, 456_789_000), (101, 456_789_123), Ordering::Equal),
            ((101, 456_789_123), (101, 456_789_124), Ordering::Greater),
            ((101, 456_789_123), (101, 456_789_122), Ordering::Less),
            ((101, 0), (100, 999_999_999), Ordering::Less),
        ] {
            copy.set_modified(at(kept.0, kept.1)).expect("it is ours");
            let there = copy.metadata().expect("it is open");
            assert_eq!(super::age(at(file.0, file.1), &there), age, "{file:?} beside {kept:?}");
        }
    }
}
