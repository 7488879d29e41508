//! `ls`, `cat`, `cp` and `each` through the built program, over files of this machine.

mod ground;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use ground::{Ground, begin_copy, objects, small_files, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use testkit::server::{Answer, Misbehaving, Sftp};
use testkit::{Dir, Facility, MemoryCgroup, PidsCgroup, Tmpfs, cmd, program, skip_unless, until};

#[test]
fn ls_streams_names_and_says_what_is_not_there() {
    let ground = small_files();
    let output = ground.run(&["ls", "**/*.txt"]);
    assert_eq!(stdout(&output), "a.txt\nb.txt\nd/c.txt\n", "{}", stderr(&output));
    let output = ground.run(&["ls", "-0", "b.txt", "missing", "a.txt", "a*"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"b.txt\0a.txt\0");
    assert_eq!(stderr(&output), "nearfirst ls: missing: No such file or directory\n");
    assert_eq!(stdout(&ground.run(&["ls", "--sort=name", "b.txt", "a.txt"])), "a.txt\nb.txt\n");
}

#[test]
fn ls_has_the_habits_of_ls() {
    let ground = Ground::new();
    let changed = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (at, (name, size)) in (0..).zip([("small", 7), ("large", 1536), ("empty", 0)]) {
        ground.create(name, vec![b'x'; size]);
        let file = File::options().write(true).open(ground.path().join(name)).unwrap();
        file.set_modified(changed + Duration::from_secs(at)).unwrap();
    }
    let sorted = |key| stdout(&ground.run(&["ls", key, "empty", "small", "large"]));
    assert_eq!(sorted("--sort=size"), "large\nsmall\nempty\n");
    assert_eq!(sorted("--sort=time"), "empty\nlarge\nsmall\n");
    let told = |keys: &[&str]| {
        let told = ground.run(&[&["ls", "--json"], keys, &["large", "small", "empty"]].concat());
        stdout(&told).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(told(&["--sort=size"]), told(&["--ordered"]), "as much as without sorting");
    let long = stdout(&ground.run(&["ls", "-lh", "large"]));
    assert!(long.trim_start().starts_with("1.5 KiB "), "{long}");
}

#[test]
fn sizes_that_a_query_tells_are_gone_by_and_times_are_asked_for() {
    skip_unless!(Facility::Tool("python3"));
    let ground = Ground::new();
    let changed = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (at, name) in (0..).zip(["b", "a", "c"]) {
        ground.create(name, "x");
        let file = File::options().write(true).open(ground.path().join(name)).unwrap();
        file.set_modified(changed + Duration::from_secs(at)).unwrap();
    }
    let rows = "insert into t values ('a', 9), ('b', 1), ('c', 5)";
    let text = format!(
        "import sqlite3; db = sqlite3.connect('db'); db.execute('create table t (url, size)'); \
         db.execute(\"{rows}\"); db.commit()"
    );
    cmd("python3", ["-c", &text]).dir(ground.path()).run().succeeds();
    let none = r"db\select url from t where 0\";
    let told = format!("nearfirst ls: {none}: it names nothing\n");
    assert_eq!(stderr(&ground.run(&["ls", none])), told);
    let query = r"db\select url, size from t order by url\";
    assert_eq!(stdout(&ground.run(&["ls", "--sort=time", query])), "c\na\nb\n");
    assert_eq!(stdout(&ground.run(&["ls", "--sort=size", query])), "a\nc\nb\n");
    let output = ground.run(&["grep", "--max-filesize=5", "-l", "x", query]);
    assert_eq!(stdout(&output), "b\nc\n", "{}", stderr(&output));
}

#[test]
fn who_names_a_folder_is_told_how_to_list_what_is_in_it() {
    skip_unless!(Facility::Tool("script"));
    let ground = small_files();
    let at_terminal = |operands: &str| {
        let line = format!("{} ls {operands}", env!("CARGO_BIN_EXE_nearfirst"));
        let script = cmd("script", ["-qec", &line, "/dev/null"]);
        let run = script.env("NEARFIRST_STATE", ground.state()).dir(ground.path()).run();
        run.succeeds();
        run.text().replace('\r', "")
    };
    let told = "d/\nnearfirst ls: d/ is a folder: 'd/*' lists what is in it\n";
    assert_eq!(at_terminal("d/"), told);
    assert_eq!(at_terminal("'d/*' a.txt"), "d/c.txt\na.txt\n");
    let output = ground.run(&["ls", "d"]);
    assert_eq!((stdout(&output), stderr(&output)), ("d\n".to_owned(), String::new()));
}

#[test]
fn many_names_take_less_than_200_bytes_each_and_little_more_to_be_sorted() {
    const COUNT: u64 = 300_000;
    skip_unless!(Facility::Root, Facility::Cgroup("memory"));
    let ground = Ground::new();
    let name = |number: u64| format!("s3://some-bucket/2026/07/prefix/{number:08}.dat\n");
    let names: Vec<_> = (0..COUNT).map(name).collect();
    ground.create("list", names.iter().rev().map(String::as_str).collect::<String>());
    let mut reversed = names.clone();
    reversed.reverse();
    let ways: [(&[&str], u64, _); 2] = [
        (&["ls", "@list"], 200 * COUNT, reversed),
        (&["ls", "--sort=name", "@list"], 100 << 20, names),
    ];
    for (args, limit, expected) in ways {
        let cmd = cmd(env!("CARGO_BIN_EXE_nearfirst"), args);
        let cmd = cmd.env("NEARFIRST_STATE", ground.state()).dir(ground.path());
        MemoryCgroup::new(limit).run(cmd).succeeds().prints(expected.concat());
    }
}

#[test]
fn all_below_a_folder_is_its_files_once() {
    let ground = small_files();
    symlink("nowhere", ground.path().join("d/broken")).unwrap();
    let all = ["a.txt", "b.txt", "d/c.txt"];
    assert_eq!(stdout(&ground.run(&["ls", "**"])).lines().collect::<Vec<_>>(), all);
    let output = ground.run(&["grep", "-c", "in", "**"]);
    let counted = all.map(|name| format!("{name}:1"));
    let text = stdout(&output);
    let mut lines: Vec<_> = text.lines().collect();
    // As with ripgrep, those of whichever file was searched first.
    lines.sort_unstable();
    assert_eq!(lines, counted, "{}", stderr(&output));
    let output = ground.run(&["cp", "**", "copies"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(all.iter().all(|name| ground.path().join("copies").join(name).is_file()));
}

#[test]
fn ls_long_and_json_tell_size_time_and_version() {
    let ground = small_files();
    let output = ground.run(&["ls", "-l", "a.txt"]);
    let text = stdout(&output);
    let words: Vec<_> = text.split_whitespace().collect();
    assert_eq!((words[0], words[3], words[5]), ("9", "-", "a.txt"), "{text}");
    let [object] = &objects(&ground.run(&["ls", "--json", "a.txt"]))[..] else { panic!("one") };
    assert_eq!((&object["type"], &object["tier"]), (&"object".into(), &"online".into()));
    assert_eq!((&object["name"]["text"], &object["bytes"]), (&"a.txt".into(), &9.into()));
    let at = UNIX_EPOCH + Duration::new(1_700_000_000, 250_000_000);
    fs::File::open(ground.path().join("b.txt")).unwrap().set_modified(at).unwrap();
    let [object] = &objects(&ground.run(&["ls", "--json", "b.txt"]))[..] else { panic!("one") };
    assert_eq!(object["modified_unix_s"], 1_700_000_000.25);
    let at = UNIX_EPOCH - Duration::from_millis(1500);
    fs::File::open(ground.path().join("b.txt")).unwrap().set_modified(at).unwrap();
    let [object] = &objects(&ground.run(&["ls", "--json", "b.txt"]))[..] else { panic!("one") };
    assert_eq!(object["modified_unix_s"], -1.5);
}

#[test]
fn a_character_is_one_however_many_bytes_it_has() {
    let ground = Ground::new();
    for name in ["e", "é", "ü"] {
        ground.create(name, "");
    }
    for (spec, found) in [("?", "e\né\nü\n"), ("[é-ü]", "é\nü\n"), ("[!a-z]", "é\nü\n")] {
        assert_eq!(stdout(&ground.run(&["ls", "--sort=name", spec])), found, "{spec}");
    }
    assert_eq!(ground.run(&["ls", "??"]).status.code(), Some(1));
}

#[test]
fn a_home_that_is_closed_to_us_configures_nothing() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"));
    let (home, ground) = (Dir::new(), small_files());
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let program = ground.path().join("nearfirst");
    testkit::copy_program(env!("CARGO_BIN_EXE_nearfirst"), &program);
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let run = cmd("setpriv", user).arg(&program).arg("ls").arg("a.txt");
    run.env("HOME", home.path()).dir(ground.path()).run().succeeds().prints("a.txt\n");
}

#[test]
fn a_configuration_that_is_none_is_an_error_of_what_needs_it() {
    let ground = small_files();
    ground.create("config/nearfirst/config.toml", "x = [");
    ground.create("list", "a.txt");
    let ended = |args: &[&str]| {
        let mut command = ground.command(args);
        let output = command.env("XDG_CONFIG_HOME", ground.path().join("config")).output().unwrap();
        let is_said = stderr(&output).contains("config.toml: line 1: ");
        (output.status.code().unwrap(), is_said)
    };
    for command in ["sleds", "order", "wc"] {
        assert_eq!(ended(&[command, "a.txt", "[b]*"]), (0, false), "{command}");
    }
    for (command, code) in
        [("ls", 2), ("cat", 2), ("sleds", 2), ("order", 2), ("grep", 2), ("wc", 1)]
    {
        let operands: &[&str] = if command == "grep" { &["in", "@list"] } else { &["@list"] };
        assert_eq!(ended(&[&[command], operands].concat()), (code, true), "{command}");
    }
}

#[test]
fn a_list_of_names_is_a_spec() {
    let ground = small_files();
    ground.create("list", "b.txt\na.txt\n");
    assert_eq!(stdout(&ground.run(&["cat", "@list"])), "in b.txt\nin a.txt\n");
    let output = ground.run_with_stdin(&["cat", "-"], b"a.txt\0d/c.txt\0");
    assert_eq!(stdout(&output), "in a.txt\nin d/c.txt\n");
    assert_eq!(
        stdout(&ground.run(&["wc", "-l", "@list"])),
        "      1 b.txt\n      1 a.txt\n      2 total\n"
    );
}

#[test]
fn cat_keeps_the_order_of_the_operands_and_goes_on_after_what_is_missing() {
    let ground = small_files();
    let output = ground.run(&["cat", "b.txt", "missing", "a.txt"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "in b.txt\nin a.txt\n");
    assert_eq!(stderr(&output), "nearfirst cat: missing: No such file or directory\n");
    let output = ground.run(&["cat", "--unordered", "--stats", "b.txt", "a.txt"]);
    let mut lines: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["in a.txt", "in b.txt"]);
    assert!(stderr(&output).contains("2 members read, 0 failed: 18 B"), "{}", stderr(&output));
}

#[test]
fn an_order_that_was_taken_is_written_down_and_can_be_taken_again() {
    let ground = small_files();
    let cat = |args: &[&str]| stdout(&ground.run(&[&["cat"], args].concat()));
    let specs = ["b.txt", "d/c.txt", "a.txt"];
    let by_name = "in a.txt\nin b.txt\nin d/c.txt\n";
    assert_eq!(cat(&[&["--order=name"], &specs[..]].concat()), by_name);
    assert_eq!(cat(&[&["--ordered", "--order", "name"], &specs[..]].concat()), by_name);
    let listed = "in b.txt\nin d/c.txt\nin a.txt\n";
    assert_eq!(cat(&[&["--order=name", "--ordered"], &specs[..]].concat()), listed);
    ground.create("long.txt", "the longest of all\n");
    let by_rank = ["--order=rank", "--rank=largest", "a.txt", "d/c.txt", "long.txt"];
    assert_eq!(cat(&by_rank), "the longest of all\nin d/c.txt\nin a.txt\n");
    let minute = Duration::from_mins(1);
    for (name, at) in [("a.txt", UNIX_EPOCH - 2 * minute), ("b.txt", UNIX_EPOCH - minute)] {
        fs::File::open(ground.path().join(name)).unwrap().set_modified(at).unwrap();
    }
    let by_age = |rank| cat(&[&["--order=rank", rank], &specs[..]].concat());
    assert_eq!(by_age("--rank=oldest"), "in a.txt\nin b.txt\nin d/c.txt\n");
    assert_eq!(by_age("--rank=newest"), "in d/c.txt\nin b.txt\nin a.txt\n");
    let unranked = ground.run(&["cat", "--order=rank", "a.txt"]);
    assert_eq!((unranked.status.code(), stdout(&unranked).as_str()), (Some(2), ""));

    cat(&["--record-order=taken", "d/c.txt", "missing", "a.txt"]);
    assert_eq!(fs::read(ground.path().join("taken")).unwrap(), b"d/c.txt\0a.txt\0");
    let replayed = "in d/c.txt\nin a.txt\nin b.txt\n";
    assert_eq!(cat(&["--replay-order=taken", "[ab].txt", "d/*"]), replayed);
    let each = ["each", "--replay-order=taken", "--record-order=taken", "-j3", "[ab].txt", "d/*"];
    let each = ground.run(&[&each[..], &["--", "sh", "-c", "cat \"$1\"", "sh"]].concat());
    assert_eq!(stdout(&each), replayed, "{}", stderr(&each));
    let all = fs::read(ground.path().join("taken")).unwrap();
    assert_eq!(all, b"d/c.txt\0a.txt\0b.txt\0", "{}", stderr(&each));
    ground.create("lines", "b.txt\nd/c.txt\n");
    assert_eq!(
        cat(&["--replay-order", "lines", "a.txt", "d/*", "b.txt"]),
        "in b.txt\nin d/c.txt\nin a.txt\n"
    );

    for (flag, said) in [
        ("--replay-order=none", "--replay-order none: No such file or directory"),
        ("--record-order=none/taken", "--record-order none/taken: No such file or directory"),
        ("--record-order=/dev/full", "--record-order /dev/full: No space left on device"),
    ] {
        for (command, rest) in [("cat", &[][..]), ("each", &["--", "cat"])] {
            let output = ground.run(&[&[command, flag, "a.txt"], rest].concat());
            assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{flag}");
            assert_eq!(stderr(&output), format!("nearfirst {command}: {said}\n"));
        }
    }
    let output = ground.run(&["cat", "--stats", "--record-order=/dev/full", "a.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("0 members read, 0 failed"), "{}", stderr(&output));
}

#[test]
fn an_order_that_was_written_down_is_not_lost_by_a_run_that_comes_to_nothing() {
    let ground = small_files();
    let kept = || fs::read_to_string(ground.path().join("taken")).unwrap();
    ground.create("taken", "b.txt\0a.txt\0");
    let again = ["cat", "--replay-order=taken", "--record-order=taken", "missing"];
    assert_eq!(ground.run(&again).status.code(), Some(1));
    assert_eq!(kept(), "b.txt\0a.txt\0");
    std::os::unix::fs::symlink("taken", ground.path().join("link")).unwrap();
    for list in ["@taken", "@link"] {
        let output = ground.run(&["cat", "--record-order=taken", list]);
        let said = "nearfirst cat: --record-order taken: names are read from this file\n";
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), said));
        assert_eq!(kept(), "b.txt\0a.txt\0");
    }
    let mut command = ground.command(&["cat", "--record-order=taken", "-"]);
    command.stdin(fs::File::open(ground.path().join("taken")).unwrap());
    let output = command.output().unwrap();
    let said = "nearfirst cat: --record-order taken: names are read from this file\n";
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), said));
    assert_eq!(kept(), "b.txt\0a.txt\0");
}

