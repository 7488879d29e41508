//! What the scheduler decides, case by case; `simulation.rs` shows that it holds together.

#[path = "scheduler/hedges.rs"]
mod hedges;

use std::collections::VecDeque;
use std::time::Duration;

use nearfirst_fetch::scheduler::{
    Action, Aim, AttemptId, Cause, Contact, Delivery, DeviceId, DeviceTerms, Event, Failure, Kind,
    Limits, Listing, MemberId, Order, Origin, Scheduler, SetId, SetTerms, Snapshot,
};
use proptest::prelude::*;

const SET: SetId = SetId(1);
const GUESSES: SetId = SetId(2);
const DEVICE: DeviceId = DeviceId(7);
const REFUSED: Failure = Failure::Busy { retry_after: None };

/// A scheduler, its time, and what it said last.
struct Told {
    scheduler: Scheduler,
    now: Duration,
    said: Vec<Action>,
}

impl Told {
    fn new(limits: Limits, window: u32, order: Order) -> Self {
        Self::of(limits, terms(window, false), order)
    }

    fn of(limits: Limits, terms: DeviceTerms, order: Order) -> Self {
        let mut told =
            Self { scheduler: Scheduler::new(limits), now: Duration::ZERO, said: vec![] };
        told.on(Event::DeviceMet { device: DEVICE, terms });
        told.on(Event::SetOpened { set: SET, terms: SetTerms { origin: Origin::Told, order } });
        let terms = SetTerms { origin: Origin::Guessed, order };
        told.on(Event::SetOpened { set: GUESSES, terms });
        told
    }

    fn meet(&mut self, window: u32, by_position: bool) {
        self.on(Event::DeviceMet { device: DEVICE, terms: terms(window, by_position) });
    }

    /// Opens of its files take no place in the window.
    fn meet_local(&mut self, opens_max: u32, by_position: bool) {
        let terms = DeviceTerms { opens_max, ..terms(1, by_position) };
        self.on(Event::DeviceMet { device: DEVICE, terms });
    }

    fn on(&mut self, event: Event) {
        self.on_all([event]);
    }

    fn on_all(&mut self, events: impl IntoIterator<Item = Event>) {
        self.said.clear();
        self.scheduler.on_all(events, self.now, &mut self.said);
        self.said.retain(|action| !matches!(action, Action::Expand { .. }));
    }

    fn list(&mut self, set: SetId, member: u64, kind: Kind, size: u64, rank: f64) {
        let listing = Listing { device: DEVICE, kind, size: Some(size), from: 0, rank };
        self.on(Event::Listed { set, member: MemberId(member), listing });
    }

    fn bytes(&mut self, member: u64, size: u64) {
        self.list(SET, member, Kind::Bytes, size, 0.0);
    }

    fn ask(&mut self) {
        self.on(Event::Asked { set: SET });
    }

    /// The attempts that were just started, with their members and aims.
    fn started(&self) -> Vec<(AttemptId, u64, Aim)> {
        let start = |action: &Action| match action {
            Action::Start { attempt, member, aim } => Some((*attempt, member.0, aim.clone())),
            _ => None,
        };
        self.said.iter().filter_map(start).collect()
    }

    fn started_members(&self) -> Vec<u64> {
        self.started().into_iter().map(|(_, member, _)| member).collect()
    }

    fn contact(&mut self, attempt: AttemptId, size: u64, position: u64, far: &[(u64, u64)]) {
        self.on(contacted(attempt, size, position, far));
    }

    fn fail(&mut self, attempt: AttemptId, failure: Failure) {
        self.on(Event::Failed { attempt, failure });
    }

    fn delivered(&self) -> Vec<(u64, Delivery)> {
        let deliver = |action: &Action| match action {
            Action::Deliver { member, state, .. } => Some((member.0, *state)),
            _ => None,
        };
        self.said.iter().filter_map(deliver).collect()
    }

    fn snapshot(&self) -> Snapshot {
        self.scheduler.snapshot_at(self.now)
    }

    fn pass_to_wake(&mut self) {
        self.now = self.scheduler.wake_at().expect("something to wake for");
        self.on(Event::Tick);
    }
}

fn terms(window: u32, by_position: bool) -> DeviceTerms {
    DeviceTerms {
        window_max: window,
        window_start: window,
        enough: None,
        opens_max: 0,
        by_position,
        latency: None,
    }
}

fn contacted(attempt: AttemptId, size: u64, position: u64, far: &[(u64, u64)]) -> Event {
    let far = far.iter().map(|&(start, end)| start..end).collect();
    let contact = Contact { device: DEVICE, size: Some(size), far, covers: 0..0, position };
    Event::Contacted { attempt, contact }
}

#[test]
fn nothing_is_begun_before_the_first_ask() {
    let mut told = Told::new(Limits::default(), 4, Order::Ready);
    told.bytes(1, 100);
    assert_eq!(told.said, []);
    told.ask();
    assert_eq!(told.started_members(), [1]);
}

#[test]
fn the_highest_rank_is_begun_first_and_delivered_first_then_the_largest() {
    let mut told = Told::new(Limits::default(), 4, Order::Ready);
    for (member, size, rank) in [(1, 10, 0.0), (2, 20, 0.0), (3, 5, 1.0), (4, 30, -1.0)] {
        told.list(SET, member, Kind::Bytes, size, rank);
    }
    told.ask();
    let started = told.started();
    assert_eq!(told.started_members(), [3, 1, 2, 4]);
    told.on(Event::Unasked { set: SET });
    for (attempt, ..) in started {
        told.on(Event::Finished { attempt });
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        told.ask();
        order.extend(told.delivered());
    }
    assert_eq!(order, [3, 2, 1, 4].map(|member| (member, Delivery::Whole)));
}

