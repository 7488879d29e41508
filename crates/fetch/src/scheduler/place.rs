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
        if self.has_place(slot) {
            return true;
        }
        if !self.may_push_out(slot) || !self.can_push_out_enough(slot) {
            return false;
        }
        let device = self.members[slot].device;
        while !self.has_place(slot) && self.push_out_guessed(device) {}
        self.has_place(slot)
    }

    /// Whether a member would have a place if all that may go had gone. Of a head it wants to open with,
    /// all has to go: were it only some, they would be begun again, and be pushed out again.
    fn can_push_out_enough(&self, slot: u32) -> bool {
        let member = &self.members[slot];
        let device = &self.devices[member.device as usize];
        if !device.by_position || device.opens_max == 0 || !member.is_to_be_opened() {
            return true;
        }
        let mut may_go = 0;
        let mut next = self.silent.last();
        while let Some(attempt) = next {
            next = List::<SILENT>::before(&self.attempts, attempt);
            may_go += u32::from(self.may_be_pushed_out(attempt, member.device));
        }
        may_go == device.window.in_flight()
    }

    /// Whether an attempt is at something guessed that nobody reads, and has a place of a device.
    fn may_be_pushed_out(&self, attempt: u32, device: u32) -> bool {
        let attempt = &self.attempts[attempt];
        let member = &self.members[self.parts[attempt.part].member];
        let told = self.sets.get(&member.set).is_none_or(super::set::Set::is_told);
        attempt.device == device && !attempt.is_beside && !told && !member.is_delivered()
    }

    /// Ends an attempt at something guessed that nobody reads, the last that
    /// was heard of; it is begun again when there is a place.
    fn push_out_guessed(&mut self, device: u32) -> bool {
        let mut next = self.silent.last();
        while let Some(attempt) = next {
            next = List::<SILENT>::before(&self.attempts, attempt);
            if !self.may_be_pushed_out(attempt, device) {
                continue;
            }
            let part = self.attempts[attempt].part;
            let slot = self.parts[part].member;
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
