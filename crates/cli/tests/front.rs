//! The process in front of the one that works, which is there where something is mounted that may
//! not answer: signals that come to it, and how it ends.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use slowfs::Options;
use testkit::{Dir, Facility, PidsCgroup, Program, SlowDir, cmd, end_of, skip_unless, until};

const NEARFIRST: &str = env!("CARGO_BIN_EXE_nearfirst");

/// Says that it is at work, and for whom; ends when it is told to.
const WORK: &str = "mkfifo go && echo $PPID > worker && read line < go";

/// A run that is at work until it is told to go on.
struct Run {
    front: Child,
    worker: Pid,
    /// It goes before the pipe: who has not opened that by then does not wait at it.
    _dir: Dir,
    go: File,
    _slow: SlowDir,
}

impl Run {
    /// One that `shell` begins; `$@` is its command line.
    fn begin(shell: &str) -> Self {
        let slow = SlowDir::new(Options::default());
        let dir = Dir::new();
        dir.create("a", "text");
        let words = ["-c", shell, "sh", NEARFIRST, "each", "a", "--", "sh", "-c", WORK];
        let command = cmd("sh", words).dir(dir.path()).env("NEARFIRST_STATE", dir.join("state"));
        // A terminal stops nobody whose group has no parent outside of it, as where the tests run unattended.
        let front = command.into_command().process_group(0).spawn().expect("started");
        let worker = worker(&dir);
        assert_ne!(worker, Pid::from_child(&front), "nothing stands in front of it");
        let go = File::options().read(true).write(true).open(dir.join("go")).expect("ours");
        Self { front, worker, _dir: dir, go, _slow: slow }
    }

    fn tell(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.front), signal).expect("it lives");
    }

    fn go_on(&self) {
        (&self.go).write_all(b"go\n").expect("there is room");
    }

    fn end(mut self) -> ExitStatus {
        let status = end_of(&mut self.front);
        until("the worker is gone", || test_kill_process(self.worker).is_err());
        status
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.front.kill().ok();
        self.front.wait().ok();
    }
}

/// The process that works in `dir`, once it does.
fn worker(dir: &Dir) -> Pid {
    let read = || fs::read_to_string(dir.join("worker")).ok()?.trim().parse().ok();
    until("the command runs", || read().is_some());
    read().and_then(Pid::from_raw).expect("a process")
}

#[test]
fn what_ends_a_run_ends_its_worker() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let run = Run::begin("exec \"$@\"");
    run.tell(Signal::TERM);
    assert_eq!(run.end().code(), Some(143));
}

/// The letter of a process's state.
fn state(process: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[test]
fn what_stops_a_run_stops_its_worker_and_its_command() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let run = Run::begin("exec \"$@\"");
    let front = Pid::from_child(&run.front);
    let command = children(run.worker).next().expect("it runs");
    let all = [front, run.worker, command];
    for _ in 0..2 {
        run.tell(Signal::TSTP);
        until("all are stopped", || all.iter().all(|one| state(*one) == Some('T')));
        run.tell(Signal::CONT);
        until("all go on", || all.iter().all(|one| state(*one) != Some('T')));
    }
    run.go_on();
    assert_eq!(run.end().code(), Some(0));
}

#[test]
fn a_worker_that_is_killed_is_a_run_that_is_killed() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let run = Run::begin("exec \"$@\"");
    kill_process(run.worker, Signal::KILL).expect("it lives");
    assert_eq!(run.end().signal(), Some(9));
}

#[test]
fn a_worker_that_is_killed_is_not_waited_for_where_a_thread_of_it_cannot_end() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let (alive, dead) = (slow.create("alive", "text"), slow.create("dead", "text"));
    let dir = Dir::new();
    slow.mount().set_rules(vec!["dead: hang=true".parse().expect("a rule")]);
    // What answered a moment ago is not asked about by another process, unless this takes a second.
    let is_there_yet = |_| {
        let wc = Program::at(NEARFIRST).cmd(["wc", "--wait-max=3600"]).arg(&alive).arg(&dead);
        let wc = wc.env("NEARFIRST_STATE", dir.join("state"));
        let mut front = wc.into_command().spawn().expect("started");
        let is_hanging = |process| waits_in(process, "request_wait_answer");
        let has_hung = |worker: &Pid| is_hanging(*worker) || children(*worker).any(is_hanging);
        let find = || children(Pid::from_child(&front)).next().filter(has_hung);
        until("it hangs", || find().is_some());
        let worker = find().expect("it hangs");
        kill_process(worker, Signal::KILL).expect("it lives");
        let mut status = None;
        until("the run ends", || {
            status = front.try_wait().expect("a child");
            status.is_some()
        });
        assert_eq!(status.and_then(|status| status.signal()), Some(9));
        is_hanging(worker)
    };
    assert!((0..10).any(is_there_yet), "no thread hung");
    slow.mount().set_rules(Vec::new());
}

fn threads(process: Pid) -> impl Iterator<Item = PathBuf> {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    threads.into_iter().flatten().flatten().map(|thread| thread.path())
}

