//! What is kept of the first bytes that are read, to tell a log that was added to from what was written anew.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;

/// Most bytes that are kept: to copy them takes some microseconds.
const BYTES_MAX: usize = 64 << 10;

/// The first bytes that were read of a content: all of what is no longer than 64 KiB. By default none.
#[derive(Debug, Clone, Default)]
pub struct FirstBytes {
    start: u64,
    bytes: Bytes,
}

impl FirstBytes {
    /// Of what was read from `start` on.
    pub fn of(start: u64, read: &[u8]) -> Self {
        Self { start, bytes: Bytes::copy_from_slice(&read[..read.len().min(BYTES_MAX)]) }
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where they were read.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    /// Whether they are the same as these.
    pub fn are(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes
    }

    /// Whether they are in their place in a file still.
    ///
    /// # Errors
    /// The system's.
    pub fn are_in(&self, file: &File) -> io::Result<bool> {
        let mut bytes = vec![0; self.bytes.len()];
        match file.read_exact_at(&mut bytes, self.start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| self.are(&bytes)),
        }
    }
}
