//! What becomes of attempts.

use std::ops::Range;
use std::time::Duration;

use super::event::{Action, AttemptId, Cause, Contact, Failure, Kind};
use super::member::{PARTS, Part};
use super::scheduler::Scheduler;
use super::slab::List;

/// How often a part is turned away before that counts as a failure.
const REFUSALS_MAX: u32 = 16;
/// The longest that a server is left alone when it asks for it: with
/// [`REFUSALS_MAX`], a quarter of an hour for one part.
const PATIENCE: Duration = Duration::from_mins(1);
/// The longest pause before another attempt.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

impl Scheduler {
    pub(super) fn contacted(&mut self, id: AttemptId, contact: Contact) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        self.heard(attempt);
        if std::mem::replace(&mut self.attempts[attempt].contacted, true) {
            return;
        }
        let part = self.attempts[attempt].part;
        let slot = self.parts[part].member;
        if self.parts[part].opens {
            self.opened(attempt, contact);
            return;
        }
        self.first_byte(attempt);
        if self.members[slot].kind == Kind::Cache {
            return;
        }
        let mut contact = contact;
        if contact.covers.is_empty() {
            let part = &self.parts[part];
            let end = if contact.size.is_none() { u64::MAX } else { part.allowed };
            contact.covers = part.done..end;
        }
        if contact.far.is_empty() {
            self.found_empty(attempt);
            return;
        }
        if !self.members[slot].pinned {
            self.pin(attempt, &contact);
        }
        if let Some(attempt) = self.attempts.find(id.0) {
            self.check_cover(attempt, &contact.covers);
        }
    }

    /// A member was opened: its opening is over, and tells what is far.
    fn opened(&mut self, attempt: u32, contact: Contact) {
        let part = self.attempts[attempt].part;
        let slot = self.parts[part].member;
        self.completed(attempt);
        self.cancel_attempts(part);
        self.remove_part(part);
        let device = self.device_slot(contact.device);
        let member = &mut self.members[slot];
        member.device = device;
        member.size = contact.size;
        member.position = contact.position;
        member.pinned = true;
        member.far = in_order(contact.far, contact.size);
        member.rest = member.far.pop().unwrap_or(0..0);
        member.here = contact.size.map_or(0, |size| size.saturating_sub(member.unbegun()));
        self.check_whole(slot);
    }

    /// The store says that there is nothing to fetch.
    fn found_empty(&mut self, attempt: u32) {
        let part = self.attempts[attempt].part;
        let slot = self.parts[part].member;
        if self.members[slot].pinned {
            self.end_attempt(attempt);
            self.part_failed(part, Failure::Transient, Cause::Failed);
            return;
        }
        self.completed(attempt);
        self.drop_parts(slot);
        let member = &mut self.members[slot];
        member.pinned = true;
        member.size = Some(0);
        member.rest = 0..0;
        self.check_whole(slot);
    }

    /// The first contact with a member of [`Kind::Bytes`] tells what there is to fetch.
    fn pin(&mut self, attempt: u32, contact: &Contact) {
        let part = self.attempts[attempt].part;
        let slot = self.parts[part].member;
        let device = self.device_slot(contact.device);
        let end = contact.size.unwrap_or(u64::MAX);
        let member = &mut self.members[slot];
        member.pinned = true;
        member.device = device;
        member.position = contact.position;
        member.size = contact.size;
        member.rest = member.rest.start.min(end)..end;
        let covers = &contact.covers;
        let wider = covers.start < self.parts[part].start
            || covers.end.min(end) > self.parts[part].end.min(end);
        if contact.size.is_none() || wider {
            self.take_whole(part, end);
        } else {
            self.cut_parts(slot, end);
        }
        let member = &mut self.members[slot];
        if member.is_small(self.limits.part_bytes) {
            // More than its listing told.
            member.due = member.due.saturating_add(member.unbegun());
        }
        self.check_whole(slot);
    }

    /// The server sends all of a member in one: an attempt at its beginning
    /// brings it, the others end.
    fn take_whole(&mut self, contacted: u32, end: u64) {
        let slot = self.parts[contacted].member;
        let mut next = self.members[slot].parts.first();
        while let Some(part) = next {
            next = List::<PARTS>::after(&self.parts, part);
            if part != contacted || self.parts[part].start > 0 {
                self.cancel_attempts(part);
                self.remove_part(part);
            }
        }
        let kept = self.members[slot].parts.first();
        let keep = kept.unwrap_or_else(|| {
            let first = 0..self.limits.part_bytes;
            let keep = self.parts.insert(Part::new(slot, first));
            self.members[slot].parts.push(&mut self.parts, keep);
            self.set_idle(keep, true);
            keep
        });
        let part = &mut self.parts[keep];
        let member = &mut self.members[slot];
        if kept.is_some() {
            member.due = member.due.saturating_sub(part.due());
        }
        part.end = end;
        part.allowed = part.allowed.min(end);
        member.due = member.due.saturating_add(part.due());
        member.rest = end..end;
        member.unlimited = part.allowed < part.end;
        self.budget.update(&mut self.members[slot]);
        self.queue(slot);
    }

    /// A member ends here: what was begun beyond its end is not needed.
    fn cut_parts(&mut self, slot: u32, end: u64) {
        let mut next = self.members[slot].parts.first();
        while let Some(part) = next {
            next = List::<PARTS>::after(&self.parts, part);
            let cut = &mut self.parts[part];
            if cut.end <= end {
                continue;
            }
            let before = cut.due();
            cut.end = end.max(cut.done);
            cut.allowed = cut.allowed.min(cut.end);
            let member = &mut self.members[slot];
            member.due = member.due.saturating_sub(before - cut.due());
            if cut.done >= end {
                self.cancel_attempts(part);
                self.remove_part(part);
            }
        }
        self.budget.update(&mut self.members[slot]);
    }

    /// Notes from where to where an attempt brings bytes. One that leaves a
    /// gap is of no use.
    fn check_cover(&mut self, attempt: u32, covers: &Range<u64>) {
        let part_slot = self.attempts[attempt].part;
        let part = &mut self.parts[part_slot];
        if covers.is_empty() {
            return;
        }
        if covers.start > part.done || covers.end <= part.done {
            self.cancel(attempt);
            self.part_failed(part_slot, Failure::Transient, Cause::Failed);
            return;
        }
        self.attempts[attempt].start = covers.start;
        self.attempts[attempt].covers_end = covers.end;
        let slot = part.member;
        if covers.end < part.end && part.allowed < part.end && part.end < u64::MAX {
            // Ranges are served after all.
            self.members[slot].rest = covers.end..part.end;
            part.end = covers.end;
            let before = part.due();
            part.allowed = part.allowed.min(part.end);
            let less = before - part.due();
            let member = &mut self.members[slot];
            member.due = member.due.saturating_sub(less);
            member.unlimited = part.allowed < part.end;
            self.budget.update(&mut self.members[slot]);
            self.queue(slot);
        }
        self.extend_if_due(part_slot);
    }

    pub(super) fn progressed(&mut self, id: AttemptId, bytes: u64) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        self.heard(attempt);
        let known = &mut self.attempts[attempt];
        known.brought = known.brought.saturating_add(bytes);
        let reach = known.start.saturating_add(known.brought);
        let covers_end = known.covers_end;
        self.devices[known.device as usize].window.brought(bytes);
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
            let device = known.device;
            self.devices[device as usize].window.ended(self.now);
            self.look_at_device(device);
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
        let member = &mut self.members[slot];
        let taken = bytes.min(member.early);
        member.early -= taken;
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
        if !self.attempts[attempt].contacted {
            self.first_byte(attempt);
        }
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
    fn complete_part(&mut self, part_slot: u32) {
        self.cancel_attempts(part_slot);
        let end = self.parts[part_slot].end;
        let slot = self.parts[part_slot].member;
        self.advance(part_slot, end);
        self.remove_part(part_slot);
        self.check_whole(slot);
    }

    pub(super) fn attempt_failed(&mut self, id: AttemptId, failure: Failure) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        let part = self.attempts[attempt].part;
        if let Failure::Busy { retry_after } = failure {
            self.refused(self.attempts[attempt].device, retry_after);
        }
        self.end_attempt(attempt);
        self.part_failed(part, failure, Cause::Failed);
    }

    fn refused(&mut self, device: u32, retry_after: Option<Duration>) {
        let pause = retry_after.unwrap_or(self.limits.backoff).min(PATIENCE);
        let device = &mut self.devices[device as usize];
        device.refusals += 1;
        device.window.brake(self.now);
        device.paused_until = device.paused_until.max(self.now.saturating_add(pause));
        device.is_paused = true;
    }

    /// An attempt at a part ended without it.
    pub(super) fn part_failed(&mut self, part_slot: u32, failure: Failure, cause: Cause) {
        let part = &mut self.parts[part_slot];
        let slot = part.member;
        if failure == Failure::Final {
            self.fail(slot, cause);
            return;
        }
        if part.is_tried() {
            return;
        }
        if !part.opens && part.done >= part.end {
            self.complete_part(part_slot);
            return;
        }
        if matches!(failure, Failure::Busy { .. }) && part.refusals < REFUSALS_MAX {
            part.refusals += 1;
        } else {
            part.failures += 1;
        }
        let (failures, refusals) = (part.failures, part.refusals);
        if failures >= self.limits.attempts_max {
            self.fail(slot, cause);
            return;
        }
        self.devices[self.members[slot].device as usize].retries += 1;
        let name = self.parts.name(part_slot);
        let at = self.now.saturating_add(self.pause_before(failures.max(refusals), name));
        self.parts[part_slot].retry_at = Some(at);
        self.retries.push(std::cmp::Reverse((at, name)));
    }

    /// Doubles with every failure; a part's own share of up to a half more
    /// keeps those that failed together from coming back together.
    fn pause_before(&self, failures: u32, name: u64) -> Duration {
        let doubled = 1u32 << failures.saturating_sub(1).min(20);
        let pause = self.limits.backoff.saturating_mul(doubled).min(BACKOFF_MAX);
        let share = (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as f64 / 1024.0;
        pause.saturating_add(pause.mul_f64(share / 2.0))
    }

    /// Something was heard of an attempt.
    pub(super) fn heard(&mut self, attempt: u32) {
        self.attempts[attempt].heard = self.now;
        self.silent.remove(&mut self.attempts, attempt);
        self.silent.push(&mut self.attempts, attempt);
    }

    fn first_byte(&mut self, attempt: u32) {
        let known = &self.attempts[attempt];
        let device = &mut self.devices[known.device as usize];
        device.latency.push(self.now.saturating_sub(known.started));
        device.unmet.remove(&mut self.attempts, attempt);
    }

    /// An attempt brought what it was for.
    fn completed(&mut self, attempt: u32) {
        let known = &self.attempts[attempt];
        let device = &mut self.devices[known.device as usize];
        device.hedges_won += u64::from(known.is_hedge);
        if !known.is_beside {
            device.window.completed(self.now, device.latency.median());
        }
        self.end_attempt(attempt);
    }

    /// An attempt is over: its place in the window is free.
    fn end_attempt(&mut self, attempt: u32) {
        let device_slot = self.attempts[attempt].device;
        let device = &mut self.devices[device_slot as usize];
        device.unmet.remove(&mut self.attempts, attempt);
        self.silent.remove(&mut self.attempts, attempt);
        let ended = &self.attempts[attempt];
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
        if let Some(lane) = device.lanes.iter_mut().find(|lane| lane.set == set) {
            lane.in_flight -= 1;
        }
        device.drop_lane_if_empty(set);
        self.look_at_device(device_slot);
    }

    pub(super) fn cancel(&mut self, attempt: u32) {
        self.out.push(Action::Cancel { attempt: AttemptId(self.attempts.name(attempt)) });
        self.end_attempt(attempt);
    }

    fn cancel_attempts(&mut self, part: u32) {
        for attempt in [self.parts[part].attempt, self.parts[part].hedge].into_iter().flatten() {
            self.cancel(attempt);
        }
    }

    fn remove_part(&mut self, part_slot: u32) {
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

/// Ranges in file order within the size, without overlap, the last first.
fn in_order(mut ranges: Vec<Range<u64>>, size: Option<u64>) -> Vec<Range<u64>> {
    let end = size.unwrap_or(u64::MAX);
    let sound = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start)
        && ranges.iter().all(|range| range.start < range.end && range.end <= end);
    if !sound {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut from = 0;
        for range in &mut ranges {
            range.end = range.end.min(end);
            range.start = range.start.max(from);
            from = from.max(range.end);
        }
        ranges.retain(|range| range.start < range.end);
    }
    ranges.reverse();
    ranges
}
