//! What every store of objects must do alike.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use nearfirst_store::wrap::{Faulty, Pace, Recording, Throttled};
use nearfirst_store::{Entry, Error, Name, Query, leave_signals_to_others};
use rustix::process::Signal;
use sled::Place;
use testkit::server::{Gcs, Nginx, S3, Sftp, WebDav};
use testkit::{Dir, cmd, program, skip_unless};

use crate::{
    Around, Source, Wrap, listed, names, open, read, read_entry, run, s3_stores, stat, stores, text,
};

/// What all stores that answer patterns must do, of the one whose keys `put` makes and `at` names.
///
/// Nothing else may be below what `at` names.
fn conforms(stores: &dyn Source, put: &dyn Fn(&str, &str), at: &dyn Fn(&str) -> String) {
    fill(put);
    lists(stores, at);
    reads(stores, put, at, &|key| {
        listed(stores, &at(key).replace(".txt", ".*")).remove(0).unwrap()
    });
}

/// Puts what [`lists`] and [`reads`] expect.
fn fill(put: &dyn Fn(&str, &str)) {
    for key in
        ["d/a.txt", "d/b.gz", "d/e/c.gz", "d/e/f/g.gz", "d/.h/i.gz", "d/j k+%20.gz", "d/empty"]
    {
        put(key, key.trim_start_matches("d/empty"));
    }
}

/// What a store must answer to patterns.
fn lists(stores: &dyn Source, at: &dyn Fn(&str) -> String) {
    let globbed = |pattern: &str| names(stores, &at(pattern));
    let these = |keys: &[&str]| keys.iter().map(|key| at(key)).collect::<BTreeSet<_>>();
    assert_eq!(globbed("d/*.gz"), these(&["d/b.gz", "d/j k+%20.gz"]));
    assert_eq!(globbed("d/?.*"), these(&["d/a.txt", "d/b.gz"]));
    assert_eq!(globbed("d/*/*.gz"), these(&["d/e/c.gz"]));
    assert_eq!(globbed("d/.*/*"), these(&["d/.h/i.gz"]));
    assert_eq!(globbed("d/*/c.gz"), these(&["d/e/c.gz"]));
    assert_eq!(globbed("d/**/*.gz"), these(&["d/b.gz", "d/e/c.gz", "d/e/f/g.gz", "d/j k+%20.gz"]));
    assert_eq!(globbed("d/**/f/*"), these(&["d/e/f/g.gz"]));
    assert_eq!(globbed("d/nothing/*"), these(&[]));
    assert_eq!(globbed("d/a.txt"), these(&["d/a.txt"]));
    assert_eq!(globbed("d/missing"), these(&[]));
}

/// What all stores that read must do; `find` lists an object in whatever way the store does.
fn reads(
    stores: &dyn Source,
    put: &dyn Fn(&str, &str),
    at: &dyn Fn(&str) -> String,
    find: &dyn Fn(&str) -> Entry,
) {
    let a = at("d/a.txt");
    for (range, expected) in [
        (0..u64::MAX, "d/a.txt"),
        (2..4, "a."),
        (4..99, "txt"),
        (5..u64::MAX, "xt"),
        (7..9, ""),
        (50..u64::MAX, ""),
    ] {
        assert_eq!(read(stores, &a, range.clone()).unwrap(), expected, "{range:?} by name");
        let entry = find("d/a.txt");
        // A listing need not tell more than names.
        assert!(entry.size.is_none_or(|size| size == 7));
        assert_eq!(read_entry(stores, &entry, range.clone()).unwrap(), expected, "{range:?}");
        assert_eq!(
            read_entry(stores, &stat(stores, &a).unwrap(), range.clone()).unwrap(),
            expected
        );
    }
    let (listed, store) = (find("d/a.txt"), open(stores, &a));
    let found = run(store.read(&listed, 0..7)).unwrap().entry.version;
    if let (Some(listed), Some(found)) = (listed.version, found) {
        assert_eq!(listed, found);
    }
    assert_eq!(read(stores, &at("d/j k+%20.gz"), 0..u64::MAX).unwrap(), "d/j k+%20.gz");
    assert_eq!(read(stores, &at("d/empty"), 0..u64::MAX).unwrap(), "");
    assert!(read(stores, &at("d/missing"), 0..1).is_err_and(|error| is_missing(&error)));
    assert!(stat(stores, &at("d/missing")).is_err_and(|error| is_missing(&error)));

    let entry = stat(stores, &a).unwrap();
    assert_eq!(entry.size, Some(7));
    assert!(entry.version.is_some() && entry.modified.is_some());
    put("d/a.txt", "another text");
    let changed = read_entry(stores, &entry, 0..3);
    assert!(matches!(changed, Err(Error::Changed { .. })), "{changed:?}");
    let store = open(stores, &a);
    // A server may just then end a connection that was kept: who reads asks again.
    let again = || run(store.read(&Entry::named(a.as_str().into()), 8..10));
    let reading =
        (0..3).map(|_| again()).find(|read| !matches!(read, Err(Error::Interrupted { .. })));
    let reading = reading.unwrap().unwrap();
    assert_eq!(reading.range, 8..10);
    assert_eq!(reading.entry.size, Some(12));
    assert!(reading.entry.version.is_some());
}

