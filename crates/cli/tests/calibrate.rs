//! `nearfirst calibrate` through the built program.

mod ground;

use std::fs;
use std::os::unix::fs::chown;
use std::process::Stdio;

use ground::{Ground, objects, stderr, stdout};
use slowfs::{Options, Profile, Rule};
use testkit::{
    Facility, FileSystem, LoopDisk, MemoryCgroup, Program, SlowDir, cmd, skip_unless, until,
};

const BRIEF: [&str; 2] = ["--seconds", "0.2"];

#[test]
fn what_is_measured_is_saved_and_used() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    let path = ground.create_far("file", 4 << 20, 0);
    let output = ground.run(&["calibrate", BRIEF[0], BRIEF[1], "."]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("devices.toml"), "{}", stdout(&output));
    Ground::drive_out(&path, 0);
    let [file] = &objects(&ground.run(&["sleds", "--json", "file"]))[..] else { panic!("one") };
    assert_eq!(file["delivery"]["best"]["unknown_bytes"], 0, "{file}");
    let devices = objects(&ground.run(&["devices", "--json"]));
    let measured: Vec<_> = devices.iter().filter(|device| device["source"] == "measured").collect();
    // Memory too, since it never was.
    assert_eq!(measured.len(), 2, "{devices:?}");
    for device in measured {
        assert!(device["latency_s"]["p50"].as_f64().unwrap() > 0.0, "{device}");
    }
    assert_eq!(fs::read(path).unwrap(), vec![b'x'; 4 << 20]);
}

#[test]
fn what_root_measures_is_for_all_users_whatever_its_umask() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let ground = Ground::new();
    let file = ground.create("file", vec![b'x'; 2 << 20]);
    let text = "mount -t tmpfs none /var/lib && umask 077 && \"$0\" calibrate --seconds 0.1 \"$1\" && \
                cd /var/lib/nearfirst && stat -c %a . devices.toml";
    let shell = cmd("unshare", ["-m", "sh", "-c", text]).without_env("NEARFIRST_STATE");
    let saved = shell.arg(env!("CARGO_BIN_EXE_nearfirst")).arg(file).run();
    assert!(saved.succeeds().text().ends_with("\n755\n644\n"), "{}", saved.text());
}

