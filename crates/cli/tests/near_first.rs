//! The commands on files that are partly near, on slow, dead and offline mounts, through the
//! built program. What was read from the device is counted at the device.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use slowfs::{Options, Profile, Rule};
use testkit::{
    Cmd, Dir, Facility, LoopDisk, MemoryCgroup, Program, SlowDir, cmd, evict, hold, lines,
    make_near, skip_unless, until,
};

const MIB: u64 = 1 << 20;

fn nearfirst<const N: usize>(state: &Dir, args: [&str; N]) -> Cmd {
    Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd(args).env("NEARFIRST_STATE", state.path())
}

/// Lines of which the one at `offset`, or the next, is `needle`.
fn text_with(needle: &str, length: usize, offset: usize) -> Vec<u8> {
    let mut text = lines(length, 11);
    let line = text[offset..].iter().position(|&byte| byte == b'\n').expect("a line ends");
    let at = offset + line;
    let needle = [b"\n", needle.as_bytes(), b"\n"].concat();
    text[at..at + needle.len()].copy_from_slice(&needle);
    text
}

/// A slow folder with a file of which a part is near.
fn partly_near(text: Vec<u8>, near: Range<u64>) -> (SlowDir, std::path::PathBuf, testkit::Hold) {
    let slow = SlowDir::new(Options::default());
    let path = slow.create("text", text);
    let held = hold(&path, near);
    slow.reset();
    (slow, path, held)
}

/// One of 8 MiB, whose second quarter is near and holds the needle.
fn quarter_near() -> (SlowDir, std::path::PathBuf, testkit::Hold) {
    partly_near(text_with("needle", 8 << 20, 3 << 20), 2 * MIB..4 * MIB)
}

#[test]
fn a_search_whose_answer_is_near_reads_nothing_from_the_device() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    for flags in [&["-q"][..], &["-l"], &["-m1", "--unordered"], &["-m1", "-c"]] {
        let (slow, path, _held) = quarter_near();
        let cmd = flags.iter().fold(nearfirst(&state, ["grep", "needle"]), testkit::Cmd::arg);
        cmd.arg(&path).run().succeeds();
        assert_eq!(slow.stats().total.read_bytes, 0, "{flags:?}");
    }
}

/// One whose start is far and of whose second half the start is near.
fn end_near(text: Vec<u8>) -> (SlowDir, std::path::PathBuf, testkit::Hold) {
    let half = text.len() as u64 / 2;
    partly_near(text, half..half + 4 * MIB)
}

#[test]
fn bytes_that_match_are_no_match_where_the_text_that_they_encode_has_none() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    let text =
        "\u{feff}".to_owned() + &"line of foo and a few words more, to fill it\n".repeat(100_000);
    let encoded: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let ways: [(&[&str], i32); 5] = [
        (&["-lw", "f"], 1),
        (&["-qv", "foo"], 1),
        (&["-cvm1", "foo"], 1),
        (&["-qa", "l.n"], 0),
        (&["-w", "--files-without-match", "f"], 0),
    ];
    for (flags, code) in ways {
        let (_slow, path, _held) = end_near(encoded.clone());
        let cmd = flags.iter().fold(nearfirst(&state, ["grep"]), testkit::Cmd::arg);
        let output = cmd.arg(&path).run();
        assert_eq!(output.code(), code, "{flags:?}");
    }
}

#[test]
fn what_is_printed_at_once_is_printed_once_though_the_file_begins_with_a_mark() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let count = 200_000;
    let line = "a line of foo and a few words more to fill it\n";
    let text = "\u{feff}".to_owned() + &line.repeat(count);
    let with_nul = text.replace("fill", "\0");
    for (flags, text) in [
        (&["foo"][..], &text),
        (&["-b", "foo"], &text),
        (&["^a line"], &text),
        (&["-a", "^a line"], &with_nul),
    ] {
        let (_slow, path, _held) = end_near(text.clone().into_bytes());
        let cmd = nearfirst(&Dir::new(), ["grep", "--unordered"]);
        let output = flags.iter().fold(cmd, testkit::Cmd::arg).arg(&path).run();
        assert_eq!(output.text().lines().count(), count, "{flags:?}");
        assert_eq!(
            output.text().lines().filter(|line| line.starts_with("0:")).count(),
            usize::from(flags[0] == "-b")
        );
    }
}

#[test]
fn the_first_match_in_file_order_needs_what_is_before_it_and_nothing_after() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (slow, path, _held) = quarter_near();
    nearfirst(&Dir::new(), ["grep", "-m1", "needle"])
        .arg(&path)
        .run()
        .succeeds()
        .prints("needle\n");
    let read = slow.stats();
    let beyond = read.reads_of("text").into_iter().filter(|(offset, _)| *offset >= 4 * MIB);
    assert_eq!(beyond.count(), 0, "{:?}", read.reads_of("text"));
}

#[test]
fn what_must_wait_and_finds_no_room_is_found_again() {
    skip_unless!(Facility::Root, Facility::Fuse);
    for (flags, has_output) in [("-n", true), ("-bC1", true), ("-cv", false)] {
        let (slow, path, _held) = quarter_near();
        // What is before it comes later, however long the near part takes.
        slow.mount().set_rules(vec!["text: latency=50ms".parse().expect("a rule")]);
        let grep = || nearfirst(&Dir::new(), ["grep", "needle", flags]).arg(&path);
        let found = grep().arg("--budget=1").env("TMPDIR", "/nowhere").run();
        found.succeeds().prints(grep().run().stdout());
        if has_output {
            found.complains("/nowhere: no room for results that wait");
        } else {
            found.is_quiet();
        }
    }
}

