//! The paper's rules, through the learner.

mod world;

use nearfirst_tree::{Learner, Matching, Options, Patterns};
use world::World;

fn world() -> World {
    let options = Options { matching: Matching::Paper, ..Options::default() };
    World::new(Learner::new(options, Patterns::default()))
}

#[test]
fn after_the_first_file_the_rest_of_the_matching_tree_is_predicted() {
    let mut world = world();
    for _ in 0..2 {
        let viewer = world.start("/bin/viewer", "viewer");
        world.open(viewer, "/etc/viewer.conf");
        world.open(viewer, "/lib/a.so");
        world.open(viewer, "/lib/b.so");
        world.exit(viewer);
    }
    assert_eq!(world.predicted(), ["/lib/a.so", "/lib/b.so"]);
    assert_eq!(world.withdrawn(), 0);
}

#[test]
fn the_tree_of_a_script_holds_what_its_programs_read() {
    let mut world = world();
    for _ in 0..2 {
        let script = world.start("/bin/sh", "sh /home/u/filters.sh");
        world.open(script, "/home/u/filters.sh");
        for (filter, input) in [("/bin/sort", "/data/1"), ("/bin/uniq", "/data/2")] {
            let child = world.fork(script);
            world.execute(child, filter, "filter");
            world.open(child, input);
            world.exit(child);
        }
        world.exit(script);
    }
    assert_eq!(world.predicted(), ["/bin/sort", "/data/1", "/bin/uniq", "/data/2"]);
}

#[test]
fn another_pattern_is_taken_as_soon_as_the_first_stops_matching() {
    let mut world = world();
    let editor = |world: &mut World, files: &[&str]| {
        let editor = world.start("/bin/editor", "editor");
        world.open_all(editor, files);
        world.exit(editor);
    };
    editor(&mut world, &["/e", "/c1", "/c2", "/c3", "/c4", "/c5"]);
    editor(&mut world, &["/e", "/t1", "/t2", "/t3", "/t4", "/t5"]);
    assert_eq!(world.predicted(), ["/c1", "/c2", "/c3", "/c4", "/c5"]);
    world.forget_decisions();
    editor(&mut world, &["/e", "/c1", "/c2", "/c3", "/c4", "/c5"]);
    assert_eq!(world.predicted()[..5], ["/t1", "/t2", "/t3", "/t4", "/t5"]);
    assert_eq!(world.predicted()[5..], ["/c4", "/c5"]);
}

#[test]
fn files_that_are_written_are_never_predicted() {
    let mut world = world();
    for _ in 0..3 {
        let tool = world.start("/bin/tool", "tool");
        world.open(tool, "/in");
        world.write(tool, "/out");
        world.open(tool, "/more");
        world.exit(tool);
    }
    assert!(!world.predicted().contains(&"/out".to_owned()));
    assert!(world.predicted().contains(&"/more".to_owned()));
}
