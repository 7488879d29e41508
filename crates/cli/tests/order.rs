//! `nearfirst order` through the built program.

mod ground;

use std::os::unix::fs::PermissionsExt as _;

use ground::{Ground, stderr, stdout};
use testkit::{Facility, skip_unless};

#[test]
fn near_names_come_first_and_the_rest_by_time() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.fill_table(0.018, 9e6);
    ground.create_far("large", 4 << 20, 0);
    ground.create_far("small", 1 << 20, 0);
    ground.create("near", vec![b'x'; 1000]);
    ground.create("empty", "");
    let output = ground.run_with_stdin(&["order"], b"large\nsmall\nempty\nnear");
    let text = stdout(&output);
    let names: Vec<_> = text.lines().collect();
    assert!(output.status.success(), "{}", stderr(&output));
    // `near` may have been driven out; then it is still the cheapest to fetch.
    assert_eq!(names, ["empty", "near", "small", "large"]);
    assert_eq!(stdout(&ground.run(&["order", "{large,small}", "empty"])), "empty\nsmall\nlarge\n");
}

#[test]
fn the_plan_says_which_time_orders() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.fill_table(10.0, 1e6);
    // In file order the device is entered twice, and its latency counts as often.
    let path = ground.create_far("striped", 3 << 20, 0);
    let _middle = testkit::hold(path, 1 << 20..2 << 20);
    ground.create_far("larger", 6 << 20, 0);
    let by = |plan| stdout(&ground.run(&["order", plan, "striped", "larger"]));
    assert_eq!(by("--plan=best"), "striped\nlarger\n");
    assert_eq!(by("--plan=linear"), "larger\nstriped\n");
    let slow = |plan| stdout(&ground.run(&["find", plan, "striped", "-latency", "+20"]));
    assert_eq!((slow("--plan=best").as_str(), slow("--plan=linear").as_str()), ("", "striped\n"));
}

#[test]
fn an_unknown_cost_comes_after_a_known_one_and_less_before_more() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.create_far("much", 4 << 20, 0);
    ground.create_far("little", 1 << 20, 0);
    ground.create("empty", "");
    assert_eq!(stdout(&ground.run(&["order", "much", "little", "empty"])), "empty\nlittle\nmuch\n");
}

#[test]
fn names_with_newlines_and_without_text_pass_through_nul_to_nul() {
    let ground = Ground::new();
    ground.create("new\nline", "x");
    let names = b"new\nline\0.\0";
    let output = ground.run_with_stdin(&["order", "-0"], names);
    assert_eq!(output.stdout, names, "{}", stderr(&output));
    let script = "printf '%s' foo > a; printf bar > b; find . -type f -print0 | \"$0\" order -0 | xargs -0 grep -l foo";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_nearfirst")]).current_dir(ground.path());
    let output = command.env("NEARFIRST_STATE", ground.state()).output().unwrap();
    assert_eq!(stdout(&output), "./a\n");
}

#[test]
fn a_missing_name_is_left_out_and_one_that_cannot_be_asked_about_comes_last() {
    let ground = Ground::new();
    ground.create("file", "x");
    let closed = ground.create("closed/file", "x");
    let closed = closed.parent().unwrap();
    std::fs::set_permissions(closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let args = ["order", "missing", "closed/file", "file"];
    let output = ground.run(&args);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "nearfirst order: missing: No such file or directory\n");
    let Some(mut command) = ground.command_as_nobody(&args) else { return };
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("closed/file: Permission denied\n"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "file\nclosed/file\n");
}

#[test]
fn a_line_with_a_nul_is_no_name() {
    let ground = Ground::new();
    ground.create("a", "");
    ground.create("b", "");
    let output = ground.run_with_stdin(&["order"], b"a\0b\nb\n");
    assert_eq!(stdout(&output), "b\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("a: followed by a NUL"), "{}", stderr(&output));
}

#[test]
fn a_list_of_windows_is_read_or_refused_as_all_lists_are() {
    let ground = Ground::new();
    ground.create("a", "");
    ground.create("b", "");
    let output = ground.run_with_stdin(&["order"], b"\xef\xbb\xbfa\r\nb\r\n");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("a\nb\n", Some(0)));
    ground.create("a\r", "");
    let output = ground.run_with_stdin(&["order"], b"a\r\nb\n");
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), ("a\r\nb\n", ""));
    let output = ground.run_with_stdin(&["order"], b"\xff\xfea\0\r\0\n\0");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(1)));
    assert!(stderr(&output).contains("stdin: no list: it is UTF-16"), "{}", stderr(&output));
}

#[test]
fn many_names_come_out_once_each() {
    let ground = Ground::new();
    let mut names: Vec<_> = (0..5000).map(|at| format!("name {at:05}")).collect();
    for name in &names {
        ground.create(name, "x");
    }
    let output = ground.run_with_stdin(&["order"], names.join("\n").as_bytes());
    let text = stdout(&output);
    let mut found: Vec<_> = text.lines().collect();
    found.sort_unstable();
    names.sort_unstable();
    assert_eq!(found, names);
}
