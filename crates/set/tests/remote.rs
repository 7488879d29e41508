//! Sets of objects of servers, in good days and bad.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::poll_fn;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fetch::engine::{Engine, EngineOptions};
use fetch::scheduler::Limits;
use futures::StreamExt as _;
use futures::executor::block_on;
use nearfirst_set::{
    Duplicates, ListSource, Looks, Member, MemberError, Order, Recalls, Set, SetOptions, Spec,
    Start,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, raw_sql};
use store::{Costs, Error, Name, StorageOptions, Stores, StoresOptions};
use testkit::server::{Answer, Link, Misbehaving, Moto, S3};
use testkit::{Facility, Tmpfs, skip_unless};

/// Limits under which a few megabytes are many parts and hold more than the budget.
fn small() -> Limits {
    Limits {
        budget_bytes: 4 << 20,
        part_bytes: 256 << 10,
        backoff: Duration::from_millis(5),
        ..Limits::default()
    }
}

fn engine(limits: Limits, storage: &[(&str, String)]) -> Engine {
    engine_of(limits, storage, None)
}

fn engine_of(limits: Limits, storage: &[(&str, String)], spill_folder: Option<PathBuf>) -> Engine {
    let costs = Arc::new(Costs::load());
    let storage = StorageOptions::new(storage.iter().cloned()).expect("they are known");
    let options = StoresOptions { storage, ..StoresOptions::default() };
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &options));
    Engine::new(stores, costs, EngineOptions { limits, spill_folder }).expect("threads can be had")
}

fn of_s3(limits: Limits, s3: &S3) -> Engine {
    of_s3_at(limits, s3.endpoint())
}

fn of_s3_at(limits: Limits, endpoint: String) -> Engine {
    let [access, secret, ..] = S3::env_at(&endpoint);
    let storage = [
        ("endpoint", endpoint),
        ("region", "us-east-1".to_owned()),
        ("access_key_id", access.1),
        ("secret_access_key", secret.1),
    ];
    engine(limits, &storage)
}

