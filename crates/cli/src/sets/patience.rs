//! Patience of a command that reads by itself: as much as the scheduler has.

use std::time::Duration;

use nearfirst::Error;
use nearfirst::fetch::scheduler::{BACKOFF_MAX, PATIENCE};

/// When a command gives an object up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Attempts, the first included.
    pub(crate) attempts: u32,
    /// The pause before the second attempt; it doubles with each.
    pub(crate) backoff: Duration,
}

/// Attempts that came to nothing, refusals of a busy server among them.
#[derive(Debug, Default)]
pub(super) struct Tries {
    failures: u32,
}

impl Tries {
    /// Counts an attempt that ended so, and says how long to wait before the next; `None` if there is
    /// to be none.
    pub(super) fn pause_after(&mut self, error: &Error, patience: Patience) -> Option<Duration> {
        let asked_for = match error {
            Error::Busy { retry_after, .. } => retry_after.unwrap_or_default().min(PATIENCE),
            error if error.is_transient() => Duration::ZERO,
            _ => return None,
        };
        self.failures += 1;
        if self.failures >= patience.attempts {
            return None;
        }
        let doubled = 2_u32.saturating_pow(self.failures - 1);
        Some(patience.backoff.saturating_mul(doubled).min(BACKOFF_MAX).max(asked_for))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(error: &Error, attempts: u32) -> Vec<Duration> {
        let mut tries = Tries::default();
        let backoff = Duration::from_millis(100);
        let patience = Patience { attempts, backoff };
        std::iter::from_fn(|| tries.pause_after(error, patience)).collect()
    }

    fn busy(retry_after: Option<Duration>) -> Error {
        Error::Busy { name: "s3://b/a".into(), retry_after, reason: String::new() }
    }

    #[test]
    fn a_busy_server_is_asked_when_it_wants_to_be() {
        let second = Duration::from_secs(1);
        assert_eq!(pauses(&busy(Some(second)), 5), [second; 4]);
        let days = busy(Some(Duration::from_hours(50)));
        assert_eq!(pauses(&days, 5), [Duration::from_mins(1); 4]);
    }

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let broken = Error::interrupted("s3://b/a", "broken");
        assert_eq!(pauses(&broken, 5), [100, 200, 400, 800].map(Duration::from_millis));
        assert_eq!(pauses(&broken, 40).last(), Some(&Duration::from_secs(30)));
    }

    #[test]
    fn what_does_not_pass_is_not_tried_again() {
        assert_eq!(pauses(&Error::NotFound { name: "s3://b/a".into() }, 5), []);
    }
}