#[test]
fn what_root_measures_into_a_users_folder_is_the_users() {
    let ground = Ground::new();
    ground.create("file", vec![b'x'; 2 << 20]);
    let args = ["calibrate", BRIEF[0], BRIEF[1], "file"];
    let Some(mut as_nobody) = ground.command_as_nobody(&args) else { return };
    chown(ground.state(), Some(65534), None).unwrap();
    let state = ground.state().join("made");
    for command in [&mut ground.command(&args), &mut as_nobody] {
        let output = command.env("NEARFIRST_STATE", &state).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn a_new_calibration_replaces_what_was_known() {
    let ground = Ground::new();
    ground.create("file", vec![b'x'; 2 << 20]);
    let device = ground.fill_table(86_400.0, 1.0);
    let output = ground.run(&["calibrate", "--json", BRIEF[0], BRIEF[1], "file"]);
    let [found] = &objects(&output)[..] else { panic!("one: {}", stderr(&output)) };
    assert_eq!(found["device"], device.as_str());
    assert!(found["latency_s"]["p90"].as_f64().unwrap() < 86_400.0, "{found}");
}

#[test]
fn a_glance_does_not_make_a_long_measurement_forgotten() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.create("file", vec![b'x'; 2 << 20]);
    let device = ground.fill_table(0.5, 1e6);
    let many = |value: &str| vec![value; 30].join(", ");
    let table = format!(
        "version = 1\n[device.memory]\nlatency_s = [1e-6]\nbandwidth_large = [1e9]\n\
         [device.{device:?}]\nlatency_s = [{}]\nbandwidth_small = [{}]\n",
        many("0.5"),
        many("1e6")
    );
    fs::write(ground.state().join("devices.toml"), table).unwrap();
    // Time for the fewest reads.
    let output = ground.run(&["calibrate", "--json", "--seconds", "0.000001", "file"]);
    let [found] = &objects(&output)[..] else { panic!("one: {}", stderr(&output)) };
    assert_eq!(found["latency_s"]["p50"], 0.5, "{found}");
    assert_eq!(found["bandwidth"]["small"]["p50"], 1e6, "{found}");
    assert!(stderr(&output).contains("file: too few reads to forget"), "{}", stderr(&output));
    let output = ground.run(&["calibrate", "--json", "file"]);
    let [found] = &objects(&output)[..] else { panic!("one: {}", stderr(&output)) };
    assert!(found["latency_s"]["p50"].as_f64().unwrap() < 0.5, "{found}");
    assert_eq!(stderr(&output), "");
}

#[test]
fn what_tells_too_little_leaves_what_was_known() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.create("small", vec![b'x'; 100_000]);
    let sparse = fs::File::create(ground.path().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let device = ground.fill_table(0.5, 1e6);
    let output = ground.run(&["calibrate", BRIEF[0], BRIEF[1], "small", "sparse"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.contains("small: no file of at least 1 MiB"), "{told}");
    assert!(told.contains("sparse: too few reads came from the device"), "{told}");
    let devices = objects(&ground.run(&["devices", "--json"]));
    let known = devices.iter().find(|known| known["device"] == device.as_str()).unwrap();
    assert_eq!(known["latency_s"]["p50"], 0.5, "{known}");
}

#[test]
fn a_small_memory_group_is_not_overrun() {
    skip_unless!(Facility::Root, Facility::Cgroup("memory"));
    let ground = Ground::new();
    ground.create_far("file", 16 << 20, 0);
    let calibrate =
        Program::at(env!("CARGO_BIN_EXE_nearfirst")).cmd(["calibrate", BRIEF[0], BRIEF[1]]);
    let calibrate = calibrate.arg(ground.path()).env("NEARFIRST_STATE", ground.state());
    let output = MemoryCgroup::new(48 << 20).run(calibrate);
    let said = String::from_utf8_lossy(output.succeeds().stdout());
    assert!(said.contains("saved in"), "{said}");
}

#[test]
fn what_is_measured_is_saved_before_the_next_is() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (ground, slow) = (Ground::new(), SlowDir::new(Options::default()));
    slow.create("file", vec![b'x'; 2 << 20]);
    let hang = Profile { hang: true, ..Profile::default() };
    slow.mount().set_rules(vec![Rule::all(hang)]);
    let mut command = ground.command(&["calibrate", "--wait-max", "1000"]);
    let mut child = command.arg(slow.path()).stdout(Stdio::null()).spawn().unwrap();
    // Memory is measured first.
    let table = ground.state().join("devices.toml");
    let is_saved = || fs::read_to_string(&table).is_ok_and(|table| table.contains("memory"));
    until("it is saved", is_saved);
    assert!(child.try_wait().unwrap().is_none(), "it still measures");
    child.kill().unwrap();
    child.wait().unwrap();
    slow.mount().set_rules(Vec::new());
}

#[test]
fn without_saving_nothing_is_written() {
    let ground = Ground::new();
    ground.create("file", vec![b'x'; 2 << 20]);
    let output = ground.run(&["calibrate", "--stats", "--no-save", BRIEF[0], BRIEF[1], "file"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains(" in all; then "), "{}", stderr(&output));
    assert_eq!(fs::read_dir(ground.state()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_measured_is_named_and_the_rest_is_measured() {
    let ground = Ground::new();
    ground.create("file", vec![b'x'; 2 << 20]);
    let args = ["calibrate", BRIEF[0], BRIEF[1], "missing", "/dev/null", "file"];
    let output = ground.run(&args);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.contains("nearfirst calibrate: missing: No such file or directory\n"), "{told}");
    assert!(told.contains("nearfirst calibrate: /dev/null: "), "{told}");
    assert!(stdout(&output).contains("latency"), "{}", stdout(&output));
}

#[test]
fn a_table_that_cannot_be_written_is_reported_after_the_results() {
    let ground = Ground::new();
    ground.create("file", vec![b'x'; 2 << 20]);
    // Root may write anywhere, but not below a file.
    let mut command = ground.command(&["calibrate", BRIEF[0], BRIEF[1], "file"]);
    let output = command.env("NEARFIRST_STATE", ground.path().join("file")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not saved: "), "{}", stderr(&output));
    assert!(stdout(&output).contains("latency"), "{}", stdout(&output));
}

#[test]
fn what_nobody_named_and_has_nothing_to_read_is_passed_over() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("mksquashfs"));
    let ground = Ground::new();
    fs::create_dir(ground.path().join("bare")).unwrap();
    let disk = LoopDisk::squashfs(ground.path().join("bare"));
    let output = ground.run(&["calibrate", "--no-save", "--seconds", "0.05", "--wait-max", "1"]);
    let at = disk.path().display();
    let said = format!("nearfirst calibrate: {at}: passed over: no file of at least");
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    // Other devices of the machine may fail.
    let is_note = |line: &str| line.contains(": passed over: ");
    if stderr(&output).lines().all(is_note) {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let output = ground.run(&["calibrate", BRIEF[0], BRIEF[1], disk.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "it is named: {}", stderr(&output));
}

#[test]
fn no_permission_to_measure_is_said() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    fs::create_dir(ground.path().join("bare")).unwrap();
    let args = ["calibrate", "--no-save", BRIEF[0], BRIEF[1], "bare"];
    let Some(mut command) = ground.command_as_nobody(&args) else { return };
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("bare: no file of at least"), "{}", stderr(&output));
}

#[test]
fn times_that_are_none_are_refused() {
    let output = Ground::new().run(&["calibrate", "--seconds", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a number of seconds above 0"), "{}", stderr(&output));
}

#[test]
fn a_disk_that_is_nearly_full_is_not_filled() {
    skip_unless!(Facility::Root, Facility::Loop);
    let disk = LoopDisk::new(FileSystem::Ext4, 64 << 20);
    let free = || {
        let room = rustix::fs::statvfs(disk.path()).unwrap();
        room.f_bavail * room.f_frsize
    };
    // Files too small to be measured by.
    for number in 0.. {
        if free() < 4 << 20 {
            break;
        }
        fs::write(disk.path().join(number.to_string()), vec![b'x'; 500 << 10]).unwrap();
    }
    let ground = Ground::new();
    let path = disk.path().to_str().unwrap();
    let output = ground.run(&["calibrate", BRIEF[0], BRIEF[1], path]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("too little is free"), "{}", stderr(&output));
}

#[test]
fn a_file_system_without_direct_reads_is_measured_and_left_out_of_memory() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("mksquashfs"));
    let ground = Ground::new();
    let path = ground.create("packed/file", text(24 << 20));
    let disk = LoopDisk::squashfs(path.parent().unwrap());
    let file = disk.path().join("file");
    let near = || {
        objects(&ground.run(&["sleds", "--json", file.to_str().unwrap()]))[0]["near_bytes"].clone()
    };
    let output =
        ground.run(&["calibrate", "--json", BRIEF[0], BRIEF[1], disk.path().to_str().unwrap()]);
    let measured = objects(&output);
    let measured = measured.last().unwrap_or_else(|| panic!("{}", stderr(&output)));
    assert!(measured["bandwidth"]["large"]["p50"].as_f64().unwrap() > 0.0, "{measured}");
    assert_eq!(near(), 0);
}

/// Text that is packed to about a half.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b'a' + (state >> 60) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