#[test]
fn reading_all_reads_only_what_is_far() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    for args in [&["wc", "-lw"][..], &["wc", "-m"], &["grep", "-c", "needle"], &["grep", "needle"]]
    {
        let (slow, path, _held) = quarter_near();
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        program.cmd(args).env("NEARFIRST_STATE", state.path()).arg(&path).run().succeeds();
        let read = slow.stats().total.read_bytes;
        assert!((6 * MIB - MIB / 50..=6 * MIB + 6 * MIB / 50).contains(&read), "{args:?}: {read}");
    }
}

#[test]
fn a_line_larger_than_memory_is_printed() {
    const LENGTH: u64 = 100 * MIB;
    skip_unless!(Facility::Root, Facility::Cgroup("memory"));
    let folder = Dir::new();
    let file = File::create(folder.path().join("sparse")).expect("a file");
    file.write_all_at(b"first\nneedle", 0).expect("written");
    file.set_len(1024 * MIB).expect("made long");
    let file = File::create(folder.path().join("dense")).expect("a file");
    file.write_all_at(b"first\nneedle", 0).expect("written");
    let block = vec![b'x'; 1 << 20];
    (0..LENGTH / MIB).for_each(|at| file.write_all_at(&block, 12 + at * MIB).expect("written"));
    file.write_all_at(b"\nlast\n", 12 + LENGTH).expect("written");
    let text = LENGTH + 6;
    for (args, bytes) in [
        ("-a needle sparse", 1024 * MIB - 6 + 1),
        ("-c needle dense", 2),
        ("needle dense", text + 1),
        ("-m1 -A1 needle dense", text + 6),
        ("-n -B1 last dense", 2 + text + 1 + 7),
        ("--color=always needle dense", 0),
        ("--json -m1 needle dense", 0),
    ] {
        let run = format!("\"$0\" grep {args} | wc -c");
        let cmd = testkit::cmd("sh", ["-c", &run, env!("CARGO_BIN_EXE_nearfirst")]);
        let output = MemoryCgroup::new(40 * MIB).run(cmd.dir(folder.path()));
        let printed: u64 = output.succeeds().text().trim().parse().expect("a number");
        if bytes > 0 {
            assert_eq!(printed, bytes, "{args}");
        } else {
            assert!(printed > text, "{args}: {printed}");
        }
    }
}

#[test]
fn a_dead_mount_is_reported_and_the_rest_is_done() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let dead = slow.create("dead", "needle\n");
    let folder = Dir::new();
    let alive = folder.create("alive", "needle\n");
    let state = Dir::new();
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    for (args, code) in [
        (&["wc", "-l"][..], 1),
        (&["grep", "-c", "needle"], 2),
        (&["order"], 1),
        (&["sleds", "-s"], 1),
    ] {
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        let cmd = program.cmd(args).env("NEARFIRST_STATE", state.path());
        let output = cmd.arg("--wait-max").arg("0.2").arg(&dead).arg(&alive).run();
        output.ends_with(code).complains("has not answered");
        assert!(output.text().contains("alive"), "{args:?}: {}", output.text());
    }
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_name_that_does_not_answer_takes_nothing_from_the_others_of_its_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let names = ["aa", "b1", "b2", "zz"].map(|name| slow.create(name, "needle\n"));
    let state = Dir::new();
    slow.mount().set_rules(vec!["b*: hang=true".parse().expect("a rule")]);
    for (args, code) in [
        (&["wc", "-l"][..], 1),
        (&["grep", "-c", "needle"], 2),
        (&["grep", "-j1", "-c", "needle"], 2),
        (&["order"], 1),
        (&["sleds", "-s"], 1),
    ] {
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        let cmd = program.cmd(args).env("NEARFIRST_STATE", state.path());
        let output = names.iter().fold(cmd.arg("--wait-max").arg("2"), Cmd::arg).run();
        output.ends_with(code).complains("b1: no answer for ").complains("b2: no answer for ");
        output.complains("s, though its mount answers");
        let text = output.text();
        for name in ["aa", "zz"] {
            assert!(text.contains(name), "{args:?}: {name}: {text}");
        }
    }
    slow.mount().set_rules(Vec::new());
}

#[test]
fn standard_input_whose_mount_does_not_say_what_it_is_is_given_up() {
    skip_unless!(Facility::Root, Facility::Fuse);
    // The kernel keeps no attributes.
    let slow = SlowDir::new(Options { time_to_live: Duration::ZERO, ..Options::default() });
    let path = slow.create("silent", "needle\n");
    let folder = Dir::new();
    let alive = folder.create("alive", "needle\n");
    let state = Dir::new();
    for flag in ["-c", "-lc"] {
        let silent = File::open(&path).expect("it answers");
        slow.mount().set_rules(vec!["silent: metadata=20s".parse().expect("a rule")]);
        slow.reset();
        let cmd = nearfirst(&state, ["wc", flag, "--wait-max", "1", "-", "-"]).arg(&alive);
        let output = cmd.into_command().stdin(silent).output().expect("it runs");
        let (text, said) = (output.stdout, output.stderr);
        let (text, said) = (String::from_utf8_lossy(&text), String::from_utf8_lossy(&said));
        assert!(said.contains("-: no answer for 1 s"), "{said}");
        assert!(text.contains("alive"), "{text}");
        assert_eq!(slow.stats().total.metadata, 1, "it is waited for once");
        slow.mount().set_rules(Vec::new());
    }
}

