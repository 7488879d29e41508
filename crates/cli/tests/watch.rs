//! `nearfirst watch` beside real programs, on file systems of the tests' own.

mod watching;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Gid;
use rustix::thread::set_thread_groups;
use testkit::{Dir, Facility, Program, cmd, happens_within, hold, skip_unless, until};
use watching::{FILE_BYTES, FILES, Ground, NOBODY, Watch, command, state};

/// What is fetched stands in the numbers a while later.
const COUNTED_WITHIN: Duration = Duration::from_secs(30);

#[test]
fn what_a_program_read_is_near_before_it_asks_again() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    assert!(ground.come_near(&watch, NOBODY, 1..FILES), "{}", watch.said());
    let said = watch.end("TERM");
    let mut saved = said.lines().filter_map(|line| {
        let of = line.split_once(&format!("user {NOBODY}: of "))?.1;
        let (saved, rest) = of.split_once("; about ")?.1.split_once(" s saved, ")?;
        assert!(rest.ends_with(" bytes fetched and not read"), "{line}");
        saved.parse::<f64>().ok()
    });
    assert!(
        said.contains(&format!("file systems listened to: 1 ({})\n", ground.disk.path().display()))
    );
    // Of a disk as fast as this one it may be next to nothing.
    assert!(saved.next_back().is_some(), "{said}");
}

#[test]
fn what_came_of_it_is_written_for_a_monitor() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state, dir) = (Ground::new(), state(), Dir::new());
    let file = dir.join("nearfirst.prom");
    let watch = Watch::start(
        ground.disk.path(),
        &state,
        &["--metrics", file.to_str().expect("it is text")],
    );
    let value = |name: &str| {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.parse::<f64>().expect("a number"))
    };
    let of = |name: &str| value(&format!("nearfirst_{name}{{user=\"{NOBODY}\"}}"));
    until("it is written", || value("nearfirst_heard_file_systems") == Some(1.0));
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    // Who attends to a user stays as long as a program of the user does.
    let mut lasting =
        Command::new("sleep").arg("300").uid(NOBODY).spawn().expect("the machine allows it");
    until("the user is attended to", || value("nearfirst_attendants") >= Some(1.0));
    until("a user is counted while the service runs", || of("runs_total") >= Some(2.0));
    lasting.kill().ok();
    lasting.wait().expect("the machine allows it");
    // Another test's script may have some fetched, and end before that is counted: those are near then, and
    // fetched by nobody. Then once more.
    let fetched = (FILES - 1) as f64;
    let is_counted = || of("fetched_files_total") >= Some(fetched);
    let are_fetched = |_| {
        ground.come_near(&watch, NOBODY, 1..FILES) && happens_within(COUNTED_WITHIN, is_counted)
    };
    assert!((0..4).any(are_fetched), "{}", watch.said());
    let said = watch.end("TERM");
    let text = fs::read_to_string(&file).expect("it is there");
    for (name, least) in [
        ("runs_total", 3.0),
        ("predicted_files_total", fetched),
        ("fetched_files_total", fetched),
        ("fetched_bytes_total", fetched * FILE_BYTES as f64),
        ("saved_seconds_total", 0.0),
        ("wasted_bytes_total", 0.0),
    ] {
        assert!(of(name) >= Some(least), "{name}: {text}");
        assert!(text.contains(&format!("# TYPE nearfirst_{name} counter\n")), "{text}");
    }
    // Which they are is for the machine to say.
    let read = ["in_time_files_total", "late_files_total"].map(|name| of(name).unwrap_or_default());
    assert!(read.iter().sum::<f64>() >= 1.0, "{text}");
    for name in ["events_total", "executions_total", "opened_files_total"] {
        assert!(value(&format!("nearfirst_{name}")) >= Some(3.0), "{name}: {text}");
    }
    // What was said last is what was written last, but of what happened in between.
    let last = said.lines().rfind(|line| line.contains(&format!("user {NOBODY}: of ")));
    let predicted =
        last.and_then(|line| line.split_once(": of ")?.1.split(' ').next()?.parse().ok());
    assert!(predicted <= of("predicted_files_total") && predicted.is_some(), "{said}{text}");
    assert_eq!(value("nearfirst_attendants"), Some(0.0), "all have ended");
    let mode = fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "others read it");
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 1);
}

