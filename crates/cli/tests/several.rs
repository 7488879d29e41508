//! Several files of which some are near, through the built program. What was read from the device is
//! counted at the device.

use std::path::PathBuf;

use slowfs::Options;
use testkit::{Cmd, Dir, Facility, Hold, Program, SlowDir, hold, lines, skip_unless};

const MIB: u64 = 1 << 20;

fn nearfirst<const N: usize>(state: &Dir, args: [&str; N]) -> Cmd {
    Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd(args).env("NEARFIRST_STATE", state.path())
}

/// Two files of so many MiB: one that is far, and after it one that is near from an offset on, where it
/// has a needle.
fn far_and_near(mib: u64, near_from: u64) -> (SlowDir, [PathBuf; 2], Hold) {
    let slow = SlowDir::new(Options::default());
    let text = lines(usize::try_from(mib * MIB).expect("it is small"), 11);
    let far = slow.create("a", &text);
    let (start, end) = text.split_at(usize::try_from(near_from).expect("it is small"));
    let near = slow.create("b", [start, b"\nneedle\n", end].concat());
    let held = hold(&near, near_from..mib * MIB + 8);
    slow.reset();
    (slow, [far, near], held)
}

#[test]
fn a_search_whose_answer_is_in_what_is_near_of_several_reads_nothing_from_the_device() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    for near_from in [0, 6 * MIB] {
        let (slow, [far, near], _held) = far_and_near(9, near_from);
        let grep = || nearfirst(&state, ["grep", "-j2", "-q", "needle"]);
        // Of files that are found, a NUL byte before the match would be the end.
        for cmd in [grep().arg(&far).arg(&near), grep().arg("-a").arg(slow.path())] {
            cmd.run().succeeds().is_quiet();
            assert_eq!(slow.stats().total.read_bytes, 0, "near from {near_from}");
        }
    }
}

#[test]
fn a_named_file_that_is_far_is_not_waited_for_before_those_that_are_near() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let state = Dir::new();
    let (slow, [far, near], _held) = far_and_near(1, 0);
    slow.mount().set_rules(vec!["a: stall=1:forever".parse().expect("a rule")]);
    let grep = nearfirst(&state, ["grep", "-j2", "-U", "-q", "--wait-max=2", "needle"]);
    grep.arg(&far).arg(&near).run().succeeds().is_quiet();
    slow.mount().set_rules(Vec::new());
}
