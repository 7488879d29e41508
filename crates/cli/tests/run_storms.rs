//! `nearfirst run` under what programs do at their worst: processes and files without end, deep
//! trees. The command's work is done, what observes it stays small, and what it learned is whole.

mod running;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use running::{family, finish, nearfirst, script};
use testkit::{Dir, Facility, Tmpfs, skip_unless, until};

/// What a supervisor may hold after a storm, in bytes: some megabytes are the program itself.
const RESIDENT_MAX: u64 = 96 << 20;
/// Descriptors that are no process's end.
const DESCRIPTORS_MAX: usize = 64;
/// Processes of whose calls all are kept though nobody looks at them.
const MANY: usize = 1500;

/// What of a process's `/proc/PID/status` is a number of kilobytes, in bytes.
fn bytes(process: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel tells");
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kibibytes << 10
}

/// Has so many processes come and go, each of which opens a file; how often something was lost.
fn short_processes(count: usize) -> usize {
    let (state, dir) = (Dir::new(), Dir::new());
    let storm = dir.create(
        "storm.py",
        "import os, sys\n\
         count, width, alive = int(sys.argv[1]), 8, 0\n\
         for at in range(count):\n\
         \x20   if alive == width: os.wait(); alive -= 1\n\
         \x20   if os.fork() == 0:\n\
         \x20       os.close(os.open('/etc/passwd', os.O_RDONLY))\n\
         \x20       os._exit(0)\n\
         \x20   alive += 1\n\
         for at in range(alive): os.wait()\n\
         os.close(os.open('/etc/group', os.O_RDONLY))\n\
         print('done', flush=True)\n\
         sys.exit(0 if sys.stdin.readline() == 'go\\n' else 1)\n",
    );
    let record = dir.join("trace");
    let run = nearfirst(&state, &["run", "--record"]).arg(&record).arg("--");
    let mut command = run.arg("python3").arg(&storm).arg(count.to_string()).into_command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says when it is done");
    let supervisor = *family(&child).last().expect("it has one");
    until("the ends of all have been heard of", || {
        let descriptors = fs::read_dir(format!("/proc/{supervisor}/fd")).expect("it lives");
        descriptors.count() < DESCRIPTORS_MAX
    });
    let resident = bytes(supervisor, "VmHWM:");
    assert!(resident < RESIDENT_MAX + 2000 * count as u64, "{resident} bytes at most");
    let output = finish(child);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let trace = fs::read_to_string(&record).expect("recorded");
    let of = |word: &str| trace.lines().filter(|line| line.split(' ').nth(1) == Some(word)).count();
    let lost = of("lost");
    let (forks, exits) = (of("fork"), of("exit"));
    // What there is memory for is not lost, however late it is looked at.
    let least = if lost > 0 { MANY } else { count };
    assert!(forks >= least && exits >= least, "{forks} {exits} {lost}");
    nearfirst(&state, &["trees"]).run().succeeds().is_quiet();
    lost
}

#[test]
fn of_short_processes_that_come_and_go_none_is_lost() {
    skip_unless!(Facility::Tool("python3"));
    assert_eq!(short_processes(MANY), 0);
}

#[test]
#[ignore = "a minute or more"]
fn a_hundred_thousand_short_processes_come_and_go() {
    skip_unless!(Facility::Tool("python3"));
    short_processes(100_000);
}

/// Has one program open so many files, twice.
fn many_files(count: usize) {
    let files = Tmpfs::new(4 << 30);
    let (state, dir) = (Dir::new(), Dir::new());
    let program = dir.create(
        "many.py",
        "import os, sys\n\
         folder, count = sys.argv[1], int(sys.argv[2])\n\
         for at in range(count): os.close(os.open(f'{folder}/f{at}', os.O_RDONLY))\n\
         sys.exit(7)\n",
    );
    for at in 0..count {
        fs::write(files.path().join(format!("f{at}")), b"").expect("there is room");
    }
    for _ in 0..2 {
        let run = nearfirst(&state, &["run", "--", "python3"]).arg(&program);
        let run = run.arg(files.path()).arg(count.to_string());
        run.timeout(Duration::from_hours(1)).run().ends_with(7).is_quiet();
    }
    let saved = fs::metadata(state.join("trees")).expect("saved").len();
    // Patterns may take 64 MiB in memory, and their bytes on disk are fewer.
    assert!((1..64 << 20).contains(&saved), "{saved}");
    nearfirst(&state, &["trees", "show", "many.py"]).run().succeeds().is_quiet();
}

#[test]
fn a_program_that_opens_files_without_end_is_learned_within_bounds() {
    skip_unless!(Facility::Root, Facility::Tool("python3"));
    many_files(6000);
}

#[test]
#[ignore = "minutes"]
fn a_program_that_opens_a_million_files_is_learned_within_bounds() {
    skip_unless!(Facility::Root, Facility::Tool("python3"));
    many_files(1_000_000);
}

#[test]
fn a_deep_tree_of_programs_ends_as_it_should() {
    let (state, dir) = (Dir::new(), Dir::new());
    // Each of them runs the next one, waits for it, and hands its code on.
    let deep = script(
        &dir,
        "deep",
        ": < /etc/passwd\nif [ \"$1\" -eq 0 ]; then exit 11; fi\n\"$0\" $(($1 - 1))\nexit $?",
    );
    for _ in 0..2 {
        nearfirst(&state, &["run", "--"]).arg(&deep).arg("80").run().ends_with(11).is_quiet();
    }
    let shown = nearfirst(&state, &["trees", "show", "deep"]).run();
    shown.succeeds();
    assert!(shown.text().contains("/etc/passwd"), "{}", shown.text());
}
