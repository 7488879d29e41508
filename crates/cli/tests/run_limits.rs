//! `nearfirst run` where memory, disk or processes run out, or a sandbox refuses calls: the command does
//! what it would do without, and what was learned before stays.

mod running;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use running::{begin, finish, forget_pages, nearfirst, reader, script};
use slowfs::Options;
use testkit::{
    Dir, Facility, MemoryCgroup, PidsCgroup, SlowDir, Tmpfs, cmd, evict, noise, skip_unless, until,
    until_memory_suffices,
};

const MIB: u64 = 1 << 20;

/// A slow folder of `count` files of a megabyte, and a script that reads the first, waits for a line
/// and reads them all.
fn many_megabytes(count: usize) -> (SlowDir, Dir, PathBuf) {
    let slow = SlowDir::new(Options::default());
    let files: Vec<_> = (0..count)
        .map(|at| slow.create(format!("f{at}"), noise(1 << 20, at as u64)))
        .map(|path| path.display().to_string())
        .collect();
    let dir = Dir::new();
    let text = format!("cat {} > /dev/null\nread -r line\ncat {}", files[0], files.join(" "));
    let script = script(&dir, "megabytes", &text);
    (slow, dir, script)
}

fn evict_all(slow: &SlowDir) {
    let listed = fs::read_dir(slow.source()).expect("ours");
    listed.flatten().for_each(|entry| evict(slow.path().join(entry.file_name())));
    slow.reset();
}

#[test]
fn no_more_is_fetched_than_memory_has_room_for() {
    const FILES: usize = 96;
    const LIMIT: u64 = 64 * MIB;
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Cgroup("memory"));
    let (slow, _dir, script) = many_megabytes(FILES);
    let state = Dir::new();
    // Rules that know no chances, and no bounds of how far ahead they predict, put all at stake.
    let flags = ["--rules=paper"];
    assert!(finish(begin(&state, &flags, &script)).status.success());
    evict_all(&slow);
    let group = MemoryCgroup::new(LIMIT);
    until_memory_suffices();
    let run = nearfirst(&state, &["run"]).arg(flags[0]).arg("--").arg(&script);
    let mut command = group.wrap(run).into_command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("started");
    let mut before = 0;
    let mut same = 0;
    until("what is fetched is fetched", || {
        let now = slow.stats().total.read_bytes;
        same = if now > 2 * MIB && now == before { same + 1 } else { 0 };
        before = now;
        same > 20
    });
    let ahead = slow.stats().total.read_bytes;
    assert!(ahead < LIMIT / 2, "{ahead} bytes fetched, of {LIMIT} that there are");
    let output = finish(child);
    assert!(output.status.success());
    assert_eq!(output.stdout.len() as u64, FILES as u64 * MIB);
    drop(group);
}

#[test]
fn nothing_is_fetched_where_memory_is_used_up() {
    skip_unless!(
        Facility::Root,
        Facility::Fuse,
        Facility::Cgroup("memory"),
        Facility::Tool("python3")
    );
    let (slow, dir, read) = reader();
    let state = Dir::new();
    assert!(finish(begin(&state, &["--rules=paper"], &read)).status.success());
    forget_pages(&slow);
    // Fills the group but for six megabytes, which is less than the part that must stay free, and
    // waits for longer than what was seen of memory holds.
    let hog = dir.create(
        "hog.py",
        "import sys, subprocess, time\n\
         usage, limit, script = sys.argv[1:]\n\
         held = []\n\
         while int(limit) - int(open(usage).read()) > 6 << 20:\n\
         \x20   held.append(b'x' * (256 << 10))\n\
         time.sleep(0.5)\n\
         sys.exit(subprocess.call([script]))\n",
    );
    let limit = 192 * MIB;
    let group = MemoryCgroup::new(limit);
    let run = nearfirst(&state, &["run", "--rules=paper", "--stats", "--", "python3"]);
    let run = run.arg(&hog).arg(group.usage_file()).arg(limit.to_string()).arg(&read);
    let output = group.run(run.stdin("go\n"));
    output.succeeds().complains("given up for want of memory");
    let stats = nearfirst(&state, &["trees", "stats", "--json"]).run().text();
    let stats: serde_json::Value = serde_json::from_str(&stats).expect(&stats);
    // None of the script's files; a page of a library may have left the machine's memory before the
    // group's was used up, and was fetched.
    let fetched = stats["fetched_bytes"].as_u64().expect("a count");
    assert!(fetched < 20_000, "{stats}: {}", output.stderr());
    assert_eq!(output.stdout().len() as u64, (running::FILES as u64 + 1) * 20_000);
}