#[test]
fn a_run_ends_though_a_thread_of_it_cannot() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let dead = slow.create("dead", lines(1 << 20, 3));
    let folder = Dir::new();
    let alive = folder.create("alive", "needle\n");
    let state = Dir::new();
    let count = ["grep", "-c", "needle"];
    for (args, path, code) in
        [(&["wc", "-l"][..], dead.as_path(), 1), (&count, &dead, 2), (&count, slow.path(), 2)]
    {
        evict(&dead);
        // Look-ups are answered, reads are not.
        slow.mount().set_rules(vec!["dead: stall=1:forever".parse().expect("a rule")]);
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        let cmd = program.cmd(args).env("NEARFIRST_STATE", state.path());
        let output = cmd.arg("--wait-max").arg("2").arg(path).arg(&alive).run();
        output.ends_with(code).complains("no answer for 2 s");
        assert!(output.text().contains("alive"), "{args:?}: {}", output.text());
        slow.mount().set_rules(Vec::new());
    }
}

#[test]
fn a_small_file_that_does_not_answer_takes_nothing_from_the_others_of_its_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let dead = slow.create("dead", "needle\n");
    let alive = slow.create("later/alive", "needle\n");
    let state = Dir::new();
    let count = ["grep", "-j1", "-c", "needle"];
    let may_be_dead = "its mount may be unreachable";
    let answers = "though its mount answers";
    for (args, paths, code, said) in [
        (&["wc", "-l"][..], &[dead.as_path(), &alive][..], 1, may_be_dead),
        (&count, &[dead.as_path(), &alive], 2, may_be_dead),
        (&count, &[slow.path()], 2, answers),
        (&["grep", "--pre=cat", "-c", "needle"], &[slow.path()], 2, answers),
    ] {
        evict(&dead);
        slow.mount().set_rules(vec!["dead: stall=1:forever".parse().expect("a rule")]);
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        let cmd = program.cmd(args).env("NEARFIRST_STATE", state.path());
        let output = paths.iter().fold(cmd.arg("--wait-max").arg("2"), Cmd::arg).run();
        output.ends_with(code).complains("dead: no answer for 2 s").complains(said);
        let text = output.text();
        let is_counted = |line: &str| line.trim_start().starts_with("1 ") || line.ends_with(":1");
        let mut lines = text.lines().filter(|line| line.contains("alive"));
        assert!(lines.next().is_some_and(is_counted), "{args:?}: {text}");
        slow.mount().set_rules(Vec::new());
    }
}

#[test]
fn the_writer_of_a_pipe_is_waited_for_wherever_that_lies() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let (pipe, dead) = (slow.path().join("pipe"), slow.create("dead", "text"));
    let kind = rustix::fs::FileType::Fifo;
    let in_source = slow.source().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, in_source, kind, 0o600.into(), 0).expect("made");
    let state = Dir::new();
    let count = nearfirst(&state, ["grep", "--wait-max=1", "-c", "needle"]).arg(&pipe);
    let output = std::thread::scope(|scope| {
        let counting = scope.spawn(|| count.run());
        // When this is given up, so would be the other.
        slow.mount().set_rules(vec!["dead: hang=true".parse().expect("a rule")]);
        nearfirst(&state, ["wc", "--wait-max=3"]).arg(&dead).run().ends_with(1);
        slow.mount().set_rules(Vec::new());
        let open = || OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&pipe);
        until("somebody reads", || {
            open().is_ok_and(|mut writer| writer.write(b"needle\n").is_ok())
        });
        counting.join().expect("no panic")
    });
    output.ends_with(0).prints("1\n");
}

#[test]
fn a_list_of_names_that_does_not_answer_is_given_up() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let list = slow.create("list", "alive\0");
    let state = Dir::new();
    for rule in ["list: hang=true", "list: stall=1:forever"] {
        for args in
            [["wc", "--wait-max=0.2", "--files0-from"], ["find", "--wait-max=0.2", "-files0-from"]]
        {
            evict(&list);
            slow.mount().set_rules(vec![rule.parse().expect("a rule")]);
            let output = nearfirst(&state, args).arg(&list).run();
            output.ends_with(1).complains("list").complains("for 0.2 s").prints("");
            slow.mount().set_rules(Vec::new());
        }
    }
}

#[test]
fn an_order_and_patterns_that_do_not_answer_are_given_up() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let list = slow.create("list", "alive\0");
    let state = Dir::new();
    for (args, code) in [
        (["order", "-0", "-"], 1),
        (["grep", "-f-", "/dev/null"], 2),
        (["grep", "-flist", "/dev/null"], 2),
        (["cat", "--replay-order=list", "/dev/null"], 2),
    ] {
        let stdin = File::open(&list).expect("it answers");
        evict(&list);
        slow.mount().set_rules(vec!["list: stall=1:forever".parse().expect("a rule")]);
        let cmd = nearfirst(&state, args).arg("--wait-max=0.2").dir(slow.path());
        let output = cmd.into_command().stdin(stdin).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("for 0.2 s"), "{args:?}: {said}");
        slow.mount().set_rules(Vec::new());
    }
    slow.mount().set_rules(vec![Rule::all(Profile { hang: true, ..Profile::default() })]);
    let cat = nearfirst(&state, ["cat", "--wait-max=0.2", "/dev/null", "--record-order"]);
    cat.arg(&list).run().ends_with(2).complains("has not answered for 0.2 s");
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_file_that_cannot_be_closed_is_not_waited_for() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let (folder, state) = (Dir::new(), Dir::new());
    let alive = folder.create("alive", "needle\n");
    // Read through; scanned in parts, of which the first only comes.
    for (bytes, code) in [(1 << 10, 0), (2 << 20, 1)] {
        let dead = slow.create("dead", lines(bytes, 3));
        evict(&dead);
        slow.mount().set_rules(vec!["dead: stall=1:forever".parse().expect("a rule")]);
        slow.reset();
        let output = std::thread::scope(|scope| {
            let count = || {
                let cmd = nearfirst(&state, ["wc", "-l", "--wait-max", "2"]);
                cmd.arg(&dead).arg(&alive).run()
            };
            let counting = scope.spawn(count);
            until("a read", || slow.stats().total.reads > 0);
            slow.mount().set_rules(vec!["dead: hang=true".parse().expect("a rule")]);
            counting.join().expect("it ends")
        });
        output.ends_with(code);
        assert!(output.text().contains(&format!("1 {}\n", alive.display())), "{}", output.text());
        slow.mount().set_rules(Vec::new());
    }
}

