//! The units of the service manager, as it reads them.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::{Dir, Facility, cmd, skip_unless};

#[test]
fn units_say_nothing_that_the_service_manager_does_not_know() {
    skip_unless!(Facility::Tool("systemd-analyze"));
    let program = Path::new(env!("CARGO_BIN_EXE_nearfirst"));
    let programs = program.parent().expect("it lies in a folder").to_str().expect("text");
    let dir = Dir::new();
    let listed = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist")).expect("there");
    let installed = |path: PathBuf| {
        let unit = fs::read_to_string(&path).expect("text").replace("@bindir@", programs);
        dir.create(path.file_name().expect("a file"), unit)
    };
    let units: Vec<_> = listed.map(|entry| installed(entry.expect("there").path())).collect();
    assert_eq!(units.len(), 3, "{units:?}");
    let verify = cmd("systemd-analyze", ["verify", "--man=no"]);
    let said = units.iter().fold(verify, testkit::Cmd::arg).run();
    // It ends well all the same where it passes over what it does not know.
    let of_ours = |line: &&str| units.iter().any(|unit| line.contains(&*unit.to_string_lossy()));
    assert_eq!(said.succeeds().stderr().lines().find(of_ours), None);
}

#[test]
fn a_service_that_cannot_do_well_is_not_tried_for_ever() {
    let unit = include_str!("../../../dist/nearfirst-watch.service");
    let value =
        |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).expect("it is set");
    let misused = cmd(env!("CARGO_BIN_EXE_nearfirst"), ["watch", "--no-such-flag"]).run();
    assert_eq!(value("RestartPreventExitStatus="), misused.code().to_string());
    let number = |key, unit| value(key).trim_end_matches(unit).parse::<u64>().expect("a number");
    let tries_s = number("StartLimitBurst=", "") * number("RestartSec=", "s");
    // Else the oldest of them would be forgotten before the last one.
    assert!(tries_s * 2 < number("StartLimitIntervalSec=", "min") * 60);
}
