//! Specs over real folders and lists.

use std::future::pending;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use sled::Device;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, raw_sql};
use store::{
    Bindings, Clock, Costs, Entries, Entry, Error, Files, Local, Name, Permissions, Query, Reading,
    Store, Stores, StoresOptions, TableFiles,
};
use tempfile::TempDir;
use testkit::server::{Answer, Misbehaving};
use testkit::{Facility, SlowDir, evict, skip_unless};

use crate::{Cursor, Spec};

fn stores() -> Arc<Stores> {
    let costs = Costs::with(Local::default(), TableFiles::default(), Clock::manual());
    Arc::new(Stores::new(Arc::new(costs), &StoresOptions::default()))
}

fn folder(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    folder
}

/// What comes of specs over a folder, sorted: names below it, or errors.
async fn found(folder: &TempDir, specs: &[&str]) -> Vec<String> {
    let specs: Vec<_> = specs.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
    let cursor = Cursor::of_all(stores(), specs, folder.path());
    let mut items: Vec<_> = cursor
        .map(|item| match item {
            Ok(entry) => entry.name.to_string(),
            Err(error) => format!("error: {error}"),
        })
        .map(|text| text.replace(&format!("{}/", folder.path().display()), ""))
        .collect()
        .await;
    items.sort();
    items
}

#[tokio::test]
async fn patterns_names_and_lists_come_below_the_base() {
    let folder = folder(&["a.c", "b.c", "d/e.c", "d/f.h"]);
    assert_eq!(found(&folder, &["*.c"]).await, ["a.c", "b.c"]);
    assert_eq!(found(&folder, &["**/*.{c,h}"]).await, ["a.c", "b.c", "d/e.c", "d/f.h"]);
    assert_eq!(found(&folder, &["missing", "{b,a}.c"]).await, ["a.c", "b.c", "missing"]);
    std::fs::write(folder.path().join("names"), "x*\n/abs\ns3://b/k\n").unwrap();
    assert_eq!(found(&folder, &["@names"]).await, ["/abs", "s3://b/k", "x*"]);
}

#[tokio::test]
async fn wildcards_in_the_base_stand_for_themselves() {
    let folder = folder(&["x[1]*{a}/f.c", "x1{a}/g.c"]);
    let base = folder.path().join("x[1]*{a}");
    let cursor = Cursor::open(stores(), Spec::glob("*.c"), &base);
    let found: Vec<_> = cursor.map(|entry| entry.unwrap().name).collect().await;
    assert_eq!(found, [Name::from(base.join("f.c").as_path())]);
}

/// A server that is asked and never answers.
#[derive(Debug, Default)]
struct Silent {
    asked: AtomicUsize,
}

impl Store for Silent {
    fn device(&self, _: &Name) -> Device {
        Device::new("own")
    }

    fn stat(&self, _: &Name) -> store::Answer<'_, Entry> {
        pending().boxed()
    }

    fn read(&self, _: &Entry, _: Range<u64>) -> store::Answer<'_, Reading> {
        pending().boxed()
    }

    fn list(&self, _: &Query) -> Entries {
        self.asked.fetch_add(1, Ordering::Relaxed);
        stream::pending().boxed()
    }
}

/// How many lists are begun of what a cursor over a server that never answers is asked for.
fn lists_begun(open: impl FnOnce(Arc<Stores>) -> Cursor) -> usize {
    let silent = Arc::new(Silent::default());
    let store: Arc<dyn Store> = Arc::<Silent>::clone(&silent);
    let costs = Arc::new(Costs::with(Local::default(), TableFiles::default(), Clock::manual()));
    let schemes = [("own".to_owned(), store)].into();
    let options = StoresOptions { schemes, ..StoresOptions::default() };
    let mut cursor = open(Arc::new(Stores::new(costs, &options)));
    for _ in 0..100 {
        assert!(cursor.next().now_or_never().is_none());
    }
    silent.asked.load(Ordering::Relaxed)
}

