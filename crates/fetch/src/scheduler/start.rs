//! Choosing what to start, and starting it.

use std::ops::Range;

use super::attempt::Attempt;
use super::event::{Action, Aim, AttemptId, Kind, SetId};
use super::member::{PARTS, Part, Stage};
use super::queue::{FIRST, Key, Lane};
use super::scheduler::Scheduler;
use super::set::Set;
use super::slab::{Link, List};

/// What came of looking at a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Started,
    /// The next of it waits for room.
    Blocked,
    /// The next of it waits until its set has fewer members begun, or until so many bytes are free.
    Held(Option<u64>),
    /// The next of it waits for a place among what is in flight.
    Full,
    Empty,
}

impl Scheduler {
    /// Starts what a device has room for.
    pub(super) fn serve_device(&mut self, slot: u32) {
        let device = &mut self.devices[slot as usize];
        device.dirty = false;
        device.blocked = false;
        if device.lanes.values().any(|lane| !lane.told && lane.waits()) {
            self.block(slot);
        }
        // Before what is new only what somebody waits for: the rest may come by itself until
        // there is nothing new, and what may be hedged is limited.
        self.hedge_slow(slot);
        self.hedge(slot, true);
        while self.may_start(slot) && self.start_one(slot) {}
        self.hedge(slot, false);
    }

    /// Whether a device has a place for something, or something guessed gives its place to what was told.
    fn may_start(&self, slot: u32) -> bool {
        let device = &self.devices[slot as usize];
        device.has_room(self.now) || device.has_room_to_open(self.now) || device.gives_way(self.now)
    }

    fn start_one(&mut self, device: u32) -> bool {
        let told_waited = self.devices[device as usize].told_waits();
        let started = self.take_turns(device);
        // What was told may have been parked for want of room: then guesses may go.
        let gives_way = told_waited && !self.devices[device as usize].told_waits();
        started || (gives_way && self.take_turns(device))
    }

    fn take_turns(&mut self, device: u32) -> bool {
        let mut turns = std::mem::take(&mut self.turns);
        self.order_turns(device, &mut turns);
        let started = turns.iter().any(|&set| match self.start_in_lane(device, set) {
            Turn::Started => true,
            Turn::Blocked => {
                self.block(device);
                false
            }
            Turn::Held(bytes) => {
                self.hold_up(device, set, bytes);
                false
            }
            Turn::Full | Turn::Empty => false,
        });
        self.turns = turns;
        started
    }

    /// The sets that wait for a device, in the order of their turns: told
    /// before guessed, then the one with a reader, on a head the one whose next guess lies
    /// next, then the one with a consumer, with the least in flight, the longest not served.
    fn order_turns(&self, device: u32, turns: &mut Vec<SetId>) {
        let device = &self.devices[device as usize];
        let told_waits = device.told_waits();
        let may_start = |lane: &&Lane| {
            let may = lane.told || !told_waits || lane.is_pressing();
            may && lane.waits()
        };
        let waiting = || device.lanes.values().filter(may_start);
        turns.clear();
        turns.extend(waiting().map(|lane| lane.set));
        if turns.len() > 1 {
            let is_swept = device.is_swept();
            // Of thousands of guesses each has a lane of its own.
            let mut by_turn: Vec<_> = waiting()
                .map(|lane| {
                    let asked = self.sets.get(&lane.set).is_some_and(|set| set.asked > 0);
                    let way = is_swept.then(|| lane.way(device.head));
                    let told = (!lane.told, !lane.is_pressing());
                    ((told, way, !asked, lane.in_flight, lane.served), lane.set)
                })
                .collect();
            by_turn.sort_by_key(|(turn, _)| *turn);
            turns.clear();
            turns.extend(by_turn.into_iter().map(|(_, set)| set));
        }
    }

    fn start_in_lane(&mut self, device: u32, set: SetId) -> Turn {
        while let Some((key, other)) = self.next_in_lane(device, set) {
            let mut turn = self.start_member(key.3);
            if matches!(turn, Turn::Blocked | Turn::Held(_) | Turn::Full)
                && let Some(other) = other
            {
                turn = match (turn, self.start_member(other.3)) {
                    (first, Turn::Full) => first,
                    // Room is of use to the first.
                    (Turn::Blocked, Turn::Held(_)) => Turn::Blocked,
                    (_, other) => other,
                };
            }
            match turn {
                Turn::Started => self.devices[device as usize].serve(set),
                // A reader without room is parked; the next may have some.
                Turn::Empty => continue,
                Turn::Blocked | Turn::Held(_) | Turn::Full => {}
            }
            return turn;
        }
        Turn::Empty
    }

