//! The world of a life: devices that answer late or not at all, and consumers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::time::Duration;

use nearfirst_fetch::scheduler::{
    Action, Aim, AttemptId, DeviceId, Event, Failure, Listing, MemberId, Origin, Scheduler, SetId,
};

use crate::bytes::Arrived;
use crate::chance::Chance;
use crate::plan::{ConsumerPlan, MemberPlan, Plan, SetPlan};
use crate::servers::Trying;

/// Something that will happen.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    List(usize),
    Begin(AttemptId),
    Submit(AttemptId),
    Contact(AttemptId),
    Chunk(AttemptId),
    Fail(AttemptId, Failure),
    Ask(usize, usize),
    GiveUp(usize, usize),
    Read(u64),
    Release(u64),
    SpillDone(u64),
    Close(usize),
}

/// Where a member is, seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fortune {
    Unlisted,
    Listed,
    Lent,
    Gone,
}

/// A member and what became of it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) set: usize,
    pub(crate) plan: MemberPlan,
    pub(crate) fortune: Fortune,
    pub(crate) device: usize,
    pub(crate) arrived: Arrived,
    /// What attempts brought that were stopped before they told of it: its driver drops
    /// nothing that a reader may be at.
    pub(crate) untold: Arrived,
    pub(crate) read: u64,
    pub(crate) in_memory: u64,
    pub(crate) on_disk: u64,
    pub(crate) disk_unread: u64,
    pub(crate) spilling: bool,
    pub(crate) consumer: usize,
    pub(crate) broken: bool,
    pub(crate) waits: bool,
    pub(crate) starts: u32,
    pub(crate) refusals: u32,
    pub(crate) hedges: u32,
    pub(crate) cancels: u32,
}

/// A consumer and what it does.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) plan: ConsumerPlan,
    pub(crate) asks: bool,
    pub(crate) got: u64,
    pub(crate) done: bool,
    pub(crate) given_up: u32,
}

/// A set and how far it is.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Set {
    pub(crate) plan: SetPlan,
    pub(crate) members: Range<u64>,
    pub(crate) listed: u64,
    pub(crate) granted: u64,
    pub(crate) listing: bool,
    pub(crate) listing_ended: bool,
    pub(crate) asked_ever: bool,
    pub(crate) ended: bool,
    pub(crate) closed: bool,
    /// Members delivered since the last that was asked for.
    pub(crate) beside: u32,
    pub(crate) delivered: Vec<u64>,
    pub(crate) consumers: Vec<Consumer>,
}

