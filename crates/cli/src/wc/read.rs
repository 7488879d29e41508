//! Counting one open file: by its size, or by reading it.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use super::count::{Counts, Encoding, Summary, Wanted};

/// Bytes read at a time: fits the second-level cache, where the counting finds them again.
const BUFFER_BYTES: usize = 128 << 10;

/// What is counted, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) wanted: Wanted,
    pub(super) encoding: Encoding,
}

/// Counts as far as a file could be read, and the error that ended it.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) counts: Counts,
    pub(super) error: Option<io::Error>,
}

/// One thread's reader.
#[derive(Debug)]
pub(super) struct Reader {
    task: Task,
    buffer: Vec<u8>,
}

impl Reader {
    pub(super) fn task(&self) -> Task {
        self.task
    }

    pub(super) fn new(task: Task) -> Reader {
        Reader { task, buffer: Vec::new() }
    }

    /// Counts what an open file holds from its current position to its end.
    pub(super) fn count(&mut self, file: &File, about: Option<&Metadata>) -> Counted {
        let mut summary = Summary::empty(self.task.encoding);
        let mut known = 0;
        if self.task.wanted == Wanted::default()
            && let Some(about) = about.filter(|about| about.is_file())
        {
            match known_bytes(file, about) {
                Known::All(bytes) => {
                    // Characters are wanted here only where each is a byte.
                    let counts = Counts { bytes, characters: bytes, ..Counts::default() };
                    return Counted { counts, error: None };
                }
                Known::UpToPosition(bytes) => known = bytes,
            }
        }
        let error = self.read(file, &mut summary).err();
        let mut counts = summary.counts();
        counts.bytes += known;
        counts.characters += known;
        Counted { counts, error }
    }

    fn read(&mut self, mut file: &File, summary: &mut Summary) -> io::Result<()> {
        self.buffer.resize(BUFFER_BYTES, 0);
        loop {
            match file.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    let piece = &self.buffer[..length];
                    let piece = Summary::of(piece, self.task.wanted, self.task.encoding);
                    *summary = summary.merge(piece);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// How many bytes a regular file holds after its position, without reading them.
enum Known {
    All(u64),
    /// As many as were skipped; the rest must be read.
    UpToPosition(u64),
}

/// Asks a regular file for its size as far as that can be believed.
///
/// Files of `/proc` and `/sys` claim zero or whole pages whatever they hold, so that a file that
/// claims whole pages is read from its last block on.
fn known_bytes(mut file: &File, about: &Metadata) -> Known {
    let size = about.len();
    let Ok(position) = file.stream_position() else { return Known::UpToPosition(0) };
    if !size.is_multiple_of(rustix::param::page_size() as u64) {
        return Known::All(size.saturating_sub(position));
    }
    let last_block = size - size % (about.blksize() + 1);
    if position < last_block && file.seek(SeekFrom::Start(last_block)).is_ok() {
        Known::UpToPosition(last_block - position)
    } else {
        Known::UpToPosition(0)
    }
}
