//! An estimate, with its spread: a disk is not a number.

use crate::samples::BANDWIDTH_MAX;

/// A quantity by its median and by the value that nine in ten do not exceed in badness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub p50: f64,
    /// The bad case: of latencies the 90th percentile, of bandwidths the 10th.
    pub p90: f64,
}

impl Spread {
    /// A quantity known exactly.
    pub fn exact(value: f64) -> Self {
        Self { p50: value, p90: value }
    }
}

/// What a device takes to deliver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Seconds to the first byte.
    pub latency: Spread,
    /// Bytes per second once flowing.
    pub bandwidth: Spread,
}

impl Estimate {
    /// A device known exactly; what the papers' tables give.
    pub fn exact(latency_s: f64, bandwidth: f64) -> Self {
        Self { latency: Spread::exact(latency_s), bandwidth: Spread::exact(bandwidth) }
    }

    /// The bandwidth; `None` where so little was read that the latency is all that is known, and the
    /// estimate takes what follows the first byte for free.
    pub fn known_bandwidth(&self) -> Option<Spread> {
        Some(self.bandwidth).filter(|bandwidth| bandwidth.p50 < BANDWIDTH_MAX)
    }
}