#[test]
fn a_program_that_reads_from_a_dead_mount_is_not_waited_for() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow =
        SlowDir::new(Options { time_to_live: Duration::from_hours(1), ..Options::default() });
    let (folder, state) = (Dir::new(), Dir::new());
    let dead = slow.create("dead.gz", "text");
    let alive = folder.create("alive", "needle\n");
    for flags in [&["-z"][..], &["--pre=cat", "--pre-glob=*.gz"]] {
        std::fs::read(&dead).expect("it answers");
        evict(&dead);
        // The root of the mount does not answer, but for what the kernel knows of it.
        let rules = ["dead.gz: stall=1:forever", ": hang=true"];
        slow.mount().set_rules(rules.map(|rule| rule.parse().expect("a rule")).into());
        let grep = nearfirst(&state, ["grep", "--wait-max", "0.2", "-c", "needle"]);
        let output = flags.iter().fold(grep, testkit::Cmd::arg).arg(&dead).arg(&alive).run();
        output.ends_with(2).complains("dead.gz: ").complains("has not answered for 0.2 s");
        assert!(output.text().contains("alive"), "{flags:?}: {}", output.text());
        slow.mount().set_rules(Vec::new());
    }
}

#[test]
fn a_set_goes_on_beyond_a_member_whose_reads_hang() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let dead = slow.create("dead", lines(8 << 20, 3));
    let folder = Dir::new();
    let alive = folder.create("alive", "needle\n");
    let state = Dir::new();
    let to = folder.path().join("to");
    std::fs::create_dir(&to).expect("a folder");
    // The first reads are answered: its reader has begun.
    let hang = || slow.mount().set_rules(vec!["dead: stall=3:forever".parse().expect("a rule")]);
    hang();
    let cat = nearfirst(&state, ["cat", "--wait-max", "2"]).arg(&dead).arg(&alive).run();
    cat.ends_with(1).complains("dead: no answer for 2 s");
    assert!(cat.text().ends_with("needle\n"), "what follows is written");
    slow.mount().set_rules(Vec::new());
    evict(&dead);
    hang();
    let cmd = nearfirst(&state, ["cp", "--wait-max", "2"]).arg(&dead).arg(&alive).arg(&to);
    cmd.run().ends_with(1).complains("dead: no answer for 2 s");
    assert_eq!(std::fs::read(to.join("alive")).expect("copied"), b"needle\n");
    slow.mount().set_rules(Vec::new());
}

#[test]
fn copies_to_a_dead_mount_are_given_up_and_the_others_are_made() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let (from, to, state) = (Dir::new(), Dir::new(), Dir::new());
    from.create("alive/file", "text\n");
    from.create("dead/file", "text\n");
    std::os::unix::fs::symlink(slow.path(), to.path().join("dead")).expect("a link");
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    let all = from.path().join("*/file");
    for flag in ["--verbose", "--force", "--update", "--skip-existing"] {
        let cmd = nearfirst(&state, ["cp", "--wait-max", "0.2", flag]).arg(&all).arg(to.path());
        cmd.run().ends_with(1).complains("dead/file: ").complains("has not answered for 0.2 s");
        std::fs::remove_file(to.path().join("alive/file")).expect("it was copied");
    }
    let cmd = nearfirst(&state, ["cp", "--wait-max", "0.2"]).arg(&all).arg(slow.path());
    cmd.run().ends_with(2).complains("has not answered for 0.2 s");
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_copy_is_given_up_once_its_mount_is_dead_and_not_while_that_is_slow() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let (from, state) = (Dir::new(), Dir::new());
    let text = lines(512 << 10, 3);
    let cp = |name: &str| {
        let cmd = nearfirst(&state, ["cp", "--wait-max", "2"]);
        cmd.arg(from.create(name, &text)).arg(slow.path().join(name))
    };
    // All that is written at once takes four seconds.
    slow.mount().set_rules(vec!["*: writes=slow, bandwidth=128K".parse().expect("a rule")]);
    cp("slow").run().succeeds();
    assert_eq!(std::fs::read(slow.path().join("slow")).expect("copied"), text);
    let cp = cp("dies");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| cp.run());
        until("it is being written", || slow.stats().file(".dies.nearfirst-part").writes > 1);
        let hang = Profile { hang: true, ..Profile::default() };
        slow.mount().set_rules(vec![Rule::all(hang)]);
        let output = run.join().expect("no panic");
        output.ends_with(1).complains("dies: ").complains("has not answered for 2 s");
    });
    slow.mount().set_rules(Vec::new());
}

