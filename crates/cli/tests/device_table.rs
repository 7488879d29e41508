//! The device table while runs go on, through the built program.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod ground;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use ground::{Ground, objects, stderr, stdout};
use rustix::fs::{major, minor};
use serde_json::{Value, json};
use testkit::{Cmd, Facility, FileSystem, LoopDisk, cmd, skip_unless};

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

/// A machine whose disks have names and say which they are, as the test has it: the first is the one that is
/// mounted. Its table is beside it.
struct Machine {
    ground: Ground,
    disk: LoopDisk,
}

impl Machine {
    fn new() -> Self {
        let (ground, disk) = (Ground::new(), LoopDisk::new(FileSystem::Ext4, 64 << 20));
        fs::write(disk.path().join("file"), vec![b'x'; 2 << 20]).unwrap();
        Self { ground, disk }
    }

    fn has(&self, disks: &[(&str, &str)]) {
        fs::remove_dir_all(self.ground.path().join("sys")).ok();
        for (name, says) in disks {
            self.ground.create(format!("sys/class/block/{name}/device/wwid"), says);
        }
        let under = fs::metadata(self.disk.path()).unwrap().dev();
        let numbers = self.ground.path().join("sys/dev/block");
        fs::create_dir_all(&numbers).unwrap();
        let numbers = numbers.join(format!("{}:{}", major(under), minor(under)));
        symlink(format!("../../class/block/{}", disks[0].0), numbers).unwrap();
    }

    fn run(&self, args: &[&str]) -> testkit::Output {
        let text = "mount --bind sys /sys && exec \"$@\"";
        let shell = cmd("unshare", ["-m", "sh", "-c", text, "sh"]).dir(self.ground.path());
        let program = shell.arg(env!("CARGO_BIN_EXE_nearfirst"));
        let program = program.env("NEARFIRST_STATE", self.ground.state()).env("LC_ALL", "C.UTF-8");
        args.iter().fold(program, Cmd::arg).run()
    }

    fn calibrates(&self) {
        let path = self.disk.path().to_str().unwrap();
        self.run(&["calibrate", "--seconds", "0.2", path]).ends_with(0).is_quiet();
    }

    /// What is known of a device, from where, and where it is mounted.
    fn device(&self, name: &str) -> (Value, Value, Value) {
        let text = self.run(&["devices", "--json"]).text();
        let mut rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let row =
            rows.find(|row| row["device"] == name).unwrap_or_else(|| panic!("{name}: {text}"));
        let points = &row["mount_points"];
        (row["latency_s"]["p50"].clone(), row["source"].clone(), points[0]["text"].clone())
    }

    fn table(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.ground.state().join("devices.toml")
    }
}

#[test]
fn what_was_measured_of_another_disk_that_had_the_name_is_not_believed() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("unshare"));
    let machine = Machine::new();
    machine.has(&[("sda", "naa.1\n")]);
    machine.calibrates();
    let table = machine.table();
    assert!(table.contains("identity = \"naa.1\"\n"), "{table}");
    let known = machine.device("disk:sda");
    assert!(known.0.is_number() && known.1 == "measured", "{known:?}");
    for another in ["naa.2\n", ""] {
        machine.has(&[("sda", another)]);
        let row = machine.device("disk:sda");
        assert!(row.0.is_null() && row.1 == "another_disk", "{another:?}: {row:?}");
        let text = machine.run(&["devices"]).text();
        let line = text.lines().find(|line| line.starts_with("disk:sda ")).unwrap();
        assert!(line.contains("  ?  of another disk  "), "{text}");
    }
    assert_eq!(machine.table(), table, "it may come back");
    machine.has(&[("sda", "naa.1\n")]);
    assert_eq!(machine.device("disk:sda"), known);
    machine.has(&[("sda", "naa.2\n")]);
    machine.calibrates();
    assert_eq!(machine.device("disk:sda").1, "measured");
    let table = machine.table();
    assert!(table.contains("\"naa.2\"") && !table.contains("\"naa.1\""), "{table}");
}

#[test]
fn what_is_known_of_a_disk_goes_by_the_name_that_it_has() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("unshare"));
    let machine = Machine::new();
    let at = machine.disk.path().to_str().unwrap();
    let entry = |name: &str, says: &str, latency_s: f64| {
        let [latencies, bandwidths] = [latency_s, 1e6].map(|value| vec![value; 30]);
        format!(
            "[device.\"disk:{name}\"]\nupdated = 5\nidentity = \"{says}\"\n\
             latency_s = {latencies:?}\nbandwidth_small = {bandwidths:?}\n"
        )
    };
    let table = format!("version = 1\n{}{}", entry("sda", "A", 1.0), entry("sdb", "B", 2.0));
    fs::write(machine.file(), table).unwrap();
    let measured = |latency_s: f64, point: Value| (json!(latency_s), json!("measured"), point);
    machine.has(&[("sda", "A"), ("sdb", "B")]);
    assert_eq!(machine.device("disk:sda"), measured(1.0, json!(at)));
    machine.has(&[("sdb", "A"), ("sda", "B")]);
    assert_eq!(machine.device("disk:sdb"), measured(1.0, json!(at)));
    assert_eq!(machine.device("disk:sda"), measured(2.0, Value::Null));
    // Also where nobody has the name that it had.
    machine.has(&[("sdc", "A")]);
    assert_eq!(machine.device("disk:sdc"), measured(1.0, json!(at)));
    machine.has(&[("sdb", "A"), ("sda", "B")]);
    // Time for the fewest reads, which are added to what is known of the same disk.
    let glance = machine.run(&["calibrate", "--json", "--seconds", "0.000001", at]);
    let found: Value = serde_json::from_str(glance.text().lines().last().unwrap()).unwrap();
    assert_eq!((&found["device"], &found["latency_s"]["p50"]), (&json!("disk:sdb"), &json!(1.0)));
    let table = nearfirst::DeviceTable::from_toml(&machine.table()).unwrap();
    let noted: Vec<_> = table.identities().map(|(disk, says)| (disk.name(), says)).collect();
    assert_eq!(noted, [("disk:sda", "B"), ("disk:sdb", "A")]);
}

#[test]
fn what_somebody_wrote_is_believed_of_whatever_disk_has_the_name() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("unshare"));
    let machine = Machine::new();
    let by_hand = "version = 1\n[device.\"disk:sda\"]\nhas_stubs = false\nlatency_s = [0.5]\n";
    fs::write(machine.file(), by_hand).unwrap();
    for says in ["A", "B"] {
        machine.has(&[("sda", says)]);
        let known = machine.device("disk:sda");
        assert_eq!((&known.0, &known.1), (&json!(0.5), &json!("given")));
    }
    assert_eq!(machine.table(), by_hand);
    machine.calibrates();
    assert!(machine.table().contains("identity = \"B\""), "{}", machine.table());
    machine.has(&[("sda", "A")]);
    machine.calibrates();
    let table = machine.table();
    assert!(table.contains("has_stubs = false\nidentity = \"A\""), "{table}");
}
