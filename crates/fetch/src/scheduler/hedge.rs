//! Second attempts: at what waits unusually long for its first byte, and at the rest of what comes
//! unusually slowly. The first to bring it wins.

use super::event::Kind;
use super::member::Part;
use super::scheduler::Scheduler;
use super::set::Set;

/// One in twenty is late. Of four in a row, one in 160,000.
const HEDGES_MAX: u32 = 3;
/// How many times as long as another attempt usually takes is slow: the share of one connection in a
/// link that others use, too, comes and goes.
const SLOW: f64 = 4.0;

impl Scheduler {
    /// Starts second attempts at what waits unusually long for its first byte. A second attempt
    /// that waits as long is given up for another one; the first is kept, since some things take
    /// their time whoever asks.
    pub(super) fn hedge(&mut self, slot: u32, only_needed: bool) {
        while let Some(attempt) = self.overdue(slot) {
            if only_needed && !self.is_needed(self.parts[self.attempts[attempt].part].member) {
                break;
            }
            let device = &mut self.devices[slot as usize];
            device.unmet.remove(&mut self.attempts, attempt);
            let part_slot = self.attempts[attempt].part;
            let part = &self.parts[part_slot];
            let is_met = |&attempt: &u32| self.attempts[attempt].met.is_some();
            let may = self.may_hedge(part)
                && self.members[part.member].device == slot
                && part.attempt.is_some()
                && ![part.attempt, part.hedge].iter().flatten().any(is_met);
            if may {
                if let Some(late) = part.hedge {
                    self.cancel(late);
                }
                self.start_hedge(part_slot);
            }
        }
    }

    /// Starts a second attempt at the rest of what comes slowly, once there is a place for it.
    pub(super) fn hedge_slow(&mut self, slot: u32) {
        let device = &mut self.devices[slot as usize];
        if device.slow.is_none() || !device.has_room(self.now) || !device.may_hedge(&self.limits) {
            return;
        }
        let attempt = device.slow.take().and_then(|name| self.attempts.find(name));
        if let Some(slow) = attempt.filter(|&attempt| self.is_slow(attempt)) {
            self.start_hedge(self.attempts[slow].part);
        }
    }

    fn start_hedge(&mut self, part_slot: u32) {
        let part = &mut self.parts[part_slot];
        part.hedges += 1;
        let device = self.members[part.member].device;
        self.devices[device as usize].hedges += 1;
        self.start_attempt(part_slot, true);
    }

    /// Has its device look for a place beside an attempt that is found to be slow.
    pub(super) fn note_if_slow(&mut self, attempt: u32) {
        if self.is_slow(attempt) {
            let device = self.attempts[attempt].device;
            self.devices[device as usize].slow = Some(self.attempts.name(attempt));
            self.look_at_device(device);
        }
    }

    /// Whether somebody waits for an attempt that has taken longer than another usually does, and
    /// will take several times as long for what is left. Of a member in parts its reader waits for
    /// the first.
    fn is_slow(&self, attempt: u32) -> bool {
        let known = &self.attempts[attempt];
        let part = &self.parts[known.part];
        let member = &self.members[part.member];
        let (Some(met), None) = (known.met, part.hedge) else { return false };
        if member.kind != Kind::Bytes
            || member.device != known.device
            || member.parts.first() != Some(known.part)
            || self.is_wide(part)
        {
            return false;
        }
        let device = &self.devices[known.device as usize];
        let taken = self.now.saturating_sub(met);
        let Some(usual) = device.usual(part.allowed.saturating_sub(known.start)) else {
            return false;
        };
        let Some(another) = device.usual(part.due()) else { return false };
        let left = taken.as_secs_f64() * part.due() as f64 / known.brought as f64;
        taken > usual
            && left > another.as_secs_f64() * SLOW
            && self.may_hedge(part)
            && self.is_needed(part.member)
    }

    fn may_hedge(&self, part: &Part) -> bool {
        let member = &self.members[part.member];
        let device = &self.devices[member.device as usize];
        part.hedges < HEDGES_MAX && (self.is_told(member.set) || !device.told_waits())
    }

    /// Whether a server sends more than it was asked for: then a second attempt brings all of that,
    /// and the first may rest while its reader reads.
    fn is_wide(&self, part: &Part) -> bool {
        let longest = self.limits.part_bytes.saturating_add(self.limits.part_bytes / 2);
        part.end.saturating_sub(part.start) > longest
    }

    /// An attempt has brought all that it was for: so fast its device is.
    pub(super) fn was_brought(&mut self, attempt: u32) {
        let known = &self.attempts[attempt];
        let part = &self.parts[known.part];
        if let Some(met) = known.met
            && self.members[part.member].kind == Kind::Bytes
            && !self.is_wide(part)
        {
            let bytes = part.end.saturating_sub(known.start);
            let time = self.now.saturating_sub(met);
            self.devices[known.device as usize].brought(bytes, time);
        }
    }

    /// Whether somebody waits for this member and cannot have another instead, but for others that
    /// are on their way.
    fn is_needed(&self, slot: u32) -> bool {
        let member = &self.members[slot];
        let is_next = |set: &Set| {
            let is_first = set.undelivered.first() == Some(slot);
            set.asked > 0 && if set.is_listed_order() { is_first } else { set.waiting == 0 }
        };
        member.is_delivered() || self.sets.get(&member.set).is_some_and(is_next)
    }

    fn overdue(&self, slot: u32) -> Option<u32> {
        let device = &self.devices[slot as usize];
        let attempt = device.unmet.first()?;
        let due = self.attempts[attempt].started.saturating_add(device.hedge_after()?);
        let may = due <= self.now && device.has_room(self.now) && device.may_hedge(&self.limits);
        may.then_some(attempt)
    }
}