#[test]
fn what_is_wanted_from_a_byte_on_is_begun_there_in_parts() {
    let limits = Limits { part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 4, Order::Ready);
    let list = |told: &mut Told, member, size, from| {
        let listing = Listing { device: DEVICE, kind: Kind::Bytes, size, from, rank: 0.0 };
        told.on(Event::Listed { set: SET, member: MemberId(member), listing });
    };
    told.ask();
    let begun =
        |told: &Told| -> Vec<Aim> { told.started().into_iter().map(|(_, _, aim)| aim).collect() };
    list(&mut told, 1, Some(45), 5);
    assert_eq!(begun(&told), [5..15, 15..25, 25..35, 35..45].map(Aim::Fetch));
    for (size, from, aim) in [(Some(45), 45, 44..45), (Some(45), 99, 44..45), (None, 7, 7..17)] {
        let mut told = Told::new(limits, 4, Order::Ready);
        told.ask();
        list(&mut told, 1, size, from);
        assert_eq!(begun(&told), [Aim::Fetch(aim)], "from {from}");
    }
}

#[test]
fn what_is_longer_than_its_listing_told_is_fetched_from_the_byte_on_that_is_wanted() {
    let limits = Limits { part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 4, Order::Ready);
    told.ask();
    let listing = Listing { device: DEVICE, kind: Kind::Bytes, size: Some(5), from: 25, rank: 0.0 };
    told.on(Event::Listed { set: SET, member: MemberId(1), listing });
    let [(first, _, Aim::Fetch(range))] = &told.started()[..] else { panic!("{:?}", told.said) };
    assert_eq!(*range, 4..5);
    let first = *first;
    told.contact(first, 45, 0, &[(0, 45)]);
    let begun: Vec<Aim> = told.started().into_iter().map(|(_, _, aim)| aim).collect();
    assert_eq!(begun, [25..35, 35..45].map(Aim::Fetch));
    let later = told.started()[1].0;
    told.on(Event::Finished { attempt: first });
    told.contact(later, 45, 0, &[(0, 45)]);
    told.on(Event::Progressed { attempt: later, bytes: 3 });
    assert_eq!(told.snapshot().budget.used, 20, "what came is as much as was asked for");
}

#[test]
fn who_sends_all_is_heard_from_the_byte_on_that_is_wanted() {
    let limits = Limits { part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 2, Order::Ready);
    told.ask();
    let listing =
        Listing { device: DEVICE, kind: Kind::Bytes, size: Some(45), from: 25, rank: 0.0 };
    told.on(Event::Listed { set: SET, member: MemberId(1), listing });
    let [(first, ..), (second, ..)] = told.started()[..] else { panic!("{:?}", told.said) };
    let far = std::iter::once(0..45).collect();
    let contact = Contact { device: DEVICE, size: Some(45), far, covers: 0..45, position: 0 };
    told.on(Event::Contacted { attempt: first, contact });
    assert_eq!(told.said[0], Action::Cancel { attempt: second }, "the other part comes with it");
    told.on(Event::Progressed { attempt: first, bytes: 24 });
    assert_eq!((told.delivered(), told.snapshot().budget.used), (vec![], 10));
    told.on(Event::Progressed { attempt: first, bytes: 3 });
    assert_eq!(told.delivered(), [(1, Delivery::Streaming)]);
}

#[test]
fn a_small_member_is_handed_on_as_it_comes_to_who_can_have_no_other() {
    let begun = |order| {
        let mut told = Told::new(Limits::default(), 4, order);
        told.bytes(1, 100);
        told.bytes(2, 100);
        told.ask();
        let [(first, ..), (second, ..)] = told.started()[..] else { panic!("{:?}", told.said) };
        for attempt in [first, second] {
            told.contact(attempt, 100, 0, &[(0, 100)]);
        }
        (told, first, second)
    };
    let streamed = |member| vec![(member, Delivery::Streaming)];

    let (mut told, first, second) = begun(Order::Listed);
    told.on(Event::Progressed { attempt: second, bytes: 1 });
    assert_eq!(told.delivered(), []);
    told.on(Event::Progressed { attempt: first, bytes: 1 });
    assert_eq!(told.delivered(), streamed(1));
    told.ask();
    assert_eq!(told.delivered(), streamed(2));

    let (mut told, first, second) = begun(Order::Ready);
    told.on(Event::Progressed { attempt: first, bytes: 1 });
    told.on(Event::ListingEnded { set: SET });
    assert_eq!(told.delivered(), [], "the second may be whole before");
    told.on(Event::Finished { attempt: second });
    assert_eq!(told.delivered(), [(2, Delivery::Whole)]);
    told.ask();
    assert_eq!(told.delivered(), streamed(1), "it is the last");
}

#[test]
fn told_is_begun_before_guessed() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    told.on(Event::Asked { set: GUESSES });
    told.list(GUESSES, 1, Kind::Bytes, 10, 0.0);
    let (first, ..) = told.started()[0];
    told.list(GUESSES, 2, Kind::Bytes, 10, 9.0);
    told.ask();
    told.bytes(3, 10);
    assert_eq!(told.said[0], Action::Cancel { attempt: first }, "a guess loses its place");
    assert_eq!(told.started_members(), [3]);
    let (third, ..) = told.started()[0];
    told.bytes(4, 10);
    told.on(Event::Finished { attempt: third });
    assert_eq!(told.started_members(), [4]);
    let (fourth, ..) = told.started()[0];
    told.on(Event::Finished { attempt: fourth });
    assert_eq!(told.started_members(), [1], "what was pushed out goes on");
}

#[test]
fn a_guess_does_not_lose_a_place_that_what_was_told_cannot_take() {
    let mut told = Told::new(Limits::default(), 2, Order::Ready);
    let terms = DeviceTerms {
        window_max: 2,
        window_start: 2,
        enough: None,
        opens_max: 1,
        by_position: true,
        latency: None,
    };
    told.on(Event::DeviceMet { device: DEVICE, terms });
    told.ask();
    told.on(Event::Asked { set: GUESSES });
    told.bytes(1, 100);
    told.list(GUESSES, 2, Kind::Bytes, 100, 0.0);
    assert_eq!(told.started_members(), [2]);
    // It is to be opened, and the head is at 1, which was told, too.
    told.list(SET, 3, Kind::Cache, 100, 0.0);
    assert_eq!(told.said, []);
}