#[tokio::test]
async fn few_lists_are_begun_side_by_side() {
    let numbers = (0..100).map(|number| number.to_string()).collect::<Vec<_>>();
    let many = numbers.iter().map(|number| Spec::glob(format!("own://h/{number}/*")));
    let many: Vec<_> = many.collect();
    let of_all = |specs| lists_begun(|stores| Cursor::of_all(stores, specs, "".as_ref()));
    assert_eq!(of_all(many), 16);
    let braces = Spec::glob(format!("own://h/{{{}}}/*", numbers.join(",")));
    assert_eq!(of_all(vec![braces.clone()]), 8);
    assert_eq!(lists_begun(|stores| Cursor::open(stores, braces, "".as_ref())), 8);
}

#[tokio::test]
async fn an_error_names_its_spec_and_ends_no_other() {
    let folder = folder(&["a.c"]);
    let items = found(&folder, &["*.h", "*.c", "x{a,b", "@none", "no://such/*"]).await;
    assert_eq!(items.len(), 5, "{items:?}");
    assert!(items.contains(&"a.c".to_owned()), "{items:?}");
    assert!(items.contains(&"error: *.h: No such file or directory".to_owned()), "{items:?}");
    for part in ["x{a,b: a `{` without", "none: No such file", "no://such/*: "] {
        assert!(items.iter().any(|item| item.contains(part)), "{part}: {items:?}");
    }
}

#[tokio::test]
async fn a_question_to_a_folder_that_nothing_is_bound_to_is_refused() {
    let folder = folder(&["a.c"]);
    let items = found(&folder, &["./\\select name from t\\"]).await;
    assert_eq!(items.len(), 1, "{items:?}");
    assert!(items[0].contains("none is bound"), "{items:?}");
}

/// A database of users' homes, and stores that answer for `staff` below the folder with it.
async fn staff(folder: &TempDir) -> Arc<Stores> {
    let database = folder.path().join("db/users.db");
    std::fs::create_dir(folder.path().join("db")).unwrap();
    let options = SqliteConnectOptions::new().filename(&database).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    let statements = "create table users (name, home); insert into users values
        ('david', 'dcs'), ('davids', 'm*'), ('mary', 'mary')";
    raw_sql(statements).execute(&mut connection).await.unwrap();
    let bindings = format!(
        "bind = [{{ prefix = {:?}, store = \"sqlite:{}\" }}]",
        folder.path().join("staff").display().to_string(),
        database.display()
    );
    let options = StoresOptions {
        bindings: Bindings::from_toml(&bindings).unwrap(),
        ..StoresOptions::default()
    };
    let costs = Costs::with(Local::default(), TableFiles::default(), Clock::manual());
    Arc::new(Stores::new(Arc::new(costs), &options))
}

#[tokio::test]
async fn the_papers_query_works_as_printed() {
    let folder = folder(&["staff/dcs/a.txt", "staff/dcs/b.txt", "staff/m*/c.txt", "staff/mary/d"]);
    let stores = staff(&folder).await;
    let homes = "staff/\\select home from users where name like \"%david%\"\\";
    for (spec, names) in [
        (homes.to_owned(), &["staff/dcs", "staff/m*"][..]),
        (format!("{homes}/*.txt"), &["staff/dcs/a.txt", "staff/dcs/b.txt", "staff/m*/c.txt"]),
        (format!("{homes}/{{x,y}}"), &["staff/dcs/x", "staff/dcs/y", "staff/m*/x", "staff/m*/y"]),
        ("db/users.db\\select home from users where name = 'mary'\\".to_owned(), &["db/mary"]),
    ] {
        let parsed = Spec::parse(&spec).unwrap();
        let cursor = Cursor::open(Arc::clone(&stores), parsed, folder.path());
        let found: Vec<_> =
            cursor.map(|entry| entry.unwrap().name.path().unwrap().to_owned()).collect().await;
        let names: Vec<_> = names.iter().map(|name| folder.path().join(name)).collect();
        assert_eq!(found, names, "{spec}");
    }
    let none = Spec::parse("staff/\\select home from users where 0\\").unwrap();
    let items: Vec<_> = Cursor::open(stores, none, folder.path()).collect().await;
    assert!(matches!(&items[..], [Err(Error::NamesNothing { .. })]), "{items:?}");
}

