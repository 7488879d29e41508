//! The commands over objects of servers, through the built program: good days and bad ones.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ground;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use ground::{Ground, objects, stderr, stdout};
use testkit::server::{Answer, Misbehaving, Nginx, S3};
use testkit::{Facility, SlowDir, skip_unless, until};

/// A server of three compressed logs and a larger object.
struct Logs {
    ground: Ground,
    s3: S3,
    large: Vec<u8>,
}

impl Logs {
    fn new() -> Self {
        let s3 = S3::new();
        s3.create_bucket("logs");
        for (day, lines) in
            [("01", "ERROR one\nfine\n"), ("02", "fine\n"), ("03", "ERROR a\nERROR b\n")]
        {
            s3.put(&format!("logs/2026/{day}.gz"), gzipped(lines));
        }
        let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        s3.put("logs/large/numbers.bin", &large);
        Self { ground: Ground::new(), s3, large }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.ground.command(args);
        command.envs(self.s3.env());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn gzipped(text: &str) -> Vec<u8> {
    let mut gzip = Command::new("gzip");
    let mut child = gzip.arg("-n").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap().stdout
}

#[test]
fn compressed_logs_of_a_bucket_are_searched_in_the_order_of_their_listing() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let output = logs.run(&["grep", "-z", "-c", "ERROR", "s3://logs/2026/**/*.gz"]);
    let expected = "s3://logs/2026/01.gz:1\ns3://logs/2026/03.gz:2\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    assert!(output.status.success());
    let output = logs.run(&["grep", "-z", "-n", "ERROR", "s3://logs/2026/03.gz"]);
    assert_eq!(stdout(&output), "1:ERROR a\n2:ERROR b\n");
    let output = logs.run(&["grep", "-z", "nothing", "s3://logs/2026/*.gz"]);
    assert_eq!(output.status.code(), Some(1));
    let output =
        logs.run(&["grep", "-z", "-l", "ERROR", "s3://logs/none.gz", "s3://logs/2026/01.gz"]);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(2), "s3://logs/2026/01.gz\n")
    );
    assert_eq!(stderr(&output), "nearfirst grep: s3://logs/none.gz: not found\n");
    let all = "s3://logs/2026/01.gz\ns3://logs/2026/02.gz\ns3://logs/2026/03.gz\n";
    for (filter, pattern) in [("-g!large", "s3://logs/**"), ("-g!2026", "s3://logs/2026/*")] {
        assert_eq!(stdout(&logs.run(&["grep", "--files", filter, pattern])), all, "{filter}");
    }
    let output = logs.run(&["grep", "--files", "s3://logs/2026/*"]);
    assert_eq!(stdout(&output).lines().count(), 3);
    let output = logs.run(&["ls", "s3://logs/2026/{03..02}.gz"]);
    assert_eq!(stdout(&output), "s3://logs/2026/03.gz\ns3://logs/2026/02.gz\n");
    for folder in ["s3://logs/2026", "s3://logs/2026/"] {
        for command in ["cat", "ls", "sleds", "order"] {
            let output = logs.run(&[command, folder]);
            let expected = "not found; if it is a folder, what is below it is s3://logs/2026/**";
            assert_eq!(stderr(&output), format!("nearfirst {command}: {folder}: {expected}\n"));
        }
    }
}

#[test]
fn objects_are_counted_and_their_sizes_asked_for_without_reading() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    logs.s3.put("logs/t/a.txt", "one two\nthree\n");
    logs.ground.create("local.txt", "four\n");
    let output = logs.run(&["wc", "s3://logs/t/*.txt", "local.txt"]);
    let expected = "      2       3      14 s3://logs/t/a.txt\n      1       1       5 local.txt\n      3       4      19 total\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    let proxy = Misbehaving::in_front_of(logs.s3.address(), testkit::server::Link::default());
    let mut command = logs.command(&["wc", "-c", "s3://logs/large/*"]);
    let output = command.envs(S3::env_at(&proxy.endpoint())).output().unwrap();
    assert_eq!(stdout(&output), format!("{:>7} s3://logs/large/numbers.bin\n", logs.large.len()));
    assert!(proxy.total().bytes < 100_000, "{:?}", proxy.total());
}

#[test]
fn many_sizes_are_asked_for_at_a_time_and_what_has_none_is_counted_in_its_turn() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let names = ["sized", "stream", "gone", "other"];
    let links = names.map(|name| format!("<a href=/{name}>{name}</a>"));
    server.answer("/page.html", Answer::html(&links.concat()));
    // Long enough to be met by the others.
    let delay = Duration::from_millis(500);
    server.answer("/sized", Answer::bytes("four").delayed(delay));
    // Made anew at each answer.
    let made = |etag: &str| Answer::bytes("seven..").chunked().etag(etag).delayed(delay);
    server.answers("/stream", ["\"1\"", "\"2\""].map(made));
    server.answer("/gone", Answer::status(404).delayed(delay));
    server.answer("/other", Answer::bytes("three").delayed(delay));
    let output = ground.run(&["wc", "-c", &server.url("/page.html\\a\\")]);
    let line = |count: u64, name: &str| format!("{count:>7} {}\n", server.url(name));
    let lines =
        [line(4, "/sized"), line(7, "/stream"), line(5, "/other"), "     16 total\n".into()];
    assert_eq!(stdout(&output), lines.concat(), "{}", stderr(&output));
    assert_eq!(stderr(&output), format!("nearfirst wc: '{}': not found\n", server.url("/gone")));
    assert!(server.total().concurrent_max >= 4, "{:?}", server.total());
    let is_read = |path: &str| {
        server.requests().iter().any(|asked| asked.method == "GET" && asked.target == path)
    };
    assert!(is_read("/stream") && !is_read("/sized") && !is_read("/other"));
}

#[test]
fn a_server_that_does_not_answer_is_asked_once_and_waited_for_as_long_as_a_mount() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    for path in ["/sleds", "/order", "/find"] {
        server.answer(path, Answer::bytes("late").delayed(Duration::from_mins(10)));
    }
    for (command, tests) in [("sleds", &[][..]), ("order", &[]), ("find", &["-size", "+1"])] {
        let url = server.url(&format!("/{command}"));
        let output = ground.run(&[&[command, "--wait-max=0.5", &url], tests].concat());
        assert_eq!(output.status.code(), Some(1), "{command}");
        let told = format!("nearfirst {command}: {url}: no answer for 0.5 s\n");
        assert_eq!(stderr(&output), told);
        assert_eq!(server.counts(&format!("/{command}")).requests, 1, "{command}");
    }
}

