//! A device: its window, its queue, and what it has shown of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attempt::UNMET;
use super::event::{DeviceId, DeviceTerms, SetId};
use super::histogram::Histogram;
use super::limits::Limits;
use super::queue::{Lane, Place};
use super::slab::List;
use super::window::Window;

/// Guesses that a head is asked for while it is at another: a read of their program's own that
/// comes meanwhile waits behind them, for some hundredths of a second, and the head comes and goes
/// for it once, not for each of them.
const SWEPT_MAX: u32 = 8;
/// The bytes of these.
const SWEPT_BYTES_MAX: u64 = 4 << 20;

/// A server that turns away as many requests as were in flight, and brings nothing meanwhile, turns away
/// all: it is left alone for a while. Where fewer were in flight so many tell. Of one that turns
/// away some, of which the others come, `refusals.rs` says whether it is asked less at a time.
const REFUSED_IN_TURN_MIN: u32 = 4;

/// The bytes that paces are told of.
const PACE_BYTES: f64 = (1 << 20) as f64;

/// What the scheduler knows of a device.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Device {
    pub(super) id: DeviceId,
    pub(super) by_position: bool,
    pub(super) window: Window,
    /// [`DeviceTerms::enough`], until the first read.
    enough: Option<u64>,
    /// Opens in flight beside the window.
    pub(super) opens: u32,
    pub(super) opens_max: u32,
    /// The rank of those in flight that are soonest.
    opening: u64,
    /// Of what is in flight in the window, what it has been asked for whole, and the bytes of that.
    submitted: u32,
    submitted_bytes: u64,
    /// Times to the first byte.
    pub(super) latency: Histogram,
    /// Times of [`PACE_BYTES`] from then on, each counted by the bytes that it was seen of.
    pace: Histogram,
    /// Nothing is started before.
    pub(super) paused_until: Duration,
    /// Whether it is to be looked at when its pause is over.
    pub(super) is_paused: bool,
    pub(super) lanes: BTreeMap<SetId, Lane>,
    /// Where the last read ended, if by position.
    pub(super) head: u64,
    /// Attempts without a first byte.
    pub(super) unmet: List<UNMET>,
    /// When something of any of its attempts was last heard.
    pub(super) heard: Option<Duration>,
    /// The attempt that was last found to be slow, until there is a place for another.
    pub(super) slow: Option<u64>,
    turns: u64,
    pub(super) requests: u64,
    pub(super) hedges: u64,
    pub(super) hedges_won: u64,
    pub(super) retries: u64,
    pub(super) refusals: u64,
    /// Requests that it turned away since it last brought something.
    pub(super) refused_in_turn: u32,
    /// Requests that were in flight when it turned away the first of these, with that.
    pub(super) refused_of: u32,
    pub(super) stalls: u64,
    /// Whether something waits for room.
    pub(super) blocked: bool,
    /// Whether it is among those that are looked at when room comes.
    pub(super) is_in_blocked: bool,
    /// Whether it is among those for which time matters.
    pub(super) is_in_timed: bool,
    /// Whether it is noted for another look.
    pub(super) dirty: bool,
}

impl Device {
    pub(super) fn new(id: DeviceId, terms: &DeviceTerms, window_max: u32) -> Self {
        Self {
            id,
            by_position: terms.by_position,
            window: Window::new(terms.window_start, terms.window_max.min(window_max)),
            enough: terms.enough,
            opens: 0,
            opens_max: terms.opens_max,
            opening: 0,
            submitted: 0,
            submitted_bytes: 0,
            latency: Histogram::new(terms.latency),
            pace: Histogram::new(None),
            paused_until: Duration::ZERO,
            is_paused: false,
            lanes: BTreeMap::new(),
            head: 0,
            unmet: List::default(),
            heard: None,
            slow: None,
            turns: 0,
            requests: 0,
            hedges: 0,
            hedges_won: 0,
            retries: 0,
            refusals: 0,
            refused_in_turn: 0,
            refused_of: 0,
            stalls: 0,
            blocked: false,
            is_in_blocked: false,
            is_in_timed: false,
            dirty: false,
        }
    }

