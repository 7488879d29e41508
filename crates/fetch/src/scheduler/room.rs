//! Making room: who waits for it, who goes on when it comes, and what moves to disk for it.

use std::time::Duration;

use super::event::{Action, AttemptId, Kind, MemberId, SetId};
use super::member::MEMBERS;
use super::queue::Place;
use super::scheduler::Scheduler;
use super::slab::List;

/// How long nothing is spilled after the disk would not take it.
const SPILL_PAUSE: Duration = Duration::from_secs(10);
/// Members looked at for one to spill.
const VICTIMS: usize = 64;

impl Scheduler {
    /// A delivered member waits until there is room for its next piece.
    pub(super) fn park(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        member.parked = true;
        self.parked.insert((member.serial, slot));
        self.queue(slot);
    }

    pub(super) fn unpark(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        if std::mem::take(&mut member.parked) {
            self.parked.remove(&(member.serial, slot));
        }
    }

    /// A member holds less than before.
    pub(super) fn room_changed(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        self.budget.update(member);
        let (held, charge) = (member.held, member.charge());
        if held == 0 && member.is_delivered() {
            self.held.remove(&mut self.members, slot);
        }
        if charge == 0 {
            self.unpark(slot);
        }
        self.recheck = true;
        self.queue(slot);
    }

    /// Room was given back, or a consumer asks: what waited for that is looked at again.
    pub(super) fn look_at_blocked(&mut self) {
        self.extend_all();
        while let Some(&(_, slot)) = self.parked.first() {
            let piece = self.members[slot].next_piece(self.limits.part_bytes);
            let len = piece.map_or(0, |piece| piece.end - piece.start);
            if !self.budget.fits(&self.members[slot], len) {
                break;
            }
            self.unpark(slot);
            self.queue(slot);
        }
        for slot in std::mem::take(&mut self.blocked) {
            let device = &mut self.devices[slot as usize];
            device.is_in_blocked = false;
            if device.blocked {
                self.look_at_device(slot);
            }
        }
    }

    /// Has a device looked at again when room may have come.
    pub(super) fn block(&mut self, slot: u32) {
        let device = &mut self.devices[slot as usize];
        device.blocked = true;
        if !std::mem::replace(&mut device.is_in_blocked, true) {
            self.blocked.push(slot);
        }
    }

    /// Has a device looked at again when fewer members of a set are begun, or so many bytes are free.
    pub(super) fn hold_up(&mut self, slot: u32, id: SetId, bytes: Option<u64>) {
        let first = self.devices[slot as usize].lanes.get(&id).and_then(|lane| lane.next(None, 0));
        let (Some(key), Some(set)) = (first, self.sets.get_mut(&id)) else { return };
        self.held_sets.insert(id);
        match bytes {
            None => drop(set.held_up.insert((key, slot))),
            Some(bytes) => {
                set.short.insert((key, slot, bytes));
                self.short.insert((bytes, key, slot, id));
            }
        }
    }

    /// Looks at devices that were held up and may go on: of a list over thousands of servers most are, and
    /// to look at all each time would take longer than to fetch. Whether there was one.
    pub(super) fn release_held(&mut self) -> bool {
        let mut devices = Vec::new();
        let mut free = self.budget.free();
        while let Some(&(bytes, key, device, id)) = self.short.first()
            && bytes <= free
        {
            free -= bytes;
            self.short.pop_first();
            if let Some(set) = self.sets.get_mut(&id) {
                set.short.remove(&(key, device, bytes));
            }
            devices.push(device);
        }
        let sets: Vec<SetId> = self.held_sets.iter().copied().collect();
        for id in sets {
            self.release_held_of(id, &mut devices);
        }
        for &device in &devices {
            self.look_at_device(device);
        }
        !devices.is_empty()
    }

    fn release_held_of(&mut self, id: SetId, devices: &mut Vec<u32>) {
        // Room is being made, and nothing begins before there is some.
        let waits = self.spills > 0 && !self.is_spill_late();
        let Some(set) = self.sets.get_mut(&id) else { return };
        let room = self.limits.ahead.saturating_sub(set.begun);
        let held = (0..room).map_while(|_| set.held_up.pop_first());
        devices.extend(held.map(|(_, device)| device));
        // What somebody would wait for for ever is begun all the same.
        let mut next = None;
        if set.asked > 0 && !waits && !set.is_listed_order() && set.moving == 0 {
            let held = set.held_up.pop_first().map(|(key, device)| (key, device, None));
            let short = || set.short.pop_first().map(|(key, device, it)| (key, device, Some(it)));
            next = held.or_else(short);
        } else if set.asked > 0
            && !waits
            && set.is_listed_order()
            && let Some(first) = set.undelivered.first()
            && let member = &self.members[first]
            && let Some(Place { key, device, .. }) = member.place
        {
            let mut short = set.short.range((key, device, 0)..=(key, device, u64::MAX));
            let bytes = short.next().map(|(_, _, bytes)| *bytes);
            let is_held = set.held_up.remove(&(key, device)) || bytes.is_some();
            next = is_held.then_some((key, device, bytes));
        }
        if let Some((key, device, bytes)) = next {
            devices.push(device);
            if let Some(bytes) = bytes {
                set.short.remove(&(key, device, bytes));
                self.short.remove(&(bytes, key, device, id));
            }
        }
        if set.held_up.is_empty() && set.short.is_empty() {
            self.held_sets.remove(&id);
        }
    }

    /// Nothing of a set is held up any more.
    pub(super) fn forget_held(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        set.held_up.clear();
        for (key, device, bytes) in std::mem::take(&mut set.short) {
            self.short.remove(&(bytes, key, device, id));
        }
        self.held_sets.remove(&id);
    }

