//! Sets over a store that fails, hangs, lies or is slow: each member comes once, whole or as an error.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fetch::engine::{Engine, EngineOptions};
use fetch::scheduler::Limits;
use futures::{FutureExt as _, StreamExt as _};
use nearfirst_set::{Member, MemberError, Recalls, Set, SetOptions, Spec};
use store::wrap::{Call, Fault, Faulty, Pace, Recording, Throttled};
use store::{Clock, Costs, Error, Local, Name, Store, Stores, StoresOptions, TableFiles};
use testkit::{Dir, noise, until};

/// Files that the store is to list or to be asked for.
const FILES: u64 = 6;

/// Bytes of each; faults come after fewer.
const BYTES: usize = 300_000;
const FEWER: u64 = 100_000;

/// The only file that lies elsewhere.
const OTHER: &str = "other";

/// Limits under which a file is three parts, and the same reads are made each time.
fn limits() -> Limits {
    Limits {
        part_bytes: FEWER,
        stall: Duration::from_secs(1),
        backoff: Duration::from_millis(5),
        hedge_percent: 0,
        ..Limits::default()
    }
}

/// Files below `far/`, read by a store that counts what is asked of another.
struct Ground {
    dir: Dir,
    recording: Recording,
    engine: Engine,
}

impl Ground {
    /// Of a store that `wrap` puts around that of `file://`; other names are not its concern.
    fn new(wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let dir = Dir::new();
        dir.create(OTHER, OTHER);
        for number in 0..FILES {
            dir.create(format!("far/{number}"), noise(BYTES, number));
        }
        // What is known of this machine's disk would have few requests made at a time.
        let files = TableFiles::at(dir.join("devices.toml"));
        let costs = Arc::new(Costs::with(Local::default(), files, Clock::real()));
        let plain = Stores::new(Arc::clone(&costs), &StoresOptions::default());
        let files = plain.of(&Name::from("file:///")).expect("it is known");
        let recording = Recording::new(wrap(files));
        let store: Arc<dyn Store> = Arc::new(recording.clone());
        let schemes = HashMap::from([("file".to_owned(), store)]);
        let options = StoresOptions { schemes, ..StoresOptions::default() };
        let stores = Arc::new(Stores::new(Arc::clone(&costs), &options));
        let options = EngineOptions { limits: limits(), spill_folder: None };
        let engine = Engine::new(stores, costs, options).expect("threads can be had");
        Self { dir, recording, engine }
    }

    /// With these faults.
    fn spoiled(script: impl FnOnce(&Faulty)) -> Self {
        Self::new(|files| {
            let faulty = Faulty::new(files);
            script(&faulty);
            Arc::new(faulty)
        })
    }

    fn url(&self, key: &str) -> String {
        format!("file://{}/far/{key}", self.dir.path().display())
    }

    /// What a pattern lists, and the file that lies elsewhere.
    fn listed(&self) -> Set {
        let other = self.dir.join(OTHER).into_os_string().into_encoded_bytes();
        let specs = [Spec::glob(self.url("*")), Spec::glob(other)];
        Set::open(&self.engine, specs, SetOptions::default())
    }

    /// The same files by their names alone, of which it is asked whether they are to be restored.
    fn named(&self) -> Set {
        let other = self.dir.join(OTHER).into_os_string().into_encoded_bytes();
        let far = (0..FILES).map(|number| Spec::glob(self.url(&number.to_string())));
        let recalls = Some(Recalls::new(self.engine.stores(), &limits(), Duration::ZERO));
        let options = SetOptions { recalls, ..SetOptions::default() };
        Set::open(&self.engine, far.chain([Spec::glob(other)]), options)
    }

    fn calls(&self, call: Call) -> u64 {
        self.recording.recorded().calls.get(&call).copied().unwrap_or(0)
    }
}

/// What came of members.
#[derive(Debug, Default)]
struct Came {
    whole: BTreeSet<String>,
    failed: BTreeMap<String, Arc<Error>>,
}

impl Came {
    /// Takes so many members off a set; each must be another.
    fn of(set: &Set, members: u64) -> Self {
        let mut came = Self::default();
        for _ in 0..members {
            came.add(set.next().expect("there are more"));
        }
        came
    }

    fn add(&mut self, member: Result<Member, MemberError>) {
        let read = member.and_then(|member| {
            let name = member.name().clone();
            Ok((name, member.read()?))
        });
        let is_new = match read {
            Ok((name, bytes)) => {
                let key = String::from_utf8_lossy(name.file_name()).into_owned();
                let expected = key.parse().map_or(OTHER.into(), |number| noise(BYTES, number));
                assert!(bytes == expected, "{name} is not whole");
                self.whole.insert(key)
            }
            Err(MemberError { name, cause, .. }) => {
                self.failed.insert(name.to_string(), cause).is_none()
            }
        };
        assert!(is_new, "a member comes once: {self:?}");
    }
}

/// How a set ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// After the last member.
    Comes,
    /// Something is waited for until the set is closed.
    IsWaitedFor,
}

fn passes(name: Name) -> Error {
    Error::interrupted(name, "told so")
}

fn lasts(name: Name) -> Error {
    Error::refused(name, "told so")
}

fn panics(_: Name) -> Error {
    panic!("told so")
}