    /// Takes other terms; what is in flight stays so.
    pub(super) fn set_terms(&mut self, terms: &DeviceTerms, window_max: u32) {
        self.by_position = terms.by_position;
        self.opens_max = terms.opens_max;
        if self.requests == 0 {
            self.enough = terms.enough;
        }
        self.window.set_terms(terms.window_start, terms.window_max.min(window_max));
    }

    /// An attempt takes a place in the window: a read of so many bytes, or something else.
    pub(super) fn began(&mut self, read: Option<u64>, now: Duration) {
        if let Some(bytes) = read
            && let Some(enough) = self.enough.take()
        {
            let bytes = bytes.max(1);
            let beside = enough.saturating_add(bytes / 2) / bytes;
            let size = u32::try_from(beside).unwrap_or(u32::MAX).saturating_add(1);
            self.window.begin_with(size, now);
        }
        self.window.began(now);
    }

    /// It has been asked for all of an attempt, which is so many bytes.
    pub(super) fn is_asked_for(&mut self, bytes: u64) {
        self.submitted += 1;
        self.submitted_bytes += bytes;
    }

    /// An attempt is over that it was asked for so many bytes of, if it was for all.
    pub(super) fn has_brought(&mut self, submitted: Option<u64>) {
        self.submitted -= u32::from(submitted.is_some());
        self.submitted_bytes -= submitted.unwrap_or(0);
    }

    /// Places in the window.
    pub(super) fn room(&self) -> u32 {
        let is_opening = self.by_position && self.opens > 0;
        if is_opening { 0 } else { self.window.room() + u32::from(self.may_queue()) }
    }

    /// Whether something may wait behind what a head has been asked for whole, so that the head
    /// does not wait for us. Two that are asked for piece by piece would have it go to and fro.
    /// What somebody was promised waits behind no more than one; guesses that have the head to
    /// themselves form a queue, or it would go to and fro between them and their program's reads.
    fn may_queue(&self) -> bool {
        let (most, bytes_max) =
            if self.is_swept() { (SWEPT_MAX, SWEPT_BYTES_MAX) } else { (1, u64::MAX) };
        let in_flight = self.window.in_flight();
        let is_asked = self.submitted > 0 && self.submitted == in_flight;
        self.by_position && is_asked && in_flight <= most && self.submitted_bytes < bytes_max
    }

    /// Whether a head serves nothing but guesses: those of a rank go in the order of their places,
    /// whichever set they are of, all opened before any is read.
    pub(super) fn is_swept(&self) -> bool {
        self.by_position && !self.lanes.values().any(|lane| lane.told)
    }

    pub(super) fn turns_away_all(&self) -> bool {
        self.refused_in_turn >= self.refused_of.max(REFUSED_IN_TURN_MIN)
    }

    /// Whether another attempt may start in the window.
    pub(super) fn has_room(&self, now: Duration) -> bool {
        self.room() > 0 && self.paused_until <= now
    }

    /// Whether another open may start.
    pub(super) fn has_room_to_open(&self, now: Duration) -> bool {
        if self.opens_max == 0 {
            return self.has_room(now);
        }
        let most = if !self.by_position {
            self.opens_max as usize
        } else if self.window.in_flight() == 0 || self.may_queue() {
            self.opens_ahead().min(self.opens_max as usize)
        } else {
            0
        };
        (self.opens as usize) < most && self.paused_until <= now
    }

    /// An open of this rank goes beside the window.
    pub(super) fn opens_beside(&mut self, rank: u64) {
        self.opening = if self.opens == 0 { rank } else { self.opening.min(rank) };
        self.opens += 1;
    }

    /// Whether an open of this rank waits for others: a sweep reads what is sooner before it opens
    /// what is later.
    pub(super) fn opens_sooner(&self, rank: u64) -> bool {
        self.opens > 0 && rank > self.opening && self.is_swept()
    }

