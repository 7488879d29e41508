//! Our rules, through the learner.

mod world;

use std::ops::Range;

use nearfirst_tree::{Account, Decision, Event, Learner, Options, Patterns, PredictionId, User};
use world::World;

fn world() -> World {
    // Nothing counts as near: a test's few files would all be.
    let options = Options { near_files: 0, ..Options::default() };
    World::new(Learner::new(options, Patterns::default()))
}

const READER: [&str; 4] = ["/etc/reader.conf", "/lib/a.so", "/lib/b.so", "/data/x"];

#[test]
fn a_known_invocation_is_predicted_when_it_starts_in_the_order_of_need() {
    let mut world = world();
    world.run("/bin/reader", "reader x", &READER);
    world.forget_decisions();
    let reader = world.start("/bin/reader", "reader x");
    assert_eq!(world.predicted(), READER);
    let files = &world.predictions().next().unwrap().files;
    assert!(files.windows(2).all(|pair| pair[0].needed_in <= pair[1].needed_in));
    world.open_all(reader, READER);
    world.exit(reader);
    // Once each; that another run of the same follows, as it did, is foreseen besides.
    assert_eq!(world.predicted()[..4], READER);
    assert_eq!(world.predicted()[4..], ["/bin/reader"]);
    assert_eq!(world.withdrawn(), 0);
}

#[test]
fn what_has_not_ended_when_nothing_more_is_told_is_learned_with_all_that_is_below_it() {
    let mut before = world();
    let server = before.start("/bin/server", "server");
    before.open(server, "/etc/server.conf");
    let helper = before.invoke(server, "/bin/helper", "helper");
    before.open(helper, "/etc/helper.conf");
    before.learner.end();
    assert_eq!(before.learner.patterns().account().runs, 2);
    let options = Options { near_files: 0, ..Options::default() };
    let mut after = World::new(Learner::new(options, before.learner.into_patterns()));
    after.start("/bin/server", "server");
    let expected = ["/etc/server.conf", "/bin/helper", "/etc/helper.conf"];
    assert_eq!(after.predicted(), expected);
}

#[test]
fn siblings_that_race_are_still_expected() {
    let mut world = world();
    let mut order = READER;
    for _ in 0..6 {
        world.forget_decisions();
        order.rotate_left(1);
        world.run("/bin/reader", "reader x", &order);
        order.swap(0, 2);
    }
    let predicted = world.predicted();
    // Once each, before they are read. What is read out of order seems to come a second time.
    let mut once: Vec<&str> = predicted[..4].iter().map(String::as_str).collect();
    once.sort_by_key(|path| READER.iter().position(|file| file == path));
    assert_eq!(once, READER);
    assert!(predicted[4..].iter().all(|path| path == "/bin/reader" || READER.contains(&&**path)));
    assert_eq!(world.withdrawn(), 0);
}

#[test]
fn names_that_follow_from_arguments_are_predicted_for_files_never_seen() {
    let mut world = world();
    for stem in ["a", "b", "c", "d"] {
        let files = [format!("/home/u/{stem}.c"), format!("/home/u/{stem}.h")];
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        world.run("/bin/cc", &format!("cc -c {stem}.c"), &files);
    }
    world.forget_decisions();
    world.start("/bin/cc", "cc -c new.c");
    let predicted = world.predicted();
    assert!(predicted.contains(&"/home/u/new.c".to_owned()), "{predicted:?}");
    assert!(predicted.contains(&"/home/u/new.h".to_owned()), "{predicted:?}");
}

#[test]
fn names_in_the_working_folder_follow_it() {
    let mut world = world();
    for folder in ["/p/one", "/p/two", "/p/three"] {
        world.folder = folder.to_owned();
        let settings = format!("{folder}/.tool/config");
        world.run("/bin/tool", "tool", &["/etc/tool.conf", &settings]);
    }
    world.forget_decisions();
    world.folder = "/p/four".to_owned();
    world.start("/bin/tool", "tool");
    assert_eq!(world.predicted(), ["/etc/tool.conf", "/p/four/.tool/config"]);
}

