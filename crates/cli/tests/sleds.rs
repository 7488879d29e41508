//! `nearfirst sleds` through the built program.

mod ground;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use testkit::{Facility, MemoryCgroup, Tmpfs, cmd, skip_unless};

use ground::{Ground, objects, stderr, stdout};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

fn bytes(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("{key} of {object}"))
}

#[test]
fn a_file_half_in_memory_is_two_sleds_with_a_delivery_time() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    let device = ground.fill_table(0.018, 9e6);
    ground.create_far("half", 8 << 20, 4 * MIB);
    let output = ground.run(&["sleds", "--json", "half"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let [file] = &objects(&output)[..] else { panic!("one object: {}", stdout(&output)) };
    assert_eq!(file["type"], "file");
    assert_eq!(file["path"], json!({"text": "half"}));
    assert_eq!(bytes(file, "bytes"), 8 * MIB);
    // Other programs may drive more out, and never bring any in.
    assert!(bytes(file, "far_bytes") >= 4 * MIB, "{file}");
    assert_eq!(bytes(file, "near_bytes") + bytes(file, "far_bytes"), 8 * MIB);
    assert_eq!(file["reason"], Value::Null);

    let sleds = file["sleds"].as_array().unwrap();
    let mut at = 0;
    for sled in sleds {
        assert_eq!(bytes(sled, "offset"), at);
        at += bytes(sled, "length");
        let is_near = sled["place"] == "near";
        assert_eq!(sled["device"], if is_near { "memory" } else { &device });
        assert_eq!(sled["latency_s"]["p50"], if is_near { 1e-6 } else { 0.018 });
    }
    assert_eq!(at, 8 * MIB);

    let best = file["delivery"]["best"]["p50_s"].as_f64().unwrap();
    let far = bytes(file, "far_bytes") as f64;
    let near = bytes(file, "near_bytes") as f64;
    let near_latency = if near > 0.0 { 1e-6 } else { 0.0 };
    assert!((best - (0.018 + far / 9e6 + near_latency + near / 1e9)).abs() < 1e-6, "{file}");
    assert_eq!(file["delivery"]["best"]["unknown_bytes"], 0);
}

#[test]
fn one_plan_is_told_where_one_is_asked_for() {
    let ground = Ground::new();
    ground.create("file", "x");
    for (args, plans) in [
        (&["sleds", "--json", "file"][..], 2),
        (&["sleds", "--json", "--plan", "linear", "file", "."], 1),
        (&["sleds", "--json", "--plan=linear", "-s", "file"], 1),
    ] {
        for object in objects(&ground.run(args)) {
            let delivery = object["delivery"].as_object().unwrap();
            assert!(delivery.contains_key("linear") && delivery.len() == plans, "{object}");
        }
    }
}

#[test]
fn a_size_that_is_not_told_is_not_taken_for_none() {
    let ground = Ground::new();
    let [file] = &objects(&ground.run(&["sleds", "--json", "/proc/version"]))[..] else {
        panic!("one")
    };
    assert!(file["reason"].as_str().unwrap().contains("does not tell its size"), "{file}");
    let summary = stdout(&ground.run(&["sleds", "-s", "/proc/version"]));
    assert!(summary.contains("not known"), "{summary}");
    let found = ground.run(&["find", "/proc/version", "-latency", "0"]);
    assert_eq!(stdout(&found), "");
    assert!(stderr(&found).contains("does not tell its size"), "{}", stderr(&found));
}

#[test]
fn what_was_asked_is_counted() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.create("folder/empty", "");
    ground.create_far("folder/far", 1 << 20, 0);
    let output = ground.run(&["sleds", "--stats", "folder", "folder/far"]);
    let told = stderr(&output);
    let count = "sleds: 3 files asked about: 0 B in memory, 2.0 MiB on devices, 0 B where nobody";
    assert!(told.contains(count), "{told}");
    let output = ground.run(&["order", "--stats", "folder/empty", "folder/far"]);
    assert!(stderr(&output).contains("2 files asked about: 0 B in memory, 1.0 MiB on devices"));
}

