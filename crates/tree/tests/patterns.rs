//! What is learned, as bytes.

mod world;

use std::time::Duration;

use nearfirst_tree::{
    Access, Account, DecodeError, Event, File, Learner, Matching, Options, Patterns,
};
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
fn what_an_earlier_form_has_of_time_saved_is_left_out() {
    let mut world = learned(Matching::Ours);
    let process = world.start("/bin/sh", "sh build.sh");
    let id = world.predictions().last().expect("it is known").id;
    world.fetched(id, "/home/u/build.sh", 1000);
    world.open(process, "/home/u/build.sh");
    let known = world.learner.patterns();
    let bytes = known.encode();
    let decoded = |form: u64| Patterns::decode(&of_form(&bytes, form)).map(|it| it.account());
    assert_eq!(decoded(5).unwrap(), known.account());
    assert_eq!(known.account().saved, world::TOOK);
    let earlier = Account { saved: Duration::ZERO, ..known.account() };
    assert_eq!(decoded(4).unwrap(), earlier);
    assert_eq!(decoded(3).unwrap_err(), DecodeError::Version { found: 3 });
}

/// The same bytes, as those of another form.
fn of_form(bytes: &[u8], form: u64) -> Vec<u8> {
    let begin = b"nearfirst patterns\n".len();
    let mut changed = bytes[..bytes.len() - 8].to_vec();
    changed[begin] = u8::try_from(form).expect("small");
    let mix = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let checksum = changed.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    changed.extend(checksum.to_le_bytes());
    changed
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
