//! Where data is, on every file system that can be mounted here, against what `mincore` says.

use std::fs::{self, File, FileTimes};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, UNIX_EPOCH};

use nearfirst_store::{
    Backing, Clock, Costs, Error, Local, Pattern, Reason, TableFiles, Walk, disk_position,
    probe_first,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sled::{Device, DeviceTable, Place, Plan};
use testkit::{
    Dir, Facility, FileSystem, LoopDisk, Overlay, SlowDir, Tmpfs, evict, hold, is_resident, lines,
    noise, resident_bytes, skip_unless, until,
};

const MIB: u64 = 1 << 20;

fn costs(wait_max: Duration) -> Costs {
    Costs::with(Local::new(wait_max), TableFiles::default(), Clock::real())
}

fn near_bytes(path: &Path) -> u64 {
    let located = Local::default().locate(&File::open(path).expect("opens")).expect("located");
    assert_eq!(located.reason, None, "{}", path.display());
    let end = located.extents.iter().fold(0, |at, extent| {
        assert_eq!(extent.offset, at, "gap or overlap");
        at + extent.length
    });
    assert_eq!(end, fs::metadata(path).expect("it is there").len());
    let near = located.extents.iter().filter(|extent| extent.place == Place::Near);
    near.map(|extent| extent.length).sum()
}

fn device(path: &Path) -> String {
    Local::default().stat(path).expect("it is there").device.to_string()
}

/// Evicted, half held and whole: the answer must be `mincore`'s, and asking must not change it.
fn says_what_mincore_says(path: &Path) {
    let size = fs::metadata(path).expect("it is there").len();
    evict(path);
    let (before, near, after) = (resident_bytes(path), near_bytes(path), resident_bytes(path));
    assert!(after <= before, "asking brought {} in", path.display());
    assert!(near <= before && near >= after, "{before} {near} {after}");
    {
        let _held = hold(path, size / 4..size / 2);
        let (before, near, after) = (resident_bytes(path), near_bytes(path), resident_bytes(path));
        assert!(near >= size / 4, "{near} of {size} near");
        assert!(near <= before.max(after) && near >= after.min(before), "{before} {near} {after}");
    }
    let _held = hold(path, 0..size);
    assert_eq!(near_bytes(path), size);
}

fn disks_say_what_is_in_memory(file_system: FileSystem) {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem(file_system.name()),
        Facility::Tool(file_system.mkfs()),
    );
    let disk = LoopDisk::new(file_system, 64 * MIB);
    let path = disk.path().join("file");
    fs::write(&path, noise(8 << 20, 1)).expect("written");
    says_what_mincore_says(&path);
    assert!(device(&path).starts_with("loop:/"), "{}", device(&path));
}

#[test]
fn ext4_says_what_is_in_memory() {
    disks_say_what_is_in_memory(FileSystem::Ext4);
}

#[test]
fn xfs_says_what_is_in_memory() {
    disks_say_what_is_in_memory(FileSystem::Xfs);
}

#[test]
fn btrfs_says_what_is_in_memory() {
    disks_say_what_is_in_memory(FileSystem::Btrfs);
}

#[test]
fn a_file_lies_on_its_disk_where_its_position_says() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("ext4"),
        Facility::Tool("mkfs.ext4"),
    );
    let disk = LoopDisk::new(FileSystem::Ext4, 16 * MIB);
    for seed in 9..12 {
        let (path, content) = (disk.path().join(format!("{seed}")), noise(100_000, seed));
        let mut file = File::create(&path).expect("created");
        file.write_all(&content).expect("written");
        file.sync_all().expect("on the disk");
        let position = disk_position(&file).expect("ext4 says").expect("it is on the disk");
        // Past the page cache of the block device, which knows nothing of the file system's.
        let device = File::open(disk.device()).expect("opens");
        rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
        let mut there = [0; 4096];
        device.read_exact_at(&mut there, position).expect("read");
        assert_eq!(there, content[..4096]);
    }
    let empty = File::create(disk.path().join("empty")).expect("created");
    assert_eq!(disk_position(&empty).expect("ext4 says"), None);
    empty.set_len(MIB).expect("a hole");
    assert_eq!(disk_position(&empty).expect("ext4 says"), None);
}

