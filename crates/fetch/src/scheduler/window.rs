//! How many requests a device may have in flight: as many as raise its goodput.
//!
//! Goodput is bytes a second, each finished request counted as some bytes
//! more, over epochs in which the window was full. While a doubled window
//! brings noticeably more it is doubled again; then it is tried a step larger
//! now and then, and the step kept if it pays, and in turn a step smaller,
//! kept if nothing is lost. Latency is no signal: it grows with the size of
//! what is read and with a fair share of a full link. Being turned away too often halves
//! the window, at most once an epoch, and once for all that was in flight by then.

use std::time::Duration;

use super::refusals::Refusals;

/// What a finished request counts besides its bytes: for small objects
/// requests are the work. At 64 KiB it is half of it.
const REQUEST_BYTES: u64 = 64 << 10;
/// A doubled window must bring a quarter more, where all would be twice as much.
const DOUBLING_GAIN: f64 = 1.25;
/// A larger step must bring this much more; less is noise.
const STEP_GAIN: f64 = 1.05;
/// A smaller step must bring this much of the most before it; less is a loss.
const STEP_LOSS: f64 = 0.98;
/// Epochs that a window is kept before another one is tried, and at most.
const HOLD: u32 = 8;
const HOLD_MAX: u32 = 64;
/// An epoch is as long as its latencies are, within these.
const EPOCH_MIN: Duration = Duration::from_millis(10);
const EPOCH_MAX: Duration = Duration::from_secs(2);
/// Epochs before what is said to be enough is doubled for the first time.
const START: u32 = 4;
/// Of the window in an epoch, what must have been in flight for it to tell anything.
const FULL: f64 = 0.75;

/// The window of one device.
#[derive(Debug)]
pub(super) struct Window {
    size: u32,
    max: u32,
    in_flight: u32,
    phase: Phase,
    epoch: Epoch,
    /// Of the last full epoch.
    goodput: f64,
    /// Epochs to hold after the next step that does not pay.
    hold: u32,
    /// Whether a smaller one is tried next.
    less_next: bool,
    refusals: Refusals,
    braked: bool,
    /// When it was last halved: what was begun before that was begun in the larger one.
    braked_at: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// It is held until so many epochs, one at least, are over, then doubled.
    Starting { left: u32 },
    /// It was doubled from `from`, with that goodput; epochs that brought no more.
    Doubling { from: u32, before: f64, refused: u32 },
    /// It stays for so many epochs.
    Holding { left: u32 },
    /// It is a step larger or smaller than `from`. The first epoch settles.
    Trying { from: u32, before: f64, settled: bool },
}

#[derive(Debug, Default)]
struct Epoch {
    since: Duration,
    until: Duration,
    bytes: u64,
    requests: u32,
    /// Requests in flight, by seconds.
    area: f64,
}

impl Window {
    pub(super) fn new(start: u32, max: u32) -> Self {
        let max = max.max(1);
        let size = start.clamp(1, max);
        Self {
            size,
            max,
            in_flight: 0,
            phase: Phase::Doubling { from: size, before: 0.0, refused: 0 },
            epoch: Epoch::default(),
            goodput: 0.0,
            hold: HOLD,
            less_next: false,
            refusals: Refusals::default(),
            braked: false,
            braked_at: None,
        }
    }

    /// Begins anew with no more than `size`, for the first epochs: what a larger window shares
    /// out comes late to who waits for the first members.
    pub(super) fn begin_with(&mut self, size: u32, now: Duration) {
        self.size = self.size.min(size.max(1));
        self.phase = Phase::Starting { left: START };
        self.begin_epoch(now);
    }

    /// Takes other bounds; where they are wider it begins anew, unless it has just begun with what is
    /// enough.
    pub(super) fn set_terms(&mut self, start: u32, max: u32) {
        let max = max.max(1);
        if max > self.max && !matches!(self.phase, Phase::Starting { .. }) {
            let size = self.size.max(start).min(max);
            self.size = size;
            self.phase = Phase::Doubling { from: size, before: 0.0, refused: 0 };
        }
        self.max = max;
        self.size = self.size.min(max);
    }

    pub(super) fn has_room(&self) -> bool {
        self.in_flight < self.size
    }

