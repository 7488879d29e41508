//! Listings that come back to a page where they have been.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, Hash, RandomState};

/// Why such a listing ends.
pub(super) const GOES_ROUND: &str =
    "the listing goes round: its next page is one that came already";

/// Which pages of a listing were asked for, by hashes of what tells them apart: there may be millions.
#[derive(Debug, Default)]
pub(super) struct Asked {
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl Asked {
    /// Whether a page is asked for again: the same pages would follow for ever.
    pub(super) fn again(&mut self, page: impl Hash) -> bool {
        !self.seen.insert(self.hasher.hash_one(page))
    }
}
