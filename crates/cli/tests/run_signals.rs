//! Signals under `nearfirst run`: a command meets those that it would meet without, and no others.

mod running;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

use running::{family, nearfirst, spawn};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use testkit::{Cmd, Dir, Facility, cmd, skip_unless, until};

#[test]
fn who_wants_to_be_killed_when_its_parent_ends_has_a_parent_that_lives() {
    // To the kernel a parent is a thread. Where one has ended its children are the first thread's.
    let text =
        "grep -lw $$ /proc/$PPID/task/*/children; echo first /proc/$PPID/task/$PPID/children";
    let output = nearfirst(&Dir::new(), &["run", "--", "sh", "-c", text]).run();
    output.succeeds();
    let told = output.text();
    let (parent, first) = told.split_once("\nfirst ").expect("it has a parent");
    assert_ne!(parent, first.trim_end());
}

#[test]
fn who_is_to_be_killed_when_its_caller_ends_is() {
    skip_unless!(Facility::Tool("setpriv"));
    let (state, dir) = (Dir::new(), Dir::new());
    let text = "echo $$ > number.part; mv number.part number; exec sleep 100";
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let calls = format!("setpriv --pdeathsig KILL {program} run -- sh -c '{text}' & wait");
    let calls = cmd("bash", ["-c", &calls]).dir(&dir).env("NEARFIRST_STATE", state.path());
    let mut caller = spawn(calls);
    until("it runs", || dir.join("number").exists());
    caller.kill().expect("ours");
    caller.wait().expect("ours");
    let number = fs::read_to_string(dir.join("number")).expect("written");
    let runs = format!("/proc/{}/exe", number.trim_end());
    until("it was killed", || fs::read_link(&runs).is_err());
}

#[test]
fn a_command_of_who_ignores_its_children_ends_with_its_code_and_ignores_its_own() {
    // The signal's number is 17, and so its bit is that of 0x10000.
    let text = "grep -q '^SigIgn:.*1....$' /proc/self/status && exit 7";
    let run =
        format!("trap '' CHLD; exec {} run -- bash -c \"$0\"", env!("CARGO_BIN_EXE_nearfirst"));
    let state = Dir::new();
    cmd("bash", ["-c", &run, text]).env("NEARFIRST_STATE", state.path()).run().ends_with(7);
}

#[test]
fn every_signal_to_us_is_the_commands() {
    let (state, dir) = (Dir::new(), Dir::new());
    let names = ["HUP", "USR2", "ABRT", "PIPE", "ALRM", "STKFLT", "URG", "XCPU", "XFSZ"];
    let others = ["VTALRM", "PROF", "IO", "PWR", "RTMIN", "RTMIN+3", "RTMAX"];
    let faults = ["SEGV", "BUS", "FPE", "ILL", "TRAP", "SYS"];
    cmd("mkfifo", ["fifo"]).dir(&dir).run().succeeds();
    for name in names.into_iter().chain(others).chain(faults) {
        let ready = dir.join(name);
        let text = format!(
            "trap 'exit 42' {name}; : > {}; while :; do read -t 1 -u 9; done 9<>fifo",
            ready.display()
        );
        // The tests may run under `nohup`, and bash cannot trap what it finds ignored.
        let program = env!("CARGO_BIN_EXE_nearfirst");
        let run = ["--default-signal", program, "run", "--", "bash", "-c", &text];
        let run = cmd("env", run).env("NEARFIRST_STATE", state.path()).dir(&dir);
        let mut child = run.into_command().spawn().expect("started");
        until("it listens", || ready.exists());
        cmd("bash", ["-c", "kill -$0 $1", name, &child.id().to_string()]).run().succeeds();
        assert_eq!(child.wait().expect("ended").code(), Some(42), "{name}");
    }
}

#[test]
fn an_alarm_that_was_set_before_is_the_commands() {
    skip_unless!(Facility::Tool("python3"));
    let state = Dir::new();
    let text = "import os, signal, sys\n\
                signal.setitimer(signal.ITIMER_REAL, 0.2)\n\
                os.execvp(sys.argv[1], sys.argv[1:])\n";
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let run = cmd("python3", ["-c", text, program, "run", "--", "sleep", "60"]);
    let run = run.env("NEARFIRST_STATE", state.path()).into_command().status();
    assert_eq!(run.expect("started").signal(), Some(Signal::ALARM.as_raw()));
}

