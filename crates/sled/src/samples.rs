//! What reads of one device took, and what that makes of the next.

use crate::quantile::DecayingSamples;
use crate::{Estimate, Spread};

/// No device is taken to be faster than so many bytes per second, so that a time of zero means zero bytes.
/// It is the estimate where only so little was read that the latency is all: see
/// [`Estimate::known_bandwidth`].
pub(crate) const BANDWIDTH_MAX: f64 = 1e12;
/// Of a smaller read what follows the first byte is so little that the time which it takes is that of
/// those who pass it on, and says nothing of the bandwidth.
const FLOW_BYTES_MIN: u64 = 16 << 10;

/// So many reads of a calibration stand alone.
pub(crate) const ALONE_MIN: usize = 8;

/// One read and what it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Bytes read.
    pub bytes: u64,
    /// Seconds to the first byte; `None` where the read continued the one
    /// before it and so paid no latency of its own.
    pub first_byte: Option<f64>,
    /// Seconds in all.
    pub whole: f64,
}

impl Observation {
    /// Whether it teaches anything: what is not finite or not positive does not.
    pub(crate) fn teaches(&self) -> bool {
        self.bytes > 0 && is_positive(self.whole) && self.first_byte.is_none_or(is_positive)
    }

    /// The bandwidth that it teaches, if it does.
    pub(crate) fn bandwidth(&self) -> Option<(SizeClass, f64)> {
        let flowing = self.whole - self.first_byte.unwrap_or(0.0);
        let flows = self.first_byte.is_none() || self.bytes >= FLOW_BYTES_MIN;
        let bandwidth = (self.bytes as f64 / flowing).min(BANDWIDTH_MAX);
        (flows && flowing > 0.0).then_some((SizeClass::of(self.bytes), bandwidth))
    }
}

/// How much is read at once: bandwidth is kept apart for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SizeClass {
    /// Up to 128 KiB: one request of most file systems.
    Small,
    /// Up to 4 MiB: within a readahead window.
    Medium,
    /// More.
    Large,
}

impl SizeClass {
    /// The class of a read of so many bytes.
    pub fn of(bytes: u64) -> Self {
        match bytes {
            0..=0x2_0000 => Self::Small,
            0x2_0001..=0x40_0000 => Self::Medium,
            _ => Self::Large,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Samples {
    pub(crate) latency_s: DecayingSamples,
    pub(crate) bandwidth: [DecayingSamples; 3],
    /// Of what is in memory of its files.
    pub(crate) near_bandwidth: DecayingSamples,
}

impl Samples {
    /// Learns from a read that teaches something.
    pub(crate) fn observe(&mut self, seen: Observation) {
        if let Some(first_byte) = seen.first_byte {
            self.latency_s.push(first_byte.min(seen.whole));
        }
        if let Some((class, bandwidth)) = seen.bandwidth() {
            self.bandwidth[class as usize].push(bandwidth);
        }
    }

    /// Learns from a read of what was in memory.
    pub(crate) fn observe_near(&mut self, bytes: u64, seconds: f64) {
        self.near_bandwidth.push((bytes as f64 / seconds).min(BANDWIDTH_MAX));
    }

    /// Whether nothing is known but what memory takes.
    pub(crate) fn is_empty(&self) -> bool {
        let all = std::iter::once(&self.latency_s).chain(&self.bandwidth);
        all.into_iter().all(|samples| samples.samples().is_empty())
    }

    /// Sets what a device takes; what is in memory of its files takes what it did.
    pub(crate) fn set(&mut self, latency_s: f64, bandwidth: f64) {
        self.latency_s = DecayingSamples::from_samples(vec![latency_s]);
        let bandwidth = DecayingSamples::from_samples(vec![bandwidth.min(BANDWIDTH_MAX)]);
        self.bandwidth = std::array::from_fn(|_| bandwidth.clone());
    }

    /// Takes what a calibration found in the place of what was known; but where that rests on more
    /// reads and the calibration on fewer than eight, after which half of what was before would be
    /// forgotten anyhow, its reads are added to those. Whether it stands alone.
    pub(crate) fn renew(&mut self, found: Self) -> bool {
        let reads = |samples: &Self| samples.latency_s.samples().len();
        let stands_alone = reads(&found) >= reads(self).min(ALONE_MIN);
        if stands_alone {
            *self = found;
        } else {
            self.extend(found);
        }
        stands_alone
    }

    /// Adds newer samples.
    pub(crate) fn extend(&mut self, newer: Self) {
        self.latency_s.extend(newer.latency_s);
        self.near_bandwidth.extend(newer.near_bandwidth);
        for (known, newer) in self.bandwidth.iter_mut().zip(newer.bandwidth) {
            known.extend(newer);
        }
    }

    /// What reading `bytes` takes. Of so little that the latency is all of it, the latency tells alone.
    pub(crate) fn estimate(&self, bytes: u64) -> Option<Estimate> {
        let of_little = || self.estimate_of_little().filter(|_| bytes < FLOW_BYTES_MIN);
        self.estimate_of_class(SizeClass::of(bytes)).or_else(of_little)
    }

    fn estimate_of_class(&self, class: SizeClass) -> Option<Estimate> {
        let larger = self.bandwidth[class as usize..].iter();
        let smaller = self.bandwidth[..class as usize].iter().rev();
        let bandwidth = larger.chain(smaller).find_map(DecayingSamples::quantiles)?;
        let bandwidth = Spread { p50: bandwidth.p50, p90: bandwidth.p10 };
        Some(Estimate { bandwidth, ..self.estimate_of_little()? })
    }

    /// What so little takes that the latency is all of it.
    fn estimate_of_little(&self) -> Option<Estimate> {
        let latency = self.latency_s.quantiles()?;
        Some(Estimate {
            latency: Spread { p50: latency.p50, p90: latency.p90 },
            bandwidth: Spread { p50: BANDWIDTH_MAX, p90: BANDWIDTH_MAX },
        })
    }
}

/// Whether seconds or bytes a second are what a device can take: sums of what it cannot are no numbers.
pub(crate) fn is_positive(value: f64) -> bool {
    (1e-15..=1e18).contains(&value)
}
