//! Handing members to consumers, and taking them back.

use super::event::{Action, Cause, Delivery, Kind, MemberId, SetId};
use super::member::{Member, Stage};
use super::scheduler::Scheduler;
use super::set::{Set, ready_key};

impl Scheduler {
    /// Delivers what can be, tells the end, and asks for names.
    pub(super) fn serve_set(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        set.dirty = false;
        if set.closed {
            return;
        }
        let mut beside = 0;
        while let Some((slot, state)) = self.next_delivery(id) {
            self.deliver(slot, state);
            beside = self.limits.batch;
        }
        while beside > 0
            && let Some(slot) = self.next_beside(id)
        {
            self.deliver(slot, Delivery::Near);
            beside -= 1;
        }
        let set = self.sets.get_mut(&id).expect("a set outlives its deliveries");
        if set.listing_ended && set.undelivered.is_empty() && !set.ended {
            set.ended = true;
            set.asked = 0;
            self.out.push(Action::End { set: id });
        }
        if let Some(names) = set.room(self.limits.lookahead) {
            set.granted += i64::from(names);
            self.out.push(Action::Expand { set: id, names });
        }
    }

    /// A member that may be delivered beside those that were asked for.
    fn next_beside(&self, id: SetId) -> Option<u32> {
        let set = self.sets.get(&id).filter(|set| set.asked == 0)?;
        let (slot, state) = self.first_of(set)?;
        (state == Delivery::Near).then_some(slot)
    }

    fn next_delivery(&self, id: SetId) -> Option<(u32, Delivery)> {
        self.first_of(self.sets.get(&id).filter(|set| set.asked > 0)?)
    }

    /// What a set delivers next, if anything can be.
    fn first_of(&self, set: &Set) -> Option<(u32, Delivery)> {
        let slot = if set.is_listed_order() {
            set.undelivered.first()?
        } else if let Some(key) = set.ready.first() {
            key.4
        } else {
            self.best_stream(set)?
        };
        let member = &self.members[slot];
        match member.stage {
            Stage::Ready => Some((slot, ready_state(member))),
            _ if self.streams(set, slot) => Some((slot, Delivery::Streaming)),
            _ => None,
        }
    }

    fn best_stream(&self, set: &Set) -> Option<u32> {
        let key = |&slot: &u32| {
            let member = &self.members[slot];
            (member.rank, std::cmp::Reverse(member.here), member.serial)
        };
        let streamable = set.streamable.iter().copied();
        streamable.filter(|&slot| self.streams(set, slot)).min_by_key(key)
    }

    /// Whether a member is handed on while its end is under way: a small one, of which others may
    /// be whole before, only where there is no choice.
    fn streams(&self, set: &Set, slot: u32) -> bool {
        let member = &self.members[slot];
        let is_small = member.is_small(self.limits.part_bytes);
        member.streamable && (!is_small || set.leaves_no_choice())
    }

    fn deliver(&mut self, slot: u32, state: Delivery) {
        let member = &mut self.members[slot];
        let (id, set_id) = (member.id, member.set);
        let key = ready_key(member, slot);
        let unlisted = state == Delivery::Failed(Cause::Unlisted);
        member.stage = Stage::Delivered;
        let set = self.sets.get_mut(&set_id).expect("a member's set");
        set.ready.remove(&key);
        set.undelivered.remove(&mut self.members, slot);
        set.asked = set.asked.saturating_sub(1);
        set.delivered += 1;
        set.lent += 1;
        if unlisted {
            set.waiting -= 1;
        } else {
            set.begun -= 1;
        }
        self.recheck = true;
        self.out.push(Action::Deliver { set: set_id, member: id, state });
        self.look_at_member(slot);
        if matches!(state, Delivery::Failed(_) | Delivery::Near) {
            let is_failed = state != Delivery::Near;
            let set = self.sets.get_mut(&set_id).expect("a member's set");
            set.failed += u64::from(is_failed);
            self.forget(slot);
            return;
        }
        let member = &mut self.members[slot];
        if member.kind == Kind::Bytes && member.held > 0 {
            self.held.push(&mut self.members, slot);
        }
        self.budget.update(&mut self.members[slot]);
        self.queue(slot);
    }

