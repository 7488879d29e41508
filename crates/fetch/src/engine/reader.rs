//! A member that is near: how its reader gets at the bytes, and lets them go.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use store::{Entry, Error, FirstBytes, SpillFolder, uninterrupted};

use super::Inner;
use super::item::{Item, Source};
use crate::apart::Calls;
use crate::scheduler::{Event, MemberId};
use crate::sync::lock;

/// Bytes taken after which the scheduler is told that there is room for others.
const REPORT_BYTES: u64 = 1 << 20;

/// A member's data. Dropped, it makes room for others.
#[derive(Debug)]
pub enum Near {
    /// A file of this machine, its data in the page cache.
    File(NearFile),
    /// Bytes of ours.
    Bytes(BytesReader),
}

impl Near {
    pub(crate) fn new(engine: Arc<Inner>, member: MemberId, item: Arc<Item>) -> Self {
        Self::of(Hold { engine, member, item, is_lent: true })
    }

    /// Of a member that the scheduler does not wait for to be released.
    pub(crate) fn forgotten(engine: Arc<Inner>, member: MemberId, item: Arc<Item>) -> Self {
        Self::of(Hold { engine, member, item, is_lent: false })
    }

    /// Where a copy of it goes that has no place in memory.
    pub fn spill_folder(&self) -> &SpillFolder {
        let (Self::File(NearFile { hold }) | Self::Bytes(BytesReader { hold, .. })) = self;
        &hold.engine.spill_folder
    }

    fn of(hold: Hold) -> Self {
        match hold.item.source {
            Source::File { .. } => Self::File(NearFile { hold }),
            Source::Store(_) | Source::Nowhere => {
                Self::Bytes(BytesReader { hold, current: Bytes::new(), unreported: 0 })
            }
        }
    }
}

/// Keeps a member until its reader is done with it.
struct Hold {
    engine: Arc<Inner>,
    member: MemberId,
    item: Arc<Item>,
    /// Whether the scheduler waits for its release.
    is_lent: bool,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&self.member).finish()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_lent {
            return;
        }
        let engine = &self.engine;
        drop(self.item.take_kept());
        let mut state = lock(&engine.state);
        let forgotten = state.forget(self.member);
        state.tell(Event::Released { member: self.member }, engine.costs.clock().now());
        let after = engine.carry_out(&mut state);
        drop(state);
        after.finish(&engine.pool);
        drop(forgotten);
        self.item.buffer.clear();
    }
}

/// A file whose data was brought into the page cache.
#[derive(Debug)]
pub struct NearFile {
    hold: Hold,
}

impl NearFile {
    /// Bytes that had to be brought; 0 if all that was wanted was near already.
    pub fn fetched_bytes(&self) -> u64 {
        let contact = self.hold.item.contact();
        contact.map_or(0, |contact| contact.far.iter().map(|far| far.end - far.start).sum())
    }

    /// What bringing them took from when each read of them began. Of a device that is known no more than
    /// that much takes by itself, in the median: reads side by side keep each other waiting.
    pub fn fetch_took(&self) -> Duration {
        let Hold { engine, item, .. } = &self.hold;
        let alone = item.contact().and_then(|contact| engine.takes(&contact));
        item.took().min(alone.unwrap_or(Duration::MAX))
    }

    /// Whether a call to its mount may never return.
    pub fn may_stall(&self) -> bool {
        self.hold.item.may_stall()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.hold.item.path().expect("it is a file")
    }

    /// The first byte that is wanted of it.
    pub fn start(&self) -> u64 {
        self.hold.item.start()
    }

    /// Its descriptor, at the first byte that is wanted; each call gives one of its own.
    ///
    /// # Errors
    /// As opening a file; [`Error::Changed`] if another version is there by now.
    pub fn open(&self) -> Result<File, Error> {
        let mut file = self.opened()?;
        if self.start() > 0 {
            let sought = file.seek(SeekFrom::Start(self.start()));
            sought.map_err(|source| Error::io(self.path(), source))?;
        }
        Ok(file)
    }

    fn opened(&self) -> Result<File, Error> {
        if let Some(file) = self.hold.item.take_file() {
            return Ok(file);
        }
        let (file, status) = self.hold.engine.costs.open_regular(self.path())?;
        let Entry { name, size, version, .. } = self.hold.item.entry();
        // Files of the kernel, which tell no size, are others each time.
        let is_same = size == Some(0) && status.size == 0
            || version.is_none_or(|version| version == status.version());
        if is_same { Ok(file) } else { Err(Error::Changed { name }) }
    }

    /// A reader of it, at the first byte that is wanted.
    ///
    /// # Errors
    /// As opening a file.
    pub fn reader(&self) -> Result<FileReader, Error> {
        let (file, costs) = (self.open()?, &self.hold.engine.costs);
        let calls = Calls::new("member", file, costs, self.may_stall());
        calls.map(FileReader).map_err(|source| Error::io(self.path(), source))
    }

