//! `nearfirst trees replay` and `import`: what fetching on a guess would be worth on recorded work.

mod running;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use running::{Sentinel, nearfirst, script};
use serde_json::Value;
use testkit::{Cmd, Dir, Facility, Output, cmd, noise, skip_unless};

/// A folder of files, and a script that reads them.
fn work() -> (Dir, std::path::PathBuf) {
    let dir = Dir::new();
    let files: Vec<_> = (0..20)
        .map(|at| dir.create(format!("f{at}"), noise(30_000, at)).display().to_string())
        .collect();
    let script = script(&dir, "work", &format!("cat {} > /dev/null", files.join(" ")));
    (dir, script)
}

fn rows(output: &Output) -> Vec<Value> {
    output.succeeds().is_quiet();
    output.text().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn replay(state: &Dir) -> Cmd {
    nearfirst(state, &["trees", "replay", "--json"])
}

#[test]
fn of_two_recordings_the_second_shows_what_is_gained() {
    let (dir, script) = work();
    let state = Dir::new();
    let traces = ["first", "second"].map(|name| dir.join(name));
    for trace in &traces {
        let run = nearfirst(&state, &["run", "--record"]).arg(trace).arg("--").arg(&script);
        run.run().succeeds();
    }
    let rows = rows(&replay(&state).arg(&traces[0]).arg(&traces[1]).run());
    let by: Vec<_> = rows.iter().map(|row| row["by"].as_str().expect("a word")).collect();
    assert_eq!(by, ["nothing", "ours", "nothing", "ours"]);
    let of = |row: usize, field: &str| rows[row][field].as_f64().expect("a number");
    assert_eq!(rows[2]["trace"]["text"], traces[1].to_str().expect("text"));
    assert!(of(2, "misses") >= 20.0 && of(2, "predicted") == 0.0, "{rows:?}");
    assert!(of(3, "right") >= 20.0 && of(3, "waited_s") < of(2, "waited_s"), "{rows:?}");
    assert_eq!(rows[2]["reads"], rows[3]["reads"], "the same work");
    let text = nearfirst(&state, &["trees", "replay", "--by", "paper", "--device", "instant"]);
    let text = text.arg(&traces[0]).run();
    text.succeeds();
    let text = text.text();
    let [name, headings, paper] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("three: {text}")
    };
    assert!(name.ends_with(&format!("/first: {} reads", rows[0]["reads"])), "{name}");
    assert!(headings.starts_with("by ") && paper.starts_with("paper "), "{paper}");
    let several = replay(&state).arg("--by=paper,ours").arg("--by=ppm").arg(&traces[0]).run();
    let by: Vec<_> = self::rows(&several).iter().map(|row| row["by"].clone()).collect();
    assert_eq!(by, ["paper", "ours", "ppm"]);
    let no_trace = nearfirst(&state, &["trees", "replay"]).arg(&script).run();
    assert_eq!((no_trace.code(), no_trace.text()), (1, String::new()), "not even a header");
    // What was learned before is known if it is asked for, and is left as it is.
    let learned = fs::read(state.join("trees")).expect("saved");
    let known = replay(&state).arg("--state").arg(state.path()).arg(&traces[0]).run();
    let known = self::rows(&known);
    assert!(known[1]["right"].as_f64().expect("a number") >= 20.0, "{known:?}");
    assert_eq!(fs::read(state.join("trees")).expect("still there"), learned);
}

#[test]
fn with_little_memory_what_is_read_again_has_left_it() {
    let (dir, state, trace) = (Dir::new(), Dir::new(), Dir::new());
    let files: Vec<_> = (0..8).map(|at| dir.create(format!("f{at}"), noise(1 << 20, at))).collect();
    let names = files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let script = script(&dir, "twice", &format!("cat {names} {names} > /dev/null"));
    let trace = trace.join("trace");
    let run = nearfirst(&state, &["run", "--record"]).arg(&trace).arg("--").arg(&script);
    run.run().succeeds();
    let misses = |cache| {
        let rows = rows(&replay(&state).arg("--by=nothing").arg(cache).arg(&trace).run());
        rows[0]["misses"].as_u64().expect("a count")
    };
    let (little, enough) = (misses("--cache=4MiB"), misses("--cache=64MiB"));
    assert!(little >= enough + 8, "{little} and {enough}");
}

