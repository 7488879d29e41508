//! Signals under `nearfirst run`: a command meets those that it would meet without, and no others.

mod running;

use running::nearfirst;
use testkit::Dir;

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
