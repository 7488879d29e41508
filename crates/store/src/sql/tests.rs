//! Questions to real databases.

use std::error::Error as _;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures::StreamExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, raw_sql};
use tempfile::TempDir;
use testkit::server::{MariaDb, Postgres};
use testkit::{Facility, LoopDisk, SlowDir, skip_unless, until};

use super::Sql;
use crate::{
    Clock, Costs, Entry, Error, Local, Name, Query, Store as _, Stores, StoresOptions, TableFiles,
};

/// No answer of a test takes longer, unless it never comes.
const ANSWER_MAX: Duration = Duration::from_mins(1);

fn costs() -> Arc<Costs> {
    Arc::new(Costs::with(Local::default(), TableFiles::default(), Clock::manual()))
}

fn stores(answer_max: Duration) -> Stores {
    Stores::new(costs(), &StoresOptions { answer_max, ..StoresOptions::default() })
}

async fn answer(prefix: impl Into<Name>, text: &str) -> Vec<Result<Entry, Error>> {
    answer_of(&stores(ANSWER_MAX), prefix, text).await
}

async fn answer_of(
    stores: &Stores,
    prefix: impl Into<Name>,
    text: &str,
) -> Vec<Result<Entry, Error>> {
    let query = Query::Ask { prefix: prefix.into(), text: text.to_owned() };
    stores.list(&query).collect().await
}

async fn names(prefix: impl Into<Name>, text: &str) -> Vec<String> {
    let answer = answer(prefix, text).await;
    let name = |item: Result<Entry, Error>| {
        item.map_or_else(|error| format!("error: {error}"), |entry| entry.name.to_string())
    };
    answer.into_iter().map(name).collect()
}

/// A folder with a database `mail.db` that these statements made.
async fn sqlite(statements: &str) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mail.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    raw_sql(AssertSqlSafe(statements)).execute(&mut connection).await.unwrap();
    (folder, path)
}

#[tokio::test]
async fn a_full_text_search_of_sqlite_names_files_beside_it() {
    let (folder, path) = sqlite(
        "create virtual table mail using fts5(path unindexed, body);
         insert into mail values ('a.eml', 'the near first'), ('/b.eml', 'near the end'),
             ('s3://m/c', 'nearest'), (null, 'near nothing'), ('', 'near'), ('d.eml', 'far')",
    )
    .await;
    let question = "select path from mail where mail match 'near' order by path";
    let beside = folder.path().join("a.eml").display().to_string();
    assert_eq!(names(&*path, question).await, ["/b.eml", &beside]);
    let slash = path.join("");
    assert_eq!(names(&*slash, question).await, ["/b.eml", &beside]);
    let url = format!("sqlite://{}", path.display());
    assert_eq!(names(url, question).await, ["/b.eml", "a.eml"]);
    let question = "select path from mail where mail match 'nearest'";
    assert_eq!(names(&*path, question).await, ["s3://m/c"]);
}

#[tokio::test]
async fn sizes_and_names_that_are_bytes_are_taken_from_the_row() {
    let (_folder, path) = sqlite(
        "create table t (name, size); insert into t values (x'2fff', 7), ('/b', -1), ('/c', 'x'),
            ('/d', null), ('/e', 0)",
    )
    .await;
    let entries = answer(&*path, "select name, 1 as other, size from t").await;
    let found: Vec<_> = entries.iter().map(|entry| entry.as_ref().unwrap()).collect();
    assert_eq!(found[0].name.as_bytes(), b"/\xff");
    assert_eq!(
        found.iter().map(|entry| entry.size_said).collect::<Vec<_>>(),
        [Some(7), None, None, None, None]
    );
}

#[tokio::test]
async fn a_first_column_that_is_no_name_is_refused() {
    let (_folder, path) = sqlite("create table t (n)").await;
    let told = names(&*path, "select 1").await;
    assert!(told.len() == 1 && told[0].contains("is INTEGER"), "{told:?}");
}