#[test]
fn what_is_learned_keeps_within_the_memory_that_it_may_take() {
    let dir = Dir::new();
    let name = "n".repeat(200);
    for number in 0..6000 {
        dir.create(format!("files/{name}{number}"), "");
    }
    let text = "for file in \"${0%/*}\"/files/*; do read x < $file; done; true";
    let reads = script(&dir, "reads", text);
    // It is looked at the memory as programs end.
    let ends = script(&dir, "ends", "for number in {1..150}; do /bin/true $number; done");
    let learned = |flags: &[&str]| {
        let state = Dir::new();
        for script in [&reads, &ends] {
            let run = nearfirst(&state, &[&["run"], flags, &["--"]].concat());
            run.arg(script).run().succeeds().is_quiet();
        }
        fs::metadata(state.join("trees")).expect("saved").len()
    };
    assert!(learned(&[]) > 1 << 20);
    let bounded = learned(&["--memory=1M"]);
    assert!(bounded < 1 << 20, "{bounded}");
    let state = Dir::new();
    for memory in ["129M", "1K", "much"] {
        let run = nearfirst(&state, &["run", "--memory", memory, "true"]).run();
        run.ends_with(2).complains("--memory <BYTES>");
    }
}

#[test]
fn where_memory_runs_out_who_observes_goes_before_the_command() {
    let state = Dir::new();
    let text = "for try in {1..1200}; do read -r parent < /proc/$PPID/oom_score_adj\n\
                [ $parent = 1000 ] && break; sleep 0.05; done\n\
                read -r own < /proc/self/oom_score_adj; echo $parent $own";
    let own = fs::read_to_string("/proc/self/oom_score_adj").expect("the kernel tells");
    let run = nearfirst(&state, &["run", "--", "bash", "-c", text]).run();
    run.succeeds().prints(format!("1000 {own}"));
}

#[test]
fn patterns_that_memory_has_no_room_for_are_not_read() {
    skip_unless!(Facility::Root, Facility::Cgroup("memory"));
    let dir = Dir::new();
    let name = "n".repeat(200);
    for number in 0..3000 {
        dir.create(format!("files/{name}{number}"), "");
    }
    let text = "for file in \"${0%/*}\"/files/*; do read x < $file; done; true";
    let reads = script(&dir, "reads", text);
    let state = Dir::new();
    nearfirst(&state, &["run", "--"]).arg(&reads).run().succeeds().is_quiet();
    assert!(fs::metadata(state.join("trees")).expect("saved").len() > 512 << 10);
    let run = |limit| MemoryCgroup::new(limit).run(nearfirst(&state, &["run", "--", "true"]));
    run(256 * MIB).succeeds().is_quiet();
    // Of which a quarter may be taken.
    run(10 * MIB).succeeds().complains("trees: more than memory has room for");
    assert!(nearfirst(&state, &["trees"]).run().text().contains("/reads"), "they are kept");
    let files = fs::read_dir(state.path()).expect("a folder").map(|file| file.expect("one"));
    let is_left = |file: fs::DirEntry| file.file_name().to_string_lossy().contains("seen.");
    assert!(files.into_iter().any(is_left), "nor at the end: what was seen is left beside them");
}

/// Writes to a file system until nothing more goes.
fn fill(at: &Path) {
    let mut file = File::create(at.join("ballast")).expect("there is room for a name");
    while file.write_all(&[7; 4096]).is_ok() {}
}

