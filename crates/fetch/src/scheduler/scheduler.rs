//! The scheduler itself: its state, its events, and the order in which it settles.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use super::attempt::{Attempt, SILENT};
use super::budget::Budget;
use super::device::Device;
use super::event::{
    Action, Cause, DeviceId, DeviceTerms, Event, Kind, Listing, MemberId, SetId, SetTerms,
};
use super::hash::NumberMap;
use super::limits::Limits;
use super::member::{MEMBERS, Member, Part, Stage, rank_key};
use super::queue::{FIRST, Key, Place, THEN};
use super::set::{Set, ready_key};
use super::slab::{List, Slab};

/// Decides what is in flight, what waits and what is delivered.
///
/// ```
/// use std::time::Duration;
/// use nearfirst_fetch::scheduler::{Action, Event, Limits, Order, Origin, Scheduler, SetId, SetTerms};
///
/// let mut scheduler = Scheduler::new(Limits::default());
/// let mut actions = Vec::new();
/// let set = SetId(1);
/// let terms = SetTerms { origin: Origin::Told, order: Order::Ready };
/// scheduler.on(Event::SetOpened { set, terms }, Duration::ZERO, &mut actions);
/// assert_eq!(actions, []);
/// scheduler.on(Event::Asked { set }, Duration::ZERO, &mut actions);
/// assert_eq!(actions, [Action::Expand { set, names: 4096 }]);
/// ```
#[derive(Debug)]
pub struct Scheduler {
    pub(super) limits: Limits,
    pub(super) now: Duration,
    pub(super) sets: NumberMap<SetId, Set>,
    pub(super) names: NumberMap<MemberId, u32>,
    pub(super) members: Slab<Member>,
    pub(super) parts: Slab<Part>,
    pub(super) attempts: Slab<Attempt>,
    pub(super) devices: Vec<Device>,
    device_slots: NumberMap<DeviceId, u32>,
    pub(super) budget: Budget,
    /// Attempts of which something is expected, the longest silent first.
    pub(super) silent: List<SILENT>,
    /// When parts are tried again; of those entries that are still true.
    pub(super) retries: BinaryHeap<Reverse<(Duration, u64)>>,
    /// Members whose readers wait for more, and for which there is no room.
    pub(super) parked: BTreeSet<(u64, u32)>,
    /// Parts whose attempts wait for room to go on.
    pub(super) extends: Vec<u64>,
    /// Delivered members with unread bytes in memory, the last delivered last.
    pub(super) held: List<MEMBERS>,
    pub(super) spills: u32,
    /// No spill is begun before.
    pub(super) spill_after: Duration,
    /// Since when nothing was heard of the spills that are under way.
    pub(super) spill_since: Option<Duration>,
    pub(super) dirty_sets: Vec<SetId>,
    pub(super) dirty_devices: Vec<u32>,
    /// Devices where something waits for room, and some where nothing does any more.
    pub(super) blocked: Vec<u32>,
    /// Devices where what was told waits for so many bytes.
    pub(super) short: BTreeSet<(u64, Key, u32, SetId)>,
    /// Sets of which some devices are held up.
    pub(super) held_sets: BTreeSet<SetId>,
    /// Devices that may have to be looked at when time has passed, and others; how many it were when those
    /// were last left out.
    pub(super) timed: Vec<u32>,
    pub(super) timed_kept: usize,
    /// Whether what was blocked may be so no more.
    pub(super) recheck: bool,
    pub(super) out: Vec<Action>,
    /// The turns of a device's sets, kept for its room.
    pub(super) turns: Vec<SetId>,
    serial: u64,
}

