//! Other projects' own tests, run against our commands. Their code is fetched, never kept here.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::Path;
use std::process::Command;

/// What a script exits with where the tests cannot be had.
const SKIPPED: i32 = 77;

fn passes(script: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign");
    let mut command = Command::new("sh");
    command.arg(folder.join(script)).env("NEARFIRST", env!("CARGO_BIN_EXE_nearfirst"));
    let code = command.status().unwrap().code();
    assert!(matches!(code, Some(0 | SKIPPED)), "{script}: exit {code:?}");
}

#[test]
#[ignore = "fetches coreutils: cargo test -- --ignored"]
fn coreutils_wc() {
    passes("coreutils-wc.sh");
}

#[test]
#[ignore = "fetches findutils: cargo test -- --ignored"]
fn findutils() {
    passes("findutils.sh");
}