/// All of it.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) chance: Chance,
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Duration,
    pub(crate) members: Vec<Member>,
    pub(crate) sets: Vec<Set>,
    pub(crate) attempts: HashMap<AttemptId, Trying>,
    pub(crate) in_flight: Vec<usize>,
    pub(crate) events: u64,
    /// Second attempts at what had brought something.
    pub(crate) bodies_hedged: u64,
    /// Events to be told together with the next one.
    pub(crate) held: Vec<Event>,
    pub(crate) holds: bool,
    heap: BinaryHeap<Reverse<(Duration, u64)>>,
    happenings: HashMap<u64, Happening>,
    serial: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Plan::draw(&mut chance);
        let mut world = Self {
            scheduler: Scheduler::new(plan.limits),
            chance,
            now: Duration::ZERO,
            members: Vec::new(),
            sets: Vec::new(),
            attempts: HashMap::new(),
            in_flight: vec![0; plan.devices.len()],
            events: 0,
            bodies_hedged: 0,
            held: Vec::new(),
            holds: false,
            heap: BinaryHeap::new(),
            happenings: HashMap::new(),
            serial: 0,
            plan,
        };
        world.open();
        world
    }

    fn open(&mut self) {
        for (number, device) in (0u32..).zip(self.plan.devices.clone()) {
            self.feed(Event::DeviceMet { device: DeviceId(number), terms: device.terms });
        }
        for (number, plan) in self.plan.sets.clone().into_iter().enumerate() {
            let first = self.members.len() as u64;
            self.members.extend(plan.members.iter().map(|member| Member::new(number, member)));
            let id = set_id(number);
            let consumers = plan.consumers.iter().map(|&plan| Consumer::new(plan)).collect();
            if let Some(at) = plan.closes_at {
                self.at(at, Happening::Close(number));
            }
            for consumer in 0..plan.consumers.len() {
                let after = self.chance.micros(0, 1000);
                self.after(after, Happening::Ask(number, consumer));
            }
            let terms = plan.terms;
            self.sets.push(Set::new(plan, first..self.members.len() as u64, consumers));
            self.feed(Event::SetOpened { set: id, terms });
            if self.chance.in_thousand(200) {
                // Names known from the beginning come without being asked for.
                self.sets[number].granted = self.chance.below(10);
                self.list_on(number);
            }
        }
    }

    pub(crate) fn after(&mut self, pause: Duration, happening: Happening) {
        self.at(self.now + pause, happening);
    }

    fn at(&mut self, at: Duration, happening: Happening) {
        self.serial += 1;
        self.heap.push(Reverse((at, self.serial)));
        self.happenings.insert(self.serial, happening);
    }

    /// When the next thing happens by itself.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Lets the next thing happen.
    pub(crate) fn step(&mut self) {
        let Reverse((at, serial)) = self.heap.pop().expect("something to happen");
        self.now = self.now.max(at);
        match self.happenings.remove(&serial).expect("what it is") {
            Happening::List(set) => self.list(set),
            Happening::Begin(attempt) => self.begin(attempt),
            Happening::Submit(attempt) => self.submit(attempt),
            Happening::Contact(attempt) => self.contact(attempt),
            Happening::Chunk(attempt) => self.chunk(attempt),
            Happening::Fail(attempt, failure) => self.fail(attempt, failure),
            Happening::Ask(set, consumer) => self.ask(set, consumer),
            Happening::GiveUp(set, consumer) => self.give_up(set, consumer),
            Happening::Read(member) => self.read(member),
            Happening::Release(member) => self.release(member),
            Happening::SpillDone(member) => self.spill_done(member),
            Happening::Close(set) => self.close(set),
        }
    }

    /// Lets the next thing happen; what opens found may be told together with what follows.
    pub(crate) fn step_some(&mut self) {
        loop {
            self.holds = self.is_open_next() && self.chance.in_thousand(self.plan.together);
            self.step();
            if !std::mem::take(&mut self.holds) || self.heap.is_empty() {
                break;
            }
        }
        self.tell();
    }

    fn is_open_next(&self) -> bool {
        let next = self.heap.peek().and_then(|Reverse((_, serial))| self.happenings.get(serial));
        let Some(Happening::Contact(id)) = next else { return false };
        self.attempts.get(id).is_some_and(|trying| trying.aim == Aim::Open)
    }

    /// Tells the scheduler, and does what it says.
    pub(crate) fn feed(&mut self, event: Event) {
        self.feed_all([event]);
    }

    /// As [`World::feed`], of several events at a time.
    pub(crate) fn feed_all(&mut self, events: impl IntoIterator<Item = Event>) {
        self.held.extend(events);
        if !self.holds {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let mut actions = Vec::new();
        self.events += self.held.len() as u64;
        self.scheduler.on_all(self.held.drain(..), self.now, &mut actions);
        for action in actions {
            self.act(action);
        }
    }

    fn list_on(&mut self, set: usize) {
        let known = &mut self.sets[set];
        if known.listing || known.listing_ended || known.closed {
            return;
        }
        let all = known.listed == known.members.end - known.members.start;
        if known.granted > 0 || all {
            known.listing = true;
            let (from, to) = known.plan.listing_us;
            let pause = self.chance.micros(from, to);
            self.after(pause, Happening::List(set));
        }
    }

    fn list(&mut self, number: usize) {
        let set = &mut self.sets[number];
        set.listing = false;
        if set.closed {
            return;
        }
        let index = set.members.start + set.listed;
        if index == set.members.end {
            set.listing_ended = true;
            self.feed(Event::ListingEnded { set: set_id(number) });
            return;
        }
        set.listed += 1;
        set.granted -= 1;
        let member = &mut self.members[at(index)];
        member.fortune = Fortune::Listed;
        let plan = &member.plan;
        let (set, id) = (set_id(number), MemberId(index));
        let event = if plan.unlisted {
            Event::Unlisted { set, member: id }
        } else {
            let device = DeviceId(plan.device);
            let &MemberPlan { kind, told_size: size, from, rank, .. } = plan;
            let listing = Listing { device, kind, size, from, rank };
            Event::Listed { set, member: id, listing }
        };
        self.feed(event);
        self.list_on(number);
    }

    pub(crate) fn granted(&mut self, number: usize, names: u32) {
        self.sets[number].granted += u64::from(names);
        self.list_on(number);
    }
}

