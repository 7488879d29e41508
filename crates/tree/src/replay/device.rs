//! The model of a device: how long files take to come near, and what waits for what.

use std::time::Duration;

/// One latency, one bandwidth, and how many requests have their latency at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// From a request to its first byte.
    pub latency: Duration,
    /// Bytes a second, shared by all requests.
    pub bandwidth: f64,
    /// Requests under way at once; at least 1.
    pub width: usize,
}

impl Device {
    /// Takes no time: what is predicted is near when it is asked for, as in the simulation of
    /// Lei & Duchamp, whose traces were played without times.
    pub const INSTANT: Self = Self { latency: Duration::ZERO, bandwidth: f64::INFINITY, width: 1 };

    /// A disk with an arm, which is at one place at a time: guesses and demands share its time, and
    /// prefetching gains no more than what programs compute meanwhile.
    pub const DISK: Self = Self { latency: Duration::from_millis(10), bandwidth: 100e6, width: 1 };

    /// A file server or a network's disk as far away as that disk, which answers many at once.
    pub const SERVER: Self =
        Self { latency: Duration::from_millis(10), bandwidth: 100e6, width: 32 };

    fn transfer(&self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.bandwidth).unwrap_or(Duration::MAX / 4)
    }
}

/// What a device is busy with. Demands go before guesses that have not begun, but wait for what
/// has.
#[derive(Debug)]
pub(super) struct Queue {
    device: Device,
    /// When each of the requests at once is through.
    slots: Vec<Duration>,
    /// When the last byte asked for is here.
    link: Duration,
}

impl Queue {
    pub(super) fn new(device: Device) -> Self {
        Self { device, slots: vec![Duration::ZERO; device.width.max(1)], link: Duration::ZERO }
    }

    /// When a request made at `at` could begin.
    pub(super) fn begin(&self, at: Duration) -> Duration {
        at.max(*self.slots.iter().min().expect("a device has at least one slot"))
    }

    /// Makes a request; returns when it is through.
    pub(super) fn start(&mut self, at: Duration, bytes: u64) -> Duration {
        let begin = self.begin(at);
        let ready = (begin + self.device.latency).max(self.link) + self.device.transfer(bytes);
        self.link = ready;
        *self.slots.iter_mut().min().expect("a device has at least one slot") = ready;
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_overlap_as_far_as_the_device_is_wide_and_transfers_never_do() {
        let ms = Duration::from_millis;
        let device = Device { latency: ms(10), bandwidth: 1e6, width: 2 };
        let mut queue = Queue::new(device);
        // Each transfer takes 1 ms.
        assert_eq!(queue.start(ms(0), 1000), ms(11));
        assert_eq!(queue.start(ms(0), 1000), ms(12));
        assert_eq!(queue.begin(ms(0)), ms(11));
        assert_eq!(queue.start(ms(0), 1000), ms(22));
        let mut narrow = Queue::new(Device { width: 1, ..device });
        assert_eq!(narrow.start(ms(0), 1000), ms(11));
        assert_eq!(narrow.start(ms(0), 1000), ms(22));
        assert_eq!(narrow.start(ms(50), 1000), ms(61));
    }
}
