//! What a command is started with under `nearfirst run`: what it would be started with without.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;

use testkit::{Dir, Facility, cmd, copy_program, skip_unless, until};

/// What a line of a shell does where `RUN` is nothing, and where it is us.
#[track_caller]
fn does_the_same(line: &str) {
    let state = Dir::new();
    let run = |start: &str| {
        let line = line.replace("RUN", start);
        let ran = cmd("bash", ["-c", &line]).env("NEARFIRST_STATE", state.path()).run();
        (ran.code(), ran.text(), ran.stderr())
    };
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let native = run("exec");
    assert_eq!(run(&format!("exec {program} run --")), native, "{line}");
    // Within another run it is not observed by its own.
    assert_eq!(
        run(&format!("exec {program} run -- {program} run --")),
        native,
        "{line}, unobserved"
    );
}

#[test]
fn an_ignored_signal_is_ignored_and_another_is_not() {
    // Those from 32 on are the C library's own, or real-time ones.
    let tells = "RUN sed -n 's/^SigIgn:.*\\(.\\{8\\}\\)$/\\1/p' /proc/self/status";
    for handled in ["trap '' PIPE CHLD HUP", "trap - PIPE"] {
        does_the_same(&format!("{handled}; {tells}"));
    }
}

#[test]
fn a_closed_stream_is_closed() {
    let is_open = "[ -e /proc/$$/fd/$fd ] && open=$((open + (1 << fd)))";
    let tells = format!("RUN sh -c 'open=0; for fd in 0 1 2; do {is_open}; done; exit $open'");
    for closed in ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        does_the_same(&format!("{tells} {closed}"));
    }
    does_the_same("RUN /bin/echo lost >&-");
}

/// A program, `gains`, that becomes another user and can say so.
fn gaining(dir: &Dir) -> PathBuf {
    let gains = dir.join("gains");
    copy_program("/usr/bin/id", &gains);
    chown(&gains, Some(65534), None).expect("ours");
    fs::set_permissions(&gains, Permissions::from_mode(0o4755)).expect("ours");
    gains
}

#[test]
fn a_program_gains_what_it_would_gain_where_root_may_not_administer() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"));
    let (state, dir) = (Dir::new(), Dir::new());
    let gains = gaining(&dir);
    for drops in [&[][..], &["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]] {
        let run = cmd("setpriv", drops.iter().chain(&[env!("CARGO_BIN_EXE_nearfirst"), "run"]));
        let run = run.arg("--").arg(&gains).arg("-u").env("NEARFIRST_STATE", state.path());
        run.run().succeeds().prints("65534\n");
    }
}

#[test]
fn a_program_that_gains_privileges_is_found_where_no_folders_are_named() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"), Facility::Tool("unshare"));
    let (state, dir) = (Dir::new(), Dir::new());
    let gains = gaining(&dir);
    let drops = "--bounding-set=-sys_admin --inh-caps=-sys_admin";
    let text = format!(
        "mount --bind {} /usr/bin/id && unset PATH && \
         exec /usr/bin/setpriv {drops} {} run -- id -u",
        gains.display(),
        env!("CARGO_BIN_EXE_nearfirst")
    );
    let run = cmd("unshare", ["-m", "bash", "-c", &text]).env("NEARFIRST_STATE", state.path());
    run.run().succeeds().prints("65534\n").complains("run without");
}

#[test]
fn a_program_that_gains_privileges_is_found_behind_one_that_may_not_be_run() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"));
    let dir = Dir::new();
    let open = |mode| Permissions::from_mode(mode);
    fs::set_permissions(dir.path(), open(0o755)).expect("ours");
    gaining(&dir);
    fs::create_dir(dir.join("before")).expect("ours");
    let before = dir.join("before").join("gains");
    copy_program("/usr/bin/id", &before);
    fs::set_permissions(&before, open(0o700)).expect("ours");
    // It has to be where another user reaches it.
    let program = dir.join("nearfirst");
    copy_program(env!("CARGO_BIN_EXE_nearfirst"), &program);
    let folders = format!("{}:{}", dir.join("before").display(), dir.path().display());
    let other = ["--reuid=65533", "--regid=65533", "--clear-groups", "env"];
    let run = cmd("setpriv", other).arg(format!("PATH={folders}")).arg(&program);
    let run = ["run", "--", "gains", "-u"].iter().fold(run, testkit::Cmd::arg);
    run.env("NEARFIRST_STATE", dir.join("state")).run().prints("65534\n").complains("run without");
}