#[test]
fn a_guess_that_is_read_keeps_its_place() {
    let limits = Limits { part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 1, Order::Ready);
    told.on(Event::Asked { set: GUESSES });
    told.list(GUESSES, 1, Kind::Bytes, 100, 0.0);
    let (first, ..) = told.started()[0];
    told.contact(first, 100, 0, &[(0, 100)]);
    told.on(Event::Progressed { attempt: first, bytes: 1 });
    assert_eq!(told.delivered(), [(1, Delivery::Streaming)]);
    told.ask();
    told.bytes(2, 10);
    assert_eq!(told.said, []);
}

#[test]
fn what_is_near_is_delivered_beside_what_was_asked_for() {
    let mut told = Told::new(Limits { batch: 2, ..Limits::default() }, 1, Order::Ready);
    told.meet_local(64, false);
    for member in 1..=5 {
        told.list(SET, member, Kind::Cache, 100, 0.0);
    }
    told.ask();
    let started = told.started();
    assert_eq!(told.started_members(), [1, 2, 3, 4, 5], "opened beside the window");
    let near = started[..4].iter().map(|(attempt, ..)| *attempt);
    told.on_all(near.map(|attempt| contacted(attempt, 100, 0, &[])));
    assert_eq!(told.delivered(), [1, 2, 3].map(|member| (member, Delivery::Near)));
    told.contact(started[4].0, 100, 0, &[(0, 100)]);
    told.ask();
    assert_eq!(told.delivered(), [(4, Delivery::Near)]);
}

#[test]
fn one_head_opens_or_reads() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    told.meet_local(64, true);
    for member in 1..=3 {
        told.list(SET, member, Kind::Cache, 100, 0.0);
    }
    told.ask();
    let started = told.started();
    assert_eq!(told.started_members(), [1, 2]);
    told.contact(started[0].0, 100, 500, &[(0, 100)]);
    assert_eq!(told.started_members(), [3], "another position is learned first");
    let third = told.started()[0].0;
    told.contact(started[1].0, 100, 300, &[(0, 100)]);
    assert_eq!(told.started_members(), [] as [u64; 0], "one is being opened");
    told.contact(third, 100, 100, &[]);
    assert_eq!(told.started_members(), [2], "the next from where the head is");
}

#[test]
fn files_of_a_server_begin_with_as_many_reads_as_keep_it_busy() {
    let files = |enough, sizes: [u64; 6]| {
        let mut told = Told::new(Limits::default(), 8, Order::Ready);
        let terms = DeviceTerms {
            window_max: 8,
            window_start: 8,
            enough,
            opens_max: 0,
            by_position: false,
            latency: None,
        };
        told.on(Event::DeviceMet { device: DEVICE, terms });
        for (member, size) in (1..).zip(sizes) {
            told.list(SET, member, Kind::Cache, size, 0.0);
        }
        told.ask();
        let opened = told.started();
        assert_eq!(opened.len(), 6, "names are looked up side by side");
        let contacts = opened
            .iter()
            .zip(sizes)
            .map(|((attempt, ..), size)| contacted(*attempt, size, 0, &[(0, size)]));
        told.on_all(contacts);
        told.started().len()
    };
    assert_eq!(files(Some(1000), [10_000; 6]), 1, "the second would make the first late");
    assert_eq!(files(Some(1000), [500; 6]), 3);
    assert_eq!(files(None, [10_000; 6]), 6);
}

#[test]
fn a_head_does_not_wait_for_the_next_to_be_decided() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    told.meet_local(64, true);
    for member in 1..=4 {
        told.list(SET, member, Kind::Cache, 100, 0.0);
    }
    told.ask();
    let started = told.started();
    told.contact(started[0].0, 100, 500, &[(0, 100)]);
    let third = told.started()[0].0;
    told.contact(started[1].0, 100, 300, &[(0, 100)]);
    told.contact(third, 100, 400, &[(0, 100)]);
    assert_eq!(told.started_members(), [2]);
    let first_read = told.started()[0].0;
    told.on(Event::Submitted { attempt: first_read });
    assert_eq!(told.started_members(), [3], "behind it, the next from there");
    let second_read = told.started()[0].0;
    told.on(Event::Submitted { attempt: second_read });
    assert_eq!(told.started_members(), [] as [u64; 0], "two are enough");
    told.on(Event::Finished { attempt: first_read });
    let (open, member, aim) = told.started()[0].clone();
    assert_eq!((member, aim), (4, Aim::Open), "what is read has been asked for");
    told.contact(open, 100, 450, &[(0, 100)]);
    assert_eq!(told.started_members(), [1], "at 500, where the head will be");
}

const MORE_GUESSES: SetId = SetId(3);

/// Guesses of two sets at files of a disk with a head, each of so many bytes at its place: opened,
/// and the reads that were begun since.
fn swept(told: &mut Told, bytes: u64, places: &[u64]) -> Vec<(AttemptId, u64, Aim)> {
    told.meet_local(64, true);
    let terms = SetTerms { origin: Origin::Guessed, order: Order::Ready };
    told.on(Event::SetOpened { set: MORE_GUESSES, terms });
    told.on_all([GUESSES, MORE_GUESSES].map(|set| Event::Asked { set }));
    let sets = [GUESSES, MORE_GUESSES].into_iter().cycle();
    let listed = (1..).zip(sets).take(places.len()).map(|(member, set)| Event::Listed {
        set,
        member: MemberId(member),
        listing: Listing { device: DEVICE, kind: Kind::Cache, size: None, from: 0, rank: 0.0 },
    });
    told.on_all(listed);
    let mut opens = told.started();
    assert!(opens.iter().all(|(_, _, aim)| *aim == Aim::Open));
    opens.sort_by_key(|(_, member, _)| *member);
    assert_eq!(opens.len(), places.len(), "all are opened before one is read");
    let contacts = opens.iter().zip(places);
    let contacts: Vec<_> = contacts
        .map(|((attempt, ..), &place)| contacted(*attempt, bytes, place, &[(0, bytes)]))
        .collect();
    told.on_all(contacts);
    told.started()
}