#[test]
fn results_ahead_of_their_turn_wait_on_disk_and_objects_are_preprocessed() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let (lines, spill) = ("a line of the text\n".repeat(200_000), logs.ground.path().join("spill"));
    fs::create_dir(&spill).unwrap();
    for name in ["b", "c", "d"] {
        logs.s3.put(&format!("logs/t/{name}.txt"), &lines);
    }
    let proxy = Misbehaving::in_front_of(logs.s3.address(), testkit::server::Link::default());
    // The first is there last, so that the others must wait for it.
    logs.s3.put("logs/t/a.txt", "the first line\n");
    proxy.answer("/logs/t/a.txt", Answer::forwarded().paced(10));
    let dir = spill.to_str().unwrap();
    let args = ["grep", "-I", "--jobs=4", "--budget=64K", "--spill", dir, "line", "s3://logs/t/*"];
    let mut command = logs.command(&args);
    command.envs(S3::env_at(&proxy.endpoint()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output) == ["the first line\n", &lines, &lines, &lines].concat());
    // Without room for results there, either, searches wait; where it can be seen that no file can be
    // there, that is said at once.
    let mut command = logs.command(&args.map(|word| if word == dir { "/proc" } else { word }));
    let output = command.envs(S3::env_at(&proxy.endpoint())).output().unwrap();
    let (said, found) = (stderr(&output), stdout(&output));
    let is_refused = said.contains("--spill /proc: Permission denied");
    let in_turn =
        output.status.success() && found == ["the first line\n", &lines, &lines, &lines].concat();
    assert!(is_refused || in_turn, "{said}");
    // So do those that need no order: the lines of two objects never mix.
    let unordered = args.map(|word| match word {
        "-I" => "--unordered",
        word if word == dir => "/proc",
        word => word,
    });
    let output = logs.command(&unordered).envs(S3::env_at(&proxy.endpoint())).output().unwrap();
    let (said, found) = (stderr(&output), stdout(&output));
    let is_refused = said.contains("--spill /proc: Permission denied");
    let mut names: Vec<_> = found.lines().filter_map(|line| line.rsplit_once(':')).collect();
    assert!(is_refused || names.len() == 600_001, "{}: {said}", names.len());
    names.dedup_by_key(|(name, _)| *name);
    assert!(is_refused || output.status.success() && names.len() == 4, "{names:?}: {said}");

    let script = logs.ground.create("pre", "#!/bin/sh\nbasename \"$1\"\nzcat \"$1\"\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    let pre = ["grep", "--pre=./pre", "-e", "ERROR", "-e", "gz$", "s3://logs/2026/*"];
    let output = logs.run(&pre);
    let expected = "s3://logs/2026/01.gz:01.gz\ns3://logs/2026/01.gz:ERROR one\n\
                    s3://logs/2026/02.gz:02.gz\ns3://logs/2026/03.gz:03.gz\n\
                    s3://logs/2026/03.gz:ERROR a\ns3://logs/2026/03.gz:ERROR b\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    let output = logs.run(&["grep", "--pre=./pre", "--pre-glob=*2.gz", "gz$", "s3://logs/2026/*"]);
    assert_eq!(stdout(&output), "s3://logs/2026/02.gz:02.gz\n", "{}", stderr(&output));
}

#[test]
fn what_is_named_twice_is_counted_twice_and_lists_may_name_objects() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    logs.s3.put("logs/t/a.txt", "one two\nthree\n");
    logs.s3.put("logs/t/b.txt", "four\n");
    logs.ground.create("local.txt", "five\n");
    let (a, b, all) = ("s3://logs/t/a.txt", "s3://logs/t/b.txt", "s3://logs/t/*.txt");
    let names = [a, "local.txt", all, b, b, "*.txt"];
    let counts = [(2, a), (1, "local.txt"), (2, a), (1, b), (1, b), (1, b)];
    let lines = |width: usize, counts: &[(u64, &str)]| {
        let lines = counts.iter().map(|(count, name)| format!("{count:>width$} {name}\n"));
        lines.collect::<String>()
    };
    let operands = [counts.as_slice(), &[(1, "local.txt"), (9, "total")]].concat();
    let output = logs.run(&[["wc", "-l"].as_slice(), &names].concat());
    assert_eq!(stdout(&output), lines(7, &operands), "{}", stderr(&output));
    let sizes = logs.run(&["wc", "-c", a, a]);
    assert_eq!(stdout(&sizes), lines(7, &[(14, a), (14, a), (28, "total")]));

    // In a list, the name of a file is one, whatever it looks like.
    let list = names.join("\0");
    logs.ground.create("list", &list);
    let missing = "nearfirst wc: '*.txt': No such file or directory\n";
    let listed = [counts.as_slice(), &[(8, "total")]].concat();
    let output = logs.run(&["wc", "-l", "--files0-from=list"]);
    assert_eq!((stdout(&output), stderr(&output)), (lines(7, &listed), missing.to_owned()));
    let mut command = logs.command(&["wc", "-l", "--files0-from=-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), lines(1, &listed));
}

#[test]
fn objects_are_found_listed_and_ordered_by_what_is_known_of_them() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let output = logs.run(&["find", "s3://logs", "-size", "+1M", "-printf", "%s %P\\n"]);
    assert_eq!(stdout(&output), "12000000 large/numbers.bin\n", "{}", stderr(&output));
    let output = logs.run(&["find", "s3://logs/2026", "-name", "0[12]*", "-mtime", "-1"]);
    assert_eq!(stdout(&output), "s3://logs/2026/01.gz\ns3://logs/2026/02.gz\n");
    logs.s3.put("logs/2026/.state/.at", "x");
    let output = logs.run(&["find", "s3://logs/2026", "-name", ".*", "-printf", "%P\\n"]);
    assert_eq!(stdout(&output), ".state/.at\n", "{}", stderr(&output));
    let output = logs.run(&["find", "s3://logs", "-perm", "644"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("objects have no permissions"), "{}", stderr(&output));
    let output = logs.run(&["find", "s3://logs/none"]);
    assert_eq!(stderr(&output), "nearfirst find: s3://logs/none: not found\n");

    let [object] = &objects(&logs.run(&["sleds", "--json", "s3://logs/large/*"]))[..] else {
        panic!("one")
    };
    assert_eq!(object["far_bytes"], 12_000_000);
    assert_eq!(object["sleds"][0]["device"], "s3://logs");
    assert!(object["sleds"][0]["latency_s"].is_null(), "an unknown cost is said to be unknown");
    let order = ["order", "s3://logs/large/numbers.bin", "s3://logs/2026/02.gz"];
    assert_eq!(stdout(&logs.run(&order)), "s3://logs/2026/02.gz\ns3://logs/large/numbers.bin\n");
    let [object] = &objects(&logs.run(&["ls", "--json", "s3://logs/large/*"]))[..] else {
        panic!("one")
    };
    assert_eq!(object["bytes"], 12_000_000);
    assert!(object["version"].is_string());
}

#[test]
fn what_was_fetched_teaches_the_device_table() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let found = ["find", "s3://logs/2026", "-latency", "-1000"];
    assert_eq!(stdout(&logs.run(&found)), "");
    assert!(logs.run(&["cat", "s3://logs/2026/*"]).status.success());
    assert_eq!(stdout(&logs.run(&found)).lines().count(), 3);
}

