//! What must hold in every life.

use nearfirst_fetch::scheduler::{Aim, Delivery, Kind, Origin, Snapshot};

use crate::servers::Trying;
use crate::world::{Fortune, Happening, Member, Set, World, at};

impl World {
    /// Lives it to its end.
    pub(crate) fn live(&mut self) {
        const EVENTS_MAX: u64 = 1_000_000;
        let mut ticks_at_once = 0;
        loop {
            let wake = self.scheduler.wake_at();
            let next = self.next_at();
            let ticks = match (wake, next) {
                (None, None) => {
                    if self.go_on() {
                        continue;
                    }
                    break;
                }
                (Some(wake), next) => next.is_none_or(|next| wake <= next),
                (None, Some(_)) => false,
            };
            if ticks {
                let wake = wake.expect("a tick has its time");
                ticks_at_once = if wake > self.now { 0 } else { ticks_at_once + 1 };
                assert!(ticks_at_once < 100, "wake_at stays at {wake:?}: {:?}", self.scheduler);
                self.now = self.now.max(wake);
                self.tick();
            } else {
                self.step_some();
            }
            self.check_bounds();
            assert!(self.events < EVENTS_MAX, "it does not end: {:?}", self.scheduler);
        }
        self.check_end();
    }

    /// Nothing happens by itself any more: who waits now waits for ever.
    fn go_on(&mut self) -> bool {
        let told = |set: &&Set| set.plan.terms.origin == Origin::Told;
        let told_open = self.sets.iter().filter(told).any(|set| !set.closed);
        for set in 0..self.sets.len() {
            let known = &self.sets[set];
            let guessed = known.plan.terms.origin == Origin::Guessed;
            let may_wait = guessed && told_open;
            let asks = known.consumers.iter().any(|consumer| consumer.asks);
            assert!(
                !asks || may_wait || known.closed,
                "a consumer of set {set} waits for ever: {:?}",
                self.scheduler
            );
        }
        for (number, member) in self.members.iter().enumerate() {
            let waits = member.waits && member.fortune == Fortune::Lent;
            assert!(!waits, "the reader of member {number} waits for ever: {:?}", self.scheduler);
        }
        let hoarded = self.members.iter().position(|member| member.fortune == Fortune::Lent);
        if let Some(member) = hoarded {
            self.after(std::time::Duration::ZERO, Happening::Release(member as u64));
            return true;
        }
        let open = self.sets.iter().enumerate().filter(|(_, set)| !set.closed);
        let open = open.min_by_key(|(_, set)| set.plan.terms.origin).map(|(number, _)| number);
        if let Some(set) = open {
            self.check_set_end(set);
            self.close(set);
            return true;
        }
        false
    }

    fn check_set_end(&self, set: usize) {
        let known = &self.sets[set];
        if known.consumers.iter().any(|consumer| consumer.plan.stops_after == u64::MAX) {
            assert!(known.ended, "set {set} never ended: {:?}", self.scheduler);
            let mut delivered = known.delivered.clone();
            delivered.sort_unstable();
            let all: Vec<u64> = known.members.clone().collect();
            assert_eq!(delivered, all, "every member once");
        }
    }

    pub(crate) fn check_start(&mut self, member: u64, aim: &Aim) {
        let mut others = self.attempts.values().filter(|trying| {
            trying.member == member
                && match (&trying.aim, aim) {
                    (Aim::Fetch(_), Aim::Fetch(new)) => {
                        (trying.at.min(new.start)..trying.allowed).contains(&new.start)
                    }
                    _ => false,
                }
        });
        let first = others.next();
        let doubled = first.is_some();
        self.bodies_hedged += u64::from(first.is_some_and(|first| first.brought > 0));
        let limits = self.plan.limits;
        let known = &mut self.members[at(member)];
        let set = &self.sets[known.set];
        assert!(set.asked_ever, "nothing before the first ask");
        assert!(matches!(known.fortune, Fortune::Listed | Fortune::Lent), "{:?}", known.fortune);
        assert!(!known.broken, "what is broken is left");
        known.starts += 1;
        known.hedges += u32::from(doubled);
        let one_part = known.plan.kind == Kind::Bytes
            && known.plan.told_size.is_none_or(|size| size == known.plan.size)
            && known.plan.size <= limits.part_bytes;
        let most = limits.attempts_max.max(1) + known.refusals + known.hedges + known.cancels;
        assert!(!one_part || known.starts <= most, "{} attempts at {member}", known.starts);
    }