#[test]
fn what_programs_below_will_read_is_predicted_from_the_one_above() {
    let mut world = world();
    let build = |world: &mut World| {
        let make = world.start("/bin/make", "make");
        world.open(make, "/home/u/Makefile");
        for unit in ["a", "b"] {
            let cc = world.invoke(make, "/bin/cc", &format!("cc {unit}.c"));
            world.open(cc, &format!("/home/u/{unit}.c"));
            world.exit(cc);
        }
        world.exit(make);
    };
    build(&mut world);
    build(&mut world);
    world.forget_decisions();
    world.start("/bin/make", "make");
    let predicted = world.predicted();
    assert_eq!(predicted, ["/home/u/Makefile", "/bin/cc", "/home/u/a.c", "/home/u/b.c"]);
}

#[test]
fn what_a_shell_is_told_next_is_predicted_by_what_it_was_told_before() {
    let mut world = world();
    let session = |world: &mut World| {
        let shell = world.start("/bin/bash", "bash");
        for (program, file) in [("/bin/edit", "/d/1"), ("/bin/build", "/d/2"), ("/bin/try", "/d/3")]
        {
            let child = world.invoke(shell, program, "it");
            world.open(child, file);
            world.exit(child);
        }
        world.exit(shell);
    };
    (0..6).for_each(|_| session(&mut world));
    world.forget_decisions();
    let shell = world.start("/bin/bash", "bash");
    world.invoke(shell, "/bin/edit", "it");
    assert!(world.predicted().contains(&"/d/2".to_owned()), "{:?}", world.predicted());
}

#[test]
fn where_no_pattern_knows_the_order_of_earlier_runs_does() {
    let mut world = world();
    let modules: Vec<String> = (0..6).map(|module| format!("/lib/m{module}.py")).collect();
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    for script in ["one", "two", "three"] {
        let own = format!("/home/u/{script}.py");
        let files = [&[&*own], &modules[..]].concat();
        world.run("/usr/bin/python3", &format!("python3 {script}.py"), &files);
    }
    world.forget_decisions();
    let python = world.start("/usr/bin/python3", "python3 new.py --option");
    world.open(python, "/home/u/new.py");
    world.open(python, modules[0]);
    let predicted = world.predicted();
    assert!(modules[1..].iter().all(|&module| predicted.iter().any(|path| path == module)));
}

#[test]
fn what_stays_away_is_withdrawn_while_the_program_runs() {
    let mut world = world();
    let files = |kind: &str| (0..30).map(|file| format!("/{kind}/{file}")).collect::<Vec<_>>();
    for _ in 0..2 {
        let reader = world.start("/bin/reader", "reader");
        world.open_all(reader, files("usual"));
        world.exit(reader);
    }
    world.forget_decisions();
    let reader = world.start("/bin/reader", "reader");
    world.open_all(reader, files("other"));
    assert_eq!(world.withdrawn(), 1);
}

#[test]
fn what_is_left_over_is_withdrawn_at_the_end_unless_it_was_fetched() {
    let mut world = world();
    world.run("/bin/reader", "reader", &READER);
    for fetched in [false, true] {
        world.forget_decisions();
        let reader = world.start("/bin/reader", "reader");
        let id = world.predictions().next().unwrap().id;
        if fetched {
            for path in READER {
                world.fetched(id, path, 4096);
            }
        }
        world.open(reader, READER[0]);
        world.exit(reader);
        assert_eq!(world.decisions.contains(&Decision::Withdraw(id)), !fetched);
    }
}

#[test]
fn a_file_that_is_awaited_is_not_predicted_again() {
    let mut world = world();
    world.run("/bin/reader", "reader", &READER);
    world.forget_decisions();
    world.start("/bin/reader", "reader");
    world.start("/bin/reader", "reader");
    assert_eq!(world.predicted(), READER);
}

#[test]
fn one_user_learns_nothing_from_another() {
    let mut world = world();
    world.run("/bin/reader", "reader", &READER);
    world.user = User(1001);
    world.forget_decisions();
    world.start("/bin/reader", "reader");
    assert_eq!(world.predicted(), [""; 0]);
}

