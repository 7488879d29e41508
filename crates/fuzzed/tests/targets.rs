//! Runs every target over its seeds, their mutations and noise: a bounded share of what `make fuzz` does.

use std::fs;
use std::path::{Path, PathBuf};

use nearfirst_fuzzed::{TARGETS, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// About a second a target in a debug build.
const CASES: u32 = 3000;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let folder = fuzz_folder().join("seeds").join(target.name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| fs::read(entry.expect("a listed seed").path()).expect("a readable seed"))
        .collect()
}

/// One change to a seed, as fuzzers make them.
#[derive(Debug, Clone)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Remove(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Repeat(prop::sample::Index, u8),
}

impl Mutation {
    fn any() -> impl Strategy<Value = Self> {
        let noise = prop::collection::vec(any::<u8>(), 0..16);
        prop_oneof![
            any::<(prop::sample::Index, u8)>().prop_map(|(at, byte)| Self::Set(at, byte)),
            any::<(prop::sample::Index, u8)>().prop_map(|(at, count)| Self::Remove(at, count)),
            (any::<prop::sample::Index>(), noise).prop_map(|(at, bytes)| Self::Insert(at, bytes)),
            any::<(prop::sample::Index, u8)>().prop_map(|(at, count)| Self::Repeat(at, count)),
        ]
    }

    fn apply(self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let range = |at: prop::sample::Index, count: u8| {
            let at = at.index(length.max(1)).min(length);
            at..length.min(at + usize::from(count % 32))
        };
        match self {
            Self::Set(at, byte) if length > 0 => bytes[at.index(length)] = byte,
            Self::Set(..) => {}
            Self::Remove(at, count) => drop(bytes.drain(range(at, count))),
            Self::Insert(at, new) => {
                let at = range(at, 0).start;
                bytes.splice(at..at, new);
            }
            Self::Repeat(at, count) => bytes.extend_from_within(range(at, count)),
        }
    }
}

fn inputs(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let mutated = (prop::sample::select(seeds), prop::collection::vec(Mutation::any(), 1..6));
    let mutated = mutated.prop_map(|(mut bytes, mutations)| {
        for mutation in mutations {
            mutation.apply(&mut bytes);
        }
        bytes
    });
    prop_oneof![4 => mutated, 1 => prop::collection::vec(any::<u8>(), 0..512)]
}

#[test]
fn every_target_holds_on_its_seeds_and_near_them() {
    for target in TARGETS {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in &seeds {
            (target.body)(seed);
        }
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let held = TestRunner::new(config).run(&inputs(seeds), |bytes| {
            (target.body)(&bytes);
            Ok(())
        });
        held.unwrap_or_else(|error| panic!("{}: {error}", target.name));
    }
}

#[test]
fn every_target_has_a_program() {
    let folder = fuzz_folder();
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(folder.join(format!("fuzz_targets/{}.rs", target.name)).is_file(), "{target:?}");
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{target:?}");
    }
}