/// Bytes that differ everywhere from what lies before and after.
fn pattern(length: usize, salt: u64) -> Vec<u8> {
    let mut state = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn set(engine: &Engine, names: impl IntoIterator<Item = String>) -> Set {
    Set::open(engine, names.into_iter().map(Spec::glob), SetOptions::default())
}

/// The one member of a set.
fn only(set: &Set) -> Result<Member, MemberError> {
    let member = set.next().expect("there is one");
    assert!(member.is_err() || set.next().is_none(), "and no other");
    member
}

#[test]
fn members_on_cold_tiers_are_restored_if_that_is_wished() {
    skip_unless!(Moto::NEEDS);
    let moto = Moto::new();
    moto.create_bucket("bucket");
    moto.put("bucket/cold", "cold text", "GLACIER");
    moto.put("bucket/warm", "warm text", "STANDARD");
    moto.restore_takes(3);
    let engine = of_s3_at(Limits::default(), moto.endpoint());
    let members = |recalls: Option<Recalls>| {
        let options = SetOptions { recalls, ..SetOptions::default() };
        let set = Set::open(&engine, [Spec::glob("s3://bucket/*")], options);
        let (read, failed): (Vec<_>, Vec<_>) = set.iter().partition(Result::is_ok);
        let read =
            read.into_iter().map(|member| member.and_then(Member::read).expect("it is near"));
        let failed = failed.into_iter().filter_map(|error| Some(error.err()?.cause));
        (read.collect::<Vec<_>>(), failed.collect::<Vec<_>>())
    };
    let (read, failed) = members(None);
    assert_eq!(read, ["warm text"]);
    assert!(matches!(&failed[..], [error] if matches!(**error, Error::Cold { .. })), "{failed:?}");

    let mut recalls = Recalls::new(engine.stores(), &Limits::default(), Duration::ZERO);
    let (read, failed) = members(Some(recalls.clone()));
    assert_eq!((read.len(), failed.len()), (1, 1), "{failed:?}");
    let Error::Recalling { name, class, within, waited } = &*failed[0] else {
        panic!("{failed:?}");
    };
    assert_eq!((name, class.as_str()), (&Name::from("s3://bucket/cold"), "GLACIER"));
    assert_eq!((*within, *waited), (Some(Duration::from_hours(5)), Duration::ZERO));

    let (tell, told) = mpsc::channel();
    // It is asked for once more, and said to be there, though it is still under way.
    recalls.wait = Duration::from_mins(1);
    recalls.told = Some(Arc::new(move |error| tell.send(error.name()).expect("it is listened to")));
    let (mut read, failed) = members(Some(recalls));
    read.sort();
    assert!(read == ["cold text", "warm text"] && failed.is_empty(), "{failed:?}");
    assert_eq!(told.iter().collect::<Vec<_>>(), [Name::from("s3://bucket/cold")]);
}

#[test]
fn what_is_told_of_or_left_out_is_not_restored_and_an_order_by_name_begins() {
    skip_unless!(Moto::NEEDS);
    let moto = Moto::new();
    moto.create_bucket("bucket");
    for name in ["a", "b"] {
        moto.put(&format!("bucket/{name}"), name, "GLACIER");
    }
    moto.put("bucket/0", "0", "STANDARD");
    moto.restore_takes(1000);
    let proxy = Misbehaving::in_front_of(moto.address(), Link::default());
    let restores = || proxy.requests().iter().filter(|request| request.method == "POST").count();
    let engine = of_s3_at(Limits::default(), proxy.endpoint());
    let open = |order, wait| {
        let limits = Limits { window_max: 0, ..small() };
        let recalls = Recalls::new(engine.stores(), &limits, wait);
        let options = SetOptions { order, recalls: Some(recalls), ..SetOptions::default() };
        Set::open(&engine, [Spec::glob("s3://bucket/*")], options)
    };
    let first = |set: &Set| set.next().expect("there is one").expect("it is near").name().clone();
    let set = open(Order::Ready, Duration::MAX);
    assert_eq!((set.size(), set.digest().count()), (3, 3));
    assert!(set.contains(&Name::from("s3://bucket/b")));
    let cold = set.subset(|entry| entry.tier.is_cold());
    assert_eq!((cold.size(), set.difference(&cold).iter().count()), (2, 1));
    assert_eq!(set.subset(|entry| !entry.tier.is_cold()).iter().count(), 1);
    assert_eq!(restores(), 0);
    assert_eq!(first(&open(Order::Name, Duration::MAX)), Name::from("s3://bucket/0"));
    assert_eq!(open(Order::Listed, Duration::ZERO).iter().count(), 3);
}

#[test]
fn objects_of_a_bucket_come_once_whole_and_within_the_budget() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    let mut expected = BTreeMap::new();
    for number in 0..60 {
        let bytes = pattern(3000 + number, number as u64);
        s3.put(&format!("bucket/small/{number}"), &bytes);
        expected.insert(format!("s3://bucket/small/{number}"), bytes);
    }
    for number in 0..3 {
        let bytes = pattern(5_000_000, number);
        s3.put(&format!("bucket/large/{number}"), &bytes);
        expected.insert(format!("s3://bucket/large/{number}"), bytes);
    }
    let engine = of_s3(small(), &s3);
    let set = set(&engine, ["s3://bucket/**".to_owned()]);
    let mut found = BTreeMap::new();
    for member in &set {
        let mut member = member.expect("it can be read");
        let name = member.name().to_string();
        let mut bytes = Vec::new();
        loop {
            let chunk = member.chunk().expect("it can be read");
            if chunk.is_empty() {
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        assert!(found.insert(name, bytes).is_none(), "a member comes once");
    }
    assert!(found == expected, "{:?}", found.keys());
    let budget = engine.snapshot().budget;
    assert!(budget.peak <= small().budget_bytes, "{budget:?}");
    assert_eq!(budget.used, 0);
}

#[test]
fn what_is_held_unread_spills_and_nothing_waits_for_it() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    for number in 0..20 {
        s3.put(&format!("bucket/{number}"), pattern(700_000, number));
    }
    let engine = of_s3(small(), &s3);
    let set = set(&engine, ["s3://bucket/*".to_owned()]);
    let members: Vec<Member> = set.iter().map(|member| member.expect("it can be read")).collect();
    assert_eq!(members.len(), 20);
    for member in members {
        let number: u64 =
            String::from_utf8_lossy(member.name().file_name()).parse().expect("a number");
        assert!(member.read().expect("it is kept") == pattern(700_000, number));
    }
}

#[test]
fn where_the_disk_of_what_spills_is_full_every_member_comes_whole_all_the_same() {
    skip_unless!(Facility::Root);
    let (server, disk) = (Misbehaving::new(), Tmpfs::new(2 << 20));
    let names: Vec<_> = (0..20).map(|number| format!("/{number}")).collect();
    for (name, number) in names.iter().zip(0..) {
        server.answer(name, Answer::bytes(pattern(700_000, number)));
    }
    let engine = engine_of(small(), &[], Some(disk.path().to_owned()));
    let set = set(&engine, names.iter().map(|name| server.url(name)));
    let members: Vec<Member> = set.iter().map(|member| member.expect("it can be read")).collect();
    assert_eq!(members.len(), 20);
    let full = format!("{}: No space left on device", disk.path().display());
    assert_eq!(engine.spill_failure(), Some(full));
    for member in members {
        let number: u64 =
            String::from_utf8_lossy(member.name().file_name()).parse().expect("a number");
        assert!(member.read().expect("it is kept") == pattern(700_000, number));
    }
}

#[test]
fn a_copy_that_its_disk_has_no_room_for_names_the_folder() {
    type Call = fn(&mut Member) -> Result<File, MemberError>;
    skip_unless!(Facility::Root);
    let (server, disk) = (Misbehaving::new(), Tmpfs::new(1 << 20));
    server.answer("/large", Answer::bytes(pattern(10 << 20, 0)));
    let engine = engine_of(small(), &[], Some(disk.path().to_owned()));
    let full = format!("no copy can be made in {}: No space left", disk.path().display());
    let waited = |member: &mut Member| {
        let mut copy = None;
        block_on(poll_fn(|context| member.poll_file(context, &mut copy)))
    };
    let calls: [Call; 2] = [Member::file, waited];
    for file in calls {
        let mut member = only(&set(&engine, [server.url("/large")])).expect("it can be read");
        let error = file(&mut member).unwrap_err();
        assert!(error.to_string().contains(&full), "{error}");
        assert_eq!(error.cause.system_number(), Some(libc::ENOSPC));
        // What was taken for the copy is gone: the rest of it must not pass for the whole.
        let again =
            [file(&mut member).map(drop), member.chunk().map(drop), member.read().map(drop)];
        for again in again {
            assert_eq!(again.expect_err("some of it is lost").to_string(), error.to_string());
        }
    }
}

#[test]
fn a_server_that_fails_at_first_is_asked_again() {
    let server = Misbehaving::new();
    let bytes = pattern(50_000, 1);
    let busy = Answer::status(503).header("Retry-After", "0");
    server.answers("/busy", [busy, Answer::bytes(&bytes)]);
    server.answers("/broken", [Answer::status(500), Answer::hang_up(), Answer::bytes(&bytes)]);
    let engine = engine(small(), &[]);
    for path in ["/busy", "/broken"] {
        let member = only(&set(&engine, [server.url(path)])).expect("it can be read in the end");
        assert!(member.read().expect("it is whole") == bytes);
    }
}

#[test]
fn an_object_of_more_than_any_memory_holds_is_an_error() {
    let server = Misbehaving::new();
    server.answer("/huge", Answer::bytes(b"not so much").ignores_ranges().says_length(1 << 62));
    let engine = engine(small(), &[]);
    let error = only(&set(&engine, [server.url("/huge")])).and_then(Member::read).unwrap_err();
    assert!(error.to_string().contains("memory has no room"), "{error}");
}

#[test]
fn a_transfer_that_breaks_goes_on_where_it_stopped() {
    let server = Misbehaving::new();
    let bytes = pattern(2_000_000, 2);
    let answer = || Answer::bytes(&bytes).etag("\"v1\"");
    server.answers(
        "/reset",
        [answer().resets_after(700_000), answer().ends_after(300_000), answer()],
    );
    server.answers("/stall", [answer().stalls_after(100_000), answer()]);
    let stall = Duration::from_millis(400);
    let engine = engine(Limits { part_bytes: 4 << 20, stall, ..small() }, &[]);
    for path in ["/reset", "/stall"] {
        let member = only(&set(&engine, [server.url(path)])).expect("it can be read in the end");
        assert!(member.read().expect("it is whole") == bytes, "{path}");
    }
    let sent = server.total().bytes;
    assert!(sent < 5_500_000, "what was here was not asked for again: {sent}");
}

#[test]
fn a_server_that_ignores_ranges_or_knows_no_length_is_read_to_its_end() {
    let server = Misbehaving::new();
    let bytes = pattern(6_000_000, 3);
    server.answer("/whole", Answer::bytes(&bytes).ignores_ranges());
    server.answer("/chunked", Answer::bytes(&bytes).ignores_ranges().chunked());
    let engine = engine(small(), &[]);
    for path in ["/whole", "/chunked"] {
        let member = only(&set(&engine, [server.url(path)])).expect("it can be read");
        assert!(member.read().expect("it is whole") == bytes, "{path}");
    }
    assert!(engine.snapshot().budget.peak <= small().budget_bytes);
}

#[test]
fn a_list_that_does_not_come_is_asked_for_again_and_one_that_falls_silent_given_up() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes("a"));
    let list = format!("{}\n", server.url("/a")).repeat(1000);
    let costs = Arc::new(Costs::load());
    let options = StoresOptions { answer_max: Duration::from_secs(3), ..StoresOptions::default() };
    let stores = Arc::new(Stores::new(Arc::clone(&costs), &options));
    let engine = Engine::new(stores, costs, EngineOptions::default()).expect("threads can be had");
    let named = |list: &str| {
        let spec = Spec::ListFile(ListSource::Object(Name::from(server.url(list))));
        Set::open(&engine, [spec], SetOptions::default())
    };
    server.answer("/list", Answer::bytes(&list));
    server.nth(1, Answer::status(503));
    assert!(only(&named("/list")).expect("it can be read").read().expect("whole")[..] == *b"a");
    server.answer("/silent", Answer::bytes(&list).stalls_after(500));
    let found: Vec<_> = named("/silent").iter().collect();
    let [Ok(_), Err(error)] = &found[..] else { panic!("{found:?}") };
    assert!(error.to_string().contains("no more of it came for 3 s"), "{error}");
}

