//! Bytes that attempts bring, and what they complete.

use super::event::{Action, AttemptId, Contact, Kind};
use super::scheduler::Scheduler;

impl Scheduler {
    pub(super) fn submitted(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        let known = &mut self.attempts[attempt];
        if known.is_beside || known.rests || known.submitted.is_some() {
            return;
        }
        let bytes = self.parts[known.part].due();
        known.submitted = Some(bytes);
        let device = known.device;
        self.devices[device as usize].is_asked_for(bytes);
        self.look_at_device(device);
    }

    pub(super) fn progressed(&mut self, id: AttemptId, bytes: u64) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        self.heard(attempt);
        let known = &mut self.attempts[attempt];
        known.brought = known.brought.saturating_add(bytes);
        let reach = known.start.saturating_add(known.brought);
        let covers_end = known.covers_end;
        let device = &mut self.devices[known.device as usize];
        device.window.brought(bytes);
        device.refused_in_turn = 0;
        let part_slot = known.part;
        if self.parts[part_slot].opens {
            return;
        }
        self.advance(part_slot, reach);
        let part = &self.parts[part_slot];
        if part.done >= part.end && covers_end > part.end {
            self.completed(attempt);
            self.out.push(Action::Cancel { attempt: id });
            self.complete_part(part_slot);
            return;
        }
        if reach >= part.allowed && part.allowed < part.end {
            self.rest(attempt);
        }
        self.extend_if_due(part_slot);
        self.note_if_slow(attempt);
    }

    /// An attempt brought what it may: it waits for us, not we for it.
    fn rest(&mut self, attempt: u32) {
        self.silent.remove(&mut self.attempts, attempt);
        let part = &self.parts[self.attempts[attempt].part];
        // Of two at the same, the first to come this far goes on; both might never find room.
        for other in [part.attempt, part.hedge].into_iter().flatten() {
            if other != attempt {
                self.cancel(other);
            }
        }
        let known = &mut self.attempts[attempt];
        if !std::mem::replace(&mut known.rests, true) {
            let device_slot = known.device;
            let device = &mut self.devices[device_slot as usize];
            device.has_brought(known.submitted.take());
            device.window.ended(self.now);
            self.look_at_device(device_slot);
            // Others rest, too, and wait for a place.
            self.recheck = true;
        }
    }

    /// The bytes of a part are here to this offset.
    fn advance(&mut self, part_slot: u32, reach: u64) {
        let part = &mut self.parts[part_slot];
        let slot = part.member;
        let reach = reach.min(part.end);
        let growth = reach.saturating_sub(part.done);
        if growth == 0 {
            return;
        }
        let before = part.due();
        part.done = reach;
        // More than was allowed is counted as well: it is here.
        part.allowed = part.allowed.max(reach);
        let member = &mut self.members[slot];
        member.due = member.due.saturating_sub(before - part.due());
        member.here = member.here.saturating_add(growth);
        self.hold(slot, growth);
    }

    /// Bytes of a member came into memory.
    fn hold(&mut self, slot: u32, bytes: u64) {
        let is_unread = self.is_large_guess(slot);
        let member = &mut self.members[slot];
        member.brought = true;
        let taken = if is_unread { bytes } else { bytes.min(member.early) };
        member.early -= taken.min(member.early);
        member.held = member.held.saturating_add(bytes - taken);
        let lent = member.is_delivered() && member.kind == Kind::Bytes && member.held > 0;
        self.budget.update(member);
        if lent {
            self.held.push(&mut self.members, slot);
        } else {
            self.look_at_member(slot);
        }
        if taken > 0 {
            self.room_changed(slot);
        }
    }

    pub(super) fn finished(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        let part_slot = self.attempts[attempt].part;
        if self.parts[part_slot].opens {
            let member = &self.members[self.parts[part_slot].member];
            let device = self.devices[member.device as usize].id;
            let contact =
                Contact { device, size: member.size, far: Vec::new(), covers: 0..0, position: 0 };
            self.opened(attempt, contact);
            return;
        }
        if self.attempts[attempt].met.is_none() {
            self.first_byte(attempt);
        }
        self.was_brought(attempt);
        self.completed(attempt);
        let part = &mut self.parts[part_slot];
        let member = &mut self.members[part.member];
        if member.kind == Kind::Bytes && member.size.is_none() {
            member.size = Some(part.done);
            part.end = part.done;
            member.due = member.due.saturating_sub(part.allowed - part.done);
            part.allowed = part.done;
            member.rest = part.end..part.end;
        }
        member.pinned = true;
        self.complete_part(part_slot);
    }

    /// A part is here whole.
    pub(super) fn complete_part(&mut self, part_slot: u32) {
        self.cancel_attempts(part_slot);
        let end = self.parts[part_slot].end;
        let slot = self.parts[part_slot].member;
        self.advance(part_slot, end);
        self.remove_part(part_slot);
        self.check_whole(slot);
    }
}