#[tokio::test]
async fn what_matches_nothing_is_said_without_passwords_in_braces_too() {
    let costs = Arc::new(Costs::with(Local::default(), TableFiles::default(), Clock::manual()));
    let empty: Arc<dyn Store> = Arc::new(Files::new(Arc::clone(&costs)));
    let schemes = [("own".to_owned(), empty)].into();
    let options = StoresOptions { schemes, ..StoresOptions::default() };
    let stores = Arc::new(Stores::new(costs, &options));
    for (spec, told) in [
        ("own://me:secret@h/a/*", "own://me@h/a/*: not found"),
        (
            "{own://me:secret@h/a/*,own://me:secret@h/b/*}",
            "{own://me@h/a/*,own://me@h/b/*}: not found",
        ),
    ] {
        let cursor = Cursor::open(Arc::clone(&stores), Spec::glob(spec), "".as_ref());
        let items: Vec<_> = cursor.collect().await;
        let [Err(error)] = &*items else { panic!("{items:?}") };
        assert_eq!(error.to_string(), told);
    }
}

#[tokio::test]
async fn nothing_is_looked_at_before_it_is_asked_for() {
    let folder = folder(&["a.c"]);
    let mut cursor = Cursor::open(stores(), Spec::glob("*.c"), folder.path());
    std::fs::write(folder.path().join("b.c"), "").unwrap();
    let first = cursor.next().await.unwrap().unwrap();
    assert_eq!(first.name, Name::from(folder.path().join("a.c").as_path()));
    let second = cursor.next().await.unwrap().unwrap();
    assert_eq!(second.name.file_name(), b"b.c");
    assert!(cursor.next().await.is_none());
}

#[tokio::test]
async fn a_list_that_goes_on_gives_the_names_that_have_come() {
    use std::io::Write as _;
    let folder = folder(&[]);
    let path = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let mut cursor = Cursor::open(stores(), Spec::parse("@fifo").unwrap(), folder.path());
    let writer = tokio::task::spawn_blocking(move || {
        let mut writer = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        writer.write_all(b"first\nsec").unwrap();
        writer
    });
    let first = cursor.next().await.unwrap().unwrap();
    assert_eq!(first.name.file_name(), b"first");
    assert!(cursor.next().now_or_never().is_none());
    let mut writer = writer.await.unwrap();
    writer.write_all(b"ond").unwrap();
    drop(writer);
    assert_eq!(cursor.next().await.unwrap().unwrap().name.file_name(), b"second");
    assert!(cursor.next().await.is_none());
}

#[tokio::test]
async fn a_pattern_over_many_names_gives_each_once() {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..6000 {
        std::fs::write(folder.path().join(format!("f{at}")), "").unwrap();
    }
    let mut names = found(&folder, &["f*"]).await;
    names.dedup();
    assert_eq!(names.len(), 6000);
}

#[tokio::test]
async fn what_a_spec_stands_for_comes_in_its_order() {
    let folder = folder(&["a/1", "a/2", "c/1"]);
    let many = folder.path().join("b");
    std::fs::create_dir(&many).unwrap();
    for at in 0..3000 {
        std::fs::write(many.join(format!("{at:04}")), "").unwrap();
    }
    let cursor = Cursor::open(stores(), Spec::glob("{b,a,c}/*"), folder.path());
    let found: Vec<_> = cursor.map(|entry| entry.unwrap().name.to_string()).collect().await;
    let of_b = (0..3000).map(|at| format!("b/{at:04}"));
    let names = of_b.chain(["a/1", "a/2", "c/1"].map(str::to_owned));
    let paths = names.map(|name| folder.path().join(name).display().to_string());
    assert_eq!(found, paths.collect::<Vec<_>>());
}

#[tokio::test]
async fn names_that_are_no_text_pass_through() {
    let folder = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\xff.c");
    std::fs::write(folder.path().join(name), "").unwrap();
    let items: Vec<_> = Cursor::open(stores(), Spec::glob("*.c"), folder.path()).collect().await;
    assert_eq!(items[0].as_ref().unwrap().name.file_name(), b"\xff.c");
}