#[test]
fn output_of_strace_is_played_as_it_is_and_imported() {
    skip_unless!(Facility::Tool("strace"));
    let (dir, script) = work();
    let state = Dir::new();
    let out = dir.join("out");
    let strace = cmd("strace", ["-f", "-ttt", "-y", "-s", "4096", "-o"]).arg(&out);
    strace.arg(&script).run().succeeds();
    let played = rows(&replay(&state).arg(&out).arg(&out).run());
    assert!(played[3]["right"].as_f64().expect("a number") >= 20.0, "{played:?}");
    let imported = nearfirst(&state, &["trees", "import"]).arg(&out).run();
    imported.succeeds().is_quiet();
    let text = imported.text();
    assert!(text.starts_with("nearfirst-trace 1\n"), "{text}");
    assert!(text.contains(&format!("{} 30000", dir.join("f7").display())), "{text}");
    let by_stdin = nearfirst(&state, &["trees", "import"]);
    by_stdin.stdin(fs::read(&out).expect("written")).run().prints(text.as_bytes());
    assert_eq!(rows(&replay(&state).arg("-").stdin(text).run()).len(), 2);
}

#[test]
fn output_of_strace_is_the_same_work_whether_it_was_written_to_a_file_or_to_stderr() {
    skip_unless!(Facility::Tool("strace"));
    let (dir, script) = work();
    let (state, out) = (Dir::new(), dir.join("out"));
    let strace = || cmd("strace", ["-f", "-ttt", "-y", "-s", "4096"]);
    strace().arg("-o").arg(&out).arg(&script).run().succeeds();
    let written = fs::read(&out).expect("written");
    let told = strace().arg(&script).run().stderr();
    let events = |text: &[u8]| {
        let imported = nearfirst(&state, &["trees", "import"]).stdin(text).run();
        imported.succeeds().is_quiet();
        let event = |line: &str| line.split(' ').nth(1).map(str::to_owned);
        let mut events: Vec<_> = imported.text().lines().skip(1).filter_map(event).collect();
        events.sort_unstable();
        events
    };
    assert_eq!(events(told.as_bytes()), events(&written));
}

#[test]
fn of_what_strace_names_only_programs_are_looked_into() {
    let (state, dir) = (Dir::new(), Dir::new());
    let script = script(&dir, "script", "exit 0");
    let read = running::script(&dir, "read", "exit 0");
    let text = dir.create("text", "#!/bin/sh\n");
    // A size and no blocks, as of what was moved to another tier.
    let stub = dir.create_sparse("stub", 20_000);
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("ours");
    let executed = [&script, &text, &stub].map(|path| {
        let path = path.display();
        format!("10 100.0 execve(\"{path}\", [\"{path}\"], 0x7ffc /* 3 vars */) = 0\n")
    });
    let opened = format!("10 100.1 openat(AT_FDCWD, \"{}\", O_RDONLY) = 3\n", read.display());
    let sentinels = [&read, &text, &stub].map(|path| Sentinel::at(path));
    let run = nearfirst(&state, &["trees", "import"]).stdin(executed.concat() + &opened).run();
    run.succeeds().is_quiet();
    assert!(sentinels.iter().all(Sentinel::has_seen_nobody), "somebody opened what is no program");
    let bash = fs::canonicalize("/bin/bash").expect("there");
    assert!(run.text().contains(&format!(" {} ", bash.display())), "{}", run.text());
}

#[test]
fn what_is_no_trace_is_said_and_the_others_are_played() {
    let (state, dir) = (Dir::new(), Dir::new());
    let good =
        dir.create("good", "nearfirst-trace 1\nfile 0 /bin/cat 4096\n0 found 1 1\n0 exec 1 0 /\n");
    let bad = dir.create("bad", "nearfirst-trace 1\n0 nonsense 1\n");
    let none = dir.create("none", "neither this nor that\n");
    let output = replay(&state).arg(&bad).arg(&none).arg(dir.join("absent")).arg(&good).run();
    output.ends_with(1).complains("line 2 of the trace").complains("none: neither a trace");
    output.complains("absent: No such file or directory");
    assert_eq!(output.text().lines().count(), 2, "{}", output.text());
    replay(&state).arg("/dev/zero").run().ends_with(1).complains("/dev/zero: line 1 is longer");
    let endless = nearfirst(&state, &["trees", "import", "/dev/zero"]).run();
    endless.ends_with(1).complains("/dev/zero: line 1 is longer than 32.0 MiB");
    let imported = nearfirst(&state, &["trees", "import"]).arg(&none).run();
    imported.ends_with(1).complains("none: nothing in it is output of `strace").prints("");
}