#[test]
fn numbers_take_the_place_of_no_pipe() {
    skip_unless!(Facility::Root);
    let (dir, state) = (Dir::new(), state());
    let fifo = dir.join("fifo");
    cmd("mkfifo", [&fifo]).run().succeeds();
    let mut watch = command(dir.path(), &state);
    watch.arg("--metrics").arg(&fifo);
    let refused = watch.output().expect("it ends");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("fifo: no regular file"), "{said}");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read_dir(dir.path()).expect("ours").count(), 1);
}

#[test]
fn what_a_user_may_not_read_and_what_is_no_file_is_never_read_for_that_user() {
    skip_unless!(Facility::Root, Facility::Loop);
    // Of the thread, and of what it starts: that of root, who may have none of it here.
    set_thread_groups(&[Gid::ROOT]).expect("root may");
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    for (secret, mode) in [(1, 0o600), (3, 0o640)] {
        let secret = ground.file(secret);
        chown(&secret, Some(0), Some(0)).expect("the machine allows it");
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&secret, mode).expect("the machine allows it");
    }
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
    assert!(ground.come_near(&watch, NOBODY, 4..FILES), "{}", watch.said());
    assert!(!ground.is_near(1), "it is root's alone");
    assert!(!ground.is_near(3), "it is for root's group alone");
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
fn who_attends_to_a_user_has_the_rights_of_that_user_and_looks_into_memory() {
    const FOWNER: &str = "0000000000000008";
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    let attendant = watch.attendant(NOBODY).expect("it was attended to").as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{attendant}/status")).expect("it lives");
    let of = |name: &str| {
        let values = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.expect("the kernel tells").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let nobody = NOBODY.to_string();
    let groups = cmd("id", ["-G", &nobody]).run().text();
    let names = ["Uid", "Groups", "CapEff", "CapPrm", "CapInh", "NoNewPrivs"];
    let users = [nobody.as_str(); 4].join(" ");
    let expected = [&users, groups.trim(), FOWNER, FOWNER, "0000000000000000", "1"];
    assert_eq!(names.map(of), expected);
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
fn how_it_is_guessed_is_handed_on_to_who_attends_to_a_user() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let left = ground.file(1).display().to_string();
    let limits = ["--memory=2M", "--jobs=5", "--budget=3M", "--exclude", &left];
    let options = [&["--rules", "paper"][..], &limits].concat();
    let watch = Watch::start(ground.disk.path(), &state, &options);
    ground.run(&watch, NOBODY);
    let attendant = watch.attendant(NOBODY).expect("it was attended to");
    let words = fs::read(format!("/proc/{}/cmdline", attendant.as_raw_nonzero()));
    let words = String::from_utf8(words.expect("it lives")).expect("text");
    assert!(words.starts_with("nearfirst\0watch\0"), "{words:?}");
    let name = fs::read_to_string(format!("/proc/{}/comm", attendant.as_raw_nonzero()));
    assert_eq!(name.expect("it lives"), "nearfirst\n");
    let limits = "--memory=2097152\0--jobs=5\0--budget=3145728";
    assert!(words.contains(&format!("\0--rules=paper\0{limits}\0--on-battery\0")), "{words:?}");
    assert!(words.contains(&format!("/{NOBODY}\0{left}\0")), "{words:?}");
    let said = watch.end("TERM");
    assert!(said.contains(&format!("user {NOBODY}: of ")), "{said}");
}

#[test]
fn what_is_excluded_is_left_alone_though_it_was_learned_before() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    ground.run(&watch, NOBODY);
    watch.end("TERM");
    // By a link, whose target is what was learned.
    let link = ground.disk.path().join("link");
    std::os::unix::fs::symlink(ground.file(3), &link).expect("the machine allows it");
    let link = link.display().to_string();
    let missing = format!("{link}/missing");
    let excludes = ["--exclude", &link, "--exclude", &missing];
    let watch = Watch::start(ground.disk.path(), &state, &excludes);
    let unseen = format!("{missing} is excluded, but cannot be looked at: Not a directory");
    assert!(watch.said().contains(&unseen), "{}", watch.said());
    let others_come = || ground.are_soon_near(4..FILES) && !ground.is_near(3);
    assert!(ground.comes_true(&watch, NOBODY, others_come), "{}", watch.said());
    watch.end("TERM");
}