#[test]
fn a_full_disk_under_the_patterns_is_said_once_and_keeps_the_old_ones() {
    skip_unless!(Facility::Root);
    let disk = Tmpfs::new(256 << 10);
    let state = Dir::new_in(&disk);
    let dir = Dir::new();
    let known = script(&dir, "known", "cat /etc/passwd > /dev/null");
    let other = script(&dir, "other", "cat /etc/group; exit 4");
    nearfirst(&state, &["run", "--"]).arg(&known).run().succeeds().is_quiet();
    let saved = fs::read(state.join("trees")).expect("saved");
    fill(disk.path());
    let output = nearfirst(&state, &["run", "--"]).arg(&other).run();
    output.ends_with(4).complains("No space left on device; what was learned is not kept");
    assert_eq!(output.stderr().lines().count(), 1, "{}", output.stderr());
    assert_eq!(output.stdout(), fs::read("/etc/group").expect("readable"));
    assert_eq!(fs::read(state.join("trees")).expect("still there"), saved);
    let names: Vec<_> = fs::read_dir(state.path()).expect("ours").flatten().collect();
    let is_part = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "part");
    assert!(!names.iter().any(is_part), "{names:?}");
    fs::remove_file(disk.path().join("ballast")).expect("ours");
    nearfirst(&state, &["run", "--"]).arg(&other).run().ends_with(4).is_quiet();
    let listed = nearfirst(&state, &["trees"]).run().text();
    assert!(listed.contains("/known") && listed.contains("/other"), "{listed}");
}

#[test]
fn a_state_that_cannot_be_written_is_said_once_and_stops_nothing() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let state = Dir::new();
    nearfirst(&state, &["run", "--", "sh", "-c", "exit 3"]).run().ends_with(3).is_quiet();
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let text = format!(
        "mount --bind -o ro {at} {at} && NEARFIRST_STATE={at} exec {program} run -- sh -c 'exit 3'",
        at = state.path().display()
    );
    let output = cmd("unshare", ["-m", "sh", "-c", &text]).run();
    output.ends_with(3).complains("Read-only file system; what was learned is not kept");
    assert_eq!(output.stderr().lines().count(), 1, "{}", output.stderr());
}

#[test]
fn patterns_damaged_anywhere_are_set_aside_or_read_and_never_trusted_blindly() {
    let state = Dir::new();
    let dir = Dir::new();
    let known = script(&dir, "known", "cat /etc/passwd /etc/group > /dev/null");
    nearfirst(&state, &["run", "--"]).arg(&known).run().succeeds();
    let whole = fs::read(state.join("trees")).expect("saved");
    for at in (0..whole.len()).step_by(whole.len() / 8 + 1) {
        state.create("trees", &whole);
        let file = File::options().write(true).open(state.join("trees")).expect("ours");
        file.write_all_at(&[!whole[at]], at as u64).expect("ours");
        let output = nearfirst(&state, &["run", "--"]).arg(&known).run();
        output.succeeds().complains("set aside as");
        let mut kept = whole.clone();
        kept[at] = !kept[at];
        assert_eq!(fs::read(state.join("trees.broken")).expect("kept"), kept, "byte {at}");
        let output = nearfirst(&state, &["trees"]).run();
        output.succeeds().is_quiet();
        assert!(output.text().contains("/known"), "learned anew: {}", output.text());
    }
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        state.create("trees", &whole[..length]);
        let output = nearfirst(&state, &["run", "--"]).arg(&known).run();
        output.succeeds().complains("set aside as");
    }
}

#[test]
fn who_attends_to_a_user_with_patterns_of_a_later_version_says_so_and_waits_for_its_end() {
    skip_unless!(Facility::Root);
    let (state, dir) = (Dir::new(), Dir::new());
    let known = script(&dir, "known", "cat /etc/passwd > /dev/null");
    nearfirst(&state, &["run", "--"]).arg(&known).run().succeeds().is_quiet();
    let later = of_form(&fs::read(state.join("trees")).expect("saved"), |form| form + 1);
    let trees = state.create("service/0/trees", &later);
    let attend = nearfirst(&state, &["watch", "--attend", "0"]);
    let attended = attend.arg(state.join("service/0")).stdin("").run();
    attended.succeeds().complains("later version wrote");
    attended.complains("nothing is learned or fetched for user 0");
    assert_eq!(fs::read(trees).expect("still there"), later);
}