#[test]
fn members_are_whole_and_in_order() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let output = logs.run(&["cat", "s3://logs/large/numbers.bin", "s3://logs/2026/02.gz"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let small = gzipped("fine\n");
    assert!(output.stdout == [logs.large.as_slice(), &small].concat());
    let output = logs.run(&["cat", "-z", "s3://logs/2026/*"]);
    assert_eq!(stdout(&output), "ERROR one\nfine\nfine\nERROR a\nERROR b\n");
    for folder in ["b", "c", "a"] {
        logs.s3.put(&format!("logs/{folder}/x"), folder);
    }
    assert_eq!(stdout(&logs.run(&["cat", "s3://logs/*/x"])), "abc");
    assert_eq!(stdout(&logs.run(&["cat", "s3://logs/{c,b}/*"])), "cb");
}

#[test]
fn each_gives_a_command_a_file_with_the_objects_own_name() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    logs.s3.put("logs/other/01.gz", gzipped("other\n"));
    let script = "basename \"$1\"; zcat \"$1\"; echo \"$1\" >> paths";
    let specs = ["s3://logs/2026/01.gz", "s3://logs/other/01.gz"];
    let args = ["each", "--ordered", specs[0], specs[1], "--", "sh", "-c", script, "sh", "{}"];
    let output = logs.run(&args);
    assert_eq!(stdout(&output), "01.gz\nERROR one\nfine\n01.gz\nother\n", "{}", stderr(&output));
    let paths = fs::read_to_string(logs.ground.path().join("paths")).unwrap();
    assert_eq!(paths.lines().count(), 2);
    for path in paths.lines() {
        assert!(!fs::exists(path).unwrap(), "{path} is left over");
    }
}

#[test]
fn a_copy_that_was_broken_off_goes_on_where_it_ended() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let proxy = Misbehaving::in_front_of(logs.s3.address(), testkit::server::Link::default());
    // Slow enough to be met in the middle.
    proxy.answer("/logs/large/numbers.bin", Answer::forwarded().paced(4_000_000));
    let args = ["cp", "s3://logs/large/*", "to"];
    let mut command = logs.command(&args);
    let child = command.envs(S3::env_at(&proxy.endpoint())).spawn().unwrap();
    let part = logs.ground.path().join("to/.numbers.bin.nearfirst-part");
    until("a part is here", || part.metadata().is_ok_and(|about| about.len() > 0));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    let kept = part.metadata().unwrap().len();
    let dest = logs.ground.path().join("to/numbers.bin");
    assert!(kept > 0 && !dest.exists());

    proxy.answer("/logs/large/numbers.bin", Answer::forwarded());
    proxy.reset_counts();
    let mut command = logs.command(&["cp", "--stats", "s3://logs/large/*", "to"]);
    let output = command.envs(S3::env_at(&proxy.endpoint())).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 gone on with"), "{}", stderr(&output));
    assert!(fs::read(&dest).unwrap() == logs.large);
    // The server's tags look like MD5 sums and are none: it is then read once more to be sure.
    let is_get = |request: &&testkit::server::Request| {
        request.method == "GET" && request.target.starts_with("/logs/large/")
    };
    let requests = proxy.requests();
    let gets = requests.iter().filter(is_get).map(|request| request.header("range").unwrap());
    let (first, gets) = (format!("bytes={kept}-"), gets.collect::<Vec<_>>());
    assert!(gets.iter().any(|range| range.starts_with(&first)), "{gets:?} after {kept} bytes");
    assert_eq!(fs::read_dir(logs.ground.path().join("to")).unwrap().count(), 1);
}

#[test]
fn what_is_here_of_a_copy_is_read_for_its_sum_once_the_rest_has_come() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let to = SlowDir::new(slowfs::Options::default());
    let (bytes, tag) = (testkit::noise(1 << 20, 1), "\"0123456789abcdef0123456789abcdef\"");
    server.answer("/logs/f", Answer::bytes(&bytes).etag(tag));
    let part = to.create(".f.nearfirst-part", &bytes[..bytes.len() / 2]);
    to.create(".f.nearfirst-version", tag);
    to.mount().set_rules(vec!["*-part: fail=1+".parse().unwrap()]);
    let mut command = ground.command(&["cp", "s3://logs/f"]);
    let output = command.arg(to.path()).envs(S3::env_at(&server.endpoint())).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    to.mount().set_rules(Vec::new());
    assert!(fs::read(part).unwrap() == bytes);
}

#[test]
fn what_is_here_of_a_copy_is_not_read_where_its_length_is_wrong() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let to = SlowDir::new(slowfs::Options::default());
    let (bytes, tag) = (testkit::noise(1 << 20, 1), "\"0123456789abcdef0123456789abcdef\"");
    server.answer("/logs/f", Answer::bytes(&bytes).etag(tag).paced(256 << 10));
    let part = to.create(".f.nearfirst-part", &bytes[..bytes.len() / 2]);
    to.create(".f.nearfirst-version", tag);
    to.mount().set_rules(vec!["*-part: fail=1+".parse().unwrap()]);
    let mut command = ground.command(&["cp", "s3://logs/f"]);
    command.arg(to.path()).envs(S3::env_at(&server.endpoint())).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let source = to.source().join(".f.nearfirst-part");
    until("the rest comes", || source.metadata().unwrap().len() > bytes.len() as u64 / 2);
    let longer = fs::OpenOptions::new().write(true).open(part).unwrap();
    longer.set_len(bytes.len() as u64 + 1).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("1048577 bytes came of 1048576"), "{}", stderr(&output));
    assert!(!source.exists());
}

