//! `nearfirst devices` through the built program.

mod ground;

use ground::{Ground, objects, stderr, stdout};
use serde_json::{Value, json};
use testkit::{Facility, cmd, skip_unless};

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
fn a_locale_without_utf8_gets_ascii() {
    let ground = Ground::new();
    ground.fill_table(70e-6, 9e6);
    let told = |locale: &str| {
        let output = ground.command(&["devices"]).env("LC_ALL", locale).output();
        stdout(&output.expect("it runs"))
    };
    for (locale, words) in
        [("C.UTF-8", ["70.0 µs", "≤128 KiB", "≤4 MiB"]), ("C", ["70.0 us", "<=128 KiB", "<=4 MiB"])]
    {
        let text = told(locale);
        assert!(words.iter().all(|word| text.contains(word)), "{locale}: {text}");
    }
    assert!(told("C").lines().take(2).all(str::is_ascii));
}

#[test]
fn what_waits_to_be_mounted_is_no_device_and_is_not_called_for() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let ground = Ground::new();
    ground.create(
        "self/mountinfo",
        "1 0 0:5 / / rw - tmpfs tmpfs rw\n2 1 0:6 / /proc rw - proc proc rw\n\
         3 1 0:7 / /home rw - autofs auto.home rw\n4 1 0:8 / /srv rw - autofs systemd-1 rw\n",
    );
    let text = "mount --bind \"$0\" /proc && exec \"$@\"";
    let run = |args: &[&str]| {
        let shell = cmd("unshare", ["-m", "sh", "-c", text]).arg(ground.path());
        let program = shell.arg(env!("CARGO_BIN_EXE_nearfirst"));
        args.iter().fold(program.env("NEARFIRST_STATE", ground.state()), testkit::Cmd::arg).run()
    };
    let listed = run(&["devices", "--json"]);
    let devices: Vec<Value> =
        listed.text().lines().map(|line| serde_json::from_str(line).expect("a device")).collect();
    let points: Vec<_> = devices.iter().map(|device| &device["mount_points"]).collect();
    assert_eq!(points, [&json!([{"text": "/"}])], "{}", listed.stderr());
    let measured = run(&["calibrate", "--no-save", "--seconds", "0.1"]);
    measured.ends_with(0).is_quiet();
    assert_eq!(measured.text().matches(": latency ").count(), 1, "{}", measured.text());
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
fn a_device_of_which_only_the_latency_is_known_has_that() {
    let ground = Ground::new();
    let table = "version = 1\n[device.\"nfs:h:/x\"]\nlatency_s = [0.5]\n";
    std::fs::write(ground.state().join("devices.toml"), table).unwrap();
    let listed = objects(&ground.run(&["devices", "--json"]));
    let row = listed.iter().find(|device| device["device"] == "nfs:h:/x").expect("it is listed");
    assert_eq!(row["latency_s"], json!({"p50": 0.5, "p90": 0.5}), "{row}");
    assert_eq!(row["bandwidth"], Value::Null, "{row}");
    let text = stdout(&ground.run(&["devices"]));
    let line = text.lines().find(|line| line.starts_with("nfs:h:/x")).expect("it is listed");
    assert!(line.contains("500 ms") && !line.contains("never"), "{line}");
}

#[test]
fn a_table_that_cannot_be_read_is_named_without_a_number() {
    let ground = Ground::new();
    let output = ground.command(&["devices"]).env("NEARFIRST_STATE", "/dev/null").output();
    let told = stderr(&output.expect("it is run"));
    assert_eq!(told, "nearfirst devices: /dev/null/devices.toml: Not a directory\n");
}

#[test]
fn a_broken_table_is_named_by_whoever_sets_it_aside() {
    let ground = Ground::new();
    let url = format!("file://{}", ground.create("file", "text").display());
    let sets_aside: [&[&str]; 4] = [
        &["devices"],
        &["sleds", "file"],
        &["find", &url, "-latency", "-1000"],
        &["run", "--", "true"],
    ];
    for args in sets_aside {
        std::fs::write(ground.state().join("devices.toml"), "no table [").expect("written");
        let told = stderr(&ground.run(args));
        assert_eq!(told.matches("; set aside as ").count(), 1, "{args:?}: {told}");
    }
}
