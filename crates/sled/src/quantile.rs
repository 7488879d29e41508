//! A quantile estimate that forgets: it follows load.

/// Samples kept. With [`DECAY`] the oldest weighs 7 % of the newest.
const SAMPLES_MAX: usize = 32;
/// Weight of a sample relative to the one after it: half is forgotten after eight.
const DECAY: f64 = 0.917;

/// The last samples of a quantity, the newest last.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DecayingSamples(Vec<f64>);

impl DecayingSamples {
    pub(crate) fn from_samples(samples: Vec<f64>) -> Self {
        let mut kept = Self(samples);
        kept.forget();
        kept
    }

    pub(crate) fn samples(&self) -> &[f64] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, sample: f64) {
        self.0.push(sample);
        self.forget();
    }

    fn forget(&mut self) {
        let excess = self.0.len().saturating_sub(SAMPLES_MAX);
        self.0.drain(..excess);
    }

    /// The smallest sample that `share` (0..=1) of the weight does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let mut weighted: Vec<(f64, f64)> = Vec::with_capacity(self.0.len());
        let mut weight = 1.0;
        for &sample in self.0.iter().rev() {
            weighted.push((sample, weight));
            weight *= DECAY;
        }
        weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        let mut below = 0.0;
        for &(sample, weight) in &weighted {
            below += weight;
            if below >= share * total {
                return Some(sample);
            }
        }
        weighted.last().map(|&(sample, _)| sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_equal_samples_are_the_sample() {
        let samples = DecayingSamples::from_samples(vec![3.0; 5]);
        assert_eq!(samples.quantile(0.5), Some(3.0));
        assert_eq!(samples.quantile(0.9), Some(3.0));
    }

    #[test]
    fn a_change_of_load_is_followed_within_a_dozen_samples() {
        let mut samples = DecayingSamples::default();
        (0..100).for_each(|_| samples.push(1.0));
        (0..12).for_each(|_| samples.push(9.0));
        assert_eq!(samples.quantile(0.5), Some(9.0));
        assert_eq!(samples.samples().len(), SAMPLES_MAX);
    }

    #[test]
    fn one_outlier_moves_neither_median_nor_p90_of_many() {
        let mut samples = DecayingSamples::from_samples((0..32).map(f64::from).collect());
        let before = samples.quantile(0.5);
        samples.push(1e9);
        let after = samples.quantile(0.5);
        assert!((before.expect("samples") - after.expect("samples")).abs() <= 2.0);
        assert!(samples.quantile(0.9).expect("samples") < 1e9);
    }

    #[test]
    fn nothing_seen_is_nothing_known() {
        assert_eq!(DecayingSamples::default().quantile(0.5), None);
    }
}