#[test]
fn what_lies_on_no_disk_has_no_position_there() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(MIB);
    let path = tmpfs.path().join("file");
    fs::write(&path, b"x").expect("written");
    let error = disk_position(&File::open(&path).expect("opens")).expect_err("it has none");
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn a_squashfs_says_what_is_in_memory() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("squashfs"),
        Facility::Tool("mksquashfs"),
    );
    let content = Dir::new();
    content.create("file", noise((5 << 20) + 777, 2));
    let disk = LoopDisk::squashfs(&content);
    says_what_mincore_says(&disk.path().join("file"));
}

#[test]
fn an_overlay_is_asked_about_the_file_beneath() {
    skip_unless!(Facility::Root, Facility::FileSystem("overlay"));
    let lower = Dir::new();
    lower.create("file", noise(4 << 20, 3));
    let overlay = Overlay::new(&lower);
    let path = overlay.path().join("file");
    evict(lower.join("file"));
    says_what_mincore_says(&path);
    assert_eq!(device(&path), device(&lower.join("file")));
}

#[test]
fn a_tmpfs_is_memory() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(16 * MIB);
    let path = tmpfs.path().join("file");
    fs::write(&path, noise(1 << 20, 4)).expect("written");
    assert_eq!(near_bytes(&path), MIB);
    assert_eq!(device(&path), "memory");
}

#[test]
fn fuse_says_what_is_in_memory_of_a_file_that_is_open() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let path = slow.create("file", noise(2 << 20, 5));
    says_what_mincore_says(&path);
    assert!(device(&path).starts_with("fuse"), "{}", device(&path));
}

#[test]
fn fuse_is_not_opened_to_ask_unless_it_is_known_to_keep_its_cache() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let path = slow.create("file", noise(1 << 20, 6));
    let costs = costs(Duration::from_secs(10));
    let _held = hold(&path, 0..MIB);

    let located = costs.path_located(&path).expect("located");
    assert_eq!(located.reason, Some(Reason::OpeningMayEvict));
    assert_eq!(located.extents[0].place, Place::Unknown);

    let device = Device::new(device(&path));
    costs.table().set_keeps_cache(&device, true);
    let located = costs.path_located(&path).expect("located");
    assert_eq!((located.reason, located.extents[0].place), (None, Place::Near));
}

#[test]
fn a_probe_finds_out_whether_a_fuse_mount_keeps_its_cache() {
    skip_unless!(Facility::Root, Facility::Fuse);
    for keeps in [true, false] {
        let options = slowfs::Options { keep_cache: keeps, ..slowfs::Options::default() };
        let slow = SlowDir::new(options);
        slow.create("file", noise(2 << 20, 7));
        let limit = Duration::from_millis(300);
        let places = [slow.path().to_owned()];
        let costs = costs(Duration::from_secs(10));
        let (found, _) = probe_first(&costs, &places, limit, |_| {}).expect("measured");
        assert_eq!(found.keeps_cache, Some(keeps));
    }
}

#[test]
fn a_mount_that_does_not_answer_is_given_up_and_others_still_answer() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let path = slow.create("file", b"x");
    let plain = Dir::new();
    let link = plain.link("link", &path);
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    let costs = costs(Duration::from_millis(50));
    // All but the first few are given up without a wait, so that this ends.
    for path in [&path, &link].into_iter().cycle().take(2000) {
        let error = costs.path_sleds(path).expect_err("it hangs");
        assert!(matches!(&error, Error::Stalled { mount, .. } if mount == slow.path()), "{error}");
    }
    let threads = fs::read_dir("/proc/self/task").expect("/proc").count();
    assert!(threads < 1000, "{threads} threads were left behind");
    let other = plain.create("other", b"y");
    assert_eq!(costs.path_sleds(&other).expect("it answers").len(), 1);
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_name_that_does_not_answer_says_nothing_of_its_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let [dead, alive] = ["dead", "alive"].map(|name| slow.create(name, b"x"));
    slow.mount().set_rules(vec!["dead: hang=true".parse().expect("a rule")]);
    let costs = costs(Duration::from_secs(1));
    for _ in 0..3 {
        let error = costs.path_sleds(&dead).expect_err("it hangs");
        assert_eq!(error.reason(), "no answer for 1 s, though its mount answers");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(costs.path_sleds(&alive).expect("it answers").len(), 1);
    }
    slow.mount().set_rules(Vec::new());
    until("it answers", || costs.path_sleds(&dead).is_ok());
}