#[test]
fn a_list_that_an_engine_has_begun_comes_whole_though_its_set_is_closed() {
    const NAMES: usize = 3000;
    let server = Misbehaving::new();
    let names: Vec<String> = (0..NAMES).map(|number| format!("s3://bucket/{number}\n")).collect();
    server.answer("/list", Answer::bytes(names.concat()).paced(100_000));
    let (lasts, ends) = (engine(small(), &[]), engine(small(), &[]));
    let list = Spec::ListFile(ListSource::Object(Name::from(server.url("/list").as_str())));
    let listed = Set::open(&ends, [list], SetOptions::default());
    let all = set(&lasts, ["s3://bucket/0".to_owned()]).union(&listed);
    assert!(listed.entry(0).is_some_and(|first| first.is_ok()));
    drop((listed, ends));
    assert_eq!((all.size(), all.doubt().map(|error| error.to_string())), (NAMES as u64, None));
}

#[test]
fn tasks_of_the_engines_own_runtime_may_wait_for_members_that_are_compared() {
    // More than it has threads.
    const TASKS: u64 = 8;
    let server = Misbehaving::new();
    let urls: Vec<String> = (0..TASKS).map(|number| format!("/{number}")).collect();
    for (url, number) in urls.iter().zip(0..) {
        server.answer(url, Answer::bytes(pattern(6_000_000, number % (TASKS / 2))));
    }
    let engine = engine(small(), &[]);
    let specs = urls.iter().map(|url| Spec::glob(server.url(url)));
    let options = SetOptions { duplicates: Duplicates::ByContent, ..SetOptions::default() };
    let set = Arc::new(Set::open(&engine, specs, options));
    let (came, members) = mpsc::channel();
    for _ in 0..TASKS {
        let (set, came) = (Arc::clone(&set), came.clone());
        engine.handle().spawn(async move {
            let mut stream = std::pin::pin!(set.stream());
            while let Some(member) = stream.next().await {
                came.send(member.expect("it can be read").size()).expect("the test listens");
            }
        });
    }
    drop(came);
    let next = || members.recv_timeout(Duration::from_mins(1));
    let sizes: Vec<_> = (0..TASKS / 2).map(|_| next().expect("a member comes")).collect();
    assert_eq!(sizes, [Some(6_000_000); 4]);
    assert_eq!(next(), Err(mpsc::RecvTimeoutError::Disconnected), "each comes once");
}