    /// All of a member is here.
    pub(super) fn check_whole(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        if member.parts.is_empty() && !member.has_rest() && member.failed.is_none() {
            member.due = 0;
            member.unlimited = false;
            if member.stage == Stage::Begun {
                self.make_ready(slot);
            }
        }
        self.budget.update(&mut self.members[slot]);
        self.look_at_member(slot);
        self.queue(slot);
    }

    pub(super) fn make_ready(&mut self, slot: u32) {
        let member = &mut self.members[slot];
        member.stage = Stage::Ready;
        let key = ready_key(member, slot);
        self.sets.get_mut(&member.set).expect("a member's set").ready.insert(key);
    }

    /// A member cannot be read: its consumer, or its reader, is told.
    pub(super) fn fail(&mut self, slot: u32, cause: Cause) {
        self.drop_parts(slot);
        let member = &mut self.members[slot];
        member.failed = Some(cause);
        member.rest = 0..0;
        member.far.clear();
        member.due = 0;
        member.unlimited = false;
        if member.is_delivered() {
            let member = member.id;
            self.out.push(Action::Break { member, cause });
        } else {
            self.make_ready(slot);
        }
        self.unqueue(slot);
        self.unpark(slot);
        self.budget.update(&mut self.members[slot]);
        self.look_at_member(slot);
    }

    pub(super) fn read(&mut self, id: MemberId, bytes: u64) {
        let Some(&slot) = self.names.get(&id) else { return };
        let member = &mut self.members[slot];
        if !member.is_delivered() {
            return;
        }
        let from_disk = bytes.min(member.spilled_unread);
        member.spilled_unread -= from_disk;
        let from_memory = (bytes - from_disk).min(member.held);
        member.held -= from_memory;
        member.early = member.early.saturating_add(bytes - from_disk - from_memory);
        self.room_changed(slot);
    }

    pub(super) fn released(&mut self, id: MemberId) {
        if let Some(&slot) = self.names.get(&id)
            && self.members[slot].is_delivered()
        {
            self.forget(slot);
        }
    }

    pub(super) fn set_closed(&mut self, id: SetId) {
        let Some(set) = self.sets.get_mut(&id).filter(|set| !set.closed) else { return };
        set.closed = true;
        set.asked = 0;
        self.forget_held(id);
        while let Some(slot) = self.sets.get(&id).and_then(|set| set.undelivered.first()) {
            let member = &mut self.members[slot];
            let (member_id, key) = (member.id, ready_key(member, slot));
            member.stage = Stage::Delivered;
            let set = self.sets.get_mut(&id).expect("the set that is closed");
            set.undelivered.remove(&mut self.members, slot);
            set.ready.remove(&key);
            set.lent += 1;
            self.look_at_member(slot);
            self.forget(slot);
            self.out.push(Action::Drop { member: member_id });
        }
        self.recheck = true;
        self.forget_set_if_done(id);
    }

    /// Removes all trace of a member that left its set's undelivered ones.
    fn forget(&mut self, slot: u32) {
        self.drop_parts(slot);
        self.unqueue(slot);
        self.unpark(slot);
        self.held.remove(&mut self.members, slot);
        let member = &mut self.members[slot];
        member.stage = Stage::Ready;
        member.rest = 0..0;
        member.far.clear();
        (member.held, member.due, member.unlimited) = (0, 0, false);
        self.budget.update(member);
        self.budget.spilled -= member.spilled;
        let (id, set_id) = (member.id, member.set);
        if let Some(bytes) = member.spilling.take() {
            self.budget.spilled -= bytes;
            self.spill_ended();
        }
        self.members.remove(slot);
        self.names.remove(&id);
        let set = self.sets.get_mut(&set_id).expect("a member's set");
        set.lent -= 1;
        if set.closed {
            self.forget_set_if_done(set_id);
        }
    }

    fn forget_set_if_done(&mut self, id: SetId) {
        if self
            .sets
            .get(&id)
            .is_some_and(|set| set.closed && set.lent == 0 && set.undelivered.is_empty())
        {
            self.sets.remove(&id);
        }
    }
}

/// In what state a ready member is delivered.
fn ready_state(member: &Member) -> Delivery {
    match member.failed {
        Some(cause) => Delivery::Failed(cause),
        None if member.kind == Kind::Cache && !member.brought => Delivery::Near,
        None => Delivery::Whole,
    }
}
