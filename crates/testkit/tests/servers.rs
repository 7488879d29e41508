//! Every server starts, serves what was put there, and is gone when it is dropped.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use testkit::server::{
    Answer, Link, MariaDb, Misbehaving, Moto, Nginx, Postgres, S3, Sftp, WebDav, http,
};
use testkit::{Dir, cmd, noise, skip_unless, until};

#[track_caller]
fn is_gone(address: SocketAddr) {
    let error = TcpStream::connect(address).expect_err("nobody listens there");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// A signed GET, by a client that is not ours.
fn signed(endpoint: &str, target: &str, args: &[&str]) -> String {
    let user = format!("{}:{}", S3::ACCESS_KEY, S3::SECRET_KEY);
    let provider = format!("aws:amz:{}:s3", S3::REGION);
    let url = format!("{endpoint}{target}");
    let signing = ["-sS", "--aws-sigv4", &provider, "--user", &user];
    let plain = ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", &url];
    cmd("curl", [&signing[..], &plain, args].concat()).run().succeeds().text()
}

#[test]
fn s3_serves_objects_and_ranges_to_who_signs() {
    skip_unless!(S3::NEEDS, testkit::Facility::Tool("curl"));
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a/1.txt", "first text");
    s3.put("bucket/b.txt", "second");
    let address = s3.address();
    assert_eq!(signed(&s3.endpoint(), "/bucket/a/1.txt", &[]), "first text");
    assert_eq!(signed(&s3.endpoint(), "/bucket/a/1.txt", &["-r", "6-9"]), "text");
    let listing = signed(&s3.endpoint(), "/bucket?list-type=2", &[]);
    for part in ["<Key>a/1.txt</Key><Size>10</Size>", "<Key>b.txt</Key><Size>6</Size>"] {
        assert!(listing.contains(part), "{listing}");
    }
    let etag = || {
        let head = signed(&s3.endpoint(), "/bucket/b.txt", &["-I"]);
        let line = head.lines().find(|line| line.starts_with("ETag:"));
        line.expect("an ETag").to_owned()
    };
    let before = etag();
    assert_eq!(before, etag());
    s3.put("bucket/b.txt", "2econd");
    assert_ne!(before, etag());
    s3.remove("bucket/b.txt");
    assert!(signed(&s3.endpoint(), "/bucket/b.txt", &[]).contains("NoSuchKey"));
    assert_eq!(http::get(address, "/bucket/a/1.txt", &[]).unwrap().status, 403);
    drop(s3);
    is_gone(address);
}

#[test]
fn nginx_serves_files_ranges_and_etags_and_less_when_told() {
    skip_unless!(Nginx::NEEDS);
    let nginx = Nginx::new();
    nginx.put("a/1.txt", "first text");
    let address = nginx.address();
    let whole = http::get(address, "/a/1.txt", &[]).unwrap();
    assert_eq!((whole.status, whole.text().as_str()), (200, "first text"));
    let etag = whole.header("ETag").expect("an ETag").to_owned();
    let part =
        http::get(address, "/a/1.txt", &[("Range", "bytes=6-9"), ("If-Match", &etag)]).unwrap();
    assert_eq!((part.status, part.text().as_str()), (206, "text"));
    assert!(http::get(address, "/a/", &[]).unwrap().text().contains("href=\"1.txt\""));
    assert_eq!(nginx.requests()[..2], ["GET /a/1.txt 200 10", "GET /a/1.txt 206 4"]);
    let poor = Nginx::with("max_ranges 0; etag off; location /busy { return 429; }");
    poor.put("1.txt", "first text");
    let whole = http::get(poor.address(), "/1.txt", &[("Range", "bytes=6-9")]).unwrap();
    assert_eq!((whole.status, whole.header("ETag")), (200, None));
    assert_eq!(http::get(poor.address(), "/busy", &[]).unwrap().status, 429);
    drop(nginx);
    is_gone(address);
}

#[test]
fn signatures_hold_through_a_proxy_that_delays() {
    skip_unless!(S3::NEEDS, testkit::Facility::Tool("curl"));
    let s3 = S3::new();
    s3.create_bucket("bucket");
    s3.put("bucket/a", noise(300_000, 1));
    let proxy = Misbehaving::in_front_of(s3.address(), Link::default());
    proxy.nth(2, Answer::status(503).header("Retry-After", "1"));
    let get = |args: &[&str]| signed(&proxy.endpoint(), "/bucket/a", args);
    let size = ["-o", "/dev/null", "-w", "%{http_code} %{size_download}"];
    assert_eq!(get(&size), "200 300000");
    assert_eq!(get(&size), "503 4");
    // More than 1 MiB, so that curl waits to be asked for it.
    let dir = Dir::new();
    let file = dir.create("new", noise(2_000_000, 2));
    let put = ["-T", file.to_str().unwrap(), "-w", "%{http_code}"];
    assert_eq!(get(&put), "200");
    assert!(std::fs::read(s3.root().join("bucket/a")).unwrap() == noise(2_000_000, 2));
    assert_eq!((proxy.total().requests, proxy.counts("/bucket/a").bytes), (3, 300_004));
}

#[test]
fn postgres_runs_statements() {
    skip_unless!(Postgres::NEEDS);
    let postgres = Postgres::new();
    postgres.execute("create table names (name text); insert into names values ('a'), ('b\u{e9}')");
    assert_eq!(postgres.execute("select name, length(name) from names"), "a|1\nb\u{e9}|2\n");
    let address = postgres.address();
    assert_eq!(postgres.url(), format!("postgres://postgres@{address}/postgres"));
    drop(postgres);
    is_gone(address);
}

#[test]
fn mariadb_runs_statements() {
    skip_unless!(MariaDb::NEEDS);
    let mariadb = MariaDb::new();
    mariadb.execute("create table names (name text); insert into names values ('a'), ('b\u{e9}')");
    let rows = mariadb.execute("select name, char_length(name) from names");
    assert_eq!(rows, "a\t1\nb\u{e9}\t2\n");
    let address = mariadb.address();
    drop(mariadb);
    is_gone(address);
}

#[test]
fn sftp_lets_in_its_key() {
    skip_unless!(Sftp::NEEDS);
    let sftp = Sftp::new();
    let path = sftp.put("a/1.txt", "first text");
    let dir = Dir::new();
    let config = sftp.config();
    let config = config.to_str().unwrap();
    let batch = format!("get a/1.txt relative\nget {} absolute\n", path.display());
    let get = cmd("sftp", ["-F", config, "-b", "-", Sftp::HOST]).dir(&dir).stdin(batch);
    get.run().succeeds();
    for name in ["relative", "absolute"] {
        assert_eq!(std::fs::read(dir.join(name)).unwrap(), b"first text");
    }
    let who = cmd("ssh", ["-F", config, Sftp::HOST, "id", "-un"]).run();
    who.succeeds().prints(sftp.user() + "\n");
    let address = sftp.address();
    drop(sftp);
    is_gone(address);
}

#[test]
fn webdav_lists_and_serves_ranges() {
    skip_unless!(WebDav::NEEDS);
    let webdav = WebDav::new();
    webdav.put("a/1.txt", "first text");
    let address = webdav.address();
    let list = http::request(address, "PROPFIND", "/a", &[("Depth", "1")], &[]).unwrap();
    assert_eq!(list.status, 207);
    assert!(list.text().contains("/a/1.txt</"), "{}", list.text());
    let part = http::get(address, "/a/1.txt", &[("Range", "bytes=6-9")]).unwrap();
    assert_eq!((part.status, part.text().as_str()), (206, "text"));
    assert!(part.header("ETag").is_some());
    drop(webdav);
    is_gone(address);
}

#[test]
fn moto_refuses_what_is_archived_until_it_is_restored() {
    skip_unless!(Moto::NEEDS);
    let moto = Moto::new();
    moto.create_bucket("bucket");
    moto.put("bucket/near", "near", "STANDARD");
    moto.put("bucket/far", "far", "GLACIER");
    assert_eq!(moto.ask("GET", "/bucket/near", &[], &[]).text(), "near");
    let refused = moto.try_ask("GET", "/bucket/far", &[], &[]);
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("InvalidObjectState"), "{}", refused.text());
    moto.restore_takes(2);
    let days = b"<RestoreRequest><Days>1</Days></RestoreRequest>";
    assert_eq!(moto.ask("POST", "/bucket/far?restore", &[], days).status, 202);
    let state = || {
        let head = moto.ask("HEAD", "/bucket/far", &[], &[]);
        assert_eq!(head.header("x-amz-storage-class"), Some("GLACIER"));
        head.header("x-amz-restore").expect("it is asked for").to_owned()
    };
    assert_eq!(state(), "ongoing-request=\"true\"");
    assert!(state().starts_with("ongoing-request=\"false\""));
    assert_eq!(moto.ask("GET", "/bucket/far", &[], &[]).text(), "far");
    let address = moto.address();
    drop(moto);
    is_gone(address);
}

