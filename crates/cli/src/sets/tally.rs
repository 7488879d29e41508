//! How far a run over a set is, counted by its workers and shown by progress and `--stats`.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nearfirst::Member;

/// Counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    members: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    expected_bytes: AtomicU64,
    known_before: AtomicU64,
}

impl Tally {
    /// A member is done.
    pub(crate) fn done(&self) {
        self.members.fetch_add(1, Ordering::Relaxed);
    }

    /// A member could not be read.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// More of a member was read.
    pub(crate) fn read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes of a member will be read, as far as is known.
    pub(crate) fn expects(&self, bytes: u64) {
        self.expected_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A set of so many members ends; another may follow in the same run.
    pub(crate) fn ends(&self, known: u64) {
        self.known_before.fetch_add(known, Ordering::Relaxed);
    }

    /// Members of the sets of this run that have ended.
    pub(crate) fn known_before(&self) -> u64 {
        self.known_before.load(Ordering::Relaxed)
    }

    /// The bytes of all members that were begun, of which some were read.
    pub(crate) fn expected_bytes(&self) -> u64 {
        self.expected_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn members(&self) -> u64 {
        self.members.load(Ordering::Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A member whose bytes are counted as they are read.
pub(crate) struct Tallied {
    pub(crate) member: Member,
    pub(crate) tally: Arc<Tally>,
}

impl Read for Tallied {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = Read::read(&mut self.member, buffer)?;
        self.tally.read(read as u64);
        Ok(read)
    }
}
