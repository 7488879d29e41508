//! `nearfirst run` and `nearfirst trees` through the built program: what a command reads is fetched
//! before it asks, and nobody but its files knows.

mod running;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use running::{
    FILES, Sentinel, begin, children, family, finish, forget_pages, have_come, is_running,
    nearfirst, nearly_all_is_near, reader, script,
};
use rustix::process::{Pid, Signal, kill_process};
use testkit::{
    Dir, Facility, SlowDir, cmd, end_of, evict, is_resident, noise, skip_unless, until, writer_of,
};

#[test]
fn the_second_run_has_its_files_fetched_before_it_opens_them() {
    skip_unless!(Facility::Root, Facility::Fuse);
    for rules in ["--rules=ours", "--rules=paper"] {
        let (slow, _dir, script) = reader();
        let state = Dir::new();
        assert!(finish(begin(&state, &[rules], &script)).status.success());
        forget_pages(&slow);
        let child = begin(&state, &[rules, "--stats"], &script);
        let rest = (FILES * 20_000) as u64;
        // The script waits all this time: nobody but us can be who reads.
        until("the files are fetched", || have_come(&slow));
        let output = nearly_all_is_near(&slow, 20_000, || finish(child));
        assert_eq!(output.stdout.len() as u64, rest + 20_000);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("read in time"), "{said}");
    }
}

#[test]
fn of_a_file_of_which_little_is_read_little_is_fetched() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let size = 1 << 20;
    let names = ["first", "headed", "whole"];
    let [first, headed, whole] = names.map(|name| slow.create(name, noise(size, 1)));
    let dir = Dir::new();
    let text = format!(
        "cat {}\nread -r line\nhead -c 1000 {}\ncat {}\n",
        first.display(),
        headed.display(),
        whole.display()
    );
    let (script, state) = (script(&dir, "script", &text), Dir::new());
    let forget = || {
        [&first, &headed, &whole].into_iter().for_each(evict);
        slow.reset();
    };
    let read_bytes =
        |name: &str| -> u64 { slow.stats().reads_of(name).iter().map(|(_, length)| length).sum() };
    for _ in 0..2 {
        forget();
        assert!(finish(begin(&state, &[], &script)).status.success());
    }
    forget();
    let child = begin(&state, &[], &script);
    // The script reads the first and then waits all this time: who reads more is us.
    let (mut before, mut unchanged) = (slow.stats().total, 0);
    until("the files are fetched", || {
        let now = slow.stats().total;
        let is_read = ["first", "whole"].map(read_bytes).iter().all(|read| *read >= size as u64);
        unchanged = if now.reads == before.reads { unchanged + 1 } else { 0 };
        before = now;
        is_read && read_bytes("headed") > 0 && unchanged >= 20
    });
    let output = nearly_all_is_near(&slow, size as u64 / 4, || finish(child));
    assert!(output.status.success());
    assert!(read_bytes("headed") <= size as u64 / 2, "{}", read_bytes("headed"));
    let known = fs::read_to_string(state.path().join("devices.toml")).expect("saved");
    assert!(known.contains("keeps_cache = true"), "it was seen to keep it: {known}");
}