#[test]
fn what_it_watches_is_said_when_that_changes() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    let at = ground.disk.path().display().to_string();
    let device = ground.disk.device().display().to_string();
    cmd("umount", ["-l", &at]).run().succeeds();
    // What is below it cannot be listened to everywhere.
    let is_gone = |said: &str| {
        said.contains(&format!("not {at} any more")) || said.contains("watching nothing")
    };
    until("it says so", || is_gone(&watch.said()));
    cmd("mount", ["-t", "ext4", &device, &at]).run().succeeds();
    until("it says so", || watch.said().matches(&format!("watching {at}")).count() == 2);
    watch.end("TERM");
    cmd("umount", ["-l", &at]).run().succeeds();
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    assert!(watch.said().contains(&format!("--on {at}: no mount point, ")), "{}", watch.said());
    watch.end("TERM");
}

#[test]
fn what_it_says_of_a_place_is_one_line_whatever_that_is_called() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state, places) = (Ground::new(), state(), Dir::new());
    let place = places.create_dir("a\nb\u{1b}[2J");
    cmd("mount", ["--bind".as_ref(), ground.disk.path(), &place]).run().succeeds();
    let watch = Watch::start(&place, &state, &[]);
    let said = watch.end("TERM");
    cmd("umount", [&place]).run().succeeds();
    let shown = format!("watching {}/a\\nb\\x1b[2J\n", places.path().display());
    assert!(said.contains(&shown), "{said}");
    let none = place.join("none");
    let refused = command(&none, &state).output().expect("the machine allows it");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("a\\nb\\x1b[2J/none: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn begun_on_a_terminal_it_ends_with_it() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("python3"));
    let (ground, state) = (Ground::new(), state());
    let command = command(ground.disk.path(), &state);
    let mut terminal = cmd("python3", ["-c", TERMINAL]).arg(command.get_program());
    terminal = command.get_args().fold(terminal, testkit::Cmd::arg);
    let output = terminal.env("NEARFIRST_STATE", state.path()).run();
    output.succeeds().prints("ended with 0\n");
}

/// Runs a command on a terminal, which is gone once it has said something.
const TERMINAL: &str = r"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
said = b''
while b'watching' not in said:
    said += os.read(terminal, 4096)
os.close(terminal)
print('ended with', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

#[test]
fn what_is_to_be_forgotten_is_forgotten_while_the_service_runs() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run(&watch, NOBODY);
    let patterns = watch.patterns(NOBODY);
    watch.signal("HUP");
    until("it is saved", || patterns.exists());
    let folder = patterns.parent().expect("it has one");
    let trees = |words: &[&str]| {
        let trees = Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd([&["trees"], words].concat());
        trees.arg("--state").arg(folder).run()
    };
    let script = ground.script().display().to_string();
    let is_known = || trees(&["list", "--json"]).text().contains(&script);
    assert!(is_known());
    trees(&["forget", &script]).succeeds().is_quiet();
    assert!(!is_known());
    trees(&["forget", &script]).succeeds().complains("nothing was saved of it");
    ground.run(&watch, NOBODY);
    watch.signal("HUP");
    until("it is learned anew", is_known);
    trees(&["forget", "--all"]).succeeds().is_quiet();
    assert!(!is_known());
    let said = watch.end("TERM");
    assert!(!is_known(), "{said}");
    let left = fs::read_dir(folder).expect("it is there").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "trees" || name == "trees.lock"), "{left:?}");
}

