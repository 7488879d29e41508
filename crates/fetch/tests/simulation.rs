//! Lives of sets in a simulated world, each from a seed: the real scheduler,
//! simulated stores, consumers and time.
//!
//! `NEARFIRST_SEED=n` replays one life, `NEARFIRST_LIVES=n` lives so many.

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

use std::panic::{AssertUnwindSafe, catch_unwind};

use world::World;

/// Lives in the test suite: a few seconds unoptimised.
const LIVES: u64 = 2000;

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
    let lives = number("NEARFIRST_LIVES").unwrap_or(LIVES);
    let (mut events, mut bodies_hedged) = (0, 0);
    for seed in 0..lives {
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
    println!("{lives} lives, {events} events, {bodies_hedged} second attempts at a rest");
    assert!(bodies_hedged > 0 || lives < LIVES, "what comes slowly is never asked for again");
}