#[test]
fn the_text_shows_a_bar_the_rows_and_both_times() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.fill_table(0.018, 9e6);
    ground.create_far("half", 8 << 20, 4 * MIB);
    let text = stdout(&ground.run(&["sleds", "half"]));
    let bar = text.lines().nth(1).unwrap();
    assert_eq!(bar.chars().count(), 64, "{text}");
    assert!(bar.ends_with('·'), "{text}");
    assert!(text.contains("18.0 ms") && text.contains("8.6 MiB/s"), "{text}");
    assert!(text.contains("in file order:") && text.contains("near first:"), "{text}");
    assert!(!text.contains('\x1b'), "no colour in a pipe: {text}");

    let mut command = ground.command(&["sleds", "--plan", "best", "half"]);
    let text = stdout(&command.env("LC_ALL", "C").output().unwrap());
    assert!(text.is_ascii(), "{text}");
    assert!(!text.contains("in file order:"), "{text}");
}

#[test]
fn rows_beyond_a_screen_are_shown_when_asked_for() {
    let ground = Ground::new();
    let path = ground.create_far("striped", 8 << 20, 0);
    let stripes = (0..64).map(|stripe| stripe * (128 << 10));
    let _held: Vec<_> =
        stripes.map(|start| testkit::hold(&path, start..start + (64 << 10))).collect();
    let some = stdout(&ground.run(&["sleds", "striped"]));
    let all = stdout(&ground.run(&["sleds", "-a", "striped"]));
    assert!(some.contains("more; --all shows them"), "{some}");
    assert!(all.lines().count() > 128 && !all.contains("--all"), "{all}");
}

#[test]
fn an_unmeasured_device_is_said_to_be_unknown() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.create_far("far", 1 << 20, 0);
    let output = ground.run(&["sleds", "far"]);
    assert!(output.status.success());
    assert!(stdout(&output).contains("nobody knows"), "{}", stdout(&output));
    assert!(stderr(&output).contains("nearfirst calibrate"), "{}", stderr(&output));
    let [file] = &objects(&ground.run(&["sleds", "--json", "far"]))[..] else { panic!("one") };
    assert_eq!(bytes(&file["delivery"]["best"], "unknown_bytes"), bytes(file, "far_bytes"));
    assert_eq!(bytes(file, "far_bytes"), MIB);
}

#[test]
fn odd_names_come_out_whole_in_json_and_on_one_line_in_text() {
    let ground = Ground::new();
    ground.create("new\nline", "x");
    ground.create(OsStr::from_bytes(b"\xff\xfe"), "x");
    let output = ground.run(&["sleds", "--json", "*"]);
    let paths: Vec<_> = objects(&output).iter().map(|file| file["path"].clone()).collect();
    assert_eq!(paths, [json!({"text": "new\nline"}), json!({"bytes": "//4="})]);
    let text = stdout(&ground.run(&["sleds", "*"]));
    assert!(text.contains("new\\nline: 1 B\n") && text.contains("\\xff\\xfe: 1 B\n"), "{text}");
}

#[test]
fn what_has_no_parts_is_named_and_the_rest_is_done() {
    let ground = Ground::new();
    ground.create("empty", "");
    ground.create("full", "x");
    let fifo = ground.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(ground.path().join("socket")).unwrap();
    std::os::unix::fs::symlink("loop", ground.path().join("loop")).unwrap();
    let args = [
        "sleds",
        "missing",
        "fifo",
        "socket",
        "/dev/null",
        "loop",
        "xyz://b/k",
        "*.no",
        "empty",
        "/proc/self/stat",
        "full",
    ];
    let output = ground.run(&args);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    for line in [
        "nearfirst sleds: missing: No such file or directory\n",
        "nearfirst sleds: fifo: neither a file nor a folder",
        "nearfirst sleds: socket: neither a file nor a folder",
        "nearfirst sleds: /dev/null: neither a file nor a folder",
        "nearfirst sleds: loop: Too many levels of symbolic links\n",
        "nearfirst sleds: xyz://b/k: no store knows the scheme xyz://",
        "nearfirst sleds: *.no: No such file or directory\n",
    ] {
        assert!(told.contains(line), "{line} in {told}");
    }
    let text = stdout(&output);
    assert!(text.contains("empty: empty\n"), "{text}");
    let untold = "the kernel does not tell its size: it is made as it is read\n";
    assert!(text.contains(&format!("/proc/self/stat: {untold}")), "{text}");
    assert!(text.contains("full: 1 B\n"), "{text}");
}

