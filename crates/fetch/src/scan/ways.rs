//! Whether what is in memory is quicker looked at where it is, mapped, or copied.
//!
//! To map costs for each folio of the page cache, whatever its size: of a file that came in large
//! pieces next to nothing, of one in single pages more than to search its text. To copy costs for each
//! byte, and much the same everywhere. Of a GiB, by one thread of an AMD EPYC: 1, 28 and 110 ms to map and
//! unmap, depending on how the file came, and 40 to 90 ms to copy, of which it takes 30 to look at it at all.

use std::time::Duration;

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Bytes from which on a file is tried: of a smaller one, the wrong way costs less than a trial.
const TRIED_BYTES_MIN: u64 = 16 << 20;
/// Bytes of each of the two tries of a trial, of which the quicker counts: an interrupt takes longer than
/// either, and seldom comes in both.
pub(super) const TRY_BYTES: u64 = 64 << 10;
/// Bytes that are looked at in the way that a trial found; what follows may have come otherwise.
const TRIED_EVERY_BYTES_MIN: u64 = 64 << 20;
/// The same after trials that found the same: each doubles it.
const TRIED_EVERY_BYTES_MAX: u64 = 256 << 20;
/// What a copy takes of a processor's cache costs whoever looks at it as much again, by the byte.
const COPIED_ASIDE_S_PER_BYTE: f64 = 20e-6 / (1 << 20) as f64;
/// What unmapping takes at the end of a scan, as a share of the time to map.
const UNMAPPING: f64 = 0.4;
/// A longer piece, which is one record, is not copied: it would leave the processor's cache again,
/// and may be as long as its file.
const COPIED_BYTES_MAX: u64 = 2 << 20;

/// A way to look at a piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Mapped,
    Copied,
    /// Both, to see which is quicker.
    Trial,
}

/// What is known of the ways to look at one file.
#[derive(Debug)]
pub(super) struct Ways {
    mapped: AtomicBool,
    /// Bytes looked at since the last trial.
    since: AtomicU64,
    /// From how many of them on there is another.
    every: AtomicU64,
}

impl Ways {
    /// Of a file of that size.
    pub(super) fn new(size: u64) -> Self {
        let since = if size < TRIED_BYTES_MIN { 0 } else { TRIED_EVERY_BYTES_MIN };
        let (since, every) = (AtomicU64::new(since), AtomicU64::new(TRIED_EVERY_BYTES_MIN));
        Self { mapped: AtomicBool::new(false), since, every }
    }

    /// How to look at a piece of that length.
    pub(super) fn of(&self, bytes: u64) -> Way {
        if bytes > COPIED_BYTES_MAX {
            return Way::Mapped;
        }
        let every = self.every.load(Ordering::Relaxed);
        let is_due = self.since.fetch_add(bytes, Ordering::Relaxed) >= every;
        if is_due && bytes >= 2 * TRY_BYTES {
            self.since.store(0, Ordering::Relaxed);
            return Way::Trial;
        }
        self.found()
    }

    /// The way that the last trial found.
    pub(super) fn found(&self) -> Way {
        if self.mapped.load(Ordering::Relaxed) { Way::Mapped } else { Way::Copied }
    }

    /// What a trial with so many bytes took, which were in a processor's cache: to copy them, and to map them.
    pub(super) fn tried(&self, bytes: u64, copying: Duration, mapping: Duration) {
        let copied_s = copying.as_secs_f64() + COPIED_ASIDE_S_PER_BYTE * bytes as f64;
        let mapped_s = mapping.as_secs_f64() * (1.0 + UNMAPPING);
        let mapped = mapped_s <= copied_s;
        let is_as_before = self.mapped.swap(mapped, Ordering::Relaxed) == mapped;
        let twice = (2 * self.every.load(Ordering::Relaxed)).min(TRIED_EVERY_BYTES_MAX);
        let every = if is_as_before { twice } else { TRIED_EVERY_BYTES_MIN };
        self.every.store(every, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_is_tried_now_and_then_and_looked_at_in_the_way_that_was_quicker() {
        let (quick, slow) = (Duration::from_micros(1), Duration::from_micros(2));
        let ways = Ways::new(TRIED_BYTES_MIN);
        assert_eq!(ways.of(1 << 20), Way::Trial);
        assert_eq!(ways.of(1 << 20), Way::Copied);
        let turns_until_trial = |way| {
            let turns = std::iter::repeat_with(|| ways.of(1 << 20)).take_while(|it| *it == way);
            turns.count() as u64
        };
        ways.tried(0, slow, quick);
        assert_eq!(turns_until_trial(Way::Mapped), (TRIED_EVERY_BYTES_MIN >> 20) - 1);
        for _ in 0..3 {
            ways.tried(0, slow, quick);
        }
        assert_eq!(turns_until_trial(Way::Mapped), TRIED_EVERY_BYTES_MAX >> 20);
        ways.tried(0, quick, slow);
        assert_eq!(turns_until_trial(Way::Copied), TRIED_EVERY_BYTES_MIN >> 20);
    }

    #[test]
    fn what_is_not_seen_of_either_way_counts() {
        let us = Duration::from_micros;
        let is_mapped = |copying, mapping| {
            let ways = Ways::new(0);
            ways.tried(512 << 10, us(copying), us(mapping));
            ways.of(1) == Way::Mapped
        };
        // What the four files of a GiB took: written in pieces of 16 MiB and of 256 KiB, copied, in single pages.
        assert!(is_mapped(20, 6) && is_mapped(13, 14));
        assert!(!is_mapped(37, 40) && !is_mapped(20, 42));
    }

    #[test]
    fn small_files_are_copied_and_long_records_are_not() {
        let ways = Ways::new(TRIED_BYTES_MIN - 1);
        assert_eq!(ways.of(COPIED_BYTES_MAX), Way::Copied);
        assert_eq!(ways.of(COPIED_BYTES_MAX + 1), Way::Mapped);
    }
}
