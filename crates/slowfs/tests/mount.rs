//! Mounted file systems: bytes, counts, cache, faults, control files, and disks made of them.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use slowfs::{Counts, Options, Profile, Rule, parse_rules};
use testkit::{
    Facility, FileSystem, LoopDisk, SlowDir, evict, noise, resident_bytes, skip_unless, until,
};

const PAGE: u64 = 4096;
const EIO: i32 = 5;
/// As long as a test may last.
const ALWAYS: Duration = Duration::from_hours(1);

fn with_rules(rules: &str) -> Options {
    Options { rules: parse_rules(rules).expect("the test's rules"), ..Options::default() }
}

/// A file whose every read is one request to the device.
fn open_direct(path: &Path) -> File {
    let direct = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(direct).open(path).expect("a file to open")
}

/// What a direct read of one page gives: how many bytes, or which error.
fn read_page(file: &File, offset: u64) -> Result<usize, i32> {
    let mut page = [0; 4096];
    file.read_at(&mut page, offset)
        .map_err(|error| error.raw_os_error().expect("an error of the kernel"))
}

#[test]
fn each_open_is_a_request_or_the_first_or_none() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let requests = |rules| {
        let dir = SlowDir::new(Options { time_to_live: ALWAYS, ..with_rules(rules) });
        let path = dir.create("a", "text");
        (0..3).for_each(|_| drop(File::open(&path).unwrap()));
        dir.stats().total.metadata
    };
    let never = requests("*: opens=never");
    assert!(never > 0, "its name was looked up");
    assert_eq!(requests("*: opens=first"), never + 1);
    assert_eq!(requests(""), never + 3);
}

#[test]
fn bytes_come_through_and_are_counted_once() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options::default());
    let content = noise(1_234_567, 1);
    let path = dir.create("d/a", &content);
    let other = dir.create("b", "other");
    assert!(fs::read(&path).unwrap() == content);
    let counts = dir.stats().file("d/a");
    assert_eq!(counts.read_bytes, 1_234_567);
    assert!(counts.reads > 0);
    assert!(fs::read(&path).unwrap() == content);
    let again = Counts { opens: counts.opens + 1, ..counts };
    assert_eq!(dir.stats().file("d/a"), again, "the page cache answers a second time");
    assert_eq!(fs::read(&other).unwrap(), b"other");
    assert_eq!(dir.stats().total.read_bytes, counts.read_bytes + 5);
    evict(&path);
    assert!(fs::read(&path).unwrap() == content);
    assert_eq!(dir.stats().file("d/a").read_bytes, 2 * counts.read_bytes);
}

#[test]
fn residency_is_what_was_read() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options::default());
    let path = dir.create("a", noise(100 * 4096, 1));
    testkit::make_near(&path, 10 * PAGE..20 * PAGE);
    assert_eq!(resident_bytes(&path), 10 * PAGE);
    assert_eq!(dir.stats().file("a").read_bytes, 10 * PAGE);
}

#[test]
fn files_are_prepared_at_full_speed_and_uncounted() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(with_rules("*: fail=1+"));
    let path = dir.create("a", noise(5 << 20, 1));
    dir.mount().at_full_speed(|| testkit::make_near(&path, 0..3 << 20));
    assert_eq!(resident_bytes(&path), 3 << 20);
    assert_eq!(dir.stats().total.reads, 0);
    assert_eq!(fs::read(&path).unwrap_err().raw_os_error(), Some(EIO));
}

#[test]
fn without_keep_cache_every_open_begins_anew() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options { keep_cache: false, ..Options::default() });
    let path = dir.create("a", noise(50_000, 1));
    for times in 1..=2 {
        fs::read(&path).unwrap();
        assert_eq!(dir.stats().file("a").read_bytes, times * 50_000);
    }
}

#[test]
fn faults_happen_on_the_read_they_name() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(with_rules("*.bad: fail=2, fail_at=40960"));
    let file = open_direct(&dir.create("x.bad", noise(100_000, 1)));
    let page = Ok(4096);
    for _ in 0..2 {
        assert_eq!(read_page(&file, 0), page);
        assert_eq!(read_page(&file, 0), Err(EIO));
        assert_eq!(read_page(&file, 0), page);
        assert_eq!(read_page(&file, 9 * PAGE), page);
        assert_eq!(read_page(&file, 10 * PAGE), Err(EIO));
        assert_eq!(dir.stats().file("x.bad").failed, 2);
        dir.reset();
        assert_eq!(dir.stats(), slowfs::Stats::default());
    }
    let good = open_direct(&dir.create("x.good", noise(100_000, 1)));
    assert!((0..20).all(|n| read_page(&good, n * PAGE) == page));
}