/// Set in the process that this test kills.
const CRASHES: &str = "NEARFIRST_TEST_CRASHES";

#[test]
fn servers_outlive_the_thread_that_started_them_and_not_the_process() {
    skip_unless!(Nginx::NEEDS, Postgres::NEEDS);
    if std::env::var_os(CRASHES).is_some() {
        let start = || (Nginx::new(), Postgres::new());
        let (nginx, postgres) = std::thread::spawn(start).join().unwrap();
        assert_eq!(http::get(nginx.address(), "/none", &[]).unwrap().status, 404);
        assert_eq!(postgres.execute("select 1"), "1\n");
        println!("\nlistening: {} {}", nginx.address(), postgres.address());
        std::process::abort();
    }
    let this = std::env::current_exe().unwrap();
    let name = "servers_outlive_the_thread_that_started_them_and_not_the_process";
    // What a crash leaves behind goes with this; servers of other users must get through it.
    let dir = Dir::new();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let crash = cmd(this, ["--exact", name, "--nocapture"]).env(CRASHES, "1").env("TMPDIR", &dir);
    let output = crash.run();
    assert_eq!(output.code(), 128 + 6, "{}", output.stderr());
    let text = output.text();
    let addresses = text.lines().find_map(|line| line.strip_prefix("listening: "));
    let addresses: Vec<SocketAddr> =
        addresses.expect("it started").split(' ').map(|address| address.parse().unwrap()).collect();
    assert_eq!(addresses.len(), 2);
    for address in addresses {
        until("the server ends", || TcpStream::connect(address).is_err());
    }
}