#[test]
fn the_same_copy_again_is_no_error_for_what_is_done() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let to = logs.ground.path().join("to");
    let copied = |what: &str| logs.run(&["cp", "--stats", what, "to"]);
    assert!(copied("s3://logs/2026/*").status.success());
    fs::remove_file(to.join("02.gz")).unwrap();
    // Of a name nothing was listed.
    for (what, there) in
        [("s3://logs/2026/*", 2), ("s3://logs/2026/*", 3), ("s3://logs/2026/01.gz", 1)]
    {
        let output = copied(what);
        let told = format!("{there} already there, 0 left as they were");
        assert!(stderr(&output).contains(&told), "{what}: {}", stderr(&output));
        assert!(output.status.success(), "{what}");
    }
    assert_eq!(fs::read(to.join("02.gz")).unwrap(), gzipped("fine\n"));

    let modified = to.join("03.gz").metadata().unwrap().modified().unwrap();
    let make = |name: &str, bytes: &[u8], modified| {
        let file = fs::File::create(to.join(name)).unwrap();
        (&file).write_all(bytes).unwrap();
        file.set_modified(modified).unwrap();
    };
    make("02.gz", &gzipped("fine\n"), modified - Duration::from_secs(1000));
    make("03.gz", b"mine", modified);
    let output = copied("s3://logs/2026/*");
    assert_eq!(output.status.code(), Some(1));
    for said in ["02.gz is there: --force", "03.gz is there: --force", "1 already there"] {
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    assert_eq!(fs::read(to.join("03.gz")).unwrap(), b"mine");
    let output = logs.run(&["cp", "--stats", "--force", "s3://logs/2026/*", "to"]);
    assert!(stderr(&output).contains("0 already there"), "{}", stderr(&output));
    assert_eq!(fs::read(to.join("03.gz")).unwrap(), gzipped("ERROR a\nERROR b\n"));
}

