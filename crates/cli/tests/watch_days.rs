//! `nearfirst watch` on bad days: queues that overflow, attendants that are killed, a full disk under
//! what is learned, users who must not see each other's.

mod watching;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Dir, Facility, Program, Tmpfs, noise, skip_unless};
use watching::{FILES, Ground, NOBODY, Watch, state};

/// A user without a name.
const SOMEBODY: u32 = 54321;

fn trees(watch: &Watch, user: u32) -> String {
    let folder = watch.patterns(user);
    let folder = folder.parent().expect("it has one");
    let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
    let output = program.cmd(["trees", "list", "--json", "--state"]).arg(folder).run();
    output.succeeds().text()
}

/// How many runs of the script were learned.
fn runs(watch: &Watch, user: u32) -> u64 {
    watch.signal("HUP");
    watch.has_learned(user);
    let listed = trees(watch, user);
    let line = listed.lines().find(|line| line.contains("/script.sh"));
    let program: Option<serde_json::Value> =
        line.map(|line| serde_json::from_str(line).expect("JSON"));
    program.map_or(0, |program| program["runs"].as_u64().expect("a number"))
}

#[test]
fn what_both_queues_lost_is_forgotten_and_learning_goes_on() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("python3"));
    let (ground, state) = (Ground::new(), state());
    let room = Tmpfs::new(64 << 20);
    let also = room.path().to_str().expect("text");
    let watch = Watch::start(ground.disk.path(), &state, &["--on", also]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    let before = runs(&watch, NOBODY);
    let storm = state.create(
        "storm.py",
        "import sys, threading\n\
         folder, opens = sys.argv[1], int(sys.argv[2])\n\
         for at in range(opens + 100): open(f'{folder}/{at}', 'w').close()\n\
         for at in range(14000):\n\
         \x20   thread = threading.Thread(target=int); thread.start(); thread.join()\n",
    );
    // Nobody takes anything out of the queues meanwhile: names that differ fill the one, beginnings
    // and ends of threads the other.
    let queued = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").expect("there");
    ground.run_and(NOBODY, || {
        watch.has_learned(NOBODY);
        watch.signal("STOP");
        let mut command = Command::new("python3");
        command.arg(&storm).arg(room.path()).arg(queued.trim());
        let ended = command.status().expect("the machine allows it");
        watch.signal("CONT");
        assert!(ended.success());
    });
    watch.has_learned(NOBODY);
    let said = watch.said();
    let last = said.lines().rfind(|line| line.contains("events were lost")).expect("it says");
    assert!(!last.contains("lost 0 times"), "{said}");
    assert_eq!(runs(&watch, NOBODY), before, "a run of which a part was lost is none");
    assert!(ground.come_near(&watch, NOBODY, 1..FILES), "{}", watch.said());
    assert!(runs(&watch, NOBODY) > before);
    watch.end("TERM");
}

#[test]
fn an_attendant_that_is_killed_takes_nobody_with_it() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let mut watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, SOMEBODY);
    assert!(runs(&watch, NOBODY) > 0);
    let killed = watch.attendant(NOBODY).expect("it attends");
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).expect("it lives");
    ground.run_and(NOBODY, || {});
    ground.run(&watch, SOMEBODY);
    assert!(watch.child.try_wait().expect("ours").is_none(), "{}", watch.said());
    assert!(runs(&watch, SOMEBODY) > 0);
    assert!(trees(&watch, NOBODY).contains("/script.sh"), "what was saved is still there");
    watch.end("TERM");
}

#[test]
fn users_learn_apart_and_see_nothing_of_each_other() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    let private = ground.disk.path().join("private");
    fs::create_dir(&private).expect("there is room");
    std::os::unix::fs::chown(&private, Some(NOBODY), Some(NOBODY)).expect("ours");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).expect("ours");
    fs::write(private.join("diary"), noise(20_000, 1)).expect("there is room");
    let mut command = Command::new("sh");
    command.args(["-c", "read x < diary; exit 0"]).current_dir(&private).uid(NOBODY).gid(NOBODY);
    assert!(command.status().expect("the machine allows it").success());
    ground.run(&watch, NOBODY);
    ground.run(&watch, SOMEBODY);
    for user in [NOBODY, SOMEBODY] {
        assert!(runs(&watch, user) > 0, "{}\n{}", watch.said(), trees(&watch, user));
    }
    for user in [NOBODY, SOMEBODY] {
        let patterns = watch.patterns(user);
        let folder = fs::metadata(patterns.parent().expect("it has one")).expect("there");
        let file = fs::metadata(&patterns).expect("saved");
        assert_eq!((folder.uid(), folder.mode() & 0o7777), (user, 0o700));
        assert_eq!((file.uid(), file.mode() & 0o7777), (user, 0o600));
    }
    let learned = fs::read(watch.patterns(SOMEBODY)).expect("saved");
    assert!(!learned.windows(5).any(|part| part == b"diary"), "another user's");
    // The folder above shows nobody who else is there.
    let above = watch.patterns(SOMEBODY);
    let above = above.ancestors().nth(2).expect("it has one");
    let mut listing = Command::new("ls");
    listing.arg(above).uid(SOMEBODY).gid(SOMEBODY).stderr(Stdio::null());
    assert!(!listing.status().expect("the machine allows it").success());
    watch.end("TERM");
}

#[test]
fn a_full_disk_is_said_once_and_keeps_what_was_saved() {
    skip_unless!(Facility::Root, Facility::Loop);
    let ground = Ground::new();
    let disk = Tmpfs::new(512 << 10);
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(disk.path(), open.clone()).expect("ours");
    let state = Dir::new_in(&disk);
    fs::set_permissions(state.path(), open).expect("ours");
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    let before = runs(&watch, NOBODY);
    let saved = fs::read(watch.patterns(NOBODY)).expect("saved");
    fill(disk.path());
    let patterns = watch.patterns(NOBODY).display().to_string();
    let says = |line: &&str| line.contains(&patterns) && line.contains("No space left on device");
    let full = |watch: &Watch| watch.said().lines().filter(says).count();
    for _ in 0..3 {
        ground.run(&watch, NOBODY);
        watch.signal("HUP");
        watch.has_learned(NOBODY);
    }
    assert_eq!(full(&watch), 1, "{}", watch.said());
    assert_eq!(fs::read(watch.patterns(NOBODY)).expect("still there"), saved);
    fs::remove_file(disk.path().join("ballast")).expect("ours");
    assert!(runs(&watch, NOBODY) > before, "all of it is saved once there is room");
    watch.end("TERM");
}

/// Writes to a file system until nothing more goes.
fn fill(at: &Path) {
    let mut file = File::create(at.join("ballast")).expect("there is room for a name");
    while file.write_all(&[7; 4096]).is_ok() {}
}