#[test]
fn of_a_file_that_is_mapped_what_is_touched_is_learned_and_not_what_comes_with_it() {
    skip_unless!(Facility::Root, Facility::Tool("python3"));
    let dir = Dir::new();
    let large = dir.create("large", noise(64 << 20, 1)).canonicalize().expect("there");
    let reader = dir.create(
        "mapping.py",
        "import mmap, os, sys, time\n\
         large = os.open(sys.argv[1], os.O_RDONLY)\n\
         mapped = mmap.mmap(large, 0, prot=mmap.PROT_READ)\n\
         time.sleep(0.1)\n\
         for at in range(16 << 20, 48 << 20, 128 << 10):\n \
             os.posix_fadvise(large, at, 128 << 10, os.POSIX_FADV_WILLNEED)\n\
         mapped[32 << 20]\n\
         # It is looked now and then, while the program runs.\n\
         time.sleep(0.2)\n\
         os._exit(0)\n",
    );
    let (state, trace) = (Dir::new(), dir.join("trace"));
    let mut parts: Vec<Vec<u64>> = Vec::new();
    // It is learned where the program is seen to open the file before it reads of it.
    until("what was read is told", || {
        evict(&large);
        let run = nearfirst(&state, &["run", "--no-fetch", "--record"]).arg(&trace).arg("--");
        run.arg("python3").arg(&reader).arg(&large).run().succeeds();
        // Where pages left memory meanwhile, what came with others looks as if it came by itself.
        if !is_resident(&large, 16 << 20..48 << 20) {
            return false;
        }
        let told = fs::read_to_string(&trace).expect("recorded");
        let mut lines = told.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let file = lines.find(|words| words[0] == "file" && words[2].ends_with("/large"));
        let number = file.expect("it is opened")[1];
        let touch = lines.find(|words| words[1] == "touch" && words[3] == number);
        let touch = touch.unwrap_or_default();
        let bounds =
            |part: &&str| part.split('-').map(|at| at.parse().expect("a number")).collect();
        parts = touch.iter().skip(4).map(bounds).collect();
        !parts.is_empty()
    });
    let holds = |at: u64| parts.iter().any(|part| (part[0]..part[1]).contains(&at));
    // A touch may bring the huge page that it is in.
    assert!(holds(32 << 20) && !holds(24 << 20) && !holds(40 << 20), "{parts:?}");
}

#[test]
fn what_a_script_runs_by_the_same_interpreter_is_a_program_of_its_own() {
    let (dir, state) = (Dir::new(), Dir::new());
    script(&dir, "inner", "read -r line < /etc/passwd");
    let text =
        "cd \"${0%/*}\"; ./inner one; \"$PWD/inner\" two; bash -c 'true; true'; ./none; true";
    let outer = script(&dir, "outer", text);
    let trace = state.join("trace");
    let run = nearfirst(&state, &["run", "--record"]).arg(&trace).arg("--").arg(&outer);
    run.run().succeeds();
    let told = fs::read_to_string(&trace).expect("recorded");
    let called: Vec<_> = told
        .lines()
        .filter_map(|line| line.split_once(" exec ")?.1.splitn(4, ' ').nth(3))
        .map(|words| words.replace(&dir.path().display().to_string(), ""))
        .collect();
    let expected = [
        "/bin/bash /outer",
        "/bin/bash ./inner one",
        "/bin/bash /inner two",
        "bash -c true;%20true",
    ];
    assert_eq!(called, expected, "{told}");
}

#[test]
fn without_fetching_nothing_is_read_ahead() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (slow, _dir, script) = reader();
    let state = Dir::new();
    assert!(finish(begin(&state, &[], &script)).status.success());
    forget_pages(&slow);
    let late = || {
        let stats = nearfirst(&state, &["trees", "stats", "--json"]).run().text();
        serde_json::from_str::<serde_json::Value>(&stats).expect(&stats)["late"].clone()
    };
    let before = late();
    let sentinel = Sentinel::at(&slow.path().join("f1"));
    let child = begin(&state, &["--no-fetch", "--stats"], &script);
    until("the script waits", || slow.stats().total.read_bytes >= 20_000);
    until("it is found out what would be fetched", || !sentinel.has_seen_nobody());
    let output = finish(child);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = said.split_once("fetched: nothing; what would have been: ").expect(&said).1;
    assert!(told.contains(" (") && !told.starts_with("0 "), "{said}");
    assert_eq!(late(), before, "what is left alone on purpose is not late");
    let log = slow.stats().log;
    let order: Vec<_> = log.iter().map(|read| read.path.clone()).collect();
    let mut sorted: Vec<_> = (0..=FILES).map(|at| PathBuf::from(format!("f{at}"))).collect();
    let mut seen = order.clone();
    seen.dedup();
    assert_eq!(seen, std::mem::take(&mut sorted), "read as the script asks, one after the other");
}

