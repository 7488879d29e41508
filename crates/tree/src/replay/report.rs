//! What a predictor was good for.

use std::sync::Arc;
use std::time::Duration;

/// The sums of one simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Files read, programs included.
    pub references: u64,
    /// Of these, not near when they were opened; those predicted too late included.
    pub misses: u64,
    /// Of the misses, those of files that were predicted, but not yet near.
    pub late: u64,
    /// Of the misses, those of files that nobody had read or written before.
    pub new: u64,
    /// Bytes of the misses' files.
    pub missed_bytes: u64,
    /// Files predicted, near or far; one that is predicted again before it was read counts once.
    pub predicted: u64,
    /// Of the predicted, those read before they were withdrawn or thrown out of the cache.
    pub right: u64,
    /// Predicted files that were far and were brought near.
    pub fetched: u64,
    /// Of the fetched, those read before they were thrown out of the cache.
    pub used: u64,
    /// Bytes fetched.
    pub fetched_bytes: u64,
    /// Bytes fetched for files that were not read before they were thrown out.
    pub wasted_bytes: u64,
    /// Predicted files that were withdrawn before they were fetched.
    pub withdrawn: u64,
    /// How long processes waited for files, summed over all of them.
    pub waited: Duration,
    /// When the last event happened.
    pub elapsed: Duration,
}

impl Report {
    /// The share of the predicted files, near ones included, that were read; `None` of none.
    pub fn accuracy(&self) -> Option<f64> {
        (self.predicted > 0).then(|| self.right as f64 / self.predicted as f64)
    }
}

/// What became of one file, and of what was predicted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileReport {
    /// Its path.
    pub path: Arc<[u8]>,
    /// How often it was read.
    pub references: u64,
    /// How often it was not near then, too late predictions included.
    pub misses: u64,
    /// How often it was predicted, but not yet near.
    pub late: u64,
    /// How often it was brought near by a prediction.
    pub fetched: u64,
    /// How often that was for a read.
    pub used: u64,
}
