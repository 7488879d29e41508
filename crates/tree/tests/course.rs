//! What follows by the course of earlier reads, through the learner.

mod world;

use std::sync::Arc;
use std::time::Duration;

use nearfirst_tree::{Event, Learner, Options, Patterns, Process};
use world::World;

fn world() -> World {
    // Nothing counts as near: a test's few files would all be.
    let options = Options { near_files: 0, ..Options::default() };
    World::new(Learner::new(options, Patterns::default()))
}

/// The same where only the number of files bounds how far ahead is predicted.
fn patient_world() -> World {
    let options =
        Options { near_files: 0, horizon: Duration::from_secs(100), ..Options::default() };
    World::new(Learner::new(options, Patterns::default()))
}

fn files(folder: &str, count: usize) -> Vec<String> {
    (0..count).map(|file| format!("/{folder}/{file:03}.h")).collect()
}

/// How many of these are predicted before they are opened, one after another.
fn foreseen(world: &mut World, process: Process, files: &[String]) -> usize {
    let mut foreseen = 0;
    for file in files {
        foreseen += usize::from(world.predicted().contains(file));
        world.open(process, file);
    }
    foreseen
}

#[test]
fn a_second_pass_of_one_run_is_predicted() {
    let mut world = world();
    let list = files("info", 200);
    let process = world.start("/usr/bin/dpkg", "dpkg --configure -a");
    world.open_all(process, &list);
    world.forget_decisions();
    let again = foreseen(&mut world, process, &list);
    assert!(again > 150, "{again} of 200");
}

/// One that begins with what another saved.
fn anew(mut world: World) -> World {
    world.learner.end();
    world.learner.keep_within_memory();
    let saved = Patterns::decode(&world.learner.patterns().encode()).expect("just encoded");
    let options = Options { near_files: 0, ..Options::default() };
    World::new(Learner::new(options, saved))
}

#[test]
fn the_order_of_reads_outlives_who_learned_it() {
    let mut world = world();
    let (list, other) = (files("src", 120), files("other", 50));
    let search = world.start("/bin/grep", "grep -r x");
    world.open_all(search, &list);
    world.exit(search);
    let mut world = anew(world);
    // A run that is known begins again, one that is not goes the same way.
    let search = world.start("/bin/find", "find x");
    world.open_all(search, &other);
    world.exit(search);
    let mut world = anew(world);
    for (program, list) in [("/bin/tar", &list), ("/bin/cpio", &other)] {
        let pack = world.start(program, program);
        let known = foreseen(&mut world, pack, list);
        assert!(known * 4 > list.len() * 3, "{known} of {}", list.len());
        world.exit(pack);
    }
}

#[test]
fn what_was_foreseen_when_it_ends_is_neither_right_nor_wrong() {
    let mut world = world();
    let list = files("src", 120);
    let search = world.start("/bin/grep", "grep -r x");
    world.open_all(search, &list);
    world.forget_decisions();
    world.open_all(search, &list[..60]);
    assert!(!world.predicted().is_empty());
    let before = world.learner.account().unused;
    world.learner.end();
    drop(world.learner.on(Event::Lost { process: None }, Duration::ZERO));
    assert_eq!(world.learner.account().unused, before);
}

#[test]
fn what_is_forgotten_is_not_in_the_order_of_reads_either() {
    let mut world = world();
    let search = world.start("/bin/grep", "grep -r x");
    world.open_all(search, files("src", 120));
    world.exit(search);
    let mut world = anew(world);
    world.learner.forget(|patterns| drop(patterns.forget([&b"/bin/grep"[..]])));
    world.learner.keep_within_memory();
    let saved = world.learner.patterns().encode();
    assert!(!saved.windows(5).any(|part| part == b"/src/"));
}

#[test]
fn the_order_of_reads_outlives_what_another_user_forgets() {
    let mut world = world();
    let list = files("src", 120);
    let search = world.start("/bin/grep", "grep -r x");
    world.open_all(search, &list);
    world.exit(search);
    let mut world = anew(world);
    let other = world.start("/bin/find", "find x");
    world.open(other, "/first");
    world.exit(other);
    world.learner.forget(|_| ());
    let pack = world.start("/bin/tar", "tar c .");
    let known = foreseen(&mut world, pack, &list);
    assert!(known > 90, "{known} of 120");
}