#[test]
fn copies_are_checked_by_the_sums_that_the_server_keeps() {
    skip_unless!(S3::NEEDS, S3::SUMS_NEED);
    let logs = Logs::new();
    logs.s3.create_bucket("sums");
    let long = testkit::noise((5 << 20) + 1000, 3);
    let (part, rest) = long.split_at(5 << 20);
    for (key, algorithm) in
        [("short-crc32", "CRC32"), ("short-crc32c", "CRC32C"), ("short-crc64", "CRC64NVME")]
    {
        logs.s3.put_with_sum(&format!("sums/{key}"), "some bytes", algorithm);
    }
    for (key, algorithm, kind) in [
        ("long-crc32", "CRC32", "FULL_OBJECT"),
        ("long-crc32-parts", "CRC32", "COMPOSITE"),
        ("long-sha1-parts", "SHA1", "COMPOSITE"),
        ("long-sha256-parts", "SHA256", "COMPOSITE"),
    ] {
        logs.s3.put_in_parts(&format!("sums/{key}"), &[part, rest], algorithm, kind);
    }
    let output = logs.run(&["cp", "--stats", "s3://sums/*", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("7 checked by their sums"), "{}", stderr(&output));

    for key in ["short-crc32c", "short-crc64", "long-crc32", "long-sha1-parts"] {
        let path = logs.s3.root().join("sums").join(key);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(b"S", 0).unwrap();
    }
    let output = logs.run(&["cp", "--stats", "s3://sums/*", "again"]);
    assert_eq!(output.status.code(), Some(1));
    for said in [
        "short-crc32c: what came is not what the store has the CRC-32C sum of; nothing was kept",
        "short-crc64: what came is not what the store has the CRC-64/NVME sum of; nothing was kept",
        "long-crc32: what came is not what the store has the CRC-32 sum of; nothing was kept",
        "long-sha1-parts: what came is not what the store has the SHA-1 sum of; nothing was kept",
    ] {
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    assert!(stderr(&output).contains("3 checked by their sums"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(logs.ground.path().join("again")).unwrap().count(), 3);
}

#[test]
fn a_small_budget_is_kept_by_who_reads_several_at_a_time() {
    let (server, ground) = (Misbehaving::new(), Ground::new());
    for number in 1..=4 {
        server.answer(&format!("/{number}"), Answer::bytes(testkit::noise(12 << 20, number)));
    }
    let names = server.url("/{1,2,3,4}");
    let args = ["each", "--budget=1M", "-j4", "--stats", &names, "--", "wc", "-c"];
    let output = ground.run(&args);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let ahead = said
        .lines()
        .find_map(|line| line.strip_prefix("nearfirst each: room for what was fetched ahead: "));
    let (most, unit) = ahead.and_then(|ahead| ahead.split_once(' ')).unwrap();
    let most: f64 = most.parse().unwrap();
    // Three fifths of it, and a piece each.
    assert!(unit.starts_with("KiB") || (unit.starts_with("MiB") && most < 2.2), "{said}");
}

#[test]
fn copies_are_checked_by_the_sums_of_google_and_azure() {
    let (server, ground) = (Misbehaving::new(), Ground::new());
    let options = ["gcs_endpoint", "azblob_endpoint"]
        .map(|name| format!("--storage-option={name}={}", server.endpoint()));
    let unsigned = ["gcs", "azblob"].map(|of| format!("--storage-option={of}_skip_signature=true"));
    let options: Vec<&str> = options.iter().chain(&unsigned).map(String::as_str).collect();
    let (google, azure) = ("/storage/v1/b/bucket/o/a?alt=media", "/box/b");
    let kept = |of: &str, sum: &str| Answer::bytes("123456789").etag("e1").header(of, sum);
    let listed = r#"{"items": [{"name": "a", "size": "9", "etag": "e1", "md5Hash": "",
        "updated": "2026-01-02T03:04:05.678Z", "contentType": "x"}]}"#;
    server.answer("/storage/v1/b/bucket/o", Answer::bytes(listed));
    server.answer(google, kept("x-goog-hash", "crc32c=4waSgw==,md5=JfnnlDI7RTiF9RgfG2JNCw=="));
    server.answer(azure, kept("x-ms-blob-content-md5", "JfnnlDI7RTiF9RgfG2JNCw=="));
    let cp = |to: &str| {
        let args = ["cp", "--stats", "gs://bucket/*", "az://box/b", to];
        ground.run(&[&args[..], &options].concat())
    };
    let output = cp("to");
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("2 checked by their sums, 0 could not be"), "{said}");
    server.answer(google, kept("x-goog-hash", "crc32c=4waSgg=="));
    server.answer(azure, kept("x-ms-blob-content-md5", "JfnnlDI7RTiF9RgfG2JNCg=="));
    let output = cp("again");
    assert_eq!(output.status.code(), Some(1));
    for said in [
        "gs://bucket/a: what came is not what the store has the CRC-32C sum of; nothing was kept",
        "az://box/b: what came is not what the store has the MD5 sum of; nothing was kept",
    ] {
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

#[test]
fn parts_of_several_lengths_are_asked_about_one_by_one() {
    skip_unless!(S3::NEEDS, S3::SUMS_NEED);
    let logs = Logs::new();
    logs.s3.create_bucket("sums");
    let bytes = testkit::noise(8 << 20, 5);
    let mib = |count: usize| &bytes[..count << 20];
    // The first and the last are what three parts of 6 MiB and one of 5 would leave.
    let like_even = [mib(6), mib(5), mib(7), mib(5)];
    logs.s3.put_in_parts("sums/like-even", &like_even, "CRC32", "COMPOSITE");
    logs.s3.put_in_parts("sums/uneven", &[mib(5), mib(7), mib(1)], "CRC32", "COMPOSITE");
    let output = logs.run(&["cp", "--stats", "s3://sums/*", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("2 checked by their sums, 0 could"), "{}", stderr(&output));
    assert!(fs::read(logs.ground.path().join("to/like-even")).unwrap() == like_even.concat());

    for key in ["like-even", "uneven"] {
        let path = logs.s3.root().join("sums").join(key);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(b"S", 0).unwrap();
    }
    let output = logs.run(&["cp", "--stats", "s3://sums/*", "again"]);
    assert_eq!(output.status.code(), Some(1));
    let said = "what came is not what the store has the CRC-32 sum of; nothing was kept";
    assert_eq!(stderr(&output).matches(said).count(), 2, "{}", stderr(&output));
}

#[test]
fn a_sum_that_the_server_does_not_tell_is_counted_and_one_that_it_cannot_is_an_error() {
    skip_unless!(S3::NEEDS, S3::SUMS_NEED);
    let logs = Logs::new();
    logs.s3.create_bucket("sums");
    logs.s3.put_in_parts("sums/a", &[b"some bytes"], "SHA1", "COMPOSITE");
    let proxy = Misbehaving::in_front_of(logs.s3.address(), testkit::server::Link::default());
    let copy = |dest: &str, code: i32| {
        let mut command = logs.command(&["cp", "--stats", "--attempts=2", "s3://sums/*", dest]);
        let output = command.envs(S3::env_at(&proxy.endpoint())).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        stderr(&output)
    };
    let busy = Answer::status(503);
    proxy.answers("/sums/a?partNumber=1", [busy.clone(), Answer::forwarded()]);
    let told = copy("to", 0);
    assert!(told.contains("1 checked by their sums, 0 could not be"), "{told}");
    proxy.answer("/sums/a?partNumber=1", Answer::status(403));
    let told = copy("again/", 0);
    assert!(told.contains("0 checked by their sums, 1 could not be"), "{told}");
    fs::remove_file(logs.ground.path().join("again/a")).unwrap();
    // That it keeps one, and which, is known another time.
    proxy.answer("/sums/a?partNumber=1", busy);
    let told = copy("again/", 1);
    assert!(told.contains("s3://sums/a: its sum cannot be asked for: "), "{told}");
    assert_eq!(fs::read_dir(logs.ground.path().join("again")).unwrap().count(), 0);
    proxy.answer("/sums/a?partNumber=1", Answer::forwarded());
    let told = copy("again/", 0);
    assert!(told.contains("1 checked by their sums, 0 could not be"), "{told}");
}

#[test]
fn parts_that_are_told_one_after_the_other_may_take_long() {
    skip_unless!(S3::NEEDS, S3::SUMS_NEED);
    let logs = Logs::new();
    logs.s3.create_bucket("sums");
    let bytes = testkit::noise(7 << 20, 5);
    let parts = [6, 5, 7, 5].map(|mib: usize| &bytes[..mib << 20]);
    logs.s3.put_in_parts("sums/a", &parts, "CRC32", "COMPOSITE");
    let proxy = Misbehaving::in_front_of(logs.s3.address(), testkit::server::Link::default());
    // Together they take longer than nothing may come.
    for (part, ms) in [(2, 1200), (3, 2400)] {
        let answer = Answer::forwarded().delayed(Duration::from_millis(ms));
        proxy.answer(&format!("/sums/a?partNumber={part}"), answer);
    }
    let mut command = logs.command(&["cp", "--stats", "--stall=3", "s3://sums/a", "to"]);
    let output = command.envs(S3::env_at(&proxy.endpoint())).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 checked by their sums, 0 could"), "{}", stderr(&output));
}

#[test]
fn a_copy_that_no_sum_is_known_of_is_counted() {
    skip_unless!(S3::NEEDS, S3::SUMS_NEED);
    let logs = Logs::new();
    logs.s3.create_bucket("sums");
    let bytes = testkit::noise((5 << 20) + 1000, 3);
    let (part, rest) = bytes.split_at(5 << 20);
    logs.s3.put_in_parts("sums/parts", &[part, rest], "CRC32", "COMPOSITE");
    let proxy = Misbehaving::in_front_of(logs.s3.address(), testkit::server::Link::default());
    // A server that does not know of parts, and one whose tags look like sums and are none.
    for part in 1..=2 {
        let whole = Answer::bytes(&bytes).etag("");
        proxy.answer(&format!("/sums/parts?partNumber={part}"), whole);
    }
    let opaque = "\"0123456789abcdef0123456789abcdef\"";
    proxy.answer("/sums/opaque", Answer::bytes("some bytes").etag(opaque));
    for name in ["s3://sums/parts", "s3://sums/opaque"] {
        let mut command = logs.command(&["cp", "--stats", name, "to/"]);
        let output = command.envs(S3::env_at(&proxy.endpoint())).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let counted = "0 checked by their sums, 1 could not be";
        assert!(stderr(&output).contains(counted), "{name}: {}", stderr(&output));
        let said = stderr(&output)
            .contains("s3://sums/opaque: its bucket has ETags that look like MD5 sums");
        assert_eq!(said, name.ends_with("opaque"), "{}", stderr(&output));
    }
}

#[test]
fn a_part_of_another_version_is_not_gone_on_with() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    logs.ground.create("to/.02.gz.nearfirst-part", "old");
    logs.ground.create("to/.02.gz.nearfirst-version", "\"old\"");
    let output = logs.run(&["cp", "s3://logs/2026/02.gz", "to/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(logs.ground.path().join("to/02.gz")).unwrap(), gzipped("fine\n"));
}

#[test]
fn more_servers_than_descriptors_are_read_all_the_same() {
    let servers: Vec<_> = (0..70).map(|_| Misbehaving::new()).collect();
    let ground = Ground::new();
    for server in &servers {
        server.answer("/a", Answer::bytes("text\n"));
    }
    let names: Vec<String> = servers.iter().map(|server| server.url("/a") + "\n").collect();
    ground.create("names", names.concat());
    let plain = ground.command(&["cat", "--unordered", "@names"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]);
    limited.arg(plain.get_program()).args(plain.get_args()).current_dir(ground.path());
    limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), servers.len());
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let ground = Ground::new();
    ground.create("a", "text");
    let fifo = ground.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/null", ground.path().join("link")).unwrap();
    for flag in ["--force", "--update"] {
        for dest in ["fifo", "link"] {
            let output = ground.run(&["cp", flag, "a", dest]);
            assert_eq!(output.status.code(), Some(1), "{flag} {dest}");
            assert!(stderr(&output).contains("no file to replace"), "{}", stderr(&output));
        }
    }
    let kind = fs::symlink_metadata(&fifo).unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind));
}

