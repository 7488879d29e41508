//! Of whom is told what was opened while rights change, and what programs that are gone ran.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::{Dir, Facility, FileSystem, LoopDisk, Tmpfs, skip_unless, until};

use super::fanotify::{Deeds, What};
use super::loaded::{folder_by, program_of};
use super::*;
use crate::descriptors::tests::are_at_most;

const ROOT: User = User(0);
const USER: User = User(65534);

/// A program that runs as long as it is looked at, and was there before.
struct Running(Child);

impl Running {
    fn of(user: User) -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").uid(user.0).gid(user.0);
        Self(command.spawn().expect("the machine allows it"))
    }

    fn pid(&self) -> Pid {
        self.0.id().cast_signed()
    }

    fn opened(&self, path: &Path) -> Open {
        let path = path.as_os_str().as_bytes().into();
        let file = tree::File { path, identity: None, size: None };
        let deeds = Deeds::from_mask(libc::FAN_OPEN);
        Open { pid: self.pid(), deeds, file, gives_capabilities: false }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Shown at another place as long as it is looked at.
struct Mounted(PathBuf);

impl Mounted {
    fn new(what: &Path, at: &Path) -> Self {
        let mount = Command::new("mount").arg("--bind").args([what, at]).status();
        assert!(mount.expect("there is one").success());
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

fn system(on: &Tmpfs) -> System {
    let scope = Scope { on: vec![on.path().to_owned()], excluded: Vec::new() };
    System::new(scope, Arc::new(Costs::load())).unwrap_or_else(|error| panic!("{error}"))
}

fn tell(system: &mut System, changes: &[Change], opens: Vec<Open>) -> Vec<Event> {
    let changes = changes.to_vec();
    let emptied = Seen { opens_emptied: true, changes_emptied: true, ..Seen::default() };
    system.tell(Seen { changes, opens, ..emptied }, Duration::ZERO)
}

/// Files that everybody and that root alone may know of.
fn files(on: &Tmpfs) -> [PathBuf; 2] {
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    allow(on.path(), 0o755);
    [("open", 0o644), ("secret", 0o600)].map(|(name, mode)| {
        let path = on.path().join(name);
        std::fs::write(&path, "x").expect("the machine allows it");
        allow(&path, mode);
        path
    })
}

#[test]
fn more_opens_than_may_be_open_at_a_time_are_all_told() {
    skip_unless!(Facility::Root);
    let test = "system::tests::more_opens_than_may_be_open_at_a_time_are_all_told";
    if !are_at_most(512, test) {
        return;
    }
    let tmpfs = Tmpfs::new(8 << 20);
    for number in 0..2000 {
        std::fs::write(tmpfs.path().join(format!("f{number}")), "x").expect("ours");
    }
    // It was there before: of what a process starts itself, its source tells nothing.
    let script = "read go; for file in f*; do read x < $file; done";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(tmpfs.path()).stdin(Stdio::piped());
    let mut reader = command.spawn().expect("the machine allows it");
    let mut system = system(&Tmpfs::new(1 << 20));
    let described = Group::new(Telling::Descriptor).expect("the machine allows it");
    described.mark(tmpfs.path(), What::Opens).expect("the machine allows it");
    system.described = Some(described);
    drop(reader.stdin.take());
    reader.wait().expect("it ends");
    let seen = system.look().expect("the queues can be read");
    let is_there = |open: &&Open| open.pid == reader.id().cast_signed();
    assert_eq!((seen.lost, seen.opens.iter().filter(is_there).count()), (false, 2000));
}

#[test]
fn a_copy_of_a_file_system_is_not_taken_for_it() {
    skip_unless!(Facility::Root, Facility::Loop);
    let disk = LoopDisk::new(FileSystem::Ext4, 0);
    for name in ["a", "b"] {
        std::fs::write(disk.path().join(name), "x").expect("the machine allows it");
    }
    let copy = LoopDisk::copy_of(&disk);
    let files = [disk.path().join("a"), copy.path().join("b")];
    let mut command = Command::new("sh");
    command.args(["-c", "read go; read x < \"$0\"; read x < \"$1\""]).args(&files);
    let mut reader = command.stdin(Stdio::piped()).spawn().expect("the machine allows it");
    let on = [&copy, &disk].map(|disk| disk.path().to_owned());
    let scope = Scope { on: on.to_vec(), excluded: Vec::new() };
    let mut system = System::new(scope, Arc::new(Costs::load())).expect("root may");
    // What was found first may be found last when something else is mounted.
    system.scope.on.reverse();
    let id = fanotify::file_system_id(disk.path()).expect("the machine allows it");
    let device = |system: &System| system.resolver.grounds[&id].device;
    let before = device(&system);
    system.listen_to_places();
    assert_eq!(device(&system), before, "they keep their parts");
    system.resolver.grounds.clear();
    system.listen_to_places();
    assert_ne!(device(&system), before);
    assert_eq!(system.unheard().count(), 0);
    drop(reader.stdin.take());
    reader.wait().expect("it ends");
    let seen = system.look().expect("the queues can be read");
    let path = |open: Open| PathBuf::from(OsStr::from_bytes(&open.file.path));
    let its = seen.opens.into_iter().filter(|open| open.pid == reader.id().cast_signed());
    let opened: Vec<_> =
        its.map(path).filter(|path| on.iter().any(|on| path.starts_with(on))).collect();
    assert_eq!(opened, files);
}

#[test]
fn a_file_system_whose_point_is_covered_further_up_is_not_mistaken_for_what_covers_it() {
    skip_unless!(Facility::Root, Facility::Loop);
    let [disk, other] = [(); 2].map(|()| LoopDisk::new(FileSystem::Ext4, 0));
    let inner = other.path().join("data");
    std::fs::create_dir(&inner).expect("the machine allows it");
    testkit::copy_program("/bin/true", other.path().join("program"));
    let base = Dir::new();
    let (under, at) = (base.create_dir("srv"), base.create_dir("srv/data"));
    let _below = Mounted::new(disk.path(), &at);
    std::fs::write(at.join("file"), "x").expect("the machine allows it");
    let mut command = Command::new("sh");
    command.args(["-c", "read go; \"$0\""]).arg(other.path().join("program"));
    let mut reader = command.stdin(Stdio::piped()).spawn().expect("the machine allows it");
    let scope = Scope { on: vec![at.join("file")], excluded: Vec::new() };
    let mut system = System::new(scope, Arc::new(Costs::load())).expect("root may");
    let _above = Mounted::new(other.path(), &under);
    system.listen_to_places();
    let unheard: Vec<_> = system.unheard().collect();
    assert_eq!(unheard, [(&*at, "another mount covers it".to_owned())]);
    assert!(system.watched().next().is_none());
    drop(reader.stdin.take());
    reader.wait().expect("it ends");
    let seen = system.look().expect("the queues can be read");
    let program = |open: &Open| open.file.path.ends_with(b"/program");
    assert!(seen.opens.iter().any(program), "{:?}", seen.opens);
}

fn opens(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Opened { .. })).count()
}

#[test]
fn the_child_of_one_who_was_not_known_yet_and_is_a_user_now_is_still_roots() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    let (parent, child) = (Running::of(USER), Running::of(ROOT));
    let mut system = system(&tmpfs);
    let changes = [
        Change::Forked { parent: parent.pid(), child: child.pid() },
        Change::BecameUser { pid: parent.pid(), user: USER.0 },
    ];
    let events = tell(&mut system, &changes, Vec::new());
    let known = |of: &Running| system.processes.get(of.pid()).map(|known| known.rights.user);
    assert_eq!((known(&parent), known(&child)), (Some(USER), Some(ROOT)));
    assert!(!events.iter().any(|event| matches!(event, Event::Forked { .. })), "{events:?}");
}