#[test]
fn what_another_program_read_in_this_order_is_predicted() {
    let mut world = world();
    let list = files("src", 120);
    let search = world.start("/bin/grep", "grep -r x");
    world.open_all(search, &list);
    world.exit(search);
    world.forget_decisions();
    let pack = world.start("/bin/tar", "tar c .");
    let known = foreseen(&mut world, pack, &list);
    assert!(known > 90, "{known} of 120");
}

#[test]
fn runs_at_the_same_time_keep_their_own_ways() {
    let mut world = world();
    let (one, two) = (files("one", 100), files("two", 100));
    for list in [&one, &two] {
        let process = world.start("/bin/cc", "cc x");
        world.open_all(process, list);
        world.exit(process);
    }
    // Neither is an invocation that is known, nor is the order of both together.
    world.forget_decisions();
    let first = world.start("/bin/cc", "cc y");
    let second = world.start("/bin/cc", "cc z");
    let mut known = 0;
    for pair in one.chunks(2).zip(two.chunks(2)) {
        known += foreseen(&mut world, first, pair.0) + foreseen(&mut world, second, pair.1);
    }
    assert!(known > 140, "{known} of 200");
}

#[test]
fn what_follows_the_end_of_a_run_is_predicted_before_the_next_begins() {
    let mut world = world();
    let lists: Vec<Vec<String>> = (0..3).map(|list| files(&format!("l{list}"), 40)).collect();
    let round = |world: &mut World, shell, which: usize| {
        let child = world.invoke(shell, "/bin/show", &format!("show {which}"));
        world.open_all(child, &lists[which]);
        world.exit(child);
    };
    let shell = world.start("/bin/bash", "bash");
    for _ in 0..4 {
        (0..3).for_each(|which| round(&mut world, shell, which));
    }
    world.forget_decisions();
    round(&mut world, shell, 0);
    assert!(world.predicted().contains(&lists[1][0]), "{:?}", world.predicted());
}

#[test]
fn a_file_that_was_predicted_long_ago_is_told_again_when_it_is_needed() {
    let mut world = world();
    let list = files("info", 300);
    for _ in 0..2 {
        let process = world.start("/usr/bin/dpkg", "dpkg -i");
        world.open_all(process, &list);
        world.exit(process);
    }
    world.forget_decisions();
    let process = world.start("/usr/bin/dpkg", "dpkg -i");
    assert!(world.predicted().contains(&list[11]), "{:?}", world.predicted());
    world.open_all(process, &list[..10]);
    // Meanwhile another one reads, and what was predicted may have left the memory.
    let other = world.start("/bin/other", "other");
    world.open_all(other, files("other", 60));
    world.forget_decisions();
    world.open(process, &list[10]);
    assert!(world.predicted().contains(&list[11]), "{:?}", world.predicted());
}

/// Opens these; all that is predicted is near.
fn open_near(world: &mut World, process: Process, files: &[String]) {
    for file in files {
        let known = world.decisions.len();
        world.open(process, file);
        world.near_from(known);
    }
}

/// A run of a program that has read these files before, and is about to.
fn begun(world: &mut World, files: &[String]) -> Process {
    for _ in 0..2 {
        let process = world.start("/usr/bin/dpkg", "dpkg -i");
        open_near(world, process, files);
        world.exit(process);
    }
    world.forget_decisions();
    let process = world.start("/usr/bin/dpkg", "dpkg -i");
    world.near_from(0);
    process
}

#[test]
fn a_run_goes_on_where_its_files_were_told_again_by_the_course() {
    let mut world = patient_world();
    let list = files("info", 300);
    let process = begun(&mut world, &list);
    assert!(world.predicted().contains(&list[11]), "{:?}", world.predicted());
    let other = world.start("/bin/other", "other");
    world.open_all(other, files("other", 60));
    world.forget_decisions();
    open_near(&mut world, process, &list[..24]);
    assert!(world.predicted().contains(&list[11]), "told again: {:?}", world.predicted());
    // The course sees not so far.
    assert!(world.predicted().contains(&list[40]), "{:?}", world.predicted());
}