#[test]
fn a_hole_of_terabytes_is_near_and_answered() {
    let ground = Ground::new();
    let path = ground.create("hole", "");
    let size = 4_u64 << 40;
    File::options().write(true).open(path).unwrap().set_len(size).unwrap();
    let [file] = &objects(&ground.run(&["sleds", "--json", "hole"]))[..] else { panic!("one") };
    assert_eq!((bytes(file, "bytes"), bytes(file, "near_bytes")), (size, size));
    assert_eq!(file["sleds"].as_array().unwrap().len(), 1);
}

#[test]
fn who_does_not_own_a_file_is_told_that_it_is_not_known() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.create("root", vec![b'x'; 1 << 20]);
    let closed = ground.create("closed", vec![b'x'; 1 << 20]);
    fs::set_permissions(closed, fs::Permissions::from_mode(0o600)).unwrap();
    let Some(mut command) = ground.command_as_nobody(&["sleds", "--json", "root", "closed"]) else {
        return;
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let files = objects(&output);
    assert_eq!(files.len(), 2);
    for file in files {
        assert_eq!(bytes(&file, "unknown_bytes"), MIB, "{file}");
        assert!(file["reason"].as_str().unwrap().contains("owner"), "{file}");
    }
    let output = ground.command_as_nobody(&["sleds", "-s", "root"]).unwrap().output().unwrap();
    let row = stdout(&output).lines().last().unwrap().to_owned();
    assert_eq!(row.split_whitespace().next(), Some("?"), "{row}");
}

#[test]
fn a_folder_sums_up_what_is_below_it() {
    let ground = Ground::new();
    skip_unless!(Facility::Disk(ground.path()));
    ground.fill_table(0.018, 9e6);
    ground.create("tree/near", vec![b'x'; 1000]);
    ground.create_far("tree/deep/er/far", 2 << 20, 0);
    ground.create("tree/deep/empty", "");
    std::os::unix::fs::symlink("../..", ground.path().join("tree/deep/up")).unwrap();
    let output = ground.run(&["sleds", "--json", "tree"]);
    let [tree] = &objects(&output)[..] else { panic!("one") };
    assert_eq!(tree["type"], "folder");
    assert_eq!((bytes(tree, "files"), bytes(tree, "bytes")), (3, 2 * MIB + 1000));
    assert!(bytes(tree, "far_bytes") >= 2 * MIB, "{tree}");
    assert!(tree["delivery"]["best"]["p50_s"].as_f64().unwrap() > 0.018 + 0.2, "{tree}");

    let text = stdout(&ground.run(&["sleds", "-s", "tree", "tree/near"]));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].contains("2.0 MiB") && lines[1].contains("  tree  ("), "{text}");
    assert!(lines[2].contains("1000 B") && lines[2].contains("  tree/near  ("), "{text}");
    let none = ground.run(&["sleds", "-s", "no such file"]);
    assert!(none.stdout.is_empty(), "a heading without lines: {none:?}");
}

#[test]
fn a_folder_larger_than_a_batch_is_counted_whole() {
    let ground = Ground::new();
    for at in 0..9000 {
        ground.create(format!("many/{at}"), "");
    }
    let [tree] = &objects(&ground.run(&["sleds", "--json", "-s", "many"]))[..] else {
        panic!("one")
    };
    assert_eq!(bytes(tree, "files"), 9000);
}

