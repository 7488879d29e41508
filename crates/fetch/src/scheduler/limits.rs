//! The limits of the scheduler, each with its reason.

use std::time::Duration;

/// So many parts fit in a small budget: each member that is read may have one and a half of them
/// beyond it.
const PARTS_FIT: u64 = 8;
/// Smaller parts would take longer to ask for than to read.
const PART_BYTES_MIN: u64 = 256 << 10;

/// What the scheduler may use, and when it loses patience.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes that may be fetched or on their way, and not yet read; see [`Limits::within`].
    pub budget_bytes: u64,
    /// Bytes that may lie on disk because the budget was full; 0: nothing is spilled.
    pub spill_bytes: u64,
    /// Requests in flight to one device at most, whatever its goodput says; 0 counts as 1.
    pub window_max: u32,
    /// Bytes of one part, from 1 on: larger objects are fetched in parts, side by side. Each is a
    /// request: of less than some 256 KiB these take longer than the bytes.
    pub part_bytes: u64,
    /// Members listed and not begun, of one set: what the order may choose from. 0 counts as 1.
    pub lookahead: u32,
    /// Members begun and not delivered, of one set: each may hold a descriptor. 0 counts as 1.
    pub ahead: u32,
    /// Members delivered beside one that was asked for, if they were near
    /// anyway: handing over each by itself would cost more than reading it.
    pub batch: u32,
    /// How long an attempt may bring no byte; more than 0.
    pub stall: Duration,
    /// Attempts at one part without getting on, the first included, hedges not; 0 counts as 1.
    pub attempts_max: u32,
    /// The pause before the second attempt; it doubles with each.
    pub backoff: Duration,
    /// Of a device's requests, how many may be hedges, in hundredths.
    pub hedge_percent: u32,
}

impl Limits {
    /// The same within so much memory: parts are smaller, too, where few would fit.
    #[must_use]
    pub fn within(self, memory_bytes: u64) -> Self {
        let budget_bytes = Self::data_bytes(memory_bytes);
        let part_bytes = (budget_bytes / PARTS_FIT).max(PART_BYTES_MIN).min(self.part_bytes);
        Self { budget_bytes, part_bytes, ..self }
    }

    /// Which of them would let nothing be fetched, and what it has to be.
    pub(crate) fn unusable(&self) -> Option<&'static str> {
        if self.part_bytes == 0 {
            return Some("part_bytes is 0: a part has a byte or more");
        }
        self.stall.is_zero().then_some("stall is 0: an attempt needs some time to bring a byte")
    }

    /// The bytes of data that take so much memory.
    ///
    /// Pieces of many sizes that are let go in another order than they came in keep up to half as
    /// much more with the allocator, and buffers of connections besides (`bench/run objects-large`: 1.3; by
    /// hand, of `cat` from a server on the same machine, 1.3 to 1.6).
    fn data_bytes(memory_bytes: u64) -> u64 {
        (memory_bytes / 5 * 3).max(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A quarter of what the smallest machine in use has; 19 parts in flight fit.
            budget_bytes: Self::data_bytes(256 << 20),
            spill_bytes: 4 << 30,
            // Beyond this no store measured gained, and servers throttle.
            window_max: 256,
            // The range size that S3's own guidance names (8 to 16 MiB).
            part_bytes: 8 << 20,
            // Enough to choose among and to keep every window full; 100 bytes each.
            lookahead: 4096,
            // Half of the 1024 descriptors that a process has by default; two of the largest windows.
            ahead: 512,
            // A hand-over costs some microseconds, a small file two.
            batch: 32,
            // Ten times what the slowest healthy server pauses; shorter than a person's patience.
            stall: Duration::from_secs(20),
            attempts_max: 5,
            backoff: Duration::from_millis(100),
            // Hedging the slowest one in twenty costs little and removes most of the tail (Dean & Barroso 2013).
            hedge_percent: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_smaller_where_few_would_fit() {
        let limits = Limits::default();
        assert_eq!(limits.within(256 << 20), limits);
        assert_eq!(limits.within(1 << 40).part_bytes, 8 << 20);
        let small = limits.within(10 << 20);
        assert_eq!((small.budget_bytes, small.part_bytes), (6 << 20, 768 << 10));
        assert_eq!(limits.within(1).part_bytes, 256 << 10);
        assert_eq!(Limits { part_bytes: 10, ..limits }.within(1).part_bytes, 10);
    }
}