/// Of a store that shows the files of a folder: what is written over while it is read is an error, also
/// by something longer; what is added to its end is not.
fn a_file_that_changes_in_mid_read_is_no_mixture(
    stores: &dyn Source,
    dir: &Dir,
    at: &dyn Fn(&str) -> String,
) {
    const BYTES: usize = 4 << 20;
    let path = dir.create("changes", vec![b'o'; BYTES]);
    let store = open(stores, &at("changes"));
    let read_while = |range: Range<u64>, write: &dyn Fn(&mut File)| {
        let mut file = File::options().write(true).open(&path).unwrap();
        file.set_len(BYTES as u64).unwrap();
        file.write_all_at(&vec![b'o'; BYTES], 0).unwrap();
        // Servers tell whole seconds.
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_hours(9)).unwrap();
        run(async {
            let entry = store.stat(&at("changes").as_str().into()).await?;
            let mut reading = store.read(&entry, range).await?;
            let first = reading.bytes.next().await.expect("more than nothing")?;
            write(&mut file);
            Ok(first.len() + text(reading).await?.len())
        })
    };
    let over = |file: &mut File| file.write_all(b"new").unwrap();
    let anew = |file: &mut File| file.write_all(&vec![b'n'; BYTES + 1]).unwrap();
    for range in [0..u64::MAX, 0..2 << 20, 2 << 20..u64::MAX] {
        for write in [&over as &dyn Fn(&mut File), &anew] {
            let changed = read_while(range.clone(), write);
            assert!(matches!(changed, Err(Error::Changed { .. })), "{changed:?}");
        }
    }
    let grow = |file: &mut File| file.write_all_at(b"new", BYTES as u64).unwrap();
    assert_eq!(read_while(0..u64::MAX, &grow).unwrap(), BYTES);
}

