//! The end of attempts and parts, whatever ends them.

use super::event::{Action, AttemptId};
use super::scheduler::Scheduler;

impl Scheduler {
    /// Something was heard of an attempt.
    pub(super) fn heard(&mut self, attempt: u32) {
        let device = self.attempts[attempt].device;
        self.devices[device as usize].heard = Some(self.now);
        self.is_silent_from_now(attempt);
    }

    /// An attempt has waited for its driver: that is not its device's silence, unless nothing is heard
    /// of those that it waits behind. It may have been begun since, and wait for us.
    pub(super) fn waited(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        let known = &self.attempts[attempt];
        if known.rests || known.met.is_some() {
            return;
        }
        let heard = self.devices[known.device as usize].heard;
        if heard.is_some_and(|at| at.saturating_add(self.limits.stall) > self.now) {
            self.is_silent_from_now(attempt);
        }
    }

    /// Something of an attempt is waited for from now on.
    pub(super) fn is_silent_from_now(&mut self, attempt: u32) {
        self.attempts[attempt].heard = self.now;
        self.silent.remove(&mut self.attempts, attempt);
        self.silent.push(&mut self.attempts, attempt);
    }

    pub(super) fn first_byte(&mut self, attempt: u32) {
        let known = &self.attempts[attempt];
        let device = &mut self.devices[known.device as usize];
        device.latency.push(self.now.saturating_sub(known.started), 1.0);
        device.unmet.remove(&mut self.attempts, attempt);
    }

    /// An attempt brought what it was for.
    pub(super) fn completed(&mut self, attempt: u32) {
        let known = &self.attempts[attempt];
        let device = &mut self.devices[known.device as usize];
        device.hedges_won += u64::from(known.is_hedge);
        device.refused_in_turn = 0;
        if !known.is_beside {
            device.window.completed(self.now, device.latency.median());
        }
        self.end_attempt(attempt);
    }

    /// An attempt is over: its place in the window is free.
    pub(super) fn end_attempt(&mut self, attempt: u32) {
        let device_slot = self.attempts[attempt].device;
        let device = &mut self.devices[device_slot as usize];
        device.unmet.remove(&mut self.attempts, attempt);
        self.silent.remove(&mut self.attempts, attempt);
        let ended = &self.attempts[attempt];
        device.has_brought(ended.submitted);
        if ended.is_beside {
            device.opens -= 1;
        } else if !ended.rests {
            device.window.ended(self.now);
        }
        let (part, is_hedge) = (ended.part, ended.is_hedge);
        self.attempts.remove(attempt);
        self.recheck |= !self.extends.is_empty();
        let part = &mut self.parts[part];
        *(if is_hedge { &mut part.hedge } else { &mut part.attempt }) = None;
        let set = self.members[part.member].set;
        if let Some(lane) = device.lanes.get_mut(&set) {
            lane.in_flight -= 1;
        }
        device.drop_lane_if_empty(set);
        self.look_at_device(device_slot);
    }

    pub(super) fn cancel(&mut self, attempt: u32) {
        self.out.push(Action::Cancel { attempt: AttemptId(self.attempts.name(attempt)) });
        self.end_attempt(attempt);
    }

    pub(super) fn cancel_attempts(&mut self, part: u32) {
        for attempt in [self.parts[part].attempt, self.parts[part].hedge].into_iter().flatten() {
            self.cancel(attempt);
        }
    }

    pub(super) fn remove_part(&mut self, part_slot: u32) {
        self.set_idle(part_slot, false);
        let part = &self.parts[part_slot];
        let slot = part.member;
        let member = &mut self.members[slot];
        if !part.opens {
            member.due = member.due.saturating_sub(part.due());
        }
        member.parts.remove(&mut self.parts, part_slot);
        self.parts.remove(part_slot);
    }

    /// Ends all that is on its way of a member.
    pub(super) fn drop_parts(&mut self, slot: u32) {
        while let Some(part) = self.members[slot].parts.first() {
            self.cancel_attempts(part);
            self.remove_part(part);
        }
    }
}
