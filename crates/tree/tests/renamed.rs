//! Programs under a new name, and other programs under an old one.

mod world;

use std::sync::Arc;

use nearfirst_tree::{Event, File, Identity, Learner, Options, Patterns, Process};
use world::{World, file};

const FILES: [&str; 3] = ["/data/a", "/data/b", "/data/c"];
const OTHERS: [&str; 2] = ["/own/a", "/own/b"];
/// Runs after which old habits are outweighed.
const RUNS: usize = 8;

/// A learner that has seen `/opt/tool` three times.
fn world() -> World {
    // Nothing counts as near: a test's few files would all be.
    let options = Options { near_files: 0, ..Options::default() };
    let mut world = World::new(Learner::new(options, Patterns::default()));
    (0..3).for_each(|_| world.run("/opt/tool", "it", &FILES));
    world
}

/// Starts a program that is this file, and forgets what was decided before.
fn start(world: &mut World, number: usize, program: File) -> Process {
    let process = Process(1000 + number as u64);
    let user = world.user;
    world.forget_decisions();
    world.event(Event::Found { process, user });
    let (arguments, folder) = (vec![Arc::from(&b"it"[..])], Arc::from(&b"/home/u"[..]));
    world.event(Event::Executed { process, program, arguments, folder });
    process
}

/// The file of one path, under another.
fn renamed(path: &str, was: &str) -> File {
    File { path: Arc::from(path.as_bytes()), ..file(was) }
}

/// Has a program run that reads the others.
fn run_others(world: &mut World, number: usize, program: File) {
    let process = start(world, number, program);
    world.open_all(process, OTHERS);
    world.exit(process);
}

#[test]
fn a_program_that_was_renamed_or_moved_is_expected_to_read_what_it_read() {
    for path in ["/opt/tool-2", "/usr/bin/tool"] {
        let mut world = world();
        start(&mut world, 0, renamed(path, "/opt/tool"));
        assert_eq!(world.predicted(), FILES, "{path}");
    }
}

#[test]
fn another_file_with_the_same_number_is_another_program() {
    let mut world = world();
    start(&mut world, 0, renamed("/mnt/other", "/opt/tool"));
    assert!(world.predicted().is_empty(), "{:?}", world.predicted());
}

#[test]
fn names_of_one_file_are_learned_apart() {
    let mut world = world();
    let alias = || renamed("/opt/alias", "/opt/tool");
    (0..RUNS).for_each(|number| run_others(&mut world, number, alias()));
    start(&mut world, RUNS, alias());
    assert_eq!(world.predicted(), OTHERS);
}

#[test]
fn a_file_of_many_names_has_no_earlier_one() {
    let mut world = world();
    let alias = start(&mut world, 0, renamed("/opt/alias", "/opt/tool"));
    world.open_all(alias, FILES);
    world.exit(alias);
    start(&mut world, 1, renamed("/opt/third", "/opt/tool"));
    assert!(world.predicted().is_empty(), "{:?}", world.predicted());
}

#[test]
fn a_replaced_program_is_learned_anew() {
    let mut world = world();
    let other = Some(Identity { device: 1, inode: 999_999 });
    let program = || File { identity: other, ..file("/opt/tool") };
    (0..RUNS).for_each(|number| run_others(&mut world, number, program()));
    start(&mut world, RUNS, program());
    assert_eq!(world.predicted(), OTHERS, "what only the old one read is expected no more");
}