#[test]
fn a_run_goes_on_where_another_one_reads_its_files_again() {
    let mut world = patient_world();
    let list = files("info", 300);
    let other = world.start("/bin/other", "other");
    world.open_all(other, &list);
    begun(&mut world, &list);
    open_near(&mut world, other, &list[..24]);
    assert!(world.predicted().contains(&list[40]), "{:?}", world.predicted());
}

#[test]
fn what_came_before_a_gap_does_not_foretell_what_came_after() {
    for lost in [false, true] {
        let mut world = world();
        let (before, after) = (files("before", 40), files("after", 8));
        let process = world.start("/bin/show", "show before");
        world.open_all(process, &before);
        if lost {
            world.event(Event::Lost { process: None });
        }
        let process = world.start("/bin/list", "list after");
        world.open_all(process, &after);
        let process = world.start("/bin/other", "other");
        world.forget_decisions();
        world.open_all(process, &before);
        let foretold = world.predicted();
        assert!(foretold.contains(&before[39]));
        assert_eq!(foretold.contains(&after[0]), !lost, "{foretold:?}");
    }
}

#[test]
fn a_run_does_not_wait_for_files_that_are_refused() {
    let mut world = patient_world();
    let list = files("info", 300);
    begun(&mut world, &list);
    let first = world.predictions().last().unwrap().clone();
    let most = world.predicted().len();
    world.forget_decisions();
    for file in &first.files {
        let (prediction, path) = (first.id, Arc::clone(&file.path));
        world.event(Event::Refused { prediction, path });
    }
    assert_eq!(world.predicted()[..first.files.len()], list[most..most + first.files.len()]);
}

#[test]
fn a_file_that_was_predicted_long_ago_is_told_again_after_its_run_did_something_else() {
    let mut world = patient_world();
    let list = files("info", 300);
    let process = begun(&mut world, &list);
    assert!(world.predicted().contains(&list[11]), "{:?}", world.predicted());
    world.open_all(process, &list[..9]);
    world.open_all(process, files("other", 60));
    world.forget_decisions();
    // The run had failed to match, and only the course can know that it is on its way again.
    world.open_all(process, &list[9..17]);
    assert!(world.predicted().contains(&list[18]), "{:?}", world.predicted());
}

#[test]
fn what_was_read_is_not_foreseen_by_a_learner_that_begins_anew() {
    let mut world = world();
    let list = files("info", 200);
    let process = world.start("/usr/bin/dpkg", "dpkg --configure -a");
    world.open_all(process, &list);
    let patterns = world.learner.patterns().clone();
    let options = Options { near_files: 0, ..Options::default() };
    let mut world = World::new(Learner::new(options, patterns));
    let process = world.start("/usr/bin/dpkg", "dpkg --configure -a");
    world.open(process, "/first");
    assert_eq!(foreseen(&mut world, process, &list[..1]), 0);
}

#[test]
fn where_guesses_are_wrong_less_is_guessed() {
    let mut world = world();
    // So many that none of them will probably be read again within some hundred reads.
    let list = files("data", 1024);
    let mut state = 1_u32;
    let mut shuffled = || {
        let mut order = list.clone();
        for place in (1..order.len()).rev() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            order.swap(place, (state >> 16) as usize % (place + 1));
        }
        order
    };
    let mut predicted = Vec::new();
    for round in 0..40 {
        world.forget_decisions();
        // Eight of the files in no order: nothing says which come next.
        let process = world.start("/bin/pick", &format!("pick {round}"));
        world.open_all(process, &shuffled()[..8]);
        world.exit(process);
        predicted.push(world.predicted().len());
    }
    // At first there is too little to guess by, then there is, and it is wrong.
    let most = predicted.windows(10).map(|rounds| rounds.iter().sum::<usize>()).max().unwrap();
    let late: usize = predicted[30..].iter().sum();
    let last: usize = predicted[35..].iter().sum();
    assert!(late < 60 && late * 3 < most * 2 && last < 15, "{predicted:?}");
}