#[tokio::test]
async fn a_row_without_a_name_is_an_error_among_names() {
    let (_folder, path) = sqlite(
        "create table t (n); insert into t values (1), ('/a'), (2.5), (x'2f62'), (3), ('/c')",
    )
    .await;
    let told = names(&*path, "select n from t").await;
    let (errors, named): (Vec<_>, Vec<_>) =
        told.iter().partition(|item| item.starts_with("error: "));
    assert_eq!(named, ["/a", "/b", "/c"]);
    let kinds: Vec<_> = ["is INTEGER", "is REAL"]
        .map(|kind| errors.iter().filter(|error| error.contains(kind)).count())
        .into();
    assert_eq!(kinds, [2, 1]);
    let numbers = "with recursive n(i) as (select 0 union all select i + 1 from n)
                   select i from n";
    assert_eq!(answer(&*path, numbers).await.len(), 100);
    let late = "with recursive n(i) as (select 0 union all select i + 1 from n limit 300)
                select iif(i = 9, '/n', i) from n";
    assert_eq!(answer(&*path, late).await.len(), 300);
}

#[tokio::test]
async fn nothing_is_written() {
    let (_folder, path) = sqlite("create table t (n); insert into t values ('/a')").await;
    let tried = [
        "insert into t values ('/b') returning n",
        "delete from t returning n",
        "pragma query_only = off; insert into t values ('/c') returning n",
        "vacuum into 'other.db'",
    ];
    for text in tried {
        let told = names(&*path, text).await;
        assert!(told.len() == 1 && told[0].contains("read-only"), "{text}: {told:?}");
    }
    let told = names(&*path, "select 'a'; pragma query_only = off").await;
    assert!(told.len() == 1 && told[0].contains("one query"), "{told:?}");
    let told = names(&*path, "with x as (select 1) insert into t select * from x").await;
    assert!(told.len() == 1 && told[0].contains("readonly"), "{told:?}");
    assert_eq!(names(&*path, "select n from t").await, ["/a"]);
}

#[tokio::test]
async fn what_is_wrong_with_a_query_is_what_the_database_says() {
    let (_folder, path) = sqlite("create table t (n)").await;
    let answer = answer(&*path, "select path from nowhere").await;
    let [Err(error @ Error::Refused { .. })] = &*answer else { panic!("{answer:?}") };
    assert_eq!(error.reason(), "no such table: nowhere");
    let cause = error.source().and_then(|cause| cause.downcast_ref::<sqlx::Error>());
    assert!(cause.is_some_and(|cause| cause.as_database_error().is_some()), "{error:?}");
}

/// A database in WAL mode that holds `/a`, and who has it open.
async fn in_wal_mode() -> (TempDir, std::path::PathBuf, SqliteConnection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mail.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal);
    let mut connection = options.connect().await.unwrap();
    let statements = "create table t (n); insert into t values ('/a')";
    raw_sql(statements).execute(&mut connection).await.unwrap();
    (folder, path, connection)
}

fn files(folder: &TempDir) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[tokio::test]
async fn reading_leaves_nothing_beside_a_database_that_nobody_has_open() {
    let (folder, path, connection) = in_wal_mode().await;
    assert_eq!(names(&*path, "select n from t").await, ["/a"], "what is not in the file yet");
    assert_eq!(files(&folder).len(), 3);
    let failed = names(&*path, "select n from t union all select abs(-9223372036854775808)").await;
    assert!(failed.last().unwrap().contains("overflow"), "{failed:?}");
    // Who was there last would have taken these along: only who may write does.
    connection.close().await.unwrap();
    assert_eq!(files(&folder), ["mail.db"]);
    assert_eq!(names(&*path, "select n from t").await, ["/a"]);
    assert_eq!(files(&folder), ["mail.db"]);
    std::fs::write(folder.path().join("mail.db-wal"), "").unwrap();
    assert_eq!(names(&*path, "select n from t").await, ["/a"]);
    assert_eq!(files(&folder).len(), 2);
}

#[tokio::test]
async fn a_writer_who_comes_while_a_database_is_read_is_noticed() {
    let (_folder, path, connection) = in_wal_mode().await;
    connection.close().await.unwrap();
    // The clock of files may not have gone on since.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let text = "with recursive n(i) as (select 0 union all select i + 1 from n limit 1000)
                select '/' || i from n";
    let query = Query::Ask { prefix: Name::from(&*path), text: text.to_owned() };
    let stores = stores(ANSWER_MAX);
    let mut rows = stores.list(&query);
    assert!(rows.next().await.unwrap().is_ok());
    write(&path).await;
    let rest: Vec<_> = rows.collect().await;
    let Some((Err(error @ Error::Changed { .. }), rows)) = rest.split_last() else {
        panic!("{rest:?}")
    };
    assert_eq!((error.name(), rows.len()), (Name::from(&*path), 999));
}

