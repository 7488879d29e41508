//! Second attempts: at what is late, and at what comes slowly.

use super::*;

/// A server that answers within 10 ms, as has been seen.
fn with_a_quick_server(window: u32, order: Order) -> Told {
    with_a_quick_server_of(Limits::default(), window, order)
}

fn with_a_quick_server_of(limits: Limits, window: u32, order: Order) -> Told {
    let mut told = Told::new(limits, window, order);
    told.ask();
    for member in 0..40 {
        told.bytes(member, 100);
        let (attempt, ..) = told.started()[0];
        told.now += Duration::from_millis(10);
        told.contact(attempt, 100, 0, &[(0, 100)]);
        told.on(Event::Finished { attempt });
        told.on(Event::Released { member: MemberId(member) });
        told.ask();
    }
    told
}

#[test]
fn what_waits_unusually_long_for_its_first_byte_is_hedged_and_the_first_wins() {
    let mut told = with_a_quick_server(8, Order::Ready);
    told.bytes(99, 100);
    let (slow, ..) = told.started()[0];
    let before = told.now;
    told.pass_to_wake();
    let waited = told.now.saturating_sub(before);
    assert!(
        waited >= Duration::from_millis(20) && waited < Duration::from_millis(30),
        "{waited:?}"
    );
    let (hedge, member, aim) = told.started()[0].clone();
    assert_eq!((member, aim), (99, Aim::Fetch(0..100)));
    told.on(Event::Finished { attempt: hedge });
    assert_eq!(told.said[0], Action::Cancel { attempt: slow });
    assert_eq!(told.delivered(), [(99, Delivery::Whole)]);
    assert_eq!(told.snapshot().devices[0].hedges_won, 1);
}

#[test]
fn a_second_attempt_that_fails_for_good_leaves_the_first_one_be() {
    for other_answers in [true, false] {
        let mut told = with_a_quick_server(8, Order::Ready);
        told.bytes(99, 100);
        let (first, ..) = told.started()[0];
        told.pass_to_wake();
        let (hedge, ..) = told.started()[0];
        told.on(Event::Failed { attempt: hedge, failure: Failure::Final });
        assert_eq!(told.delivered(), []);
        if other_answers {
            told.on(Event::Finished { attempt: first });
            assert_eq!(told.delivered(), [(99, Delivery::Whole)]);
        } else {
            told.on(Event::Failed { attempt: first, failure: Failure::Final });
            assert_eq!(told.delivered(), [(99, Delivery::Failed(Cause::Failed))]);
        }
    }
}

#[test]
fn what_fails_for_good_is_not_tried_again_after_a_second_attempt_that_breaks() {
    let mut told = with_a_quick_server(8, Order::Ready);
    told.bytes(99, 100);
    let (first, ..) = told.started()[0];
    told.pass_to_wake();
    let (hedge, ..) = told.started()[0];
    told.on(Event::Failed { attempt: first, failure: Failure::Final });
    assert_eq!(told.delivered(), []);
    told.on(Event::Failed { attempt: hedge, failure: Failure::Transient });
    assert_eq!(told.delivered(), [(99, Delivery::Failed(Cause::Failed))]);
}

/// What is started when one of two is overdue, the other comes, and there is something new.
fn started_beside_a_late_one(order: Order) -> Vec<u64> {
    let mut told = with_a_quick_server(2, order);
    told.bytes(97, 100);
    told.bytes(98, 100);
    let (quick, ..) = told.started()[0];
    told.bytes(99, 100);
    assert_eq!(told.started(), [], "there is no room");
    told.now += Duration::from_millis(40);
    told.on(Event::Finished { attempt: quick });
    told.started_members()
}

#[test]
fn a_hedge_of_what_is_waited_for_comes_before_what_is_new() {
    assert_eq!(started_beside_a_late_one(Order::Listed), [97]);
    assert_eq!(started_beside_a_late_one(Order::Ready), [99]);
}