#[test]
fn a_predicted_file_that_became_a_fifo_is_never_opened() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (slow, dir, _) = reader();
    let trap = dir.create("trap", "a file, as yet");
    let first = slow.path().join("f0");
    let text = format!(
        "cat {}\nread -r line\n[ -f {trap} ] && cat {trap}\ncat {}\n",
        first.display(),
        slow.path().join("f1").display(),
        trap = trap.display()
    );
    let script = script(&dir, "trapped", &text);
    let state = Dir::new();
    assert!(finish(begin(&state, &["--rules=paper"], &script)).status.success());
    fs::remove_file(&trap).expect("it is ours");
    cmd("mkfifo", [&trap]).run().succeeds();
    let watch =
        rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK).expect("a watch");
    rustix::fs::inotify::add_watch(&watch, &trap, rustix::fs::inotify::WatchFlags::OPEN)
        .expect("watched");
    forget_pages(&slow);
    let child = begin(&state, &["--rules=paper"], &script);
    until("the file after it is fetched", || !slow.stats().reads_of("f1").is_empty());
    assert!(finish(child).status.success());
    let mut buffer = [0; 4096];
    let opened = rustix::io::read(&watch, &mut buffer);
    assert_eq!(opened, Err(rustix::io::Errno::AGAIN), "somebody opened the FIFO");
}

#[test]
fn codes_signals_and_streams_pass_through() {
    let state = Dir::new();
    let run = |words: &[&str]| {
        let mut command = nearfirst(&state, &["run", "--"]);
        for word in words {
            command = command.arg(word);
        }
        command
    };
    run(&["sh", "-c", "exit 7"]).run().ends_with(7);
    run(&["sh", "-c", "cat; echo err >&2"]).stdin("in").run().succeeds().prints("in");
    run(&["no-such-command"]).run().ends_with(127).complains("no-such-command: No such file");
    run(&["/etc/passwd"]).run().ends_with(126).complains("/etc/passwd: Permission denied");
    let killed = run(&["sh", "-c", "kill -KILL $$"]).into_command().status().expect("ended");
    assert_eq!(killed.signal(), Some(9));
    // A run within a run is seen by the outer one.
    let program = env!("CARGO_BIN_EXE_nearfirst");
    run(&[program, "run", "--", "sh", "-c", "exit 9"]).run().ends_with(9);
}

#[test]
fn a_signal_to_us_is_the_commands() {
    let state = Dir::new();
    let dir = Dir::new();
    let ready = dir.join("ready");
    let text = format!(
        "trap 'exit 42' USR1\n: > {}\nwhile :; do read -t 1 -u 9; done 9<>fifo",
        ready.display()
    );
    cmd("mkfifo", ["fifo"]).dir(&dir).run().succeeds();
    let script = script(&dir, "trapping", &text);
    let command = nearfirst(&state, &["run", "--"]).arg(&script).dir(&dir);
    let mut child = command.into_command().spawn().expect("started");
    until("it listens", || ready.exists());
    kill_process(Pid::from_child(&child), Signal::USR1).expect("it lives");
    assert_eq!(child.wait().expect("ended").code(), Some(42));
}

#[test]
fn what_the_command_leaves_running_goes_on_and_holds_up_nobody() {
    let state = Dir::new();
    let dir = Dir::new();
    let (go, done) = (dir.join("go"), dir.join("done"));
    cmd("mkfifo", [&go]).run().succeeds();
    let text = format!(
        "(read -r line < {go}; cat /etc/passwd > {done}.part; mv {done}.part {done}) > /dev/null 2>&1 < /dev/null &\necho started",
        go = go.display(),
        done = done.display()
    );
    // Whoever reads our output sees its end though a descendant lives.
    let output = nearfirst(&state, &["run", "--", "sh", "-c"]).arg(&text).run();
    output.succeeds().prints("started\n");
    writer_of(&go).write_all(b"go\n").expect("it reads");
    until("it went on", || done.exists());
    let whole = fs::read("/etc/passwd").expect("readable");
    assert_eq!(fs::read(done).expect("written"), whole);
}

