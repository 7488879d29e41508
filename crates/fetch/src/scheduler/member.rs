//! A member between its listing and its release, and the parts of it that are on their way.

use std::ops::Range;
use std::time::Duration;

use super::event::{Cause, Kind, MemberId, SetId};
use super::queue::Place;
use super::slab::{Link, Linked, List};

/// Where a member is on its way to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Listed, nothing was begun.
    Waiting,
    /// Something was begun.
    Begun,
    /// All is near, or it failed: it waits for a consumer.
    Ready,
    /// It is its reader's.
    Delivered,
}

/// What the scheduler knows of a member.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) set: SetId,
    /// Its place in the listing, over all sets.
    pub(super) serial: u64,
    pub(super) device: u32,
    pub(super) kind: Kind,
    /// Lower is sooner: see [`rank_key`].
    pub(super) rank: u64,
    pub(super) size: Option<u64>,
    /// The first byte that is wanted.
    pub(super) from: u64,
    /// Whether contact was made: `size` is then what it is read as.
    pub(super) pinned: bool,
    pub(super) position: u64,
    pub(super) stage: Stage,
    pub(super) failed: Option<Cause>,
    /// Begun when.
    pub(super) since: Duration,

    /// What no part was begun for, the next of it.
    pub(super) rest: Range<u64>,
    /// What comes after `rest`, the last first.
    pub(super) far: Vec<Range<u64>>,
    pub(super) parts: List<PARTS>,
    /// Parts that wait for an attempt.
    pub(super) idle: u32,

    /// Bytes that a reader finds near.
    pub(super) here: u64,
    /// Whether some of these were brought.
    pub(super) brought: bool,
    /// Bytes in memory that nobody has read.
    pub(super) held: u64,
    /// Bytes that parts will bring, room for them being kept.
    pub(super) due: u64,
    /// Bytes on disk, until release.
    pub(super) spilled: u64,
    /// Of those, what nobody has read.
    pub(super) spilled_unread: u64,
    /// What a spill in progress may come to.
    pub(super) spilling: Option<u64>,
    /// Room that this member takes of the budget, or beyond it if `over`.
    pub(super) commit: u64,
    pub(super) over: bool,

    /// Where it waits for a start.
    pub(super) place: Option<Place>,
    /// Whether its set counts it among those that move: see [`super::set::Set::moving`].
    pub(super) moving: bool,
    pub(super) streamable: bool,
    /// Whether one attempt brings all of it, however much: see `Action::Extend`.
    pub(super) unlimited: bool,
    /// Bytes that its reader took or wants none of, or that moved to disk, before they were told of.
    pub(super) early: u64,
    /// Whether its delivered reader waits for room: see `parked`.
    pub(super) parked: bool,
    /// In its set's undelivered members, then among those held by readers.
    pub(super) link: Link,
}

/// The list of a set's undelivered members, or of the delivered ones that hold memory.
pub(super) const MEMBERS: usize = 0;
/// The list of a member's parts.
pub(super) const PARTS: usize = 1;

impl Linked<MEMBERS> for Member {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn link_of(&self) -> Link {
        self.link
    }
}

impl Member {
    pub(super) fn new(id: MemberId, set: SetId, kind: Kind, now: Duration) -> Self {
        Self {
            id,
            set,
            serial: 0,
            device: 0,
            kind,
            rank: rank_key(0.0),
            size: None,
            from: 0,
            pinned: false,
            position: 0,
            stage: Stage::Waiting,
            failed: None,
            since: now,
            rest: 0..0,
            far: Vec::new(),
            parts: List::default(),
            idle: 0,
            here: 0,
            brought: false,
            held: 0,
            due: 0,
            spilled: 0,
            spilled_unread: 0,
            spilling: None,
            commit: 0,
            over: false,
            place: None,
            moving: false,
            streamable: false,
            unlimited: false,
            early: 0,
            parked: false,
            link: Link::default(),
        }
    }

    pub(super) fn is_delivered(&self) -> bool {
        self.stage == Stage::Delivered
    }

    /// Whether it is a name that could not be listed: ready as an error, and never begun.
    pub(super) fn is_unlisted(&self) -> bool {
        self.failed == Some(Cause::Unlisted)
    }

    /// Bytes that are in memory and unread, or on their way.
    pub(super) fn charge(&self) -> u64 {
        self.held.saturating_add(self.due)
    }

    /// Whether something of it could be begun that was not yet.
    pub(super) fn has_rest(&self) -> bool {
        !self.rest.is_empty() || !self.far.is_empty()
    }

    /// Takes the next piece out of what was not begun: `part_bytes`, or up to
    /// half as much again where that is all.
    pub(super) fn next_piece(&self, part_bytes: u64) -> Option<Range<u64>> {
        let next = if self.rest.is_empty() { self.far.last()? } else { &self.rest };
        let longest = part_bytes.saturating_add(part_bytes / 2);
        let end = if next.end - next.start <= longest { next.end } else { next.start + part_bytes };
        Some(next.start..end)
    }

    /// Removes what [`Self::next_piece`] told from what was not begun.
    pub(super) fn take_piece(&mut self, piece: &Range<u64>) {
        if self.rest.is_empty()
            && let Some(next) = self.far.pop()
        {
            self.rest = next;
        }
        self.rest.start = piece.end;
        if self.rest.is_empty()
            && let Some(next) = self.far.pop()
        {
            self.rest = next;
        }
    }

