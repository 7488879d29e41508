//! The one file that reads the real clock.

#![expect(clippy::disallowed_methods, reason = "this is where the real clock is read")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{Timespec, poll};

/// Tells the time: the real one, or one that a test moves.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    Real { start: Instant },
    Manual(Arc<AtomicU64>),
}

impl Default for Clock {
    fn default() -> Self {
        Self::real()
    }
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Self {
        Self(Source::Real { start: Instant::now() })
    }

    /// A clock that stands still until [`Clock::advance`] is called on it or a clone.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::default()))
    }

    /// Time since this clock was made; never goes back.
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::Real { start } => start.elapsed(),
            Source::Manual(nanoseconds) => {
                Duration::from_nanos(nanoseconds.load(Ordering::Acquire))
            }
        }
    }

    /// Time since 1970; of a manual clock, since it was made.
    pub fn unix(&self) -> Duration {
        match &self.0 {
            Source::Real { .. } => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            Source::Manual(_) => self.now(),
        }
    }

    /// Whole seconds of [`Clock::unix`].
    pub fn unix_s(&self) -> u64 {
        self.unix().as_secs()
    }

    /// Moves a manual clock on; the real one moves by itself.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(nanoseconds) = &self.0 {
            let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
            nanoseconds.fetch_add(by, Ordering::AcqRel);
        }
    }
}

/// Lets some time of the machine's pass, or less where a signal comes: for what nothing tells of but asking
/// again.
pub fn pause(time: Duration) {
    if let Ok(time) = Timespec::try_from(time) {
        let _ = poll(&mut [], Some(&time));
    }
}

/// Whole seconds since 1970, less than 0 before, and nanoseconds from these on, as the system counts.
pub fn unix_parts(at: SystemTime) -> (i64, u32) {
    let whole = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => (whole(since.as_secs()), since.subsec_nanos()),
        Err(before) => match before.duration() {
            before if before.subsec_nanos() == 0 => (-whole(before.as_secs()), 0),
            before => (-whole(before.as_secs()) - 1, 1_000_000_000 - before.subsec_nanos()),
        },
    }
}

/// Seconds since 1970; less than 0 before.
pub fn unix_s(at: SystemTime) -> f64 {
    match at.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told_and_its_clones_with_it() {
        let clock = Clock::manual();
        let other = clock.clone();
        assert_eq!(other.now(), Duration::ZERO);
        clock.advance(Duration::from_millis(1500));
        assert_eq!(other.now(), Duration::from_millis(1500));
        assert_eq!(other.unix_s(), 1);
    }

    #[test]
    fn what_was_before_1970_has_less_than_no_seconds() {
        let second = Duration::from_secs(1);
        assert!((unix_s(UNIX_EPOCH - second) + 1.0).abs() < 1e-9);
        assert_eq!(unix_parts(UNIX_EPOCH - second), (-1, 0));
        assert_eq!(unix_parts(UNIX_EPOCH - second / 4), (-1, 750_000_000));
        assert_eq!(unix_parts(UNIX_EPOCH + second / 4), (0, 250_000_000));
        assert!((unix_s(UNIX_EPOCH + second) - 1.0).abs() < 1e-9);
    }
}