/// Files say in the system's words what servers say in theirs.
fn is_missing(error: &Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

#[test]
fn files_conform() {
    let dir = Dir::new();
    let put = |key: &str, text: &str| drop(dir.create(key, text));
    let at = |key: &str| format!("{}/{key}", dir.path().display());
    conforms(&stores(&[]), &put, &at);
    a_file_that_changes_in_mid_read_is_no_mixture(&stores(&[]), &dir, &at);
}

#[test]
fn stores_around_a_store_conform_as_it_does() {
    let all: [Wrap; 4] = [
        |store| Arc::new(Faulty::new(store)),
        |store| Arc::new(Recording::new(store)),
        |store| Arc::new(Throttled::new(store, Pace::default())),
        |store| {
            let pace = Pace { bytes_per_second: Some(1_000_000), reads_max: 1 };
            Arc::new(Throttled::new(store, pace))
        },
    ];
    for around in all {
        let dir = Dir::new();
        let put = |key: &str, text: &str| drop(dir.create(key, text));
        let at = |key: &str| format!("file://{}/{key}", dir.path().display());
        conforms(&Around(stores(&[]), around), &put, &at);
    }
}

/// They have no objects: what they name is read by the store that it belongs to.
#[cfg(feature = "sql")]
#[test]
fn what_databases_and_programs_name_reads_alike() {
    use nearfirst_store::{Costs, Permissions, Stores, StoresOptions};
    let dir = Dir::new();
    let put = |key: &str, text: &str| drop(dir.create(key, text));
    let at = |key: &str| dir.join(key).display().to_string();
    let permissions = Permissions { programs: true, ..Permissions::default() };
    let options = StoresOptions { permissions, ..StoresOptions::default() };
    let stores = Stores::new(Arc::new(Costs::load()), &options);
    let database = Name::from(database_of(&["d/a.txt", "d/b.gz"], &dir).as_path());
    let by_query = |key: &str| Query::Ask {
        prefix: database.clone(),
        text: format!("select name from keys where name = '{key}'"),
    };
    let by_program = |key: &str| Query::Run {
        folder: Name::from(dir.path()),
        words: ["find", ".", "-path", &format!("./{key}")].map(OsString::from).to_vec(),
    };
    let all: [&dyn Fn(&str) -> Query; 2] = [&by_query, &by_program];
    for ask in all {
        fill(&put);
        let found = |key: &str| run(stores.list(&ask(key)).collect::<Vec<_>>());
        assert!(found("d/none").is_empty());
        reads(&stores, &put, &at, &|key| {
            let entry = found(key).remove(0).unwrap();
            assert_eq!(entry.name, Name::from(at(key)));
            entry
        });
    }
}

/// A database that holds these keys as names.
#[cfg(feature = "sql")]
fn database_of(keys: &[&str], dir: &Dir) -> PathBuf {
    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions as _, Connection as _, query, raw_sql};
    let path = dir.join("keys.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    run(async {
        let mut connection = options.connect().await.unwrap();
        raw_sql("create table keys (name text)").execute(&mut connection).await.unwrap();
        for key in keys {
            let insert = query("insert into keys values (?)").bind(key);
            insert.execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    });
    path
}

#[test]
fn s3_conforms() {
    skip_unless!(S3::NEEDS);
    let s3 = S3::new();
    s3.create_bucket("bucket");
    let put = |key: &str, text: &str| s3.put(&format!("bucket/{key}"), text);
    conforms(&s3_stores(&s3.endpoint()), &put, &|key| format!("s3://bucket/{key}"));
}

#[test]
fn files_by_url_conform() {
    let dir = Dir::new();
    let put = |key: &str, text: &str| drop(dir.create(key, text));
    let at = |key: &str| format!("file://{}/{key}", dir.path().display());
    let stores = stores(&[]);
    conforms(&stores, &put, &at);
    a_file_that_changes_in_mid_read_is_no_mixture(&stores, &dir, &at);
    links_are_followed(&dir, &put, &at);
    what_is_no_file_is_not_opened(&dir, &at);
    names_are_those_that_are_there(&dir, &at);
    they_lie_where_they_do_by_their_paths(&stores, &dir, &at);
    let name = Name::from(at("d/a.txt"));
    assert_eq!(open(&stores, &at("")).file(&name), Some(dir.join("d/a.txt")));
    let by_host = format!("file://localhost{}", dir.join("d/a.txt").display());
    let name = Name::from(by_host.as_str());
    assert_eq!(open(&stores, &by_host).file(&name), Some(dir.join("d/a.txt")));
}

fn they_lie_where_they_do_by_their_paths(
    stores: &dyn Source,
    dir: &Dir,
    at: &dyn Fn(&str) -> String,
) {
    let path = dir.create("near", "just written, so still in memory").display().to_string();
    let place_of = |name: &str| {
        let (store, name) = (open(stores, name), Name::from(name));
        (store.device(&name), run(store.locate(&Entry::named(name))).unwrap())
    };
    let (device, extents) = place_of(&at("near"));
    assert_eq!(extents[0].place, Place::Near);
    assert_eq!((device, extents), place_of(&path));
}