#[test]
fn users_reach_their_patterns_whatever_mask_the_service_was_started_with() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let plain = command(ground.disk.path(), &state);
    let mut masked = Command::new("sh");
    masked.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(plain.get_program());
    masked.args(plain.get_args()).env("NEARFIRST_STATE", state.path());
    let watch = Watch::start_by(masked, &state, &[]);
    ground.run(&watch, NOBODY);
    let patterns = watch.patterns(NOBODY);
    let said = watch.end("TERM");
    assert!(patterns.exists(), "{said}");
}

#[test]
fn a_broken_device_table_is_set_aside_and_said() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    state.create("devices.toml", "no table [");
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    assert!(watch.said().contains("set aside as "), "{}", watch.said());
    state.create("devices.toml", "no table [");
    watch.signal("HUP");
    until("it is said", || watch.said().contains("devices.toml.broken-2"));
    watch.end("TERM");
}

#[test]
fn who_attends_to_a_user_reads_the_device_table_anew_when_the_service_does() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    ground.run_and(NOBODY, || {
        until("the user is attended to", || watch.attendant(NOBODY).is_some());
        watch.has_learned(NOBODY);
        state.create("devices.toml", "version = 2\n");
        watch.signal("HUP");
        let said = "device table of version 2, this program reads version 1; passed over";
        until("both say what is wrong with it", || watch.said().matches(said).count() >= 2);
    });
    watch.end("TERM");
}

#[test]
fn who_attends_to_a_user_neither_has_roots_environment_nor_writes_where_that_says() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state, named) = (Ground::new(), state(), Dir::new());
    // Where root's attendant, which may add to the table there, may not write.
    chown(named.path(), Some(NOBODY), Some(NOBODY)).expect("ours");
    let mut command = command(ground.disk.path(), &state);
    command.env("NEARFIRST_STATE", named.path()).env("AWS_SECRET_ACCESS_KEY", "secret");
    command.env_remove("RUST_BACKTRACE");
    let watch = Watch::start_by(command, &state, &[]);
    ground.run(&watch, NOBODY);
    assert!(ground.come_near(&watch, NOBODY, 1..FILES), "{}", watch.said());
    let attendant = watch.attendant(NOBODY).expect("it attends").as_raw_pid();
    let given = fs::read(format!("/proc/{attendant}/environ")).expect("it lives");
    let given = String::from_utf8_lossy(&given);
    let variables = given.split_terminator('\0').filter_map(|it| it.split_once('='));
    assert_eq!(variables.map(|(name, _)| name).collect::<Vec<_>>(), ["PATH"]);
    watch.end("TERM");
    assert_eq!(fs::read_dir(named.path()).expect("ours").count(), 0);
}

/// The first of users of whom nobody has heard.
const FIRST: u32 = 4000;

#[test]
fn of_more_users_than_are_attended_to_none_is_given_up_for_another() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let watch = Watch::start(ground.disk.path(), &state, &[]);
    let reads = |user| {
        let mut cat = Command::new("cat");
        cat.arg(ground.file(0)).uid(user).gid(user).stdout(Stdio::null());
        assert!(cat.status().expect("the machine allows it").success());
    };
    reads(FIRST);
    watch.has_learned(FIRST);
    let first = watch.attendant(FIRST);
    assert!(first.is_some());
    (FIRST + 1..FIRST + 40).for_each(reads);
    reads(FIRST + 1);
    watch.has_learned(FIRST + 1);
    assert_eq!(watch.attendant(FIRST), first);
    watch.end("TERM");
}