#[test]
fn of_what_goes_on_when_the_command_ends_what_was_seen_is_learned() {
    let (state, dir) = (Dir::new(), Dir::new());
    let (data, go) = (dir.create("settings", "x\n"), dir.join("go"));
    cmd("mkfifo", [&go]).run().succeeds();
    // As servers do it: the child that goes on is the command's own program.
    let text = format!(
        "read -r x < {}\n(read -r x < {}) > /dev/null 2>&1 < /dev/null &",
        data.display(),
        go.display()
    );
    let script = script(&dir, "server", &text);
    nearfirst(&state, &["run", "--"]).arg(&script).run().succeeds();
    writer_of(&go).write_all(b"go\n").expect("it reads");
    let shown = nearfirst(&state, &["trees", "show"]).arg(&script).run();
    shown.succeeds();
    assert!(shown.text().contains("settings"), "{}", shown.text());
}

#[test]
fn what_is_opened_to_be_read_and_written_is_read_if_it_has_bytes() {
    let (state, dir) = (Dir::new(), Dir::new());
    let table = dir.create("table", "x\n");
    let (new, trace) = (dir.join("new"), dir.join("trace"));
    let text = format!("read -r x <> {}\nread -r x <> {}\ntrue", table.display(), new.display());
    let script = script(&dir, "database", &text);
    let run = nearfirst(&state, &["run", "--record"]).arg(&trace).arg("--").arg(&script).run();
    run.succeeds();
    let trace = fs::read_to_string(trace).expect("written");
    let accesses = |path: &Path| {
        let named = format!(" {} ", path.display());
        let file = trace.lines().find(|line| line.starts_with("file ") && line.contains(&named));
        let number = file.and_then(|line| line.split(' ').nth(1)).expect("it was opened");
        let opens = trace.lines().filter(|line| line.ends_with(&format!(" {number}")));
        opens.filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((accesses(&table), accesses(&new)), (vec!["read".into()], vec!["write".into()]));
}

#[test]
fn what_ran_one_after_the_other_is_recorded_so() {
    let (state, dir) = (Dir::new(), Dir::new());
    let trace = dir.join("trace");
    let one_by_one = script(&dir, "loop", "for i in {1..10}; do cat /etc/passwd > /dev/null; done");
    let run = nearfirst(&state, &["run", "--record"]).arg(&trace).arg("--").arg(one_by_one).run();
    run.succeeds().is_quiet();
    let trace = fs::read_to_string(trace).expect("written");
    let events = trace.lines().filter_map(|line| line.split(' ').nth(1));
    let lives: Vec<_> = events.filter(|event| ["fork", "exit"].contains(event)).collect();
    assert_eq!(lives, [["fork", "exit"].repeat(10), vec!["exit"]].concat(), "{trace}");
}

#[test]
fn the_supervisor_may_be_killed_at_any_moment() {
    let state = Dir::new();
    let dir = Dir::new();
    let script = script(
        &dir,
        "busy",
        "for i in {1..40}; do cat /etc/passwd > /dev/null || exit 1; done; exit 5",
    );
    nearfirst(&state, &["run", "--"]).arg(&script).run().ends_with(5);
    let patterns = fs::read(state.join("trees")).expect("saved");
    for opens in 0..6 {
        let mut command: Command = nearfirst(&state, &["run", "--"]).arg(&script).into_command();
        let mut child = command.spawn().expect("started");
        until("the command runs, supervised", || {
            let runs = |pid: &u32| !children(*pid).is_empty();
            family(&child).get(2).is_some_and(runs) || !is_running(&mut child)
        });
        // A little later each time, by what the machine does and not by the clock.
        for _ in 0..opens * 400 {
            drop(File::open("/etc/passwd"));
        }
        if let Some(&supervisor) = family(&child).get(2) {
            let supervisor = Pid::from_raw(supervisor.cast_signed()).expect("not 0");
            // It may have ended with its command.
            let _ = kill_process(supervisor, Signal::KILL);
        }
        let code = child.wait().expect("ended").code();
        assert_eq!(code, Some(5), "the command does not notice");
    }
    let listed = nearfirst(&state, &["trees"]).run();
    listed.succeeds();
    assert!(listed.text().contains("/busy"), "{}", listed.text());
    assert!(fs::read(state.join("trees")).expect("still there").len() >= patterns.len() / 2);
    assert!(!state.join("trees.broken").exists());
}

#[test]
fn that_nothing_is_kept_of_a_run_whose_supervisor_was_killed_is_said() {
    let (state, dir) = (Dir::new(), Dir::new());
    let (gate, ready) = (dir.join("gate"), dir.join("ready"));
    cmd("mkfifo", [&gate]).run().succeeds();
    let text = format!(": > {}; cat {} > /dev/null; exit 5", ready.display(), gate.display());
    let run = nearfirst(&state, &["run", "--stats", "--record"]).arg(dir.join("trace")).arg("--");
    let mut command = run.arg(script(&dir, "waits", &text)).into_command();
    let child = command.stderr(Stdio::piped()).spawn().expect("started");
    until("the command runs", || ready.exists());
    let supervisor = Pid::from_raw(family(&child)[2].cast_signed()).expect("not 0");
    kill_process(supervisor, Signal::KILL).expect("ours");
    writer_of(&gate).write_all(b"go").expect("it reads");
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(5));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("(signal 9): nothing of this run is learned or recorded"), "{said}");
}