    pub(crate) fn check_delivery(&self, set: usize, member: u64, state: Delivery) {
        let known = &self.members[at(member)];
        assert_eq!(known.set, set);
        assert_eq!(known.fortune, Fortune::Listed, "member {member} is delivered twice");
        assert!(!self.sets[set].closed && !self.sets[set].ended);
        let plan = &known.plan;
        match (state, plan.kind) {
            (Delivery::Near, kind) => {
                assert_eq!(kind, Kind::Cache, "member {member} is ours to hold");
                assert_eq!(known.in_memory, 0, "of member {member} something is held");
                assert!(plan.far.is_empty(), "member {member} was not near");
            }
            (Delivery::Whole, Kind::Bytes) => {
                let wanted = plan.size - plan.from;
                assert_eq!(known.arrived.from(plan.from), wanted, "member {member} is whole");
            }
            (Delivery::Whole, Kind::Cache) => {
                let near = plan.far.iter().all(|range| known.arrived.holds(range));
                assert!(near, "member {member} is near");
            }
            (Delivery::Streaming, _) => {
                let large = plan.size_unknown || plan.size > self.plan.limits.part_bytes;
                let awaited = plan.kind == Kind::Bytes && self.leaves_no_choice(set);
                assert!((large || awaited) && !plan.unlisted, "member {member} is small");
                let is_read = plan.kind == Kind::Bytes || !self.is_guess(known);
                assert!(is_read, "nobody reads member {member}");
            }
            (Delivery::Failed(_), _) => {}
        }
        if self.is_listed_order(set) {
            let next = self.sets[set].members.start + self.sets[set].delivered.len() as u64;
            assert_eq!(member, next, "in listing order");
        }
    }

    /// Whether each that asks a set waits for a certain member.
    fn leaves_no_choice(&self, set: usize) -> bool {
        let known = &self.sets[set];
        let asking = known.consumers.iter().filter(|consumer| consumer.asks).count() as u64;
        let left = known.members.end - known.members.start - known.delivered.len() as u64;
        self.is_listed_order(set) || (known.listing_ended && left <= asking)
    }

    fn check_bounds(&self) {
        let limits = self.plan.limits;
        for device in 0..self.plan.devices.len() {
            let in_flight = self.working(device);
            let terms = self.plan.devices[device].terms;
            let most = u64::from(terms.window_max.min(limits.window_max).max(1));
            let behind = self.may_wait_behind(device);
            assert!(in_flight <= most + behind, "{in_flight} in flight to device {device}");
            let opens = self.opens_beside(device);
            assert!(opens <= u64::from(terms.opens_max), "{opens} opens of device {device}");
            let has_one_head = terms.by_position && opens > 0;
            assert!(!has_one_head || in_flight <= behind, "the head of {device} opens and reads");
        }
        let snapshot = self.scheduler.snapshot_at(self.now);
        self.check_budget(&snapshot);
        for device in &snapshot.devices {
            let allowed = 1 + device.requests * u64::from(limits.hedge_percent) / 100;
            assert!(device.hedges <= allowed, "{} hedges", device.hedges);
            assert_eq!(self.working(device.device.0 as usize), u64::from(device.in_flight));
        }
    }

