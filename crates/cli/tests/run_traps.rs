//! Names that `nearfirst run` predicts and that no longer stand for what they stood for: nothing but
//! a regular file on a mount that answers is opened for a guess, and nobody waits for the others.

mod running;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use running::{Sentinel, begin, finish, has_come, nearfirst, script, spawn};
use slowfs::{Fault, Options, Profile, Rule};
use testkit::{
    Cmd, Dir, Facility, SlowDir, cmd, evict, noise, skip_unless, until, until_memory_suffices,
};

/// Files that are there whatever becomes of the others.
const SOUND: usize = 2;

/// A script that reads a file, waits for a line, reads what is told to it by that line, and reads a
/// last file.
struct Trapped {
    slow: SlowDir,
    script: PathBuf,
    state: Dir,
    _dir: Dir,
}

impl Trapped {
    /// The script, after a run in which it read `traps`.
    fn new(slow: SlowDir, traps: &[&Path]) -> Self {
        let sound: Vec<_> =
            (0..SOUND).map(|at| slow.create(format!("f{at}"), noise(20_000, at as u64))).collect();
        let dir = Dir::new();
        let reads: Vec<_> = traps.iter().map(|trap| format!("cat {}", trap.display())).collect();
        let text = format!(
            "cat {}\nread -r line\nif [ \"$line\" = all ]; then {}; fi\ncat {}",
            sound[0].display(),
            reads.join("; "),
            sound[1].display()
        );
        let script = script(&dir, "trapped", &text);
        let trapped = Self { slow, script, state: Dir::new(), _dir: dir };
        trapped.run().stdin("all\n").run().succeeds();
        (0..SOUND).for_each(|at| evict(trapped.slow.path().join(format!("f{at}"))));
        trapped.slow.reset();
        trapped
    }

    fn run(&self) -> Cmd {
        nearfirst(&self.state, &["run", "--rules=paper", "--"]).arg(&self.script)
    }

    /// Runs the script without what it read before, once what can be fetched for it is.
    fn springs_nothing(&self) {
        let child = begin(&self.state, &["--rules=paper"], &self.script);
        until("what is sound is fetched", || !self.slow.stats().reads_of("f1").is_empty());
        let output = finish(child);
        assert!(output.status.success());
        assert_eq!(output.stdout.len(), SOUND * 20_000);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn what_became_a_fifo_a_device_a_folder_or_a_socket_is_never_opened() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Tool("mknod"));
    let dir = Dir::new();
    let names = ["fifo", "device", "folder", "socket"];
    let traps = names.map(|name| dir.create(name, "a file, as yet"));
    let trapped = Trapped::new(
        SlowDir::new(Options::default()),
        &traps.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
    );
    for trap in &traps {
        fs::remove_file(trap).expect("it is ours");
    }
    cmd("mkfifo", [&traps[0]]).run().succeeds();
    // The kernel's random bytes, which have no end.
    cmd("mknod", ["device", "c", "1", "9"]).dir(&dir).run().succeeds();
    fs::create_dir(&traps[2]).expect("it is ours");
    let _socket = std::os::unix::net::UnixListener::bind(&traps[3]).expect("a socket");
    let sentinels = traps.each_ref().map(|trap| Sentinel::at(trap));
    trapped.springs_nothing();
    for (name, sentinel) in names.iter().zip(&sentinels) {
        assert!(sentinel.has_seen_nobody(), "somebody opened the {name}");
    }
}