    /// Lets a part go on beyond what it was allowed, if it soon reaches that.
    pub(super) fn extend_if_due(&mut self, part_slot: u32) {
        let part = &mut self.parts[part_slot];
        let left = part.allowed.saturating_sub(part.done);
        if part.allowed >= part.end || part.wants_more || left > self.limits.part_bytes / 2 {
            return;
        }
        if !self.extend(part_slot) {
            self.parts[part_slot].wants_more = true;
            self.extends.push(self.parts.name(part_slot));
        }
    }

    fn extend_all(&mut self) {
        if self.extends.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.extends);
        waiting.retain(|&name| {
            self.parts.find(name).is_some_and(|part| {
                self.parts[part].wants_more = !self.extend(part);
                self.parts[part].wants_more
            })
        });
        self.extends = waiting;
    }

    fn extend(&mut self, part_slot: u32) -> bool {
        let part = &mut self.parts[part_slot];
        let slot = part.member;
        let member = &mut self.members[slot];
        let step = self.limits.part_bytes.min(part.end - part.allowed);
        let waits = member.is_delivered() && member.charge() == 0;
        let must = waits || member.is_small(self.limits.part_bytes);
        if member.spilling.is_some() || (!must && !self.budget.fits(member, step)) {
            return false;
        }
        let attempts = [part.attempt, part.hedge].into_iter().flatten();
        let resting = attempts.clone().filter(|&attempt| self.attempts[attempt].rests);
        let places = super::scheduler::len_u32(resting.clone().count());
        let room = |attempt| self.devices[self.attempts[attempt].device as usize].room();
        if resting.map(room).any(|room| room < places) {
            return false;
        }
        part.allowed += step;
        member.due += step;
        member.unlimited = part.allowed < part.end;
        let end = part.allowed;
        let is_stopped = !part.is_tried() && part.retry_at.is_none();
        self.budget.update(&mut self.members[slot]);
        for attempt in attempts {
            if std::mem::take(&mut self.attempts[attempt].rests) {
                let device = self.attempts[attempt].device;
                self.devices[device as usize].window.began(self.now);
            }
            self.out.push(Action::Extend { attempt: AttemptId(self.attempts.name(attempt)), end });
            self.is_silent_from_now(attempt);
        }
        if is_stopped {
            self.set_idle(part_slot, true);
            self.queue(slot);
        }
        true
    }

    /// Asks for members to be spilled so that this much fits; false if none can be.
    pub(super) fn makes_room(&mut self, bytes: u64) -> bool {
        if self.is_spill_late() {
            return false;
        }
        if self.spills > 0 {
            return true;
        }
        let limit = self.budget.limit;
        let missing = self.budget.missing(bytes);
        if bytes > limit || self.now < self.spill_after {
            return false;
        }
        let mut freed = 0;
        while freed < missing {
            let Some(slot) = self.victim() else { break };
            freed = self.members[slot].held.saturating_add(freed);
            self.spill(slot);
        }
        self.spills > 0
    }

    /// Whether a disk takes longer than anything may.
    fn is_spill_late(&self) -> bool {
        self.spill_since.is_some_and(|since| since.saturating_add(self.limits.stall) <= self.now)
    }

    /// What is spilled first: the last of what a set would deliver, sets in
    /// which nobody waits before others; then what was delivered last and is unread.
    fn victim(&self) -> Option<u32> {
        let ready = self
            .sets
            .values()
            .filter_map(|set| {
                let mut last_first = set.ready.iter().rev().take(VICTIMS).map(|key| key.4);
                Some((set.asked, last_first.find(|&slot| self.may_spill(slot))?))
            })
            .min_by_key(|&(asked, slot)| (asked, std::cmp::Reverse(self.members[slot].serial)));
        if let Some((_, slot)) = ready {
            return Some(slot);
        }
        let mut next = self.held.last();
        for _ in 0..VICTIMS {
            let slot = next?;
            if self.may_spill(slot) {
                return Some(slot);
            }
            next = List::<MEMBERS>::before(&self.members, slot);
        }
        None
    }

    fn may_spill(&self, slot: u32) -> bool {
        let member = &self.members[slot];
        member.kind == Kind::Bytes
            && member.held > 0
            && member.spilling.is_none()
            && member.failed.is_none()
            && !member.over
            && member.charge() <= self.budget.spill_room()
    }

    fn spill(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        let bytes = member.charge();
        member.spilling = Some(bytes);
        self.budget.spilled += bytes;
        self.spills += 1;
        self.spill_since.get_or_insert(self.now);
        self.out.push(Action::Spill { member: member.id });
        self.queue(slot);
    }

    pub(super) fn spilled(&mut self, id: MemberId, bytes: u64) {
        let Some(&slot) = self.names.get(&id) else { return };
        let member = &mut self.members[slot];
        let Some(kept) = member.spilling.take() else { return };
        let moved = bytes.min(kept);
        let held = moved.min(member.held);
        member.held -= held;
        member.early = member.early.saturating_add(moved - held);
        member.spilled += moved;
        member.spilled_unread += moved;
        self.budget.spilled -= kept - moved;
        self.budget.spilled_total += moved;
        self.spill_ended();
        self.room_changed(slot);
    }

    pub(super) fn spill_failed(&mut self, id: MemberId, bytes: u64) {
        let is_spilling = |&slot: &u32| self.members[slot].spilling.is_some();
        if self.names.get(&id).is_some_and(is_spilling) {
            self.spill_after = self.now.saturating_add(SPILL_PAUSE);
            self.spilled(id, bytes);
        }
    }

    pub(super) fn spill_ended(&mut self) {
        self.spills -= 1;
        self.spill_since = (self.spills > 0).then_some(self.now);
        self.recheck = true;
    }
}