    /// The next of a lane, and what comes instead if there is no room or no
    /// place for that: what was begun; of a device where opens take no place, what was not.
    fn next_in_lane(&self, device: u32, set: SetId) -> Option<(Key, Option<Key>)> {
        let device = &self.devices[device as usize];
        let lane = device.lanes.get(&set)?;
        let by_position = device.by_position && !self.sets.get(&set)?.is_listed_order();
        let (head, ahead) =
            if by_position { (Some(device.head), device.opens_ahead()) } else { (None, 0) };
        let next = lane.next(head, ahead)?;
        let begun = lane.next_begun(head).filter(|&begun| begun != next);
        let fresh = lane.fresh.first().filter(|&&fresh| fresh != next);
        let may_open = |&&fresh: &&Key| {
            let takes_none = device.opens_max > 0 && !device.by_position;
            takes_none && self.members[fresh.3].is_to_be_opened()
        };
        let other = begun.or(fresh.filter(may_open).copied());
        let may_begin = lane.told || next.0 == FIRST || !device.told_waits();
        may_begin.then_some((next, other))
    }

    fn start_member(&mut self, slot: u32) -> Turn {
        if !self.has_place(slot) && !self.may_push_out(slot) {
            return Turn::Full;
        }
        let member = &self.members[slot];
        if member.idle > 0 {
            if !self.takes_place(slot) {
                return Turn::Full;
            }
            self.start_idle_part(slot);
            return Turn::Started;
        }
        let delivered = member.is_delivered();
        let needy = !delivered && self.is_needy(slot);
        // What is guessed leaves half the budget to what is told.
        if !member.is_pressing(self.limits.part_bytes)
            && !needy
            && self.budget.is_half_full()
            && self.sets.get(&member.set).is_some_and(|set| !set.is_told())
        {
            return Turn::Blocked;
        }
        // What nobody reads has no place in the budget, so it goes on only while more is asked for.
        if self.is_large_guess(slot) && self.sets[&member.set].asked == 0 {
            return Turn::Blocked;
        }
        if member.stage == Stage::Waiting {
            let set = &self.sets[&member.set];
            if set.begun >= self.limits.ahead && !needy {
                return Turn::Held(None);
            }
        }
        if member.kind == Kind::Cache && member.stage == Stage::Waiting {
            let waits = self.devices[member.device as usize].opens_sooner(member.rank);
            if waits || !self.takes_place(slot) {
                return Turn::Full;
            }
            self.begin_open(slot);
            return Turn::Started;
        }
        let Some((piece, room)) = self.piece_and_room(slot) else {
            self.queue(slot);
            return Turn::Empty;
        };
        if !self.budget.fits(&self.members[slot], room) {
            let charge = self.members[slot].charge();
            if delivered && charge > 0 {
                self.park(slot);
                return Turn::Empty;
            }
            let longest = self.limits.part_bytes.saturating_add(self.limits.part_bytes / 2);
            let too_much = charge.saturating_add(room) > longest;
            let is_fresh = self.members[slot].stage == Stage::Waiting && charge == 0;
            if is_fresh && !needy && self.is_told(self.members[slot].set) {
                return Turn::Held(Some(room));
            }
            if !delivered && (!needy || too_much || self.makes_room(room)) {
                return Turn::Blocked;
            }
        }
        if !self.takes_place(slot) {
            return Turn::Full;
        }
        self.begin_piece(slot, &piece, room);
        Turn::Started
    }

    /// The next piece of a member and the room that it takes: all that is far
    /// of a small one, once.
    fn piece_and_room(&self, slot: u32) -> Option<(Range<u64>, u64)> {
        let member = &self.members[slot];
        let piece = member.next_piece(self.limits.part_bytes)?;
        let len = piece.end - piece.start;
        let room = if member.is_small(self.limits.part_bytes) {
            member.unbegun().saturating_sub(self.prepaid(slot))
        } else {
            len
        };
        Some((piece, room))
    }

    /// Room kept for what was not begun.
    fn prepaid(&self, slot: u32) -> u64 {
        let member = &self.members[slot];
        let mut begun = 0;
        let mut next = member.parts.first();
        while let Some(part) = next {
            begun += self.parts[part].due();
            next = List::<PARTS>::after(&self.parts, part);
        }
        member.due.saturating_sub(begun)
    }