#[test]
fn a_short_read_is_a_file_that_ends_early() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let time_to_live = std::time::Duration::from_hours(1);
    let dir = SlowDir::new(Options { time_to_live, ..with_rules("*: short=1") });
    let content = noise(4096, 1);
    let path = dir.create("a", &content);
    assert!(fs::read(&path).unwrap() == content[..2048]);
    assert_eq!(dir.stats().file("a").read_bytes, 2048);
}

#[test]
fn a_lasting_error_reaches_a_reader_through_the_page_cache() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(with_rules("*: fail_at=500000"));
    let path = dir.create("a", noise(1_000_000, 1));
    assert_eq!(fs::read(&path).unwrap_err().raw_os_error(), Some(EIO));
    let mut begin = vec![0; 100_000];
    File::open(&path).unwrap().read_exact(&mut begin).unwrap();
    assert!(begin == noise(100_000, 1));
}

#[test]
fn the_log_tells_the_order_of_reads() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options { log_reads_max: 3, ..Options::default() });
    let file = open_direct(&dir.create("a", noise(100_000, 1)));
    for page in [9, 5, 1, 3] {
        read_page(&file, page * PAGE).unwrap();
    }
    assert_eq!(dir.stats().reads_of("a"), [5, 1, 3].map(|page| (page * PAGE, PAGE)));
    assert_eq!(dir.stats().log_dropped, 1);
}

#[test]
fn a_read_that_hangs_holds_up_nobody_and_ends_with_new_rules() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(with_rules("a: stall=1:forever"));
    let content = noise(4096, 1);
    let path = dir.create("a", &content);
    let other = dir.create("b", "other");
    let reader = thread::spawn(move || fs::read(path).unwrap());
    until("it is being read", || dir.stats().file("a").reads > 0);
    assert_eq!(fs::read(other).unwrap(), b"other");
    assert!(!reader.is_finished());
    dir.mount().set_rules(Vec::new());
    assert!(reader.join().unwrap() == content);
}

#[test]
fn unmounting_ends_what_hangs_and_what_is_open() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(with_rules("*: stall=1:forever"));
    let path = dir.create("a", noise(4096, 1));
    let open = open_direct(&path);
    let reader = thread::spawn(move || read_page(&open, 0).map(|_| open));
    until("it is being read", || dir.stats().total.reads > 0);
    let source = dir.source().to_owned();
    dir.mount().unmount().unwrap();
    // Answered or cut off, by which of the two came first; then the connection is gone.
    if let Ok(open) = reader.join().unwrap() {
        read_page(&open, 0).unwrap_err();
    }
    assert!(!path.exists());
    assert!(source.join("a").exists());
}

#[test]
fn a_dead_device_keeps_its_control_files_alive() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options::default());
    let path = dir.create("dead/a", "x");
    fs::write(dir.path().join(".slowfs/rules"), "dead: hang=true").unwrap();
    let asker = thread::spawn(move || fs::metadata(path).unwrap().len());
    fs::read(dir.path().join(".slowfs/stats")).unwrap();
    assert!(!asker.is_finished());
    fs::write(dir.path().join(".slowfs/rules"), "#none").unwrap();
    assert_eq!(asker.join().unwrap(), 1);
}

#[test]
fn control_files_tell_reset_and_rule_and_are_not_listed() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(with_rules("*.img: seek=1us"));
    let file = dir.create("a", noise(10_000, 1));
    let control = |name: &str| dir.path().join(".slowfs").join(name);
    let stats = || -> serde_json::Value {
        serde_json::from_slice(&fs::read(control("stats")).unwrap()).unwrap()
    };
    fs::read(&file).unwrap();
    assert_eq!(stats()["total"]["read_bytes"], 10_000);
    assert_eq!(stats()["files"]["a"]["read_bytes"], 10_000);
    assert_eq!(stats()["log"][0]["offset"], 0);
    fs::write(control("reset"), "1").unwrap();
    assert_eq!(stats()["total"]["reads"], 0);

    let rules = || fs::read_to_string(control("rules")).unwrap();
    assert!(rules().starts_with("*.img: ") && rules().contains("seek=1000ns"));
    fs::write(control("rules"), "*: fail=1").unwrap();
    assert!(rules().starts_with("*: ") && rules().contains("fail=1"));
    fs::write(control("rules"), "nonsense").unwrap_err();
    assert!(rules().contains("fail=1"), "what cannot be read changes nothing");
    assert_eq!(read_page(&open_direct(&file), 0), Err(EIO));

    assert_eq!(names(dir.path()), [OsStr::new("a")]);
    assert_eq!(names(&dir.path().join(".slowfs")), ["reset", "rules", "stats"].map(OsStr::new));
}

fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(dir).expect("a directory to list");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names
}

#[test]
fn changes_pass_through() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options::default());
    let (slow, source) = (dir.path(), dir.source());
    let odd = OsStr::from_bytes(b"odd \xff\n\\name");
    fs::create_dir(slow.join("d")).unwrap();
    fs::write(slow.join("d").join(odd), "content").unwrap();
    assert_eq!(fs::read(source.join("d").join(odd)).unwrap(), b"content");
    assert_eq!(names(&slow.join("d")), [odd]);

    fs::rename(slow.join("d").join(odd), slow.join("d/b")).unwrap();
    OpenOptions::new().append(true).open(slow.join("d/b")).unwrap().write_all(b"+more").unwrap();
    assert_eq!(fs::read(source.join("d/b")).unwrap(), b"content+more");
    fs::rename(slow.join("d"), slow.join("e")).unwrap();
    OpenOptions::new().write(true).open(slow.join("e/b")).unwrap().set_len(3).unwrap();
    assert_eq!(fs::read(slow.join("e/b")).unwrap(), b"con");

    std::os::unix::fs::symlink("b", slow.join("e/l")).unwrap();
    fs::hard_link(slow.join("e/b"), slow.join("e/h")).unwrap();
    fs::set_permissions(slow.join("e/b"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::read_link(source.join("e/l")).unwrap(), Path::new("b"));
    for name in ["e", "e/b", "e/h", "e/l", ""] {
        let (a, b) = (slow.join(name), source.join(name));
        let (a, b) = (a.symlink_metadata().unwrap(), b.symlink_metadata().unwrap());
        let facts = |m: &fs::Metadata| {
            (m.ino(), m.mode(), m.size(), m.nlink(), m.mtime(), m.mtime_nsec(), m.blocks())
        };
        assert_eq!(facts(&a), facts(&b), "{name}");
    }
    assert_eq!(fs::metadata(slow.join("e/b")).unwrap().mode() & 0o7777, 0o640);

    fs::remove_file(slow.join("e/b")).unwrap();
    assert_eq!(fs::read(slow.join("e/h")).unwrap(), b"con");
    fs::remove_dir(slow.join("e")).unwrap_err();
    fs::remove_dir_all(slow.join("e")).unwrap();
    assert_eq!(names(source), [""; 0]);
}

#[test]
fn a_deleted_file_lives_while_it_is_open() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir =
        SlowDir::new(Options { time_to_live: std::time::Duration::ZERO, ..Options::default() });
    let path = dir.create("a", "content");
    let mut open = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    dir.create("a", "another");
    open.set_len(4).unwrap();
    assert_eq!(open.metadata().unwrap().len(), 4);
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "cont");
    assert_eq!(fs::read(path).unwrap(), b"another");
}

#[test]
fn a_file_made_anew_behind_the_mount_is_not_mistaken_for_the_old_one() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir =
        SlowDir::new(Options { time_to_live: std::time::Duration::ZERO, ..Options::default() });
    for content in ["first", "other", "third"] {
        let path = dir.create("a", content);
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        // The source may give the next file the same inode number.
        fs::remove_file(dir.source().join("a")).unwrap();
    }
}

#[test]
fn a_large_directory_is_listed_whole() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options::default());
    let expected: Vec<_> =
        (0..3_000).map(|n| std::ffi::OsString::from(format!("file-number-{n:05}"))).collect();
    for name in &expected {
        File::create(dir.source().join(name)).unwrap();
    }
    assert_eq!(names(dir.path()), expected);
}

#[test]
fn holes_and_extended_attributes_are_seen() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = SlowDir::new(Options::default());
    let path = dir.create("a", "");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"data", 1 << 20).unwrap();
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap(), 1 << 20);
    let (name, flags) = ("user.nearfirst", rustix::fs::XattrFlags::CREATE);
    if rustix::fs::setxattr(dir.source().join("a"), name, b"value", flags).is_ok() {
        let mut value = [0; 16];
        assert_eq!(rustix::fs::getxattr(&path, name, &mut value), Ok(5));
        let mut names = [0; 64];
        let length = rustix::fs::listxattr(&path, &mut names).unwrap();
        assert!(names[..length].windows(name.len()).any(|part| part == name.as_bytes()));
    }
}