#[test]
fn what_became_a_link_to_a_file_that_the_user_may_not_read_is_not_read() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Tool("setpriv"));
    let (open, secrets) = (Dir::new(), Dir::new());
    let secret = secrets.create("secret", noise(50_000, 7));
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("ours");
    let slow = SlowDir::new(Options::default());
    let sound = slow.create("sound", noise(20_000, 1));
    let [begun, trap] = ["begun", "trap"].map(|name| open.create(name, noise(20_000, 1)));
    let [begins, reads, ends] = [&begun, &trap, &sound].map(|path| path.display());
    let text = format!("cat {begins}\nread -r line\ncat {reads}\ncat {ends}");
    let script = script(&open, "linked", &text);
    for dir in [open.path(), secrets.path(), slow.path()] {
        cmd("chmod", ["755"]).arg(dir).run().succeeds();
    }
    let state = open.create_dir("state");
    std::os::unix::fs::chown(&state, Some(65534), Some(65534)).expect("ours");
    let as_nobody = || {
        let program = cmd("setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups"]);
        let program = program.arg(env!("CARGO_BIN_EXE_nearfirst")).arg("run").arg("--rules=paper");
        program.env("NEARFIRST_STATE", &state).arg("--").arg(&script)
    };
    as_nobody().stdin("go\n").run().succeeds();
    fs::remove_file(&trap).expect("ours");
    open.link("trap", &secret);
    [&secret, &sound].iter().for_each(evict);
    slow.reset();
    until_memory_suffices();
    let child = spawn(as_nobody());
    until("what is sound is fetched", || has_come(&slow.stats(), "sound"));
    let output = finish(child);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Permission denied"));
    assert_eq!(testkit::resident_bytes(&secret), 0);
    assert_eq!(output.stdout.len(), 2 * 20_000, "of what may be read");
}

#[test]
fn what_a_program_is_denied_that_gave_up_roots_rights_is_not_learned_as_roots() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"), Facility::Tool("python3"));
    let (state, dir) = (Dir::new(), Dir::new());
    let denied = ["by-cat", "by-a-fork"].map(|name| dir.create(name, "root's alone"));
    let (denied_program, read) = (script(&dir, "by-exec", "true"), dir.create("read", "root's"));
    let open = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(path, mode).expect("ours");
    };
    open(dir.path(), 0o755);
    for path in &denied {
        open(path, 0o600);
    }
    open(&denied_program, 0o700);
    let as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let forks = format!("import os; os.setuid(65534); os.fork() or open({:?})", denied[1]);
    let text = format!(
        "{as_nobody} cat {}\n{as_nobody} {}\npython3 -c '{forks}; os.wait()'\ncat {}",
        denied[0].display(),
        denied_program.display(),
        read.display()
    );
    let (script, trace) = (script(&dir, "script", &text), dir.join("trace"));
    let run = nearfirst(&state, &["run", "--record"]).arg(&trace).arg("--").arg(&script).run();
    assert_eq!(run.stderr().matches("Permission denied").count(), 3, "{}", run.stderr());
    let trace = fs::read_to_string(trace).expect("recorded");
    let files: Vec<_> = trace.lines().filter_map(|line| line.strip_prefix("file ")).collect();
    let learned = |path: &Path| files.iter().any(|it| it.split(' ').nth(1) == path.to_str());
    assert!(denied.iter().chain([&denied_program]).all(|path| !learned(path)), "{trace}");
    assert!(learned(&read), "{trace}");
}

#[test]
fn a_file_that_went_to_tape_is_not_recalled() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(Options::default());
    let trap = slow.create("trap", noise(20_000, 9));
    let trapped = Trapped::new(slow, &[&trap]);
    let slow = &trapped.slow;
    // A size and no blocks, on a device of which that means so.
    let stub = fs::File::create(slow.source().join("trap")).expect("ours");
    stub.set_len(20_000).expect("a hole");
    let devices = nearfirst(&trapped.state, &["devices", "--json"]).run().text();
    let is_ours = |line: &&str| line.contains(&*slow.path().to_string_lossy());
    let row = devices.lines().find(is_ours).expect("the mount is listed");
    let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
    let text = format!("version = 1\n[device.{}]\nhas_stubs = true\n", row["device"]);
    trapped.state.create("devices.toml", text);
    let sentinel = Sentinel::at(&trap);
    trapped.springs_nothing();
    assert!(sentinel.has_seen_nobody(), "somebody opened what is offline");
    assert_eq!(slow.stats().file("trap").read_bytes, 0);
}

