//! Several files of which some are near, through the built program. What was read from the device is
//! counted at the device.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use slowfs::Options;
use testkit::{
    Cmd, Dir, Facility, Hold, MemoryCgroup, Program, SlowDir, evict, hold, lines, skip_unless,
};

const MIB: u64 = 1 << 20;

fn nearfirst<const N: usize>(state: &Dir, args: [&str; N]) -> Cmd {
    Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd(args).env("NEARFIRST_STATE", state.path())
}

/// Two files of so many MiB: one that is far, and after it one that is near from an offset on, where it
/// has a needle.
fn far_and_near(mib: u64, near_from: u64) -> (SlowDir, [PathBuf; 2], Hold) {
    let slow = SlowDir::new(Options::default());
    let text = lines(usize::try_from(mib * MIB).expect("it is small"), 11);
    let far = slow.create("a", &text);
    let (start, end) = text.split_at(usize::try_from(near_from).expect("it is small"));
    let near = slow.create("b", [start, b"\nneedle\n", end].concat());
    let held = hold(&near, near_from..mib * MIB + 8);
    slow.reset();
    (slow, [far, near], held)
}

#[test]
fn a_search_whose_answer_is_in_what_is_near_of_several_reads_nothing_from_the_device() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    for near_from in [0, 6 * MIB] {
        let (slow, [far, near], _held) = far_and_near(9, near_from);
        let grep = || nearfirst(&state, ["grep", "-j2", "-q", "needle"]);
        // Of files that are found, a NUL byte before the match would be the end.
        for cmd in [grep().arg(&far).arg(&near), grep().arg("-a").arg(slow.path())] {
            cmd.run().succeeds().is_quiet();
            assert_eq!(slow.stats().total.read_bytes, 0, "near from {near_from}");
        }
    }
}

#[test]
fn what_is_far_is_not_read_once_nobody_reads_the_output() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (slow, [far, _], _held) = far_and_near(9, 0);
    let near = slow.create("c", b"a needle\n".repeat(1 << 20));
    let _near = hold(&near, 0..9 * MIB);
    slow.reset();
    let search = "\"$0\" grep -I -j2 'a needle' \"$1\" \"$2\" | head -n 1";
    let cmd = testkit::cmd("sh", ["-c", search, env!("CARGO_BIN_EXE_nearfirst")]);
    let found = cmd.env("NEARFIRST_STATE", Dir::new().path()).arg(&far).arg(&near).run();
    assert_eq!(found.succeeds().text(), "a needle\n");
    assert_eq!(slow.stats().total.read_bytes, 0);
}

#[test]
fn a_named_file_that_is_far_is_not_waited_for_before_those_that_are_near() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    let (slow, [far, near], _held) = far_and_near(1, 0);
    slow.mount().set_rules(vec!["a: stall=1:forever".parse().expect("a rule")]);
    let grep = nearfirst(&state, ["grep", "-j2", "-U", "-q", "--wait-max=2", "needle"]);
    grep.arg(&far).arg(&near).run().succeeds().is_quiet();
    slow.mount().set_rules(Vec::new());
}

#[test]
fn what_is_near_is_counted_before_what_is_far() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    let (slow, [far, near], _held) = far_and_near(2, 0);
    slow.mount().set_rules(vec!["a: stall=1:forever".parse().expect("a rule")]);
    for (flags, is_first) in [("-l", false), ("-l --unordered", true)] {
        evict(&far);
        let count = format!("\"$0\" wc {flags} --jobs=2 --wait-max=2 \"$1\" \"$2\" 2>&1");
        let cmd = testkit::cmd("sh", ["-c", &count, env!("CARGO_BIN_EXE_nearfirst")]);
        let cmd = cmd.env("NEARFIRST_STATE", state.path()).arg(&far).arg(&near);
        let counted = cmd.run().ends_with(1).text();
        let counted_at = counted.find(&format!(" {}\n", near.display())).expect("it is counted");
        let given_up_at = counted.find("no answer for 2 s").expect("it is given up");
        assert_eq!(counted_at < given_up_at, is_first, "{counted}");
    }
    slow.mount().set_rules(Vec::new());
}

#[test]
fn without_an_order_a_small_file_that_is_slow_is_not_waited_for() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let [slower, other] = ["a", "b"].map(|name| slow.create(name, "a line\n"));
    evict(&slower);
    slow.mount().set_rules(vec!["a: stall=1:forever".parse().expect("a rule")]);
    let count = "\"$0\" wc -l --unordered --jobs=2 --wait-max=2 \"$1\" \"$2\" 2>&1";
    let cmd = testkit::cmd("sh", ["-c", count, env!("CARGO_BIN_EXE_nearfirst")]);
    let cmd = cmd.env("NEARFIRST_STATE", Dir::new().path()).arg(&slower).arg(&other);
    let counted = cmd.run().ends_with(1).text();
    assert!(counted.starts_with(&format!(" 1 {}\n", other.display())), "{counted}");
    slow.mount().set_rules(Vec::new());
}

