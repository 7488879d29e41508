//! What is learned, as bytes.

mod world;

use nearfirst_tree::{DecodeError, Learner, Matching, Options, Patterns};
use world::World;

fn learned() -> World {
    let mut world = World::new(Learner::new(
        Options { matching: Matching::Paper, ..Options::default() },
        Patterns::default(),
    ));
    let script = world.start("/bin/sh", "sh build.sh");
    world.open(script, "/home/u/build.sh");
    for source in ["/src/a.c", "/src/b.c"] {
        let compiler = world.invoke(script, "/bin/cc", "cc");
        world.open(compiler, source);
        world.write(compiler, "/src/out.o");
        world.exit(compiler);
    }
    world.exit(script);
    world
}

#[test]
fn what_was_encoded_predicts_the_same() {
    let mut before = learned();
    let bytes = before.learner.patterns().encode();
    let patterns = Patterns::decode(&bytes).unwrap();
    assert_eq!(patterns.encode(), bytes);
    let options = Options { matching: Matching::Paper, ..Options::default() };
    let mut after = World::new(Learner::new(options, patterns));
    for world in [&mut before, &mut after] {
        world.forget_decisions();
        let script = world.start("/bin/sh", "sh build.sh");
        world.open(script, "/home/u/build.sh");
    }
    assert_eq!(after.predicted(), before.predicted());
    assert_eq!(after.predicted(), ["/bin/cc", "/src/a.c", "/src/b.c"]);
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let bytes = learned().learner.patterns().encode();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        assert!(Patterns::decode(&damaged).is_err(), "byte {place}");
        assert!(Patterns::decode(&bytes[..place]).is_err(), "cut at {place}");
    }
    assert_eq!(Patterns::decode(b"[device]").unwrap_err(), DecodeError::NotPatterns);
}