#[test]
fn guesses_of_all_sets_go_in_one_order_and_are_queued_as_far_as_they_were_asked_for() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    let places = [400, 300, 200, 100].map(|place| place << 20);
    let mut begun = swept(&mut told, 1000, &places);
    let mut order = Vec::new();
    while let [(attempt, member, _)] = begun[..] {
        order.push(member);
        told.on(Event::Submitted { attempt });
        begun = told.started();
    }
    assert_eq!(order, [4, 3, 2, 1], "by place, each once that before it was asked for");
}

#[test]
fn a_sweep_reads_what_is_sooner_before_it_opens_what_is_later() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    told.meet_local(64, true);
    let terms = SetTerms { origin: Origin::Guessed, order: Order::Ready };
    told.on(Event::SetOpened { set: MORE_GUESSES, terms });
    told.on_all([GUESSES, MORE_GUESSES].map(|set| Event::Asked { set }));
    told.list(GUESSES, 1, Kind::Cache, 100, 0.0);
    let (sooner, ..) = told.started()[0];
    for (set, later) in [(GUESSES, 2), (MORE_GUESSES, 3)] {
        told.list(set, later, Kind::Cache, 100, -1.0);
        assert!(told.started_members().is_empty());
    }
    told.contact(sooner, 100, 500, &[(0, 100)]);
    let (read, member, aim) = told.started().remove(0);
    assert_eq!((member, aim), (1, Aim::Fetch(0..100)));
    told.on(Event::Submitted { attempt: read });
    assert_eq!(told.started_members(), [2, 3], "opened while that is on its way");
}

#[test]
fn the_queue_of_guesses_has_an_end() {
    let queued = |bytes: u64| {
        let mut told = Told::new(Limits::default(), 1, Order::Ready);
        let places: Vec<u64> = (1..=20).map(|place| place << 30).collect();
        let mut begun = swept(&mut told, bytes, &places);
        let mut count = 0;
        while let [(attempt, ..)] = begun[..] {
            count += 1;
            told.on(Event::Submitted { attempt });
            begun = told.started();
        }
        count
    };
    assert_eq!(queued(1000), 9, "so many wait behind the one that the head is at");
    assert_eq!(
        queued(3 << 20),
        2,
        "more bytes would take longer than a program's own read may wait"
    );
}

#[test]
fn what_is_told_takes_all_places_of_guesses_that_it_needs() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    let (window_max, window_start, opens_max) = (2, 2, 1);
    let terms = DeviceTerms {
        window_max,
        window_start,
        enough: None,
        opens_max,
        by_position: true,
        latency: None,
    };
    told.on(Event::DeviceMet { device: DEVICE, terms });
    told.on(Event::Asked { set: GUESSES });
    for guess in [1, 2] {
        told.list(GUESSES, guess, Kind::Bytes, 100, 0.0);
        assert_eq!(told.started_members(), [guess]);
    }
    told.ask();
    told.list(SET, 50, Kind::Cache, 100, 0.0);
    assert_eq!(told.started_members(), [50], "a head opens nothing beside two");
}

#[test]
fn what_is_told_takes_the_place_of_a_queue_of_guesses() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    let mut begun = swept(&mut told, 1000, &[100, 200, 300, 400]);
    while let [(attempt, ..)] = begun[..] {
        told.on(Event::Submitted { attempt });
        begun = told.started();
    }
    told.ask();
    told.list(SET, 50, Kind::Cache, 100, 0.0);
    assert_eq!(told.started_members(), [50]);
}

#[test]
fn a_large_file_that_is_guessed_at_is_delivered_when_all_of_it_is_near() {
    let limits = Limits { part_bytes: 10, budget_bytes: 20, ..Limits::default() };
    let mut told = Told::new(limits, 1, Order::Ready);
    told.on(Event::Asked { set: GUESSES });
    told.list(GUESSES, 1, Kind::Cache, 100, 0.0);
    let (open, ..) = told.started()[0];
    told.contact(open, 100, 0, &[(0, 100)]);
    for _ in 0..9 {
        let (attempt, ..) = told.started()[0];
        told.on(Event::Finished { attempt });
        assert_eq!(told.delivered(), []);
    }
    let (last, ..) = told.started()[0];
    told.on(Event::Finished { attempt: last });
    assert_eq!(told.delivered(), [(1, Delivery::Whole)]);
}

#[test]
fn of_large_files_that_nobody_asks_for_any_more_no_more_is_begun() {
    let limits = Limits { part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 1, Order::Ready);
    told.on(Event::Asked { set: GUESSES });
    told.list(GUESSES, 1, Kind::Cache, 100, 0.0);
    let (open, ..) = told.started()[0];
    told.contact(open, 100, 0, &[(0, 100)]);
    let (first, ..) = told.started()[0];
    told.on(Event::Unasked { set: GUESSES });
    told.on(Event::Finished { attempt: first });
    assert_eq!(told.started(), []);
    told.on(Event::Asked { set: GUESSES });
    assert_eq!(told.started_members(), [1]);
}

#[test]
fn a_disk_with_one_head_is_read_as_an_elevator_goes() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    told.meet(1, true);
    for member in 1..=2 {
        told.list(SET, member, Kind::Cache, 100, 0.0);
    }
    told.ask();
    let (first, ..) = told.started()[0];
    told.contact(first, 100, 5000, &[(0, 100)]);
    let (second, member, aim) = told.started()[0].clone();
    assert_eq!((member, aim), (2, Aim::Open), "positions are learned before the first read");
    told.contact(second, 100, 200, &[(0, 100)]);
    assert_eq!(told.started_members(), [2], "from the head on, that at 200 comes before 5000");
}

#[test]
fn a_large_member_comes_in_parts_and_streams_as_soon_as_bytes_are_here() {
    let limits = Limits { part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 8, Order::Ready);
    told.bytes(1, 34);
    told.ask();
    let started = told.started();
    let aims: Vec<Aim> = started.iter().map(|(_, _, aim)| aim.clone()).collect();
    assert_eq!(aims, [Aim::Fetch(0..10), Aim::Fetch(10..20), Aim::Fetch(20..34)]);
    let first = started[0].0;
    told.contact(first, 34, 0, &[(0, 34)]);
    assert_eq!(told.delivered(), []);
    told.on(Event::Progressed { attempt: first, bytes: 4 });
    assert_eq!(told.delivered(), [(1, Delivery::Streaming)]);
    told.fail(first, Failure::Final);
    let broken = Action::Break { member: MemberId(1), cause: Cause::Failed };
    assert!(told.said.contains(&broken), "{:?}", told.said);
}

