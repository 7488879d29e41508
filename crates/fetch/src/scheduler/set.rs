//! A set between its opening and the release of its last member.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::event::{Order, Origin, SetTerms};
use super::member::{MEMBERS, Member};
use super::queue::Key;
use super::slab::List;

/// The order in which what is ready is delivered: the highest rank, whole
/// before failed, the largest, the first listed (SETS, section 3.4).
pub(super) type ReadyKey = (u64, bool, Reverse<u64>, u64, u32);

/// What the scheduler knows of a set.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Set {
    pub(super) terms: SetTerms,
    /// Consumers that wait.
    pub(super) asked: u32,
    /// Whether anyone asked ever.
    pub(super) started: bool,
    pub(super) listing_ended: bool,
    pub(super) closed: bool,
    pub(super) ended: bool,
    /// Names that may still be listed; below 0 where more came at a time than there was room for.
    pub(super) granted: i64,
    /// Members listed and not begun, and names that never will be.
    pub(super) waiting: u32,
    /// Members begun and not delivered.
    pub(super) begun: u32,
    /// Undelivered members of which something is on its way, or which are ready.
    pub(super) moving: u32,
    /// Members that readers hold.
    pub(super) lent: u32,
    /// Devices that wait until fewer members are begun, by what is next there.
    pub(super) held_up: BTreeSet<(Key, u32)>,
    /// Those that wait for so many bytes of the budget.
    pub(super) short: BTreeSet<(Key, u32, u64)>,
    pub(super) undelivered: List<MEMBERS>,
    pub(super) ready: BTreeSet<ReadyKey>,
    /// Members whose first bytes are here and whose last are not.
    pub(super) streamable: Vec<u32>,
    pub(super) delivered: u64,
    pub(super) failed: u64,
    /// Whether it is noted for another look.
    pub(super) dirty: bool,
}

impl Set {
    pub(super) fn new(terms: SetTerms) -> Self {
        Self {
            terms,
            asked: 0,
            started: false,
            listing_ended: false,
            closed: false,
            ended: false,
            granted: 0,
            waiting: 0,
            begun: 0,
            moving: 0,
            lent: 0,
            held_up: BTreeSet::new(),
            short: BTreeSet::new(),
            undelivered: List::default(),
            ready: BTreeSet::new(),
            streamable: Vec::new(),
            delivered: 0,
            failed: 0,
            dirty: false,
        }
    }

    pub(super) fn is_told(&self) -> bool {
        self.terms.origin == Origin::Told
    }

    pub(super) fn is_listed_order(&self) -> bool {
        self.terms.order == Order::Listed
    }

    /// Whether each that asks waits for a certain member: the next one, or one of the last.
    pub(super) fn leaves_no_choice(&self) -> bool {
        let are_last = self.listing_ended && self.waiting == 0 && self.begun <= self.asked;
        self.is_listed_order() || are_last
    }

    /// How many names more may be listed, once that is worth saying.
    pub(super) fn room(&self, lookahead: u32) -> Option<u32> {
        let room = i64::from(lookahead) - i64::from(self.waiting) - self.granted;
        let room = u32::try_from(room).unwrap_or(0);
        let worth = room > 0 && room >= lookahead / 4;
        (worth && self.started && !self.listing_ended && !self.closed).then_some(room)
    }
}

/// Where a member stands among those that are ready.
pub(super) fn ready_key(member: &Member, slot: u32) -> ReadyKey {
    let size = member.size.unwrap_or(0);
    (member.rank, member.failed.is_some(), Reverse(size), member.serial, slot)
}