#[test]
fn broken_patterns_are_set_aside_and_said() {
    let state = Dir::new();
    state.create("trees", "not what anybody saved");
    let output = nearfirst(&state, &["run", "--", "sh", "-c", "exit 3"]).run();
    output.ends_with(3).complains("set aside as");
    assert_eq!(fs::read(state.join("trees.broken")).expect("kept"), b"not what anybody saved");
    let mode = fs::metadata(state.join("trees")).expect("saved anew").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    nearfirst(&state, &["run", "--", "sh", "-c", "exit 3"]).run().ends_with(3).is_quiet();
}

#[test]
fn two_runs_at_once_both_learn_and_neither_waits_for_the_other() {
    let state = Dir::new();
    let dir = Dir::new();
    let gate = dir.join("gate");
    cmd("mkfifo", [&gate]).run().succeeds();
    let ready = dir.join("ready");
    let text = format!(": > {}\ncat {} > /dev/null", ready.display(), gate.display());
    let first = script(&dir, "first", &text);
    let second = script(&dir, "second", "cat /etc/passwd > /dev/null");
    let third = script(&dir, "third", "cat /etc/passwd > /dev/null");
    let mut held =
        nearfirst(&state, &["run", "--"]).arg(&first).into_command().spawn().expect("started");
    until("the first one runs", || ready.exists());
    for short in [&second, &third] {
        nearfirst(&state, &["run", "--"]).arg(short).run().succeeds().is_quiet();
    }
    // They are saved and can be forgotten while another runs.
    let listed = || nearfirst(&state, &["trees"]).run().text();
    assert!(listed().contains("/second") && listed().contains("/third"), "{}", listed());
    nearfirst(&state, &["trees", "forget", "third"]).run().succeeds().is_quiet();
    writer_of(&gate).write_all(b"go").expect("it reads");
    assert!(end_of(&mut held).success());
    assert!(listed().contains("/first") && listed().contains("/second"), "{}", listed());
    assert!(!listed().contains("/third"), "{}", listed());
    assert_eq!(names(&state), ["trees", "trees.lock"]);
}