/// Starts a command that says its number and stops itself, and waits for us to have stopped as well.
fn begin_stopped(state: &Dir, dir: &Dir) -> (Child, Pid) {
    let text = "echo $$ > number; kill -STOP $$; exit 3";
    let child = spawn(nearfirst(state, &["run", "--", "sh", "-c", text]).dir(dir));
    until("it has stopped", || {
        let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
        let became = waitpid(Some(Pid::from_child(&child)), options).expect("ours");
        became.is_some_and(|(_, status)| status.stopping_signal() == Some(Signal::STOP.as_raw()))
    });
    let number = fs::read_to_string(dir.join("number")).expect("written before it stopped");
    let number = number.trim_end().parse().expect("a number");
    (child, Pid::from_raw(number).expect("not 0"))
}

/// How a child ended, which it does by itself.
fn end_of(mut child: Child) -> ExitStatus {
    let mut ended = None;
    until("it has ended", || {
        ended = child.try_wait().expect("ours");
        ended.is_some()
    });
    ended.expect("it has")
}

#[test]
fn who_is_stopped_with_its_command_goes_on_with_it_though_nobody_continues_us() {
    let (state, dir) = (Dir::new(), Dir::new());
    let (child, command) = begin_stopped(&state, &dir);
    kill_process(command, Signal::CONT).expect("it lives");
    assert_eq!(end_of(child).code(), Some(3));
}

#[test]
fn who_is_stopped_with_its_command_ends_with_it_though_nobody_continues_us() {
    let (state, dir) = (Dir::new(), Dir::new());
    let (child, command) = begin_stopped(&state, &dir);
    kill_process(command, Signal::KILL).expect("it lives");
    assert_eq!(end_of(child).signal(), Some(Signal::KILL.as_raw()));
}

#[test]
fn who_is_stopped_with_its_command_goes_on_with_it_though_the_supervisor_is_killed() {
    let (state, dir) = (Dir::new(), Dir::new());
    let (child, command) = begin_stopped(&state, &dir);
    let supervisor = family(&child)[2].cast_signed();
    kill_process(Pid::from_raw(supervisor).expect("not 0"), Signal::KILL).expect("it lives");
    kill_process(command, Signal::CONT).expect("it lives");
    assert_eq!(end_of(child).code(), Some(3));
}

#[test]
fn a_command_that_is_stopped_and_continued_again_and_again_ends() {
    let state = Dir::new();
    // It is continued a little later each time, by what the machine does and not by the clock.
    let again = "for i in $(seq 300); do kill -STOP $0; for j in $(seq $i); do :; done; kill -CONT $0; done";
    let text = format!("sh -c '{again}' $$ & wait $!; exit 3");
    let child = spawn(nearfirst(&state, &["run", "--", "bash", "-c", &text]));
    assert_eq!(end_of(child).code(), Some(3));
}

#[test]
fn a_command_is_stopped_and_continued_once_nothing_shows_processes_any_more() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"), Facility::Tool("python3"));
    let (state, dir) = (Dir::new(), Dir::new());
    let stops = dir.create(
        "stops.py",
        "import os, signal, sys\n\
         begun = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n\
         for again in range(2):\n\
         \x20   assert os.WIFSTOPPED(os.waitpid(begun, os.WUNTRACED)[1])\n\
         \x20   os.kill(begun, signal.SIGCONT)\n\
         sys.exit(os.waitstatus_to_exitcode(os.waitpid(begun, 0)[1]))\n",
    );
    let text = "mount -t tmpfs none /proc && kill -STOP $$; kill -STOP $$; exit 4";
    let run = cmd("unshare", ["-m", "python3"]).arg(&stops);
    let run =
        [env!("CARGO_BIN_EXE_nearfirst"), "run", "--", "sh", "-c", text].iter().fold(run, Cmd::arg);
    run.env("NEARFIRST_STATE", state.path()).run().ends_with(4);
}