#[test]
fn a_hedge_that_is_late_is_given_up_for_another_and_the_first_attempt_is_kept() {
    let mut told = with_a_quick_server(8, Order::Ready);
    told.bytes(99, 100);
    let (first, ..) = told.started()[0];
    told.pass_to_wake();
    let (hedge, ..) = told.started()[0];
    told.pass_to_wake();
    assert_eq!(told.said[0], Action::Cancel { attempt: hedge });
    let (another, member, aim) = told.started()[0].clone();
    assert_eq!((member, aim), (99, Aim::Fetch(0..100)));
    told.contact(another, 100, 0, &[(0, 100)]);
    let stall = told.scheduler.wake_at().expect("the stall limit");
    assert!(stall > told.now + Duration::from_secs(1), "who answered is not hedged");
    told.on(Event::Finished { attempt: first });
    assert_eq!(told.said[0], Action::Cancel { attempt: another });
    assert_eq!(told.delivered(), [(99, Delivery::Whole)]);
}

#[test]
fn what_four_attempts_did_not_bring_is_waited_for() {
    let limits = Limits { hedge_percent: 100, ..Limits::default() };
    let mut told = with_a_quick_server_of(limits, 8, Order::Ready);
    told.bytes(99, 100);
    for _ in 0..3 {
        told.pass_to_wake();
        assert_eq!(told.started_members(), [99]);
    }
    told.pass_to_wake();
    assert_eq!(told.said, []);
}

#[test]
fn what_has_moved_to_another_device_is_not_hedged_for_being_late_at_the_first() {
    let mut told = with_a_quick_server(8, Order::Ready);
    told.bytes(99, 2 * PART);
    let [(first, ..), _] = told.started()[..] else { panic!("{:?}", told.said) };
    let far = std::iter::once(0..2 * PART).collect();
    let device = DeviceId(DEVICE.0 + 1);
    let contact = Contact { device, size: Some(2 * PART), far, covers: 0..0, position: 0 };
    told.on(Event::Contacted { attempt: first, contact });
    told.now += Duration::from_millis(100);
    told.on(Event::Tick);
    assert_eq!(told.started(), []);
}

#[test]
fn of_two_attempts_the_first_to_bring_what_it_may_goes_on_alone() {
    let limits = Limits { budget_bytes: 10, part_bytes: 10, ..Limits::default() };
    let latency = Some((Duration::from_millis(10), Duration::from_millis(50)));
    let terms = DeviceTerms { latency, ..terms(8, false) };
    let mut told = Told::of(limits, terms, Order::Ready);
    told.bytes(1, 45);
    told.ask();
    let (first, ..) = told.started()[0];
    told.pass_to_wake();
    let (hedge, ..) = told.started()[0];
    let far = std::iter::once(0..45).collect();
    let contact = Contact { device: DEVICE, size: Some(45), far, covers: 0..45, position: 0 };
    told.on(Event::Contacted { attempt: first, contact });
    told.on(Event::Progressed { attempt: first, bytes: 4 });
    assert_eq!(told.delivered(), [(1, Delivery::Streaming)]);
    told.on(Event::Progressed { attempt: first, bytes: 6 });
    assert_eq!(told.said, [Action::Cancel { attempt: hedge }]);
}

#[test]
fn a_first_request_is_late_by_twice_what_the_table_says() {
    for (median, bad, late) in [(10, 50, 100), (30, 50, 120)] {
        let latency = Some((Duration::from_millis(median), Duration::from_millis(bad)));
        let terms = DeviceTerms { latency, ..terms(8, false) };
        let mut told = Told::of(Limits::default(), terms, Order::Ready);
        told.bytes(1, 100);
        told.ask();
        told.pass_to_wake();
        assert_eq!(told.now, Duration::from_millis(late));
        assert_eq!(told.started_members(), [1]);
    }
}

#[test]
fn once_a_server_has_answered_it_is_late_by_what_the_table_says() {
    let latency = Some((Duration::from_millis(10), Duration::from_millis(50)));
    let terms = DeviceTerms { latency, ..terms(8, false) };
    let mut told = Told::of(Limits::default(), terms, Order::Ready);
    told.bytes(1, 100);
    told.ask();
    let (first, ..) = told.started()[0];
    told.now += Duration::from_millis(10);
    told.contact(first, 100, 0, &[(0, 100)]);
    told.on(Event::Finished { attempt: first });
    told.on(Event::Released { member: MemberId(1) });
    told.ask();
    told.bytes(2, 100);
    let began = told.now;
    told.pass_to_wake();
    assert_eq!(told.now.saturating_sub(began), Duration::from_millis(50));
    assert_eq!(told.started_members(), [2]);
}

const PART: u64 = 8 << 20;

