//! `nearfirst devices` through the built program.

mod ground;

use ground::{Ground, objects, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn every_mounted_device_and_every_known_one_is_listed() {
    let ground = Ground::new();
    let here = ground.fill_table(0.018, 9e6);
    let output = ground.run(&["devices", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let devices = objects(&output);
    assert_eq!(devices[0]["device"], "memory");
    let named = |name: &str| {
        devices.iter().find(|device| device["device"] == name).cloned().unwrap_or(Value::Null)
    };
    let row = named(&here);
    assert_eq!(row["source"], "given", "{row}");
    assert_eq!(row["latency_s"], json!({"p50": 0.018, "p90": 0.018}));
    assert_eq!(row["bandwidth"]["large"]["p50"], json!(9e6));
    assert!(!row["mount_points"].as_array().expect("a list").is_empty(), "{row}");
    assert!(devices.iter().all(|device| device["type"] == "device"));

    let told = stderr(&ground.run(&["devices", "--stats"]));
    let count = format!("nearfirst devices: {} devices, costs of ", devices.len());
    assert!(told.starts_with(&count), "{told}");
}

#[test]
fn an_unmeasured_device_has_no_numbers() {
    let ground = Ground::new();
    let output = ground.run(&["devices"]);
    let text = stdout(&output);
    assert!(
        text.lines().any(|line| line.starts_with("memory ") && line.contains("assumed")),
        "{text}"
    );
    let unmeasured = text.lines().filter(|line| line.contains("  never  "));
    assert!(unmeasured.clone().count() > 0, "{text}");
    assert!(unmeasured.clone().all(|line| line.contains("  ?")), "{text}");
}

#[test]
fn a_table_that_cannot_be_read_is_named_without_a_number() {
    let ground = Ground::new();
    let output = ground.command(&["devices"]).env("NEARFIRST_STATE", "/dev/null").output();
    let told = stderr(&output.expect("it is run"));
    assert_eq!(told, "nearfirst devices: /dev/null/devices.toml: Not a directory\n");
}
