//! How long to wait before bytes are sent, so that a bandwidth is kept. Pure: it is told the time.

use std::time::Duration;

/// A sender that comes so late was not kept by a timer: nothing was there to send.
const LATENESS_MAX: Duration = Duration::from_millis(20);

/// A line that carries one piece after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// When the last piece is through.
    free: Duration,
}

impl Pace {
    /// Takes the line for so many bytes; returns how long from `now` until they are through.
    ///
    /// Who comes a little late gains the time back, so that the errors of many short waits do not
    /// add up; who comes much later finds the line free and gains nothing.
    pub(super) fn take(&mut self, bytes: usize, bytes_per_second: u64, now: Duration) -> Duration {
        if now > self.free + LATENESS_MAX {
            self.free = now;
        }
        self.free += Duration::from_secs_f64(bytes as f64 / bytes_per_second.max(1) as f64);
        self.free.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn pieces_queue_and_lateness_is_made_up_for() {
        let mut pace = Pace::default();
        let start = ms(10_000);
        assert_eq!(pace.take(1000, 100_000, start), ms(10));
        // Another sender at the same time waits for both.
        assert_eq!(pace.take(1000, 100_000, start), ms(20));
        // Its timer was 3 ms late.
        assert_eq!(pace.take(1000, 100_000, start + ms(23)), ms(7));
        // Nothing was sent for long.
        assert_eq!(pace.take(1000, 100_000, start + ms(500)), ms(10));
    }
}
