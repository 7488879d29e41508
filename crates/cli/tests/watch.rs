//! `nearfirst watch` beside real programs, on file systems of the tests' own.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use testkit::{
    Dir, Facility, FileSystem, LoopDisk, Program, evict, is_resident, noise, skip_unless, until,
};

/// Who runs the programs: what a test itself opens, as root, is not learned from with them.
const NOBODY: u32 = 65534;
const FILES: usize = 8;
const FILE_BYTES: u64 = 40_000;

/// A service that runs.
struct Watch {
    child: Child,
    state: PathBuf,
    said: PathBuf,
}

impl Watch {
    fn start(on: &Path, state: &Dir, options: &[&str]) -> Self {
        let said = state.join("said");
        let output = fs::File::create(&said).expect("the machine allows it");
        let mut command = command(on, state);
        command.args(options).stderr(output).stdin(Stdio::null());
        let watch = Self {
            child: command.spawn().expect("the machine allows it"),
            state: state.path().to_owned(),
            said,
        };
        until("it watches", || watch.said().contains("watching "));
        watch
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.said).expect("the machine allows it")).into_owned()
    }

    fn signal(&self, name: &str) {
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
    fn has_learned(&self, user: u32) {
        let answers = || self.said().matches(&format!("user {user}: of ")).count();
        // The first answer may have been asked for before the last events were taken.
        for _ in 0..2 {
            let before = answers();
            self.signal("USR1");
            until("it answers", || answers() > before);
        }
    }

    fn patterns(&self, user: u32) -> PathBuf {
        self.state.join(format!("trees/{user}/trees"))
    }

    fn end(mut self, signal: &str) -> String {
        self.signal(signal);
        self.child.wait().expect("the machine allows it");
        self.said()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn command(on: &Path, state: &Dir) -> Command {
    let mut command = Command::new(Program::at(env!("CARGO_BIN_EXE_nearfirst")).path());
    command.arg("watch").arg("--on").arg(on).arg("--state").arg(state.path());
    command.env("NEARFIRST_STATE", state.path());
    command
}

/// A state folder that every user can get through.
fn state() -> Dir {
    let state = Dir::new();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o755))
        .expect("the machine allows it");
    state
}

/// A disk with a script that reads a file, waits for a line from a FIFO, and reads the others.
struct Ground {
    disk: LoopDisk,
    gate: Dir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { disk: LoopDisk::new(FileSystem::Ext4, 0), gate: Dir::new() };
        let gate = ground.gate.join("gate");
        assert!(
            Command::new("mkfifo")
                .args(["-m", "666"])
                .arg(&gate)
                .status()
                .expect("the machine allows it")
                .success()
        );
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(ground.gate.path(), open.clone()).expect("the machine allows it");
        fs::set_permissions(ground.disk.path(), open.clone()).expect("the machine allows it");
        for number in 0..FILES {
            fs::write(ground.file(number), noise(40_000, number as u64))
                .expect("the machine allows it");
        }
        // `read` opens them in the shell itself, which lives long enough to be seen on any machine.
        let script = format!(
            "#!/bin/sh\ncd {}\nread -r x < file0\nread -r x < {}\nfor i in {}; do if [ -f file$i ] && [ -r file$i ]; then read -r x < file$i; fi; done\nexit 0\n",
            ground.disk.path().display(),
            gate.display(),
            (1..FILES).map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
        );
        fs::write(ground.script(), script).expect("the machine allows it");
        fs::set_permissions(ground.script(), open).expect("the machine allows it");
        ground
    }

    fn script(&self) -> PathBuf {
        self.disk.path().join("script.sh")
    }

    fn file(&self, number: usize) -> PathBuf {
        self.disk.path().join(format!("file{number}"))
    }

    fn start(&self, user: u32) -> Child {
        let mut command = Command::new(self.script());
        command.uid(user).gid(user);
        command.stderr(Stdio::null()).spawn().expect("the machine allows it")
    }

    fn let_through(&self) {
        fs::write(self.gate.join("gate"), "go\n").expect("the machine allows it");
    }

    /// Runs the script to its end, as the service sees it, and empties the page cache.
    fn run(&self, watch: &Watch, user: u32) {
        let mut script = self.start(user);
        self.let_through();
        script.wait().expect("the machine allows it");
        watch.has_learned(user);
        self.evict();
    }

    fn evict(&self) {
        (0..FILES).map(|number| self.file(number)).filter(|path| path.is_file()).for_each(evict);
    }

    fn is_near(&self, number: usize) -> bool {
        is_resident(self.file(number), 0..FILE_BYTES)
    }

    /// Whether these files are near while the script waits, before it opens them; in one of a few runs,
    /// since what was near a moment ago is taken to be near, and not looked at.
    fn come_near(&self, watch: &Watch, user: u32, files: std::ops::Range<usize>) -> bool {
        (0..4).any(|_| {
            assert!(
                Command::new("sleep").arg("6").status().expect("the machine allows it").success()
            );
            self.evict();
            let mut are_near = false;
            self.run_and(user, || {
                let mut looks = 0;
                until("they are near, or will not be", || {
                    looks += 1;
                    are_near = files.clone().all(|number| self.is_near(number));
                    are_near || looks > 200
                });
            });
            watch.has_learned(user);
            are_near
        })
    }

    /// Runs the script until it waits, and calls `meanwhile` before it goes on.
    fn run_and(&self, user: u32, meanwhile: impl FnOnce()) {
        let mut script = self.start(user);
        meanwhile();
        self.let_through();
        script.wait().expect("the machine allows it");
    }
}