    /// How much may wait for a head behind what it is at: as long as it has been asked for all of
    /// that, one more, or a queue of guesses.
    fn may_wait_behind(&self, device: usize) -> u64 {
        const SWEPT_MAX: u64 = 8;
        let of_device = || self.attempts.values().filter(|trying| trying.device == device);
        let asked = of_device().filter(|trying| trying.submitted).count() as u64;
        let guessed = |trying: &Trying| self.is_guess(&self.members[at(trying.member)]);
        let most = if of_device().all(guessed) { SWEPT_MAX } else { 1 };
        if self.plan.devices[device].terms.by_position { asked.min(most) } else { 0 }
    }

    fn is_guess(&self, member: &Member) -> bool {
        self.sets[member.set].plan.terms.origin == Origin::Guessed
    }

    /// Whether what is in memory of a member counts: what nobody reads, and comes only whole, is
    /// the page cache's.
    fn is_in_budget(&self, member: &Member) -> bool {
        let is_large = member.plan.size_unknown || member.plan.size > self.plan.limits.part_bytes;
        !(is_large && member.plan.kind == Kind::Cache && self.is_guess(member))
    }

    /// Attempts that keep a device busy: not those that wait for permission to go on.
    fn working(&self, device: usize) -> u64 {
        let beside = self.plan.devices[device].terms.opens_max > 0;
        let of_device = self
            .attempts
            .values()
            .filter(|trying| trying.device == device && !(beside && trying.aim == Aim::Open));
        let rests = |trying: &&Trying| {
            let unknown = self.members[at(trying.member)].plan.size_unknown;
            trying.wide && trying.at >= trying.allowed && (unknown || trying.at < trying.end)
        };
        of_device.filter(|trying| !rests(trying)).count() as u64
    }

    /// Opens in flight that take no place in the window.
    fn opens_beside(&self, device: usize) -> u64 {
        let beside = self.plan.devices[device].terms.opens_max > 0;
        let opens = self.attempts.values();
        let opens = opens.filter(|trying| trying.device == device && trying.aim == Aim::Open);
        if beside { opens.count() as u64 } else { 0 }
    }

    fn check_budget(&self, snapshot: &Snapshot) {
        let limits = self.plan.limits;
        let budget = snapshot.budget;
        assert!(budget.used - budget.over <= limits.budget_bytes, "{budget:?}");
        let longest = limits.part_bytes + limits.part_bytes / 2;
        assert!(budget.over <= u64::from(budget.over_members) * longest, "{budget:?}");
        let lent = self.members.iter().filter(|member| member.fortune == Fortune::Lent).count();
        let grown = self.members.iter().filter(|member| {
            let told = member.plan.told_size.is_some_and(|told| told < member.plan.size);
            told && member.fortune == Fortune::Listed
        });
        let most = lent + self.sets.len() + grown.count();
        assert!(budget.over_members as usize <= most, "{budget:?} {:?}", self.scheduler);
        assert!(budget.spilled <= limits.spill_bytes, "{budget:?}");
        let counted = || self.members.iter().filter(|member| self.is_in_budget(member));
        let really: u64 = counted().map(|member| member.in_memory).sum();
        let untold = |member: &Member| member.untold.len().min(member.in_memory);
        let untold: u64 = counted().map(untold).sum();
        assert!(
            really <= budget.used + untold,
            "{really} bytes in memory, {untold} untold, {budget:?} {:?} {:?}",
            self.members
                .iter()
                .enumerate()
                .map(|(n, m)| (n, m.in_memory, m.disk_unread, m.read))
                .filter(|m| m.1 > 0)
                .collect::<Vec<_>>(),
            self.scheduler
        );
        let on_disk: u64 = self.members.iter().map(|member| member.on_disk).sum();
        assert!(on_disk <= budget.spilled, "{on_disk} bytes on disk, {budget:?}");
    }

    fn check_end(&self) {
        assert!(self.attempts.is_empty(), "attempts outlive all sets");
        let left = self
            .members
            .iter()
            .filter(|member| matches!(member.fortune, Fortune::Listed | Fortune::Lent));
        assert_eq!(left.count(), 0);
        assert!(self.scheduler.is_empty(), "something is remembered: {:?}", self.scheduler);
    }
}