#[test]
fn a_file_that_is_held_open_as_the_output_is_not_replaced() {
    let ground = Ground::new();
    ground.create("a", "text");
    std::os::unix::fs::symlink("/dev/stdout", ground.path().join("link")).unwrap();
    let output_path = ground.create("output", "before\n");
    for flags in [&["--force"][..], &["--update"], &[]] {
        for dest in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"] {
            let mut command = ground.command(&[&["cp"], flags, &["a", dest]].concat());
            let held = fs::OpenOptions::new().append(true).open(&output_path).unwrap();
            let output = command.stdout(held).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{flags:?} {dest}");
            let told = format!("nearfirst cp: a: {dest} is no file to replace; cat writes to it\n");
            assert_eq!(stderr(&output), told);
        }
    }
    assert_eq!(fs::read(&output_path).unwrap(), b"before\n");
}

#[test]
fn a_name_that_no_command_can_be_given_fails_alone() {
    let server = Misbehaving::new();
    let listed = "<ListBucketResult><EncodingType>url</EncodingType>\
        <Contents><Key>a%00b</Key><Size>4</Size></Contents>\
        <Contents><Key>c</Key><Size>4</Size></Contents></ListBucketResult>";
    server.answer("/bucket/", Answer::bytes(listed));
    for path in ["/bucket/a%00b", "/bucket/c"] {
        server.answer(path, Answer::bytes("text"));
    }
    let ground = Ground::new();
    let mut command = ground.command(&["each", "-j1", "--ordered", "s3://bucket/*", "--", "cat"]);
    let output = command.envs(S3::env_at(&server.endpoint())).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "text"));
    assert!(stderr(&output).contains("s3://bucket/a\\x00b: "), "{}", stderr(&output));
}

#[test]
fn pages_are_sets_of_their_links() {
    skip_unless!(Nginx::NEEDS);
    let (ground, nginx) = (Ground::new(), Nginx::new());
    nginx.put("page.html", "<a href='a.txt'>a</a> <a href='b.bin'>b</a> <a href=\"d/c.txt\">c</a>");
    nginx.put("a.txt", "in a\n");
    nginx.put("d/c.txt", "in c\n");
    let spec = format!("{}\\a[href$=\".txt\"]\\", nginx.url("page.html"));
    let output = ground.run(&["ls", &spec]);
    let expected = format!("{}\n{}\n", nginx.url("a.txt"), nginx.url("d/c.txt"));
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    assert_eq!(stdout(&ground.run(&["cat", &spec])), "in a\nin c\n");
    assert!(ground.run(&["cp", &spec, "to"]).status.success());
    assert_eq!(fs::read(ground.path().join("to/c.txt")).unwrap(), b"in c\n");
}

#[test]
fn cat_says_how_much_of_a_broken_member_was_written() {
    skip_unless!(S3::NEEDS);
    let logs = Logs::new();
    let proxy = Misbehaving::in_front_of(logs.s3.address(), testkit::server::Link::default());
    let run = |name: &str| {
        let mut command = logs.command(&["cat", "--attempts=1", "--budget=64M", name]);
        command.envs(S3::env_at(&proxy.endpoint())).output().unwrap()
    };
    // The beginning is there long before the rest is given up.
    proxy.answer(
        "/logs/large/numbers.bin",
        Answer::forwarded().paced(2_000_000).ends_after(1_500_000),
    );
    let output = run("s3://logs/large/numbers.bin");
    assert_eq!(output.status.code(), Some(1));
    let written = output.stdout.len();
    assert!(written > 0 && output.stdout == logs.large[..written]);
    let told = format!("; its first {written} bytes were written before\n");
    assert!(stderr(&output).ends_with(&told), "{}", stderr(&output));
    proxy.answer("/logs/large/numbers.bin", Answer::status(403));
    let output = run("s3://logs/large/numbers.bin");
    assert!(output.stdout.is_empty() && !stderr(&output).contains("written before"));
}

#[test]
fn what_is_waited_for_is_handed_on_as_it_comes() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/log", Answer::bytes("first\nlast\n").stalls_after(6));
    let url = server.url("/log");
    for (asked, found) in [("-q", ""), ("-m1", "first\n")] {
        let output = ground.run(&["grep", "--stall=600", asked, "first", &url]);
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), found.into()), "{asked}");
    }
    let output = ground.run(&["cat", "--stall=2", "--attempts=1", &url]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), "first\n".into()));
    let told = stderr(&output);
    assert!(told.ends_with("; its first 6 bytes were written before\n"), "{told}");
}

#[test]
fn grep_filters_what_a_page_or_a_list_names() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let names = ["/logs/a.log", "/logs/b.gz", "/c.log?d=e.gz"];
    for name in names {
        server.answer(name, Answer::bytes("x\n"));
    }
    server.answer("/page", Answer::html(&names.map(|name| format!("<a href={name}>")).concat()));
    ground.create("large.log", "x\nlarge\n");
    let urls = names.map(|name| server.url(name));
    let large = "large.log".to_owned();
    ground.create("list", format!("{}\n{large}", urls.join("\n")));
    let page = server.url("/page\\a\\");
    let [log, packed, asked] = &urls;
    for (filter, operands, found) in [
        ("-g*.gz", &[page.as_str()][..], vec![packed]),
        ("-glogs/**", &[&page], vec![log, packed]),
        ("-tlog", &[&page], vec![log, asked]),
        ("-Tlog", &[&page, log], vec![log, packed]),
        ("-g!logs", &[&page], vec![asked]),
        ("-g!logs/", &["@list"], vec![asked, &large]),
        ("--max-filesize=3", &["@list"], vec![log, packed, asked]),
    ] {
        for mode in [&["-l", "x"][..], &["--files"]] {
            let output = ground.run(&[&["grep", filter], mode, operands].concat());
            let lines: Vec<&str> = found.iter().map(|url| url.as_str()).collect();
            let told: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
            assert_eq!(told, lines, "{filter} {mode:?}: {}", stderr(&output));
        }
    }
    let requests = server.counts("/logs/b.gz").requests;
    ground.run(&["grep", "-tlog", "x", &page]);
    assert_eq!(server.counts("/logs/b.gz").requests, requests, "what is left out is not fetched");
}