#[test]
fn who_attends_to_a_user_is_not_put_before_that_users_programs() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("nice"));
    let (ground, state) = (Ground::new(), state());
    let plain = command(ground.disk.path(), &state);
    let mut nice = Command::new("nice");
    nice.args(["-n", "-20"]).arg(plain.get_program()).args(plain.get_args());
    nice.env("NEARFIRST_STATE", state.path());
    let watch = Watch::start_by(nice, &state, &[]);
    let mut cat = Command::new("cat");
    cat.arg(ground.file(0)).uid(NOBODY).gid(NOBODY).stdout(Stdio::null());
    assert!(cat.status().expect("the machine allows it").success());
    watch.has_learned(NOBODY);
    let niceness = |of| rustix::process::getpriority_process(Some(of)).expect("it lives");
    let attendant = watch.attendant(NOBODY).expect("it attends");
    let service = rustix::process::Pid::from_child(&watch.child);
    // However the test itself is put: it goes before others, and the attendant does not.
    assert!(niceness(service) < 0);
    assert_eq!(niceness(attendant), 0);
    watch.end("TERM");
}

#[test]
fn a_second_one_is_refused_and_leaves_the_first_alone() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    let mut watch = Watch::start(ground.disk.path(), &state, &[]);
    let second = command(ground.disk.path(), &state).output().expect("the machine allows it");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    let first = watch.child.id();
    assert!(said.contains(&format!("another service runs, process {first}\n")), "{said}");
    assert!(watch.child.try_wait().expect("the machine allows it").is_none());
    watch.end("TERM");
}

#[test]
fn one_begins_while_one_that_was_killed_still_ends() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (ground, state) = (Ground::new(), state());
    for _ in 0..3 {
        let mut first = Watch::start(ground.disk.path(), &state, &[]);
        first.child.kill().expect("ours");
        Watch::start(ground.disk.path(), &state, &[]).end("TERM");
    }
}

#[test]
fn where_the_kernel_tells_of_no_programs_the_reason_is_said() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("unshare"));
    let (ground, state) = (Ground::new(), state());
    for (apart, of) in [(&["--net"][..], "network"), (&["--pid", "--fork"], "PID or user")] {
        let inside = command(ground.disk.path(), &state);
        let mut outside = Command::new("unshare");
        outside.args(apart).arg(inside.get_program()).args(inside.get_args());
        let output = outside.output().expect("the machine allows it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let why = format!("the kernel tells of none to a {of} namespace of its own");
        assert!(said.contains(&why) && !said.contains("Linux 5.9"), "{said}");
    }
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
    // What was opened is taken to be near for five seconds.
    assert!(Command::new("sleep").arg("6").status().expect("the machine allows it").success());
    let _near = hold(ground.file(3), 0..FILE_BYTES);
    let before = watch.said().len();
    ground.run_and(0, || {
        until("it says so", || watch.said()[before..].contains("/file7 (40000 bytes, "));
        assert!((1..FILES).all(|n| n == 3 || !ground.is_near(n)));
        assert!(!watch.said()[before..].contains("/file3 "), "it is near: {}", watch.said());
    });
    watch.has_learned(0);
    let said = watch.end("TERM");
    assert!(said.contains(" that would have been fetched ("), "{said}");
    assert!(!said.contains(" late"), "{said}");
}

#[test]
fn a_place_that_is_not_there_is_refused_as_what_may_pass() {
    skip_unless!(Facility::Root);
    let state = state();
    let output =
        command(Path::new("/no/such/place"), &state).output().expect("the machine allows it");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/place"));
}

#[test]
fn without_the_right_to_listen_it_refuses_and_leaves_nothing() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"));
    let state = state();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", env!("CARGO_BIN_EXE_nearfirst")]);
    let output = command.args(["watch", "--state"]).arg(state.path()).output();
    let output = output.expect("the machine allows it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot listen to files: Operation not permitted"), "{said}");
    assert!(!state.path().join("trees").exists());
}

#[test]
fn why_it_cannot_begin_is_said_once() {
    skip_unless!(Facility::Root);
    let state = state();
    state.create("trees", "no folder");
    let output = command(state.path(), &state).output().expect("the machine allows it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.matches("File exists").count()), (Some(1), 1), "{said}");
}