#[test]
fn readahead_is_as_asked() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let largest = |bytes| {
        let dir = SlowDir::new(Options { readahead_bytes_max: Some(bytes), ..Options::default() });
        let path = dir.create("a", noise(4 << 20, 1));
        std::io::copy(&mut File::open(path).unwrap(), &mut std::io::sink()).unwrap();
        dir.stats().log.iter().map(|read| read.length).max().unwrap()
    };
    assert!(largest(32 << 10) <= 32 << 10);
    assert!(largest(512 << 10) > 128 << 10);
}

#[test]
fn disks_made_of_it_are_counted_and_cached() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::Loop);
    for file_system in [FileSystem::Ext4, FileSystem::Xfs] {
        skip_unless!(Facility::Tool(file_system.mkfs()), Facility::FileSystem(file_system.name()));
        let name = file_system.name();
        let profile: Profile = "seek=100us, bandwidth=500M".parse().unwrap();
        let options = Options { rules: vec![Rule::all(profile)], ..Options::default() };
        let disk = LoopDisk::on_slowfs(file_system, 64 << 20, options);
        let device = disk.slow().unwrap();
        let content = noise(3_000_000, 1);
        let path = disk.path().join("a");
        fs::write(&path, &content).unwrap();
        evict(&path);
        device.reset();

        assert!(fs::read(&path).unwrap() == content, "{name}");
        let first = device.stats().total.read_bytes;
        assert!((3_000_000..4_000_000).contains(&first), "{name}: {first}");
        assert!(device.stats().total.seeks < 20, "{name}: {:?}", device.stats().total);
        assert!(fs::read(&path).unwrap() == content, "{name}");
        assert_eq!(device.stats().total.read_bytes, first, "{name}: the page cache answers");

        evict(&path);
        testkit::make_near(&path, 0..1 << 20);
        device.reset();
        assert!(fs::read(&path).unwrap() == content, "{name}");
        let rest = device.stats().total.read_bytes;
        assert!(rest < 2_100_000, "{name}: {rest} of 1951424 that were not near");
    }
}

#[test]
fn the_program_says_when_it_is_mounted_and_unmounts_when_told_to_end() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = testkit::Dir::new();
    let (source, at) = (dir.create_dir("source"), dir.create_dir("mnt"));
    dir.create("source/a.slow", "text");
    let options = ["--as", "nfs", "--speed-up", "1000", "--rule", "*.slow: latency=1us, fail=9"];
    let mut program = start(&options, &source, &at);
    assert_eq!(fs::read(at.join("a.slow")).unwrap(), b"text");
    let rules = fs::read_to_string(at.join(".slowfs/rules")).unwrap();
    assert!(rules.contains("fail=9") && rules.contains("seek=270000000ns"), "{rules}");
    kill_process(Pid::from_child(&program), Signal::TERM).unwrap();
    assert!(program.wait().unwrap().success());
    assert!(!at.join("a.slow").exists());
}

/// Starts the program and waits until it says that it is mounted.
fn start(options: &[&str], source: &Path, at: &Path) -> Child {
    let mut program = Command::new(env!("CARGO_BIN_EXE_slowfs"))
        .args(options)
        .args([source, at])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program just built");
    let mut line = String::new();
    let stdout = program.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert_eq!(line, format!("mounted {}\n", at.display()));
    program
}

#[test]
fn the_program_ends_when_someone_else_unmounts() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = testkit::Dir::new();
    let (source, at) = (dir.create_dir("source"), dir.create_dir("mnt"));
    let mut program = start(&[], &source, &at);
    testkit::cmd("umount", [&at]).run().succeeds();
    assert!(program.wait().unwrap().success());
}

#[test]
fn a_signal_ends_the_program_while_a_file_is_open() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = testkit::Dir::new();
    let (source, at) = (dir.create_dir("source"), dir.create_dir("mnt"));
    dir.create("source/a", "text");
    let mut program = start(&["--latency", "1us"], &source, &at);
    let open = open_direct(&at.join("a"));
    assert_eq!(read_page(&open, 0), Ok(4));
    kill_process(Pid::from_child(&program), Signal::INT).unwrap();
    assert!(program.wait().unwrap().success());
    read_page(&open, 0).unwrap_err();
}

#[test]
fn the_program_names_what_it_cannot_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let dir = testkit::Dir::new();
    let slowfs = testkit::Program::at(env!("CARGO_BIN_EXE_slowfs"));
    let missing = dir.join("missing");
    slowfs.cmd([dir.path(), &missing]).run().ends_with(1).complains(&missing.display().to_string());
    slowfs.cmd([&*missing, dir.path()]).run().ends_with(1).complains("No such file or directory");
    slowfs
        .cmd(["--rule", "*: speed=1", ".", "."])
        .run()
        .ends_with(2)
        .complains("`speed` is no key");
}