#[test]
fn what_an_overlay_has_of_a_mount_that_does_not_answer_is_given_up() {
    skip_unless!(Facility::Root, Facility::Fuse, Facility::FileSystem("overlay"));
    let slow = SlowDir::new(slowfs::Options::default());
    slow.create("file", b"x");
    let overlay = Overlay::new(slow.path());
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    let costs = costs(Duration::from_millis(50));
    let error = costs.path_sleds(&overlay.path().join("file")).expect_err("it hangs");
    // What else the overlay has is there.
    assert_eq!(error.reason(), "no answer for 0.05 s, though its mount answers");
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_program_that_asked_a_dead_mount_ends_and_holds_nothing() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    slow.create("file", b"x");
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    let me = std::env::current_exe().expect("a test has a name");
    let mut asks = Command::new(me)
        .args(["--exact", "asked_a_dead_mount", "--ignored"])
        .env("ASKED_ABOUT", slow.path().join("file"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut status = None;
    until("it ends", || {
        status = asks.try_wait().expect("it was begun");
        status.is_some()
    });
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let output = asks.stdout.take().expect("piped");
    until("nobody holds its output", || {
        let mut ends = [PollFd::new(&output, PollFlags::empty())];
        poll(&mut ends, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    });
    slow.mount().set_rules(Vec::new());
}

#[test]
#[ignore = "run by a_program_that_asked_a_dead_mount_ends_and_holds_nothing, as a program"]
fn asked_a_dead_mount() {
    let path = PathBuf::from(std::env::var_os("ASKED_ABOUT").expect("named"));
    let found = Local::new(Duration::from_millis(50)).stat(&path);
    assert!(matches!(found, Err(Error::Stalled { .. })), "{found:?}");
}

#[test]
fn what_the_kernel_remembers_is_no_answer_of_a_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let an_hour = Duration::from_hours(1);
    let options = slowfs::Options {
        time_to_live: an_hour,
        absence_time_to_live: an_hour,
        ..slowfs::Options::default()
    };
    let slow = SlowDir::new(options);
    let (file, folder) = (slow.create("file", b"x"), slow.create("folder/file", b"x"));
    let names = [file.clone(), file.join("below"), folder, slow.path().join("folder/absent/a")];
    let is_there = names.each_ref().map(|name| fs::metadata(name).is_ok());
    assert_eq!(is_there, [true, false, true, false]);
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    for name in names {
        let answer = Local::new(Duration::from_millis(50)).answers(&name);
        assert!(matches!(answer, Err(Error::Stalled { .. })), "{}", name.display());
    }
    slow.mount().set_rules(Vec::new());
}

#[test]
fn an_open_file_is_asked_about_without_its_mount() {
    skip_unless!(Facility::Root, Facility::Fuse);
    // The kernel may believe nothing for long, so that it would ask for the size again.
    let options = slowfs::Options { time_to_live: Duration::ZERO, ..slowfs::Options::default() };
    let slow = SlowDir::new(options);
    let path = slow.create("file", noise(1 << 20, 13));
    let _held = hold(&path, 0..MIB);
    let (local, file) = (Local::default(), File::open(&path).expect("opens"));
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    assert_eq!(local.status(&file).expect("it is open").size, MIB);
    assert_eq!(local.locate(&file).expect("it is open").extents[0].place, Place::Near);
    slow.mount().set_rules(Vec::new());
}

#[test]
fn who_asks_where_a_file_is_does_not_wait_for_its_end() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let options =
        slowfs::Options { time_to_live: Duration::from_hours(1), ..slowfs::Options::default() };
    let slow = SlowDir::new(options);
    let path = slow.create("file", noise(1 << 20, 13));
    let costs = Arc::new(costs(Duration::from_secs(5)));
    // Elsewhere it would not be opened.
    costs.saw_cache_kept(&Device::new(device(&path)));
    // What answered a moment ago is not asked again, unless this takes a second.
    let is_located = |_| {
        slow.mount().set_rules(Vec::new());
        costs.local().answers(&path).expect("it does");
        // It answers who opens it, and not who closes it.
        let rule = "file: hang=true, opens=never";
        slow.mount().set_rules(vec![rule.parse().expect("a rule")]);
        let (done, is_done) = mpsc::channel();
        let (costs, path) = (Arc::clone(&costs), path.clone());
        std::thread::spawn(move || done.send(costs.path_located(&path)));
        is_done.recv_timeout(Duration::from_mins(1)).expect("nothing is waited for").is_ok()
    };
    assert!((0..10).any(is_located), "it answered no question in time");
    assert!(slow.stats().file("file").opens > 0);
    slow.mount().set_rules(Vec::new());
}

#[test]
fn whose_an_open_file_is_no_mount_is_asked() {
    skip_unless!(
        Facility::Root,
        Facility::Fuse,
        Facility::FileSystem("overlay"),
        Facility::Tool("setpriv")
    );
    let options = slowfs::Options { time_to_live: Duration::ZERO, ..slowfs::Options::default() };
    let slow = SlowDir::new(options);
    slow.create("file", noise(1 << 20, 13));
    let overlay = Overlay::new(&slow);
    let folders = [slow.path(), overlay.path()].map(|at| at.parent().expect("a folder above"));
    for folder in folders {
        open_to_all(folder);
    }
    let mut asks = as_nobody(folders[1], "asked_whose_it_is", &overlay.path().join("file"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let told = BufReader::new(asks.stdout.take().expect("piped"));
    let (hear, heard) = mpsc::channel();
    std::thread::spawn(move || {
        told.lines().map_while(Result::ok).try_for_each(|line| hear.send(line))
    });
    let hears = |what| {
        let next = || heard.recv_timeout(Duration::from_mins(1)).expect(what);
        while !next().contains(what) {}
    };
    hears("it is open");
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    asks.stdin.take().expect("piped").write_all(b"\n").expect("it waits");
    hears("it is NotOwner");
    // Its end closes the file, which is answered now.
    slow.mount().set_rules(Vec::new());
    assert!(asks.wait().expect("it ends").success());
}

#[test]
#[ignore = "run by whose_an_open_file_is_no_mount_is_asked, as another user"]
fn asked_whose_it_is() {
    let file = File::open(std::env::var_os("ASKED_ABOUT").expect("named")).expect("opens");
    println!("it is open");
    io::stdin().read_exact(&mut [0]).expect("told to go on");
    let located = Local::default().locate(&file).expect("located");
    println!("it is {:?}", located.reason.expect("another's"));
}

#[test]
fn a_store_keeps_no_mount_from_being_unmounted() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(MIB);
    let path = tmpfs.path().join("file");
    fs::write(&path, b"x").expect("written");
    let local = Local::default();
    assert_eq!(local.stat(&path).expect("it is there").size, 1);
    rustix::mount::unmount(tmpfs.path(), rustix::mount::UnmountFlags::empty()).expect("not busy");
    assert!(matches!(local.stat(&path), Err(Error::Io { .. })));
}

#[test]
fn a_folder_that_breaks_off_keeps_the_names_that_were_read_of_it() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let (slow, local) = (SlowDir::new(slowfs::Options::default()), Local::default());
    for number in 0..6000 {
        fs::write(slow.source().join(format!("{number:04}")), "").expect("written");
    }
    let pattern = slow.path().join("*");
    let mut walk = Walk::new(&Pattern::new(pattern.as_os_str().as_bytes()).expect("a pattern"));
    // More than a batch is sorted: the rest is read when these were taken.
    let mut names: Vec<_> =
        (0..4096).map(|_| walk.next(&local).expect("more").expect("a name")).collect();
    drop(slow);
    let mut errors = 0;
    while let Some(next) = walk.next(&local) {
        match next {
            Ok(name) => names.push(name),
            Err(_) => errors += 1,
        }
    }
    assert_eq!(errors, 1);
    assert!((4097..6000).contains(&names.len()), "{} names", names.len());
}

#[test]
fn a_folder_that_stops_answering_is_given_up_and_the_rest_is_walked() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    for number in 0..6000 {
        fs::write(slow.source().join(format!("{number:04}")), "").expect("written");
    }
    let dir = Dir::new();
    dir.create("z/alive", "x");
    std::os::unix::fs::symlink(slow.path(), dir.path().join("a")).expect("linked");
    let pattern = dir.path().join("*/*");
    let mut walk = Walk::new(&Pattern::new(pattern.as_os_str().as_bytes()).expect("a pattern"));
    let local = Local::new(Duration::from_secs(2));
    // More than a batch is sorted: the rest is read when these were taken.
    for _ in 0..4096 {
        walk.next(&local).expect("more").expect("a name");
    }
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    let (find, found) = mpsc::channel();
    std::thread::spawn(move || {
        std::iter::from_fn(|| walk.next(&local)).try_for_each(|next| find.send(next))
    });
    let next = || match found.recv_timeout(Duration::from_mins(1)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the folder is waited for"),
        next => next.ok(),
    };
    let rest: Vec<_> = std::iter::from_fn(next).collect();
    let errors: Vec<_> = rest.iter().filter_map(|next| next.as_ref().err()).collect();
    assert!(matches!(errors[..], [Error::Stalled { .. }]), "{errors:?}");
    let last = rest.last().and_then(|next| next.as_ref().ok());
    assert_eq!(last, Some(&dir.path().join("z/alive")));
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_slow_folder_of_a_mount_that_answers_is_waited_for() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    slow.create("large/name", "");
    let local = Local::new(Duration::from_secs(2));
    let mut folder = local.folder(&slow.path().join("large")).expect("opened");
    slow.mount().set_rules(vec!["large: metadata=3s".parse().expect("a rule")]);
    let (name, _) = folder.next(&local).expect("there is one").expect("it comes");
    assert_eq!(name, "name");
}