    /// Whether a consumer would wait for ever unless this member is begun.
    fn is_needy(&self, slot: u32) -> bool {
        let member = &self.members[slot];
        let Some(set) = self.sets.get(&member.set) else { return false };
        if set.asked == 0 || member.moving {
            return false;
        }
        if set.is_listed_order() {
            return set.undelivered.first() == Some(slot);
        }
        set.moving == 0
    }

    fn begin_open(&mut self, slot: u32) {
        let mut part = Part::new(slot, 0..0);
        part.opens = true;
        self.begin_part(slot, part);
    }

    fn begin_piece(&mut self, slot: u32, piece: &Range<u64>, room: u64) {
        let member = &mut self.members[slot];
        member.take_piece(piece);
        member.due = member.due.saturating_add(room);
        self.begin_part(slot, Part::new(slot, piece.clone()));
    }

    fn begin_part(&mut self, slot: u32, part: Part) {
        let part = self.parts.insert(part);
        let member = &mut self.members[slot];
        member.parts.push(&mut self.parts, part);
        if member.stage == Stage::Waiting {
            member.stage = Stage::Begun;
            member.since = self.now;
            let id = member.set;
            let set = self.sets.get_mut(&id).expect("a member's set");
            set.waiting -= 1;
            set.begun += 1;
            self.look_at_set(id);
        }
        self.budget.update(&mut self.members[slot]);
        self.start_attempt(part, false);
        self.look_at_member(slot);
        self.queue(slot);
    }

    fn start_idle_part(&mut self, slot: u32) {
        let mut next = self.members[slot].parts.first();
        while let Some(part) = next {
            if self.parts[part].idle {
                self.set_idle(part, false);
                self.start_attempt(part, false);
                break;
            }
            next = List::<PARTS>::after(&self.parts, part);
        }
        self.queue(slot);
    }

    pub(super) fn set_idle(&mut self, part: u32, idle: bool) {
        let part = &mut self.parts[part];
        if part.idle != idle {
            part.idle = idle;
            let member = &mut self.members[part.member];
            member.idle = if idle { member.idle + 1 } else { member.idle - 1 };
        }
    }

    pub(super) fn start_attempt(&mut self, part_slot: u32, is_hedge: bool) {
        let part = &self.parts[part_slot];
        let member = &self.members[part.member];
        let device = member.device;
        let attempt = self.attempts.insert(Attempt {
            part: part_slot,
            device,
            started: self.now,
            heard: self.now,
            met: None,
            start: part.done,
            covers_end: part.allowed,
            brought: 0,
            is_hedge,
            is_beside: false,
            rests: false,
            submitted: None,
            silent: Link::default(),
            unmet: Link::default(),
        });
        let aim = if part.opens { Aim::Open } else { Aim::Fetch(part.done..part.allowed) };
        let hedgeable = !part.opens && member.kind == Kind::Bytes;
        let (id, set, rank) = (member.id, member.set, member.rank);
        let told = self.is_told(set);
        let met = &mut self.devices[device as usize];
        if let (true, Aim::Fetch(range)) = (met.by_position, &aim) {
            met.head = member.position.saturating_add(range.end);
        }
        let is_beside = part.opens && met.opens_max > 0;
        if is_beside {
            met.opens_beside(rank);
        } else {
            let reads_file = !part.opens && member.kind == Kind::Cache;
            met.began(reads_file.then(|| part.allowed - part.done), self.now);
        }
        self.attempts[attempt].is_beside = is_beside;
        met.requests += 1;
        met.lane(set, told).in_flight += 1;
        if hedgeable {
            met.unmet.push(&mut self.attempts, attempt);
            self.time(device);
        }
        self.silent.push(&mut self.attempts, attempt);
        let part = &mut self.parts[part_slot];
        *(if is_hedge { &mut part.hedge } else { &mut part.attempt }) = Some(attempt);
        let name = AttemptId(self.attempts.name(attempt));
        self.out.push(Action::Start { attempt: name, member: id, aim });
    }

    /// Whether a file is guessed at that is delivered only when all of it is near, and may be larger
    /// than the budget.
    pub(super) fn is_large_guess(&self, slot: u32) -> bool {
        let member = &self.members[slot];
        let is_file = member.kind == Kind::Cache && member.pinned;
        is_file && !member.is_small(self.limits.part_bytes) && !self.is_told(member.set)
    }

    pub(super) fn is_told(&self, set: SetId) -> bool {
        self.sets.get(&set).is_none_or(Set::is_told)
    }
}