#[test]
fn tasks_of_the_engines_own_runtime_may_read_members_that_are_on_their_way() {
    // More than it has threads.
    const TASKS: u64 = 8;
    let server = Misbehaving::new();
    let urls: Vec<String> = (0..TASKS).map(|number| format!("/{number}")).collect();
    for url in &urls {
        server.answer(url, Answer::bytes(pattern(6_000_000, 3)));
    }
    let engine = engine(small(), &[]);
    let set = set(&engine, urls.iter().map(|url| server.url(url)));
    let members: Vec<Member> = set.iter().map(|member| member.expect("it can be read")).collect();
    let (came, bytes) = mpsc::channel();
    for member in members {
        let came = came.clone();
        engine.handle().spawn(async move { came.send(member.read().map(|bytes| bytes.len())) });
    }
    for _ in 0..TASKS {
        let came = bytes.recv_timeout(Duration::from_mins(1)).expect("a member comes");
        assert_eq!(came.expect("it is whole"), 6_000_000);
    }
}

#[test]
fn what_knows_no_length_and_breaks_is_read_to_its_end_and_not_to_that_of_a_part() {
    let server = Misbehaving::new();
    let whole = |bytes: &[u8]| Answer::bytes(bytes).ignores_ranges().chunked();
    let engine = engine(small(), &[]);
    for length in [100_000, 256 << 10, 3_000_000] {
        let bytes = pattern(length, 6);
        let breaks = whole(&bytes).ends_after(80_000);
        server.answers("/breaks", [breaks.clone(), breaks, whole(&bytes)]);
        let member = only(&set(&engine, [server.url("/breaks")])).expect("it can be read");
        assert!(member.read().expect("it is whole") == bytes, "{length}");
    }
}

