//! The device table while runs go on, through the built program.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ground;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use ground::{Ground, objects, stderr, stdout};
use serde_json::{Value, json};
use testkit::{Facility, skip_unless};

/// Has `grep` read from the device, and something happen before it reads on.
fn while_grep_runs(ground: &Ground, happens: impl FnOnce()) {
    for name in ["first", "last"] {
        ground.create_far(name, 8 << 20, 0);
    }
    let args = ["grep", "-c", "-j1", "--line-buffered", "x", "first", "-", "last"];
    let mut command = ground.command(&args);
    let mut grep = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(grep.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "first:1\n");
    happens();
    drop(grep.stdin.take());
    assert!(grep.wait().unwrap().success());
}

/// What the table on disk says of the device under the folder.
fn row(ground: &Ground) -> String {
    let device = nearfirst::Local::default().stat(ground.path()).unwrap().device;
    let table = fs::read_to_string(ground.state().join("devices.toml")).unwrap();
    let mut rows = table.split("[device.");
    rows.find(|row| row.contains(device.name())).unwrap().to_owned()
}

fn samples(row: &str, of: &str) -> usize {
    let line = row.lines().find(|line| line.starts_with(of)).unwrap();
    line.split(',').count()
}

#[test]
fn a_calibration_outlives_a_run_that_began_before_it() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    let mut calibrated = String::new();
    while_grep_runs(&ground, || {
        let output = ground.run(&["calibrate", "--seconds", "0.2", "."]);
        assert!(output.status.success());
        calibrated = row(&ground);
    });
    let now = row(&ground);
    let all =
        ["latency_s", "bandwidth_small", "bandwidth_medium", "bandwidth_large", "bandwidth_near"];
    for of in all {
        assert!(samples(&now, of) >= samples(&calibrated, of), "{of}: {calibrated}, {now}");
    }
}

#[test]
fn what_is_written_into_the_table_while_a_run_goes_on_stays() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.fill_table(0.001, 1e9);
    let file = ground.state().join("devices.toml");
    let edit = |from: &str, to: &str| {
        let table = fs::read_to_string(&file).unwrap();
        fs::write(&file, table.replace(from, to)).unwrap();
    };
    edit("updated = 0", "updated = 0\nhas_stubs = false");
    while_grep_runs(&ground, || edit("has_stubs = false", "has_stubs = true"));
    let row = row(&ground);
    assert!(row.contains("has_stubs = true") && !row.contains("updated = 0"), "{row}");
}

#[test]
fn a_clock_that_goes_back_for_a_moment_changes_no_date_of_other_devices() {
    let ground = Ground::new();
    ground.create("file", vec![b'x'; 2 << 20]);
    let later = "version = 1\n[device.\"nfs:h:/x\"]\nupdated = 4102444800\nlatency_s = [0.5]\n\
                 bandwidth_small = [1e6]\n";
    let file = ground.state().join("devices.toml");
    fs::write(&file, later).unwrap();
    let listed = objects(&ground.run(&["devices", "--json"]));
    let row = listed.iter().find(|device| device["device"] == "nfs:h:/x").unwrap();
    assert_eq!((&row["source"], &row["updated_unix_s"]), (&json!("measured"), &Value::Null));
    let text = stdout(&ground.run(&["devices"]));
    let line = text.lines().find(|line| line.starts_with("nfs:h:/x")).unwrap();
    assert!(line.trim_end().ends_with('?'), "{line}");
    let output = ground.run(&["calibrate", "--seconds", "0.2", "file"]);
    assert!(stdout(&output).contains("saved in "), "{}", stderr(&output));
    assert!(fs::read_to_string(&file).unwrap().contains("updated = 4102444800\n"));
}

#[test]
fn a_table_of_a_later_version_is_passed_over_and_stays() {
    let ground = Ground::new();
    ground.create("file", vec![b'x'; 2 << 20]);
    let later = "version = 2\n[device.\"disk:a\"]\nendurance = 3\n";
    let file = ground.state().join("devices.toml");
    fs::write(&file, later).unwrap();
    let said = "devices.toml: device table of version 2, this program reads version 1";
    for args in [&["devices"][..], &["sleds", "file"]] {
        let told = stderr(&ground.run(args));
        assert!(told.contains(&format!("{said}; passed over\n")), "{args:?}: {told}");
    }
    let output = ground.run(&["calibrate", "--seconds", "0.2", "file"]);
    let told = stderr(&output);
    let refused =
        "devices.toml: not saved: device table of version 2, this program reads version 1\n";
    assert!(!output.status.success() && told.contains(refused), "{told}");
    assert_eq!(fs::read_to_string(&file).unwrap(), later);
    assert!(!file.with_extension("toml.broken").exists());
}