#[test]
fn a_reset_part_goes_on_from_where_it_stopped_and_fails_after_its_attempts() {
    let limits = Limits { attempts_max: 2, ..Limits::default() };
    let mut told = Told::new(limits, 8, Order::Ready);
    told.bytes(1, 100);
    told.ask();
    let (first, ..) = told.started()[0];
    told.contact(first, 100, 0, &[(0, 100)]);
    told.on(Event::Progressed { attempt: first, bytes: 40 });
    told.fail(first, Failure::Transient);
    assert_eq!(told.said, []);
    told.pass_to_wake();
    let (second, _, aim) = told.started()[0].clone();
    assert_eq!(aim, Aim::Fetch(40..100));
    told.fail(second, Failure::Transient);
    assert_eq!(told.delivered(), [(1, Delivery::Failed(Cause::Failed))]);
}

#[test]
fn descriptors_that_are_short_are_waited_for_some_seconds_and_their_device_is_left_as_it_is() {
    let mut told = Told::new(Limits::default(), 8, Order::Ready);
    told.bytes(1, 100);
    told.ask();
    let mut attempts = 0;
    while let Some((attempt, ..)) = told.started().first().cloned() {
        attempts += 1;
        told.fail(attempt, Failure::Short);
        if told.delivered().is_empty() {
            told.pass_to_wake();
        }
    }
    assert_eq!(told.delivered(), [(1, Delivery::Failed(Cause::Failed))]);
    assert!(attempts > Limits::default().attempts_max, "{attempts}");
    assert!(told.now < Duration::from_secs(10), "{:?}", told.now);
    assert_eq!(told.snapshot().devices[0].refusals, 0);
}

#[test]
fn a_part_that_gets_on_with_every_attempt_is_not_given_up() {
    let size: u64 = 4 << 20;
    let limits = Limits { attempts_max: 2, ..Limits::default() };
    let mut told = Told::new(limits, 8, Order::Ready);
    told.bytes(1, size);
    told.ask();
    let piece = size / 8;
    for done in (0..size).step_by(usize::try_from(piece).expect("small")) {
        let (attempt, _, aim) = told.started()[0].clone();
        assert_eq!(aim, Aim::Fetch(done..size));
        told.contact(attempt, size, 0, &[(done, size)]);
        told.on(Event::Progressed { attempt, bytes: piece });
        told.fail(attempt, Failure::Transient);
        if done + piece < size {
            told.pass_to_wake();
        }
    }
    assert!(!told.said.iter().any(|action| matches!(action, Action::Break { .. })));
    assert!(told.started().is_empty(), "{:?}", told.said);
}

#[test]
fn what_waits_behind_others_is_not_silent_while_these_are_heard() {
    let limits = Limits { attempts_max: 1, ..Limits::default() };
    let mut told = Told::new(limits, 2, Order::Ready);
    told.bytes(1, 100);
    told.bytes(2, 100);
    told.ask();
    let [(first, ..), (second, ..)] = told.started()[..] else { panic!("{:?}", told.said) };
    told.contact(first, 100, 0, &[(0, 100)]);
    for _ in 0..5 {
        told.now += limits.stall / 2;
        told.on(Event::Progressed { attempt: first, bytes: 1 });
        told.now += limits.stall / 2;
        told.on_all([Event::Waited { attempt: second }, Event::Tick]);
        assert_eq!(told.said, []);
    }
    told.now += limits.stall;
    told.on_all([Event::Waited { attempt: second }, Event::Tick]);
    let cut = [first, second].map(|attempt| Action::Cancel { attempt });
    assert!(cut.iter().all(|cut| told.said.contains(cut)), "{:?}", told.said);
}

#[test]
fn what_waits_for_room_is_not_silent_whatever_it_waited_for_before() {
    let limits = Limits { budget_bytes: 20, part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 8, Order::Ready);
    told.bytes(1, 100);
    told.ask();
    let (attempt, ..) = told.started()[0];
    let far = std::iter::once(0..100).collect();
    let contact = Contact { device: DEVICE, size: Some(100), far, covers: 0..100, position: 0 };
    told.on(Event::Contacted { attempt, contact });
    told.on(Event::Progressed { attempt, bytes: 20 });
    told.on(Event::Waited { attempt });
    told.now += 2 * limits.stall;
    told.on(Event::Tick);
    assert_eq!(told.said, []);
}

#[test]
fn silence_is_cut() {
    let limits = Limits { attempts_max: 1, ..Limits::default() };
    let mut told = Told::new(limits, 8, Order::Ready);
    told.bytes(1, 100);
    told.ask();
    let (attempt, ..) = told.started()[0];
    told.pass_to_wake();
    assert_eq!(told.now, limits.stall);
    assert_eq!(told.said[0], Action::Cancel { attempt });
    assert_eq!(told.delivered(), [(1, Delivery::Failed(Cause::Stalled))]);
}

#[test]
fn a_full_budget_stops_what_nobody_waits_for_and_spills_for_who_waits() {
    let limits = Limits {
        budget_bytes: 20,
        part_bytes: 10,
        spill_bytes: 100,
        stall: Duration::MAX,
        ..Limits::default()
    };
    let mut told = Told::new(limits, 8, Order::Ready);
    told.now = Duration::from_secs(1);
    (1..=3).for_each(|member| told.bytes(member, 10));
    told.ask();
    let started = told.started();
    assert_eq!(started.len(), 2);
    for (attempt, ..) in started {
        told.on(Event::Finished { attempt });
    }
    told.ask();
    assert_eq!(told.delivered(), [(2, Delivery::Whole)]);
    assert_eq!(told.started(), []);
    told.ask();
    assert_eq!(told.said, [Action::Spill { member: MemberId(2) }]);
    told.ask();
    told.on(Event::Spilled { member: MemberId(2), bytes: 10 });
    assert_eq!(told.started_members(), [3]);
    assert!(told.snapshot().budget.peak <= 20);
}

