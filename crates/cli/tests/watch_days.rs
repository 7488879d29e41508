//! `nearfirst watch` on bad days: queues that overflow, attendants that are killed, a full disk under
//! what is learned, users who must not see each other's.

mod watching;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Dir, Facility, Program, Tmpfs, noise, skip_unless, until};
use watching::{FILES, Ground, NOBODY, Watch, state};

/// A user without a name.
const SOMEBODY: u32 = 54321;
/// One whom the user database has a name for.
const NAMED: u32 = 1;

fn trees(watch: &Watch, user: u32) -> String {
    let folder = watch.patterns(user);
    let folder = folder.parent().expect("it has one");
    let program = Program::at(env!("CARGO_BIN_EXE_nearfirst"));
    let output = program.cmd(["trees", "list", "--json", "--state"]).arg(folder).run();
    output.succeeds().text()
}

/// How many runs of the script were learned; other tests' services see theirs, too.
fn runs(watch: &Watch, ground: &Ground, user: u32) -> u64 {
    watch.signal("HUP");
    watch.has_learned(user);
    let listed = trees(watch, user);
    let programs = listed.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let script = ground.script();
    let is_it =
        |program: &serde_json::Value| program["program"]["text"].as_str() == script.to_str();
    programs
        .into_iter()
        .find(is_it)
        .map_or(0, |program| program["runs"].as_u64().expect("a number"))
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
    let before = runs(&watch, &ground, NOBODY);
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
    let last = said.lines().rfind(|line| line.contains("losses of events: ")).expect("it says");
    assert!(!last.contains("losses of events: 0,"), "{said}");
    assert_eq!(runs(&watch, &ground, NOBODY), before, "a run of which a part was lost is none");
    assert!(ground.come_near(&watch, NOBODY, 1..FILES), "{}", watch.said());
    assert!(runs(&watch, &ground, NOBODY) > before);
    watch.end("TERM");
}

#[test]
fn an_attendant_that_is_killed_takes_nobody_with_it() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let mut watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, SOMEBODY);
    assert!(runs(&watch, &ground, NOBODY) > 0);
    let killed = watch.attendant(NOBODY).expect("it attends");
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).expect("it lives");
    let told = format!("user {NOBODY}: its attendant ended (signal 9); passed over for a minute");
    until("it is told while nothing happens", || watch.said().contains(&told));
    ground.run_and(NOBODY, || {});
    ground.run(&watch, SOMEBODY);
    assert!(watch.child.try_wait().expect("ours").is_none(), "{}", watch.said());
    assert!(runs(&watch, &ground, SOMEBODY) > 0);
    let saved = trees(&watch, NOBODY);
    assert!(
        saved.contains(ground.script().to_str().expect("text")),
        "what was saved is still there"
    );
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
    command.args(["-c", "read x < diary; read x < \"$0\"; exit 0"]).arg(ground.gate.path());
    command.current_dir(&private).uid(NOBODY).gid(NOBODY);
    let mut reader = command.spawn().expect("the machine allows it");
    ground.gate.let_through(|| watch.has_learned(NOBODY));
    assert!(reader.wait().expect("ours").success());
    ground.run(&watch, NOBODY);
    ground.run(&watch, SOMEBODY);
    for user in [NOBODY, SOMEBODY] {
        assert!(runs(&watch, &ground, user) > 0, "{}\n{}", watch.said(), trees(&watch, user));
    }
    for user in [NOBODY, SOMEBODY] {
        let patterns = watch.patterns(user);
        let folder = fs::metadata(patterns.parent().expect("it has one")).expect("there");
        let file = fs::metadata(&patterns).expect("saved");
        assert_eq!((folder.uid(), folder.mode() & 0o7777), (user, 0o700));
        assert_eq!((file.uid(), file.mode() & 0o7777), (user, 0o600));
    }
    let knows_diary = |user| {
        let learned = fs::read(watch.patterns(user)).expect("saved");
        learned.windows(5).any(|part| part == b"diary")
    };
    assert!(knows_diary(NOBODY), "whose it is");
    assert!(!knows_diary(SOMEBODY), "another user's");
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
    let before = runs(&watch, &ground, NOBODY);
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
    // One who was not attended to before is all the same, without a word of theirs on disk.
    ground.run(&watch, NAMED);
    ground.run(&watch, NAMED);
    let unkept = format!(
        "/{NAMED}.name: No space left on device; what is learned for user {NAMED} is not kept"
    );
    assert_eq!(watch.said().matches(&unkept).count(), 1, "{}", watch.said());
    assert!(!watch.patterns(NAMED).exists());
    assert_eq!(fs::read(watch.patterns(NOBODY)).expect("still there"), saved);
    fs::remove_file(disk.path().join("ballast")).expect("ours");
    let after = runs(&watch, &ground, NOBODY);
    assert!(after > before, "all of it is saved once there is room");
    watch.end("TERM");
}

/// Writes to a file system until nothing more goes.
fn fill(at: &Path) {
    let mut file = File::create(at.join("ballast")).expect("there is room for a name");
    while file.write_all(&[7; 4096]).is_ok() {}
}
