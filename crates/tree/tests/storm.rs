//! Whatever happens, in whatever order, a learner stands it and stays small.

mod world;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nearfirst_tree::{
    Access, Decision, Event, File, Identity, Learner, Matching, Options, Patterns, PredictionId,
    Process, User,
};
use proptest::prelude::*;
use world::World;

const PROGRAMS: [&str; 6] =
    ["/bin/sh", "/bin/cc", "/usr/bin/python3", "/bin/make", "/bin/busybox", "/bin/env"];
const ARGUMENTS: [&str; 6] = ["-c", "a.c", "-m", "-o", "/tmp/ccX1.o", "--file=lib/b.h"];

fn file(number: u8) -> File {
    let path = match number % 5 {
        0 => format!("/proc/{number}"),
        1 => format!("relative{number}"),
        _ => format!("/home/u/{number}.c"),
    };
    File {
        path: Arc::from(path.into_bytes()),
        identity: Some(Identity { device: 1, inode: u64::from(number % 7) }),
        size: number.is_multiple_of(2).then_some(u64::from(number) << 16),
    }
}

fn event() -> impl Strategy<Value = Event> {
    let process = || (0_u64..12).prop_map(Process);
    let words = prop::collection::vec(prop::sample::select(&ARGUMENTS[..]), 0..5);
    let access = prop_oneof![4 => Just(Access::Read), 1 => Just(Access::Write)];
    let extents =
        prop::collection::vec((any::<u64>(), any::<u64>()).prop_map(|(a, b)| a..b), 0..30);
    prop_oneof![
        2 => (process(), 0_u32..3).prop_map(|(process, user)| Event::Found { process, user: User(user) }),
        4 => (process(), process()).prop_map(|(parent, child)| Event::Forked { parent, child }),
        6 => (process(), prop::sample::select(&PROGRAMS[..]), words, any::<u8>()).prop_map(
            |(process, program, words, inode)| Event::Executed {
                process,
                program: File {
                    path: Arc::from(program.as_bytes()),
                    identity: Some(Identity { device: 1, inode: u64::from(inode / 50) }),
                    size: None,
                },
                arguments: words.iter().map(|word| Arc::from(word.as_bytes())).collect(),
                folder: Arc::from(&b"/home/u"[..]),
            }
        ),
        20 => (process(), any::<u8>(), access).prop_map(|(process, number, access)| {
            Event::Opened { process, file: file(number), access }
        }),
        1 => (process(), any::<u8>(), extents).prop_map(|(process, number, extents)| {
            Event::Touched { process, file: file(number), extents }
        }),
        5 => process().prop_map(|process| Event::Exited { process }),
        1 => prop::option::of(process()).prop_map(|process| Event::Lost { process }),
        2 => (0_u64..40, any::<u8>()).prop_map(|(prediction, number)| Event::Fetched {
            prediction: PredictionId(prediction),
            path: file(number).path,
            bytes: u64::from(number),
            took: Duration::from_millis(3),
        }),
        1 => (0_u64..40, any::<u8>()).prop_map(|(prediction, number)| Event::Refused {
            prediction: PredictionId(prediction),
            path: file(number).path,
        }),
    ]
}

