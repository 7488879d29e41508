//! Places in flight: who has room for one, and who loses his to what was told.

use super::attempt::SILENT;
use super::scheduler::Scheduler;
use super::slab::List;

impl Scheduler {
    /// Whether there is a place in flight for the next of a member.
    pub(super) fn has_place(&self, slot: u32) -> bool {
        let member = &self.members[slot];
        let device = &self.devices[member.device as usize];
        if member.is_to_be_opened() {
            device.has_room_to_open(self.now)
        } else {
            device.has_room(self.now)
        }
    }

    /// Whether something guessed may lose its place to a member.
    pub(super) fn may_push_out(&self, slot: u32) -> bool {
        let member = &self.members[slot];
        let device = &self.devices[member.device as usize];
        let told = self.sets.get(&member.set).is_some_and(super::set::Set::is_told);
        // What is opened beside the window waits for no guess, but for one that has the head.
        let opens_beside = device.opens_max > 0 && member.is_to_be_opened();
        let waits = !opens_beside || (device.by_position && !device.is_at_told());
        told && waits && device.gives_way(self.now)
    }

    /// Whether there is a place for the next of a member, if need be one that something guessed had.
    pub(super) fn takes_place(&mut self, slot: u32) -> bool {
        self.has_place(slot)
            || (self.may_push_out(slot)
                && self.push_out_guessed(self.members[slot].device)
                && self.has_place(slot))
    }

    /// Ends an attempt at something guessed that nobody reads, the last that
    /// was heard of; it is begun again when there is a place.
    fn push_out_guessed(&mut self, device: u32) -> bool {
        let mut next = self.silent.last();
        while let Some(attempt) = next {
            next = List::<SILENT>::before(&self.attempts, attempt);
            let known = &self.attempts[attempt];
            let part = known.part;
            let slot = self.parts[part].member;
            let member = &self.members[slot];
            let told = self.sets.get(&member.set).is_none_or(super::set::Set::is_told);
            if known.device != device || known.is_beside || told || member.is_delivered() {
                continue;
            }
            self.cancel(attempt);
            if !self.parts[part].is_tried() {
                self.set_idle(part, true);
            }
            self.queue(slot);
            return true;
        }
        false
    }
}
