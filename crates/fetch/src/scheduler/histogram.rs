//! Times of a device as a decaying histogram: p95 needs more samples than the
//! device table keeps, and one for every request must cost nothing.

use std::time::Duration;

/// Buckets in a doubling: a bucket's bounds are 9 % apart.
const STEPS: f64 = 8.0;
/// From one microsecond, 30 doublings: to 18 minutes.
const BUCKETS: u8 = 240;
/// How much more a sample weighs than the one before it: half is forgotten after 173.
const GROWTH: f64 = 1.004;
/// Samples after which quantiles are computed anew.
const STALE: u64 = 8;
/// Fewer samples tell nothing of one in twenty.
const SAMPLES_MIN: u64 = 20;

/// Times of a device, the later the weightier.
#[derive(Debug)]
pub(super) struct Histogram {
    /// By bucket, in order, of those that have some: a list may name a million servers, of which each
    /// answers once.
    weights: Vec<(u8, f64)>,
    total: f64,
    weight: f64,
    samples: u64,
    prior: Option<(Duration, Duration)>,
    median: Duration,
    p95: Duration,
}

impl Histogram {
    /// Nothing observed; `prior` is what the device table says of the median and of the bad case.
    pub(super) fn new(prior: Option<(Duration, Duration)>) -> Self {
        Self {
            weights: Vec::new(),
            total: 0.0,
            weight: 1.0,
            samples: 0,
            prior,
            median: Duration::ZERO,
            p95: Duration::ZERO,
        }
    }

    /// Adds a time that counts as so many.
    pub(super) fn push(&mut self, time: Duration, count: f64) {
        /// Before weights lose precision.
        const WEIGHT_MAX: f64 = 1e12;
        let bucket = bucket(time);
        let weight = self.weight * count;
        match self.weights.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.weights[at].1 += weight,
            Err(at) => self.weights.insert(at, (bucket, weight)),
        }
        self.total += weight;
        self.weight *= GROWTH;
        self.samples += 1;
        if self.weight > WEIGHT_MAX {
            self.weights.iter_mut().for_each(|(_, weight)| *weight /= self.weight);
            self.total /= self.weight;
            self.weight = 1.0;
        }
        if self.samples < STALE || self.samples.is_multiple_of(STALE) {
            self.median = self.quantile(0.5);
            self.p95 = self.quantile(0.95);
        }
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// The median, or what was known of it before.
    pub(super) fn median(&self) -> Option<Duration> {
        if self.samples > 0 { Some(self.median) } else { Some(self.prior?.0) }
    }

    pub(super) fn p95(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.p95)
    }

    /// What few exceed: one in twenty; while that cannot be told, the bad case that was known
    /// before.
    pub(super) fn late(&self) -> Option<Duration> {
        if self.samples < SAMPLES_MIN { Some(self.prior?.1) } else { Some(self.p95) }
    }

    /// The upper bound of the bucket that this share of the weight does not exceed.
    fn quantile(&self, share: f64) -> Duration {
        let mut below = 0.0;
        let found = self.weights.iter().find(|(_, weight)| {
            below += weight;
            below >= share * self.total
        });
        upper_bound(found.map_or(BUCKETS - 1, |(bucket, _)| *bucket))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the buckets"
)]
fn bucket(time: Duration) -> u8 {
    let micros = time.as_secs_f64() * 1e6;
    (micros.max(1.0).log2() * STEPS).clamp(0.0, f64::from(BUCKETS - 1)) as u8
}

fn upper_bound(bucket: u8) -> Duration {
    Duration::from_secs_f64((f64::from(bucket + 1) / STEPS).exp2() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(millis: impl IntoIterator<Item = u64>) -> Histogram {
        let mut latency = Histogram::new(None);
        millis.into_iter().for_each(|time| latency.push(Duration::from_millis(time), 1.0));
        latency
    }

    fn is_about(time: Option<Duration>, millis: u64) -> bool {
        let ratio = time.expect("samples").as_secs_f64() * 1e3 / millis as f64;
        (0.9..1.2).contains(&ratio)
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let latency = observed((0..400).map(|n| if n % 50 == 49 { 2000 } else { 50 }));
        assert!(is_about(latency.median(), 50));
        assert!(is_about(latency.p95(), 50));
        let latency = observed((0..400).map(|n| if n % 10 == 9 { 2000 } else { 50 }));
        assert!(is_about(latency.p95(), 2000));
    }

    #[test]
    fn what_counts_for_much_outweighs_many() {
        let mut pace = observed((0..1000).map(|_| 1));
        (0..STALE).for_each(|_| pace.push(Duration::from_millis(80), 1e6));
        assert!(is_about(pace.median(), 80));
    }

    #[test]
    fn a_device_that_answered_a_few_times_takes_little_memory() {
        assert_eq!(observed([80, 10, 10, 80]).weights.len(), 2);
    }

    #[test]
    fn a_change_of_load_is_followed() {
        let latency = observed((0..1000).map(|_| 10).chain((0..200).map(|_| 80)));
        assert!(is_about(latency.median(), 80));
    }

    #[test]
    fn many_samples_keep_their_precision() {
        let latency = observed((0..50_000).map(|n| 1 + n % 100));
        assert!(is_about(latency.median(), 50));
    }

    #[test]
    fn nothing_seen_is_what_the_table_says() {
        let (median, bad) = (Duration::from_millis(5), Duration::from_millis(50));
        let mut latency = Histogram::new(Some((median, bad)));
        assert_eq!((latency.median(), latency.p95()), (Some(median), None));
        (0..19).for_each(|_| latency.push(Duration::from_millis(10), 1.0));
        assert!(is_about(latency.median(), 10) && latency.late() == Some(bad));
        latency.push(Duration::from_millis(10), 1.0);
        assert!(is_about(latency.late(), 10));
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }
}