#[test]
fn the_child_of_one_who_was_not_known_yet_is_its_child_if_both_are_one_users() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    let (parent, child) = (Running::of(USER), Running::of(USER));
    let mut system = system(&tmpfs);
    let forked = Change::Forked { parent: parent.pid(), child: child.pid() };
    let events = tell(&mut system, &[forked], Vec::new());
    assert!(matches!(*events, [Event::Found { .. }, Event::Forked { .. }]), "{events:?}");
}

/// Until then the rights of the user's programs are not known to be the user's.
fn knows_groups(system: &mut System) {
    until("the groups of the user are known", || {
        system.groups.meet(USER);
        system.groups.has(USER, &[USER.0])
    });
}

#[test]
fn what_one_who_was_not_known_yet_may_have_opened_as_root_is_not_told_as_a_users() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    let [open, secret] = files(&tmpfs);
    let program = Running::of(USER);
    let mut system = system(&tmpfs);
    knows_groups(&mut system);
    let mut told = |opened: &[&PathBuf]| {
        let taken = opened.iter().map(|path| program.opened(path)).collect();
        opens(&tell(&mut system, &[], taken))
    };
    assert_eq!(told(&[&secret, &open]), 1);
    // What was opened until its user was asked for is taken by the next look.
    assert_eq!(told(&[&secret, &open]), 1);
    assert_eq!(told(&[&secret, &open]), 2);
}

