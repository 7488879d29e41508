//! What is kept of the first bytes that are read, to tell a log that was added to from what was written anew.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Most bytes that are kept: to copy them takes some microseconds.
const BYTES_MAX: usize = 64 << 10;

/// The first bytes that were read of a content: all of what is no longer than 64 KiB. By default none.
#[derive(Debug, Clone, Default)]
pub struct FirstBytes {
    start: u64,
    bytes: Vec<u8>,
}

impl FirstBytes {
    /// Keeps what was read at `start`, if it goes on where these end and as far as there is room.
    pub fn add(&mut self, start: u64, read: &[u8]) {
        if self.bytes.is_empty() {
            self.start = start;
        }
        if start == self.range().end {
            let room = BYTES_MAX - self.bytes.len();
            self.bytes.extend_from_slice(&read[..read.len().min(room)]);
        }
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