#[test]
fn an_answer_without_a_length_is_as_long_as_its_listing_says_or_an_error() {
    let server = Misbehaving::new();
    let storage = [("endpoint", server.endpoint()), ("skip_signature", "true".to_owned())];
    let engine = engine(small(), &storage);
    let bytes = pattern(100_000, 8);
    let listing = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>\
         <LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;v&quot;</ETag>\
         <Size>100000</Size></Contents></ListBucketResult>";
    for path in ["/bucket", "/bucket/"] {
        server.answer(path, Answer::bytes(listing));
    }
    let of = |bytes: &[u8]| Answer::bytes(bytes).etag("\"v\"").ignores_ranges().chunked();
    let short = of(&bytes[..50_000]);
    let read = || only(&set(&engine, ["s3://bucket/*".to_owned()]))?.read();
    server.answers("/bucket/a", [short.clone(), of(&bytes)]);
    assert!(read().expect("it is whole") == bytes);
    for unversioned in [false, true] {
        let answer = |answer: Answer| if unversioned { answer.etag("") } else { answer };
        server.answer("/bucket/a", answer(short.clone()));
        assert!(read().is_err(), "half of it came");
        server.answer("/bucket/a", answer(of(&[&bytes[..], b"more"].concat())));
        assert!(read().is_err(), "more of it came");
    }
}

#[test]
fn what_is_listed_with_a_version_and_read_without_is_no_mixture() {
    let server = Misbehaving::new();
    let storage = [("endpoint", server.endpoint()), ("skip_signature", "true".to_owned())];
    let engine = engine(small(), &storage);
    let [old, new] = [pattern(100_000, 8), pattern(100_000, 9)];
    let listing = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>\
         <LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;v&quot;</ETag>\
         <Size>100000</Size></Contents></ListBucketResult>";
    for path in ["/bucket", "/bucket/"] {
        server.answer(path, Answer::bytes(listing));
    }
    // It does not know `If-Match`, either.
    let answer = |bytes: &[u8]| Answer::bytes(bytes).etag("");
    server.answers("/bucket/a", [answer(&old), answer(&new)]);
    let read = || only(&set(&engine, ["s3://bucket/*".to_owned()]))?.read();
    assert!(!read().is_ok_and(|read| read != old && read != new));
    server.answer("/bucket/a", answer(&new));
    assert!(read().expect("it is the same all the time") == new);
}