/// A member of six parts, of which all but the first came in 100 ms each; the first has been met.
fn with_a_part_left(window: u32) -> (Told, AttemptId) {
    let mut told = Told::new(Limits::default(), window, Order::Ready);
    told.bytes(1, 6 * PART);
    told.ask();
    let started = told.started();
    assert_eq!(started.len(), 6);
    told.now += Duration::from_millis(10);
    for (attempt, ..) in &started {
        told.contact(*attempt, 6 * PART, 0, &[(0, 6 * PART)]);
    }
    told.on(Event::Progressed { attempt: started[0].0, bytes: 1 << 10 });
    assert_eq!(told.delivered(), [(1, Delivery::Streaming)]);
    told.now += Duration::from_millis(100);
    for (attempt, ..) in &started[1..] {
        told.on(Event::Finished { attempt: *attempt });
    }
    (told, started[0].0)
}

#[test]
fn the_rest_of_what_comes_slowly_is_asked_for_once_more_and_the_first_wins() {
    let (mut told, slow) = with_a_part_left(8);
    told.now += Duration::from_millis(150);
    told.on(Event::Progressed { attempt: slow, bytes: 1 << 10 });
    let (hedge, member, aim) = told.started()[0].clone();
    assert_eq!((member, aim), (1, Aim::Fetch(2 << 10..PART)));
    told.now += Duration::from_millis(500);
    told.on(Event::Progressed { attempt: slow, bytes: 1 << 10 });
    assert_eq!(told.said, [], "two are enough");
    told.contact(hedge, 6 * PART, 0, &[(0, 6 * PART)]);
    told.on(Event::Finished { attempt: hedge });
    assert_eq!(told.said[0], Action::Cancel { attempt: slow });
    let Snapshot { devices, .. } = told.snapshot();
    assert_eq!((devices[0].hedges, devices[0].hedges_won), (1, 1));
}

#[test]
fn what_takes_its_time_and_is_nearly_here_is_left_alone() {
    let (mut told, slow) = with_a_part_left(8);
    told.now += Duration::from_millis(150);
    told.on(Event::Progressed { attempt: slow, bytes: PART / 2 });
    assert_eq!(told.started(), []);
    told.now += Duration::from_millis(50);
    told.on(Event::Finished { attempt: slow });
    assert_eq!(told.snapshot().devices[0].hedges, 0);
}

#[test]
fn what_nobody_waits_for_may_come_slowly() {
    let mut told = Told::new(Limits::default(), 8, Order::Listed);
    (1..=6).for_each(|member| told.bytes(member, PART));
    told.ask();
    let started = told.started();
    told.now += Duration::from_millis(10);
    for (attempt, ..) in &started {
        told.contact(*attempt, PART, 0, &[(0, PART)]);
    }
    told.now += Duration::from_millis(100);
    for (attempt, ..) in &started[2..] {
        told.on(Event::Finished { attempt: *attempt });
    }
    told.now += Duration::from_millis(150);
    let mut progress = |at: usize| {
        told.on(Event::Progressed { attempt: started[at].0, bytes: 1 << 10 });
        told.started_members()
    };
    assert_eq!(progress(1), Vec::<u64>::new(), "it is not next");
    assert_eq!(progress(0), [1]);
}

#[test]
fn a_second_attempt_at_a_rest_waits_for_a_place_and_comes_before_what_is_new() {
    let (mut told, slow) = with_a_part_left(6);
    (2..=6).for_each(|member| told.bytes(member, PART));
    let (other, ..) = told.started()[0];
    told.bytes(7, PART);
    told.now += Duration::from_millis(150);
    told.on(Event::Progressed { attempt: slow, bytes: 1 << 10 });
    assert_eq!(told.started(), [], "the window is full");
    told.on(Event::Failed { attempt: other, failure: Failure::Final });
    assert_eq!(told.started_members()[0], 1);
}

#[test]
fn where_all_is_slow_few_are_asked_for_twice() {
    let (mut told, first) = with_a_part_left(8);
    told.now += Duration::from_secs(1);
    told.on(Event::Progressed { attempt: first, bytes: 1 << 10 });
    assert_eq!(told.started_members(), [1]);
    for member in 2..6 {
        told.bytes(member, PART);
        let (attempt, ..) = told.started()[0];
        told.contact(attempt, PART, 0, &[(0, PART)]);
        told.ask();
        told.now += Duration::from_secs(1);
        told.on(Event::Progressed { attempt, bytes: 1 << 10 });
        assert_eq!(told.started(), [], "one in twenty");
    }
}