#[test]
fn a_mount_that_died_is_not_entered_and_holds_up_nobody() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dead = SlowDir::new(Options::default());
    let traps: Vec<_> =
        (0..3).map(|at| dead.create(format!("trap{at}"), noise(20_000, at))).collect();
    let trapped = Trapped::new(
        SlowDir::new(Options::default()),
        &traps.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
    );
    traps.iter().for_each(evict);
    let sentinels: Vec<_> = traps.iter().map(|trap| Sentinel::at(trap)).collect();
    let hang = Profile { hang: true, ..Profile::default() };
    dead.mount().set_rules(vec![Rule::all(hang)]);
    // The second has what the first learned: nothing of it is lost to whoever may still wait.
    trapped.springs_nothing();
    forget_pages_of(&trapped);
    trapped.springs_nothing();
    assert!(sentinels.iter().all(Sentinel::has_seen_nobody), "somebody opened a file there");
    dead.mount().set_rules(Vec::new());
}

#[test]
fn a_mount_that_dies_while_a_guess_is_read_holds_up_nobody() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dying = SlowDir::new(Options::default());
    let trap = dying.create("trap", noise(20_000, 5));
    let trapped = Trapped::new(SlowDir::new(Options::default()), &[&trap]);
    evict(&trap);
    let faults = vec![Fault::Stall { read: 1, time: None }];
    dying.mount().set_rules(vec![Rule::all(Profile { faults, ..Profile::default() })]);
    dying.reset();
    let child = begin(&trapped.state, &["--rules=paper"], &trapped.script);
    until("the guess is being read", || dying.stats().total.reads > 0);
    let output = finish(child);
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), SOUND * 20_000);
    forget_pages_of(&trapped);
    // Whoever still waits there keeps nothing that the next one needs.
    let next = trapped.run().stdin("\n").run();
    next.succeeds().is_quiet();
    dying.mount().set_rules(Vec::new());
    let listed = nearfirst(&trapped.state, &["trees", "list", "--json"]).run().text();
    let is_ours = |line: &&str| line.contains("/trapped");
    let program: serde_json::Value =
        serde_json::from_str(listed.lines().find(is_ours).expect("it was learned")).expect("JSON");
    assert_eq!(program["runs"], 3, "{program}");
}

/// Reads files of a folder and unmounts it at once.
const UNMOUNTS: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
at, rounds, files = sys.argv[1].encode(), int(sys.argv[2]), int(open(sys.argv[3]).read())
for _ in range(rounds):
    if rounds > 1:
        assert libc.mount(b'none', at, b'tmpfs', 0, None) == 0
    for number in range(files):
        name = at + b'/f%d' % number
        if rounds > 1:
            open(name, 'w').close()
        open(name, 'rb').read()
    if rounds > 1 or files == 1:
        assert libc.umount(at) == 0, os.strerror(ctypes.get_errno())
";

#[test]
fn what_a_command_has_just_read_can_be_unmounted() {
    skip_unless!(Facility::Root);
    let (dir, state) = (Dir::new(), Dir::new());
    let at = dir.join("at");
    fs::create_dir(&at).expect("ours");
    let count = dir.create("count", "200");
    let run = nearfirst(&state, &["run", "python3", "-c", UNMOUNTS]).arg(&at).arg("30").arg(count);
    run.run().succeeds().is_quiet();
}

#[test]
fn what_is_fetched_on_a_guess_stands_in_no_unmounts_way() {
    const FILES: usize = 40;
    skip_unless!(Facility::Root, Facility::Fuse);
    let latency = Duration::from_millis(100);
    let rules = vec![Rule::all(Profile { latency, ..Profile::default() })];
    let slow = SlowDir::new(Options { rules, ..Options::default() });
    (0..FILES).for_each(|at| drop(slow.create(format!("f{at}"), noise(20_000, at as u64))));
    let (dir, state) = (Dir::new(), Dir::new());
    let count = dir.create("count", FILES.to_string());
    let run = || {
        let run = nearfirst(&state, &["run", "python3", "-c", UNMOUNTS]);
        run.arg(slow.path()).arg("1").arg(&count).run()
    };
    run().succeeds();
    (0..FILES).for_each(|at| evict(slow.path().join(format!("f{at}"))));
    slow.reset();
    fs::write(&count, "1").expect("ours");
    until_memory_suffices();
    run().succeeds().is_quiet();
    assert!(slow.stats().total.reads > 1, "something was fetched");
}

fn forget_pages_of(trapped: &Trapped) {
    (0..SOUND).for_each(|at| evict(trapped.slow.path().join(format!("f{at}"))));
    trapped.slow.reset();
}