#[test]
fn a_bad_member_is_named_and_the_others_are_read() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let busy = Answer::status(503).header("Retry-After", "0");
    server.answers("/busy", [busy.clone(), busy.clone(), Answer::bytes("patience\n")]);
    server.answer("/short", Answer::bytes("cut short\n").ends_after(4));
    server.answer("/gone", Answer::status(404));
    server.answer("/good", Answer::bytes("good\n"));
    let urls = ["/busy", "/short", "/gone", "/good"].map(|path| server.url(path));
    let specs: Vec<&str> = urls.iter().map(String::as_str).collect();
    let run = |first: &[&str], last: &[&str]| ground.run(&[first, &specs, last].concat());

    let output = run(&["cat", "--attempts=2", "--stall=2"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    for url in [&urls[1], &urls[2]] {
        assert!(told.contains(&format!("nearfirst cat: {url}: ")), "{told}");
    }
    assert!(stdout(&output).ends_with("good\n"), "{}", stdout(&output));

    server.answers("/busy", [busy, Answer::bytes("patience\n")]);
    let output = run(&["wc", "--attempts=2", "-l"], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("1 http"), "{}", stdout(&output));
    assert!(stdout(&output).ends_with("2 total\n"), "{}", stdout(&output));

    let output = run(&["cp", "--attempts=2"], &["to"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(ground.path().join("to/good")).unwrap(), b"good\n");
    assert!(!ground.path().join("to/short").exists() && !ground.path().join("to/gone").exists());
}

#[test]
fn stats_of_objects_alone_say_nothing_of_files() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/object", Answer::bytes("text\n"));
    let url = server.url("/object");
    ground.create("file", "text\n");
    for command in [&["wc", "--stats", "-l"][..], &["grep", "--stats", "text"]] {
        for (operands, says) in [(&[url.as_str()][..], false), (&[&url, "file"], true)] {
            let output = ground.run(&[command, operands].concat());
            assert!(output.status.success(), "{command:?}: {}", stderr(&output));
            let told = stderr(&output);
            assert!(told.contains("1 member read"), "{command:?}: {told}");
            assert_eq!(told.contains(" bytes in memory"), says, "{command:?}: {told}");
        }
    }
}

#[test]
fn a_server_that_is_busy_for_a_moment_is_asked_again_what_there_is() {
    let (busy, texts) = (Answer::status(503).header("Retry-After", "0"), Answer::bytes("text\n"));
    for arguments in [
        &["ls", "URL"][..],
        &["ls", "-l", "URL"],
        &["wc", "-c", "URL"],
        &["find", "URL"],
        &["sleds", "-s", "URL"],
        &["order", "URL"],
        &["cp", "--update", "URL", "to"],
    ] {
        let (ground, server) = (Ground::new(), Misbehaving::new());
        server.answer("/a", texts.clone());
        server.nth(1, busy.clone());
        // There, and older: it is asked about before it is copied.
        ground.create("to", "text");
        let run = |more: &[&str]| {
            let given = arguments.iter().map(|word| word.replace("URL", &server.url("/a")));
            let given: Vec<String> = given.collect();
            let words: Vec<&str> = given.iter().map(String::as_str).collect();
            ground.run(&[&words[..1], more, &words[1..]].concat())
        };
        let output = run(&[]);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        if ["ls", "wc", "cp"].contains(&arguments[0]) {
            server.nth(server.total().requests + 1, busy.clone());
            assert!(!run(&["--attempts=1"]).status.success(), "{arguments:?}");
        }
    }
}

#[test]
fn of_a_url_that_cannot_be_had_one_error_is_told_about_what_was_typed() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/a", Answer::status(403));
    let url = server.url("/a");
    let output = ground.run(&["find", &url]);
    let told = format!("nearfirst find: {url}: access denied: the server answered 403 Forbidden\n");
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), told));
}

#[test]
fn no_member_is_lost_where_a_server_is_busy_for_a_moment() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let folders = ["a", "b", "c"].map(|folder| {
        server.answer(&format!("/bucket/{folder}/m.json"), Answer::bytes(folder));
        format!("<CommonPrefixes><Prefix>{folder}/</Prefix></CommonPrefixes>")
    });
    let listed = format!("<ListBucketResult>{}</ListBucketResult>", folders.concat());
    server.answer("/bucket/", Answer::bytes(listed));
    server.nth(3, Answer::status(503).header("Retry-After", "0"));
    let mut command = ground.command(&["cat", "s3://bucket/*/m.json"]);
    let output = command.envs(S3::env_at(&server.endpoint())).output().unwrap();
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("abc", ""));
}

#[test]
fn no_more_is_asked_at_a_time_than_was_said() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let links: Vec<_> = (0..5).map(|at| format!("<a href=/{at}>{at}</a>")).collect();
    server.answer("/page.html", Answer::html(&links.concat()));
    for at in 0..5 {
        // Long enough to be met by the others.
        let text = Answer::bytes("text").delayed(Duration::from_millis(50));
        server.answer(&format!("/{at}"), text);
    }
    let output = ground.run(&["ls", "-l", "--window-max=1", &server.url("/page.html\\a\\")]);
    assert_eq!(stdout(&output).lines().count(), 5, "{}", stderr(&output));
    assert_eq!(server.total().concurrent_max, 1);
}

#[test]
fn a_password_in_a_url_is_in_no_message() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/gone", Answer::status(404));
    let url = server.url("/gone").replace("http://", "http://me:secret@");
    let page = format!("{url}\\a\\");
    let without_end = format!("{url}\\a");
    let both = format!("{{{url},{url}}}\\a\\");
    let open = format!("{{{url},a*");
    let (other, program) = (url.replace("/gone", "/a/gone"), format!("%curl {url}%"));
    for arguments in [
        &["cat", "--stats", &url][..],
        &["wc", "--stats", &url],
        &["grep", "--stats", "x", &url],
        &["ls", &url],
        &["ls", &page],
        &["cp", &url, "here/"],
        &["sleds", &url],
        &["order", &url],
        &["each", &url, "--", "echo"],
        &["ls", &without_end],
        &["wc", &without_end],
        &["grep", "x", &without_end],
        &["sleds", &without_end],
        &["order", &without_end],
        &["find", &without_end],
        &["ls", &both],
        &["ls", &open],
        &["wc", &open],
        &["grep", "x", &open],
        &["sleds", &open],
        &["order", &open],
        &["find", &open],
        &["cp", &url, &other, "here/"],
        &["ls", &program],
    ] {
        let output = ground.run(arguments);
        let told = stderr(&output);
        assert!(told.contains("//me@") && !told.contains("secret"), "{arguments:?}: {told}");
        let failed = if arguments[0] == "grep" { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(failed), "{arguments:?}: {told}");
    }
}