#[test]
fn what_a_rank_needs_is_asked_again_while_errors_pass() {
    let (ground, server) = (small_files(), Misbehaving::new());
    server.answer("/a", Answer::bytes("a\n"));
    server.answers("/b", [Answer::status(503), Answer::bytes("longer\n")]);
    let names = server.url("/{a,b}");
    let output = ground.run(&["cat", "--order=rank", "--rank=largest", &names]);
    assert_eq!(stdout(&output), "longer\na\n", "{}", stderr(&output));
}

/// What the last line of `--stats` says went to disk.
fn went_to_disk(output: &Output) -> String {
    let said = stderr(output);
    let end = said.split(" at most, and ").nth(1);
    let bytes = end.and_then(|end| end.split(" went to disk").next());
    bytes.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn copies_are_whole_with_little_memory_and_go_to_disk_before_only_where_they_may() {
    const OBJECTS: usize = 16;
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(6 << 20, 1);
    for number in 0..OBJECTS {
        // The last is waited for while others are read.
        let delay = Duration::from_millis(if number + 1 == OBJECTS { 500 } else { 0 });
        let answer = Answer::bytes(&bytes).etag("\"e\"").delayed(delay);
        server.answer(&format!("/{number}"), answer);
    }
    let url = server.url(&format!("/{{0..{}}}", OBJECTS - 1));
    let copy = |flags: &[&str]| {
        let cp = [&["cp", "-f", "--stats", "--budget=4M"], flags, &[&url, "to/"]].concat();
        let output = ground.run(&cp);
        assert!(output.status.success(), "{}", stderr(&output));
        for number in 0..OBJECTS {
            let path = ground.path().join(format!("to/{number}"));
            assert!(fs::read(&path).unwrap() == bytes, "{number}: {}", stderr(&output));
            fs::remove_file(path).unwrap();
        }
        went_to_disk(&output)
    };
    assert_eq!(copy(&[]), "0 B");
    assert_eq!(copy(&["--spill-max=0"]), "0 B");
    // Which of them holds what the last has to wait for is chance.
    assert!((0..10).any(|_| copy(&["--spill-max=1G"]) != "0 B"), "nothing is spilled");
}

#[test]
fn cat_ends_quietly_when_nobody_reads() {
    let ground = Ground::new();
    ground.create("large", vec![b'x'; 8 << 20]);
    let mut command = ground.command(&["cat", "large", "large"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn files_that_are_listed_by_url_are_read() {
    let ground = small_files();
    let spec = format!("file://{}/[ab].txt", ground.path().display());
    let output = ground.run(&["cat", &spec]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let mut lines: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["in a.txt", "in b.txt"]);
}

#[test]
fn a_body_that_says_where_it_ends_is_read_to_there() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let text = Answer::bytes("hello world\n").chunked().ignores_ranges();
    server.answer("/chunked", text.clone());
    server.answer("/both", text.header("Content-Length", "3"));
    for path in ["/chunked", "/both"] {
        let url = server.url(path);
        let output = ground.run(&["cat", &url]);
        assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("hello world\n", ""));
        // Its length is not known before, so that it is counted.
        let output = ground.run(&["wc", "-c", &url]);
        assert_eq!(stdout(&output), format!("12 {url}\n"), "{}", stderr(&output));
    }
}

#[test]
fn an_ssh_that_ends_before_it_is_connected_is_what_is_told() {
    let ground = small_files();
    let ssh = ground.create("bin/ssh", "#!/bin/sh\nexit 3\n");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = ground.command(&["cat", "--attempts=1", "sftp://host/a.txt"]);
    let path = format!("{}:/usr/bin:/bin", ground.path().join("bin").display());
    let output = command.env("PATH", path).output().unwrap();
    let told = "sftp://host/a.txt: `ssh` is not installed, or ended before it was connected\n";
    assert!(stderr(&output).ends_with(told), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_server_that_sends_little_but_steadily_does_not_stall() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(4000, 1);
    server.answer("/slow", Answer::bytes(&bytes).etag("\"e\"").paced(1000));
    let output = ground.run(&["cat", "--stall=1", &server.url("/slow")]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(output.stdout == bytes);
    // One for each second if it stalled; a machine that stood still may have asked once more.
    assert!(server.total().requests < 4, "{:?}", server.total());
}

#[test]
fn a_line_for_which_there_is_no_order_does_not_wait_for_an_object_that_is_late() {
    let (ground, server) = (small_files(), Misbehaving::new());
    server.answer("/late", Answer::bytes("text\n".repeat(100)).paced(500));
    server.answer("/soon", Answer::bytes("text\n"));
    let (late, soon) = (server.url("/late"), server.url("/soon"));
    for (flag, names) in [("-l", [&late, &soon]), ("--unordered", [&soon, &late])] {
        let output = ground.run(&["wc", "-l", flag, &late, &soon]);
        let counted: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        assert!(counted[0].ends_with(names[0]) && counted[1].ends_with(names[1]), "{counted:?}");
    }
}

#[test]
fn a_page_that_does_not_come_is_waited_for_as_long_as_asked() {
    let (ground, server) = (small_files(), Misbehaving::new());
    server.answer("/page.html", Answer::bytes(b"<a href=x>").stalls_after(0));
    let page = server.url("/page.html\\a\\");
    let output = ground.run(&["cat", "--stall=1", "--attempts=1", &page]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("for 1 s"), "{}", stderr(&output));
}

#[test]
fn a_search_ends_with_its_reader_though_others_wait_for_the_turn_of_who_prints() {
    let (ground, server) = (small_files(), Misbehaving::new());
    server.answer("/large", Answer::bytes("x\n".repeat(2 << 20).as_bytes()));
    let small: Vec<_> = (0..400).map(|at| format!("/small{at}")).collect();
    for path in &small {
        server.answer(path, Answer::bytes(b"x\n"));
    }
    let paths = ["/large".to_owned()].into_iter().chain(small);
    ground.create("list", paths.map(|path| server.url(&path) + "\n").collect::<String>());
    let mut search = ground.command(&["grep", "--jobs=2", "x", "@list"]);
    let mut search = search.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the small ones are there", || server.total().requests > 400);
    drop(search.stdout.take());
    until("the search ends", || search.try_wait().unwrap().is_some());
    assert_eq!(stderr(&search.wait_with_output().unwrap()), "");
}

#[test]
fn nothing_is_copied_to_a_store_or_to_a_folder_of_its_name() {
    let ground = small_files();
    let output = ground.run(&["cp", "a.txt", "s3://bucket/a.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nothing is written to stores"), "{}", stderr(&output));
    assert!(!ground.path().join("s3:").exists());
}

#[test]
fn cat_decompresses_by_name() {
    let ground = small_files();
    let mut gzip = std::process::Command::new("gzip");
    assert!(gzip.arg(ground.path().join("a.txt")).status().unwrap().success());
    ground.create("broken.gz", "no gzip");
    let output = ground.run(&["cat", "-z", "a.txt.gz", "b.txt", "broken.gz"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "in a.txt\nin b.txt\n");
    let complaint = "nearfirst cat: broken.gz: gzip: stdin: not in gzip format\n";
    assert_eq!(stderr(&output), complaint);
    let output = ground.command(&["cat", "-z", "a.txt.gz"]).env_remove("PATH").output().unwrap();
    assert_eq!(stdout(&output), "in a.txt\n", "{}", stderr(&output));
}

#[test]
fn what_no_program_decompresses_is_taken_as_it_is() {
    let ground = small_files();
    ground.create("a.txt.gz", "in no gzip\n");
    let url = format!("file://{}", ground.path().join("a.txt.gz").display());
    for (command, name) in [
        (&["cat", "-z"][..], "a.txt.gz"),
        (&["grep", "-z", "in"], "a.txt.gz"),
        (&["grep", "-z", "in"], &url),
    ] {
        let output = ground.command(command).arg(name).env("PATH", ground.path()).output().unwrap();
        assert_eq!(stdout(&output), "in no gzip\n", "{command:?} {name}: {}", stderr(&output));
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    }
}

#[test]
fn grep_searches_what_a_damaged_file_gives_when_decompressed() {
    let ground = small_files();
    let mut gzip = std::process::Command::new("gzip");
    assert!(gzip.arg(ground.path().join("a.txt")).status().unwrap().success());
    let path = ground.path().join("a.txt.gz");
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b"garbage").unwrap();
    let url = format!("file://{}", path.display());
    for name in ["a.txt.gz", &*url] {
        let output = ground.run(&["grep", "-z", "-I", "in", name]);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), "in a.txt\n"));
        let complaint = stderr(&output);
        assert!(complaint.contains(&format!("grep: {name}: ")), "{complaint}");
        assert!(complaint.contains("trailing garbage"), "{complaint}");
    }
}

#[test]
fn grep_says_of_no_damaged_file_that_nothing_is_in_it() {
    let ground = small_files();
    let path = ground.path().join("cut.gz");
    fs::write(&path, b"no gzip at all").unwrap();
    let url = format!("file://{}", path.display());
    for flags in [
        &["--files-without-match"][..],
        &["-c", "--include-zero"],
        &["--files-without-match", "-q"],
    ] {
        for name in ["cut.gz", &*url] {
            let output = ground.run(&[&["grep", "-z"][..], flags, &["zork", name]].concat());
            assert_eq!(
                (output.status.code(), stdout(&output).as_str()),
                (Some(2), ""),
                "{flags:?}"
            );
            assert!(stderr(&output).contains(&format!("grep: {name}: ")), "{}", stderr(&output));
        }
    }
}

#[test]
fn cp_keeps_the_tree_below_the_first_wildcard_and_the_times() {
    let ground = small_files();
    let output = ground.run(&["cp", "**/*.txt", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for name in ["a.txt", "b.txt", "d/c.txt"] {
        let (from, to) = (ground.path().join(name), ground.path().join("to").join(name));
        assert_eq!(fs::read(&to).unwrap(), fs::read(&from).unwrap());
        let modified = |path: &std::path::Path| path.metadata().unwrap().modified().unwrap();
        assert_eq!(modified(&to), modified(&from));
    }
    assert_eq!(fs::read_dir(ground.path().join("to")).unwrap().count(), 3, "nothing is left over");
    let output = ground.run(&["cp", "d/c.txt", "one"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(ground.path().join("one")).unwrap(), b"in d/c.txt\n");
}

#[test]
fn cp_copies_what_the_kernel_makes_as_it_is_read() {
    let ground = small_files();
    // One tells no size, the other that of a page.
    let files = ["/proc/version", "/sys/devices/system/cpu/possible"];
    let output = ground.run(&["cp", files[0], files[1], "to/"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    for (file, name) in files.into_iter().zip(["version", "possible"]) {
        let copy = fs::read(ground.path().join("to").join(name)).unwrap();
        assert_eq!(copy, fs::read(file).unwrap());
    }
}

#[test]
fn cp_copies_no_copies() {
    let ground = small_files();
    let is = |name: &str| ground.path().join(name).exists();
    ground.create("to/old/o.txt", "old");
    symlink("to", ground.path().join("link")).unwrap();
    for (args, made) in [
        (&["**", "to"][..], "to/d/c.txt"),
        (&["--skip-existing", "**", "link"], "to/a.txt"),
        (&["*/**/*.txt", "link/sub"], "to/sub/d/c.txt"),
        (&["--allow-programs", "%find d to -type f%", "to/new"], "to/new/d/c.txt"),
    ] {
        let output = ground.run(&[&["cp"], args].concat());
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
        assert!(is(made), "{made}");
    }
    for folder in ["to/to", "to/link", "to/sub/to/sub", "to/sub/link/sub", "to/new/to/new"] {
        assert!(!is(folder), "{folder}");
    }
    let url = format!("file://{}/**", ground.path().display());
    for _ in 0..2 {
        ground.run(&["cp", "--skip-existing", &url, "to/url"]);
    }
    assert!(is("to/url/d/c.txt") && !is("to/url/to/url"));
    // Who looks there means what is there.
    let output = ground.run(&["cp", "to/o*/*", "to/a/"]);
    assert!(output.status.success() && is("to/a/old/o.txt"), "{}", stderr(&output));
    let output = ground.run(&["cp", "to/old/*", "to"]);
    assert!(output.status.success() && is("to/o.txt"), "{}", stderr(&output));
}

#[test]
fn cp_replaces_only_what_it_is_told_to() {
    let ground = small_files();
    let copied = ground.create("to/a.txt", "mine");
    let output = ground.run(&["cp", "a.txt", "b.txt", "to"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("nearfirst cp: a.txt: to/a.txt is there: "));
    assert_eq!(fs::read(&copied).unwrap(), b"mine");
    assert_eq!(fs::read(ground.path().join("to/b.txt")).unwrap(), b"in b.txt\n");
    let output = ground.run(&["cp", "--skip-existing", "a.txt", "b.txt", "to"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(fs::read(&copied).unwrap(), b"mine");
    let modified = fs::metadata(ground.path().join("a.txt")).unwrap().modified().unwrap();
    let hour = Duration::from_hours(1);
    for (at, text, left) in [
        (modified + hour, "mine", true),
        (modified + hour, "IN A.TXT\n", true),
        (modified, "IN A.TXT\n", true),
        (modified, "in a.", false),
        (modified - hour, "IN A.TXT\n", false),
    ] {
        fs::write(&copied, text).unwrap();
        File::options().write(true).open(&copied).unwrap().set_modified(at).unwrap();
        let output = ground.run(&["cp", "--update", "a.txt", "to"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let expected = if left { text } else { "in a.txt\n" };
        assert_eq!(fs::read_to_string(&copied).unwrap(), expected, "{text} of {at:?}");
    }
    assert!(ground.run(&["cp", "--force", "a.txt", "to"]).status.success());
    assert_eq!(fs::read(&copied).unwrap(), b"in a.txt\n");
}

#[test]
fn cp_neither_waits_for_nor_writes_through_what_lies_where_it_notes_a_version() {
    let ground = small_files();
    let kept = ground.create("kept", "mine");
    ground.create("to/.a.txt.nearfirst-part", "half");
    let noted = ground.path().join("to/.a.txt.nearfirst-version");
    symlink(&kept, &noted).unwrap();
    let output = ground.run(&["cp", "a.txt", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(&kept).unwrap(), b"mine");
    ground.create("to/.b.txt.nearfirst-part", "half");
    let noted = ground.path().join("to/.b.txt.nearfirst-version");
    rustix::fs::mknodat(rustix::fs::CWD, &noted, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let output = ground.run(&["cp", "b.txt", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(ground.path().join("to/b.txt")).unwrap(), b"in b.txt\n");
}

#[test]
fn a_copy_that_is_gone_on_with_has_patience_with_a_busy_server() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(1 << 20, 1);
    let whole = Answer::bytes(&bytes).etag("\"e\"");
    let busy = Answer::status(503);
    // The first is asked what it is.
    server.answers("/f", [whole.clone(), busy.clone(), busy.clone(), busy, whole]);
    begin_copy(&ground, "f", &bytes);
    let output = ground.run(&["cp", "--stats", "--attempts=1", &server.url("/f"), "to/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 gone on with"), "{}", stderr(&output));
    assert!(fs::read(ground.path().join("to/f")).unwrap() == bytes);
}

#[test]
fn of_copies_that_are_gone_on_with_no_more_than_one_is_fetched_and_one_asked_about_at_a_time() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(1 << 20, 1);
    for name in ["f1", "f2", "f3", "f4"] {
        let answer = Answer::bytes(&bytes).etag("\"e\"");
        // Long enough to be met by the others.
        server.answer(&format!("/{name}"), answer.delayed(Duration::from_millis(100)));
        begin_copy(&ground, name, &bytes);
    }
    let url = server.url("/f{1,2,3,4}");
    let output = ground.run(&["cp", "--stats", "--window-max=1", &url, "to/"]);
    assert!(stderr(&output).contains("4 gone on with"), "{}", stderr(&output));
    assert!(server.total().concurrent_max <= 2);
}

#[test]
fn a_part_of_what_turns_out_small_is_gone_on_with() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(200 << 10, 1);
    // Its size was not told when it was broken off: of what is known to be small nothing is noted.
    begin_copy(&ground, "f", &bytes);
    server.answer("/f", Answer::bytes(&bytes).etag("\"e\""));
    let output = ground.run(&["cp", "--stats", &server.url("/f"), "to/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 gone on with"), "{}", stderr(&output));
    assert!(fs::read(ground.path().join("to/f")).unwrap() == bytes);
    assert_eq!(fs::read_dir(ground.path().join("to")).unwrap().count(), 1);
}

#[test]
fn a_copy_that_is_gone_on_with_comes_in_parts_side_by_side() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(60 << 20, 1);
    let answer = Answer::bytes(&bytes).etag("\"e\"");
    // Long enough to be met by the others.
    server.answer("/f", answer.delayed(Duration::from_millis(500)));
    begin_copy(&ground, "f", &bytes);
    let output = ground.run(&["cp", "--stats", &server.url("/f"), "to/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("30.0 MiB in"), "{}", stderr(&output));
    assert!(fs::read(ground.path().join("to/f")).unwrap() == bytes);
    let requests = server.requests();
    let ranges: Vec<_> = requests.iter().filter_map(|request| request.header("range")).collect();
    let (half, part) = (30 << 20, 8 << 20);
    assert!(ranges.contains(&&*format!("bytes={half}-{}", half + part - 1)), "{ranges:?}");
    assert!(server.total().concurrent_max > 1, "{ranges:?}");
}

#[test]
fn a_part_that_is_whole_becomes_the_file_and_one_of_another_object_is_begun_anew() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(1 << 20, 1);
    server.answer("/f", Answer::bytes(&bytes).etag("\"e\""));
    for (here, version, resumed) in [
        (&bytes[..], "\"e\"", 1),
        // As a listing may have told it.
        (&bytes, "e", 1),
        (&[&bytes[..], b"more"].concat(), "\"e\"", 0),
        (&bytes, "\"d\"", 0),
    ] {
        ground.create("to/.f.nearfirst-part", here);
        ground.create("to/.f.nearfirst-version", version);
        let output = ground.run(&["cp", "--force", "--stats", &server.url("/f"), "to/"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let told = format!("{resumed} gone on with");
        assert!(stderr(&output).contains(&told), "{}", stderr(&output));
        assert!(fs::read(ground.path().join("to/f")).unwrap() == bytes);
        assert_eq!(fs::read_dir(ground.path().join("to")).unwrap().count(), 1);
    }
}

#[test]
fn a_copy_of_a_file_goes_on_where_it_was_broken_off() {
    let ground = small_files();
    let bytes = testkit::noise(1 << 20, 1);
    let file = ground.create("large", &bytes);
    let about = file.metadata().unwrap();
    let version = format!("{}.{:09}-{}", about.mtime(), about.mtime_nsec(), about.len());
    ground.create("to/.large.nearfirst-part", &bytes[..1 << 19]);
    ground.create("to/.large.nearfirst-version", version);
    let output = ground.run(&["cp", "--stats", "large", "to/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("512 KiB in"), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 gone on with"), "{}", stderr(&output));
    assert!(fs::read(ground.path().join("to/large")).unwrap() == bytes);
}

#[test]
fn cp_goes_on_with_nothing_that_another_user_put_where_it_keeps_a_part() {
    skip_unless!(Facility::Root);
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(1 << 20, 1);
    server.answer("/f", Answer::bytes(&bytes).etag("\"e\""));
    let planted = vec![b'x'; bytes.len() / 2];
    let [part, noted] = ["part", "version"].map(|what| format!("to/.f.nearfirst-{what}"));
    let plant = |names: &[&String]| {
        ground.create(&part, &planted);
        ground.create(&noted, "\"e\"");
        for name in names {
            chown(ground.path().join(name), Some(1234), Some(1234)).unwrap();
        }
    };
    let kept = |name: &str| fs::read(ground.path().join(name)).ok();
    let args = ["cp", "--stats", &server.url("/f"), "to/"];

    plant(&[&part]);
    fs::set_permissions(ground.path().join(&part), fs::Permissions::from_mode(0o666)).unwrap();
    for noted_too in [true, false] {
        let output = ground.run(&args);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let said = "to/.f.nearfirst-part is of user 1234, and a copy goes on by whose it is alone; \
                    remove it, or copy as that user\n";
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert_eq!((kept(&part).as_ref(), kept("to/f")), (Some(&planted), None));
        assert_eq!(kept(&noted).is_some(), noted_too);
        drop(fs::remove_file(ground.path().join(&noted)));
    }

    plant(&[&noted]);
    chown(ground.path().join(&part), Some(0), Some(0)).unwrap();
    let output = ground.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("0 gone on with"), "{}", stderr(&output));
    assert!(kept("to/f").unwrap() == bytes);

    // Where everybody may make files, and remove only his own.
    fs::remove_file(ground.path().join("to/f")).unwrap();
    fs::set_permissions(ground.path().join("to"), fs::Permissions::from_mode(0o1777)).unwrap();
    plant(&[&part, &noted]);
    for name in [&part, &noted] {
        let output = ground.command_as_nobody(&args).unwrap().output().unwrap();
        let said = format!("{name} is of user 1234, and");
        assert!(stderr(&output).contains(&said), "{}", stderr(&output));
        assert_eq!((output.status.code(), kept("to/f")), (Some(1), None));
        fs::remove_file(ground.path().join(name)).unwrap();
    }
    let output = ground.command_as_nobody(&args).unwrap().output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn cp_writes_to_no_file_that_was_linked_to_where_it_keeps_a_part() {
    let ground = small_files();
    let kept = ground.create("kept", "mine");
    fs::create_dir(ground.path().join("to")).unwrap();
    fs::hard_link(&kept, ground.path().join("to/.a.txt.nearfirst-part")).unwrap();
    let output = ground.run(&["cp", "a.txt", "to/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(&kept).unwrap(), b"mine");
    assert_eq!(fs::read(ground.path().join("to/a.txt")).unwrap(), b"in a.txt\n");
    assert_eq!(fs::read_dir(ground.path().join("to")).unwrap().count(), 1);
}

#[test]
fn a_part_of_another_umask_is_gone_on_with_and_gets_the_permissions_of_this_one() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let bytes = testkit::noise(1 << 20, 1);
    server.answer("/f", Answer::bytes(&bytes).etag("\"e\""));
    let copied = ground.path().join("to/f");
    let narrowed = [(0o666, "22", 0o644), (0o666, "77", 0o600), (0o666, "0", 0o666)];
    let widened = [(0o600, "22", 0o644), (0o600, "77", 0o600), (0o600, "0", 0o666)];
    for (begun, umask, mode) in [narrowed, widened].concat() {
        begin_copy(&ground, "f", &bytes);
        let part = ground.path().join("to/.f.nearfirst-part");
        fs::set_permissions(part, fs::Permissions::from_mode(begun)).unwrap();
        let args = ["cp", "--force", "--stats", &server.url("/f"), "to/"];
        let output = ground.command_with_umask(umask, &args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("1 gone on with"), "{}", stderr(&output));
        assert!(fs::read(&copied).unwrap() == bytes);
        assert_eq!(copied.metadata().unwrap().mode() & 0o7777, mode, "{begun:o} {umask}");
        fs::set_permissions(&copied, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(fs::read_dir(ground.path().join("to")).unwrap().count(), 1);
    }
}

#[test]
fn cp_lets_nobody_read_more_than_before() {
    let ground = small_files();
    let set_mode = |name: &str, mode| {
        fs::set_permissions(ground.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = |name: &str| ground.path().join(name).metadata().unwrap().mode() & 0o7777;
    set_mode("a.txt", 0o400);
    set_mode("b.txt", 0o4700);
    let output = ground.run(&["cp", "a.txt", "b.txt", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!((mode("to/a.txt"), mode("to/b.txt")), (0o400, 0o700));
}

#[test]
fn cp_leaves_a_file_that_is_its_own_target() {
    let ground = small_files();
    fs::hard_link(ground.path().join("a.txt"), ground.path().join("d/a.txt")).unwrap();
    for to in [".", "d"] {
        let output = ground.run(&["cp", "--force", "a.txt", to]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).ends_with("a.txt is the same file\n"), "{}", stderr(&output));
    }
    assert_eq!(ground.path().join("a.txt").metadata().unwrap().nlink(), 2);
}

#[test]
fn a_file_is_no_copy_of_itself() {
    let ground = small_files();
    for again in [false, true] {
        let output = ground.run(&["cp", "--stats", "a.txt", "to/"]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("1 already there"), again, "{}", stderr(&output));
    }
    symlink("a.txt", ground.path().join("link")).unwrap();
    fs::hard_link(ground.path().join("a.txt"), ground.path().join("second")).unwrap();
    for to in [".", "link", "second"] {
        let output = ground.run(&["cp", "a.txt", to]);
        assert_eq!(output.status.code(), Some(1), "{to}");
        assert!(stderr(&output).contains("is there: --force"), "{}", stderr(&output));
    }
}

#[test]
fn a_copy_is_known_again_however_old_its_file_is() {
    let ground = small_files();
    for ms in [1500, 2000] {
        let file = fs::File::open(ground.path().join("a.txt")).unwrap();
        file.set_modified(UNIX_EPOCH - Duration::from_millis(ms)).unwrap();
        assert!(ground.run(&["cp", "--force", "a.txt", "to"]).status.success());
        let output = ground.run(&["cp", "--stats", "a.txt", "to"]);
        assert!(stderr(&output).contains("1 already there"), "{}", stderr(&output));
    }
}

#[test]
fn cp_looks_at_what_a_link_leads_to() {
    let ground = small_files();
    let link = |to: &str, at: &str| symlink(to, ground.path().join(at)).unwrap();
    ground.create("to/other/x", "x");
    link("other", "to/a.txt");
    link("../b.txt", "to/b.txt");
    let output = ground.run(&["cp", "--force", "a.txt", "to"]);
    assert_eq!(stderr(&output), "nearfirst cp: a.txt: to/a.txt is a folder\n");
    let output = ground.run(&["cp", "--update", "--verbose", "b.txt", "to"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), ""));
    assert!(ground.path().join("to/b.txt").is_symlink(), "what it leads to is not older");
    ground.create("c.txt", "before");
    link("../c.txt", "to/c.txt");
    ground.create("new/c.txt", "after");
    let output = ground.run(&["cp", "--force", "new/c.txt", "to"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(ground.path().join("to/c.txt").is_symlink());
    assert_eq!(fs::read(ground.path().join("c.txt")).unwrap(), b"after");
}

#[test]
fn cp_fetches_nothing_for_a_full_disk_and_keeps_what_it_copied() {
    skip_unless!(Facility::Root);
    let (ground, server, disk) = (small_files(), Misbehaving::new(), Tmpfs::new(1 << 20));
    let bytes = testkit::noise(100_000, 1);
    let paths: Vec<_> = (0..300).map(|at| format!("/{at}")).collect();
    for path in &paths {
        server.answer(path, Answer::bytes(&bytes));
    }
    ground.create("list", paths.iter().map(|path| server.url(path) + "\n").collect::<String>());
    let output = ground.run(&["cp", "@list", disk.path().to_str().unwrap()]);
    let told = stderr(&output);
    assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    let (cause, rest) = told.split_once("; not copied: ").unwrap();
    assert!(cause.ends_with(": No space left on device"), "{told}");
    let left: usize = rest.strip_suffix(" objects known so far\n").unwrap().parse().unwrap();
    let copies = fs::read_dir(disk.path()).unwrap().map(|copy| copy.unwrap().path());
    let copies: Vec<_> = copies.filter(|copy| !copy.to_str().unwrap().contains("/.")).collect();
    assert!(!copies.is_empty() && left > 0 && left + copies.len() <= 300, "{told}");
    assert!(copies.iter().all(|copy| fs::read(copy).unwrap() == bytes));
    assert!(server.total().requests < 200, "{:?}", server.total());
}

#[test]
fn cp_names_each_file_on_one_line_and_makes_the_folder_of_a_dot() {
    let ground = Ground::new();
    ground.create("a\n\x1bb", "x");
    let output = ground.run(&["cp", "--verbose", "a*", "new/."]);
    assert_eq!(stdout(&output), "a\\n\\x1bb -> new/./a\\n\\x1bb\n", "{}", stderr(&output));
    ground.create("new/a\n\x1bb", "mine");
    let output = ground.run(&["cp", "a*", "new"]);
    assert!(stderr(&output).contains(": new/a\\n\\x1bb is there: "), "{}", stderr(&output));
    ground.create("b", "x");
    let output = ground.run(&["cp", "b", "other/."]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(ground.path().join("other/b")).unwrap(), b"x");
}

#[test]
fn cp_refuses_two_objects_of_one_name_and_shows_what_it_would_do() {
    let ground = small_files();
    ground.create("e/c.txt", "other");
    let output = ground.run(&["cp", "-n", "d/c.txt", "a.txt", "to"]);
    let mut lines: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a.txt -> to/a.txt", "d/c.txt -> to/c.txt"]);
    assert!(!ground.path().join("to").exists());
    assert!(stderr(&output).contains("nothing was copied (to leave"), "{}", stderr(&output));
    for existing in ["-f", "-u", "--skip-existing"] {
        let output = ground.run(&["cp", "-n", existing, "a.txt", "to"]);
        assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a.txt -> to\n", ""));
    }
    let output = ground.run(&["cp", "d/c.txt", "e/c.txt", "to"]);
    assert_eq!(output.status.code(), Some(1));
    let told = "nearfirst cp: e/c.txt: to/c.txt would be that of d/c.txt, too\n";
    assert_eq!(stderr(&output), told);
    assert_eq!(fs::read(ground.path().join("to/c.txt")).unwrap(), b"in d/c.txt\n");
    assert_eq!(ground.run(&["cp", "a.txt", "b.txt", "e/c.txt"]).status.code(), Some(2));
}

#[test]
fn each_runs_a_command_on_every_member_and_groups_its_output() {
    let ground = small_files();
    let script = "cat \"$1\"; echo $NEARFIRST_NAME; cat; echo done >&2";
    let args = ["each", "--ordered", "-j3", "**/*.txt", "--", "sh", "-c", script, "sh"];
    let output = ground.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    let names = ["a.txt", "b.txt", "d/c.txt"];
    let expected: String = names.map(|name| format!("in {name}\n{name}\n")).concat();
    assert_eq!(stdout(&output), expected);
    assert_eq!(stderr(&output), "done\ndone\ndone\n");
    let output = ground.run(&["each", "a.txt", "--", "echo", "{size}:{name}", "<{}>"]);
    assert_eq!(stdout(&output), "9:a.txt <a.txt>\n");
}

#[test]
fn each_whose_output_nobody_reads_says_what_had_no_command() {
    let ground = small_files();
    let run = |flags: &[&str], script: &str| {
        let words = [&["each", "-j1"], flags, &["**/*.txt", "--", "sh", "-c", script]].concat();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = ground.command(&words).stdout(writer).output().unwrap();
        let ran = fs::read_to_string(ground.path().join("ran")).unwrap();
        fs::remove_file(ground.path().join("ran")).unwrap();
        (output.status.code(), ran.lines().count(), stderr(&output))
    };
    let (code, ran, told) = run(&[], "echo x >> ran; echo text");
    assert_eq!((code, ran), (Some(141), 1), "{told}");
    assert!(told.starts_with("nearfirst each: the output is closed: "), "{told}");
    assert!(told.ends_with("had no command\n"), "{told}");
    let (code, ran, told) = run(&[], "echo x >> ran; echo text; exit 3");
    assert_eq!((code, ran), (Some(1), 1), "what fails is not hidden: {told}");
    let (code, ran, told) = run(&["-u"], "echo x >> ran; echo text");
    assert_eq!((code, ran), (Some(1), 3), "{told}");
}

#[test]
fn each_runs_what_the_kernel_cannot_as_a_script_of_the_shell() {
    let ground = small_files();
    let script = ground.create("script", "echo of a script: $*\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", ground.path().display());
    for program in ["./script", "script"] {
        let mut command = ground.command(&["each", "a.txt", "--", program]);
        let output = command.env("PATH", &path).output().unwrap();
        assert_eq!(stdout(&output), "of a script: a.txt\n", "{}", stderr(&output));
    }
}

#[test]
fn each_has_no_more_threads_than_members() {
    let ground = small_files();
    let output = ground.run(&["each", "-j", "99999999", "--ordered", "*.txt", "--", "echo"]);
    assert_eq!(stdout(&output), "a.txt\nb.txt\n", "{}", stderr(&output));
}

/// Runs a program on a terminal of its own, until it ends.
const ON_A_TERMINAL: &str = r"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b''
try:
    while more := os.read(terminal, 4096):
        said += more
except OSError:
    pass
_, status = os.waitpid(pid, 0)
print(said.decode().replace('\r', ''), os.waitstatus_to_exitcode(status))
";

#[test]
fn a_command_that_waits_for_the_terminal_is_ended_and_told_of() {
    skip_unless!(Facility::Tool("python3"));
    let ground = small_files();
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let on_a_terminal = |args: &[&str]| {
        let python = cmd("python3", ["-c", ON_A_TERMINAL, program]);
        let python = args.iter().fold(python, testkit::Cmd::arg);
        python.dir(ground.path()).run().text()
    };
    let reads = "read x </dev/tty; echo got $x";
    let told = on_a_terminal(&["each", "a.txt", "--", "sh", "-c", reads]);
    let expected =
        "a.txt: sh was ended: it waited for the terminal, which commands of each have not";
    assert!(told.contains(expected) && told.ends_with(" 1\n"), "{told}");
    let spec = format!("./%sh -c '{reads}'%");
    let told = on_a_terminal(&["ls", "--allow-programs", &spec]);
    let expected = "it waits for the terminal, which programs that name objects have not";
    assert!(told.contains(expected) && told.ends_with(" 1\n"), "{told}");
    // Though it has closed what it names them on.
    let spec = format!("./%sh -c 'echo a.txt; exec >&-; {reads}'%");
    let told = on_a_terminal(&["ls", "--allow-programs", &spec]);
    assert!(told.contains(expected) && told.ends_with(" 1\n"), "{told}");
}

#[test]
fn each_says_once_why_it_cannot_begin() {
    let ground = small_files();
    let mut command = ground.command(&["each", "a.txt", "--", "cat"]);
    let output = command.env("TMPDIR", "/missing").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = "/missing: No such file or directory; what commands write is kept there, if neither \
                --spill nor TMPDIR names another folder";
    assert_eq!(stderr(&output), format!("nearfirst each: {said}\n"));
}

#[test]
fn each_makes_a_folder_for_copies_only_where_there_are_any() {
    let (ground, server) = (small_files(), Misbehaving::new());
    let folder = ground.path().join("temporary");
    fs::create_dir(&folder).unwrap();
    let run = |tmp: &str, specs: &[&str], words: &[&str]| {
        let mut command = ground.command(&[&["each", "-u"], specs, &["--"], words].concat());
        command.env("TMPDIR", tmp).output().unwrap()
    };
    let url = format!("file://{}/b.txt", ground.path().display());
    let local = ["a.txt", &url];
    let listed = run(folder.to_str().unwrap(), &local, &["sh", "-c", "ls temporary"]);
    assert_eq!((listed.status.code(), stdout(&listed).as_str()), (Some(0), ""));
    assert_eq!(run("/missing", &local, &["true"]).status.code(), Some(0));
    let path = format!("{}\n", ground.path().join("b.txt").display());
    assert_eq!(stdout(&run("/missing", &[&url], &["echo"])), path);
    let says_path = ground.create("says_path", "#!/bin/sh\necho $1\n");
    fs::set_permissions(&says_path, fs::Permissions::from_mode(0o755)).unwrap();
    let searched = ground.run(&["grep", "-I", "--pre=./says_path", "txt", &url]);
    assert_eq!(stdout(&searched), path, "{}", stderr(&searched));
    let urls = ["/1", "/2"].map(|path| {
        server.answer(path, Answer::bytes(b"text"));
        server.url(path)
    });
    let remote: Vec<_> = urls.iter().map(String::as_str).collect();
    let copied = run(folder.to_str().unwrap(), &remote, &["cat"]);
    assert_eq!(stdout(&copied), "texttext", "{}", stderr(&copied));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    let refused = run("/missing", &remote, &["cat"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(stderr(&refused), "nearfirst each: /missing: No such file or directory\n");
}

#[test]
fn what_is_written_down_of_objects_only_its_user_may_read_whatever_the_umask() {
    let (ground, server) = (small_files(), Misbehaving::new());
    server.answer("/f", Answer::bytes("secret"));
    let modes = "stat -c %a \"$1\" \"${1%/*}\" \"${1%/*/*}\"";
    let url = server.url("/f");
    let args = ["each", "--record-order=taken", &url, "--", "sh", "-c", modes, "sh", "{}"];
    let output = ground.command_with_umask("0", &args).output().unwrap();
    assert_eq!(stdout(&output), "600\n700\n700\n", "{}", stderr(&output));
    let mode = || ground.path().join("taken").metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // Who has a file there has chosen who reads it.
    fs::set_permissions(ground.path().join("taken"), fs::Permissions::from_mode(0o644)).unwrap();
    let output = ground.run(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(mode(), 0o644);
}

#[test]
fn thousands_that_fail_are_an_error_each_and_the_rest_is_done() {
    let (ground, server) = (small_files(), Misbehaving::new());
    server.answer("/there", Answer::bytes("it is\n"));
    let names = (0..1000).map(|number| server.url(&format!("/none{number}")));
    let files = (0..1000).map(|number| format!("none{number}"));
    let all = names.chain([server.url("/there")]).chain(files);
    ground.create("list", all.map(|name| name + "\n").collect::<String>());
    for (args, code, printed) in [
        (&["cat", "@list"][..], 1, "it is\n"),
        (&["grep", "-I", "it", "@list"], 2, "it is\n"),
        (&["each", "@list", "--", "cat"], 1, "it is\n"),
    ] {
        let output = ground.run(args);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), printed));
        let said = stderr(&output);
        let missing = said.lines().filter(|line| line.ends_with(": not found")).count();
        let no_files =
            said.lines().filter(|line| line.ends_with(": No such file or directory")).count();
        assert_eq!((missing, no_files), (1000, 1000), "{args:?}: {said}");
    }
}

#[test]
fn a_copy_that_finds_no_room_fails_alone() {
    skip_unless!(Facility::Root);
    let (ground, server, disk) = (small_files(), Misbehaving::new(), Tmpfs::new(1 << 20));
    server.answer("/large", Answer::bytes(testkit::noise(3 << 20, 1)));
    let names = || (0..30).map(|at| format!("/{at}"));
    names().for_each(|name| server.answer(&name, Answer::bytes("a line\n")));
    let all = std::iter::once("/large".to_owned()).chain(names());
    ground.create("list", all.map(|name| server.url(&name) + "\n").collect::<String>());
    for args in [
        &["each", "--jobs=1", "--ordered", "@list", "--", "cat"][..],
        &["grep", "--jobs=1", "--pre=cat", "-I", "line", "@list"],
    ] {
        let output = ground.command(args).env("TMPDIR", disk.path()).output().unwrap();
        assert_eq!(stdout(&output), "a line\n".repeat(30), "{}", stderr(&output));
        let why = format!(
            "/large: no copy can be made in {}: No space left on device; --spill names another folder",
            disk.path().display()
        );
        assert!(stderr(&output).contains(&why), "{}", stderr(&output));
        assert_ne!(output.status.code(), Some(0));
    }
}

#[test]
fn each_keeps_what_a_command_wrote_though_what_it_left_behind_writes_on() {
    let ground = small_files();
    let left_behind = "(n=0; while [ $n -lt 200000 ]; do n=$((n+1)); echo x; done) &";
    let script = format!("head -c 8000000 /dev/zero | tr '\\0' a; {left_behind} sleep 0.05");
    let output = ground.run(&["each", "a.txt", "--", "sh", "-c", &script, "sh"]);
    let kept = output.stdout.iter().take_while(|&&byte| byte == b'a').count();
    assert_eq!((output.status.code(), kept), (Some(0), 8_000_000), "{}", stderr(&output));
}

#[test]
fn each_says_which_command_failed_and_can_stop_there() {
    let ground = small_files();
    let output = ground.run(&["each", "a.txt", "b.txt", "--", "grep", "b"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "in b.txt\n");
    assert_eq!(stderr(&output), "nearfirst each: a.txt: grep ended with 1\n");
    let killed = ground.run(&["each", "a.txt", "--", "sh", "-c", "kill -9 $$"]);
    assert!(stderr(&killed).contains("sh was ended by signal 9"), "{}", stderr(&killed));
    let args = ["each", "--halt-on-error", "-j1", "--ordered", "missing", "a.txt", "--", "cat"];
    let output = ground.run(&args);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    let output = ground.run(&["each", "a.txt", "b.txt", "--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "nearfirst each: no-such-program: No such file or directory\n");
}

#[test]
fn an_interrupt_ends_the_children_with_the_run() {
    let ground = small_files();
    let script = "echo $$ > pid; exec sleep 1000";
    let mut command = ground.command(&["each", "a.txt", "--", "sh", "-c", script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = ground.path().join("pid");
    let read = || fs::read_to_string(&pid).ok()?.trim().parse::<i32>().ok();
    until("the command runs", || read().is_some());
    let sleeper = Pid::from_raw(read().unwrap()).unwrap();
    // Not INT: where these tests run in the background of a shell, that is ignored.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(143), ""));
    until("the child is gone", || rustix::process::test_kill_process(sleeper).is_err());
}

#[test]
fn how_a_command_ends_is_known_where_children_are_ignored_from_the_start() {
    let ground = small_files();
    let ignoring = |line: &str| {
        let line = format!("trap '' CHLD; exec {} {line}", env!("CARGO_BIN_EXE_nearfirst"));
        let mut command = std::process::Command::new("bash");
        let output = command.args(["-c", &line]).current_dir(ground.path()).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let said = |code, out: &str, err: &str| (Some(code), out.to_owned(), err.to_owned());
    assert_eq!(ignoring("ls --allow-programs '%echo a.txt%'"), said(0, "a.txt\n", ""));
    let failed = "nearfirst each: a.txt: false ended with 1\n";
    assert_eq!(ignoring("each a.txt -- false"), said(1, "", failed));
    assert_eq!(ignoring("find d/c.txt -exec true \\; -print"), said(0, "d/c.txt\n", ""));
}

#[test]
fn an_interrupt_that_is_ignored_from_the_start_stays_ignored() {
    let ground = small_files();
    let script = "trap '' INT; exec \"$0\" each a.txt -- sh -c 'kill -INT $PPID; echo done'";
    let nearfirst = env!("CARGO_BIN_EXE_nearfirst");
    let mut command = std::process::Command::new("sh");
    let output =
        command.args(["-c", script, nearfirst]).current_dir(ground.path()).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "done\n"));
}

#[test]
fn what_cannot_be_understood_is_usage() {
    let ground = small_files();
    for args in [
        &["cp", "a.txt"][..],
        &["each", "a.txt"],
        &["cat"],
        &["ls", "--budget=much", "a.txt"],
        &["cat", "--storage-option=region", "a.txt"],
        &["cat", "--storage-option=endpont=http://host", "a.txt"],
    ] {
        assert_eq!(ground.run(args).status.code(), Some(2), "{args:?}");
    }
    for (command, code) in [("cat", 2), ("find", 1), ("grep", 2), ("order", 2), ("wc", 1)] {
        for (option, told) in [
            (
                "secret_acess_key=HUNTER2",
                "secret_acess_key: no store knows this option; did you mean",
            ),
            ("HUNTER2", "--storage-option: wanted is NAME=VALUE"),
            ("=HUNTER2", "--storage-option: wanted is NAME=VALUE"),
        ] {
            let output = ground.run(&[command, "--storage-option", option, "a.txt", "a.txt"]);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(code), "{command} {option}: {said}");
            assert!(said.contains(told) && !said.contains("HUNTER2"), "{command}: {said}");
        }
    }
    let output = ground.run(&["cat", "xyz://host/a", "a.txt"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "in a.txt\n"));
    let told =
        "no store knows the scheme xyz://; there are s3, gs, az, webdav, sftp, hdfs, file, http";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
    let output = ground.run(&["cat", "HTTP://host/a"]);
    let told = "the scheme is written in small letters: http://";
    assert!(stderr(&output).contains(told), "{}", stderr(&output));
    let output = ground.run(&["ls", r"none.db\select 1\"]);
    assert_eq!(stderr(&output), "nearfirst ls: none.db: No such file or directory\n");
}

#[test]
fn a_program_that_lists_names_ends_with_a_run_that_is_broken_off() {
    let ground = Ground::new();
    let number = ground.path().join("number");
    ground.create("list.sh", "trap '' TERM\necho $$ > new; mv new number\nsleep 600\n");
    let mut command = ground.command(&["ls", "--allow-programs", "./%sh list.sh%"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it runs", || number.exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("it has ended", || is_gone(&number));
}

/// Lists `a.txt`, and then nothing for long; it cannot be asked to end.
const STUBBORN: &str = "exec 2> /dev/null\ntrap '' TERM\necho $$ > number\necho a.txt\nsleep 600\n";

#[test]
fn a_program_that_lists_names_ends_with_a_run_that_halts() {
    let ground = small_files();
    ground.create("list.sh", STUBBORN);
    let listed = ["--allow-programs", "./%sh list.sh%", "--", "false"];
    let output = ground.run(&[&["each", "--halt-on-error"], &listed[..]].concat());
    assert_eq!(stderr(&output), "nearfirst each: ./a.txt: false ended with 1\n");
    until("it has ended", || is_gone(&ground.path().join("number")));
}

#[test]
fn a_program_that_lists_names_ends_with_a_search_that_has_found_enough() {
    let ground = small_files();
    ground.create("list.sh", STUBBORN);
    let output = ground.run(&["grep", "-qj2", "in", "--allow-programs", "./%sh list.sh%"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    until("it has ended", || is_gone(&ground.path().join("number")));
}

#[test]
fn a_program_that_lists_names_ends_when_nobody_reads_them() {
    let ground = small_files();
    ground.create("list.sh", STUBBORN);
    let mut command = ground.command(&["ls", "--allow-programs", "./%sh list.sh%"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    child.wait().unwrap();
    until("it has ended", || is_gone(&ground.path().join("number")));
}

#[test]
fn a_program_that_lists_names_ends_with_commands_that_are_interrupted() {
    let ground = small_files();
    ground.create("list.sh", STUBBORN);
    let command = ["--", "sh", "-c", "echo begun > begun; exec sleep 600"];
    let args = [&["each", "--allow-programs", "./%sh list.sh%"], &command[..]].concat();
    let mut child = ground.command(&args).spawn().unwrap();
    until("the command runs", || ground.path().join("begun").exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    until("it has ended", || is_gone(&ground.path().join("number")));
}

/// Whether the process has ended whose number that file holds.
fn is_gone(number: &Path) -> bool {
    let number = fs::read_to_string(number).expect("it has begun");
    let stat = fs::read_to_string(format!("/proc/{}/stat", number.trim()));
    // Whoever adopted it may not have waited for it yet.
    stat.map_or(true, |stat| stat.contains(") Z"))
}

#[test]
fn short_of_threads_the_same_is_done_by_fewer_or_it_is_said_that_there_are_none() {
    skip_unless!(Facility::Root, Facility::Cgroup("pids"));
    let ground = small_files();
    let (copies, state) = (Dir::new(), Dir::new());
    let copies = copies.path().to_str().expect("a name of this test");
    for words in [
        ["ls", "a.txt", "b.txt"].as_slice(),
        &["cat", "a.txt", "b.txt"],
        &["cp", "-f", "a.txt", "b.txt", copies],
        &["wc", "a.txt", "b.txt"],
        &["grep", "in", "a.txt"],
        &["grep", "-r", "in", "."],
        &["grep", "--files", "."],
        &["grep", "--sort=path", "in", "."],
        &["order", "a.txt", "b.txt"],
    ] {
        let run = |most| {
            let program = cmd(env!("CARGO_BIN_EXE_nearfirst"), words).dir(ground.path());
            PidsCgroup::new(most).run(program.env("NEARFIRST_STATE", state.path()))
        };
        let mut codes = Vec::new();
        for most in [1, 2, 3, 4, 5, 6, 8, 12, 16] {
            let output = run(most);
            codes.push(output.code());
            let refused = output.stderr().contains("no threads can be started");
            assert_eq!(output.code() == 2, refused, "{words:?}, {most}: {}", output.stderr());
        }
        assert!(codes.is_sorted_by(|one, other| one >= other), "{words:?}: {codes:?}");
        assert_eq!(codes.last(), Some(&0), "{words:?}: {codes:?}");
    }
}

#[test]
fn holes_are_copied_as_holes() {
    const SIZE: u64 = 64 << 20;
    let ground = Ground::new();
    let path = ground.create("sparse", "begins");
    let file = fs::OpenOptions::new().write(true).open(path).expect("ours");
    file.set_len(SIZE).expect("it can be sparse");
    file.write_all_at(b"in the middle", SIZE / 2 + 5).expect("written");
    let output = ground.run(&["cp", "sparse", "copy"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (copy, source) = (ground.path().join("copy"), ground.path().join("sparse"));
    assert_eq!(fs::read(&copy).expect("copied"), fs::read(source).expect("ours"));
    let allocated = fs::metadata(copy).expect("copied").blocks() * 512;
    assert!(allocated < SIZE / 8, "{allocated}");
}

#[test]
fn few_descriptors_are_enough_for_many_members() {
    const MEMBERS: usize = 500;
    let ground = Ground::new();
    for number in 0..MEMBERS {
        ground.create(format!("{number}.txt"), "text\n");
    }
    let cat = format!("ulimit -n 32; exec {} cat '*.txt'", env!("CARGO_BIN_EXE_nearfirst"));
    let command = cmd("sh", ["-c", &cat]).dir(ground.path());
    let output = command.env("NEARFIRST_STATE", ground.state()).run();
    assert_eq!(output.text().lines().count(), MEMBERS, "{}", output.stderr());
    output.ends_with(0);
}

#[test]
fn what_connects_over_sftp_ends_with_the_run() {
    skip_unless!(Sftp::NEEDS);
    let (server, bin, state) = (Sftp::new(), Dir::new(), Dir::new());
    for number in 0..20 {
        server.put(&format!("d{number}/file"), "text\n");
    }
    let ssh = program("ssh").expect("looked for");
    let config = server.config();
    let wrapper = format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), config.display());
    let wrapper = bin.create("ssh", wrapper);
    fs::set_permissions(wrapper, fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").expect("a path"));
    let all = format!("sftp://{}{}/*/file", Sftp::HOST, server.root().display());
    let output = cmd(env!("CARGO_BIN_EXE_nearfirst"), ["cat", &all])
        .env("PATH", path)
        .env("XDG_STATE_HOME", state.path())
        .env("NEARFIRST_STATE", state.path().join("nearfirst"))
        .run();
    assert_eq!(output.text(), "text\n".repeat(20), "{}", output.stderr());
    let config = config.display().to_string();
    let is_ours = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&config)
    };
    // What was asked over them ends once they have.
    until("nothing is left", || !fs::read_dir("/proc").expect("mounted").flatten().any(is_ours));
    let left: Vec<_> = fs::read_dir(state.path()).expect("ours").flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name() == "nearfirst"), "{left:?}");
}

#[test]
fn few_descriptors_are_fewer_members_at_a_time() {
    let ground = Ground::new();
    let names: Vec<String> = (0..200).map(|number| format!("from/{number}.txt")).collect();
    for name in &names {
        ground.create(name, name);
    }
    let limited = |most: u32, words: &str| {
        let script = format!("ulimit -n {most}; exec {} {words}", env!("CARGO_BIN_EXE_nearfirst"));
        let sh = cmd("sh", ["-c", &script]).env("NEARFIRST_STATE", ground.state());
        sh.dir(ground.path()).run()
    };
    limited(24, "cp -j 400 'from/*.txt' to").succeeds();
    assert_eq!(fs::read_dir(ground.path().join("to")).unwrap().count(), names.len());
    let output = limited(40, "each -j 100 'from/*.txt' -- wc -l");
    assert_eq!(output.succeeds().text().lines().count(), names.len());
}