impl Scheduler {
    /// A scheduler of nothing yet.
    pub fn new(limits: Limits) -> Self {
        let limits = Limits {
            window_max: limits.window_max.max(1),
            part_bytes: limits.part_bytes.clamp(1, 1 << 60),
            lookahead: limits.lookahead.max(1),
            ahead: limits.ahead.max(1),
            attempts_max: limits.attempts_max.max(1),
            ..limits
        };
        Self {
            limits,
            now: Duration::ZERO,
            sets: NumberMap::default(),
            names: NumberMap::default(),
            members: Slab::default(),
            parts: Slab::default(),
            attempts: Slab::default(),
            devices: Vec::new(),
            device_slots: NumberMap::default(),
            budget: Budget::new(limits.budget_bytes, limits.spill_bytes, limits.part_bytes),
            silent: List::default(),
            retries: BinaryHeap::new(),
            parked: BTreeSet::new(),
            extends: Vec::new(),
            held: List::default(),
            spills: 0,
            spill_after: Duration::ZERO,
            spill_since: None,
            dirty_sets: Vec::new(),
            dirty_devices: Vec::new(),
            blocked: Vec::new(),
            short: BTreeSet::new(),
            held_sets: BTreeSet::new(),
            timed: Vec::new(),
            timed_kept: 0,
            recheck: false,
            out: Vec::new(),
            turns: Vec::new(),
            serial: 0,
        }
    }

    /// Takes note of an event and adds what is to be done to `actions`.
    ///
    /// `now` is the time since any fixed moment; it never goes back (one that
    /// does counts as the latest). Events about what is unknown, or has ended,
    /// change nothing.
    pub fn on(&mut self, event: Event, now: Duration, actions: &mut Vec<Action>) {
        self.on_all([event], now, actions);
    }

