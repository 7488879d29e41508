//! Programs that print names, well and badly.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use nearfirst_store::{
    Clock, Costs, Entries, Entry, Error, Local, Name, Programs, Query, Store as _, TableFiles,
};
use testkit::{Dir, Facility, SlowDir, skip_unless};

/// Longer than a program here takes to start or to end.
const MAX: Duration = Duration::from_secs(20);

fn programs(is_allowed: bool, local: Local) -> Programs {
    let costs = Costs::with(local, TableFiles::default(), Clock::manual());
    Programs::new(is_allowed, MAX * 2, Arc::new(costs))
}

fn run(folder: impl AsRef<Path>, words: &[&str]) -> Entries {
    run_on(Local::default(), folder, words)
}

fn run_on(local: Local, folder: impl AsRef<Path>, words: &[&str]) -> Entries {
    let words = words.iter().map(OsString::from).collect();
    programs(true, local).list(&Query::Run { folder: Name::from(folder.as_ref()), words })
}

/// Names as text, errors as `!` and their text.
async fn listed(entries: Entries) -> Vec<String> {
    let text = |entry: Result<Entry, Error>| match entry {
        Ok(entry) => entry.name.to_string(),
        Err(error) => format!("!{error}"),
    };
    tokio::time::timeout(MAX, entries.map(text).collect()).await.expect("the program ends")
}

/// Waits until there is, or is not, such a process any more.
async fn until(event: impl Fn() -> bool) {
    let happens = async {
        while !event() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(MAX, happens).await.expect("what is waited for happens");
}

/// Whether a process of this number runs; one that has ended but was not waited for does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn a_program_has_the_signals_of_who_began_the_threads_that_leave_theirs_to_others() {
    let own = std::fs::read_to_string("/proc/thread-self/status").expect("there");
    let own = own.lines().find(|line| line.starts_with("SigBlk:")).expect("told");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let leaves =
        runtime.worker_threads(1).on_thread_start(nearfirst_store::leave_signals_to_others);
    let runtime = leaves.enable_all().build().expect("threads");
    let told =
        runtime.spawn(async { listed(run("", &["grep", "SigBlk", "/proc/self/status"])).await });
    assert_eq!(runtime.block_on(told).expect("told"), [own]);
}

#[tokio::test]
async fn the_names_that_find_prints_are_those_of_its_folder() {
    let dir = Dir::new();
    dir.create("a.txt", "");
    dir.create("line\nbreak.txt", "");
    let path = dir.path().display();
    let mut names = listed(run(&dir, &["find", ".", "-name", "*.txt", "-print0"])).await;
    names.sort();
    assert_eq!(names, [format!("{path}/a.txt"), format!("{path}/line\nbreak.txt")]);
    assert_eq!(listed(run(&dir, &["find", "-name", "a*"])).await, [format!("{path}/a.txt")]);
    assert_eq!(
        listed(run("", &["printf", "%s\\n", "./b", "http://h/c"])).await,
        ["./b", "http://h/c"]
    );
    assert_eq!(listed(run(&dir, &["cat"])).await, [""; 0], "its input is empty");
}

#[tokio::test]
async fn how_a_program_ends_comes_behind_its_names() {
    let names = listed(run("/x/..", &["sh", "-c", "echo a; printf b; exit 3"])).await;
    assert_eq!(
        names[..1],
        ["!/x/..: programs are run in folders of this machine, and this is none"]
    );
    let names = listed(run("/", &["sh", "-c", "echo a; printf b; exit 3"])).await;
    assert_eq!(names, ["/a", "/b", "!sh: it ended with exit status 3; names may be missing"]);
    let names = listed(run("/", &["sh", "-c", "echo a; kill -9 $$"])).await;
    assert_eq!(names, ["/a", "!sh: it was killed by signal 9; names may be missing"]);
}

#[tokio::test]
async fn what_cannot_be_run_says_why() {
    let dir = Dir::new();
    dir.create("text", "text");
    let script = dir.create("script", "true");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(script, mode).unwrap();
    for (words, said) in [
        (&["no-such-program-here"][..], "no program of this name is in PATH"),
        (&["./none"], "there is no such program"),
        (&["./text"], "it may not be executed"),
        (&["./script"], "it is neither a program nor a script that begins with `#!`"),
        (&[], "no program is named"),
    ] {
        let names: Vec<_> = run(&dir, words).collect().await;
        assert!(
            matches!(&names[..], [Err(Error::Refused { reason, .. })] if reason == said),
            "{words:?}: {names:?}"
        );
    }
    let missing: Vec<_> = run(&dir, &["./none"]).collect().await;
    let [Err(missing)] = &missing[..] else { panic!("{missing:?}") };
    let cause = missing.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    assert_eq!(cause.and_then(std::io::Error::raw_os_error), Some(libc::ENOENT));
    let query = Query::Run { folder: Name::from("/"), words: vec!["touch".into(), "x".into()] };
    let names: Vec<_> = programs(false, Local::default()).list(&query).collect().await;
    let [Err(error @ Error::NotAllowed { .. })] = &names[..] else { panic!("{names:?}") };
    let said = "touch: `touch x` was not run: programs are run only with allow_programs";
    assert_eq!(error.to_string(), said);
}

#[tokio::test]
async fn a_flood_waits_for_its_reader_and_ends_with_it() {
    let mut names = run("/", &["sh", "-c", "echo $$; exec yes"]);
    let pid = names.next().await.unwrap().unwrap().name.to_string()[1..].to_owned();
    let some = names.by_ref().take(100_000).collect::<Vec<_>>().await;
    assert!(some.iter().all(|entry| entry.as_ref().is_ok_and(|it| it.name == Name::from("/y"))));
    until(|| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") S ")).await;
    drop(names);
    until(|| !runs(&pid)).await;
}