    /// A reader of the file that `reader` has open, at `position`, which is its own.
    ///
    /// # Errors
    /// The system's; `TimedOut` where the mount does not answer.
    pub fn reader_anew(&self, reader: &FileReader, position: u64) -> io::Result<FileReader> {
        let file = reader.0.call(move |file| opened_anew(file, position))?;
        Calls::new("member", file, &self.hold.engine.costs, self.may_stall()).map(FileReader)
    }
}

/// The same file, whatever its name stands for by now, at `position`, which is its own.
///
/// # Errors
/// The system's: no descriptors; the file may not be opened any more. Never `NotFound`: it is open.
pub fn opened_anew(file: &File, position: u64) -> io::Result<File> {
    let own = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let mut own = own.map_err(not_opened_anew)?;
    own.seek(SeekFrom::Start(position))?;
    Ok(own)
}

fn not_opened_anew(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let why = "it is open and cannot be opened once more by /proc/self/fd: is /proc mounted?";
    io::Error::other(why)
}

/// Reads a file on. Where its mount may not answer, no call waits longer than that may take.
pub struct FileReader(Calls);

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileReader").field(self.0.file()).finish()
    }
}

impl FileReader {
    /// Its descriptor, calls on which are not bounded; what reads it moves this reader, too.
    pub fn file(&self) -> &File {
        self.0.file()
    }

    /// What the system says of it now.
    ///
    /// # Errors
    /// The system's; `TimedOut` where the mount does not answer.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.call(|file| uninterrupted(|| file.metadata()))
    }

    /// Whether what was read first of it is there still.
    ///
    /// # Errors
    /// As [`FileReader::metadata`].
    pub fn begins_with(&self, first: &FirstBytes) -> io::Result<bool> {
        let first = first.clone();
        self.0.call(move |file| first.are_in(file))
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// Reads a member's bytes in order, while the last of them may be on their way.
///
/// What is read is let go at once: nothing is read twice.
#[derive(Debug)]
pub struct BytesReader {
    hold: Hold,
    current: Bytes,
    unreported: u64,
}

impl BytesReader {
    /// The headers that the object came with, if its store keeps any.
    pub fn headers(&self) -> Vec<(String, String)> {
        self.hold.item.headers()
    }

    /// The next bytes, as they arrived; empty at the end.
    ///
    /// # Errors
    /// What kept the rest away.
    pub fn chunk(&mut self) -> Result<Bytes, Arc<Error>> {
        if !self.current.is_empty() {
            return Ok(std::mem::take(&mut self.current));
        }
        let taken = self.hold.item.buffer.try_take().unwrap_or_else(|| {
            // What was read must not be what the rest waits for.
            self.report();
            self.hold.item.buffer.take()
        });
        self.took(taken)
    }

    /// As [`BytesReader::chunk`], for a task.
    pub fn poll_chunk(&mut self, context: &Context<'_>) -> Poll<Result<Bytes, Arc<Error>>> {
        if !self.current.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.current)));
        }
        match self.hold.item.buffer.poll_take(context.waker()) {
            Poll::Ready(taken) => Poll::Ready(self.took(taken)),
            Poll::Pending => {
                self.report();
                Poll::Pending
            }
        }
    }

    /// All that was not read yet, without a copy if it came in one piece.
    ///
    /// # Errors
    /// What kept the rest away.
    pub fn all(mut self) -> Result<Bytes, Arc<Error>> {
        let first = self.chunk()?;
        let left = self.hold.item.buffer.left();
        if left == Some(0) {
            return Ok(first);
        }
        let left = left.map_or(0, |left| usize::try_from(left).unwrap_or(0));
        let expected = first.len().saturating_add(left);
        let mut whole = Vec::new();
        // A server may tell of more than any memory holds.
        whole.try_reserve_exact(expected).map_err(|_| {
            let reason = format!("memory has no room for its {expected} bytes");
            Arc::new(Error::refused(self.hold.item.name(), reason))
        })?;
        let mut next = first;
        while !next.is_empty() {
            whole.extend_from_slice(&next);
            next = self.chunk()?;
        }
        Ok(whole.into())
    }

    fn took(&mut self, taken: Result<Bytes, Arc<Error>>) -> Result<Bytes, Arc<Error>> {
        let bytes = taken?;
        self.unreported += bytes.len() as u64;
        if self.unreported >= REPORT_BYTES {
            self.report();
        }
        Ok(bytes)
    }

    fn report(&mut self) {
        let bytes = std::mem::take(&mut self.unreported);
        if bytes > 0 {
            self.hold.engine.post([Event::Read { member: self.hold.member, bytes }]);
        }
    }
}

impl Read for BytesReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() {
            self.current = self.chunk().map_err(|cause| io::Error::new(cause.kind(), cause))?;
        }
        let length = self.current.len().min(buffer.len());
        self.current.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
