//! What a scan reads from a device, counted at the device.

use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream;
use nearfirst_fetch::engine::{Engine, EngineOptions, Near, Want};
use nearfirst_fetch::scheduler::{Order, Origin, SetTerms};
use nearfirst_fetch::{Error, ScanOptions, ScanReport, Source, scan, view};
use sled::{Device, Plan};
use slowfs::{Fault, Options, Profile, Rule};
use store::{Clock, Costs, Entry, Local, Name, Stores, StoresOptions, TableFiles};
use testkit::{Facility, SlowDir, evict, hold, lines, make_near, skip_unless, until};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(10);
/// Of what stops to answer; until then a slow machine answers within it.
const SHORT: Duration = Duration::from_secs(1);

struct Scanned {
    result: Result<ScanReport, Error>,
    delivered: Vec<Range<u64>>,
    costs: Costs,
}

fn costs(wait_max: Duration) -> Costs {
    Costs::with(Local::new(wait_max), TableFiles::default(), Clock::real())
}

fn scanned(path: &Path, options: &ScanOptions) -> Scanned {
    let costs = costs(LONG);
    let file = costs.open(path).expect("opens");
    let delivered = Mutex::new(Vec::new());
    let result = scan(
        &Source { file: &file, path, costs: &costs },
        options,
        |chunk, _| chunk.bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>(),
        |range, _, _| delivered.lock().expect("no panic").push(range),
    );
    Scanned { result, delivered: delivered.into_inner().expect("no panic"), costs }
}

fn one_thread() -> ScanOptions {
    ScanOptions { jobs: 1, chunk_bytes: 256 << 10, ..ScanOptions::default() }
}

fn slow_dir(profile: Profile) -> SlowDir {
    SlowDir::new(Options { rules: vec![Rule::all(profile)], ..Options::default() })
}

#[test]
fn what_a_fetch_took_is_not_what_it_waited_for_others() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let hangs = Fault::Stall { read: 1, time: None };
    let profile = Profile { faults: vec![hangs], ..Profile::default() };
    let rules = vec![Rule::new("slow", profile).expect("a pattern")];
    let slow = SlowDir::new(Options { rules, ..Options::default() });
    let files = ["slow", "fast"].map(|name| slow.create(name, lines(20_000, 1)));
    let clock = Clock::manual();
    let costs = Costs::with(Local::new(LONG), TableFiles::default(), clock.clone());
    let costs = Arc::new(costs);
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
    let engine = Engine::new(stores, costs, EngineOptions::default());
    let engine = engine.expect("the machine allows it");
    let want = |(tag, path): (u64, &PathBuf)| {
        let entry = Entry::named(Name::from(path.as_path()));
        Ok(Want { entry, rank: 0.0, tag, parts: Vec::new() })
    };
    let wants: Vec<_> = (0..).zip(&files).map(want).collect();
    let terms = SetTerms { origin: Origin::Told, order: Order::Ready };
    let feed = engine.open(stream::iter(wants), terms);
    let next = || {
        let arrival = feed.next().expect("both arrive");
        let Ok(Near::File(file)) = arrival.near else { panic!("a file of this machine") };
        (arrival.tag, file.fetched_bytes() > 0, file.fetch_took())
    };
    assert_eq!(next(), (1, true, Duration::ZERO));
    until("the other is asked for", || slow.stats().file("slow").reads > 0);
    clock.advance(Duration::from_secs(1));
    slow.mount().set_rules(Vec::new());
    assert_eq!(next(), (0, true, Duration::from_secs(1)));
}

#[test]
fn what_is_near_comes_first_and_only_the_rest_is_read_from_the_device() {
    skip_unless!(Facility::Root, Facility::Fuse);
    for separator in [None, Some(b'\n')] {
        let slow = slow_dir(Profile::default());
        let path = slow.create("file", lines(4 << 20, 1));
        let _held = hold(&path, 2 * MIB..3 * MIB);
        slow.reset();
        let scanned = scanned(&path, &ScanOptions { separator, ..one_thread() });
        let report = scanned.result.expect("it can be read");
        let near = &scanned.delivered[..3];
        assert!(
            near.iter().all(|range| range.start >= 2 * MIB && range.end <= 3 * MIB),
            "{near:?}"
        );
        assert!(report.near_bytes >= MIB - 4 * KIB, "{report:?}");
        let read = slow.stats().total.read_bytes;
        assert!(read <= 3 * MIB + 3 * MIB / 50, "{read} bytes read of the 3 MiB that were far");
    }
}