    /// As [`Scheduler::on`] of several events that happened at a time, in
    /// their order; it decides once for all of them.
    pub fn on_all(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.now = self.now.max(now);
        std::mem::swap(&mut self.out, actions);
        events.into_iter().for_each(|event| self.note(event));
        self.settle();
        std::mem::swap(&mut self.out, actions);
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::SetOpened { set, terms } => self.set_opened(set, terms),
            Event::DeviceMet { device, terms } => self.device_met(device, &terms),
            Event::Listed { set, member, listing } => self.listed(set, member, &listing),
            Event::Unlisted { set, member } => self.unlisted(set, member),
            Event::ListingEnded { set } => {
                if let Some(set) = self.sets.get_mut(&set) {
                    set.listing_ended = true;
                }
                self.look_at_set(set);
            }
            Event::Asked { set } => self.asked(set),
            Event::Unasked { set } => {
                if let Some(set) = self.sets.get_mut(&set) {
                    set.asked = set.asked.saturating_sub(1);
                }
            }
            Event::Contacted { attempt, contact } => self.contacted(attempt, contact),
            Event::Waited { attempt } => self.waited(attempt),
            Event::Progressed { attempt, bytes } => self.progressed(attempt, bytes),
            Event::Submitted { attempt } => self.submitted(attempt),
            Event::Finished { attempt } => self.finished(attempt),
            Event::Failed { attempt, failure } => self.attempt_failed(attempt, failure),
            Event::Read { member, bytes } => self.read(member, bytes),
            Event::Released { member } => self.released(member),
            Event::Spilled { member, bytes } => self.spilled(member, bytes),
            Event::SpillFailed { member, bytes } => self.spill_failed(member, bytes),
            Event::SetClosed { set } => self.set_closed(set),
            Event::Tick => self.tick(),
        }
    }

    /// Delivers, then starts, until nothing is left to look at.
    fn settle(&mut self) {
        loop {
            while let Some(set) = self.dirty_sets.pop() {
                self.serve_set(set);
            }
            if self.recheck || self.budget.freed {
                self.recheck = false;
                self.budget.freed = false;
                self.look_at_blocked();
            }
            match self.dirty_devices.pop() {
                Some(device) => self.serve_device(device),
                None if self.release_held() => {}
                None => break,
            }
        }
    }

    /// Whether what reads of a device are asked for ahead delays no more than other guesses.
    pub fn is_swept(&self, device: DeviceId) -> bool {
        let slot = self.device_slots.get(&device);
        slot.is_some_and(|&slot| self.devices[slot as usize].is_swept())
    }

    /// Whether nothing is known of any set or member.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
            && self.names.is_empty()
            && self.members.len() == 0
            && self.parts.len() == 0
            && self.attempts.len() == 0
            && self.parked.is_empty()
            && self.held.is_empty()
            && self.short.is_empty()
            && self.held_sets.is_empty()
            && self.devices.iter().all(|device| device.lanes.is_empty())
            && self.budget.committed == 0
            && self.budget.over == 0
            && self.budget.spilled == 0
    }

    fn set_opened(&mut self, set: SetId, terms: SetTerms) {
        self.sets.entry(set).or_insert_with(|| Set::new(terms));
    }

    fn device_met(&mut self, device: DeviceId, terms: &DeviceTerms) {
        if let Some(&slot) = self.device_slots.get(&device) {
            self.devices[slot as usize].set_terms(terms, self.limits.window_max);
            self.look_at_device(slot);
            return;
        }
        self.device_slots.insert(device, len_u32(self.devices.len()));
        self.devices.push(Device::new(device, terms, self.limits.window_max));
    }

    /// The slot of a device; one that was never met gets careful terms.
    pub(super) fn device_slot(&mut self, device: DeviceId) -> u32 {
        if let Some(&slot) = self.device_slots.get(&device) {
            return slot;
        }
        let terms = DeviceTerms {
            window_max: u32::MAX,
            window_start: 4,
            enough: None,
            opens_max: 0,
            by_position: false,
            latency: None,
        };
        self.device_met(device, &terms);
        self.device_slots[&device]
    }

    fn listed(&mut self, set: SetId, id: MemberId, listing: &Listing) {
        let device = self.device_slot(listing.device);
        let mut member = Member::new(id, set, listing.kind, self.now);
        member.device = device;
        member.rank = rank_key(listing.rank);
        // A size of 0 may be that of a file that is made as it is read.
        member.size = listing.size.filter(|&size| size > 0);
        if member.kind == Kind::Bytes {
            // One byte is asked for at least: contact is made by it.
            let last = member.size.map_or(u64::MAX - self.limits.part_bytes, |size| size - 1);
            let from = listing.from.min(last);
            member.from = from;
            member.early = listing.from - from;
            let end = from.saturating_add(self.limits.part_bytes);
            member.rest = from..member.size.unwrap_or(end);
        }
        if let Some(slot) = self.admit(member) {
            self.queue(slot);
        }
    }

    fn unlisted(&mut self, set: SetId, id: MemberId) {
        let mut member = Member::new(id, set, Kind::Bytes, self.now);
        member.failed = Some(Cause::Unlisted);
        member.stage = Stage::Ready;
        if let Some(slot) = self.admit(member) {
            let member = &self.members[slot];
            let set = self.sets.get_mut(&member.set).expect("an admitted member's set");
            set.ready.insert(ready_key(member, slot));
            self.look_at_member(slot);
        }
    }

    /// Takes a listed member in; one of a set that is closed is dropped.
    fn admit(&mut self, mut member: Member) -> Option<u32> {
        let (id, set_id) = (member.id, member.set);
        if self.names.contains_key(&id) {
            return None;
        }
        let Some(set) = self.sets.get_mut(&set_id).filter(|set| !set.closed) else {
            self.out.push(Action::Drop { member: id });
            return None;
        };
        set.granted -= 1;
        set.waiting += 1;
        self.serial += 1;
        member.serial = self.serial;
        let slot = self.members.insert(member);
        set.undelivered.push(&mut self.members, slot);
        self.names.insert(id, slot);
        self.look_at_set(set_id);
        Some(slot)
    }

    fn asked(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(&id).filter(|set| !set.closed) else { return };
        let first = !set.started;
        set.started = true;
        set.ended = false;
        set.asked += 1;
        self.recheck = true;
        if first {
            let mut next = set.undelivered.first();
            while let Some(slot) = next {
                next = List::<MEMBERS>::after(&self.members, slot);
                self.queue(slot);
            }
        }
        self.look_at_set(id);
    }

    /// Notes that a set may have something to deliver or to ask for.
    pub(super) fn look_at_set(&mut self, id: SetId) {
        if let Some(set) = self.sets.get_mut(&id)
            && !std::mem::replace(&mut set.dirty, true)
        {
            self.dirty_sets.push(id);
        }
    }

    /// Notes that a device may have something to start.
    pub(super) fn look_at_device(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.devices[slot as usize].dirty, true) {
            self.dirty_devices.push(slot);
        }
    }

    /// Brings a member's standing in its set up to date: whether it moves, and streams.
    pub(super) fn look_at_member(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        let Some(set) = self.sets.get_mut(&member.set) else { return };
        let comes = !member.parts.is_empty() || member.due > 0 || member.stage == Stage::Ready;
        let moving = comes && !member.is_delivered();
        if moving != member.moving {
            member.moving = moving;
            set.moving = if moving { set.moving + 1 } else { set.moving - 1 };
            self.recheck |= !moving;
        }
        // Who guesses at files reads nothing: handed over sooner they would be let go of while the
        // rest is on its way.
        let is_read = set.is_told() || member.kind == Kind::Bytes;
        let streamable = is_read && member.may_stream(self.limits.part_bytes);
        if streamable != member.streamable {
            member.streamable = streamable;
            if streamable {
                set.streamable.push(slot);
            } else {
                set.streamable.retain(|&other| other != slot);
            }
        }
        if set.asked > 0 && (streamable || member.stage == Stage::Ready) {
            let id = member.set;
            self.look_at_set(id);
        }
    }

    /// Puts a member where it waits for a start, if it does.
    pub(super) fn queue(&mut self, slot: u32) {
        let member = &self.members[slot];
        let Some(set) = self.sets.get(&member.set) else { return };
        let place = (set.started && wants_start(member)).then(|| {
            // A name that was never listed as a member has no device.
            let device = &self.devices[member.device as usize];
            let listed_order = set.is_listed_order() && !member.is_delivered();
            let order = if device.by_position && member.pinned && !listed_order {
                member.position.saturating_add(member.rest.start)
            } else {
                member.serial
            };
            Place {
                device: member.device,
                fresh: member.stage == Stage::Waiting && !listed_order,
                key: (
                    if member.is_pressing(self.limits.part_bytes) { FIRST } else { THEN },
                    if listed_order { 0 } else { member.rank },
                    order,
                    slot,
                ),
            }
        });
        if place == member.place {
            return;
        }
        let (id, told) = (member.set, set.is_told());
        if let Some(old) = self.members[slot].place.take() {
            let device = &mut self.devices[old.device as usize];
            device.unqueue(id, &old);
            if place.is_none_or(|place| place.device != old.device) {
                device.drop_lane_if_empty(id);
            }
        }
        if let Some(place) = place {
            let lane = self.devices[place.device as usize].lane(id, told);
            let queue = if place.fresh { &mut lane.fresh } else { &mut lane.begun };
            queue.insert(place.key);
            self.members[slot].place = Some(place);
            self.look_at_device(place.device);
        }
    }

    /// Takes a member out of where it waits.
    pub(super) fn unqueue(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        if let Some(place) = member.place.take() {
            let id = member.set;
            let device = &mut self.devices[place.device as usize];
            device.unqueue(id, &place);
            device.drop_lane_if_empty(id);
        }
    }
}

fn wants_start(member: &Member) -> bool {
    let wants_piece = member.stage == Stage::Waiting || member.has_rest();
    member.failed.is_none()
        && (member.idle > 0 || (wants_piece && !member.parked && member.spilling.is_none()))
}

pub(super) fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("fewer things at a time than 2^32")
}