#[test]
fn who_attends_to_a_user_and_can_keep_nothing_says_of_which_file_and_goes_on() {
    skip_unless!(Facility::Root);
    let state = Dir::new();
    let lock = state.create_dir("service/0").join("trees.lock");
    symlink("elsewhere", &lock).expect("ours");
    let attend = nearfirst(&state, &["watch", "--attend", "0"]);
    let attended = attend.arg(state.join("service/0")).stdin("").run();
    let why = "Too many levels of symbolic links; what is learned for user 0 is not kept";
    attended.succeeds().complains(&format!("{}: {why}", lock.display()));
    assert!(!state.join("service/0/trees").exists());
}

#[test]
fn patterns_of_a_later_version_are_left_to_it() {
    let state = Dir::new();
    let dir = Dir::new();
    let known = script(&dir, "known", "cat /etc/passwd > /dev/null");
    let run = || nearfirst(&state, &["run", "--"]).arg(&known).run();
    run().succeeds().is_quiet();
    let whole = fs::read(state.join("trees")).expect("saved");
    let later = of_form(&whole, |form| form + 1);
    state.create("trees", &later);
    let output = run();
    output.succeeds().complains("which a later version wrote");
    output.complains("; what was learned waits beside it\n");
    assert_eq!(fs::read(state.join("trees")).expect("still there"), later);
    assert!(!state.join("trees.broken").exists());
    // What was seen meanwhile is learned once it can be.
    state.create("trees", &whole);
    run().succeeds().is_quiet();
    let listed = nearfirst(&state, &["trees", "--json"]).run().text();
    assert!(listed.contains("\"runs\":3"), "{listed}");
    // An earlier one is set aside.
    state.create("trees", of_form(&whole, |form| form - 2));
    run().succeeds().complains("set aside as");
    // So is one that is no later one's, but damaged where its form is told.
    let mut damaged = whole;
    damaged[FORM_AT] += 1;
    state.create("trees", &damaged);
    run().succeeds().complains("set aside as");
    assert_eq!(fs::read(state.join("trees.broken")).expect("kept"), damaged);
}

/// Where patterns tell their form.
const FORM_AT: usize = b"nearfirst patterns\n".len();

/// These patterns as if they had another form, with the checksum of it.
fn of_form(patterns: &[u8], form: impl Fn(u8) -> u8) -> Vec<u8> {
    let (content, _) = patterns.split_last_chunk::<8>().expect("a checksum");
    let mut content = content.to_vec();
    content[FORM_AT] = form(content[FORM_AT]);
    let mix = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let checksum = content.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    content.extend_from_slice(&checksum.to_le_bytes());
    content
}

#[test]
fn a_fork_bomb_ends_at_its_limit_and_takes_nobody_with_it() {
    skip_unless!(Facility::Root, Facility::Cgroup("pids"), Facility::Tool("python3"));
    let state = Dir::new();
    let dir = Dir::new();
    // Each generation makes two, as long as more can be made.
    let bomb = dir.create(
        "bomb.py",
        "import os, sys\n\
         def bomb(generations):\n\
         \x20   for _ in range(2):\n\
         \x20       try: child = os.fork()\n\
         \x20       except OSError: continue\n\
         \x20       if child == 0:\n\
         \x20           open('/etc/passwd').close()\n\
         \x20           if generations: bomb(generations - 1)\n\
         \x20           os._exit(0)\n\
         \x20   while True:\n\
         \x20       try: os.wait()\n\
         \x20       except ChildProcessError: return\n\
         bomb(8)\nsys.exit(6)\n",
    );
    let group = PidsCgroup::new(200);
    let output = group.run(nearfirst(&state, &["run", "--", "python3"]).arg(&bomb));
    output.ends_with(6);
    assert!(group.refused() > 0, "it was to reach its limit");
    until("all of them have ended", || group.count() == 0);
    nearfirst(&state, &["run", "--", "sh", "-c", "exit 3"]).run().ends_with(3).is_quiet();
    nearfirst(&state, &["trees"]).run().succeeds();
}