#[test]
fn of_output_of_strace_without_times_it_is_said_which_flag_is_missing() {
    let (state, dir) = (Dir::new(), Dir::new());
    let call = "openat(AT_FDCWD</w>, \"a\", O_RDONLY) = 3</w/a>";
    let end = "+++ exited with 0 +++";
    for text in [
        format!("12 {call}\n12 {end}\n"),
        format!("{call}\n[pid    12] {call}\n{end}\n"),
        // As -t has it, and -r.
        format!("12 16:20:01 {call}\n12 16:20:02 {end}\n"),
        format!("12      0.000000 {call}\n12      0.100000 {end}\n"),
    ] {
        let untimed = dir.create("untimed", text);
        for cmd in [replay(&state), nearfirst(&state, &["trees", "import"])] {
            let told = "untimed: output of `strace` without times to the microsecond: add `-ttt`";
            let output = cmd.arg(&untimed).run();
            output.ends_with(1).prints("").complains(told);
        }
    }
}

#[test]
fn a_home_that_begins_where_somebody_stands_is_none() {
    let (dir, script) = work();
    for home in ["", ".", "home"] {
        let homeless = |args: &[&str]| {
            let cmd = nearfirst(&dir, args).env("NEARFIRST_STATE", "").env("XDG_STATE_HOME", "");
            cmd.env("HOME", home).dir(&dir)
        };
        homeless(&["run"]).arg(&script).run().succeeds().is_quiet();
        homeless(&["trees", "list"]).run().ends_with(1).complains("there is no home folder");
    }
    assert!(!dir.join(".local").exists());
}

#[test]
fn the_services_folder_is_told_from_a_users() {
    let state = Dir::new();
    state.create("trees/0/x", "");
    let folder = state.path().display().to_string();
    for what in [&["trees"][..], &["trees", "stats"], &["trees", "forget", "--all"]] {
        let output = nearfirst(&state, what).arg("--state").arg(&folder).run();
        let told = format!("of one it is {folder}/trees/NUMBER\n");
        assert!(output.ends_with(1).stderr().ends_with(&told), "{}", output.stderr());
    }
}

#[test]
fn of_patterns_that_cannot_be_read_that_alone_is_said() {
    let state = Dir::new();
    state.create("trees", "garbage");
    let trace = state.create("trace", "nearfirst-trace 1\n");
    for what in [&["list"][..], &["show", "make"], &["stats"], &["stats", "--json"], &["replay"]] {
        let told = nearfirst(&state, &[&["trees"], what].concat());
        let told = told.arg("--state").arg(state.path());
        let told = if what == ["replay"] { told.arg(&trace) } else { told };
        let output = told.run();
        let damaged =
            "no patterns of nearfirst; it is damaged, and who learns there next sets it aside";
        output.ends_with(1).complains(damaged).prints("");
        assert_eq!(output.stderr().lines().count(), 1, "{}", output.stderr());
    }
    let own = "it is damaged, and the next `nearfirst run` sets it aside and begins anew";
    nearfirst(&state, &["trees"]).run().ends_with(1).complains(own).prints("");
}

#[test]
fn what_the_service_learned_of_ones_own_programs_is_found() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let (state, dir) = (Dir::new(), Dir::new());
    let script = script(&dir, "known", "true");
    nearfirst(&state, &["run", "--"]).arg(&script).run().succeeds();
    let text = "mount -t tmpfs none /var/lib && mkdir -p /var/lib/nearfirst/trees && \
                cp -r \"$0\" /var/lib/nearfirst/trees/0 && exec \"$@\" trees --service --json";
    let shown = cmd("unshare", ["-m", "sh", "-c", text]).arg(state.path());
    let shown = shown.arg(env!("CARGO_BIN_EXE_nearfirst")).env("NEARFIRST_STATE", dir.path()).run();
    assert!(shown.succeeds().text().contains("/known\""), "{}", shown.text());
    let both = nearfirst(&state, &["trees", "--service", "--state", "x"]).run();
    both.ends_with(2).complains("cannot be used with");
}

#[test]
fn of_whom_the_service_knows_nothing_it_is_asked_whether_that_runs() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let state = Dir::new();
    let text = "mount -t tmpfs none /var/lib && exec \"$@\" trees --service";
    let shown = cmd("unshare", ["-m", "sh", "-c", text, "sh"]);
    let shown = shown.arg(env!("CARGO_BIN_EXE_nearfirst")).env("NEARFIRST_STATE", state.path());
    let told = "the service has kept nothing of your programs yet; is `nearfirst watch` running?";
    shown.run().ends_with(1).complains(told).prints("");
}