/// Two members that nobody reads hold all memory, and a third is asked for: the second is to be spilled.
fn with_a_spill_begun() -> Told {
    let limits = Limits {
        budget_bytes: 20,
        part_bytes: 10,
        spill_bytes: 100,
        stall: Duration::from_secs(5),
        ..Limits::default()
    };
    let mut told = Told::new(limits, 8, Order::Ready);
    told.now = Duration::from_secs(1);
    (1..=3).for_each(|member| told.bytes(member, 10));
    told.ask();
    for (attempt, ..) in told.started() {
        told.on(Event::Finished { attempt });
    }
    told.ask();
    told.ask();
    assert_eq!(told.said, [Action::Spill { member: MemberId(2) }]);
    told
}

#[test]
fn a_disk_that_takes_longer_than_anything_may_is_not_waited_for() {
    let mut told = with_a_spill_begun();
    told.pass_to_wake();
    assert_eq!(told.now, Duration::from_secs(1 + 5));
    assert_eq!(told.started_members(), [3]);
}

#[test]
fn what_was_begun_beyond_the_budget_is_not_spilled_for_what_has_to_fit_in_it() {
    let mut told = with_a_spill_begun();
    told.on(Event::SpillFailed { member: MemberId(2), bytes: 0 });
    let [(attempt, 3, _)] = told.started()[..] else { panic!("{:?}", told.said) };
    told.on(Event::Finished { attempt });
    assert_eq!(told.delivered(), [(3, Delivery::Whole)]);
    told.now += Duration::from_secs(10);
    told.bytes(4, 10);
    told.ask();
    assert_eq!(told.said, [Action::Spill { member: MemberId(2) }]);
}

#[test]
fn room_that_a_listing_took_for_more_than_there_is_comes_back_at_first_contact() {
    let limits = Limits { budget_bytes: 25, part_bytes: 10, ..Limits::default() };
    let mut told = Told::new(limits, 1, Order::Ready);
    told.bytes(1, 45);
    // Of another device, since the one that answers is looked at anyhow.
    let device = DeviceId(DEVICE.0 + 1);
    told.on(Event::DeviceMet { device, terms: terms(1, false) });
    let listing = Listing { device, kind: Kind::Bytes, size: Some(15), from: 0, rank: 0.0 };
    told.on(Event::Listed { set: SET, member: MemberId(2), listing });
    told.ask();
    let mut started = told.started();
    started.sort_unstable_by_key(|&(_, member, _)| member);
    let [(first, 1, _), (second, 2, _)] = started[..] else { panic!("{:?}", told.said) };
    let far = std::iter::once(0..45).collect();
    let contact = Contact { device: DEVICE, size: Some(45), far, covers: 0..45, position: 0 };
    told.on(Event::Contacted { attempt: first, contact });
    told.on(Event::Progressed { attempt: first, bytes: 10 });
    assert_eq!(told.said.len(), 1, "it is delivered, and rests: {:?}", told.said);
    let far = std::iter::once(0..5).collect();
    let contact = Contact { device, size: Some(5), far, covers: 0..5, position: 0 };
    told.on(Event::Contacted { attempt: second, contact });
    assert_eq!(told.said, [Action::Extend { attempt: first, end: 20 }]);
}

#[test]
fn an_answer_that_leaves_a_gap_is_of_no_use() {
    let mut told = Told::new(Limits::default(), 8, Order::Ready);
    told.bytes(1, 10);
    told.ask();
    let (attempt, ..) = told.started()[0];
    let far = std::iter::once(0..10).collect();
    let contact = Contact { device: DEVICE, size: Some(10), far, covers: 3..10, position: 0 };
    told.on(Event::Contacted { attempt, contact });
    assert_eq!(told.said, [Action::Cancel { attempt }]);
    told.pass_to_wake();
    let aims: Vec<Aim> = told.started().into_iter().map(|(_, _, aim)| aim).collect();
    assert_eq!(aims, [Aim::Fetch(0..10)]);
}

#[test]
fn what_a_store_calls_far_twice_or_beyond_the_end_is_fetched_once() {
    let mut told = Told::new(Limits::default(), 8, Order::Ready);
    told.list(SET, 1, Kind::Cache, 12, 0.0);
    told.ask();
    let (open, ..) = told.started()[0];
    told.contact(open, 12, 0, &[(5, 8), (0, 10), (2, 3), (9, 14)]);
    let aims: Vec<Aim> = told.started().into_iter().map(|(_, _, aim)| aim).collect();
    assert_eq!(aims, [0..10, 10..12].map(Aim::Fetch));
}

#[test]
fn a_server_is_left_alone_as_long_as_it_asks_for_within_reason() {
    for (asked, waited) in [(5, 5), (3600, 60)] {
        let mut told = Told::new(Limits::default(), 8, Order::Ready);
        told.bytes(1, 10);
        told.ask();
        let (attempt, ..) = told.started()[0];
        told.fail(attempt, Failure::Busy { retry_after: Some(Duration::from_secs(asked)) });
        told.now = Duration::from_millis(waited * 1000 - 100);
        told.on(Event::Tick);
        assert_eq!(told.started(), [], "after {asked} s");
        told.pass_to_wake();
        assert_eq!(told.now, Duration::from_secs(waited));
        assert_eq!(told.started_members(), [1], "after {asked} s");
    }
}

#[test]
fn a_server_that_turns_away_some_is_left_alone_only_once_it_turns_away_all() {
    let mut told = Told::new(Limits::default(), 1, Order::Ready);
    (1..=9).for_each(|member| told.bytes(member, 10));
    told.ask();
    for member in 1..=6 {
        let (attempt, ..) = told.started()[0].clone();
        if member == 4 {
            told.on_all([
                contacted(attempt, 10, 0, &[(0, 10)]),
                Event::Progressed { attempt, bytes: 5 },
            ]);
        }
        told.fail(attempt, REFUSED);
        assert_eq!(told.started_members(), [member + 1]);
    }
    let (attempt, ..) = told.started()[0].clone();
    told.fail(attempt, REFUSED);
    assert_eq!(told.started(), [], "the fourth since it brought something");
    told.pass_to_wake();
    assert_eq!(told.now, Limits::default().backoff);
    assert_eq!(told.started().len(), 1);
}