#[test]
fn a_large_copy_behind_a_descriptor_lies_where_what_spills_does() {
    let server = Misbehaving::new();
    server.answer("/large", Answer::bytes(testkit::noise(9 << 20, 1)));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |folder: &Path| {
        let engine = engine_of(small(), &[], Some(folder.to_owned()));
        set(&engine, [server.url("/large")]).next().expect("a member")?.file()
    };
    let copy = file(folder.path()).expect("copied");
    let place = std::fs::read_link(format!("/proc/self/fd/{}", copy.as_raw_fd())).expect("open");
    assert!(place.starts_with(folder.path()), "{}", place.display());
    let missing = folder.path().join("missing");
    let error = file(&missing).expect_err("it is not there").to_string();
    let told = format!("no copy can be made in {}: No such file", missing.display());
    assert!(error.contains(&told), "{error}");
}

#[test]
fn descriptors_of_a_copy_have_positions_of_their_own() {
    let server = Misbehaving::new();
    let engine = engine(small(), &[]);
    for length in [5_000, 9_000_000] {
        let bytes = pattern(length, 4);
        server.answer("/copied", Answer::bytes(&bytes));
        let mut member = only(&set(&engine, [server.url("/copied")])).expect("it can be read");
        for _ in 0..2 {
            let mut found = Vec::new();
            member.file().expect("a copy").read_to_end(&mut found).expect("it can be read");
            assert!(found == bytes, "{length}");
        }
        assert!(member.read().expect("it is whole") == bytes, "{length}");
    }
}

#[test]
fn the_size_that_a_query_tells_is_not_where_an_object_ends() {
    let server = Misbehaving::new();
    let storage = [("endpoint", server.endpoint()), ("skip_signature", "true".to_owned())];
    let engine = engine(small(), &storage);
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("names.db");
    let made = async |told: &str| {
        let mut connection = SqliteConnectOptions::new()
            .filename(&database)
            .create_if_missing(true)
            .connect()
            .await?;
        raw_sql(AssertSqlSafe(told)).execute(&mut connection).await
    };
    let bytes = pattern(600_000, 7);
    let answer = Answer::bytes(&bytes);
    for (answer, how) in [
        (answer.clone(), "as servers do"),
        (answer.clone().etag(""), "without a version"),
        (answer.clone().ignores_ranges(), "whole"),
        (answer.clone().ignores_ranges().chunked(), "and not how long it is"),
        (answer.etag("").ignores_ranges().chunked(), "and neither"),
    ] {
        server.answer("/bucket/a", answer);
        for told in [1, 200_000, 599_999, 600_001, 5_000_000] {
            for name in [server.url("/bucket/a"), "s3://bucket/a".to_owned()] {
                let rows = format!(
                    "drop table if exists t; create table t (name, size);
                     insert into t values ('{name}', {told})"
                );
                engine.handle().block_on(made(&rows)).expect("a database");
                let query = format!("{}\\select name, size from t\\", database.display());
                let spec = Spec::parse(&query).expect("a query");
                let member = only(&Set::open(&engine, [spec], SetOptions::default()));
                let member = member.unwrap_or_else(|error| panic!("{how} {told} {name}: {error}"));
                assert!(member.read().expect("it is whole") == bytes, "{how} {told} {name}");
            }
        }
    }
}

#[test]
fn a_part_that_comes_slowly_is_asked_for_once_more() {
    let server = Misbehaving::new();
    let bytes = pattern(3_000_000, 8);
    let answer = Answer::bytes(&bytes);
    server.answers("/lossy", [answer.clone().paced(10_000), answer]);
    let engine = engine(small(), &[]);
    let set = set(&engine, [server.url("/lossy")]);
    assert!(only(&set).and_then(Member::read).expect("it is whole") == bytes);
    // Whoever has all bytes may let go of it before the end of what brought them is told: it has not won then.
    let hedges: u64 = engine.snapshot().devices.iter().map(|device| device.hedges).sum();
    assert!(hedges >= 1);
}