#[test]
fn what_stands_before_the_word_holds_as_if_it_stood_behind() {
    let (dir, state, other) = (Dir::new(), Dir::new(), Dir::new());
    let script = script(&dir, "known", "true");
    nearfirst(&state, &["run", "--"]).arg(&script).run().succeeds();
    let path = state.path().to_str().expect("text");
    for (before, behind) in [
        (&["--json", "--state", path][..], &["list"][..]),
        (&["--json", "--state", path], &["stats"]),
        (&["--json"], &["show", "--state", path, "known"]),
        (&["--state", path], &["show", "--json", "known"]),
    ] {
        let said_before = nearfirst(&other, &[&["trees"], before, behind].concat()).run();
        let said_behind =
            nearfirst(&other, &[&["trees"], &behind[..1], before, &behind[1..]].concat()).run();
        assert!(said_before.succeeds().text().starts_with('{'), "{behind:?}");
        said_behind.succeeds().prints(said_before.text().as_bytes());
    }
    for (before, word, refused) in [
        (&["--state", path][..], &["forget", "--all", "--service"][..], "used with '--service'"),
        (&["--service"], &["forget", "--all", "--state", path], "used with '--state <FOLDER>'"),
        (&["--state", path], &["list", "--state", path], "used multiple times"),
    ] {
        let both = nearfirst(&other, &[&["trees"], before, word].concat()).run();
        both.ends_with(2).complains(refused).prints("");
    }
    nearfirst(&other, &["trees", "--state", path, "forget", "known"]).run().succeeds().is_quiet();
}

#[test]
fn a_program_is_shown_and_forgotten_by_its_name_with_all_that_it_was_told() {
    let (dir, state) = (Dir::new(), Dir::new());
    dir.create("read", "text");
    // As a build tool is called, which is known by the folder that it works in.
    let make = dir.join("make");
    testkit::copy_program("/bin/cat", &make);
    let other = dir.join("other");
    std::fs::create_dir(&other).expect("a folder");
    for folder in [dir.path(), &other] {
        let run = nearfirst(&state, &["run", "--"]).arg(&make).arg(dir.join("read"));
        run.dir(folder).run().succeeds();
    }
    let names = |args: &[&str]| -> Vec<String> {
        let rows = rows(&nearfirst(&state, args).run());
        rows.iter().map(|row| row["program"]["text"].as_str().expect("text").to_owned()).collect()
    };
    let path = make.display().to_string();
    let both = [&other, dir.path()].map(|folder| format!("{path} {}", folder.display()));
    assert_eq!(names(&["trees", "show", "--json", "make"]), both, "what ran last comes first");
    assert_eq!(names(&["trees", "show", "--json", &path]), both);
    assert_eq!(names(&["trees", "show", "--json", &both[0]]), both[..1]);
    let link = dir.join("gmake");
    std::os::unix::fs::symlink(&make, &link).expect("linked");
    assert_eq!(names(&["trees", "show", "--json", &link.display().to_string()]), both);
    let svg = dir.join("make.svg").display().to_string();
    let drawn = nearfirst(&state, &["trees", "show", "--svg", &svg, "make"]).run();
    drawn.succeeds().complains(&format!("{} is drawn, the first of 2 that are called so", both[0]));
    nearfirst(&state, &["trees", "show", "--svg", &svg, &both[0]]).run().succeeds().is_quiet();
    let shown = nearfirst(&state, &["trees", "show", "--json", "gmake"]);
    assert_eq!(rows(&shown.env("PATH", dir.path()).run()).len(), 2);
    let data = nearfirst(&state, &["trees", "forget", "read"]).run();
    data.succeeds().complains("read: no program that is known; the order of the last reads");
    assert_eq!(names(&["trees", "list", "--json"]).len(), both.len(), "no program is forgotten");
    let data = nearfirst(&state, &["trees", "forget", "read"]).run();
    data.ends_with(1).complains("nothing was learned of it");
    let forget = nearfirst(&state, &["trees", "forget", "gmake"]);
    forget.env("PATH", dir.path()).run().succeeds().is_quiet();
    assert!(names(&["trees", "list", "--json"]).is_empty());
}