#[tokio::test]
async fn a_program_that_prints_nothing_is_ended() {
    let costs = Costs::with(Local::default(), TableFiles::default(), Clock::manual());
    let programs = Programs::new(true, Duration::from_secs(2), Arc::new(costs));
    for script in ["echo $$; exec sleep 1000", "echo $$; exec sleep 1000 >&-"] {
        let words = ["sh", "-c", script].map(OsString::from).into();
        let folder = Name::from("/");
        let names = listed(programs.list(&Query::Run { folder, words })).await;
        let [pid, end] = &names[..] else { panic!("{names:?}") };
        assert!(
            end.starts_with("!sh: it printed nothing for 2 s, the limit that `stall`"),
            "{end}"
        );
        until(|| !runs(&pid[1..])).await;
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_all_that_it_started() {
    let script = "trap '' TERM; sleep 1000 & echo $$; echo $!; wait";
    let mut names = run("/", &["sh", "-c", script]);
    let mut pids = Vec::new();
    for _ in 0..2 {
        pids.push(names.next().await.unwrap().unwrap().name.to_string()[1..].to_owned());
    }
    assert!(pids.iter().all(|pid| runs(pid)));
    // From where there is no runtime, as an application may.
    std::thread::spawn(move || drop(names)).join().unwrap();
    for pid in pids {
        until(|| !runs(&pid)).await;
    }
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it() {
    for (script, ending) in [
        ("sleep 1000 >/dev/null 2>&1 & echo $!", &[][..]),
        ("(trap '' TERM; exec sleep 1000 >/dev/null 2>&1) & echo $!; exit 3", &["exit status 3"]),
    ] {
        let names = listed(run("/", &["sh", "-c", script])).await;
        let (pid, others) = names.split_first().expect("it printed a name");
        assert_eq!(others.len(), ending.len(), "{names:?}");
        assert!(others.iter().zip(ending).all(|(said, told)| said.contains(told)), "{names:?}");
        until(|| !runs(&pid[1..])).await;
    }
}

#[tokio::test]
async fn a_program_that_another_part_of_the_process_waited_for_is_told_of() {
    let mut entries = run("", &["sh", "-c", "echo $$"]);
    let pid = entries.next().await.expect("printed").expect("printed").name.to_string();
    let leader = rustix::process::Pid::from_raw(pid.parse().expect("a number"));
    rustix::process::waitpid(leader, rustix::process::WaitOptions::empty()).expect("a child");
    let told = listed(entries).await;
    assert!(told.concat().contains("how it ended is not known"), "{told:?}");
    assert!(told.concat().contains("waits for any of them itself"), "{told:?}");
}

#[test]
fn a_program_does_not_outlive_the_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut names = run("/", &["sh", "-c", "trap '' TERM; echo $$; exec sleep 1000"]);
    let pid = runtime.block_on(names.next()).unwrap().unwrap().name.to_string()[1..].to_owned();
    drop(names);
    drop(runtime);
    tokio::runtime::Runtime::new().unwrap().block_on(until(|| !runs(&pid)));
}

#[tokio::test]
async fn what_is_no_list_of_names_is_given_up() {
    let names = listed(run("/", &["head", "-c", "20000000", "/dev/zero"])).await;
    assert_eq!(names, [""; 0], "NULs have no names between them");
    let reason = "what it prints is no list of names: more than 16384 bytes without a separator";
    let names = listed(run("/", &["sh", "-c", "echo a; yes | tr -d '\\n'"])).await;
    assert!(names.len() == 2 && names[1].ends_with(reason), "{names:?}");
}

#[tokio::test]
async fn a_nul_after_lines_is_no_part_of_a_name() {
    let dir = Dir::new();
    let script = "echo a.txt; mkfifo go; echo go; read go < go; printf 'b.txt\\0c.txt\\0'";
    let mut names = run(&dir, &["sh", "-c", script]);
    for _ in 0..2 {
        names.next().await.unwrap().unwrap();
    }
    std::fs::write(dir.join("go"), "\n").unwrap();
    let rest = listed(names).await;
    assert!(rest.len() == 1 && rest[0].contains("a NUL in a list of lines"), "{rest:?}");
}

#[tokio::test]
async fn nothing_runs_before_a_name_is_asked_for() {
    let dir = Dir::new();
    drop(run(&dir, &["touch", "made"]));
    assert_eq!(listed(run(&dir, &["touch", "made-too"])).await, [""; 0]);
    assert_eq!((dir.join("made").exists(), dir.join("made-too").exists()), (false, true));
}

#[tokio::test]
async fn neither_a_folder_nor_a_program_on_a_dead_mount_is_waited_for() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let (folder, program) = (slow.create("folder/file", ""), slow.create("program", "#!/bin/true"));
    let (folder, alive) = (folder.parent().expect("a folder"), Dir::new());
    slow.mount().set_rules(vec!["*: hang=true".parse().expect("a rule")]);
    let program = program.to_str().expect("text");
    for (folder, words) in [(folder, &["find", "."]), (alive.path(), &[program, "."])] {
        let names = listed(run_on(Local::new(Duration::from_millis(50)), folder, words)).await;
        let [told] = &*names else { panic!("{names:?}") };
        assert!(told.contains("has not answered for 0.05 s"), "{told}");
    }
    slow.mount().set_rules(Vec::new());
}