impl Member {
    fn new(set: usize, plan: &MemberPlan) -> Self {
        Self {
            set,
            device: plan.device as usize,
            plan: plan.clone(),
            fortune: Fortune::Unlisted,
            arrived: Arrived::default(),
            untold: Arrived::default(),
            read: plan.from,
            in_memory: 0,
            on_disk: 0,
            disk_unread: 0,
            spilling: false,
            consumer: 0,
            broken: false,
            waits: false,
            starts: 0,
            refusals: 0,
            hedges: 0,
            cancels: 0,
        }
    }
}

impl Consumer {
    fn new(plan: ConsumerPlan) -> Self {
        Self { plan, asks: false, got: 0, done: false, given_up: 0 }
    }
}

impl Set {
    fn new(plan: SetPlan, members: Range<u64>, consumers: Vec<Consumer>) -> Self {
        Self {
            plan,
            members,
            listed: 0,
            granted: 0,
            listing: false,
            listing_ended: false,
            asked_ever: false,
            ended: false,
            closed: false,
            beside: 0,
            delivered: Vec::new(),
            consumers,
        }
    }
}

pub(crate) fn set_id(number: usize) -> SetId {
    SetId(u32::try_from(number).expect("few sets"))
}

pub(crate) fn at(member: u64) -> usize {
    usize::try_from(member).expect("few members")
}

/// What the scheduler says is done, and held against what it may say.
impl World {
    fn act(&mut self, action: Action) {
        match action {
            Action::Start { attempt, member, aim } => {
                self.check_start(member.0, &aim);
                self.start(attempt, member.0, aim);
            }
            Action::Extend { attempt, end } => {
                let Some(trying) = self.attempts.get_mut(&attempt) else {
                    assert!(self.plan.together > 0, "a live attempt is extended");
                    return;
                };
                assert!(end > trying.allowed, "an extension takes back");
                trying.allowed = end;
                if std::mem::take(&mut trying.paused) {
                    self.chunk_later(attempt);
                }
            }
            Action::Cancel { attempt } => {
                let Some(ended) = self.end(attempt) else {
                    assert!(self.plan.together > 0, "a live attempt is cancelled");
                    return;
                };
                self.leave_untold(&ended);
                let member = &mut self.members[at(ended.member)];
                // What was guessed may lose its place, and is begun again.
                let guessed = self.sets[member.set].plan.terms.origin == Origin::Guessed;
                member.cancels += u32::from(guessed);
            }
            Action::Spill { member } => self.spill(member.0),
            Action::Deliver { set, member, state } => {
                self.delivered(set.0 as usize, member.0, state);
            }
            Action::Break { member, .. } => self.broken(member.0),
            Action::Drop { member } => self.dropped(member.0),
            Action::Expand { set, names } => self.granted(set.0 as usize, names),
            Action::End { set } => self.ended(set.0 as usize),
        }
    }
}