#[test]
fn what_is_near_is_not_read_again_because_what_is_far_pushed_it_out() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Cgroup("memory"));
    let slow = SlowDir::new(Options::default());
    let line = b"a line of some words, to fill it\n";
    let far = slow.create("far", line.repeat(4 << 20));
    let near = slow.create("near", line.repeat(512 << 10));
    slow.reset();
    // Who is in the group brings it in, so that the limit holds for it.
    let count = "cat \"$1\" >/dev/null && \"$0\" wc -l \"$2\" \"$1\"";
    let cmd = testkit::cmd("sh", ["-c", count, env!("CARGO_BIN_EXE_nearfirst")]);
    let cmd = cmd.arg(&near).arg(&far).env("NEARFIRST_STATE", Dir::new().path());
    let counted = MemoryCgroup::new(64 * MIB).run(cmd);
    assert!(counted.succeeds().text().ends_with(" 4718592 total\n"));
    assert_eq!(slow.stats().file("near").read_bytes, 33 * (512 << 10));
}

#[test]
fn results_of_several_streams_leave_one_after_the_other_and_in_bounded_memory() {
    const LINES: usize = 64 << 10;
    skip_unless!(Facility::Root, Facility::Cgroup("memory"), Facility::Tool("gzip"));
    let folder = Dir::new();
    let line = [&[b'x'; 1020][..], b"\n"].concat();
    for name in ["a", "b"] {
        folder.create(name, line.repeat(LINES));
    }
    let search = "gzip a b && \"$0\" grep -j2 -z --budget=1M x a.gz b.gz | cut -d: -f1 | uniq -c";
    let cmd = testkit::cmd("sh", ["-c", search, env!("CARGO_BIN_EXE_nearfirst")]);
    let found = MemoryCgroup::new(40 * MIB).run(cmd.dir(folder.path()));
    let text = found.succeeds().text();
    let mut lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    lines.sort_unstable();
    assert_eq!(lines, [format!("{LINES} a.gz"), format!("{LINES} b.gz")]);
}

/// A search of those files by two threads, where `program` prints what is in each.
fn search_of_what_is_printed(files: &[&str], program: &str, then: &str) -> (Dir, String) {
    let folder = Dir::new();
    let program = folder.create("program", ["#!/bin/sh\n", program].concat());
    set_permissions(&program, Permissions::from_mode(0o755)).expect("made so");
    for file in files {
        folder.create(file, "");
    }
    let search = format!("timeout 60 \"$0\" grep -j2 --pre=./program {then}");
    let cmd = testkit::cmd("sh", ["-c", &search, env!("CARGO_BIN_EXE_nearfirst")]);
    let cmd = files.iter().fold(cmd.dir(folder.path()), Cmd::arg);
    let found = cmd.run().succeeds().text();
    (folder, found)
}

#[test]
fn what_is_found_in_one_of_several_streams_leaves_before_its_end_where_it_has_no_room() {
    let program = "yes 'a line' | head -n 20000\nuntil [ -e seen ]; do sleep 0.01; done\n";
    let then = "--budget=64K line \"$@\" | { read first; touch seen; cat; }";
    let (_, found) = search_of_what_is_printed(&["a", "b"], program, then);
    assert_eq!(found.lines().count(), 2 * 20000 - 1);
}

#[test]
fn what_is_found_in_a_stream_that_ended_waits_for_none_that_goes_on() {
    let program = "if ! mkdir first 2>/dev/null; then
    until [ -e begun ]; do sleep 0.01; done
    exec echo 'the last line'
fi
yes 'a line' | head -n 20000
touch begun
until [ -e seen ]; do sleep 0.01; done
";
    let then = "-I line \"$@\" | { read first; touch seen; cat >/dev/null; echo \"$first\"; }";
    let (_, found) = search_of_what_is_printed(&["a", "b"], program, then);
    assert_eq!(found, "the last line\n");
}

#[test]
fn who_reads_slowly_holds_back_the_search_of_several() {
    let program = "if mkdir first 2>/dev/null; then yes 'a line' | head -n 40000; exit; fi
until [ -e seen ]; do sleep 0.01; done
echo searched >>log
echo 'a line'
";
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let files: Vec<&str> = names.iter().map(String::as_str).collect();
    // Nothing tells that a program waits: only what would go wrong depends on the time it has for that.
    let reader = "{ read first; sleep 0.5; touch seen; sleep 0.5; echo \"$first\"; }";
    for budget in ["64K", "64M"] {
        let then = format!("--budget={budget} line \"$@\" | {reader}");
        let (folder, found) = search_of_what_is_printed(&files, program, &then);
        assert!(found.ends_with("a line\n"), "{budget}: {found}");
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(log.lines().count() < 10, "{budget}: {}", log.lines().count());
    }
}
