//! Chance from a seed.

use std::time::Duration;

/// `SplitMix64` (Steele, Lea & Flood, OOPSLA 2014): the same numbers from the same seed, everywhere.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True in so many of a thousand cases.
    pub(crate) fn in_thousand(&mut self, cases: u64) -> bool {
        self.below(1000) < cases
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("an index")]
    }

    pub(crate) fn micros(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(self.between(from, to))
    }
}
