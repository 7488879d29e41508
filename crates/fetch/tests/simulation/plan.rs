//! What a life is made of: drawn from the seed before it begins.

use std::ops::Range;
use std::time::Duration;

use nearfirst_fetch::scheduler::{DeviceTerms, Kind, Limits, Order, Origin, SetTerms};

use crate::chance::Chance;

/// How likely faults are in a life, in thousandths of attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) transient: u64,
    pub(crate) reset: u64,
    pub(crate) busy: u64,
    pub(crate) last: u64,
    pub(crate) stall: u64,
    pub(crate) stall_midway: u64,
    pub(crate) crawl: u64,
    pub(crate) spill: u64,
    pub(crate) lying_listing: u64,
    pub(crate) unknown_size: u64,
    pub(crate) ignored_ranges: u64,
    pub(crate) unlisted: u64,
    pub(crate) moved: u64,
    /// An answer begins behind what was asked for.
    pub(crate) gap: u64,
}

/// A device's behaviour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DevicePlan {
    pub(crate) terms: DeviceTerms,
    pub(crate) latency_us: (u64, u64),
    pub(crate) tail_in_thousand: u64,
    pub(crate) bytes_per_ms: u64,
    /// In flight beyond which it turns requests away.
    pub(crate) patience: usize,
}

/// A member as it really is.
#[derive(Debug, Clone)]
pub(crate) struct MemberPlan {
    pub(crate) device: u32,
    pub(crate) real_device: u32,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) told_size: Option<u64>,
    /// The first byte that is wanted.
    pub(crate) from: u64,
    pub(crate) size_unknown: bool,
    pub(crate) ignores_ranges: bool,
    pub(crate) far: Vec<Range<u64>>,
    pub(crate) rank: f64,
    pub(crate) unlisted: bool,
}

/// What a consumer does with members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    Reads,
    ReleasesAtOnce,
    ClosesEarly,
    Hoards,
}

/// A consumer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsumerPlan {
    pub(crate) habit: Habit,
    pub(crate) think_us: (u64, u64),
    pub(crate) bite: u64,
    /// Members after which it asks no more.
    pub(crate) stops_after: u64,
    /// Whether it gives up waiting now and then.
    pub(crate) impatient: bool,
}

/// A set, its consumers, and when it is closed if not at the end.
#[derive(Debug, Clone)]
pub(crate) struct SetPlan {
    pub(crate) terms: SetTerms,
    pub(crate) members: Vec<MemberPlan>,
    pub(crate) listing_us: (u64, u64),
    pub(crate) consumers: Vec<ConsumerPlan>,
    pub(crate) closes_at: Option<Duration>,
}

/// A life.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) limits: Limits,
    pub(crate) faults: Faults,
    /// How often events are told together, in thousandths.
    pub(crate) together: u64,
    /// How often a driver has a file wait, in thousandths.
    pub(crate) queued: u64,
    pub(crate) devices: Vec<DevicePlan>,
    pub(crate) sets: Vec<SetPlan>,
}

impl Plan {
    pub(crate) fn draw(chance: &mut Chance) -> Self {
        let part_bytes = chance.pick(&[1, 10, 1000, 1000, 1000, 100_000]);
        let limits = Limits {
            budget_bytes: part_bytes * chance.pick(&[0, 1, 2, 3, 5, 10, 100]),
            spill_bytes: part_bytes * chance.pick(&[0, 0, 1, 4, 50]),
            window_max: chance.pick(&[1, 2, 8, 64, 256]),
            part_bytes,
            lookahead: chance.pick(&[1, 2, 5, 50, 4096]),
            ahead: chance.pick(&[1, 2, 4, 512]),
            batch: chance.pick(&[0, 1, 3, 32]),
            stall: Duration::from_millis(chance.pick(&[200, 2000, 20_000])),
            attempts_max: chance.pick(&[1, 2, 3, 4, 5, 6]),
            backoff: Duration::from_millis(chance.pick(&[0, 1, 100])),
            hedge_percent: chance.pick(&[0, 5, 5, 50]),
        };
        let often = chance.pick(&[0, 0, 5, 50, 200]);
        let faults = Faults {
            transient: chance.below(often + 1),
            reset: chance.below(often + 1),
            busy: chance.below(often + 1),
            last: chance.below(often / 5 + 1),
            stall: chance.below(often / 2 + 1),
            stall_midway: chance.below(often / 2 + 1),
            crawl: chance.below(often + 1),
            spill: chance.pick(&[0, 0, 100, 1000]),
            lying_listing: chance.pick(&[0, 0, 100]),
            unknown_size: chance.pick(&[0, 0, 100, 1000]),
            ignored_ranges: chance.pick(&[0, 0, 100, 1000]),
            unlisted: chance.pick(&[0, 0, 50]),
            moved: chance.pick(&[0, 0, 100]),
            gap: chance.below(often + 1),
        };
        let devices: Vec<DevicePlan> =
            (0..chance.between(1, 3)).map(|_| DevicePlan::draw(chance)).collect();
        let sets = (0..chance.pick(&[1, 1, 2, 3]))
            .map(|_| SetPlan::draw(chance, &limits, &faults, devices.len() as u64))
            .collect();
        let together = chance.pick(&[0, 200, 500]);
        let queued = chance.pick(&[0, 0, 50, 500]);
        Self { limits, faults, together, queued, devices, sets }
    }
}