#[test]
fn a_folder_that_does_not_answer_is_given_up_alone() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let options =
        slowfs::Options { time_to_live: Duration::from_hours(1), ..slowfs::Options::default() };
    let slow = SlowDir::new(options);
    for name in ["a/file", "dead/file", "z/file"] {
        fs::metadata(slow.create(name, "")).expect("the kernel knows it");
    }
    slow.mount().set_rules(vec!["dead: hang=true".parse().expect("a rule")]);
    let pattern = slow.path().join("**");
    let mut walk = Walk::new(&Pattern::new(pattern.as_os_str().as_bytes()).expect("a pattern"));
    let local = Local::new(Duration::from_millis(500));
    let (names, errors): (Vec<_>, Vec<_>) =
        std::iter::from_fn(|| walk.next(&local)).partition(Result::is_ok);
    let names: Vec<_> = names.into_iter().flatten().collect();
    assert_eq!(names, ["a/file", "z/file"].map(|name| slow.path().join(name)));
    let errors: Vec<_> = errors.into_iter().filter_map(Result::err).collect();
    assert!(
        matches!(&errors[..], [Error::Io { path, .. }] if path.ends_with("dead")),
        "{errors:?}"
    );
    slow.mount().set_rules(Vec::new());
}

#[test]
fn all_below_a_folder_is_files_and_links_to_files() {
    let dir = Dir::new();
    for name in ["a/file", "a/b/file"] {
        dir.create(name, "x");
    }
    let at = |name: &str| dir.path().join("a").join(name);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), fifo, 0o600.into(), 0).expect("made");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("bound");
    for (to, name) in [
        ("b/file", "to-file"),
        ("b", "to-folder"),
        ("fifo", "to-fifo"),
        ("/dev/null", "to-device"),
        ("absent", "to-nothing"),
        ("file/absent", "to-below-a-file"),
        ("to-itself", "b/to-itself"),
    ] {
        std::os::unix::fs::symlink(to, at(name)).expect("linked");
    }
    for all in ["**", "***", "**/*"] {
        assert_eq!(walked(&at(all)), ["file", "to-file", "b/file"].map(at), "{all}");
    }
    // Who names them meets them.
    assert_eq!(walked(&at("fi*")), ["fifo", "file"].map(at));
    assert_eq!(walked(&at("to-f*")), ["to-fifo", "to-file", "to-folder"].map(at));
    assert_eq!(walked(&at("**/to-n*")), [at("to-nothing")]);
    assert_eq!(walked(&at("*/file")), ["b/file", "to-folder/file"].map(at));
}