    pub(super) fn room(&self) -> u32 {
        self.size.saturating_sub(self.in_flight)
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Bytes a second, [`REQUEST_BYTES`] for each request included.
    pub(super) fn goodput(&self) -> f64 {
        self.goodput
    }

    pub(super) fn began(&mut self, now: Duration) {
        if self.in_flight == 0 {
            // What it did before it was idle tells nothing.
            self.begin_epoch(now);
        }
        self.pass(now);
        self.in_flight += 1;
    }

    pub(super) fn ended(&mut self, now: Duration) {
        self.pass(now);
        self.in_flight -= 1;
    }

    pub(super) fn brought(&mut self, bytes: u64) {
        self.epoch.bytes = self.epoch.bytes.saturating_add(bytes);
    }

    /// A request was finished; its epoch may end with it. `median` is the
    /// usual time to the first byte.
    pub(super) fn completed(&mut self, now: Duration, median: Option<Duration>) {
        self.pass(now);
        self.met(false);
        self.epoch.requests += 1;
        let passed = now.saturating_sub(self.epoch.since);
        let long_enough = passed >= median.unwrap_or(EPOCH_MIN).clamp(EPOCH_MIN, EPOCH_MAX);
        if long_enough && (self.epoch.requests >= self.size || passed >= EPOCH_MAX) {
            self.end_epoch(now);
        }
    }

    /// The server turned a request away that was begun at `began`.
    pub(super) fn brake(&mut self, began: Duration, now: Duration) {
        self.met(true);
        let is_late = self.braked || self.braked_at.is_some_and(|at| began <= at);
        if is_late || !self.refusals.are_too_many() {
            return;
        }
        self.size = (self.size / 2).max(1);
        self.hold = HOLD;
        self.phase = Phase::Holding { left: HOLD };
        self.begin_epoch(now);
        self.braked = true;
        self.braked_at = Some(now);
    }

    /// A request was turned away, or was not. Where single ones are, too, it begins anew.
    fn met(&mut self, is_refused: bool) {
        if self.refusals.ended(is_refused, self.size == 1) {
            self.phase = Phase::Doubling { from: self.size, before: 0.0, refused: 0 };
        }
    }

    fn pass(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.epoch.until);
        self.epoch.area += passed.as_secs_f64() * f64::from(self.in_flight);
        self.epoch.until = now;
    }

    fn begin_epoch(&mut self, now: Duration) {
        self.epoch = Epoch { since: now, until: now, ..Epoch::default() };
        self.braked = false;
    }

    fn end_epoch(&mut self, now: Duration) {
        let seconds = now.saturating_sub(self.epoch.since).as_secs_f64();
        let work = self.epoch.bytes.saturating_add(REQUEST_BYTES * u64::from(self.epoch.requests));
        let full = self.epoch.area >= FULL * seconds * f64::from(self.size);
        self.begin_epoch(now);
        let goodput = work as f64 / seconds;
        self.goodput = goodput;
        if full {
            self.decide(goodput);
        }
    }

    fn decide(&mut self, goodput: f64) {
        match self.phase {
            Phase::Starting { left } if left > 1 => self.phase = Phase::Starting { left: left - 1 },
            Phase::Starting { .. } => self.double(goodput),
            Phase::Doubling { before, .. } if goodput >= before * DOUBLING_GAIN => {
                self.double(goodput);
            }
            // One epoch may have been bad luck, and the first is half of the window before.
            Phase::Doubling { from, before, refused: 0 } => {
                self.phase = Phase::Doubling { from, before, refused: 1 };
            }
            Phase::Doubling { from, .. } => {
                self.size = from.min(self.max);
                self.phase = Phase::Holding { left: self.hold };
            }
            Phase::Holding { left: 0 } => {
                self.less_next = !self.less_next;
                if self.less_next { self.try_more(goodput) } else { self.try_less(goodput) }
            }
            Phase::Holding { left } => self.phase = Phase::Holding { left: left - 1 },
            Phase::Trying { from, before, settled: false } => {
                self.phase = Phase::Trying { from, before, settled: true };
            }
            Phase::Trying { from, before, .. }
                if self.size < from && goodput >= before * STEP_LOSS =>
            {
                self.hold = HOLD;
                self.try_less(before.max(goodput));
            }
            Phase::Trying { from, before, .. }
                if self.size > from && goodput >= before * STEP_GAIN =>
            {
                self.hold = HOLD;
                self.try_more(goodput);
            }
            Phase::Trying { from, .. } => {
                self.size = from.min(self.max);
                self.hold = (self.hold * 2).min(HOLD_MAX);
                self.phase = Phase::Holding { left: self.hold };
            }
        }
    }

    fn double(&mut self, goodput: f64) {
        let from = self.size;
        self.grow_to(from.saturating_mul(2));
        self.phase = if self.size > from {
            Phase::Doubling { from, before: goodput, refused: 0 }
        } else {
            Phase::Holding { left: HOLD }
        };
    }

    fn try_more(&mut self, goodput: f64) {
        let from = self.size;
        self.grow_to(from + (from / 8).max(1));
        self.phase = if self.size > from {
            Phase::Trying { from, before: goodput, settled: false }
        } else {
            Phase::Holding { left: HOLD }
        };
    }

    fn try_less(&mut self, goodput: f64) {
        let from = self.size;
        self.size = (from - (from / 8).max(1)).max(1);
        self.phase = if self.size < from {
            Phase::Trying { from, before: goodput, settled: false }
        } else {
            Phase::Holding { left: self.hold }
        };
    }

