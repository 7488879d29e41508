//! Counting one open file: by its size, by a scan of its parts, or by reading it through.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex};

use nearfirst::fetch::{self, ScanOptions, Source};
use nearfirst::{Costs, Member, MemberError, Status};
use store::{Opened, lock, uninterrupted};

use super::count::{Counts, Encoding, Summary, Wanted};
use super::pieces::Pieces;
use crate::messages;
use crate::reading::Reading;
use crate::sets::{Tallied, Tally};

/// Bytes read at a time: fits the second-level cache, where the counting finds them again.
const BUFFER_BYTES: usize = 128 << 10;

/// Smallest file that is scanned in parts; below it, asking where they are costs more than it saves.
pub(super) const SCAN_BYTES_MIN: u64 = 1 << 20;

/// What is counted, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    pub(super) wanted: Wanted,
    pub(super) encoding: Encoding,
    pub(super) costs: &'a Costs,
    pub(super) options: ScanOptions,
    /// Smallest file that is scanned in parts.
    pub(super) scan_bytes_min: u64,
}

/// Counts as far as a file could be read, and why not further.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) counts: Counts,
    pub(super) error: Option<String>,
}

/// Counts files for several threads.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) task: Task<'a>,
    reading: Mutex<Reading>,
    /// Objects of stores that were counted.
    objects: Arc<Tally>,
    /// Held by the one scan at a time: it has threads of its own.
    scanning: Mutex<()>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(task: Task<'a>, objects: Arc<Tally>) -> Reader<'a> {
        Reader { task, reading: Mutex::default(), objects, scanning: Mutex::default() }
    }

    /// How the bytes of all files came.
    pub(super) fn reading(&self) -> Reading {
        *lock(&self.reading)
    }

    /// Counts what an open file holds from its current position to its end; `regular` is what a regular
    /// one is.
    ///
    /// `buffer` is one thread's, kept from file to file.
    pub(super) fn count(
        &self,
        file: File,
        regular: Option<&Status>,
        path: &Path,
        buffer: &mut Vec<u8>,
    ) -> Counted {
        let file = Opened::new(file, regular.is_some_and(|status| status.backing.may_stall()));
        let mut known = 0;
        if let Some(Status { size, .. }) = regular {
            if self.task.wanted == Wanted::default() {
                match known_bytes(&file, *size) {
                    Known::All(bytes) => {
                        // Characters are wanted here only where each is a byte.
                        let counts = Counts { bytes, characters: bytes, ..Counts::default() };
                        return Counted { counts, error: None };
                    }
                    Known::UpToPosition(bytes) => known = bytes,
                }
            } else if *size >= self.task.scan_bytes_min && is_at_start(&file) {
                return self.scan(&file, path);
            }
        }
        let mut summary = Summary::empty(self.task.encoding);
        let error = self.read_through(file, &mut summary, buffer).err();
        let mut counts = summary.counts();
        lock(&self.reading).read_through += counts.bytes;
        counts.bytes += known;
        counts.characters += known;
        Counted { counts, error: error.as_ref().map(messages::reason) }
    }

    /// Counts all that a member of a set holds.
    ///
    /// # Errors
    /// What kept some of it away: what there was of it counts for nothing.
    pub(super) fn count_member(
        &self,
        member: Member,
        buffer: &mut Vec<u8>,
    ) -> Result<Counts, MemberError> {
        let name = member.name().clone();
        self.objects.expects(member.size().unwrap_or(0));
        let mut summary = Summary::empty(self.task.encoding);
        match self.read(Tallied { member, tally: Arc::clone(&self.objects) }, &mut summary, buffer)
        {
            Ok(()) => {
                self.objects.done();
                Ok(summary.counts())
            }
            Err(error) => {
                self.objects.failed();
                Err(MemberError::of(&name, error))
            }
        }
    }

    fn scan(&self, mut file: &File, path: &Path) -> Counted {
        let Task { wanted, encoding, costs, options, .. } = self.task;
        let options = ScanOptions { whole_holes: true, ..options };
        let pieces = Pieces::new(encoding);
        let zero = Summary::of(&[0], wanted, encoding);
        let alone = lock(&self.scanning);
        let scanned = fetch::scan(
            &Source { file, path, costs },
            &options,
            |chunk, _| {
                if chunk.hole {
                    return zero.repeated(chunk.length);
                }
                Summary::of(chunk.bytes, wanted, encoding)
            },
            |range, summary, _| pieces.add(range, summary),
        );
        drop(alone);
        let error = match scanned {
            Ok(report) => {
                lock(&self.reading).add_scan(&report);
                // Who shares this position finds it where reading would have left it.
                file.seek(SeekFrom::Start(report.size)).err().as_ref().map(messages::reason)
            }
            Err(error) => Some(error.reason()),
        };
        Counted { counts: pieces.join().counts(), error }
    }

    fn read_through(
        &self,
        file: Opened,
        all: &mut Summary,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        if file.may_stall() {
            return self.read(fetch::bounded(file.into_file(), self.task.costs)?, all, buffer);
        }
        self.read(&*file, all, buffer)
    }

    fn read(&self, mut file: impl Read, all: &mut Summary, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.resize(BUFFER_BYTES, 0);
        loop {
            let length = uninterrupted(|| file.read(buffer))?;
            if length == 0 {
                return Ok(());
            }
            let piece = &buffer[..length];
            let piece = Summary::of(piece, self.task.wanted, self.task.encoding);
            *all = all.merge(piece);
        }
    }
}

fn is_at_start(mut file: &File) -> bool {
    file.stream_position().is_ok_and(|position| position == 0)
}

/// How many bytes a regular file holds after its position, without reading them.
enum Known {
    All(u64),
    /// As many as were skipped; the rest must be read.
    UpToPosition(u64),
}

/// What a regular file of that size holds, as far as the size can be believed.
///
/// Files of `/proc` and `/sys` claim zero or whole pages whatever they hold, so that a file that
/// claims whole pages is read from within its last page on, and one that claims a single one whole.
fn known_bytes(mut file: &File, size: u64) -> Known {
    let page = rustix::param::page_size() as u64;
    let Ok(position) = file.stream_position() else { return Known::UpToPosition(0) };
    // Who shares this position finds it where reading would have left it.
    if !size.is_multiple_of(page) && file.seek(SeekFrom::Start(size.max(position))).is_ok() {
        return Known::All(size.saturating_sub(position));
    }
    let last_page = size - size % (page + 1);
    if position < last_page && file.seek(SeekFrom::Start(last_page)).is_ok() {
        Known::UpToPosition(last_page - position)
    } else {
        Known::UpToPosition(0)
    }
}