#[test]
fn a_link_to_a_mount_that_does_not_answer_is_given_in_bounded_time() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    slow.create("file", b"x");
    let dir = Dir::new();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(slow.path().join("file"), &link).expect("linked");
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    assert_eq!(walked(&dir.path().join("**")), [link]);
    slow.mount().set_rules(Vec::new());
}

#[test]
fn a_name_that_cannot_be_asked_for_is_no_name_that_is_not_there() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let dir = Dir::new();
    let alive = dir.create("alive/data/file", "x");
    dir.create("file/data", "x");
    dir.create("without/file", "x");
    std::os::unix::fs::symlink(slow.path(), dir.path().join("dead")).expect("linked");
    let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
    slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
    let found: Vec<_> = walk(&dir.path().join("*/data/file")).collect();
    slow.mount().set_rules(Vec::new());
    let is_dead = |error: &Error| matches!(error, Error::Stalled { .. });
    assert!(
        matches!(&found[..], [Ok(path), Err(error)] if *path == alive && is_dead(error)),
        "{found:?}"
    );
}

/// What a walk finds that waits for no mount for long.
fn walked(pattern: &Path) -> Vec<PathBuf> {
    walk(pattern).collect::<Result<_, _>>().expect("all can be looked at")
}

fn walk(pattern: &Path) -> impl Iterator<Item = Result<PathBuf, Error>> {
    let pattern = Pattern::new(pattern.as_os_str().as_bytes()).expect("a pattern");
    let (mut walk, local) = (Walk::new(&pattern), Local::new(Duration::from_millis(50)));
    std::iter::from_fn(move || walk.next(&local))
}