/// Each is read as it is listed; one that no URL can say is told of.
fn names_are_those_that_are_there(dir: &Dir, at: &dyn Fn(&str) -> String) {
    let stores = stores(&[]);
    for key in [&b"n/\xff"[..], b"n/\xfe/a", "n/\u{FFFD}/a".as_bytes(), b"n/b", b"n/b ", b"n/c /a"]
    {
        dir.create(OsStr::from_bytes(key), key);
    }
    symlink("c ", dir.join("n").join(OsStr::from_bytes(b"link\xff"))).unwrap();
    let (found, unnamed): (Vec<_>, Vec<_>) =
        listed(&stores, &at("n/**")).into_iter().partition(Result::is_ok);
    let found = found.into_iter().map(|entry| entry.unwrap().name).collect::<BTreeSet<_>>();
    let these = ["n/\u{FFFD}/a", "n/b", "n/b ", "n/c /a"];
    assert_eq!(found, BTreeSet::from(these.map(|key| Name::from(at(key)))));
    for key in these {
        assert_eq!(names(&stores, &at(key)), BTreeSet::from([at(key)]));
        assert_eq!(stat(&stores, &at(key)).unwrap().size, Some(key.len() as u64));
        assert_eq!(read(&stores, &at(key), 1..u64::MAX).unwrap(), key[1..]);
    }
    let is_told = |error: &Result<Entry, Error>| {
        error.as_ref().is_err_and(|error| error.reason().starts_with("its name is no UTF-8"))
    };
    assert!(unnamed.len() == 2 && unnamed.iter().all(is_told), "{unnamed:?}");
    let below = listed(&stores, &at("n/*/a"));
    let unnamed = below.iter().filter(|entry| is_told(entry)).count();
    assert!(unnamed == 2 && below.len() == 4, "a folder and a link to one: {below:?}");
}

#[test]
fn webdav_conforms() {
    skip_unless!(WebDav::NEEDS);
    let server = WebDav::new();
    let put = |key: &str, text: &str| server.put(key, text);
    let at = |key: &str| format!("webdav://{}/{key}", server.address());
    conforms(&stores(&[]), &put, &at);
    put(" space/a", "");
    put("space/a", "");
    let mut found = listed(&stores(&[]), &at("*/a"));
    found.sort_by_key(Result::is_err);
    assert_eq!(found[0].as_ref().unwrap().name, Name::from(at("space/a")));
    let [Err(Error::Refused { name, .. })] = &found[1..] else { panic!("{found:?}") };
    assert!(name.as_bytes().starts_with(at(" space/").as_bytes()), "{name:?}");
}

/// As far as the emulator goes: it takes no empty object, gives no tag with the bytes of one, and
/// does not know a range that begins behind the end.
#[test]
fn google_lists_and_reads() {
    skip_unless!(Gcs::NEEDS);
    let server = Gcs::new();
    let endpoint = server.endpoint();
    let stores = stores(&[("gcs_endpoint", &endpoint), ("gcs_skip_signature", "true")]);
    let at = |key: &str| format!("gs://{}/{key}", Gcs::BUCKET);
    fill(&|key, text| {
        if !text.is_empty() {
            server.put(key, text);
        }
    });
    lists(&stores, &at);
    let a = at("d/a.txt");
    for (range, expected) in [(0..u64::MAX, "d/a.txt"), (2..4, "a."), (5..u64::MAX, "xt")] {
        assert_eq!(read(&stores, &a, range.clone()).unwrap(), expected, "{range:?}");
        let entry = stat(&stores, &a).unwrap();
        assert_eq!(read_entry(&stores, &entry, range.clone()).unwrap(), expected, "{range:?}");
    }
    let entry = stat(&stores, &a).unwrap();
    assert!(entry.size == Some(7) && entry.version.is_some() && entry.modified.is_some());
    assert_eq!(read(&stores, &at("d/j k+%20.gz"), 0..u64::MAX).unwrap(), "d/j k+%20.gz");
    assert!(read(&stores, &at("d/missing"), 0..1).is_err_and(|error| is_missing(&error)));
    assert!(stat(&stores, &at("d/missing")).is_err_and(|error| is_missing(&error)));
}