#[tokio::test]
async fn a_database_in_a_folder_that_may_not_be_written_is_read_or_told_why_not() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("squashfs"),
        Facility::Tool("mksquashfs")
    );
    let (folder, _, connection) = in_wal_mode().await;
    let asked = async |folder: &TempDir| {
        let disk = LoopDisk::squashfs(folder.path());
        names(&*disk.path().join("mail.db"), "select n from t").await
    };
    std::fs::rename(folder.path().join("mail.db-shm"), folder.path().join("shm")).unwrap();
    let told = asked(&folder).await;
    assert!(told.len() == 1 && told[0].contains("(-wal)"), "{told:?}");
    std::fs::rename(folder.path().join("shm"), folder.path().join("mail.db-shm")).unwrap();
    connection.close().await.unwrap();
    assert_eq!(asked(&folder).await, ["/a"]);
}

/// Succeeds when nobody reads the database any more, or fails after a minute.
async fn write(path: &Path) {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(ANSWER_MAX);
    let mut connection = options.connect().await.unwrap();
    raw_sql("insert into t values ('/written')").execute(&mut connection).await.unwrap();
}

#[tokio::test]
async fn rows_come_before_the_answer_ends_and_dropping_it_ends_the_query() {
    let (_folder, path) = sqlite("create table t (n); insert into t values (1)").await;
    let endless = "with recursive n(i) as (select 0 union all select i + 1 from n) \
                   select '/' || i from n, t";
    let query = Query::Ask { prefix: Name::from(&*path), text: endless.to_owned() };
    let stores = stores(ANSWER_MAX);
    let first: Vec<_> = stores.list(&query).take(1000).collect().await;
    assert_eq!(first[999].as_ref().unwrap().name, Name::from("/999"));
    write(&path).await;
}

#[tokio::test]
async fn a_query_that_finds_no_further_row_is_given_up() {
    let (_folder, path) = sqlite("create table t (n)").await;
    let never = "with recursive c (i) as (select 0 union all select i + 1 from c)
                 select '/' || i from c where i = 0 or i < 0";
    let query = Query::Ask { prefix: Name::from(&*path), text: never.to_owned() };
    let stores = stores(Duration::from_secs(2));
    let told: Vec<_> = stores.list(&query).collect().await;
    let [Ok(first), Err(error @ Error::Interrupted { .. })] = &*told else { panic!("{told:?}") };
    assert_eq!(first.name, Name::from("/0"));
    assert!(error.reason().starts_with("no further row after 2 s"), "{error}");
}

#[tokio::test]
async fn a_query_without_a_first_row_is_given_up_and_ended() {
    let (_folder, path) = sqlite("create table t (n); insert into t values (1)").await;
    let busy = "with recursive n(i) as (select 0 union all select i + 1 from n) \
                select '/' || i from n, t where i < 0";
    let query = Query::Ask { prefix: Name::from(&*path), text: busy.to_owned() };
    let stores = stores(Duration::from_millis(50));
    let answer: Vec<_> = stores.list(&query).collect().await;
    assert!(matches!(&*answer, [Err(Error::Interrupted { .. })]), "{answer:?}");
    write(&path).await;
}

#[tokio::test]
async fn what_is_no_database_answers_no_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "SQLite format 2").unwrap();
    let told = names(&*path, "select 1").await;
    assert!(told[0].contains("none is bound"), "{told:?}");
    let url = format!("sqlite:{}/missing.db", folder.path().display());
    let told = names(url, "select 1").await;
    assert!(told[0].contains("missing.db: No such file"), "{told:?}");
    assert!(!Path::new(&folder.path().join("missing.db")).exists());
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    for none in [fifo.as_path(), folder.path()] {
        let told = names(format!("sqlite:{}", none.display()), "select 1").await;
        assert!(told[0].contains("not a regular file"), "{told:?}");
    }
    let told = stores(ANSWER_MAX).of(&Name::from("postgres://u:secret@h/db")).unwrap_err();
    let Error::Unsupported { reason, .. } = told else { panic!("{told}") };
    assert!(reason.ends_with("after its URL: postgres://u@h/db\\select name from t\\"), "{reason}");
}

