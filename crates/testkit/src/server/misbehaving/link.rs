//! How far away a server seems: latency, its exceptions, bandwidth.

use std::time::Duration;

/// Delays that a [`super::Misbehaving`] server or proxy adds to every answer; the default is none.
///
/// Waiting is never shorter than asked and longer by what the machine is busy; bandwidths are upper
/// bounds. The choice of slow requests is a function of `seed` and the number of the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Link {
    /// Before the first request of a connection is looked at, as a handshake takes.
    pub connect: Duration,
    /// From the end of a request to the first byte of its answer, the server's own time included.
    pub first_byte: Duration,
    /// One in so many requests is slow, in the mean; none if 0.
    pub slow_one_in: u64,
    /// The time to the first byte of slow ones, instead of `first_byte`.
    pub slow_first_byte: Duration,
    /// Which ones are slow.
    pub seed: u64,
    /// Of each connection, if limited.
    pub connection_bytes_per_second: Option<u64>,
    /// Of all connections together, if limited.
    pub bytes_per_second: Option<u64>,
}

impl Link {
    /// A link with this time to the first byte and nothing else.
    pub fn with_first_byte(first_byte: Duration) -> Self {
        Self { first_byte, ..Self::default() }
    }

    /// The time to the first byte of the request with this number.
    pub fn first_byte_of(&self, request: u64) -> Duration {
        let mut state = self.seed ^ request.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let slow =
            self.slow_one_in > 0 && crate::dir::next(&mut state).is_multiple_of(self.slow_one_in);
        if slow { self.slow_first_byte } else { self.first_byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_slow_as_asked_and_the_same_for_the_same_seed() {
        let slow = Duration::from_secs(1);
        let link = Link { slow_one_in: 50, slow_first_byte: slow, seed: 7, ..Link::default() };
        let chosen = |link: Link| {
            (1..=10_000).filter(|&n| link.first_byte_of(n) == slow).collect::<Vec<u64>>()
        };
        assert!((150..250).contains(&chosen(link).len()), "{}", chosen(link).len());
        assert_eq!(chosen(link), chosen(link));
        assert_ne!(chosen(link), chosen(Link { seed: 8, ..link }));
        assert!(chosen(Link { slow_one_in: 0, ..link }).is_empty());
    }
}
