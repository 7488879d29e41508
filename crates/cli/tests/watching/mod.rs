//! What tests of `nearfirst watch` stand on: a service, and a disk with a script that waits half-way.

#![allow(dead_code, clippy::allow_attributes, reason = "each test program uses its part")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::{
    Dir, FileSystem, LoopDisk, Program, cmd, end_of, evict, happens_within, is_resident, noise,
    until, until_memory_suffices, writer_of,
};

/// Who runs the programs: what a test itself opens, as root, is not learned from with them.
pub(crate) const NOBODY: u32 = 65534;
pub(crate) const FILES: usize = 8;
pub(crate) const FILE_BYTES: u64 = 40_000;
/// Longer than a few files take on a busy machine.
const COMES_WITHIN: Duration = Duration::from_secs(15);

/// A service that runs.
pub(crate) struct Watch {
    pub(crate) child: Child,
    state: PathBuf,
    said: PathBuf,
    /// What it says lies apart from its state, whose disk may be full.
    _apart: Dir,
}

impl Watch {
    pub(crate) fn start(on: &Path, state: &Dir, options: &[&str]) -> Self {
        Self::start_by(command(on, state), state, options)
    }

    pub(crate) fn start_by(mut command: Command, state: &Dir, options: &[&str]) -> Self {
        let apart = Dir::new();
        let said = apart.join("said");
        let output = fs::File::create(&said).expect("the machine allows it");
        command.args(options).stderr(output).stdin(Stdio::null());
        let watch = Self {
            child: command.spawn().expect("the machine allows it"),
            state: state.path().to_owned(),
            said,
            _apart: apart,
        };
        until("it watches", || watch.said().contains("watching "));
        watch
    }

    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.said).expect("the machine allows it")).into_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .expect("the machine allows it")
                .success()
        );
    }

    /// Waits until what happened so far was learned by the attendant of `user`.
    pub(crate) fn has_learned(&self, user: u32) {
        self.report();
        // The kernel tells that a process ended after its parent can know of it.
        let round = self.report();
        assert!(round.contains(&format!("user {user}: of ")), "{}", self.said());
    }

    /// Asks for what was seen and learned, and waits until all who are asked have said it: an answer
    /// that comes later would be taken for one to the next request.
    fn report(&self) -> String {
        let rounds = || {
            let said = self.said();
            said.split(": saw ").skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let before = rounds().len();
        self.signal("USR1");
        until("all answer", || {
            let rounds = rounds();
            let Some(round) = rounds.get(before) else { return false };
            let asked = round.split_once("users attended to: ").map(|(_, rest)| rest);
            let asked = asked.and_then(|rest| rest.split(',').next()?.parse().ok());
            asked.is_some_and(|asked: usize| round.matches(": of ").count() >= asked)
        });
        rounds().swap_remove(before)
    }

    pub(crate) fn patterns(&self, user: u32) -> PathBuf {
        self.state.join(format!("trees/{user}/trees"))
    }

    /// The process that attends to a user.
    pub(crate) fn attendant(&self, user: u32) -> Option<rustix::process::Pid> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        let attends = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let of = user.to_string();
            words.split(|&byte| byte == 0).any(|word| word == of.as_bytes())
        };
        let found = children.split(' ').filter_map(|pid| pid.parse().ok()).find(attends)?;
        rustix::process::Pid::from_raw(found)
    }

    pub(crate) fn end(mut self, signal: &str) -> String {
        self.signal(signal);
        end_of(&mut self.child);
        self.said()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn command(on: &Path, state: &Dir) -> Command {
    let mut command = Command::new(Program::at(env!("CARGO_BIN_EXE_nearfirst")).path());
    command.args(["watch", "--on-battery", "--on"]).arg(on).arg("--state").arg(state.path());
    command.env("NEARFIRST_STATE", state.path());
    command
}

/// A state folder that every user can get through.
pub(crate) fn state() -> Dir {
    let state = Dir::new();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o755))
        .expect("the machine allows it");
    state
}