#[test]
fn members_are_read_from_the_byte_on_that_they_start_at() {
    let server = Misbehaving::new();
    let bytes = pattern(1_500_000, 3);
    let plain = Answer::bytes(&bytes);
    let engine = engine(small(), &[]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &bytes).expect("there is room");
    for (answer, how) in [
        (plain.clone(), "as servers do"),
        (plain.clone().etag(""), "without a version"),
        (plain.clone().ignores_ranges(), "whole"),
        (plain.clone().ignores_ranges().chunked(), "and not how long it is"),
        (plain.clone().etag("").ignores_ranges().chunked(), "and neither"),
    ] {
        server.answer("/a", answer);
        for name in [server.url("/a"), file.path().display().to_string()] {
            for start in [0, 1, 300_000, 1_499_999, 1_500_000] {
                let options = SetOptions {
                    start: Some(Arc::new(move |_| start as u64)),
                    ..SetOptions::default()
                };
                let set = || Set::open(&engine, [Spec::glob(name.clone())], options.clone());
                let member = || only(&set()).expect("it can be read");
                let context = format!("{how}: {name} from {start}");
                assert!(member().read().expect(&context) == bytes[start..], "{context}");
                let (mut read, mut in_chunks) = (member(), Vec::new());
                while let Ok(chunk) = read.chunk()
                    && !chunk.is_empty()
                {
                    in_chunks.extend_from_slice(&chunk);
                }
                assert!(in_chunks == bytes[start..], "{context}");
                let mut copied = Vec::new();
                member().file().expect(&context).read_to_end(&mut copied).expect(&context);
                assert!(copied == bytes[start..], "{context}");
            }
        }
    }
    server.answer("/a", plain);
    for name in [server.url("/a"), file.path().display().to_string()] {
        let start = Some(Arc::new(|_: &_| 1_500_001_u64) as Start);
        let options = SetOptions { start, ..SetOptions::default() };
        let set = Set::open(&engine, [Spec::glob(name)], options);
        let error = only(&set).and_then(Member::read).expect_err("it ends before");
        assert!(matches!(*error.cause, Error::Changed { .. }), "{error}");
    }
    server.reset_counts();
    let start = Some(Arc::new(|_: &_| 1_000_000_u64) as Start);
    let options = SetOptions { start, ..SetOptions::default() };
    let set = Set::open(&engine, [Spec::glob(server.url("/a"))], options);
    assert!(only(&set).and_then(Member::read).expect("it is whole") == bytes[1_000_000..]);
    let requests = server.requests();
    let ranges: Vec<_> = requests.iter().filter_map(|request| request.header("range")).collect();
    assert!(ranges.len() > 1 && ranges.contains(&"bytes=1000000-1262143"), "{ranges:?}");
}

#[test]
fn what_changes_in_mid_read_is_an_error_and_not_a_mixture() {
    let server = Misbehaving::new();
    let (old, new) = (pattern(600_000, 4), pattern(600_000, 5));
    server.answers(
        "/changes",
        [Answer::bytes(&old).etag("\"old\""), Answer::bytes(&new).etag("\"new\"")],
    );
    let engine = engine(small(), &[]);
    let set = set(&engine, [server.url("/changes")]);
    let error = match set.next().expect("there is one") {
        Ok(member) => member.read().expect_err("a part of it is another's"),
        Err(error) => error,
    };
    assert!(matches!(*error.cause, Error::Changed { .. }), "{error}");
}

#[test]
fn what_has_no_version_is_read_anew_and_is_never_a_mixture() {
    let server = Misbehaving::new();
    let (old, new) = (pattern(600_000, 4), pattern(600_000, 5));
    let of = |bytes: &[u8]| Answer::bytes(bytes).etag("");
    let stream = |bytes: &[u8]| of(bytes).chunked().ignores_ranges();
    server.answers("/between_parts", [of(&old), of(&new)]);
    server.answers("/broken", [of(&old), of(&old).ends_after(300_000), of(&old)]);
    server.answers("/other", [of(&old), of(&old).ends_after(300_000), of(&new)]);
    server.answers("/streamed", [stream(&old).ends_after(300_000), stream(&new)]);
    server.answers("/shorter", [stream(&old).ends_after(300_000), stream(&old[..200_000])]);
    let engine = engine(small(), &[]);
    let read = |path: &str| only(&set(&engine, [server.url(path)])).and_then(Member::read);
    assert!(read("/between_parts").expect("one of them is whole") == new);
    assert!(read("/broken").expect("what came again was the same") == old);
    for path in ["/other", "/streamed", "/shorter"] {
        let error = read(path).expect_err("it is another's from somewhere on");
        assert!(matches!(*error.cause, Error::Changed { .. }), "{error}");
    }
}