    /// Whether the next of it is its opening.
    pub(super) fn is_to_be_opened(&self) -> bool {
        self.kind == Kind::Cache && !self.pinned
    }

    /// Whether its first bytes are of use before its last are here: of a small one only to who
    /// can have no other, see [`super::set::Set::leaves_no_choice`].
    pub(super) fn may_stream(&self, part_bytes: u64) -> bool {
        self.pinned
            && self.here > 0
            && self.failed.is_none()
            && self.stage == Stage::Begun
            && (self.kind == Kind::Bytes || !self.is_small(part_bytes))
    }

    /// Whether room is taken for all of it at once, as soon as contact has
    /// told what that is: a small member comes soon, or is of use only whole.
    pub(super) fn is_small(&self, part_bytes: u64) -> bool {
        self.pinned && self.size.is_some_and(|size| size <= part_bytes)
    }

    /// Whether it can go on without more room.
    pub(super) fn is_pressing(&self, part_bytes: u64) -> bool {
        self.is_delivered() || self.idle > 0 || (self.is_small(part_bytes) && self.due > 0)
    }

    /// Bytes that nothing was begun for.
    pub(super) fn unbegun(&self) -> u64 {
        let ranges = self.far.iter().chain(std::iter::once(&self.rest));
        ranges.fold(0u64, |sum, range| sum.saturating_add(range.end.saturating_sub(range.start)))
    }
}

/// A rank as a number that is lower for what is sooner; what is no number counts as 0.
pub(super) fn rank_key(rank: f64) -> u64 {
    let rank = if rank.is_nan() { 0.0 } else { rank + 0.0 };
    let bits = rank.to_bits();
    let ascending = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
    !ascending
}

/// A range of a member that is on its way, or its opening.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Part {
    pub(super) member: u32,
    pub(super) opens: bool,
    pub(super) start: u64,
    /// To where its bytes are here.
    pub(super) done: u64,
    /// To where it may bring bytes.
    pub(super) allowed: u64,
    /// To where it goes; beyond `allowed` only if its server sends more than it was asked for.
    pub(super) end: u64,
    /// To where its bytes were here when its attempts began to be counted.
    pub(super) counted_at: u64,
    /// Attempts that failed since.
    pub(super) failures: u32,
    /// Attempts that were turned away since.
    pub(super) refusals: u32,
    /// An attempt met what no other would change, while another was under way.
    pub(super) is_hopeless: bool,
    pub(super) attempt: Option<u32>,
    pub(super) hedge: Option<u32>,
    /// Second attempts that were begun.
    pub(super) hedges: u32,
    pub(super) retry_at: Option<Duration>,
    /// Waits for an attempt.
    pub(super) idle: bool,
    /// Waits for room to go on: see `Action::Extend`.
    pub(super) wants_more: bool,
    pub(super) link: Link,
}

impl Linked<PARTS> for Part {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn link_of(&self) -> Link {
        self.link
    }
}

impl Part {
    pub(super) fn new(member: u32, range: Range<u64>) -> Self {
        Self {
            member,
            opens: false,
            start: range.start,
            done: range.start,
            allowed: range.end,
            end: range.end,
            counted_at: range.start,
            failures: 0,
            refusals: 0,
            is_hopeless: false,
            attempt: None,
            hedge: None,
            hedges: 0,
            retry_at: None,
            idle: false,
            wants_more: false,
            link: Link::default(),
        }
    }

    /// Whether one attempt, or two, are at it.
    pub(super) fn is_tried(&self) -> bool {
        self.attempt.is_some() || self.hedge.is_some()
    }

    /// Bytes that room is kept for.
    pub(super) fn due(&self) -> u64 {
        self.allowed.saturating_sub(self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(rest: Range<u64>) -> Member {
        let mut member = Member::new(MemberId(1), SetId(1), Kind::Bytes, Duration::ZERO);
        member.rest = rest;
        member
    }

    fn pieces(mut member: Member, part_bytes: u64) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        while let Some(piece) = member.next_piece(part_bytes) {
            member.take_piece(&piece);
            pieces.push((piece.start, piece.end));
        }
        pieces
    }

    #[test]
    fn pieces_are_parts_and_the_last_takes_what_is_less_than_half_of_one() {
        assert_eq!(pieces(member(0..15), 10), [(0, 15)]);
        assert_eq!(pieces(member(0..16), 10), [(0, 10), (10, 16)]);
        assert_eq!(pieces(member(0..34), 10), [(0, 10), (10, 20), (20, 34)]);
        assert_eq!(pieces(member(0..0), 10), []);
    }

    #[test]
    fn far_ranges_are_taken_in_file_order() {
        let mut member = member(4..8);
        member.far = vec![40..65, 12..20];
        assert_eq!(pieces(member, 10), [(4, 8), (12, 20), (40, 50), (50, 65)]);
    }

    #[test]
    fn ranks_order_downwards() {
        let ranks = [f64::INFINITY, 7.0, 1e-9, 0.0, -0.5, -3.0, f64::NEG_INFINITY];
        assert!(ranks.windows(2).all(|pair| rank_key(pair[0]) < rank_key(pair[1])));
        assert_eq!(rank_key(f64::NAN), rank_key(0.0));
        assert_eq!(rank_key(-0.0), rank_key(0.0));
    }
}
