//! The budget: what is fetched, or on its way, and not read.
//!
//! Every member commits room: for the bytes that are in memory and not read
//! and for those that its parts will bring. One that is read while it
//! streams commits no less than its next piece, so that its reader can always
//! go on. The commitments of all members stay within the limit, but for the
//! members *over* it. These are begun where otherwise a consumer would wait
//! for ever: its set has nothing on its way, and all room is held by what
//! other readers, or nobody, will read. There is at most one undelivered
//! member over the limit for each set in which a consumer asks, besides small
//! ones that turn out larger than their listing told, and each member over it
//! has one piece at a time: at most one and a half parts.

use super::member::Member;

/// How much of the budget is in use.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) limit: u64,
    pub(super) part_bytes: u64,
    /// Committed within the limit. Counts that a broken driver gives may be of any size.
    pub(super) committed: u128,
    /// Committed by members over the limit.
    pub(super) over: u128,
    pub(super) over_members: u32,
    pub(super) peak: u128,
    pub(super) spill_limit: u64,
    /// On disk, or about to be.
    pub(super) spilled: u64,
    pub(super) spilled_total: u64,
    /// Whether room was given back since this was last cleared.
    pub(super) freed: bool,
}

impl Budget {
    pub(super) fn new(limit: u64, spill_limit: u64, part_bytes: u64) -> Self {
        Self { limit, part_bytes, spill_limit, ..Self::default() }
    }

    /// Whether a member may have so many bytes more within the limit.
    pub(super) fn fits(&self, member: &Member, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let need = member.charge().saturating_add(bytes);
        if member.over {
            return self.holds(self.committed, need.max(member.commit));
        }
        need <= member.commit || self.holds(self.committed - u128::from(member.commit), need)
    }

    /// Whether so much more than what is committed is within the limit.
    fn holds(&self, committed: u128, bytes: u64) -> bool {
        committed + u128::from(bytes) <= u128::from(self.limit)
    }

    /// Brings a member's commitment up to date with what it has.
    pub(super) fn update(&mut self, member: &mut Member) {
        let commit = member.charge().max(self.reserve(member));
        let before = std::mem::replace(&mut member.commit, commit);
        if member.over {
            self.over = self.over - u128::from(before) + u128::from(commit);
        } else {
            self.committed -= u128::from(before);
            if commit > before && !self.holds(self.committed, commit) {
                member.over = true;
                self.over_members += 1;
                self.over += u128::from(commit);
            } else {
                self.committed += u128::from(commit);
            }
        }
        self.freed |= commit < before;
        self.settle_over(member);
        self.peak = self.peak.max(self.committed + self.over);
    }

    /// A member over the limit comes under it as soon as there is room.
    fn settle_over(&mut self, member: &mut Member) {
        if member.over && self.holds(self.committed, member.commit) {
            member.over = false;
            self.over_members -= 1;
            self.over -= u128::from(member.commit);
            self.committed += u128::from(member.commit);
        }
    }

    /// Bytes that may still be committed within the limit.
    pub(super) fn free(&self) -> u64 {
        saturated(u128::from(self.limit).saturating_sub(self.committed))
    }

    /// Bytes that are missing for so many more.
    pub(super) fn missing(&self, bytes: u64) -> u64 {
        saturated((self.committed + u128::from(bytes)).saturating_sub(u128::from(self.limit)))
    }

    /// Whether more than half is committed.
    pub(super) fn is_half_full(&self) -> bool {
        self.committed > u128::from(self.limit / 2)
    }

    /// Room that a delivered member keeps for its next piece.
    fn reserve(&self, member: &Member) -> u64 {
        if !member.is_delivered() {
            return 0;
        }
        if member.unlimited {
            return self.part_bytes;
        }
        member.next_piece(self.part_bytes).map_or(0, |piece| piece.end - piece.start)
    }

    pub(super) fn spill_room(&self) -> u64 {
        self.spill_limit.saturating_sub(self.spilled)
    }
}

/// A sum as far as 64 bits tell it.
pub(super) fn saturated(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}
