//! Patience of a command that reads by itself: as much as the scheduler has.

use std::time::Duration;

use nearfirst::Error;
use nearfirst::fetch::scheduler::{BACKOFF_MAX, PATIENCE, REFUSALS_MAX};

/// When a command gives an object up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long no byte may come.
    pub(crate) stall: Duration,
    /// Attempts, the first included.
    pub(crate) attempts: u32,
    /// The pause before the second attempt; it doubles with each.
    pub(crate) backoff: Duration,
}

/// Attempts that came to nothing; by default each refusal of a busy server counts.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    failures: u32,
    /// Those that a server turned away because it was busy, up to `refusals_max`.
    refusals: u32,
    refusals_max: u32,
}

impl Tries {
    /// At what cannot be done without: a server may turn it away as often as the scheduler lets it.
    pub(crate) fn at_data() -> Self {
        Self { refusals_max: REFUSALS_MAX, ..Self::default() }
    }

    /// Counts an attempt that ended so, and says how long to wait before the next; `None` if there is
    /// to be none.
    pub(crate) fn pause_after(&mut self, error: &Error, patience: Patience) -> Option<Duration> {
        let mut asked_for = Duration::ZERO;
        let mut is_refusal = false;
        match error {
            Error::Busy { retry_after, .. } => {
                asked_for = retry_after.unwrap_or_default().min(PATIENCE);
                is_refusal = self.refusals < self.refusals_max;
            }
            error if error.is_transient() => {}
            _ => return None,
        }
        let count = if is_refusal { &mut self.refusals } else { &mut self.failures };
        *count += 1;
        if self.failures >= patience.attempts {
            return None;
        }
        let doubled = 2_u32.saturating_pow(self.failures.max(self.refusals) - 1);
        Some(patience.backoff.saturating_mul(doubled).min(BACKOFF_MAX).max(asked_for))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(mut tries: Tries, error: &Error, attempts: u32) -> Vec<Duration> {
        let backoff = Duration::from_millis(100);
        let patience = Patience { stall: Duration::from_secs(20), attempts, backoff };
        std::iter::from_fn(|| tries.pause_after(error, patience)).collect()
    }

    fn busy(retry_after: Option<Duration>) -> Error {
        Error::Busy { name: "s3://b/a".into(), retry_after, reason: String::new() }
    }

    #[test]
    fn a_busy_server_is_asked_sixteen_times_more_and_when_it_wants_to_be() {
        let second = Duration::from_secs(1);
        let pauses_of_second = pauses(Tries::at_data(), &busy(Some(second)), 5);
        assert_eq!(pauses_of_second.len(), 16 + 4);
        assert!(pauses_of_second.iter().all(|&pause| pause >= second));
        let days = busy(Some(Duration::from_hours(50)));
        assert_eq!(pauses(Tries::at_data(), &days, 1), [Duration::from_mins(1); 16]);
        assert_eq!(pauses(Tries::default(), &days, 5), [Duration::from_mins(1); 4]);
    }

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let broken = Error::interrupted("s3://b/a", "broken");
        assert_eq!(
            pauses(Tries::at_data(), &broken, 5),
            [100, 200, 400, 800].map(Duration::from_millis)
        );
        assert_eq!(pauses(Tries::at_data(), &broken, 40).last(), Some(&Duration::from_secs(30)));
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        assert_eq!(pauses(Tries::at_data(), &Error::NotFound { name: "s3://b/a".into() }, 5), []);
    }
}
