//! The line on a terminal that says how far a run over objects is, and what it waits for.

mod ground;

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use ground::Ground;
use rustix::process::{Pid, Signal, kill_process};
use testkit::server::{Answer, Misbehaving};
use testkit::{Facility, cmd, skip_unless, until};

/// Longer than a run that says nothing.
const SLOW: Duration = Duration::from_secs(1);

/// What a line of the shell says on a terminal.
fn at_terminal(ground: &Ground, arguments: &str) -> String {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_nearfirst"));
    let script = cmd("script", ["-qec", &line, "/dev/null"]);
    let run = script.env("NEARFIRST_STATE", ground.state()).dir(ground.path()).run();
    run.succeeds();
    run.text().replace("\r\n", "\n")
}

#[test]
fn who_waits_for_names_is_told_how_many_are_known_and_from_where_more_come() {
    skip_unless!(Facility::Tool("script"));
    let (ground, server) = (Ground::new(), Misbehaving::new());
    let (page, link) = (server.url("/page.html"), server.url("/a"));
    server.answer("/page.html", Answer::html("<a href=/a>a</a>").delayed(SLOW));
    server.answer("/a", Answer::bytes("text\n"));
    let waits = format!("; waiting for more names from {page}\x1b[?7h");
    let is_told = |command: &str| {
        let out = command.replace(' ', "");
        let told = at_terminal(&ground, &format!("{command} '{page}\\a\\' > {out}"));
        assert!(told.contains(&format!("0 names{waits}")), "{command}: {told:?}");
        let (_, end) = told.rsplit_once("\x1b[?7h").unwrap();
        assert!(end.starts_with("\r\x1b[K"), "{command}: {told:?}");
        assert!(fs::read_to_string(ground.path().join(out)).unwrap().contains(&link));
    };
    let is_told_before_counts = |command: &str, count: u64| {
        let told = at_terminal(&ground, &format!("{command} '{page}\\a\\'"));
        assert!(told.contains(&waits), "{command}: {told:?}");
        assert!(told.ends_with(&format!("\r\x1b[K{count:>7} {link}\n")), "{command}: {told:?}");
    };
    // Each waits for most of its time.
    std::thread::scope(|scope| {
        for command in ["ls", "ls --sort=name", "find", "order", "sleds -s", "wc -c"] {
            scope.spawn(|| is_told(command));
        }
        for (command, count) in [("wc -c", 5), ("wc -l", 1)] {
            scope.spawn(move || is_told_before_counts(command, count));
        }
    });
}

#[test]
fn who_counts_is_told_which_object_is_waited_for() {
    skip_unless!(Facility::Tool("script"));
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/a", Answer::bytes("text\n"));
    server.answer("/slow", Answer::bytes("text\n").delayed(SLOW));
    let names = [server.url("/a"), server.url("/slow")].join(" ");
    let told = at_terminal(&ground, &format!("wc -l {names}"));
    assert!(told.contains("1 of 2 members, 5 B, "), "{told:?}");
    assert!(told.contains(&format!(" s for {}", server.url("/slow"))), "{told:?}");
    assert!(told.ends_with(&format!("\r\x1b[K      1 {}\n      2 total\n", server.url("/slow"))));
    // A file that is named beside it is a member as well.
    ground.create("a.txt", "a text\n");
    ground.create("names", format!("a.txt\n{}\n", server.url("/slow")));
    let told = at_terminal(&ground, "wc -l @names");
    assert!(told.contains("1 of 2 members, 7 B, "), "{told:?}");
}

#[test]
fn no_line_stands_on_the_terminal_while_that_has_stopped_the_run() {
    skip_unless!(Facility::Tool("script"));
    let (ground, server) = (Ground::new(), Misbehaving::new());
    server.answer("/slow", Answer::bytes("text\n").delayed(4 * SLOW));
    let (program, url) = (env!("CARGO_BIN_EXE_nearfirst"), server.url("/slow"));
    // As a shell with jobs, which takes the terminal back.
    let work = format!("echo $$ > pid; exec {program} wc -l {url} > out");
    let line = "sh -mc 'sh -c \"$WORK\"; until [ -e go ]; do sleep 0.01; done; fg'";
    let script = cmd("script", ["-qefc", line, "told"]).env("WORK", work);
    let script = script.env("NEARFIRST_STATE", ground.state()).dir(ground.path());
    let mut run = script.into_command().stdout(Stdio::null()).spawn().expect("started");
    let read = |name: &str| fs::read_to_string(ground.path().join(name)).unwrap_or_default();
    let lines = || read("told").matches("\x1b[?7h").count();
    until("the line is shown", || lines() > 0);
    let process = read("pid").trim().parse().ok().and_then(Pid::from_raw).expect("a process");
    let stat = format!("/proc/{}/stat", process.as_raw_nonzero());
    kill_process(process, Signal::TSTP).expect("it lives");
    until("it is stopped", || read(&stat).contains(") T "));
    let told = read("told");
    let (_, end) = told.rsplit_once("\x1b[?7h").expect("a line");
    assert!(end.starts_with("\r\x1b[K"), "{told:?}");
    let before = lines();
    ground.create("go", "");
    assert!(run.wait().expect("ended").success(), "{:?}", read("told"));
    assert!(lines() > before, "it is shown again: {:?}", read("told"));
}