/// What any server is asked, after table `t` was filled.
async fn server(url: &str, other_type: &str) {
    assert_eq!(names(url, "select name from t order by name").await, ["/a", "b c", "s3://b/k"]);
    let entries = answer(url, "select name, size from t where name = '/a'").await;
    assert_eq!(entries[0].as_ref().unwrap().size_said, Some(7));
    let told = names(url, "select size from t").await;
    assert!(told[0].contains(other_type), "{told:?}");
    for text in
        ["insert into t values ('/x', 1)", "drop table t", "call writes()", "select writes()"]
    {
        let told = names(url, text).await;
        let is_refused = told[0].to_lowercase().contains("read-only")
            || told[0].to_lowercase().contains("read only");
        assert!(is_refused, "{text}: {told:?}");
    }
    let two = names(url, "commit; insert into t values ('/x', 1)").await;
    assert!(two[0].starts_with("error: "), "{two:?}");
    assert_eq!(names(url, "select name from t").await.len(), 3);
    let wrong = answer(url, "select name from nowhere").await;
    let [Err(error @ Error::Refused { .. })] = &*wrong else { panic!("{wrong:?}") };
    assert!(error.reason().contains("nowhere"), "{error}");
}

/// A user that the server does not know, with a password that nobody is shown.
async fn stranger(url: &str, user: &str) {
    let url = url.replacen(user, "stranger:secret@", 1);
    let answer = answer(&*url, "select 'x'").await;
    let [Err(error @ Error::Denied { .. })] = &*answer else { panic!("{answer:?}") };
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn postgres_answers_and_nothing_is_written() {
    testkit::skip_unless!(Postgres::NEEDS);
    let postgres = Postgres::new();
    postgres.execute(
        "create table t (name text, size int);
         insert into t values ('/a', 7), ('b c', null), ('s3://b/k', 1), (null, 2)",
    );
    postgres.execute(
        "create function writes() returns text language sql as
         $$insert into t values ('/f', 1) returning name$$",
    );
    server(&postgres.url(), "INT4").await;
    let told = names(postgres.url(), "copy (select 1) to program 'true'").await;
    assert!(told[0].contains("read-only"), "{told:?}");
    stranger(&postgres.url(), "postgres@").await;
    assert_eq!(names(postgres.url(), "select '\\x2f61'::bytea").await, ["/a"]);
    assert_eq!(names(postgres.url(), "select '/v'::varchar(9)").await, ["/v"]);
    postgres.execute(
        "create type state as enum ('new', 'old'); create type pair as (a state, b text);
         create domain place as text;
         create table photos (path place, state state, states state[], pair pair);
         insert into photos values ('/p', 'new', '{old}', '(old,x)')",
    );
    for text in [
        "select path, state from photos",
        "select path, pair, states from photos",
        "select '/p', array[pair] from photos",
    ] {
        assert_eq!(names(postgres.url(), text).await, ["/p"], "{text}");
    }
    assert_eq!(names(postgres.url(), "select state from photos").await, ["new"]);
    let told = names(postgres.url(), "select pair from photos").await;
    assert!(told[0].contains("is pair"), "{told:?}");
    let cut = "select path, pg_terminate_backend(pg_backend_pid()) from photos";
    let told = answer(postgres.url(), cut).await;
    assert!(matches!(&told[..], [Ok(_), Err(Error::Interrupted { .. })]), "{told:?}");
    let known = "select count(*) from pg_available_extensions where name = 'citext'";
    if postgres.execute(known).trim() == "1" {
        postgres.execute("create extension citext");
        assert_eq!(names(postgres.url(), "select '/c'::citext").await, ["/c"]);
    }
    let many = "select '/' || i from generate_series(1, 1000000) i";
    let query = Query::Ask { prefix: Name::from(postgres.url()), text: many.to_owned() };
    let stores = stores(ANSWER_MAX);
    assert_eq!(stores.list(&query).take(10).count().await, 10);
}

#[tokio::test]
async fn mariadb_answers_and_nothing_is_written() {
    testkit::skip_unless!(MariaDb::NEEDS);
    let mariadb = MariaDb::new();
    mariadb.execute(
        "create table t (name varchar(99), size int unsigned) engine innodb;
         insert into t values ('/a', 7), ('b c', null), ('s3://b/k', 1), (null, 2)",
    );
    mariadb.execute(
        "delimiter //
         create function writes() returns text
         begin insert into t values ('/f', 1); return 'f'; end//
         create procedure writes()
         begin commit; set session transaction read write; insert into t values ('/p', 1); end//",
    );
    server(&mariadb.url(), "INT UNSIGNED").await;
    let told = names(mariadb.url(), "select 'x' into outfile '/tmp/x'").await;
    assert!(told[0].contains("read-only"), "{told:?}");
    stranger(&mariadb.url(), "test@").await;
    let url = mariadb.url().replacen("mysql", "mariadb", 1);
    assert_eq!(names(url, "select cast('/b' as binary)").await, ["/b"]);
    assert_eq!(names(mariadb.url(), "select repeat('/t', 2)").await, ["/t/t"]);
}

#[tokio::test]
async fn a_server_that_is_not_there_may_be_asked_again() {
    for scheme in ["postgres", "mysql"] {
        // A port that nothing but root may listen to, and nothing does.
        let url = format!("{scheme}://u:secret@127.0.0.1:1/db");
        let answer = answer(&*url, "select 'x'").await;
        let [Err(error @ Error::Interrupted { .. })] = &*answer else { panic!("{answer:?}") };
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        let device = Sql::new(costs(), ANSWER_MAX).device(&Name::from(&*url));
        assert_eq!(device.to_string(), "sql:127.0.0.1:1");
    }
}

/// A server of `PostgreSQL` that turns everybody away, by these codes in turn.
fn turning_away<const N: usize>(codes: [&'static str; N]) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        for code in codes {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut startup).unwrap();
            let text = format!("SFATAL\0VFATAL\0C{code}\0Mgo away: {code}\0\0");
            let length = u32::try_from(text.len() + 4).unwrap().to_be_bytes();
            stream.write_all(&[b"E", &length[..], text.as_bytes()].concat()).unwrap();
        }
    });
    (format!("postgres://me@{address}/db?sslmode=disable"), serving)
}