/// Pages answer selectors and no patterns; what they link to is read as all else is.
#[cfg(feature = "web")]
#[test]
fn the_web_reads_alike() {
    skip_unless!(Nginx::NEEDS);
    let nginx = Nginx::new();
    let put = |key: &str, text: &str| nginx.put(key, text);
    // As its pages write them.
    let quoted = |key: &str| key.replace('%', "%25").replace(' ', "%20").replace('+', "%2B");
    let at = |key: &str| nginx.url(&quoted(key));
    let stores = stores(&[]);
    fill(&put);
    let linked = |folder: &str, selector: &str| {
        let text = selector.to_owned();
        let query = Query::Ask { prefix: Name::from(at(folder)), text };
        let entries = run(open(&stores, &at(folder)).list(&query).collect::<Vec<_>>());
        entries.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let names = |entries: Vec<Entry>| -> BTreeSet<String> {
        entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
    };
    let archives = BTreeSet::from([at("d/b.gz"), at("d/j k+%20.gz")]);
    assert_eq!(names(linked("d/", "a[href$=\".gz\"]")), archives);
    reads(&stores, &put, &at, &|key| {
        linked("d/", &format!("a[href=\"{}\"]", key.trim_start_matches("d/"))).remove(0)
    });
    let refused = listed(&stores, &at("d/*.gz")).remove(0);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
}

/// Where [`over_ssh`] finds the folder that the server shows.
const SHOWN: &str = "NEARFIRST_TEST_SHOWN";

/// Where it finds the server by an address that nobody has vouched for.
const ADDRESS: &str = "NEARFIRST_TEST_ADDRESS";

/// Where the settings are that its `ssh` reads.
const SETTINGS: &str = "NEARFIRST_TEST_SETTINGS";

/// The settings of `ssh` are files and not options of ours: a child of this test finds an `ssh` in
/// its `PATH` that reads those of the test.
#[test]
fn sftp_conforms() {
    skip_unless!(Sftp::NEEDS);
    let server = Sftp::new();
    let dir = Dir::new();
    let ssh = program("ssh").unwrap();
    let text =
        format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), server.config().display());
    let wrapper = dir.create("ssh", text);
    std::fs::set_permissions(wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = OsString::from(dir.path());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let this = std::env::current_exe().unwrap();
    let output = cmd(this, ["--ignored", "--exact", "conformance::over_ssh"])
        .env("PATH", path)
        .env(SHOWN, server.root())
        .env(ADDRESS, server.address().to_string())
        .env(SETTINGS, server.config())
        .run();
    assert!(output.code() == 0, "{}{}", output.text(), output.stderr());
    assert!(output.text().contains("1 passed"), "{}", output.text());
}

/// As on this machine: by a component that names them, not by `**`.
fn links_are_followed(shown: &Dir, put: &dyn Fn(&str, &str), at: &dyn Fn(&str) -> String) {
    put("l/2026/x.log", "x");
    for (to, link) in [("2026", "now"), ("..", "2026/up"), ("x.log", "2026/y.log")] {
        symlink(to, shown.join("l").join(link)).unwrap();
    }
    symlink("nothing", shown.join("l/none")).unwrap();
    symlink("itself", shown.join("l/itself")).unwrap();
    let globbed = |pattern: &str| names(&stores(&[]), &at(pattern));
    let these = |keys: &[&str]| keys.iter().map(|key| at(key)).collect::<BTreeSet<_>>();
    assert_eq!(globbed("l/*"), these(&["l/itself", "l/none"]));
    assert_eq!(globbed("l/*/x.log"), these(&["l/2026/x.log", "l/now/x.log"]));
    assert_eq!(globbed("l/n*/?.log"), these(&["l/now/x.log", "l/now/y.log"]));
    assert_eq!(globbed("l/**/*.log"), these(&["l/2026/x.log", "l/2026/y.log"]));
    assert_eq!(globbed("l/*/u*/n*/x.log"), these(&["l/2026/up/now/x.log", "l/now/up/now/x.log"]));
}

/// By the signals that end other programs; what it is used by ends with it.
fn what_connects_can_be_ended() {
    let settings = std::env::var(SETTINGS).expect("set by the parent");
    let file = |process: &Path, name: &str| std::fs::read_to_string(process.join(name));
    let is_ours = |process: &PathBuf| {
        let words = file(process, "cmdline").unwrap_or_default();
        words.contains(&settings) && words.contains("/master\0-M\0")
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|process| process.unwrap().path());
    let connections: Vec<_> = processes.filter(is_ours).collect();
    assert!(!connections.is_empty());
    for connection in connections {
        // One may have ended by itself.
        let Ok(status) = file(&connection, "status") else { continue };
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
            assert_eq!(blocked >> (signal.as_raw() - 1) & 1, 0, "{signal:?}: {status}");
        }
    }
}