#[test]
fn a_process_that_becomes_another_user_leaves_no_trace_with_the_first() {
    let mut world = world();
    for _ in 0..2 {
        let sudo = world.start("/bin/sudo", "sudo reader");
        world.open(sudo, "/etc/sudoers");
        let reader = world.fork(sudo);
        world.event(Event::Found { process: reader, user: User(0) });
        for file in 0..20 {
            world.execute(reader, &format!("/bin/reader{file}"), "reader");
        }
        world.open_all(reader, READER);
        world.exit(reader);
        world.exit(sudo);
    }
    world.forget_decisions();
    world.start("/bin/sudo", "sudo reader");
    assert_eq!(world.predicted(), ["/etc/sudoers"]);
}

#[test]
fn lost_events_make_a_run_no_lesson() {
    for process in [false, true] {
        let mut world = world();
        let reader = world.start("/bin/reader", "reader");
        world.open_all(reader, READER);
        world.event(Event::Lost { process: process.then_some(reader) });
        world.exit(reader);
        world.forget_decisions();
        world.start("/bin/reader", "reader");
        // What such a run has is not known. In which order it was read as far as that was seen, is.
        assert_eq!(world.predicted(), READER[..2]);
    }
}

#[test]
fn losing_everything_withdraws_what_was_predicted() {
    let mut world = world();
    world.run("/bin/reader", "reader", &READER);
    world.forget_decisions();
    world.start("/bin/reader", "reader");
    world.event(Event::Lost { process: None });
    assert_eq!(world.withdrawn(), 1);
}

