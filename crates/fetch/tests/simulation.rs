//! Lives of sets in a simulated world, each from a seed: the real scheduler,
//! simulated stores, consumers and time.
//!
//! Some are the same each time, others are drawn: `NEARFIRST_LIVES=n` draws so many, and
//! `NEARFIRST_SEED=n` replays one.

#[path = "simulation/bytes.rs"]
mod bytes;
#[path = "simulation/chance.rs"]
mod chance;
#[path = "simulation/checks.rs"]
mod checks;
#[path = "simulation/people.rs"]
mod people;
#[path = "simulation/plan.rs"]
mod plan;
#[path = "simulation/servers.rs"]
mod servers;
#[path = "simulation/world.rs"]
mod world;

use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

/// Lives that are the same each time: a few seconds unoptimised.
const KEPT: u64 = 2000;
/// Lives that are drawn if nobody says how many.
const DRAWN: u64 = 500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_life_keeps_every_promise() {
    if let Some(seed) = number("NEARFIRST_SEED") {
        let mut world = World::new(seed);
        println!("{:#?}", world.plan);
        world.live();
        return;
    }
    let drawn = number("NEARFIRST_LIVES").unwrap_or(DRAWN);
    // Hashers are seeded by the system; half of all numbers, so that the last is one too.
    let first = RandomState::new().hash_one(()) >> 1;
    println!("{KEPT} lives from 0 on, {drawn} from {first} on");
    let (mut events, mut bodies_hedged) = (0, 0);
    for seed in (0..KEPT).chain(first..first + drawn) {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new(seed);
            world.live();
            (world.events, world.bodies_hedged)
        }));
        let lived = lived.unwrap_or_else(|_| {
            panic!("NEARFIRST_SEED={seed} cargo test -p nearfirst-fetch --test simulation")
        });
        events += lived.0;
        bodies_hedged += lived.1;
    }
    println!("{events} events, {bodies_hedged} second attempts at a rest");
    assert!(bodies_hedged > 0, "what comes slowly is never asked for again");
}
