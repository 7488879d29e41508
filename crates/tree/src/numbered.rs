//! Maps whose keys are numbers that we gave ourselves, so that no hash has to withstand anyone.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<Mixing>>;
pub(crate) type NumberSet<K> = HashSet<K, BuildHasherDefault<Mixing>>;

/// Mixes numbers by multiplication.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mixing(u64);

/// 2^64 divided by the golden ratio: multiples of it are spread evenly (Knuth, volume 3, 6.4).
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mixing {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }
}