    /// Whether a second attempt at something may start. Those that cannot be
    /// spared are not: a general slowness would double the load.
    pub(super) fn may_hedge(&self, limits: &Limits) -> bool {
        let share = u64::from(limits.hedge_percent);
        share > 0 && self.window.has_room() && self.hedges * 100 <= self.requests * share
    }

    /// How long a first byte is waited for before another attempt: what one
    /// request in twenty takes, and at least twice the median. Twice as long before any has come: the
    /// device table tells mostly of connections that were open, and the first are yet to be.
    pub(super) fn hedge_after(&self) -> Option<Duration> {
        let late = self.latency.late()?.max(self.latency.median()?.saturating_mul(2));
        Some(if self.latency.samples() == 0 { late.saturating_mul(2) } else { late })
    }

    /// So many bytes came in this time, all of an attempt from its first byte on.
    pub(super) fn brought(&mut self, bytes: u64, time: Duration) {
        if bytes > 0 {
            self.pace.push(times(time, PACE_BYTES / bytes as f64), bytes as f64);
        }
    }

    /// How long an attempt at so many bytes usually takes, its first byte late.
    pub(super) fn usual(&self, bytes: u64) -> Option<Duration> {
        /// Of fewer, the half may be unusual.
        const SAMPLES_MIN: u64 = 4;
        let pace = self.pace.median().filter(|_| self.pace.samples() >= SAMPLES_MIN)?;
        let late = || Some(self.latency.median()?.saturating_mul(2));
        let first_byte = self.hedge_after().or_else(late)?;
        Some(first_byte.saturating_add(times(pace, bytes as f64 / PACE_BYTES)))
    }

    pub(super) fn waits(&self) -> bool {
        self.lanes.values().any(Lane::waits)
    }

    /// Whether something told waits.
    pub(super) fn told_waits(&self) -> bool {
        self.lanes.values().any(|lane| lane.told && lane.waits())
    }

    /// The lane of a set, made if it has none.
    pub(super) fn lane(&mut self, set: SetId, told: bool) -> &mut Lane {
        self.lanes.entry(set).or_insert_with(|| Lane::new(set, told))
    }

    pub(super) fn drop_lane_if_empty(&mut self, set: SetId) {
        if self.lanes.get(&set).is_some_and(Lane::is_empty) {
            self.lanes.remove(&set);
        }
    }

    /// Whether something told is in flight.
    pub(super) fn is_at_told(&self) -> bool {
        self.lanes.values().any(|lane| lane.told && lane.in_flight > 0)
    }

    /// Whether what was told would wait for a place that something guessed has.
    pub(super) fn gives_way(&self, now: Duration) -> bool {
        let has_guessed = self.lanes.values().any(|lane| !lane.told && lane.in_flight > 0);
        has_guessed && self.paused_until <= now && self.told_waits()
    }

    /// Takes a member out of its place.
    pub(super) fn unqueue(&mut self, set: SetId, place: &Place) {
        if let Some(lane) = self.lanes.get_mut(&set) {
            let queue = if place.fresh { &mut lane.fresh } else { &mut lane.begun };
            queue.remove(&place.key);
        }
    }

    /// The lane has its turn; another comes first next time.
    pub(super) fn serve(&mut self, set: SetId) {
        self.turns += 1;
        if let Some(lane) = self.lanes.get_mut(&set) {
            lane.served = self.turns;
        }
    }

    /// On a disk with a head: how many opened members may wait for a read
    /// while others are opened. Positions are known only then; more are
    /// collected as reading goes on, so that the first read is not kept waiting.
    /// Nobody waits for the first read of a sweep.
    pub(super) fn opens_ahead(&self) -> usize {
        const OPENED_MAX: u64 = 64;
        if self.is_swept() {
            return usize::MAX;
        }
        usize::try_from((2 + self.requests / 8).min(OPENED_MAX)).expect("at most 64")
    }
}

fn times(time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}