#[test]
fn a_mount_is_not_taken_for_one_that_is_gone() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let local = Local::default();
    let backing = |path: &Path| {
        local.status(&File::open(path).expect("opened")).expect("it is known").backing
    };
    // The number of its device is the next one's, unless another test takes it first.
    for _ in 0..5 {
        let memory = Tmpfs::new(MIB);
        let near = memory.path().join("near");
        fs::write(&near, "text").expect("written");
        assert_eq!(backing(&near), Backing::Memory);
        drop(memory);
        let slow = SlowDir::new(slowfs::Options::default());
        assert_eq!(backing(&slow.create("far", "text")), Backing::Fuse);
    }
}

#[test]
fn a_stub_is_cold_and_not_opened() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    let source = File::create(slow.source().join("stub")).expect("created");
    source.set_len(MIB).expect("a hole");
    let path = slow.path().join("stub");
    let device = device(&path);
    let text = format!("version = 1\n[device.{device:?}]\nhas_stubs = true\n");
    let costs = costs(Duration::from_secs(10));
    costs.table().merge(DeviceTable::from_toml(&text).expect("a table"));
    assert!(costs.fill(&Device::new(&*device), 0.001, 1e9));

    let located = costs.path_located(&path).expect("located");
    assert_eq!(located.reason, Some(Reason::Offline));
    assert_eq!(located.extents[0].place, Place::Cold);
    assert_eq!(located.extents[0].device.name(), format!("cold:{device}"));
    let time = sled::delivery_time(&costs.describe(located), Plan::Best);
    assert_eq!((time.known(), time.cold_bytes), (None, MIB));
    assert!(matches!(costs.open(&path), Err(Error::Offline { size: MIB, .. })));
    assert!(costs.may_have_stubs(&path) && !costs.may_have_stubs(slow.source()));
    let places = [path.clone()];
    let probed = probe_first(&costs, &places, Duration::from_millis(300), |_| {});
    assert!(matches!(probed, Err(Error::Offline { size: MIB, .. })), "{probed:?}");
    assert_eq!(slow.stats().file("stub").opens, 0);

    // Of one that is open, too.
    let sleds = costs.file_sleds(&File::open(&path).expect("opened")).expect("located");
    assert_eq!(sleds[0].place, Place::Cold);
    assert_eq!(slow.stats().total.read_bytes, 0);
}

#[test]
fn what_may_be_a_stub_is_not_opened_on_a_guess() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("ext4"),
        Facility::Tool("mkfs.ext4"),
    );
    let (disk, memory) = (LoopDisk::new(FileSystem::Ext4, 16 * MIB), Tmpfs::new(MIB));
    let hole = |folder: &Path| {
        let path = folder.join("hole");
        File::create(&path).and_then(|file| file.set_len(MIB)).expect("created");
        path
    };
    let (stub, in_memory) = (hole(disk.path()), hole(memory.path()));
    let sound = disk.path().join("sound");
    fs::write(&sound, "text").expect("written");
    let costs = costs(Duration::from_secs(5));
    assert!(matches!(costs.open_harmless(&stub), Err(Error::Offline { size: MIB, .. })));
    costs.open_regular(&stub).expect("who asks for it may have it");
    for path in [&in_memory, &sound] {
        costs.open_harmless(path).expect("nothing is recalled by it");
    }
    let text = format!("version = 1\n[device.{:?}]\nhas_stubs = false\n", device(&stub));
    costs.table().merge(DeviceTable::from_toml(&text).expect("a table"));
    costs.open_harmless(&stub).expect("it is known to be none");
}