#[test]
fn a_folder_of_very_many_names_takes_no_more_memory_than_one_of_some() {
    const COUNT: u64 = 100_000;
    skip_unless!(Facility::Root, Facility::Cgroup("memory"));
    let ground = Ground::new();
    let many = Tmpfs::new(1 << 30);
    let tail = "n".repeat(240);
    for number in 0..COUNT {
        fs::write(many.path().join(format!("{number:06}{tail}")), "").unwrap();
    }
    // All the names by themselves are more.
    let memory = MemoryCgroup::new(16 << 20);
    let sleds = cmd(env!("CARGO_BIN_EXE_nearfirst"), ["sleds", "--json", "-s"]).arg(many.path());
    let output = memory.run(sleds.env("NEARFIRST_STATE", ground.state()));
    let tree: Value = serde_json::from_slice(output.succeeds().stdout()).unwrap();
    assert_eq!(bytes(&tree, "files"), COUNT);
}

#[test]
fn what_is_mounted_below_is_left_alone_unless_asked_for() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let ground = Ground::new();
    ground.create("tree/file", "x");
    fs::create_dir(ground.path().join("tree/mount")).unwrap();
    // A mount of its own needs a mount namespace of its own.
    let script = "mount -t tmpfs none tree/mount && echo abc > tree/mount/file && \
                  \"$0\" sleds --json tree && \"$0\" sleds --json --other-mounts tree";
    let mut command = std::process::Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_nearfirst")]);
    command.current_dir(ground.path()).env("NEARFIRST_STATE", ground.state());
    let output = command.output().unwrap();
    let files: Vec<_> = objects(&output).iter().map(|tree| bytes(tree, "files")).collect();
    assert_eq!(files, [1, 2], "{}", stderr(&output));
    let said = stderr(&output);
    assert_eq!(
        said.matches("tree: 1 mount below it left out; --other-mounts").count(),
        1,
        "{said}"
    );
}

#[test]
fn a_mount_that_hangs_takes_no_other_out_of_the_sum() {
    skip_unless!(Facility::Fuse);
    let ground = Ground::new();
    for number in 0..20 {
        ground.create(format!("tree/{number}/file"), "x");
    }
    let (source, at) = (ground.path().join("source"), ground.path().join("tree/dead"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&at).unwrap();
    let mount = slowfs::Mount::new(&source, &at, slowfs::Options::default()).unwrap();
    mount.set_rules(vec!["*: hang=true".parse().unwrap()]);
    let args = ["sleds", "--json", "--other-mounts", "--wait-max", "0.5", "tree"];
    let output = ground.run(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("tree/dead has not answered for 0.5 s"),
        "{}",
        stderr(&output)
    );
    assert_eq!(bytes(&objects(&output)[0], "files"), 20);
}

#[test]
fn a_broken_device_table_is_named_and_set_aside() {
    let ground = Ground::new();
    ground.create("file", "x");
    let table = ground.state().join("devices.toml");
    fs::write(&table, "version = 1\n[device").unwrap();
    // Who asks nothing of it does not read it.
    for needs_none in [["wc", "-l", "file"], ["grep", "x", "file"]] {
        assert_eq!(stderr(&ground.run(&needs_none)), "");
    }
    let output = ground.run(&["sleds", "file"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("devices.toml.broken"), "{}", stderr(&output));
    assert!(!table.exists() && ground.state().join("devices.toml.broken").exists());
    assert_eq!(stderr(&ground.run(&["sleds", "file"])), "");
}

#[test]
fn a_closed_pipe_ends_it_quietly_and_a_full_disk_does_not() {
    let ground = Ground::new();
    ground.create("file", "x");
    let specs = vec!["file"; 5000];
    let mut args = vec!["sleds", "--json"];
    args.extend(specs);
    let mut command = ground.command(&args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(stderr(&output), "");

    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = ground.command(&args).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("write error: No space left on device"),
        "{}",
        stderr(&output)
    );
}