#[test]
fn grep_passes_over_a_dead_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow =
        SlowDir::new(Options { time_to_live: Duration::from_hours(1), ..Options::default() });
    slow.create("folder/file", "needle\n");
    let folder = Dir::new();
    folder.create("alive", "needle\n");
    folder.create("links/alive", "needle\n");
    std::os::unix::fs::symlink(slow.path(), folder.path().join("links/dead")).expect("a link");
    // What the kernel remembers of the mount does not make it alive.
    std::fs::read_dir(slow.path().join("folder")).expect("it answers").for_each(drop);
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    let state = Dir::new();
    let above = slow.path().parent().expect("a folder above");
    for flags in [&["-j2"][..], &["-j1"], &["--sort", "path"], &["--files"]] {
        let mut cmd = nearfirst(&state, ["grep", "--wait-max", "0.2"]);
        cmd = flags.iter().fold(cmd, testkit::Cmd::arg);
        if flags != ["--files"] {
            cmd = cmd.arg("needle");
        }
        let output = cmd.arg(above).arg(folder.path()).run();
        output.ends_with(2).complains("has not answered for 0.2 s");
        assert!(output.text().contains("alive"), "{flags:?}: {}", output.text());
    }
    // A link is followed only where that was asked for.
    nearfirst(&state, ["grep", "needle"]).arg(folder.path()).run().ends_with(0);
    let followed = nearfirst(&state, ["grep", "-L", "--wait-max", "0.2", "needle"]);
    let output = followed.arg(folder.path()).run();
    output.ends_with(2).complains("links: not searched, for a link in it is followed");
    assert!(output.text().contains("alive"), "{}", output.text());
    slow.mount().set_rules(Vec::new());
    let output = nearfirst(&state, ["grep", "needle"]).arg(slow.path()).run();
    assert!(output.text().contains("folder/file"), "{}", output.text());
}

/// Waits until some looks in a row find nothing more asked of a mount: fewer than a second takes, after
/// which it is asked whether it answers.
fn until_it_waits(slow: &SlowDir) {
    let (mut asked, mut same) = (0, 0);
    until("nothing more is asked", || {
        let now = slow.stats().total.metadata;
        same = if now == asked { same + 1 } else { 0 };
        asked = now;
        asked > 0 && same >= 40
    });
}

#[test]
fn grep_gives_up_what_dies_under_its_walk() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow =
        SlowDir::new(Options { time_to_live: Duration::from_hours(1), ..Options::default() });
    let files =
        ["dies/file", "dies/.ignore", "before/file"].map(|name| slow.create(name, "needle\n"));
    let folder = Dir::new();
    folder.create("alive", "needle\n");
    let state = Dir::new();
    let above = slow.path().parent().expect("a folder above");
    for (hangs, flags) in [
        ("dies", &["-j2", "needle"][..]),
        ("dies", &["--files"]),
        (".ignore", &["-j1", "needle"]),
        ("file", &["-j2", "needle"]),
    ] {
        slow.mount().set_rules(Vec::new());
        // The kernel knows them, so that the walk comes to them.
        for file in &files {
            std::fs::read(file).expect("it answers");
        }
        slow.reset();
        slow.mount().set_rules(vec![format!("{hangs}: hang=true").parse().expect("a rule")]);
        // Long enough that it dies while it is waited for.
        let cmd = nearfirst(&state, ["grep", "--wait-max", "2", "-."]);
        let cmd = flags.iter().fold(cmd, testkit::Cmd::arg).arg(above).arg(folder.path());
        std::thread::scope(|scope| {
            let run = scope.spawn(|| cmd.run());
            until_it_waits(&slow);
            let hang = Profile { hang: true, ..Profile::default() };
            slow.mount()
                .set_rules(vec![Rule::new(hangs, hang.clone()).expect("a rule"), Rule::all(hang)]);
            let output = run.join().expect("no panic");
            output.ends_with(2).complains("has not answered for 2 s");
            assert!(output.text().contains("alive"), "{hangs} {flags:?}: {}", output.text());
        });
    }
    slow.mount().set_rules(Vec::new());
}

