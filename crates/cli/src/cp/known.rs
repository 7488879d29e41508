//! How the copy of a file of this machine is known again: by its time, where that tells, else by its bytes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nearfirst::{Error, Local};

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
    let [mut file, mut there] = [Chunks::open(local, file)?, Chunks::open(local, there)?];
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