#[tokio::test]
async fn a_server_that_has_no_place_for_a_connection_is_asked_again() {
    // Too many connections, starting up, and a user that it does not let in.
    let (url, serving) = turning_away(["53300", "57P03", "28000"]);
    let answer = answer(&*url, "select 'x'").await;
    let [Err(Error::Denied { reason, .. })] = &*answer else { panic!("{answer:?}") };
    assert_eq!(reason, "go away: 28000");
    serving.join().unwrap();
}

#[tokio::test]
async fn a_file_on_a_dead_mount_is_not_waited_for_to_find_whether_it_is_a_database() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let file = slow.create("mail.db", "SQLite format 3\0");
    slow.mount().set_rules(vec!["*: hang=true".parse().unwrap()]);
    let local = Local::new(Duration::from_millis(50));
    let costs = Costs::with(local, TableFiles::default(), Clock::manual());
    let stores = Stores::new(Arc::new(costs), &StoresOptions::default());
    let url = format!("sqlite://{}", file.display());
    for prefix in [Name::from(&*file), Name::from(url)] {
        let answer = answer_of(&stores, prefix, "select path from mail").await;
        assert!(matches!(&*answer, [Err(Error::Stalled { .. })]), "{answer:?}");
    }
    slow.mount().set_rules(Vec::new());
}

/// What a server works at for hours, without looking whether somebody listens.
const BUSY: &str = "select concat('/', benchmark(1000000000000, md5('x')))";

fn is_busy(mariadb: &MariaDb) -> bool {
    let count = "select count(*) from information_schema.processlist \
                 where info like '%benchmark%' and id <> connection_id()";
    mariadb.execute(count).trim() != "0"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_nobody_listens_to_ends_at_its_server() {
    testkit::skip_unless!(MariaDb::NEEDS);
    let mariadb = MariaDb::new();
    let query = Query::Ask { prefix: Name::from(mariadb.url()), text: BUSY.to_owned() };
    let late: Vec<_> = stores(Duration::from_secs(2)).list(&query).collect().await;
    let [Err(error @ Error::Interrupted { .. })] = &*late else { panic!("{late:?}") };
    assert!(error.reason().starts_with("no row after 2 s, the limit"), "{error}");
    until("it is given up", || !is_busy(&mariadb));

    let stores = stores(ANSWER_MAX);
    let begun = || {
        let listing = tokio::spawn(stores.list(&query).collect::<Vec<_>>());
        until("it is under way", || is_busy(&mariadb));
        listing
    };
    begun().abort();
    until("it is dropped", || !is_busy(&mariadb));
    let listing = begun();
    stores.end_listings();
    until("all are ended", || !is_busy(&mariadb));
    listing.abort();
}