#[test]
fn a_server_that_turns_away_a_few_is_asked_for_as_many_as_before() {
    let (mut told, attempts) = sixteen_in_flight();
    for &attempt in &attempts[..4] {
        told.fail(attempt, REFUSED);
        assert_eq!(told.started().len(), 1, "another in its place");
    }
}

#[test]
fn a_server_that_turns_away_a_third_is_asked_less_at_a_time() {
    let (mut told, attempts) = sixteen_in_flight();
    let mut in_flight = VecDeque::from(attempts);
    for number in 1..=120 {
        let attempt = in_flight.pop_front().expect("some are in flight");
        if number % 3 == 0 {
            told.fail(attempt, REFUSED);
        } else {
            told.on_all([
                contacted(attempt, 10, 0, &[(0, 10)]),
                Event::Progressed { attempt, bytes: 10 },
                Event::Finished { attempt },
            ]);
        }
        in_flight.extend(told.started().into_iter().map(|(attempt, ..)| attempt));
    }
    assert!(in_flight.len() <= 8, "{}", in_flight.len());
}

#[test]
fn a_server_that_turns_away_as_many_as_were_in_flight_is_left_alone() {
    let (mut told, attempts) = sixteen_in_flight();
    let began = attempts.iter().map(|&attempt| {
        told.fail(attempt, REFUSED);
        told.started().len()
    });
    let began: Vec<usize> = began.collect();
    assert_eq!(began, [[1; 15].as_slice(), &[0]].concat());
    told.pass_to_wake();
    assert_eq!(told.now, Limits::default().backoff);
    assert_eq!(told.started().len(), 1);
}

/// The first of 200 members, each in one request.
fn sixteen_in_flight() -> (Told, Vec<AttemptId>) {
    let mut told = Told::new(Limits::default(), 16, Order::Ready);
    (1..=200).for_each(|member| told.bytes(member, 10));
    told.ask();
    let attempts: Vec<_> = told.started().into_iter().map(|(attempt, ..)| attempt).collect();
    assert_eq!(attempts.len(), 16);
    (told, attempts)
}

#[test]
fn no_more_is_in_flight_than_a_device_may_have_from_now_on() {
    let mut told = Told::new(Limits::default(), 8, Order::Ready);
    told.meet(2, false);
    (1..=4).for_each(|member| told.bytes(member, 10));
    told.ask();
    assert_eq!(told.started_members(), [1, 2]);
}

#[test]
fn what_moved_to_disk_before_it_was_told_of_is_not_in_memory() {
    let limits = Limits { budget_bytes: 30, part_bytes: 10, spill_bytes: 100, ..Limits::default() };
    let mut told = Told::new(limits, 4, Order::Ready);
    told.bytes(1, 40);
    told.bytes(2, 10);
    told.ask();
    assert_eq!(told.started_members(), [1, 1, 1]);
    let (first, second) = (told.started()[0].0, told.started()[1].0);
    told.contact(first, 40, 0, &[(0, 40)]);
    told.on(Event::Finished { attempt: first });
    assert_eq!(told.delivered(), [(1, Delivery::Streaming)]);
    told.ask();
    assert_eq!(told.said, [Action::Spill { member: MemberId(1) }]);
    // Four bytes of the second part came meanwhile.
    told.on(Event::Spilled { member: MemberId(1), bytes: 14 });
    assert_eq!(told.started_members(), [1, 2]);
    let before = told.snapshot().budget;
    told.on(Event::Progressed { attempt: second, bytes: 4 });
    let after = told.snapshot().budget;
    assert_eq!((before.spilled, after.spilled), (14, 14));
    assert_eq!(after.used, before.used - 4);
}

#[test]
fn listing_order_is_kept_where_it_is_asked_for() {
    let mut told = Told::new(Limits::default(), 8, Order::Listed);
    told.bytes(1, 10);
    told.bytes(2, 10);
    told.on(Event::Unlisted { set: SET, member: MemberId(3) });
    told.ask();
    let started = told.started();
    told.on(Event::Finished { attempt: started[1].0 });
    assert_eq!(told.delivered(), []);
    told.on(Event::Finished { attempt: started[0].0 });
    assert_eq!(told.delivered(), [(1, Delivery::Whole)]);
    told.ask();
    assert_eq!(told.delivered(), [(2, Delivery::Whole)]);
    told.on(Event::ListingEnded { set: SET });
    told.ask();
    assert_eq!(told.delivered(), [(3, Delivery::Failed(Cause::Unlisted))]);
    assert!(told.said.contains(&Action::End { set: SET }));
}

#[test]
fn errors_of_listing_hide_nothing_that_is_waited_for() {
    let mut told = Told::new(Limits::default(), 1, Order::Listed);
    told.on(Event::Unlisted { set: SET, member: MemberId(1) });
    told.on(Event::Unlisted { set: SET, member: MemberId(2) });
    told.bytes(3, 10);
    told.bytes(4, 10);
    told.ask();
    assert_eq!(told.delivered(), [(1, Delivery::Failed(Cause::Unlisted))]);
    assert_eq!(told.started_members(), [3]);
    let Snapshot { waits, sets, .. } = told.snapshot();
    assert_eq!(waits.iter().map(|wait| wait.member).collect::<Vec<_>>(), [MemberId(3)]);
    assert_eq!((sets[0].ready, sets[0].fetching, sets[0].queued), (1, 1, 1));
    // Nobody tells it anything while a server is silent.
    let later = told.scheduler.snapshot_at(told.now + Duration::from_secs(3));
    assert_eq!(later.waits[0].waited, waits[0].waited + Duration::from_secs(3));
}

fn any_range() -> impl Strategy<Value = std::ops::Range<u64>> {
    let edge = prop_oneof![0..40u64, Just(u64::MAX)];
    (edge.clone(), edge).prop_map(|(start, end)| start..end)
}