impl DevicePlan {
    fn draw(chance: &mut Chance) -> Self {
        let has_head = chance.in_thousand(150);
        let window_max = if has_head { 1 } else { chance.pick(&[1, 4, 32, 300]) };
        let least = chance.pick(&[1, 100, 10_000]);
        let known = (Duration::from_micros(least), Duration::from_micros(least * 3));
        let terms = DeviceTerms {
            window_max,
            window_start: chance.pick(&[0, 1, 4, 32]),
            enough: (window_max == 32).then_some(1 << 16),
            opens_max: chance.pick(&[0, 0, 1, 7, 64]),
            by_position: has_head,
            latency: chance.in_thousand(300).then_some(known),
        };
        Self {
            terms,
            latency_us: (least, least * chance.pick(&[1, 2, 10])),
            tail_in_thousand: chance.pick(&[0, 20, 100]),
            bytes_per_ms: chance.pick(&[10, 1000, 1_000_000]),
            patience: chance.pick(&[2, 20, usize::MAX, usize::MAX]),
        }
    }
}

impl SetPlan {
    fn draw(chance: &mut Chance, limits: &Limits, faults: &Faults, devices: u64) -> Self {
        let kinds = chance.pick(&[0, 500, 1000]);
        let parts_max = chance.pick(&[1, 1, 3, 12]);
        let count = chance.pick(&[0, 1, 3, 20, 60]);
        let members = (0..chance.below(count + 1))
            .map(|_| MemberPlan::draw(chance, limits, faults, devices, (kinds, parts_max)))
            .collect();
        let origin = if chance.in_thousand(200) { Origin::Guessed } else { Origin::Told };
        let order = if chance.in_thousand(250) { Order::Listed } else { Order::Ready };
        let guessed = origin == Origin::Guessed;
        let consumers = (0..chance.pick(&[1, 1, 2, 4]))
            .map(|_| ConsumerPlan::draw(chance, limits, guessed))
            .collect();
        Self {
            terms: SetTerms { origin, order },
            members,
            listing_us: (0, chance.pick(&[0, 10, 10_000])),
            consumers,
            closes_at: None,
        }
        .closing(chance)
    }

    fn closing(mut self, chance: &mut Chance) -> Self {
        if chance.in_thousand(200) {
            let latest = chance.pick(&[100, 10_000, 1_000_000]);
            self.closes_at = Some(chance.micros(0, latest));
        }
        self
    }
}

impl ConsumerPlan {
    fn draw(chance: &mut Chance, limits: &Limits, guessed: bool) -> Self {
        let habits =
            [Habit::Reads, Habit::Reads, Habit::ReleasesAtOnce, Habit::ClosesEarly, Habit::Hoards];
        let kept = if guessed { &habits[..4] } else { &habits[..] };
        Self {
            habit: chance.pick(kept),
            think_us: (0, chance.pick(&[0, 100, 100_000])),
            bite: chance.between(1, limits.part_bytes * 2),
            stops_after: chance.pick(&[0, 3, u64::MAX, u64::MAX, u64::MAX, u64::MAX]),
            impatient: chance.in_thousand(100),
        }
    }
}

impl MemberPlan {
    fn draw(
        chance: &mut Chance,
        limits: &Limits,
        faults: &Faults,
        devices: u64,
        (kinds, parts_max): (u64, u64),
    ) -> Self {
        let kind = if chance.in_thousand(kinds) { Kind::Cache } else { Kind::Bytes };
        let size = match chance.below(10) {
            0 => 0,
            1 => limits.part_bytes,
            2 => limits.part_bytes + limits.part_bytes / 2,
            _ => chance.below(limits.part_bytes * parts_max + 1),
        };
        let told_size = match chance.below(3) {
            0 => None,
            _ if chance.in_thousand(faults.lying_listing) => Some(chance.below(size * 2 + 2)),
            _ => Some(size),
        };
        let from = match kind {
            Kind::Bytes if chance.in_thousand(200) => chance.below(size + 1),
            _ => 0,
        };
        let device = device_below(chance, devices);
        let moved = chance.in_thousand(faults.moved);
        Self {
            device,
            real_device: if moved { device_below(chance, devices) } else { device },
            kind,
            size,
            told_size,
            from,
            size_unknown: chance.in_thousand(faults.unknown_size),
            ignores_ranges: chance.in_thousand(faults.ignored_ranges),
            far: if kind == Kind::Cache { far_ranges(chance, size) } else { Vec::new() },
            rank: chance.pick(&[0.0, 0.0, 0.0, 1.0, -2.5, f64::NAN]),
            unlisted: chance.in_thousand(faults.unlisted),
        }
    }
}

fn device_below(chance: &mut Chance, devices: u64) -> u32 {
    u32::try_from(chance.below(devices)).expect("few devices")
}

/// Some stores tell of them in any order, and of some bytes twice.
fn far_ranges(chance: &mut Chance, size: u64) -> Vec<Range<u64>> {
    let is_untidy = chance.in_thousand(200);
    let mut ranges = Vec::new();
    let mut from = 0;
    while from < size && ranges.len() < 8 && !chance.in_thousand(300) {
        let start = from + chance.below(size - from);
        let end = start + 1 + chance.below(size - start);
        ranges.push(start..end);
        from = if is_untidy { start + 1 } else { end + 1 };
    }
    if is_untidy {
        ranges.reverse();
    }
    ranges
}