/// A command with its flags, what it is to look at, its exit code, and what it finds.
type Case<'a> = (&'a [&'a str], &'a [&'a Path], i32, &'a [&'a str]);

#[test]
fn a_folder_that_does_not_answer_is_named_and_the_rest_is_done() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow =
        SlowDir::new(Options { time_to_live: Duration::from_hours(1), ..Options::default() });
    // Some are before it in the folder, and some behind.
    let files = (0..8).map(|number| format!("file{number}"));
    for name in files.chain(["a/file", "dead/file", "e/f/file", "z/file"].map(String::from)) {
        std::fs::read(slow.create(name, "needle\n")).expect("the kernel knows it");
    }
    slow.mount().set_rules(vec!["dead: hang=true".parse().expect("a rule")]);
    let (state, above) = (Dir::new(), slow.path().parent().expect("a folder above"));
    let below = slow.path().join("**");
    let (mount, below) = ([slow.path()], [below.as_path()]);
    let all = (0..8).map(|number| format!("mnt/file{number}"));
    let all: Vec<_> = all.chain(["/a/file", "/e/f/file", "/z/file"].map(String::from)).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let runs: [Case<'_>; 10] = [
        (&["grep", "-l", "needle"], &mount, 2, &all),
        (&["grep", "-j1", "needle"], &mount, 2, &all),
        (&["grep", "-u", "-j1", "needle"], &mount, 2, &all),
        (&["grep", "-l", "needle"], &[above], 2, &["mnt/a/file", "source/dead/file", "mnt/z/file"]),
        (&["grep", "--sort=path", "--files"], &mount, 2, &all),
        (&["grep", "--follow", "-l", "needle"], &mount, 2, &all),
        (&["grep", "--no-ignore-parent", "-j4", "-l", "needle"], &mount, 2, &all[..8]),
        (&["find"], &mount, 1, &all),
        (&["sleds", "-s"], &mount, 1, &["77 B"]),
        (&["ls"], &below, 1, &all),
    ];
    std::thread::scope(|scope| {
        for (args, paths, code, found) in &runs {
            let cmd = nearfirst(&state, [args[0], "--wait-max=1"]);
            let cmd = args[1..].iter().fold(cmd, testkit::Cmd::arg);
            let cmd = paths.iter().fold(cmd, testkit::Cmd::arg);
            scope.spawn(move || {
                let output = cmd.run();
                output.ends_with(*code).complains("/dead").complains("s, though its mount answers");
                let text = output.text();
                assert!(found.iter().all(|found| text.contains(found)), "{args:?}: {text}");
            });
        }
    });
    slow.mount().set_rules(Vec::new());
}

#[test]
fn an_ignore_file_that_does_not_answer_takes_no_other_folder_with_it() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow =
        SlowDir::new(Options { time_to_live: Duration::from_hours(1), ..Options::default() });
    for name in ["a/file", "dead/.ignore", "dead/file", "z/file"] {
        std::fs::read(slow.create(name, "needle\n")).expect("the kernel knows it");
    }
    slow.mount().set_rules(vec![".ignore: hang=true".parse().expect("a rule")]);
    let grep = nearfirst(&Dir::new(), ["grep", "--wait-max=0.2", "-j1", "-l", "needle"]);
    let output = grep.arg(slow.path()).run();
    output.ends_with(2).complains("/dead: something in it has not answered for 0.8 s");
    assert!(["/a/file", "/z/file"].iter().all(|file| output.text().contains(file)));
    slow.mount().set_rules(Vec::new());
}

#[test]
fn grep_waits_for_a_slow_folder_of_a_mount_that_answers() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow =
        SlowDir::new(Options { time_to_live: Duration::from_hours(1), ..Options::default() });
    let file = slow.create("slow/file", "needle\n");
    std::fs::read(&file).expect("it answers");
    slow.mount().set_rules(vec!["slow: metadata=4s".parse().expect("a rule")]);
    let grep = nearfirst(&Dir::new(), ["grep", "--wait-max", "2", "-c", "needle"]);
    grep.arg(slow.path()).run().succeeds().is_quiet();
}

#[test]
fn a_link_out_of_a_mount_that_may_not_answer_is_known_for_a_loop() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = Dir::new();
    dir.create("from/file", "needle\n");
    dir.create("top/here", "needle\n");
    std::os::unix::fs::symlink(dir.join("top"), dir.join("from/up")).expect("a link");
    let at = dir.create_dir("top/mount");
    let _mount = slowfs::Mount::new(dir.join("from"), &at, Options::default()).expect("mounted");
    for flag in ["-j1", "-j2"] {
        let grep = nearfirst(&Dir::new(), ["grep", "--follow", "-l", "needle", ".", flag]);
        let output = grep.dir(dir.join("top")).run();
        output.ends_with(2).complains("loop");
        let text = output.text();
        let mut found: Vec<_> = text.lines().collect();
        found.sort_unstable();
        assert_eq!(found, ["./here", "./mount/file"]);
    }
}

#[test]
fn a_mount_that_may_not_answer_is_walked_as_part_of_what_it_is_mounted_in() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = Dir::new();
    for file in
        ["top/.ignore", "top/local/ignored", "from/file", "from/ignored", "from/deep/er/file"]
    {
        dir.create(file, "ignored\nneedle\n");
    }
    let at = dir.create_dir("top/mount");
    let _mount = slowfs::Mount::new(dir.join("from"), &at, Options::default()).expect("mounted");
    let state = Dir::new();
    let all = "./mount/deep/er/file\n./mount/file\n";
    for (flags, files) in [
        (&["--sort=path"][..], all),
        (&["--sort=path", "--no-ignore-parent"], all),
        (&["--max-depth=2", "-j2"], "./mount/file\n"),
        (&["--one-file-system", "--no-ignore", "-j1"], "./local/ignored\n"),
    ] {
        let cmd = nearfirst(&state, ["grep", "-l", "needle", "."]).dir(dir.join("top"));
        flags.iter().fold(cmd, testkit::Cmd::arg).run().prints(files);
    }
}

#[test]
fn what_an_ignore_file_has_wrong_is_not_said_again_of_a_mount_below_it() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = Dir::new();
    dir.create("top/.ignore", "{x\n");
    dir.create("from/file", "needle\n");
    let at = dir.create_dir("top/mount");
    let _mount = slowfs::Mount::new(dir.join("from"), &at, Options::default()).expect("mounted");
    let output = nearfirst(&Dir::new(), ["grep", "-l", "needle", "."]).dir(dir.join("top")).run();
    output.succeeds().complains("./.ignore: line 1: ");
    assert_eq!((output.text(), output.stderr().lines().count()), ("./mount/file\n".into(), 1));
}

#[test]
fn a_file_in_memory_is_as_many_requests_away_as_it_is_opened() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow =
        SlowDir::new(Options { time_to_live: Duration::from_hours(1), ..Options::default() });
    let path = slow.create("text", lines(1 << 20, 3));
    let _held = hold(&path, 0..MIB);
    let state = Dir::new();
    for (args, code) in [(["wc", "-l", "--"], 0), (["grep", "-c", "needle"], 1)] {
        slow.reset();
        nearfirst(&state, args).arg(&path).run().ends_with(code);
        let asked = slow.stats().total;
        assert_eq!((asked.metadata, asked.reads), (1, 0), "{args:?}");
    }
}