/// A pipe would be waited for. Nobody names it who asks for all below a folder.
fn what_is_no_file_is_not_opened(shown: &Dir, at: &dyn Fn(&str) -> String) {
    cmd("mkfifo", [shown.join("l/pipe")]).run().succeeds();
    symlink("/dev/zero", shown.join("l/zero")).unwrap();
    for key in ["l/pipe", "l/zero"] {
        let found = listed(&stores(&[]), &at(&key.replace('e', "[e]"))).remove(0);
        for entry in [Entry::named(at(key).into()), found.unwrap()] {
            let refused = read_entry(&stores(&[]), &entry, 0..u64::MAX).unwrap_err();
            assert_eq!(refused.reason(), "not a regular file", "{refused}");
        }
    }
    let below = names(&stores(&[]), &at("l/**"));
    assert!(!below.contains(&at("l/pipe")) && !below.contains(&at("l/zero")), "{below:?}");
    assert!(below.contains(&at("l/none")), "{below:?}");
}

/// The client cannot read it, and breaks its connection at it; one listing may have done so to another.
fn a_name_that_is_no_text_is_told_of_at_once(shown: &Dir, at: &dyn Fn(&str) -> String) {
    // Of more than one answer of the server.
    let keys = |folder: &str| (0..500).map(|at| format!("u/{folder}/{at}.log")).collect::<Vec<_>>();
    for key in ["a", "b", "c", "d"].iter().flat_map(|folder| keys(folder)) {
        shown.create(key, "");
    }
    shown.create(OsStr::from_bytes(b"u/c/\xff.log"), "");
    let (found, errors): (Vec<_>, Vec<_>) =
        listed(&stores(&[]), &at("u/*/*.log")).into_iter().partition(Result::is_ok);
    let [Err(error @ Error::Refused { name, .. })] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(*name, Name::from(at("u/c/")));
    assert!(error.reason().contains("may be no UTF-8"), "{error}");
    let blamed = |name: &Name| name.as_bytes().starts_with(at("u/c/").as_bytes());
    let found = found.into_iter().map(|entry| entry.unwrap().name);
    let names: Vec<_> = found.filter(|name| !blamed(name)).collect();
    let these = ["a", "b", "d"].iter().flat_map(|folder| keys(folder));
    let these: BTreeSet<_> = these.map(|key| Name::from(at(&key))).collect();
    assert_eq!(names.len(), these.len(), "each once");
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), these);
}

#[test]
#[ignore = "runs as a child of sftp_conforms"]
fn over_ssh() {
    let shown = Dir::new_in(std::env::var_os(SHOWN).expect("set by the parent"));
    let put = |key: &str, text: &str| drop(shown.create(key, text));
    let at = |key: &str| format!("sftp://{}{}/{key}", Sftp::HOST, shown.path().display());
    // As the library's threads do.
    leave_signals_to_others();
    let connected = stores(&[]);
    conforms(&connected, &put, &at);
    a_file_that_changes_in_mid_read_is_no_mixture(&connected, &shown, &at);
    what_connects_can_be_ended();
    links_are_followed(&shown, &put, &at);
    what_is_no_file_is_not_opened(&shown, &at);
    a_name_that_is_no_text_is_told_of_at_once(&shown, &at);
    let error = |host: &str| read(&stores(&[]), &format!("sftp://{host}/a"), 0..1).unwrap_err();
    let nowhere = error("no-such-host.invalid");
    assert!(
        matches!(&nowhere, Error::Refused { reason, .. } if reason.contains("no-such-host")),
        "{nowhere}"
    );
    let stranger = error(&std::env::var(ADDRESS).expect("set by the parent"));
    assert!(
        matches!(&stranger, Error::Denied { reason, .. } if reason.contains("known_hosts")),
        "{stranger}"
    );
    let silent = error("127.0.0.1:1");
    assert!(silent.is_transient(), "{silent}");
}