#[test]
fn nothing_is_read_beyond_what_is_far_where_what_was_near_has_left() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(8 << 20, 8));
    make_near(&path, 4 * MIB..8 * MIB);
    slow.reset();
    let costs = costs(LONG);
    let file = costs.open(&path).expect("opens");
    let leave = |chunk: std::ops::Range<u64>| {
        let bytes = std::num::NonZeroU64::new(chunk.end - chunk.start);
        rustix::fs::fadvise(&file, chunk.start, bytes, rustix::fs::Advice::DontNeed)
            .expect("evicted");
    };
    let report = scan(
        &Source { file: &file, path: &path, costs: &costs },
        &ScanOptions { ahead: false, ..one_thread() },
        |_, _| (),
        |range, (), _| leave(range),
    );
    let report = report.expect("it can be read");
    assert_eq!(report.far_bytes, slow.stats().total.read_bytes, "{report:?}");
    assert!(report.near_bytes >= 3 * MIB, "{report:?}");
}

#[test]
fn what_is_far_comes_in_pieces_that_take_little_memory() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(4 << 20, 9));
    make_near(&path, 0..2 * MIB);
    let scanned = scanned(&path, &ScanOptions { jobs: 1, ..ScanOptions::default() });
    scanned.result.expect("it can be read");
    let far = scanned.delivered.iter().filter(|range| range.start >= 2 * MIB);
    assert!(far.clone().count() >= 8, "{:?}", scanned.delivered);
    assert!(
        far.clone().all(|range| range.end - range.start <= 256 * KIB),
        "{:?}",
        scanned.delivered
    );
}

#[test]
fn file_order_is_file_order() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(2 << 20, 2));
    let _held = hold(&path, MIB..2 * MIB);
    let scanned = scanned(&path, &ScanOptions { plan: Plan::Linear, ..one_thread() });
    scanned.result.expect("it can be read");
    assert!(scanned.delivered.is_sorted_by_key(|range| range.start), "{:?}", scanned.delivered);
}

#[test]
fn a_search_that_ends_in_memory_reads_nothing_from_the_device() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(4 << 20, 3));
    let _held = hold(&path, 3 * MIB..4 * MIB);
    slow.reset();
    let costs = costs(LONG);
    let file = costs.open(&path).expect("opens");
    let report = scan(
        &Source { file: &file, path: &path, costs: &costs },
        &ScanOptions { separator: Some(b'\n'), ahead: false, ..ScanOptions::default() },
        |_, _| (),
        |_, (), control| control.stop(),
    );
    assert!(report.expect("it can be read").stopped);
    assert_eq!(slow.stats().total.read_bytes, 0);
}

#[test]
fn what_the_reads_took_is_learned() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile { seek: Duration::from_millis(20), ..Profile::default() });
    let path = slow.create("file", lines(2 << 20, 4));
    let scanned = scanned(&path, &one_thread());
    scanned.result.expect("it can be read");
    let device: Device = scanned.costs.local().stat(&path).expect("it is there").device;
    let estimate = scanned.costs.table().estimate(&device, 2 * MIB).expect("learned");
    assert!(estimate.latency.p50 >= 0.02, "{estimate:?}");
}

#[test]
fn a_failed_read_is_an_error_and_what_was_delivered_stands() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile { faults: vec![Fault::FailAt(MIB)], ..Profile::default() });
    let path = slow.create("file", lines(2 << 20, 5));
    let scanned = scanned(&path, &one_thread());
    let error = scanned.result.expect_err("a read fails");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(scanned.delivered.iter().all(|range| range.end <= MIB), "{:?}", scanned.delivered);
}

#[test]
fn a_device_that_stops_answering_is_given_up() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(2 << 20, 6));
    let costs = costs(SHORT);
    let file = costs.open(&path).expect("opens");
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    let source = Source { file: &file, path: &path, costs: &costs };
    let result = scan(&source, &one_thread(), |_, _| (), |_, (), _| ());
    slow.mount().set_rules(Vec::new());
    assert!(matches!(result, Err(Error::Stalled { .. })), "{result:?}");
}