#[test]
fn whatever_a_store_does_each_member_comes_once_or_as_an_error() {
    use Call::{List, Read, Stat};
    use End::{Comes, IsWaitedFor};
    use Fault::{EndsAfter, Fails, FailsAfter, Hangs, HangsAfter, SaysOtherVersion, SaysSize};
    // Of the files below `far/`: how many come whole, and how many as errors.
    let cases = [
        (Read, Fails(passes), FILES, 0, Comes),
        (Read, Fails(lasts), FILES - 1, 1, Comes),
        (Read, Fails(panics), FILES - 1, 1, Comes),
        (Read, Hangs, FILES, 0, Comes),
        (Read, FailsAfter(FEWER / 2, passes), FILES, 0, Comes),
        (Read, FailsAfter(FEWER / 2, lasts), FILES - 1, 1, Comes),
        (Read, FailsAfter(FEWER / 2, panics), FILES - 1, 1, Comes),
        (Read, HangsAfter(FEWER / 2), FILES, 0, Comes),
        (Read, EndsAfter(FEWER / 2), FILES, 0, Comes),
        (Read, SaysSize(FEWER), FILES - 1, 1, Comes),
        (Read, SaysOtherVersion, FILES - 1, 1, Comes),
        (Stat, Fails(passes), FILES, 0, Comes),
        (Stat, Fails(lasts), FILES - 1, 1, Comes),
        (Stat, Hangs, FILES - 1, 0, IsWaitedFor),
        (Stat, SaysSize(FEWER), FILES - 1, 1, Comes),
        (Stat, SaysOtherVersion, FILES - 1, 1, Comes),
        (List, Fails(passes), 0, 1, Comes),
        (List, Fails(lasts), 0, 1, Comes),
        (List, Hangs, 0, 0, IsWaitedFor),
        (List, FailsAfter(2, lasts), 2, 1, Comes),
        (List, HangsAfter(2), 2, 0, IsWaitedFor),
        (List, EndsAfter(2), 2, 0, Comes),
    ];
    for (call, fault, whole, failed, end) in cases {
        // A pattern is listed once; the others are spoiled in mid-work.
        let number = if call == List { 1 } else { 3 };
        let ground = Ground::spoiled(|store| store.at(call, number, fault));
        let set = if call == Stat { ground.named() } else { ground.listed() };
        let came = Came::of(&set, whole + failed + 1);
        let case = format!("{call:?} {fault:?}: {came:?}");
        assert!(came.whole.contains(OTHER), "{case}");
        assert_eq!(
            (came.whole.len() as u64 - 1, came.failed.len() as u64),
            (whole, failed),
            "{case}"
        );
        assert!(ground.calls(call) >= number, "{case}");
        match end {
            // The last member may come before it is known that it is the last.
            Comes => assert!(set.next().is_none(), "{case}"),
            IsWaitedFor => assert!(set.stream().next().now_or_never().is_none(), "{case}"),
        }
        drop(set);
        until("what hangs is given up", || ground.recording.recorded().under_way == 0);
    }
}

#[test]
fn what_panics_in_a_store_is_told_by_its_text_and_not_tried_again() {
    for fault in [Fault::Fails(panics), Fault::FailsAfter(FEWER / 2, panics)] {
        let ground = Ground::spoiled(|store| store.every(Call::Read, 1, fault));
        let far = Set::open(&ground.engine, [Spec::glob(ground.url("0"))], SetOptions::default());
        let mut came = Came::of(&far, 1);
        let (_, error) = came.failed.pop_first().expect("it cannot be read");
        assert_eq!(error.reason(), "its store panicked: told so");
        assert!(!error.is_transient());
    }
}

#[test]
fn what_came_before_a_fault_is_not_fetched_again() {
    let fault = Fault::FailsAfter(FEWER / 2, passes);
    let ground = Ground::spoiled(|store| store.every(Call::Read, 2, fault));
    let came = Came::of(&ground.listed(), FILES + 1);
    assert!(came.failed.is_empty(), "{came:?}");
    let recorded = ground.recording.recorded();
    assert_eq!(recorded.bytes, FILES * BYTES as u64);
    let mut begins = BTreeSet::new();
    for read in recorded.reads {
        assert!(begins.insert((read.name, read.range.start)), "{begins:?}");
    }
    assert!(begins.iter().any(|(_, begin)| *begin == FEWER / 2), "{begins:?}");
}

#[test]
fn a_store_that_serves_one_read_at_a_time_is_waited_for() {
    let pace = Pace { bytes_per_second: Some(20_000_000), reads_max: 1 };
    // Mostly two reads are begun at once; what the first taught may come before.
    let several_waited = (0..20).any(|_| {
        let mut served = None;
        let ground = Ground::new(|files| {
            let recording = Recording::new(files);
            served = Some(recording.clone());
            Arc::new(Throttled::new(Arc::new(recording), pace))
        });
        let came = Came::of(&ground.listed(), FILES + 1);
        assert!(came.failed.is_empty(), "{came:?}");
        let served = served.expect("it was put there");
        // Who reads has all before its connection is let go of.
        until("all is let go of", || served.recorded().under_way == 0);
        let served = served.recorded();
        assert_eq!(served.under_way_max, 1);
        assert_eq!(served.bytes, FILES * BYTES as u64);
        ground.recording.recorded().under_way_max > 1
    });
    assert!(several_waited);
}