#[test]
fn what_is_forgotten_while_programs_run_is_not_learned_from_them_but_from_the_next() {
    let mut world = world();
    world.run("/bin/reader", "reader", &READER);
    world.run("/bin/other", "other", &["/data/y"]);
    let reader = world.start("/bin/reader", "reader");
    world.open(reader, READER[0]);
    world.learner.forget(|patterns| assert!(patterns.forget([&b"/bin/reader"[..]]).is_empty()));
    world.forget_decisions();
    world.open_all(reader, READER);
    world.exit(reader);
    let names = |world: &World| {
        let programs = world.learner.patterns().programs().into_iter();
        programs.map(|listed| listed.name.to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(names(&world), [b"/bin/other"]);
    assert!(world.predicted().is_empty());
    world.run("/bin/reader", "reader", &READER);
    world.forget_decisions();
    world.start("/bin/reader", "reader");
    assert_eq!(world.predicted(), READER);
}

/// The parts that are predicted of a file of 100 MiB, of which two runs read these.
fn predicted_of_large(extents: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut world = world();
    for _ in 0..2 {
        let reader = world.start("/bin/reader", "reader");
        world.open(reader, "/data/large");
        let mut file = world::file("/data/large");
        file.size = Some(100 << 20);
        world.event(Event::Touched { process: reader, file, extents: extents.to_vec() });
        world.exit(reader);
    }
    let files = world.predictions().flat_map(|prediction| &prediction.files);
    let large = files.filter(|file| *file.path == *b"/data/large");
    large.last().expect("predicted").extents.clone()
}

#[test]
fn parts_of_large_files_are_predicted_as_they_were_read() {
    let read = [0..4096, 8192..12288, (50 << 20)..(51 << 20)];
    assert_eq!(predicted_of_large(&read), [0..12288, (50 << 20)..(51 << 20)]);
}

#[test]
fn files_beyond_those_that_are_recorded_are_told_of_as_uncounted() {
    const RECORDED: u64 = 1 << 16;
    let mut world = world();
    let reader = world.start("/bin/reader", "reader");
    let files = 2 * RECORDED;
    world.open_all(reader, (0..files).map(|number| format!("/data/{number}")));
    world.write(reader, "/data/written");
    world.exit(reader);
    let account = world.learner.account();
    assert!(account.uncounted > 0, "{account:?}");
    // Its program is a file, too.
    assert_eq!(account.missed + account.uncounted, 1 + files);
}

#[test]
fn what_predictions_were_worth_is_counted() {
    let mut world = world();
    world.run("/bin/reader", "reader", &READER);
    let reader = world.start("/bin/reader", "reader");
    let id = world.predictions().last().unwrap().id;
    world.fetched(id, READER[0], 1000);
    world.fetched(id, READER[1], 0);
    world.fetched(id, READER[3], 500);
    world.open_all(reader, &READER[..3]);
    world.open(reader, "/unexpected");
    world.exit(reader);
    let account = world.learner.patterns().account();
    // Four for the run and, by the course of all reads, that it will be begun once more.
    assert_eq!((account.runs, account.predicted), (2, 5));
    assert_eq!((account.in_time, account.late, account.unused), (2, 1, 1));
    assert_eq!((account.fetched_bytes, account.wasted_bytes), (1500, 500));
    assert_eq!(account.saved, world::TOOK);
    assert_eq!(id, PredictionId(0));
}

#[test]
fn what_comes_once_its_run_is_over_was_fetched_too() {
    let mut world = world();
    world.run("/bin/reader", "reader", &READER);
    let reader = world.start("/bin/reader", "reader");
    let id = world.predictions().last().unwrap().id;
    world.open_all(reader, &READER[..3]);
    world.exit(reader);
    world.fetched(id, READER[0], 1000);
    world.fetched(id, READER[3], 500);
    let account = world.learner.patterns().account();
    assert_eq!((account.late, account.unused), (3, 1));
    assert_eq!((account.fetched_bytes, account.wasted_bytes), (1500, 500));
}

#[test]
fn while_nobody_fetches_no_program_is_said_to_be_read_too_late() {
    let options = Options { near_files: 0, fetches: false, ..Options::default() };
    let mut world = World::new(Learner::new(options, Patterns::default()));
    world.run("/bin/reader", "reader", &READER);
    let reader = world.start("/bin/reader", "reader");
    world.open_all(reader, &READER[..3]);
    world.exit(reader);
    let account = world.learner.patterns().account();
    assert_eq!(account, Account { runs: 2, ..Account::default() });
    let account = world.learner.account();
    assert_eq!((account.predicted, account.late, account.unused), (5, 3, 1));
}

#[test]
fn of_a_run_from_a_disk_with_a_head_all_is_told_at_once() {
    let files: Vec<String> = (0..300).map(|number| format!("/data/{number}")).collect();
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let mut world = world();
    world.run("/bin/reader", "reader", &names);
    world.forget_decisions();
    world.start("/bin/reader", "reader");
    let first = world.predicted().len();
    assert!(first < 100, "{first}: elsewhere what does not hold shows before much is told");
    let prediction = world.predictions().next().unwrap().id;
    world.event(Event::Swept { prediction });
    assert_eq!(world.predicted(), files);
    world.event(Event::Swept { prediction });
    assert_eq!(world.predicted().len(), 300, "once");
}

#[test]
fn a_large_program_is_predicted_itself_where_it_is_known_what_is_read_of_it() {
    let mut world = world();
    let mut program = world::file("/bin/large");
    program.size = Some(100 << 20);
    let large = world.start("/bin/large", "large");
    let extents = vec![Range { start: 1 << 20, end: 3 << 20 }];
    world.event(Event::Touched { process: large, file: program, extents: extents.clone() });
    world.exit(large);
    for number in 0..100 {
        world.run("/bin/reader", "reader", &[&*format!("/between/{number}")]);
    }
    world.forget_decisions();
    world.start("/bin/large", "large");
    let [prediction] = &world.predictions().collect::<Vec<_>>()[..] else { panic!("one") };
    assert_eq!(prediction.files[0].extents, extents);
    assert_eq!(world.withdrawn(), 0);
}

#[test]
fn that_a_large_file_was_read_whole_is_told_apart_from_not_knowing() {
    let whole = Range { start: 0, end: 100 << 20 };
    assert_eq!(predicted_of_large(&[Range { start: 0, end: 90 << 20 }]), [whole]);
}