#[test]
fn what_predictions_were_worth_is_known_though_another_run_saved_meanwhile() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (slow, _dir, script) = reader();
    let state = Dir::new();
    assert!(finish(begin(&state, &[], &script)).status.success());
    forget_pages(&slow);
    let child = begin(&state, &[], &script);
    let whole = ((FILES + 1) * 20_000) as u64;
    until("the files are fetched", || have_come(&slow));
    nearfirst(&state, &["run", "--", "true"]).run().succeeds().is_quiet();
    assert!(finish(child).status.success());
    let stats = nearfirst(&state, &["trees", "stats", "--json"]).run().text();
    let stats: serde_json::Value = serde_json::from_str(&stats).expect(&stats);
    assert!(stats["fetched_bytes"].as_u64() >= Some(whole - 20_000), "{stats}");
}

#[test]
fn what_is_learned_while_another_saves_is_taken_up_later_or_forgotten_with_the_rest() {
    let state = Dir::new();
    let dir = Dir::new();
    let script = script(&dir, "left", "cat /etc/passwd > /dev/null");
    let leave = || {
        let lock = File::create(state.join("trees.lock")).expect("ours");
        lock.lock().expect("nobody has it");
        nearfirst(&state, &["run", "--"]).arg(&script).run().succeeds().is_quiet();
        assert!(names(&state).iter().any(|name| name.starts_with("trees.seen.")));
    };
    let is_known = || nearfirst(&state, &["trees"]).run().text().contains("/left");
    leave();
    nearfirst(&state, &["run", "--", "true"]).run().succeeds().is_quiet();
    assert!(is_known());
    assert_eq!(names(&state), ["trees", "trees.lock"]);
    leave();
    nearfirst(&state, &["trees", "forget", "left"]).run().succeeds().is_quiet();
    nearfirst(&state, &["run", "--", "true"]).run().succeeds().is_quiet();
    assert!(!is_known());
    leave();
    for part in ["trees.part", "trees.seen.1-1.part", "trees.broken"] {
        state.create(part, "names of files");
    }
    nearfirst(&state, &["trees", "forget", "--all"]).run().succeeds().is_quiet();
    assert_eq!(names(&state), ["trees.lock"]);
    nearfirst(&state, &["run", "--", "true"]).run().succeeds().is_quiet();
    assert!(!is_known());
}

#[test]
fn who_shows_patterns_waits_for_no_fifo_and_changes_nothing_that_is_damaged() {
    let state = Dir::new();
    state.create("trees", "not what anybody saved");
    let show = ["list", "stats", "show"].map(|what| {
        let args = if what == "show" { vec!["trees", "show", "cat"] } else { vec!["trees", what] };
        nearfirst(&state, &args)
    });
    for shown in show {
        shown.run().ends_with(1).complains("no patterns of nearfirst");
    }
    assert_eq!(names(&state), ["trees"]);
    fs::remove_file(state.join("trees")).expect("ours");
    cmd("mkfifo", [state.join("trees")]).run().succeeds();
    nearfirst(&state, &["trees"]).run().ends_with(1).complains("trees: no regular file");
    nearfirst(&state, &["run", "--", "true"]).run().succeeds().complains("set aside as");
    nearfirst(&state, &["trees"]).run().succeeds().is_quiet();
}

/// The names of the files of patterns in a folder, in order.
fn names(dir: &Dir) -> Vec<String> {
    let listed = fs::read_dir(dir.path()).expect("ours");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("ours").file_name();
    let mut names: Vec<_> = listed.map(|entry| name(entry).into_string().expect("text")).collect();
    names.retain(|name| name.starts_with("trees"));
    names.sort_unstable();
    names
}