#[test]
fn what_a_program_read_is_near_before_it_asks_again() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    assert!(ground.come_near(&watch, NOBODY, 1..FILES), "{}", watch.said());
    watch.end("TERM");
}

#[test]
fn what_a_user_may_not_read_and_what_is_no_file_is_never_read_for_that_user() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    let secret = ground.file(1);
    chown(&secret, Some(0), Some(0)).expect("the machine allows it");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("the machine allows it");
    let fifo = ground.file(2);
    fs::remove_file(&fifo).expect("the machine allows it");
    assert!(
        Command::new("mkfifo")
            .args(["-m", "666"])
            .arg(&fifo)
            .status()
            .expect("the machine allows it")
            .success()
    );
    // It ends as soon as anybody opens the other end.
    let mut writer = Command::new("sh")
        .args(["-c", "echo > \"$0\""])
        .arg(&fifo)
        .spawn()
        .expect("the machine allows it");
    assert!(ground.come_near(&watch, NOBODY, 3..FILES), "{}", watch.said());
    assert!(!ground.is_near(1), "it is root's alone");
    assert!(
        writer.try_wait().expect("the machine allows it").is_none(),
        "nobody has opened the FIFO"
    );
    writer.kill().ok();
    writer.wait().expect("the machine allows it");
    let patterns = fs::metadata(watch.patterns(NOBODY).parent().expect("the machine allows it"))
        .expect("the machine allows it");
    assert_eq!(patterns.permissions().mode() & 0o777, 0o700);
    watch.end("TERM");
}

#[test]
fn what_was_saved_is_known_after_being_killed() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    let patterns = watch.patterns(NOBODY);
    watch.signal("HUP");
    until("it is saved", || patterns.exists());
    watch.has_learned(NOBODY);
    assert_eq!(
        fs::metadata(&patterns).expect("the machine allows it").permissions().mode() & 0o777,
        0o600
    );
    watch.end("KILL");
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    assert!(ground.come_near(&watch, NOBODY, 1..FILES), "{}", watch.said());
    watch.end("INT");
}

#[test]
fn a_second_one_is_refused_and_leaves_the_first_alone() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let mut watch = Watch::start(ground.disk.path(), &state, &[]);
    let second = command(ground.disk.path(), &state).output().expect("the machine allows it");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("another `nearfirst watch` runs"), "{said}");
    assert!(watch.child.try_wait().expect("the machine allows it").is_none());
    watch.end("TERM");
}

#[test]
fn broken_patterns_are_set_aside() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let folder = state.create_dir("trees/0");
    fs::set_permissions(state.join("trees"), fs::Permissions::from_mode(0o711))
        .expect("the machine allows it");
    fs::write(folder.join("trees"), "what no learner wrote").expect("the machine allows it");
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, 0);
    let said = watch.end("TERM");
    assert!(said.contains("set aside"), "{said}");
    assert_eq!(
        fs::read(folder.join("trees.broken")).expect("the machine allows it"),
        b"what no learner wrote"
    );
    assert!(fs::metadata(folder.join("trees")).expect("the machine allows it").len() > 0);
}

#[test]
fn a_dry_run_says_what_it_would_fetch_and_fetches_nothing() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &["--dry-run"]);
    ground.run(&watch, 0);
    ground.run(&watch, 0);
    ground.run_and(0, || {
        until("it says so", || watch.said().contains("/file7"));
        assert!((1..FILES).all(|n| !ground.is_near(n)));
    });
    watch.end("TERM");
}

#[test]
fn a_place_that_is_not_there_is_refused() {
    skip_unless!(Facility::Root);
    let state = state();
    let output =
        command(Path::new("/no/such/place"), &state).output().expect("the machine allows it");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/place"));
}