/// The answer of a bucket that holds these keys, with a time of its own for each.
fn listing(keys: &[&str], time: &str) -> Answer {
    let contents = keys.iter().map(|key| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>{time}</LastModified>\
             <ETag>&quot;v&quot;</ETag><Size>4</Size></Contents>"
        )
    });
    let contents: String = contents.collect();
    Answer::bytes(format!(
        "<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
    ))
}

/// Runs a command on the buckets of a server that answers as it was told.
fn run_at(ground: &Ground, server: &Misbehaving, args: &[&str]) -> Output {
    let mut command = ground.command(args);
    command.envs(S3::env_at(&server.endpoint())).output().unwrap()
}

#[test]
fn an_object_is_the_same_if_only_its_listing_has_no_quotes_around_its_tag() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let listed = "<ListBucketResult><Contents><Key>a</Key><ETag>v1</ETag><Size>4</Size></Contents>\
        <Contents><Key>b</Key><ETag>v1</ETag><Size>4</Size></Contents></ListBucketResult>";
    server.answer("/bucket/", Answer::bytes(listed));
    // A server whose `If-Match` needs the quotes, and one that does not know it.
    server.answer("/bucket/a", Answer::bytes("same").etag("\"v1\""));
    server.answer("/bucket/b", Answer::bytes("same").etag("").header("ETag", "\"v1\""));
    let output = run_at(&ground, &server, &["cat", "s3://bucket/*"]);
    assert_eq!(stdout(&output), "samesame", "{}", stderr(&output));
    for answer in [Answer::bytes("late"), Answer::bytes("late").etag("").header("ETag", "\"v2\"")] {
        server.answer("/bucket/b", answer);
        let output = run_at(&ground, &server, &["cat", "--ordered", "s3://bucket/*"]);
        assert_eq!(stdout(&output), "same");
        assert!(stderr(&output).contains("changed"), "{}", stderr(&output));
    }
}

#[test]
fn an_update_copies_nothing_again_whose_listing_tells_parts_of_a_second() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let object = Answer::bytes("text").etag("\"v\"");
    let told = |time: &str| object.clone().header("Last-Modified", time);
    server.answer("/bucket/", listing(&["a"], "2026-01-02T03:04:05.623Z"));
    server.answer("/bucket/a", told("Fri, 02 Jan 2026 03:04:05 GMT"));
    let update = || {
        let output =
            run_at(&ground, &server, &["cp", "--update", "--stats", "s3://bucket/*", "to"]);
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output).contains("1 left as they were")
    };
    assert!(!update() && update());
    server.answer("/bucket/", listing(&["a"], "2026-01-02T03:04:06.000Z"));
    server.answer("/bucket/a", told("Fri, 02 Jan 2026 03:04:06 GMT"));
    assert!(!update() && update());
}

#[test]
fn what_has_no_size_has_no_cost_that_is_known() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/told", Answer::bytes("text"));
    server.answer("/untold", Answer::bytes("text").ignores_ranges().chunked());
    let (told, untold) = (server.url("/told"), server.url("/untold"));
    let why = "its server does not tell its size";
    let output = ground.run(&["sleds", &untold]);
    assert_eq!(stdout(&output), format!("{untold}: {why}\n\n"), "{}", stderr(&output));
    let [record] = &objects(&ground.run(&["sleds", "--json", &untold]))[..] else { panic!("one") };
    assert_eq!(record["reason"], why);
    let summary = stdout(&ground.run(&["sleds", "-s", &untold]));
    assert!(summary.contains("not known"), "{summary}");
    let output = ground.run(&["order", &untold, &told]);
    assert_eq!(stdout(&output), format!("{told}\n{untold}\n"), "{}", stderr(&output));
    let output = ground.run(&["find", &untold, "-latency", "-1000"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(0)));
    assert!(stderr(&output).contains(why), "{}", stderr(&output));
}

#[test]
fn keys_with_empty_components_are_listed_and_found() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let keys = ["/abs", "a", "d//e", "lead//"];
    server.answer("/bucket/", listing(&keys, "2026-01-02T03:04:05Z"));
    let all = keys.map(|key| format!("s3://bucket/{key}\n")).concat();
    for words in [["ls", "s3://bucket/***"], ["find", "s3://bucket"]] {
        let output = run_at(&ground, &server, &words);
        assert_eq!(stdout(&output), all, "{words:?}: {}", stderr(&output));
    }
    let output = run_at(&ground, &server, &["ls", "s3://bucket/d//*"]);
    assert_eq!(stdout(&output), "s3://bucket/d//e\n", "{}", stderr(&output));
}

#[test]
fn an_object_is_found_beside_those_below_its_name() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/bucket/", listing(&["a/b"], "2026-01-02T03:04:05Z"));
    let found = || run_at(&ground, &server, &["find", "s3://bucket/a", "-printf", "%d %p\\n"]);
    server.answer("/bucket/a", Answer::status(404));
    let output = found();
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("1 s3://bucket/a/b\n", ""));
    server.answer("/bucket/a", Answer::bytes("text"));
    assert_eq!(stdout(&found()), "0 s3://bucket/a\n1 s3://bucket/a/b\n");
    let output = run_at(&ground, &server, &["find", "s3://bucket/a", "-print", "-quit"]);
    assert_eq!(stdout(&output), "s3://bucket/a\n", "{}", stderr(&output));
    // Who may only list is not told of the name; a listing that failed is no empty folder.
    server.answer("/bucket/a", Answer::status(403));
    let output = found();
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("1 s3://bucket/a/b\n", ""));
    server.answer("/bucket/a", Answer::bytes("text"));
    server.answer("/bucket/", Answer::status(400));
    let output = found();
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("0 s3://bucket/a\n", Some(1)));
    server.answer("/bucket/", Answer::status(403));
    let output = found();
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("0 s3://bucket/a\n", Some(0)));
}

#[test]
fn of_a_bucket_that_is_not_there_one_thing_is_said() {
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let refusal = "<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>";
    server.answer("/nope/", Answer::refusal(404, refusal));
    for name in ["s3://nope", "s3://nope/"] {
        let output = run_at(&ground, &server, &["find", name]);
        let told = stderr(&output);
        assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{told}");
        assert!(!told.contains("this is a bucket"), "{told}");
    }
}
