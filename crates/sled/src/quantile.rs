//! Quantiles that forget: they follow load.

/// Samples kept. With [`DECAY`] the oldest weighs 7 % of the newest.
pub(crate) const SAMPLES_MAX: usize = 32;
/// Weight of a sample relative to the one after it: half is forgotten after eight.
const DECAY: f64 = 0.917;

/// The last samples of a quantity, the newest last.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DecayingSamples {
    samples: Vec<f64>,
    /// Of these samples: it is asked for far more often than learned, once for each sled.
    quantiles: Option<Quantiles>,
}

/// The smallest samples that a tenth, half and nine tenths of the weight do not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantiles {
    pub(crate) p10: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
}

impl DecayingSamples {
    pub(crate) fn from_samples(mut samples: Vec<f64>) -> Self {
        samples.drain(..samples.len().saturating_sub(SAMPLES_MAX));
        let quantiles = quantiles(&samples);
        Self { samples, quantiles }
    }

    pub(crate) fn samples(&self) -> &[f64] {
        &self.samples
    }

    pub(crate) fn push(&mut self, sample: f64) {
        let mut samples = std::mem::take(&mut self.samples);
        samples.push(sample);
        *self = Self::from_samples(samples);
    }

    /// Adds newer samples.
    pub(crate) fn extend(&mut self, newer: Self) {
        newer.samples.into_iter().for_each(|sample| self.push(sample));
    }

    /// `None` if there is no sample.
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        self.quantiles
    }
}

fn quantiles(samples: &[f64]) -> Option<Quantiles> {
    let mut space = [(0.0, 0.0); SAMPLES_MAX];
    let weighted = &mut space[..samples.len()];
    let (mut weight, mut total) = (1.0, 0.0);
    for (place, &sample) in weighted.iter_mut().zip(samples.iter().rev()) {
        *place = (sample, weight);
        total += weight;
        weight *= DECAY;
    }
    weighted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let at = |share: f64| {
        let mut below = 0.0;
        let reached = weighted.iter().find(|(_, weight)| {
            below += weight;
            below >= share * total
        });
        reached.or(weighted.last()).map(|&(sample, _)| sample)
    };
    Some(Quantiles { p10: at(0.1)?, p50: at(0.5)?, p90: at(0.9)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: impl IntoIterator<Item = f64>) -> Quantiles {
        let samples = DecayingSamples::from_samples(samples.into_iter().collect());
        samples.quantiles().expect("samples")
    }

    #[test]
    fn quantiles_of_equal_samples_are_the_sample() {
        assert_eq!(of([3.0; 5]), Quantiles { p10: 3.0, p50: 3.0, p90: 3.0 });
    }

    #[test]
    fn quantiles_are_in_order_and_those_of_what_is_kept() {
        let all = of((0..100).map(f64::from));
        assert_eq!(all, of((68..100).map(f64::from)));
        assert!(all.p10 < all.p50 && all.p50 < all.p90 && all.p90 < 99.0, "{all:?}");
    }

    #[test]
    fn a_change_of_load_is_followed_within_a_dozen_samples() {
        let mut samples = DecayingSamples::default();
        (0..100).for_each(|_| samples.push(1.0));
        (0..12).for_each(|_| samples.push(9.0));
        assert_eq!(samples.quantiles().map(|found| found.p50), Some(9.0));
        assert_eq!(samples.samples().len(), SAMPLES_MAX);
    }

    #[test]
    fn one_outlier_moves_neither_median_nor_p90_of_many() {
        let mut samples = DecayingSamples::from_samples((0..32).map(f64::from).collect());
        let before = samples.quantiles().expect("samples");
        samples.push(1e9);
        let after = samples.quantiles().expect("samples");
        assert!((before.p50 - after.p50).abs() <= 2.0);
        assert!(after.p90 < 1e9);
    }

    #[test]
    fn nothing_seen_is_nothing_known() {
        assert_eq!(DecayingSamples::default().quantiles(), None);
    }
}