    fn grow_to(&mut self, size: u32) {
        self.size = size.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose requests take `latency`, and share `bytes_per_second`
    /// and so many requests a second.
    struct Server {
        latency: Duration,
        bytes_per_second: f64,
        requests_per_second: f64,
    }

    /// The window after so many rounds of requests of this size.
    fn window_after(server: &Server, window: &mut Window, rounds: u32, bytes: u64) -> u32 {
        let mut now = Duration::ZERO;
        for _ in 0..rounds {
            let size = window.size();
            (0..size).for_each(|_| window.began(now));
            let each =
                (bytes as f64 / server.bytes_per_second).max(1.0 / server.requests_per_second);
            let busy = Duration::from_secs_f64(each * f64::from(size));
            now += server.latency.max(busy);
            for _ in 0..size {
                window.brought(bytes);
                window.completed(now, Some(server.latency));
                window.ended(now);
            }
        }
        window.size()
    }

    fn server(latency_ms: u64, bytes_per_second: f64, requests_per_second: f64) -> Server {
        Server { latency: Duration::from_millis(latency_ms), bytes_per_second, requests_per_second }
    }

    #[test]
    fn far_servers_get_many_requests_for_small_objects() {
        let mut window = Window::new(8, 256);
        assert_eq!(window_after(&server(50, 1e10, 1e6), &mut window, 12, 4096), 256);
    }

    #[test]
    fn a_full_link_gets_no_more_requests_than_fill_it() {
        // 100 MB/s at 50 ms is 5 MB in flight: five objects of 1 MB.
        let mut window = Window::new(4, 256);
        let size = window_after(&server(50, 1e8, 1e6), &mut window, 400, 1 << 20);
        assert!((4..=16).contains(&size), "{size}");
    }

    #[test]
    fn a_window_that_is_too_large_comes_down() {
        let mut window = Window::new(128, 256);
        let size = window_after(&server(50, 1e8, 1e6), &mut window, 400, 1 << 20);
        assert!((4..=16).contains(&size), "{size}");
    }

    #[test]
    fn a_server_with_a_limit_of_requests_is_found_out() {
        // 400 requests a second at 100 ms are 40 in flight.
        let mut window = Window::new(4, 256);
        let size = window_after(&server(100, 1e10, 400.0), &mut window, 400, 1000);
        assert!((32..=72).contains(&size), "{size}");
    }

    #[test]
    fn being_turned_away_halves_once_an_epoch() {
        let mut window = Window::new(64, 256);
        let (began, now) = (Duration::ZERO, Duration::from_secs(1));
        (0..30).for_each(|_| window.brake(began, now));
        assert_eq!(window.size(), 32);
        window.begin_epoch(now);
        window.brake(began, 2 * now);
        assert_eq!(window.size(), 32, "what was in flight when it was halved");
        window.brake(2 * now, 3 * now);
        assert_eq!(window.size(), 16);
    }

    #[test]
    fn what_is_not_full_tells_nothing() {
        let mut window = Window::new(16, 256);
        let mut now = Duration::ZERO;
        for _ in 0..1000 {
            window.began(now);
            now += Duration::from_millis(20);
            window.completed(now, Some(Duration::from_millis(20)));
            window.ended(now);
        }
        assert_eq!(window.size(), 16);
    }

    #[test]
    fn what_is_said_to_be_enough_is_tried_first_and_mended_if_it_is_not() {
        let slow = server(1, 5e6, 1e6);
        let mut window = Window::new(16, 256);
        window.begin_with(1, Duration::ZERO);
        assert_eq!(window_after(&slow, &mut window, START - 1, 1 << 20), 1);
        assert_eq!(window_after(&slow, &mut window, 1, 1 << 20), 2);
        assert_eq!(window_after(&slow, &mut window, 4, 1 << 20), 1, "two are no faster");
        let quick = server(50, 1e10, 1e6);
        let mut window = Window::new(16, 256);
        window.begin_with(1, Duration::ZERO);
        assert_eq!(window_after(&quick, &mut window, 15, 4096), 256);
    }

    #[test]
    fn wider_bounds_do_not_end_a_start_with_what_is_enough() {
        let quick = server(50, 1e10, 1e6);
        let mut window = Window::new(1, 1);
        window.begin_with(1, Duration::ZERO);
        window.set_terms(16, 256);
        assert_eq!(window_after(&quick, &mut window, START - 1, 4096), 1);
        assert_eq!(window_after(&quick, &mut window, 1, 4096), 2);
    }

    #[test]
    fn one_head_gets_one_stream() {
        let mut window = Window::new(32, 1);
        assert_eq!(window_after(&server(10, 1e8, 1e6), &mut window, 50, 1 << 20), 1);
    }
}