#[test]
fn a_search_that_ends_early_does_not_come_to_a_dead_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let folder = Dir::new();
    for file in 0..1000 {
        folder.create(format!("{file}"), "needle\n");
    }
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    let state = Dir::new();
    let above = slow.path().parent().expect("a folder above");
    for flags in [&["-q", "needle"][..], &["-q", "--files"]] {
        let cmd = nearfirst(&state, ["grep", "--wait-max", "0.2", "-j1"]);
        let cmd = flags.iter().fold(cmd, testkit::Cmd::arg);
        cmd.arg(folder.path()).arg(above).run().ends_with(0).is_quiet();
    }
    let all = nearfirst(&state, ["grep", "--wait-max", "0.2", "-j1", "-c", "needle"]);
    let output = all.arg(folder.path()).arg(above).run();
    output.ends_with(2).complains("has not answered for 0.2 s");
    assert_eq!(output.text().lines().count(), 1000);
    slow.mount().set_rules(Vec::new());
}

#[test]
fn find_passes_over_a_dead_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    slow.create("folder/file", "text\n");
    let folder = Dir::new();
    folder.create("alive", "text\n");
    std::os::unix::fs::symlink(slow.path(), folder.path().join("link")).expect("a link");
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    let state = Dir::new();
    let find = |args: &[&std::ffi::OsStr]| {
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        let cmd = program.cmd(["find", "--wait-max", "0.2"]).env("NEARFIRST_STATE", state.path());
        args.iter().fold(cmd, testkit::Cmd::arg).run()
    };
    let (dead, alive) = (slow.path().as_os_str(), folder.path().as_os_str());
    let above = slow.path().parent().expect("a folder above").as_os_str();
    for args in [
        &[dead, alive][..],
        &["-L".as_ref(), alive],
        &[above, alive, "-size".as_ref(), "1".as_ref()],
    ] {
        let output = find(args);
        output.ends_with(1).complains("has not answered for 0.2 s");
        assert!(output.text().contains("alive"), "{args:?}: {}", output.text());
    }
    // What is not entered is not asked.
    for rest in [["-path", slow.path().to_str().expect("text"), "-prune"].as_slice(), &["-xdev"]] {
        let rest: Vec<&std::ffi::OsStr> = rest.iter().map(std::ffi::OsStr::new).collect();
        find(&[&[above], rest.as_slice()].concat()).ends_with(0);
    }
    slow.mount().set_rules(Vec::new());
    let found = nearfirst(&state, ["find"]).arg(dead).run();
    assert!(found.text().contains("folder/file"), "{}", found.text());
}

#[test]
fn an_offline_file_is_left_alone_and_the_rest_is_done() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let stub = slow.path().join("stub");
    File::create(slow.source().join("stub")).and_then(|file| file.set_len(MIB)).expect("a hole");
    let alive = slow.create("alive", "needle\n");
    let state = Dir::new();
    let device = nearfirst(&state, ["devices", "--json"]).run().text();
    let device = device_below(&device, slow.path());
    let known =
        "has_stubs = true\nkeeps_cache = true\nlatency_s = [0.001]\nbandwidth_large = [1e9]\n";
    state.create("devices.toml", format!("version = 1\n[device.{device:?}]\n{known}"));
    slow.reset();
    for (args, code) in [
        (&["wc", "-l"][..], 1),
        (&["grep", "-c", "needle"], 2),
        (&["grep", "--pre=cat", "-c", "needle"], 2),
    ] {
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        let cmd = program.cmd(args).env("NEARFIRST_STATE", state.path());
        let output = cmd.arg(&stub).arg(&alive).run();
        output.ends_with(code).complains("offline");
        assert!(output.text().contains("alive"), "{args:?}: {}", output.text());
        assert_eq!(slow.stats().file("stub").opens, 0, "{args:?}");
    }
    let calibrated = nearfirst(&state, ["calibrate", "--no-save"]).arg(&stub).run();
    calibrated.ends_with(1).complains("stub: offline");
    let found = nearfirst(&state, ["grep", "-c", "needle"]).arg(slow.path()).run();
    found.ends_with(2).complains("stub: offline: reading it would recall 1048576 bytes, and is");
    assert_eq!((slow.stats().file("stub").opens, slow.stats().file("alive").opens > 0), (0, true));
    let told = nearfirst(&state, ["sleds"]).arg(&stub).run();
    assert!(told.text().contains("offline"), "{}", told.text());
    assert!(told.text().contains(&format!("cold:{device}")), "{}", told.text());
    let listed = nearfirst(&state, ["ls", "-l", "--sort=name"]).arg(&stub).arg(&alive).run();
    let tiers: Vec<_> = listed.text().lines().map(|line| line.contains("  offline  ")).collect();
    assert_eq!(tiers, [false, true], "{}", listed.text());
    let listed = nearfirst(&state, ["ls", "--json"]).arg(&stub).run();
    assert!(listed.text().contains(r#""tier":"cold","class":"offline""#), "{}", listed.text());
    // What the disk before the tape takes says nothing of the tape.
    let quick = nearfirst(&state, ["find"]).arg(slow.path()).arg("-latency").arg("-1000").run();
    assert_eq!(quick.text(), format!("{}\n", alive.display()), "{}", quick.stderr());
    quick.ends_with(0).complains("it seems to be offline");
    let tape =
        format!("[device.\"cold:{device}\"]\nlatency_s = [300.0]\nbandwidth_large = [1e8]\n");
    let both = format!("version = 1\n[device.{device:?}]\n{known}{tape}");
    state.create("devices.toml", both);
    let slow_ones = nearfirst(&state, ["find"]).arg(slow.path()).arg("-latency").arg("+200").run();
    slow_ones.prints(format!("{}\n", stub.display())).is_quiet();
    // A hole that lies elsewhere is none, though a name there leads to it.
    let elsewhere = Dir::new();
    let link = slow.path().join("link");
    std::os::unix::fs::symlink(elsewhere.create_sparse("hole", MIB), &link).expect("a link");
    nearfirst(&state, ["grep", "-c", "needle"]).arg(&link).run().ends_with(1);
}

/// The name of the device mounted on `mount`, from `devices --json`.
fn device_below(devices: &str, mount: &Path) -> String {
    let rows = devices.lines().map(|line| serde_json::from_str(line).expect("a JSON line"));
    let on_mount = |row: &serde_json::Value| row.to_string().contains(&*mount.to_string_lossy());
    let row: serde_json::Value = rows.into_iter().find(on_mount).expect("the mount is listed");
    row["device"].as_str().expect("a name").to_owned()
}

#[test]
fn a_failing_device_is_reported_and_the_rest_is_done() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let faults = vec![slowfs::Fault::FailAt(MIB)];
    let rule = Rule::new("broken", Profile { faults, ..Profile::default() }).expect("a pattern");
    let slow = SlowDir::new(Options { rules: vec![rule], ..Options::default() });
    let broken = slow.create("broken", lines(2 << 20, 3));
    let sound = slow.create("sound", "needle\n");
    for (command, code) in [("wc", 1), ("grep", 2)] {
        let pattern = if command == "grep" { &["grep", "needle"][..] } else { &["wc", "-l"] };
        let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
        let state = Dir::new();
        let cmd = program.cmd(pattern).env("NEARFIRST_STATE", state.path());
        let output = cmd.arg(&broken).arg(&sound).run();
        output.ends_with(code).complains("Input/output error");
        assert!(output.text().contains("sound"), "{}", output.text());
    }
}