/// A prediction is made once, of files that can be, and withdrawn at most once, after that.
fn check(decisions: &[Decision], made: &mut Vec<PredictionId>) -> Result<(), TestCaseError> {
    for decision in decisions {
        match decision {
            Decision::Fetch(prediction) => {
                prop_assert!(!made.contains(&prediction.id));
                made.push(prediction.id);
                prop_assert!(!prediction.files.is_empty());
                for file in &prediction.files {
                    prop_assert!(file.path.starts_with(b"/") && !file.path.starts_with(b"/proc"));
                    prop_assert!((0.0..=1.0).contains(&file.chance));
                    let sorted = file.extents.windows(2).all(|pair| pair[0].end < pair[1].start);
                    prop_assert!(sorted && file.extents.len() <= 128);
                }
            }
            Decision::Withdraw(id) => {
                let place = made.iter().position(|made| made == id);
                prop_assert!(place.is_some());
                made.swap_remove(place.unwrap_or_default());
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_events_are_stood(
        events in prop::collection::vec((event(), 0_u64..100_000), 0..400),
        matching in prop::sample::select(&[Matching::Paper, Matching::Ours][..]),
        memory in prop::sample::select(&[0, 20_000, 64 << 20][..]),
    ) {
        let options =
            Options { matching, near_files: 0, pattern_bytes_max: memory, ..Options::default() };
        let mut learner = Learner::new(options.clone(), Patterns::default());
        let mut made = Vec::new();
        for (event, milliseconds) in &events {
            // Clocks of sources may go back.
            check(&learner.on(event.clone(), Duration::from_millis(*milliseconds)), &mut made)?;
        }
        let bytes = learner.patterns().encode();
        let patterns = Patterns::decode(&bytes).expect("what is written can be read");
        prop_assert_eq!(patterns.encode(), bytes);
        let (mut learner, mut made) = (Learner::new(options, patterns), Vec::new());
        for (event, milliseconds) in events {
            check(&learner.on(event, Duration::from_millis(milliseconds)), &mut made)?;
        }
    }
}

fn world(matching: Matching) -> World {
    World::new(Learner::new(Options { matching, ..Options::default() }, Patterns::default()))
}

#[test]
fn a_fork_bomb_whose_ends_are_lost_does_not_take_the_learner_along() {
    for matching in [Matching::Paper, Matching::Ours] {
        let mut world = world(matching);
        let mut process = world.start("/bin/bomb", "bomb");
        for _ in 0..150_000 {
            process = world.fork(process);
        }
        world.run("/bin/cat", "cat /etc/motd", &["/etc/motd"]);
        world.forget_decisions();
        world.start("/bin/cat", "cat /etc/motd");
        assert!(world.learner.patterns().encode().len() < 10_000);
    }
}

#[test]
fn short_processes_leave_patterns_within_their_bounds() {
    for matching in [Matching::Paper, Matching::Ours] {
        let most = 256 << 10;
        let options = Options { matching, pattern_bytes_max: most, ..Options::default() };
        let mut world = World::new(Learner::new(options, Patterns::default()));
        for number in 0..20_000 {
            let (program, file) = (format!("/t/test{}", number % 5000), format!("/t/{number}"));
            world.run(&program, &format!("test {number}"), &["/lib/libc.so", &file]);
            world.forget_decisions();
        }
        // What is held takes more than its encoding; a sweep may be some runs away.
        assert!(world.learner.patterns().encode().len() < most);
        world.run("/t/test4999", "test 19999", &["/lib/libc.so"]);
        assert!(world.learner.patterns().programs().len() > 10, "{matching:?}");
    }
}

#[test]
fn where_memory_is_short_the_order_of_reads_goes_before_patterns() {
    for (most, kept) in [(64 << 20, true), (700 << 10, false)] {
        let options = Options { pattern_bytes_max: most, near_files: 0, ..Options::default() };
        let mut world = World::new(Learner::new(options, Patterns::default()));
        world.run("/bin/known", "known", &["/etc/known.conf"]);
        let reader = world.start("/bin/reader", "reader");
        let old: Vec<String> = (0..100).map(|number| format!("/old/{number}")).collect();
        world.open_all(reader, &old);
        for number in 0..40_000 {
            world.open(reader, &format!("/f/{}", number % 1000));
            world.forget_decisions();
        }
        // Of what a run read before nothing but the order of reads tells.
        world.open_all(reader, &old);
        let foretold = world.predicted().iter().filter(|path| path.starts_with("/old")).count();
        assert_eq!(foretold > 10, kept, "{foretold}");
        world.start("/bin/known", "known");
        assert!(world.predicted().contains(&"/etc/known.conf".to_owned()));
    }
}

#[test]
fn who_runs_much_has_nobody_elses_programs_forgotten() {
    for matching in [Matching::Paper, Matching::Ours] {
        let options =
            Options { matching, near_files: 0, pattern_bytes_max: 256 << 10, ..Options::default() };
        let mut world = World::new(Learner::new(options, Patterns::default()));
        let user = world.user;
        world.run("/bin/known", "known", &["/etc/known.conf", "/etc/known.d/1"]);
        world.user = User(user.0 + 1);
        for number in 0..5000 {
            world.run(&format!("/t/test{number}"), "test", &[&format!("/t/{number}")]);
            world.forget_decisions();
        }
        world.user = user;
        let known = world.start("/bin/known", "known");
        world.open(known, "/etc/known.conf");
        let predicted = world.predicted();
        assert!(predicted.contains(&"/etc/known.d/1".to_owned()), "{matching:?}: {predicted:?}");
    }
}

#[test]
fn a_program_that_executes_itself_for_ever_is_one_of_many() {
    for matching in [Matching::Paper, Matching::Ours] {
        let mut world = world(matching);
        let process = world.start("/bin/again", "again");
        for number in 0..2000 {
            world.execute(process, "/bin/again", &format!("again {number}"));
            world.open(process, "/etc/again.conf");
        }
        world.exit(process);
        world.start("/bin/again", "again");
        assert!(Patterns::decode(&world.learner.patterns().encode()).is_ok());
    }
}

#[test]
fn deep_trees_are_cut() {
    for matching in [Matching::Paper, Matching::Ours] {
        let mut world = world(matching);
        for _ in 0..2 {
            let mut processes = vec![world.start("/bin/deep0", "deep")];
            for depth in 1..500 {
                let child =
                    world.invoke(processes[depth - 1], &format!("/bin/deep{depth}"), "deep");
                world.open(child, &format!("/d/{depth}"));
                processes.push(child);
            }
            for &process in processes.iter().rev() {
                world.exit(process);
            }
        }
        assert!(Patterns::decode(&world.learner.patterns().encode()).is_ok());
        world.forget_decisions();
        let shallow = world.start("/bin/deep498", "deep");
        world.open(shallow, "/d/498");
        let predicted = world.predicted();
        assert!(predicted.contains(&"/d/499".to_owned()), "{matching:?}: {predicted:?}");
    }
}

#[test]
fn of_a_program_that_opens_very_many_files_the_beginning_is_kept() {
    let mut world = world(Matching::Ours);
    let reader = world.start("/bin/reader", "reader");
    for number in 0..200_000 {
        world.open(reader, &format!("/{number}"));
    }
    world.exit(reader);
    assert!(world.learner.patterns().encode().len() < 16 << 20);
    world.forget_decisions();
    world.start("/bin/reader", "reader");
    assert_eq!(world.predicted()[..2], ["/0", "/1"]);
}

#[test]
fn what_ran_of_late_is_still_known_where_memory_is_full() {
    for matching in [Matching::Paper, Matching::Ours] {
        let most = 4 << 20;
        let options =
            Options { matching, pattern_bytes_max: most, near_files: 0, ..Options::default() };
        let mut world = World::new(Learner::new(options, Patterns::default()));
        let files = |program: usize| (0..50).map(move |file| format!("/data/{program}/{file}"));
        let daemon = world.start("/bin/daemon", "daemon");
        world.open_all(daemon, ["/etc/daemon.conf", "/etc/daemon.d/1"]);
        let mut most_known = 0;
        for program in 0..1000 {
            let process = world.start(&format!("/bin/p{program}"), "p");
            world.open_all(process, files(program));
            world.exit(process);
            world.forget_decisions();
            let known = world.learner.patterns().programs().len();
            assert!(known > most_known / 2, "{matching:?}: {known} of {most_known}");
            most_known = most_known.max(known);
        }
        assert!(most_known < 1000, "{most_known}: memory was full");
        world.exit(daemon);
        world.forget_decisions();
        let daemon = world.start("/bin/daemon", "daemon");
        world.open(daemon, "/etc/daemon.conf");
        let known = world.predicted().contains(&"/etc/daemon.d/1".to_owned());
        assert!(known, "{matching:?}: a run held it");
        for program in 1000 - most_known / 2..1000 {
            world.forget_decisions();
            let process = world.start(&format!("/bin/p{program}"), "p");
            world.open_all(process, files(program).take(2));
            let predicted = world.predicted();
            let known = files(program).skip(2).take(8).all(|file| predicted.contains(&file));
            assert!(known, "{matching:?}: program {program}");
        }
    }
}

#[test]
fn large_files_that_were_read_once_leave_room_for_what_is_read_again() {
    let options = Options { pattern_bytes_max: 8 << 20, near_files: 0, ..Options::default() };
    let mut world = World::new(Learner::new(options, Patterns::default()));
    world.run("/bin/known", "known", &["/etc/known.conf"]);
    for number in 0..60_000 {
        let process = Process(1_000_000 + number / 1000);
        if number % 1000 == 0 {
            world.event(Event::Found { process, user: User(1000) });
            world.execute(process, "/bin/convert", "convert");
        }
        let file = File { size: Some(100 << 20), ..world::file(&format!("/photos/{number}.raw")) };
        world.event(Event::Opened { process, file: file.clone(), access: Access::Read });
        let extents = vec![Range { start: 0, end: 100 << 20 }];
        world.event(Event::Touched { process, file, extents });
        if number % 1000 == 999 {
            world.exit(process);
        }
        world.forget_decisions();
    }
    for program in 0..200 {
        let (program, file) = (format!("/bin/p{program}"), format!("/etc/p{program}.conf"));
        world.run(&program, "p", &[&file]);
    }
    for program in ["known", "p0", "p100", "p199"] {
        world.forget_decisions();
        world.start(&format!("/bin/{program}"), if program == "known" { program } else { "p" });
        let predicted = world.predicted();
        assert!(predicted.contains(&format!("/etc/{program}.conf")), "{program}: {predicted:?}");
    }
}