#[test]
fn what_is_near_and_leaves_a_device_that_stops_answering_is_given_up() {
    skip_unless!(Facility::Root, Facility::Fuse);
    for separator in [None, Some(b'\n')] {
        let slow = slow_dir(Profile::default());
        // Some of it is mapped before it is read, and does not leave.
        let path = slow.create("file", lines(16 << 20, 8));
        make_near(&path, 0..16 * MIB);
        let answers = AtomicBool::new(true);
        let costs = costs(SHORT);
        let file = costs.open(&path).expect("opens");
        let source = Source { file: &file, path: &path, costs: &costs };
        let options = ScanOptions { separator, ..one_thread() };
        let leave = |chunk: &nearfirst_fetch::Chunk<'_>, _: &nearfirst_fetch::Control<'_>| {
            assert!(chunk.near);
            if answers.swap(false, Ordering::Relaxed) {
                let hang = Profile { hang: true, ..Profile::default() };
                slow.mount().set_rules(vec![Rule::all(hang)]);
                let advice = rustix::fs::Advice::DontNeed;
                rustix::fs::fadvise(&file, 0, None, advice).expect("evicted");
            }
        };
        let result = scan(&source, &options, leave, |_, (), _| ());
        slow.mount().set_rules(Vec::new());
        assert!(matches!(result, Err(Error::Stalled { .. })), "{result:?}");
    }
}

#[test]
fn a_look_at_a_device_that_stops_answering_is_given_up() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(4 << 20, 8));
    let costs = costs(SHORT);
    let file = costs.open(&path).expect("opens");
    let source = Source { file: &file, path: &path, costs: &costs };
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    assert!(view(&source, &(0..MIB), sum).expect("it answers") > 0);
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    let seen = view(&source, &(2 * MIB..4 * MIB), sum);
    slow.mount().set_rules(Vec::new());
    assert!(matches!(seen, Err(Error::Stalled { .. })), "{seen:?}");
}

#[test]
fn what_readahead_brought_teaches_nothing_about_the_device() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile { seek: Duration::from_millis(5), ..Profile::default() });
    let path = slow.create("file", lines(2 << 20, 7));
    // Every other page: what is far is then mostly read ahead with the far page before it.
    let _held: Vec<_> =
        (0..256).map(|page| hold(&path, page * 8 * KIB..page * 8 * KIB + 4 * KIB)).collect();
    let scanned = scanned(&path, &one_thread());
    scanned.result.expect("it can be read");
    let device = scanned.costs.local().stat(&path).expect("it is there").device;
    let estimate = scanned.costs.table().estimate(&device, MIB);
    assert!(estimate.is_none_or(|told| told.latency.p50 >= 0.004), "{estimate:?}");
}

#[test]
fn what_is_read_in_file_order_with_what_is_near_teaches_nothing_about_the_device() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(2 << 20, 7));
    let options = ScanOptions { plan: Plan::Linear, separator: Some(b'\n'), ..one_thread() };
    for (near, teaches) in [(0..0, true), (MIB..2 * MIB, false)] {
        evict(&path);
        let _held = (!near.is_empty()).then(|| hold(&path, near.clone()));
        let scanned = scanned(&path, &options);
        let report = scanned.result.expect("it can be read");
        let device = scanned.costs.local().stat(&path).expect("it is there").device;
        let estimate = scanned.costs.table().estimate(&device, MIB);
        assert_eq!(estimate.is_some(), teaches, "{near:?}: {estimate:?}");
        assert_eq!(report.unknown_bytes, if teaches { 0 } else { 2 * MIB }, "{report:?}");
    }
}

#[test]
fn a_file_that_was_scanned_is_read_ahead_as_before() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = slow_dir(Profile::default());
    let path = slow.create("file", lines(2 << 20, 7));
    make_near(&path, MIB..2 * MIB);
    let costs = costs(LONG);
    let file = costs.open(&path).expect("opens");
    let source = Source { file: &file, path: &path, costs: &costs };
    scan(&source, &one_thread(), |_, _| (), |_, (), _| ()).expect("it can be read");
    evict(&path);
    slow.reset();
    file.read_exact_at(&mut [0; 4 << 10], 0).expect("it can be read");
    let read = slow.stats().total.read_bytes;
    assert!(read > 4 * KIB, "{read} bytes read for a page");
}

#[test]
fn holes_of_a_file_in_memory_take_no_memory() {
    skip_unless!(Facility::Root);
    let tmpfs = testkit::Tmpfs::new(MIB);
    let path = tmpfs.path().join("hole");
    std::fs::File::create(&path).and_then(|file| file.set_len(8 * MIB)).expect("a hole");
    let report = scanned(&path, &one_thread()).result.expect("it can be read");
    assert_eq!(report.near_bytes, 8 * MIB);
    let allocated = std::os::unix::fs::MetadataExt::blocks(&path.metadata().expect("there"));
    assert_eq!(allocated, 0);
}