#[test]
fn holes_cost_nothing_however_large() {
    let folder = Dir::new();
    let path = folder.create_sparse("hole", 1 << 40);
    assert_eq!(near_bytes(&path), 1 << 40);
}

#[test]
fn a_loop_is_named_by_its_file() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("ext4"),
        Facility::Tool("mkfs.ext4"),
    );
    let disk = LoopDisk::new(FileSystem::Ext4, 16 * MIB);
    let name = device(disk.path());
    let backing = PathBuf::from(name.strip_prefix("loop:").expect("a loop device"));
    assert!(backing.ends_with("image/disk.img"), "{name}");
}

#[test]
fn who_may_not_know_is_told_that_it_is_unknown() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"));
    let folder = Dir::new();
    let path = folder.create("file", lines(1 << 20, 8));
    open_to_all(folder.path());
    evict(&path);
    let _held = hold(&path, 0..MIB / 2);
    assert!(is_resident(&path, 0..MIB / 2));
    let asked = as_nobody(folder.path(), "asked_as_nobody", &path).output().expect("it runs");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stdout));
}

fn open_to_all(folder: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder, mode).expect("changed");
}

/// A question must come from another user: this program, from a copy in `folder`, does `test` as one.
fn as_nobody(folder: &Path, test: &str, asked_about: &Path) -> Command {
    let me = std::env::current_exe().expect("a test has a name");
    let copy = folder.join("as-nobody");
    testkit::copy_program(&me, &copy);
    let mut asks = Command::new("setpriv");
    asks.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
    asks.args(["--exact", test, "--ignored", "--nocapture"]).env("ASKED_ABOUT", asked_about);
    asks
}

#[test]
#[ignore = "run by who_may_not_know_is_told_that_it_is_unknown, as another user"]
fn asked_as_nobody() {
    let path = PathBuf::from(std::env::var_os("ASKED_ABOUT").expect("named"));
    let located = Local::default().locate(&File::open(&path).expect("opens")).expect("located");
    assert_eq!(located.reason, Some(Reason::NotOwner));
    assert_eq!(located.extents[0].place, Place::Unknown);
    assert_eq!(Local::default().stat(&path).expect("stat").backing, Backing::Disk);
}

#[test]
fn who_reads_a_file_unasked_is_seen_by_nobody() {
    skip_unless!(
        Facility::Root,
        Facility::Loop,
        Facility::FileSystem("ext4"),
        Facility::Tool("mkfs.ext4"),
    );
    let disk = LoopDisk::new(FileSystem::Ext4, 16 * MIB);
    let path = disk.path().join("mail");
    fs::write(&path, "new").expect("written");
    let file = File::open(&path).expect("opens");
    let before = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_times(FileTimes::new().set_accessed(before)).expect("it is ours");
    let (unseen, _) = costs(Duration::from_secs(5)).open_harmless(&path).expect("opens");
    assert_eq!(io::read_to_string(unseen).expect("read"), "new");
    assert_eq!(file.metadata().expect("it is open").accessed().expect("told"), before);
}

#[test]
fn who_holds_a_lease_on_a_file_keeps_it() {
    const HOLDS: &str = "import fcntl, os, sys\n\
        file = os.open(sys.argv[1], os.O_RDONLY)\n\
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
        print(flush=True)\n\
        input()\n";
    skip_unless!(Facility::Tool("python3"));
    let dir = Dir::new();
    let path = dir.create("leased", "text");
    let mut holder = Command::new("python3")
        .args(["-c", HOLDS])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut line = [0];
    holder.stdout.as_mut().expect("piped").read_exact(&mut line).expect("it holds the lease");
    let now = || costs(Duration::from_secs(5));
    assert!(matches!(now().open_harmless(&path), Err(Error::Refused { .. })));
    assert!(matches!(now().path_located_unseen(&path), Err(Error::Refused { .. })));
    holder.stdin.as_mut().expect("piped").write_all(b"\n").expect("it waits");
    // To lose it is the end of who does not expect it.
    assert!(holder.wait().expect("a child").success());
    now().open_harmless(&path).expect("nobody holds it any more");
}
