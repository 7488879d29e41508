//! How many requests a device may have in flight.

use std::time::Duration;

/// The window of one device.
#[derive(Debug)]
pub(super) struct Window {
    size: u32,
    max: u32,
    in_flight: u32,
    bytes: u64,
    requests: u64,
}

impl Window {
    pub(super) fn new(start: u32, max: u32) -> Self {
        let max = max.max(1);
        Self { size: start.clamp(1, max), max, in_flight: 0, bytes: 0, requests: 0 }
    }

    pub(super) fn set_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.size = self.size.min(self.max);
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.size
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn began(&mut self, _now: Duration) {
        self.in_flight += 1;
    }

    pub(super) fn ended(&mut self, _now: Duration) {
        self.in_flight -= 1;
    }

    pub(super) fn brought(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(super) fn completed(&mut self, _now: Duration, _median: Option<Duration>) {
        self.requests += 1;
    }

    pub(super) fn goodput(&self) -> f64 {
        self.bytes as f64
    }

    pub(super) fn brake(&mut self, _now: Duration) {
        self.size = (self.size / 2).max(1);
    }
}
