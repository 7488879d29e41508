//! What waits for a start on a device, by set.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::event::SetId;

/// The order of starts in a set: what a reader waits for, the highest rank,
/// then as listed or by position. The last number is the member's slot.
pub(super) type Key = (u8, u64, u64, u32);

/// The first of [`Key`] for a member whose reader waits for more of it, or of
/// which a part is to be tried again: its room is kept, it must not wait for other room.
pub(super) const FIRST: u8 = 0;
/// The first of [`Key`] for any other.
pub(super) const THEN: u8 = 1;

/// Where a member waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: u32,
    pub(super) fresh: bool,
    pub(super) key: Key,
}

/// A set's members that wait on a device.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) set: SetId,
    pub(super) told: bool,
    /// Members of which something was begun; of a set in listing order, all.
    pub(super) begun: BTreeSet<Key>,
    /// Members of which nothing was begun.
    pub(super) fresh: BTreeSet<Key>,
    /// Attempts in flight.
    pub(super) in_flight: u32,
    /// When it last had its turn, in turns of the device.
    pub(super) served: u64,
}

impl Lane {
    pub(super) fn new(set: SetId, told: bool) -> Self {
        Self { set, told, begun: BTreeSet::new(), fresh: BTreeSet::new(), in_flight: 0, served: 0 }
    }

    pub(super) fn waits(&self) -> bool {
        !self.begun.is_empty() || !self.fresh.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.waits() && self.in_flight == 0
    }

    /// Whether a reader waits for more of a member, or a part waits again.
    pub(super) fn is_pressing(&self) -> bool {
        self.begun.first().is_some_and(|key| key.0 == FIRST)
    }

    /// The next to start: what was begun before what was not, among equal
    /// ranks. With a head position, the first of its rank from there on, as an
    /// elevator goes; up to `opens_ahead` that
    /// were begun wait for what was not, to learn positions: in a sweep all, but not for what is later.
    pub(super) fn next(&self, head: Option<u64>, opens_ahead: usize) -> Option<Key> {
        let begun = self.next_begun(head);
        let fresh = self.fresh.first().copied();
        match (begun, fresh) {
            (Some(begun), Some(fresh)) => {
                let is_later = opens_ahead == usize::MAX && fresh.1 > begun.1;
                let fresh_first = (fresh.0, fresh.1) < (begun.0, begun.1)
                    || (begun.0 != FIRST && self.begun.len() < opens_ahead && !is_later);
                Some(if fresh_first { fresh } else { begun })
            }
            (begun, fresh) => begun.or(fresh),
        }
    }

    /// How soon a sweep comes to the next of the lane; lower is sooner. Of a rank, what is to be
    /// opened comes before all that is read, as its place is not known before.
    pub(super) fn way(&self, head: u64) -> (u64, bool, bool, u64) {
        let next = self.next_begun(Some(head));
        let read = next.map(|next| (next.1, true, next.2 < head, next.2));
        let open = self.fresh.first().map(|fresh| (fresh.1, false, false, fresh.2));
        match (open, read) {
            (Some(open), Some(read)) => open.min(read),
            (open, read) => open.or(read).unwrap_or((u64::MAX, true, true, u64::MAX)),
        }
    }

    /// The next of what was begun; with a head position, from there on.
    pub(super) fn next_begun(&self, head: Option<u64>) -> Option<Key> {
        let &first = self.begun.first()?;
        Some(head.map_or(first, |head| self.onward(first, head)))
    }

    fn onward(&self, first: Key, head: u64) -> Key {
        let from = Bound::Included((first.0, first.1, head, 0));
        let to = Bound::Included((first.0, first.1, u64::MAX, u32::MAX));
        self.begun.range((from, to)).next().copied().unwrap_or(first)
    }
}