fn any_contact() -> impl Strategy<Value = Contact> {
    let far = prop::collection::vec(any_range(), 0..3);
    let size = prop::option::of(prop_oneof![0..40u64, Just(u64::MAX)]);
    (0..3u32, size, far, any_range(), any::<u64>()).prop_map(
        |(device, size, far, covers, position)| Contact {
            device: DeviceId(device),
            size,
            far,
            covers,
            position,
        },
    )
}

/// Events of any kind in any order; attempts are named by when they started.
fn any_event() -> impl Strategy<Value = Event> {
    let set = (0..3u32).prop_map(SetId);
    let member = (0..12u64).prop_map(MemberId);
    let attempt = (0..20u64).prop_map(AttemptId);
    let bytes = prop_oneof![0..30u64, Just(u64::MAX)];
    let size = prop::option::of(prop_oneof![0..40u64, Just(u64::MAX)]);
    let kind = prop_oneof![Just(Kind::Bytes), Just(Kind::Cache)];
    let from = prop_oneof![3 => Just(0), 1 => 0..40u64, 1 => Just(u64::MAX)];
    let listing = (0..3u32, kind, size, from, -1.0..1.0f64);
    let listing = listing.prop_map(|(device, kind, size, from, rank)| {
        let device = DeviceId(device);
        Listing { device, kind, size, from, rank }
    });
    let origin = prop_oneof![Just(Origin::Told), Just(Origin::Guessed)];
    let order = prop_oneof![Just(Order::Ready), Just(Order::Listed)];
    let terms = (origin, order).prop_map(|(origin, order)| SetTerms { origin, order });
    let failure = prop_oneof![
        Just(Failure::Transient),
        Just(Failure::Final),
        Just(Failure::Busy { retry_after: None }),
        Just(Failure::Short),
    ];
    prop_oneof![
        2 => (set.clone(), terms).prop_map(|(set, terms)| Event::SetOpened { set, terms }),
        1 => (0..3u32, 0..3u32, any::<bool>()).prop_map(|(device, opens_max, by_position)| {
            let terms = DeviceTerms {
                window_max: 2,
                window_start: 1,
                enough: by_position.then_some(100),
                opens_max,
                by_position,
                latency: None,
            };
            Event::DeviceMet { device: DeviceId(device), terms }
        }),
        6 => (set.clone(), member.clone(), listing)
            .prop_map(|(set, member, listing)| Event::Listed { set, member, listing }),
        1 => (set.clone(), member.clone()).prop_map(|(set, member)| Event::Unlisted { set, member }),
        1 => set.clone().prop_map(|set| Event::ListingEnded { set }),
        6 => set.clone().prop_map(|set| Event::Asked { set }),
        1 => set.clone().prop_map(|set| Event::Unasked { set }),
        6 => (attempt.clone(), any_contact())
            .prop_map(|(attempt, contact)| Event::Contacted { attempt, contact }),
        6 => (attempt.clone(), bytes.clone())
            .prop_map(|(attempt, bytes)| Event::Progressed { attempt, bytes }),
        2 => attempt.clone().prop_map(|attempt| Event::Submitted { attempt }),
        2 => attempt.clone().prop_map(|attempt| Event::Waited { attempt }),
        4 => attempt.clone().prop_map(|attempt| Event::Finished { attempt }),
        4 => (attempt, failure).prop_map(|(attempt, failure)| Event::Failed { attempt, failure }),
        3 => (member.clone(), bytes.clone()).prop_map(|(member, bytes)| Event::Read { member, bytes }),
        3 => member.clone().prop_map(|member| Event::Released { member }),
        2 => (member.clone(), bytes.clone())
            .prop_map(|(member, bytes)| Event::Spilled { member, bytes }),
        1 => (member, bytes).prop_map(|(member, bytes)| Event::SpillFailed { member, bytes }),
        1 => set.prop_map(|set| Event::SetClosed { set }),
        3 => Just(Event::Tick),
    ]
}

/// The same event about the attempt that was started so many starts ago.
fn renamed(event: Event, attempts: &[AttemptId]) -> Event {
    let name = |attempt: AttemptId| {
        let back = usize::try_from(attempt.0).expect("small");
        attempts.iter().rev().nth(back).copied().unwrap_or(attempt)
    };
    match event {
        Event::Contacted { attempt, contact } => {
            Event::Contacted { attempt: name(attempt), contact }
        }
        Event::Progressed { attempt, bytes } => Event::Progressed { attempt: name(attempt), bytes },
        Event::Submitted { attempt } => Event::Submitted { attempt: name(attempt) },
        Event::Waited { attempt } => Event::Waited { attempt: name(attempt) },
        Event::Finished { attempt } => Event::Finished { attempt: name(attempt) },
        Event::Failed { attempt, failure } => Event::Failed { attempt: name(attempt), failure },
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_events_make_it_panic_and_closing_forgets_all(
        events in prop::collection::vec((any_event(), 0..200u64), 0..150),
        budget in prop_oneof![Just(0u64), Just(25), Just(1000)],
    ) {
        let limits = Limits {
            budget_bytes: budget, spill_bytes: 30, part_bytes: 10, lookahead: 6, ahead: 3,
            ..Limits::default()
        };
        let mut scheduler = Scheduler::new(limits);
        let (mut now, mut actions, mut attempts) = (Duration::ZERO, Vec::new(), Vec::new());
        let closing = (0..3).map(|set| Event::SetClosed { set: SetId(set) });
        let releasing = (0..12).map(|member| Event::Released { member: MemberId(member) });
        let last = closing.chain(releasing).map(|event| (event, 0));
        for (event, millis) in events.into_iter().chain(last) {
            now += Duration::from_millis(millis);
            scheduler.on(renamed(event, &attempts), now, &mut actions);
            attempts.extend(actions.drain(..).filter_map(|action| match action {
                Action::Start { attempt, .. } => Some(attempt),
                _ => None,
            }));
            scheduler.wake_at();
            let snapshot = scheduler.snapshot_at(now);
            prop_assert!(snapshot.budget.used - snapshot.budget.over <= budget);
        }
        prop_assert!(scheduler.is_empty(), "{:?}", scheduler);
    }
}