#[tokio::test]
async fn an_unsupported_form_is_an_error_and_not_an_empty_set() {
    let folder = folder(&[]);
    let spec = Spec::program(folder.path(), ["printf", "a"], "");
    let items: Vec<_> = Cursor::open(stores(), spec, folder.path()).collect().await;
    assert!(
        matches!(&items[..], [Err(error)] if !matches!(error, Error::NotFound { .. })),
        "{items:?}"
    );
}

#[tokio::test]
async fn what_a_program_prints_is_below_its_folder_once() {
    let folder = folder(&["d/a.c", "d/b.c"]);
    let permissions = Permissions { programs: true, ..Permissions::default() };
    let options = StoresOptions { permissions, ..StoresOptions::default() };
    let costs = Costs::with(Local::default(), TableFiles::default(), Clock::manual());
    let stores = Arc::new(Stores::new(Arc::new(costs), &options));
    let spec = Spec::parse("%printf 'd\\n/abs\\n'%/*.c").unwrap();
    let items: Vec<_> = Cursor::open(Arc::clone(&stores), spec, folder.path()).collect().await;
    let mut names: Vec<_> = items.iter().map(|item| &item.as_ref().unwrap().name).collect();
    names.sort();
    let below = |name: &str| Name::from(folder.path().join(name).as_path());
    assert_eq!(names, [&below("d/a.c"), &below("d/b.c")]);
    // Relative to the working folder of the test, which is the crate's.
    let spec = Spec::parse("src/%echo lib.rs%").unwrap();
    let items: Vec<_> = Cursor::open(stores, spec, "".as_ref()).collect().await;
    assert_eq!(items[0].as_ref().unwrap().name, Name::from("src/lib.rs"));
}

#[tokio::test]
async fn a_list_of_a_server_names_no_file_of_this_machine_unless_that_is_allowed() {
    let server = Misbehaving::new();
    let object = server.url("/object");
    server.answer("/list", Answer::bytes(format!("/etc/passwd\n{object}\ns3://b/k\n")));
    let listed = |private_links| {
        let permissions = Permissions { private_links, ..Permissions::default() };
        let options = StoresOptions { permissions, ..StoresOptions::default() };
        let costs = Costs::with(Local::default(), TableFiles::default(), Clock::manual());
        let stores = Arc::new(Stores::new(Arc::new(costs), &options));
        let spec = Spec::parse(format!("@{}", server.url("/list"))).unwrap();
        Cursor::open(stores, spec, "".as_ref()).collect::<Vec<_>>()
    };
    let items = listed(false).await;
    let [Err(error @ Error::Refused { .. }), Ok(entry), Ok(_)] = &*items else {
        panic!("{items:?}")
    };
    assert_eq!((error.name(), &entry.name), (Name::from("/etc/passwd"), &Name::from(&*object)));
    assert!(listed(true).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_list_on_a_dead_mount_is_not_waited_for() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let list = slow.create("list", "/a\n/b\n");
    let local = Local::new(Duration::from_millis(500));
    let costs = Costs::with(local, TableFiles::default(), Clock::manual());
    let stores = Arc::new(Stores::new(Arc::new(costs), &StoresOptions::default()));
    let listed = || {
        let spec = Spec::parse(format!("@{}", list.display())).unwrap();
        Cursor::open(Arc::clone(&stores), spec, "".as_ref()).collect::<Vec<_>>()
    };
    assert_eq!(listed().await.len(), 2, "it answers");
    evict(&list);
    // Look-ups are answered, reads are not; then nothing is.
    for (rule, reason) in [("list: stall=1:forever", "no answer"), ("*: hang=true", "has not")] {
        slow.mount().set_rules(vec![rule.parse().unwrap()]);
        let items = listed().await;
        let [Err(error)] = &*items else { panic!("{items:?}") };
        assert!(error.to_string().contains(reason), "{error}");
    }
    slow.mount().set_rules(Vec::new());
}