#[test]
fn a_list_that_its_server_has_not_is_an_error_of_what_it_is_taken_away_from() {
    let server = Misbehaving::new();
    server.answer("/a", Answer::bytes(b"a"));
    server.answer("/missing", Answer::status(404));
    let engine = engine(small(), &[]);
    let list = Spec::ListFile(ListSource::Object(Name::from(server.url("/missing"))));
    let list = Set::open(&engine, [list], SetOptions::default());
    let left = set(&engine, [server.url("/a")]).difference(&list);
    let error = left.iter().find_map(Result::err).expect("nobody knows what is in it").to_string();
    assert!(error.contains("/missing: No such file"), "{error}");
}

#[test]
fn what_is_under_a_name_is_asked_again_while_errors_pass_and_as_often_as_allowed() {
    let server = Misbehaving::new();
    server.answers("/busy", [Answer::status(503), Answer::bytes(b"four")]);
    server.answer("/broken", Answer::status(500));
    server.answer("/gone", Answer::status(404));
    let engine = engine(small(), &[]);
    let looks = Looks::new(engine.stores(), &Limits { attempts_max: 2, window_max: 0, ..small() });
    let look = |path| engine.handle().block_on(looks.entry(&Name::from(server.url(path))));
    assert_eq!(look("/busy").expect("it has recovered").size, Some(4));
    assert!(look("/broken").expect_err("it stays so").is_transient());
    assert!(matches!(look("/gone"), Err(Error::NotFound { .. })));
    let requests = ["/busy", "/broken", "/gone"].map(|path| server.counts(path).requests);
    assert_eq!(requests, [2, 2, 1]);
}

#[test]
fn each_request_that_an_answer_takes_is_waited_for() {
    let server = Misbehaving::new();
    let limit = Duration::from_secs(3);
    let late = |answer: Answer| answer.delayed(limit / 3);
    server.answers("/a", [late(Answer::status(405)), late(Answer::bytes(b"four"))]);
    server.answers("/silent", [late(Answer::status(405)), Answer::bytes(b"").delayed(limit * 99)]);
    let engine = engine(small(), &[]);
    let looks = Looks::new(engine.stores(), &Limits::default()).answered_within(limit);
    let look = |path| engine.handle().block_on(looks.entry(&Name::from(server.url(path))));
    assert_eq!(look("/a").expect("it answers").size, Some(4));
    let error = look("/silent").expect_err("it says no more").to_string();
    assert!(error.ends_with("no answer for 3 s"), "{error}");
    assert_eq!(server.counts("/silent").requests, 2);
}

#[test]
fn what_cannot_be_read_says_why_and_keeps_nobody_waiting() {
    let server = Misbehaving::new();
    server.answer("/good", Answer::bytes(b"good"));
    server.answer("/gone", Answer::status(404));
    server.answer("/closed", Answer::status(403));
    server.answer("/silent", Answer::bytes(b"never").delayed(Duration::from_mins(1)));
    let stall = Duration::from_secs(1);
    let engine = engine(Limits { attempts_max: 2, stall, ..small() }, &[]);
    let set = set(&engine, ["/good", "/gone", "/closed", "/silent"].map(|path| server.url(path)));
    let (good, bad): (Vec<_>, Vec<_>) = set.into_iter().partition(Result::is_ok);
    let good: Vec<_> = good.into_iter().map(|member| member.and_then(Member::read)).collect();
    assert!(matches!(good.as_slice(), [Ok(bytes)] if bytes == &b"good"[..]), "{good:?}");
    let mut errors: Vec<String> =
        bad.into_iter().map(|error| error.expect_err("none is good").to_string()).collect();
    errors.sort();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].contains("/closed: access denied"), "{errors:?}");
    assert!(errors[1].contains("/gone: not found"), "{errors:?}");
    assert!(errors[2].contains("/silent: no byte came for 1 s"), "{errors:?}");
}
