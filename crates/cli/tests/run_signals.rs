//! Signals under `nearfirst run`: a command meets those that it would meet without, and no others.

mod running;

use running::nearfirst;
use testkit::{Dir, cmd};

#[test]
fn who_wants_to_be_killed_when_its_parent_ends_has_a_parent_that_lives() {
    // To the kernel a parent is a thread. Where one has ended its children are the first thread's.
    let text =
        "grep -lw $$ /proc/$PPID/task/*/children; echo first /proc/$PPID/task/$PPID/children";
    let output = nearfirst(&Dir::new(), &["run", "--", "sh", "-c", text]).run();
    output.succeeds();
    let told = output.text();
    let (parent, first) = told.split_once("\nfirst ").expect("it has a parent");
    assert_ne!(parent, first.trim_end());
}

#[test]
fn a_command_of_who_ignores_its_children_ends_with_its_code_and_ignores_its_own() {
    // The signal's number is 17, and so its bit is that of 0x10000.
    let text = "grep -q '^SigIgn:.*1....$' /proc/self/status && exit 7";
    let run =
        format!("trap '' CHLD; exec {} run -- bash -c \"$0\"", env!("CARGO_BIN_EXE_nearfirst"));
    let state = Dir::new();
    cmd("bash", ["-c", &run, text]).env("NEARFIRST_STATE", state.path()).run().ends_with(7);
}
