//! What is learned, as bytes.

mod world;

use nearfirst_tree::{Access, DecodeError, Event, File, Learner, Matching, Options, Patterns};
use world::World;

fn options(matching: Matching) -> Options {
    Options { matching, near_files: 0, ..Options::default() }
}

fn build(world: &mut World) {
    let script = world.start("/bin/sh", "sh build.sh");
    world.open(script, "/home/u/build.sh");
    for source in ["/src/a.c", "/src/b.c"] {
        let compiler = world.invoke(script, "/bin/cc", &format!("cc -c {source}"));
        world.open(compiler, source);
        world.open(compiler, "/usr/include/stdio.h");
        world.write(compiler, "/src/out.o");
        world.exit(compiler);
    }
    world.exit(script);
}

fn learned(matching: Matching) -> World {
    let mut world = World::new(Learner::new(options(matching), Patterns::default()));
    (0..3).for_each(|_| build(&mut world));
    // As before it is saved.
    world.learner.keep_within_memory();
    world
}

#[test]
fn what_was_encoded_predicts_the_same() {
    for matching in [Matching::Paper, Matching::Ours] {
        let learned = learned(matching);
        let bytes = learned.learner.patterns().encode();
        let patterns = Patterns::decode(&bytes).unwrap();
        assert_eq!(patterns.encode(), bytes, "{matching:?}");
        let known = learned.learner.patterns().clone();
        let mut before = World::new(Learner::new(options(matching), known));
        let mut after = World::new(Learner::new(options(matching), patterns));
        for world in [&mut before, &mut after] {
            world.forget_decisions();
            build(world);
        }
        assert_eq!(after.predicted(), before.predicted(), "{matching:?}");
        assert!(after.predicted().contains(&"/src/b.c".to_owned()), "{matching:?}");
        for file in after.predictions().flat_map(|prediction| &prediction.files) {
            let path = std::str::from_utf8(&file.path).expect("text");
            let inode = world::file(path).identity.map(|identity| identity.inode);
            assert_eq!(file.inode, inode, "{matching:?}: {path}");
        }
    }
}

#[test]
fn what_is_told_ahead_is_bounded_in_bytes_by_who_begins_anew_too() {
    let told = |bytes| {
        let mut before = World::new(Learner::new(options(Matching::Ours), Patterns::default()));
        for _ in 0..2 {
            let process = before.start("/bin/reader", "reader");
            for number in 0..20 {
                let file = File { size: Some(bytes), ..world::file(&format!("/data/{number}")) };
                before.event(Event::Opened { process, file, access: Access::Read });
            }
            before.exit(process);
        }
        let patterns = Patterns::decode(&before.learner.patterns().encode()).unwrap();
        let mut after = World::new(Learner::new(options(Matching::Ours), patterns));
        after.start("/bin/reader", "reader");
        after.predicted().len()
    };
    let (small, large) = (told(4096), told(u64::MAX));
    assert!(0 < large && large < small, "{large} of {small}");
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    for matching in [Matching::Paper, Matching::Ours] {
        let bytes = learned(matching).learner.patterns().encode();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            for damaged in [&damaged[..], &bytes[..place]] {
                // Not of another form, whose file would be kept.
                let error = Patterns::decode(damaged).unwrap_err();
                let is_told =
                    matches!(error, DecodeError::Damaged { .. } | DecodeError::NotPatterns);
                assert!(is_told, "byte {place}: {error}");
            }
        }
    }
    assert_eq!(Patterns::decode(b"[device]").unwrap_err(), DecodeError::NotPatterns);
}