#[test]
fn the_folder_of_a_command_that_has_left_it_can_be_unmounted() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let (state, dir) = (Dir::new(), Dir::new());
    let program = env!("CARGO_BIN_EXE_nearfirst");
    // Who is left running keeps those who observe it.
    let leaves = "cd /; sleep 60 > /dev/null 2>&1 < /dev/null & echo $!";
    let text = format!(
        "mount -t tmpfs none {0} && cd {0} && left=$({program} run -- sh -c '{leaves}') && \
         cd / && umount {0}; code=$?; kill $left; exit $code",
        dir.path().display()
    );
    let run = cmd("unshare", ["-m", "bash", "-c", &text]);
    run.env("NEARFIRST_STATE", state.path()).run().succeeds().is_quiet();
}

#[test]
fn who_reads_what_a_command_wrote_sees_its_end_where_there_are_no_devices() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let (state, dir) = (Dir::new(), Dir::new());
    cmd("mkfifo", ["go"]).dir(&dir).run().succeeds();
    // Who is left running keeps those who observe it, until it is told to go.
    let leaves = "setsid -f timeout 60 head -c 1 5>&- > left 2>&1 <> go; echo said; echo more >&5";
    let text = format!(
        "mount -t tmpfs none /dev && \
         exec {} run -- sh -c '{leaves}' 5>&1",
        env!("CARGO_BIN_EXE_nearfirst"),
    );
    let run = cmd("unshare", ["-m", "sh", "-c", &text]).dir(&dir);
    let read = run.env("NEARFIRST_STATE", state.path()).run();
    read.succeeds().prints("said\nmore\n");
    let mut go = File::options().read(true).write(true).open(dir.join("go")).expect("ours");
    go.write_all(b"g").expect("there is room");
    until("it goes", || fs::read(dir.join("left")).expect("made") == b"g");
}

#[test]
fn a_command_runs_unobserved_where_nothing_shows_its_processes() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let state = Dir::new();
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let empty = ["-m", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" \"$@\""];
    for around in [&empty[..], &["--pid", "--fork"]] {
        let run = cmd("unshare", around).arg(program);
        let run = ["run", "--", "sh", "-c", "exit 3"].iter().fold(run, testkit::Cmd::arg);
        let run = run.env("NEARFIRST_STATE", state.path()).run();
        run.ends_with(3).complains("cannot be observed here (/proc does not show its processes)");
    }
}

#[test]
fn a_lock_of_the_process_that_becomes_the_command_is_held_while_that_runs() {
    skip_unless!(Facility::Tool("python3"));
    let (state, dir) = (Dir::new(), Dir::new());
    let file = dir.create("locked", "");
    let locks = "import fcntl, os, sys\n\
                 file = os.open(sys.argv[1], os.O_RDWR)\n\
                 os.set_inheritable(file, True)\n\
                 os.dup2(file, 0)\n\
                 fcntl.lockf(file, fcntl.LOCK_EX, 1, 5)\n\
                 os.execvp(sys.argv[2], sys.argv[2:])";
    let tries = "import fcntl, sys\n\
                 try: fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 5)\n\
                 except OSError: sys.exit(3)";
    // Another process has a lock there, too.
    let beside = "import fcntl, subprocess, sys\n\
                  file = open(sys.argv[1], 'r+')\n\
                  fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)\n\
                  sys.exit(subprocess.call(sys.argv[2:]))";
    for others in [&[][..], &["python3", "-c", beside, file.to_str().expect("text")]] {
        let words = others.iter().copied().chain(["python3", "-c", locks]);
        let run = cmd("env", words).arg(&file).arg(env!("CARGO_BIN_EXE_nearfirst"));
        let run = ["run", "--", "python3", "-c", tries].iter().fold(run, testkit::Cmd::arg);
        run.arg(&file).env("NEARFIRST_STATE", state.path()).run().ends_with(3);
    }
}

#[test]
fn a_state_that_is_named_from_the_folder_lies_there() {
    let dir = Dir::new();
    let run = || {
        let run = cmd(env!("CARGO_BIN_EXE_nearfirst"), ["run", "--", "sh", "-c", "exit 3"]);
        run.dir(&dir).env("NEARFIRST_STATE", "state").run().ends_with(3).is_quiet();
    };
    run();
    assert!(dir.join("state/trees").exists());
    run();
}