fn children(process: Pid) -> impl Iterator<Item = Pid> {
    let of_thread = |thread: PathBuf| fs::read_to_string(thread.join("children")).ok();
    let children: Vec<String> = threads(process).filter_map(of_thread).collect();
    let pid = |child: &str| child.parse().ok().and_then(Pid::from_raw);
    children.join(" ").split_whitespace().filter_map(pid).collect::<Vec<_>>().into_iter()
}

/// Whether a thread of it waits in that function of the kernel.
fn waits_in(process: Pid, function: &str) -> bool {
    threads(process)
        .any(|thread| fs::read_to_string(thread.join("wchan")).is_ok_and(|at| at == function))
}

#[test]
fn a_run_is_broken_off_while_it_waits_for_a_dead_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let dead = slow.create("dead", "text");
    let dir = Dir::new();
    slow.mount().set_rules(vec!["dead: stall=1:forever".parse().expect("a rule")]);
    // What is being read is in the page cache, and so it is taken to be near.
    let path = dead.clone();
    let reader = std::thread::spawn(move || fs::read(path));
    until("it is being read", || slow.stats().file("dead").reads > 0);
    let cp = Program::at(NEARFIRST).cmd(["cp", "-j1"]).arg(&dead).arg(dir.join("copy"));
    let cp = cp.env("NEARFIRST_STATE", dir.join("state"));
    let mut front = cp.into_command().spawn().expect("started");
    let hangs = |worker| waits_in(worker, "folio_wait_bit_common");
    until("it hangs", || children(Pid::from_child(&front)).any(hangs));
    kill_process(Pid::from_child(&front), Signal::TERM).expect("it lives");
    // The front by itself would end by the signal, and later.
    assert_eq!(end_of(&mut front).code(), Some(143));
    slow.mount().set_rules(Vec::new());
    assert_eq!(reader.join().expect("no panic").expect("it can be read"), b"text");
}

#[test]
fn a_run_is_broken_off_while_its_command_cannot_be_begun() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let program = slow.create("program", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let dir = Dir::new();
    dir.create("a", "text");
    let temporary = Dir::new();
    let each = Program::at(NEARFIRST).cmd(["each", "a", "--"]).arg(&program).dir(dir.path());
    let each = each.env("NEARFIRST_STATE", dir.join("state")).env("TMPDIR", temporary.path());
    slow.mount().set_rules(vec!["program: stall=1:forever".parse().expect("a rule")]);
    let mut front = each.into_command().spawn().expect("started");
    until("it is being begun", || slow.stats().file("program").reads > 0);
    kill_process(Pid::from_child(&front), Signal::TERM).expect("it lives");
    // The front by itself would end by the signal, and later.
    assert_eq!(end_of(&mut front).code(), Some(143));
    assert_eq!(fs::read_dir(temporary.path()).expect("a folder").count(), 0);
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let run = Run::begin("trap '' HUP; exec \"$@\"");
    run.tell(Signal::HUP);
    // One that is held back is waited for, and would end the run later.
    let status = fs::read_to_string(format!("/proc/{}/status", run.front.id())).expect("it lives");
    let held = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
    let held = u64::from_str_radix(held.trim(), 16).expect("a number");
    let is_held = |signal: Signal| held >> (signal.as_raw() - 1) & 1 == 1;
    assert!(is_held(Signal::TERM) && !is_held(Signal::HUP), "{held:x}");
    run.go_on();
    assert_eq!(run.end().code(), Some(0));
}

/// Begins what its words say as the leader of a session on a terminal, takes the terminal away once
/// it is at work, and prints how it ended.
const HANGS_UP: &str = "
import os, pty, signal, sys, time
leader, terminal = pty.fork()
if leader == 0:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while not os.path.exists('worker'):
    time.sleep(0.01)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(leader, 0)[1]))
";

#[test]
fn a_worker_hears_that_the_terminal_is_gone() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Tool("python3"));
    let _slow = SlowDir::new(Options::default());
    let dir = Dir::new();
    dir.create("a", "text");
    let words = ["-c", HANGS_UP, NEARFIRST, "each", "a", "--", "sh", "-c", WORK];
    let run = cmd("python3", words).dir(dir.path()).env("NEARFIRST_STATE", dir.join("state"));
    // It tidies up and says so; the front by itself would end by the signal, and later.
    run.run().succeeds().prints("129\n");
    let worker = worker(&dir);
    until("the worker is gone", || test_kill_process(worker).is_err());
}

#[test]
fn where_no_process_can_be_had_the_work_is_done_without() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Cgroup("pids"));
    let _slow = SlowDir::new(Options::default());
    let dir = Dir::new();
    dir.create("a", "text");
    let pids = PidsCgroup::new(1);
    let wc = Program::at(NEARFIRST).cmd(["wc", "-c", "a"]).dir(dir.path());
    pids.run(wc.env("NEARFIRST_STATE", dir.join("state"))).succeeds().prints("4 a\n");
    assert!(pids.refused() > 0);
}