#[test]
fn names_ordered_near_first_put_what_is_near_before_what_is_far() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("ext4"),
        Facility::Tool("mkfs.ext4"),
    );
    let disk = LoopDisk::new(testkit::FileSystem::Ext4, 64 * MIB);
    let mut names = Vec::new();
    for index in 0..8 {
        let path = disk.path().join(format!("file{index}"));
        std::fs::write(&path, lines(1 << 20, index)).expect("written");
        evict(&path);
        names.push(path);
    }
    make_near(&names[5], 0..MIB);
    let _held = hold(&names[5], 0..MIB);
    let list: Vec<u8> =
        names.iter().flat_map(|name| [name.to_string_lossy().as_bytes(), b"\0"].concat()).collect();
    let output = nearfirst(&Dir::new(), ["order", "-0"]).stdin(list).run();
    let ordered = output.succeeds().text();
    let ordered: Vec<&str> = ordered.trim_end_matches('\0').split('\0').collect();
    assert_eq!(ordered.len(), 8);
    assert!(ordered[0].ends_with("file5"), "{ordered:?}");
}

#[test]
fn find_knows_files_by_their_latency() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("ext4"),
        Facility::Tool("mkfs.ext4"),
    );
    let disk = LoopDisk::new(testkit::FileSystem::Ext4, 64 * MIB);
    let (near, far) = (disk.path().join("near"), disk.path().join("far"));
    for path in [&near, &far] {
        std::fs::write(path, lines(4 << 20, 1)).expect("written");
        evict(path);
    }
    let _held = hold(&near, 0..4 * MIB);
    let state = Dir::new();
    let devices = nearfirst(&state, ["devices", "--json"]).run().text();
    let device = device_below(&devices, disk.path());
    let table =
        format!("version = 1\n[device.{device:?}]\nlatency_s = [0.5]\nbandwidth_large = [1e6]\n");
    state.create("devices.toml", table);
    let find = |test: [&str; 2]| {
        let cmd = nearfirst(&state, ["find"]).arg(disk.path());
        test.iter().fold(cmd.arg("-type").arg("f"), testkit::Cmd::arg).run()
    };
    let path = |path: &Path| format!("{}\n", path.display());
    find(["-latency", "-m100"]).succeeds().prints(path(&near));
    find(["-latency", "+2"]).succeeds().prints(path(&far));
    find(["-latency", "5"]).succeeds().prints(path(&far));
    let on_disk = find(["-device", "loop:*"]).succeeds().text();
    assert!(on_disk.contains(&path(&far)), "{on_disk}");
    find(["-device", "memory"]).succeeds().prints(path(&near));
}

/// What has a program's reads of a regular file of 1 MiB fail as the system says it of some servers.
const LATE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_late(int file) {
    struct stat about;
    errno = ETIMEDOUT;
    return fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == 1 << 20;
}

ssize_t read(int file, void *to, size_t bytes) {
    ssize_t (*next)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    return is_late(file) ? -1 : next(file, to, bytes);
}

ssize_t pread64(int file, void *to, size_t bytes, off64_t at) {
    ssize_t (*next)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    return is_late(file) ? -1 : next(file, to, bytes, at);
}
"#;

#[test]
fn what_the_system_calls_late_is_not_told_as_our_own_limit() {
    let dir = Dir::new();
    skip_unless!(Facility::Disk(dir.path()), Facility::Tool("gcc"));
    let (source, library) = (dir.create("late.c", LATE), dir.join("late.so"));
    cmd("gcc", ["-shared", "-fPIC", "-o"]).arg(&library).arg(source).run().succeeds();
    let far = dir.create("far", lines(1 << 20, 1));
    evict(&far);
    let output = nearfirst(&dir, ["wc", "-l"]).arg(&far).env("LD_PRELOAD", &library).run();
    output.ends_with(1).complains("far: Connection timed out");
}