#[test]
fn trees_are_shown_drawn_and_forgotten() {
    let state = Dir::new();
    let dir = Dir::new();
    let script = script(&dir, "shown", "cat /etc/passwd > /dev/null");
    nearfirst(&state, &["run", "--"]).arg(&script).run().succeeds();
    let shown = nearfirst(&state, &["trees", "show", "shown"]).run();
    shown.succeeds();
    let text = shown.text();
    assert!(text.starts_with(&script.display().to_string()), "{text}");
    assert!(text.contains("cat (run)") && text.contains("/etc/passwd"), "{text}");
    for (locale, line) in [("C.UTF-8", "└─ "), ("C", "`- ")] {
        let shown = nearfirst(&state, &["trees", "show", "shown"]).env("LC_ALL", locale).run();
        let text = shown.text();
        assert!(text.contains(line) && (locale != "C" || text.is_ascii()), "{locale}: {text}");
    }
    let picture = dir.join("tree.svg");
    nearfirst(&state, &["trees", "show", "--svg"]).arg(&picture).arg("shown").run().succeeds();
    let svg = fs::read_to_string(&picture).expect("written");
    assert!(svg.starts_with("<svg ") && svg.contains("/etc/passwd"), "{svg}");
    let listed = nearfirst(&state, &["trees", "list", "--json"]).run().text();
    let programs: Vec<serde_json::Value> =
        listed.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(programs.iter().any(|p| p["program"]["text"] == script.display().to_string()));
    let broken = state.create("trees.broken", "what was set aside");
    nearfirst(&state, &["trees", "forget"]).arg(&script).run().succeeds();
    assert!(!broken.exists(), "it may name what is forgotten");
    nearfirst(&state, &["trees", "show", "shown"])
        .run()
        .ends_with(1)
        .complains("nothing was learned");
    nearfirst(&state, &["trees", "stats"]).run().succeeds();
}

#[test]
fn a_command_that_is_not_observed_has_its_descriptors_all_the_same() {
    let state = Dir::new();
    // A run within a run observes nothing.
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let text = format!("echo in | {program} run -- sh -c 'cat <&5' 5<&0 </dev/null");
    nearfirst(&state, &["run", "--", "bash", "-c", &text]).run().succeeds().prints("in\n");
}

#[test]
fn a_recording_goes_where_its_name_leads_before_the_run() {
    let (state, dir) = (Dir::new(), Dir::new());
    let run = || nearfirst(&state, &["run", "--record"]).dir(&dir);
    let words = ["--", "sh", "-c", "echo said; cat /etc/passwd > /dev/null; exit 3"];
    let streamed = words.iter().fold(run().arg("/dev/stdout"), testkit::Cmd::arg).run();
    streamed.ends_with(3).is_quiet();
    assert!(streamed.text().starts_with("said\n"), "{}", streamed.text());
    assert!(streamed.text().contains("/etc/passwd\n"), "{}", streamed.text());
    dir.create("trace", "of an earlier run");
    words.iter().fold(run().arg("trace"), testkit::Cmd::arg).run().ends_with(3);
    let trace = fs::read_to_string(dir.join("trace")).expect("written");
    assert!(trace.contains("/etc/passwd\n") && !trace.contains("earlier"), "{trace}");
    let nowhere = words.iter().fold(run().arg("no/folder"), testkit::Cmd::arg).run();
    nowhere.ends_with(3).complains("no/folder: No such file or directory; not recorded");
    cmd("mkfifo", ["unread"]).dir(&dir).run().succeeds();
    let unread = words.iter().fold(run().arg("unread"), testkit::Cmd::arg).run();
    unread.ends_with(3).complains("unread: nobody reads it; not recorded");
    // Whoever reads it sees its end though a descendant lives.
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let text = format!(
        "mkfifo fifo; {program} run --record fifo -- sh -c 'sleep 60 > /dev/null 2>&1 < /dev/null & \
         echo $! > left' & cat fifo; kill $(cat left)"
    );
    let read = cmd("bash", ["-c", &text]).dir(&dir).env("NEARFIRST_STATE", state.path()).run();
    read.succeeds();
    assert!(!read.text().is_empty());
}
