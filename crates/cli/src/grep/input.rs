//! Readers of what is searched: bounded in time, up to an error, counted, or whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nearfirst::Local;
use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use store::uninterrupted;

use super::print::Outcome;
use crate::wary::Wary;

/// The searcher's own buffer: a file up to this size is one read to it, so
/// that a NUL byte anywhere is known before the first line is looked at.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

/// Reads what a program makes of a file, as long as the file's mount answers.
pub(super) struct Patient<'a, R: Read + Send + 'static> {
    reader: Wary<'a, R>,
    /// What a read fills, while none does.
    space: Vec<u8>,
}

impl<'a, R: Read + Send + 'static> Patient<'a, R> {
    pub(super) fn open(
        local: &'a Local,
        path: &'a Path,
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> io::Result<Self> {
        Ok(Self { reader: Wary::open(local, path, open)?, space: Vec::new() })
    }

    /// As [`Wary::end`].
    pub(super) fn end<T: Send + 'static>(
        self,
        end: impl FnOnce(R) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.reader.end(end)
    }
}

impl<R: Read + Send + 'static> Read for Patient<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = std::mem::take(&mut self.space);
        let wanted = buffer.len().min(BUFFER_BYTES);
        space.resize(space.len().max(wanted), 0);
        let (read, space) = self.reader.call(move |reader| {
            let read = reader.read(&mut space[..wanted])?;
            Ok((read, space))
        })?;
        buffer[..read].copy_from_slice(&space[..read]);
        self.space = space;
        Ok(read)
    }
}

/// Has all be searched that a reader gives before it fails, as one of what is damaged does at its end.
///
/// # Errors
/// Of `search`; that of the reader is in the outcome.
pub(super) fn up_to_error(
    reader: &mut dyn Read,
    search: impl FnOnce(&mut dyn Read) -> io::Result<Outcome>,
) -> io::Result<Outcome> {
    let mut reader = UpToError { reader, error: None };
    let outcome = search(&mut reader)?;
    Ok(Outcome { failed: reader.error, ..outcome })
}

/// Ends where a reader fails, and keeps the error.
struct UpToError<'a> {
    reader: &'a mut dyn Read,
    error: Option<io::Error>,
}

impl Read for UpToError<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.error.is_some() {
            return Ok(0);
        }
        match self.reader.read(buffer) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.error = Some(error);
                Ok(0)
            }
            read => read,
        }
    }
}

/// Counts what is read.
pub(super) struct Counted<'a> {
    reader: &'a mut dyn Read,
    pub(super) bytes: u64,
}

impl<'a> Counted<'a> {
    pub(super) fn new(reader: &'a mut dyn Read) -> Self {
        Self { reader, bytes: 0 }
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Reads a file to its end; `size` is what it was said to be.
pub(super) fn read_whole(file: &File, size: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    let expected = usize::try_from(size).unwrap_or(usize::MAX);
    // One byte more, so that the end shows without another call.
    buffer.try_reserve(expected.saturating_add(1))?;
    loop {
        let read = retry_on_intr(|| rustix::io::read(file, spare_capacity(buffer)))?;
        let has_room = buffer.len() < buffer.capacity();
        if read == 0 || (buffer.len() == expected && has_room) {
            return Ok(());
        }
        buffer.try_reserve(BUFFER_BYTES)?;
    }
}

/// As [`read_whole`], of what is no descriptor: in as few reads as its size allows.
pub(super) fn read_whole_from(
    reader: &mut impl Read,
    size: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let expected = usize::try_from(size).unwrap_or(usize::MAX);
    buffer.clear();
    buffer.try_reserve(expected.saturating_add(1))?;
    buffer.resize(expected + 1, 0);
    let mut filled = 0;
    loop {
        match uninterrupted(|| reader.read(&mut buffer[filled..])) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) => {
                buffer.truncate(filled);
                return Err(error);
            }
        }
        if filled == buffer.len() {
            buffer.resize(filled + BUFFER_BYTES, 0);
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// Whether a line ends where ripgrep looks for a mark: what lies there is searched before it is
/// seen whether the rest is binary.
pub(super) fn ends_a_line_in_mark(text: &[u8]) -> bool {
    text.iter().take(3).any(|&byte| byte == b'\n')
}

/// Whether text begins with a mark that says how it is encoded.
pub(super) fn begins_with_mark(text: &[u8]) -> bool {
    mark(text).is_some()
}

/// That mark: of UTF-8, or of UTF-16.
pub(super) fn mark(text: &[u8]) -> Option<&'static [u8]> {
    [&b"\xEF\xBB\xBF"[..], b"\xFF\xFE", b"\xFE\xFF"].into_iter().find(|mark| text.starts_with(mark))
}
