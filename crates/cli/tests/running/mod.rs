//! What tests of `nearfirst run` stand on: scripts, slow folders, and the built program.

#![allow(dead_code, clippy::allow_attributes, reason = "each test program uses its part")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use rustix::fs::inotify;
use slowfs::{Options, Stats};
use testkit::{Cmd, Dir, Program, SlowDir, evict, noise, until_memory_suffices};

/// Files that a script reads after it was told to go on.
pub(crate) const FILES: usize = 12;

pub(crate) fn nearfirst(state: &Dir, args: &[&str]) -> Cmd {
    let mut args = args.to_vec();
    if args.first() == Some(&"run") {
        args.insert(1, "--on-battery");
    }
    let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
    program.cmd(args).env("NEARFIRST_STATE", state.path())
}

/// A script, which is a program of its own to a learner.
pub(crate) fn script(dir: &Dir, name: &str, text: &str) -> PathBuf {
    let path = dir.create(name, format!("#!/bin/bash\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

/// A slow folder of files, and a script that reads the first, waits for a line, and reads the others.
pub(crate) fn reader() -> (SlowDir, Dir, PathBuf) {
    let slow = SlowDir::new(Options::default());
    let files: Vec<PathBuf> =
        (0..=FILES).map(|at| slow.create(format!("f{at}"), noise(20_000, at as u64))).collect();
    let dir = Dir::new();
    let rest: Vec<_> = files[1..].iter().map(|path| path.display().to_string()).collect();
    let first = files[0].display();
    let text = format!("cat {first}\nread -r line\ncat {}\n", rest.join(" "));
    let script = script(&dir, "script", &text);
    (slow, dir, script)
}

/// Starts a command under observation, for which files are to be fetched.
pub(crate) fn begin(state: &Dir, flags: &[&str], command: &Path) -> Child {
    until_memory_suffices();
    let cmd = flags.iter().fold(nearfirst(state, &["run"]), testkit::Cmd::arg);
    spawn(cmd.arg("--").arg(command))
}

/// Starts a command that is finished by [`finish`].
pub(crate) fn spawn(cmd: Cmd) -> Child {
    let mut command = cmd.into_command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("started")
}

/// Lets a script go on, and waits for its end; what it wrote.
pub(crate) fn finish(mut child: Child) -> Output {
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"go\n").expect("the script reads it");
    drop(stdin);
    child.wait_with_output().expect("ended")
}

pub(crate) fn forget_pages(slow: &SlowDir) {
    (0..=FILES).for_each(|at| evict(slow.path().join(format!("f{at}"))));
    slow.reset();
}

/// Whether all of the files has come. Not asked of the page cache: a machine may take pages away.
pub(crate) fn have_come(slow: &SlowDir) -> bool {
    let stats = slow.stats();
    (0..=FILES).all(|at| has_come(&stats, format!("f{at}")))
}

/// Whether what was read of a file was answered, and all of the file was read.
pub(crate) fn has_come(stats: &Stats, name: impl AsRef<Path>) -> bool {
    let counts = stats.file(name);
    counts.read_bytes >= 20_000 && counts.answered == counts.reads
}

/// Has `act` read what was fetched before; fails if the device is asked for so many bytes of it again.
/// A machine may have taken some pages away meanwhile.
pub(crate) fn nearly_all_is_near<T>(slow: &SlowDir, bytes: u64, act: impl FnOnce() -> T) -> T {
    let before = slow.stats().total.read_bytes;
    let done = act();
    let again = slow.stats().total.read_bytes - before;
    assert!(again < bytes, "{again} bytes were read from the device again");
    done
}

pub(crate) fn is_running(child: &mut Child) -> bool {
    child.try_wait().expect("it is ours").is_none()
}

pub(crate) fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split(' ').filter_map(|pid| pid.parse().ok()).collect()
}

/// The processes of a run, the supervisor last.
pub(crate) fn family(child: &Child) -> Vec<u32> {
    let mut family = vec![child.id()];
    loop {
        let parent = family[family.len() - 1];
        let ours = |pid: &u32| {
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe == Path::new(env!("CARGO_BIN_EXE_nearfirst")))
        };
        match children(parent).into_iter().find(ours) {
            Some(pid) => family.push(pid),
            None => return family,
        }
    }
}

/// Tells whether anybody opens a file.
pub(crate) struct Sentinel(std::os::fd::OwnedFd);

impl Sentinel {
    pub(crate) fn at(path: &Path) -> Self {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("a watch");
        inotify::add_watch(&watch, path, inotify::WatchFlags::OPEN).expect("watched");
        Self(watch)
    }

    pub(crate) fn has_seen_nobody(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 4096]) == Err(rustix::io::Errno::AGAIN)
    }
}