/// A disk with a script that reads a file, waits half-way, reads the others, and waits at the end.
pub(crate) struct Ground {
    pub(crate) disk: LoopDisk,
    pub(crate) gate: Gate,
    end: Gate,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let disk = LoopDisk::new(FileSystem::Ext4, 0);
        let ground = Self { disk, gate: Gate::new(), end: Gate::new() };
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(ground.disk.path(), open.clone()).expect("the machine allows it");
        for number in 0..FILES {
            fs::write(ground.file(number), noise(40_000, number as u64))
                .expect("the machine allows it");
        }
        // `read` opens them in the shell itself, which lives long enough to be seen on any machine.
        let script = format!(
            "#!/bin/sh\ncd {}\nread -r x < file0\nread -r x < {}\nfor i in {}; do if [ -f file$i ] && [ -r file$i ]; then read -r x < file$i; fi; done\nread -r x < {}\nexit 0\n",
            ground.disk.path().display(),
            ground.gate.path().display(),
            (1..FILES).map(|n| n.to_string()).collect::<Vec<_>>().join(" "),
            ground.end.path().display()
        );
        fs::write(ground.script(), script).expect("the machine allows it");
        fs::set_permissions(ground.script(), open).expect("the machine allows it");
        ground
    }

    pub(crate) fn script(&self) -> PathBuf {
        self.disk.path().join("script.sh")
    }

    pub(crate) fn file(&self, number: usize) -> PathBuf {
        self.disk.path().join(format!("file{number}"))
    }

    /// Runs the script to its end, as the service sees it, and empties the page cache.
    pub(crate) fn run(&self, watch: &Watch, user: u32) {
        // What a program that ended before it was looked at was called with is not known; and what is
        // read only after a long wait is not predicted from the beginning.
        self.run_with(user, || (), || watch.has_learned(user));
        watch.has_learned(user);
        self.evict();
    }

    pub(crate) fn evict(&self) {
        (0..FILES).map(|number| self.file(number)).filter(|path| path.is_file()).for_each(evict);
    }

    pub(crate) fn is_near(&self, number: usize) -> bool {
        is_resident(self.file(number), 0..FILE_BYTES)
    }

    /// Whether these files come near while the script waits, before it opens them; in one of a few
    /// runs, since other tests' scripts have them fetched, too, for what they share.
    pub(crate) fn come_near(
        &self,
        watch: &Watch,
        user: u32,
        files: std::ops::Range<usize>,
    ) -> bool {
        self.comes_true(watch, user, || self.are_soon_near(files.clone()))
    }

    pub(crate) fn are_soon_near(&self, files: std::ops::Range<usize>) -> bool {
        happens_within(COMES_WITHIN, || files.clone().all(|number| self.is_near(number)))
    }

    /// As [`Self::come_near`], of what is looked at while the script waits.
    pub(crate) fn comes_true(
        &self,
        watch: &Watch,
        user: u32,
        mut looks: impl FnMut() -> bool,
    ) -> bool {
        (0..4).any(|_| {
            // What was near is taken to be near for five seconds (`recent.rs`), and not looked at.
            assert!(
                Command::new("sleep").arg("6").status().expect("the machine allows it").success()
            );
            self.evict();
            let mut is_true = false;
            self.run_and(user, || is_true = looks());
            watch.has_learned(user);
            is_true
        })
    }

    /// Runs the script until it waits half-way, and calls `meanwhile` before it goes on.
    pub(crate) fn run_and(&self, user: u32, meanwhile: impl FnOnce()) {
        self.run_with(user, meanwhile, || ());
    }

    fn run_with(&self, user: u32, half_way: impl FnOnce(), at_the_end: impl FnOnce()) {
        until_memory_suffices();
        let mut command = Command::new(self.script());
        command.uid(user).gid(user).stderr(Stdio::null());
        let mut script = command.spawn().expect("the machine allows it");
        self.gate.let_through(half_way);
        self.end.let_through(at_the_end);
        end_of(&mut script);
    }
}

/// A FIFO at which a program waits for a line.
pub(crate) struct Gate(Dir);

impl Gate {
    fn new() -> Self {
        let gate = Self(Dir::new());
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(gate.0.path(), open).expect("the machine allows it");
        cmd("mkfifo", ["-m", "666"]).arg(gate.path()).run().succeeds();
        gate
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.join("gate")
    }

    /// Waits until a program has come to it, calls `meanwhile`, and lets it through.
    pub(crate) fn let_through(&self, meanwhile: impl FnOnce()) {
        let mut gate = writer_of(self.path());
        meanwhile();
        gate.write_all(b"go\n").expect("the program reads it");
    }
}
