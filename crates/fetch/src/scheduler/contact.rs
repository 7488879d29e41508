//! The first contact of an attempt: what there is of a member, and what is far of it.

use std::ops::Range;

use super::event::{AttemptId, Cause, Contact, Failure, Kind};
use super::member::{PARTS, Part};
use super::scheduler::Scheduler;
use super::slab::List;

impl Scheduler {
    pub(super) fn contacted(&mut self, id: AttemptId, contact: Contact) {
        let Some(attempt) = self.attempts.find(id.0) else { return };
        self.heard(attempt);
        if self.attempts[attempt].met.replace(self.now).is_some() {
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
    pub(super) fn opened(&mut self, attempt: u32, contact: Contact) {
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
            // Where its listing told an end before the first byte that is wanted, one byte was asked for.
            let member = &mut self.members[slot];
            let wanted = member.from.saturating_add(member.early);
            member.rest.start = member.rest.start.max(wanted.min(end));
            member.early = member.early.min(1);
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
        let from = self.members[slot].from;
        let mut next = self.members[slot].parts.first();
        while let Some(part) = next {
            next = List::<PARTS>::after(&self.parts, part);
            if part != contacted || self.parts[part].start > from {
                self.cancel_attempts(part);
                self.remove_part(part);
            }
        }
        let kept = self.members[slot].parts.first();
        let keep = kept.unwrap_or_else(|| {
            let first = from..from.saturating_add(self.limits.part_bytes);
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