#[test]
fn what_the_child_of_one_who_was_not_known_yet_may_have_opened_as_root_is_not_told_as_a_users() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    let [open, secret] = files(&tmpfs);
    let (parent, child) = (Running::of(USER), Running::of(USER));
    let mut system = system(&tmpfs);
    knows_groups(&mut system);
    let forked = Change::Forked { parent: parent.pid(), child: child.pid() };
    let taken = vec![child.opened(&secret), child.opened(&open)];
    assert_eq!(opens(&tell(&mut system, &[forked], taken)), 1);
}

fn loaded(paths: &[&str]) -> Vec<Open> {
    let open = |path: &&str| Open {
        pid: 7,
        deeds: Deeds::from_mask(libc::FAN_OPEN_EXEC),
        file: tree::File { path: path.as_bytes().into(), identity: None, size: None },
        gives_capabilities: false,
    };
    paths.iter().map(open).collect()
}

fn arguments(words: &str) -> Vec<Arc<[u8]>> {
    words.split(' ').map(|word| word.as_bytes().into()).collect()
}

#[test]
fn a_script_called_by_a_relative_name_was_called_from_where_it_lies() {
    let loaded = loaded(&["/p/bin/run", "/bin/sh", "/lib/ld.so"]);
    let folder = |words| folder_by(&loaded, &arguments(words)).map(|folder| folder.to_vec());
    assert_eq!(folder("/bin/sh ./bin/run x"), Some(b"/p".to_vec()));
    assert_eq!(folder("/bin/sh -e run"), Some(b"/p/bin".to_vec()));
    assert_eq!(folder("/bin/sh /p/bin/run"), None);
    assert_eq!(folder("/bin/sh"), None);
}

#[test]
fn a_program_that_is_gone_is_known_by_what_was_loaded_for_it() {
    let of = |paths: &[&str]| {
        let (program, arguments) = program_of(loaded(paths)).expect("something was loaded");
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.to_vec()).collect();
        (program.path.to_vec(), arguments)
    };
    let script = of(&["/s", "/bin/sh", "/lib/ld.so"]);
    assert_eq!(script, (b"/bin/sh".to_vec(), vec![b"sh".to_vec(), b"/s".to_vec()]));
    assert_eq!(of(&["/bin/cc", "/lib/ld.so"]).0, b"/bin/cc");
    assert_eq!(of(&["/bin/static"]).0, b"/bin/static");
    assert!(program_of(Vec::new()).is_none());
}

#[test]
fn programs_and_scripts_that_lie_in_what_is_excluded_are_not_named() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    let scope = Scope { on: vec![tmpfs.path().to_owned()], excluded: vec!["/left/alone".into()] };
    let mut system = System::new(scope, Arc::new(Costs::load())).expect("root may");
    let process = Running::of(ROOT);
    let mut named = |paths: &[&str]| {
        let mut events = Vec::new();
        assert!(system.executed(process.pid(), None, loaded(paths), &mut events));
        events.iter().any(|event| matches!(event, Event::Executed { .. }))
    };
    assert!(named(&["/left/tool", "/left/alone/ld.so"]));
    assert!(named(&["/left/tool"]));
    assert!(!named(&["/left/alone/tool", "/lib/ld.so"]));
    assert!(!named(&["/left/alone/script", "/bin/sh", "/lib/ld.so"]));
    assert!(!named(&["/script", "/left/alone/sh", "/lib/ld.so"]));
}