#[test]
fn without_room_for_those_who_observe_the_command_runs_or_says_why() {
    skip_unless!(Facility::Root, Facility::Cgroup("pids"));
    let state = Dir::new();
    let run = || nearfirst(&state, &["run", "--", "sh", "-c", "exit 3"]);
    // From no process at all beside the first to as many as are needed.
    let code = |most| {
        let output = PidsCgroup::new(most).run(run());
        assert!(!output.stderr().contains("panicked"), "{most}: {}", output.stderr());
        output.code()
    };
    let codes: Vec<i32> = (1..=24).map(code).collect();
    assert!(codes.iter().all(|code| matches!(code, 3 | 126)), "{codes:?}");
    assert_eq!(codes.last(), Some(&3), "{codes:?}");
}

#[test]
fn without_descriptors_for_those_who_observe_the_command_runs() {
    let state = Dir::new();
    let program = env!("CARGO_BIN_EXE_nearfirst");
    // From what the command itself needs to as many as are needed beside it.
    let text = format!(
        "for most in {{4..24}}; do (ulimit -n $most; {program} run -- true); echo $?; done",
    );
    let output = cmd("bash", ["-c", &text]).env("NEARFIRST_STATE", state.path()).run();
    output.succeeds().prints("0\n".repeat(21));
    assert!(!output.stderr().contains("panicked"), "{}", output.stderr());
}

#[test]
fn where_files_may_not_be_large_what_is_learned_is_lost_and_not_the_code() {
    let state = Dir::new();
    let dir = Dir::new();
    let known = script(&dir, "known", "cat /etc/* > /dev/null 2>&1; sleep 0.1; exit 7");
    nearfirst(&state, &["run", "--"]).arg(&known).run().ends_with(7);
    let saved = fs::read(state.join("trees")).expect("saved");
    assert!(saved.len() > 1024, "{}", saved.len());
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let under_limit = |command: &str| {
        let text = format!("ulimit -f 1; exec {program} run -- {command}");
        cmd("bash", ["-c", &text]).dir(&dir).env("NEARFIRST_STATE", state.path()).run()
    };
    under_limit("./known").ends_with(7).complains("File too large");
    assert_eq!(fs::read(state.join("trees")).expect("still there"), saved);
    let names: Vec<_> = fs::read_dir(state.path()).expect("ours").flatten().collect();
    let is_part = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "part");
    assert!(!names.iter().any(is_part), "{names:?}");
    // The command itself is ended by the signal, as without.
    under_limit("sh -c 'head -c 5000 /dev/zero > large; exit $?'").ends_with(128 + 25);
}

/// Runs a command under a filter of its own, by which a call fails.
const REFUSES: &str = r"
import ctypes, os, struct, sys
number, *words = sys.argv[1:]
load, equal, fail, allow = (0x20, 0, 0, 0), (0x15, 0, 1, int(number)), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in (load, equal, fail, allow)))
program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 4, ctypes.addressof(code)))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program) == 0
os.execvp(words[0], words)
";

#[test]
fn where_calls_cannot_be_answered_the_command_runs_without_observers() {
    skip_unless!(Facility::Tool("python3"));
    let (dir, state) = (Dir::new(), Dir::new());
    let refuses = dir.create("refuses.py", REFUSES);
    let words = [env!("CARGO_BIN_EXE_nearfirst"), "run", "--", "sh", "-c", "exit 3"];
    let run = cmd("python3", [refuses]).arg(libc::SYS_ioctl.to_string()).arg("timeout").arg("60");
    let run = words.iter().fold(run, testkit::Cmd::arg).env("NEARFIRST_STATE", state.path());
    run.run().ends_with(3).complains("run without");
}
