//! What the source that sees the whole system tells of real programs on real file systems.

mod shell;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use nearfirst_watch::Source as _;
use nearfirst_watch::system::{Scope, System};
use shell::{Shell, names, system, system_of};
use store::Costs;
use testkit::{Facility, FileSystem, LoopDisk, SlowDir, Tmpfs, skip_unless, until, writer_of};
use tree::{Access, Event, Process, User};

/// A mount point that another folder covers until this is dropped.
struct Covered<'a>(&'a Path);

impl<'a> Covered<'a> {
    fn new(below: &'a Path, above: &Path) -> Self {
        let status = Command::new("mount").arg("--bind").args([above, below]).status();
        assert!(status.expect("the machine allows it").success());
        Self(below)
    }
}

impl Drop for Covered<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.0).status().ok();
    }
}

#[test]
fn a_shell_its_programs_and_what_they_read_are_told_in_order() {
    skip_unless!(Facility::Root, Facility::Loop);
    let disk = LoopDisk::new(FileSystem::Ext4, 0);
    std::fs::write(disk.path().join("a"), "a").expect("the machine allows it");
    std::fs::write(disk.path().join("b"), "b").expect("the machine allows it");
    let mut shell = Shell::new(&disk);
    let mut system = system(&disk);
    shell.run("mkfifo fifo; read x < a; cat b fifo > /dev/null; echo new > c; true");
    let mut events = Vec::new();
    until("cat runs", || {
        let more = system.next(Duration::from_millis(10)).expect("the machine allows it");
        events.extend(more.into_iter().map(|(_, event)| event));
        // Others of the machine run programs of that name, too.
        let last =
            |arguments: &[Arc<[u8]>]| arguments.last().is_some_and(|last| **last == *b"fifo");
        let runs = |event: &Event| {
            matches!(event, Event::Executed { program, arguments, .. }
            if program.path.ends_with(b"/cat") && last(arguments))
        };
        events.iter().any(runs)
    });
    std::fs::write(disk.path().join("fifo"), "").expect("the machine allows it");
    events.extend(shell.told(&mut system));
    let mut opens = shell.opens(&events);
    // Who opened a pipe to write is of no use to anybody; that nobody read one is.
    opens.retain(|(_, name, access)| name != Path::new("fifo") || *access == Access::Read);
    let (reader, cat) = (opens[0].0, opens[1].0);
    assert_eq!(names(&opens[..2]), ["a", "b"], "{events:?}");
    assert!(opens[..2].iter().all(|open| open.2 == Access::Read), "{opens:?}");
    assert!(opens.len() > 2 && names(&opens[2..]).iter().all(|name| *name == "c"), "{opens:?}");
    assert!(opens[2..].iter().all(|open| open.2 == Access::Write), "{opens:?}");
    let at = |what: &dyn Fn(&Event) -> bool| {
        events.iter().position(what).unwrap_or_else(|| panic!("{events:?}"))
    };
    let forked = at(&|event| *event == Event::Forked { parent: reader, child: cat });
    let executed = at(&|event| match event {
        Event::Executed { process, program, arguments, folder } => {
            *process == cat
                && program.path.ends_with(b"/cat")
                && arguments.iter().map(|a| &**a).eq([&b"cat"[..], b"b", b"fifo"])
                && **folder == *disk.path().as_os_str().as_bytes()
        }
        _ => false,
    });
    let read = at(&|event| matches!(event, Event::Opened { process, .. } if *process == cat));
    let exited = at(&|event| *event == Event::Exited { process: cat });
    assert!(forked < executed && executed < read && read < exited, "{events:?}");
}

#[test]
fn file_systems_are_chosen_anew_by_what_their_devices_take() {
    skip_unless!(Facility::Root, Facility::Loop);
    let (disk, other) = (LoopDisk::new(FileSystem::Ext4, 0), LoopDisk::new(FileSystem::Ext4, 0));
    let path = disk.path().join("file");
    std::fs::write(&path, "x").expect("the machine allows it");
    let costs = |of_disk, of_other| {
        let costs = Costs::load();
        for (disk, latency_s) in [(&disk, of_disk), (&other, of_other)] {
            let device = costs.local().stat(disk.path()).expect("it is mounted").device;
            assert!(costs.table().fill(&device, latency_s, 1e9));
        }
        Arc::new(costs)
    };
    let (fast, slow, nearly_slow) = (50e-6, 8e-3, 199e-6);
    let mut shell = Shell::new(&other);
    let mut system = System::new(Scope::default(), costs(fast, slow)).expect("root may");
    let mut is_told = |system: &mut System| {
        shell.run(format!("read x < {}", path.display()));
        let events = shell.told(system);
        let is_open = |event: &Event| match event {
            Event::Opened { file, .. } => *file.path == *path.as_os_str().as_bytes(),
            _ => false,
        };
        events.iter().any(is_open)
    };
    assert!(!is_told(&mut system));
    assert!(!system.choose_anew(costs(nearly_slow, slow)));
    assert!(system.choose_anew(costs(slow, slow)));
    assert!(is_told(&mut system));
    // A median that moves to and fro costs nothing that is opened meanwhile.
    assert!(!system.choose_anew(costs(nearly_slow, slow)));
    assert!(is_told(&mut system));
    assert!(system.choose_anew(costs(fast, slow)));
    assert!(!is_told(&mut system) && !system.watched().any(|path| path == disk.path()));
}

#[test]
fn a_thread_that_runs_a_program_does_not_end_its_process() {
    skip_unless!(Facility::Root, Facility::Tool("python3"));
    let tmpfs = Tmpfs::new(1 << 20);
    std::fs::write(tmpfs.path().join("a"), "x").expect("the machine allows it");
    std::fs::write(
        tmpfs.path().join("executes.py"),
        "import os, threading\n\
         words = ['sh', '-c', 'read x < a; : > done; read x < fifo']\n\
         threading.Thread(target=os.execvp, args=('sh', words)).start()\n",
    )
    .expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    shell.run("mkfifo fifo; python3 executes.py 2> /dev/null");
    until("it has run", || tmpfs.path().join("done").exists());
    let mut events = Vec::new();
    for _ in 0..5 {
        let more = system.next(Duration::from_millis(10)).expect("the queues can be read");
        events.extend(more.into_iter().map(|(_, event)| event));
    }
    let opens = shell.opens(&events);
    let reader = opens.iter().find(|(_, name, _)| name == Path::new("a")).expect("told").0;
    let runs = |event: &Event| {
        matches!(event, Event::Executed { process, arguments, .. }
            if *process == reader && arguments.first().is_some_and(|first| **first == *b"sh"))
    };
    assert!(events.iter().any(runs), "{events:?}");
    let exited = Event::Exited { process: reader };
    assert!(!events.contains(&exited), "{events:?}");
    std::fs::write(tmpfs.path().join("fifo"), "").expect("the machine allows it");
    assert!(shell.told(&mut system).contains(&exited));
}

#[test]
fn a_process_ends_with_the_last_of_its_threads() {
    skip_unless!(Facility::Root, Facility::Tool("python3"));
    let tmpfs = Tmpfs::new(1 << 20);
    std::fs::write(tmpfs.path().join("a"), "x").expect("the machine allows it");
    std::fs::write(
        tmpfs.path().join("outlives.py"),
        "import ctypes, os, threading\n\
         def reads():\n\
        \x20   while open('/proc/self/stat').read().split(')')[1].split()[0] != 'Z': pass\n\
        \x20   open('first', 'w').close()\n\
        \x20   open('fifo').read()\n\
        \x20   open('a').read()\n\
        \x20   os._exit(0)\n\
         threading.Thread(target=reads).start()\n\
         ctypes.CDLL(None).pthread_exit(None)\n",
    )
    .expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    shell.run("mkfifo fifo; python3 outlives.py 2> /dev/null");
    until("its first thread has ended", || tmpfs.path().join("first").exists());
    let mut events = Vec::new();
    for _ in 0..5 {
        let more = system.next(Duration::from_millis(10)).expect("the queues can be read");
        events.extend(more.into_iter().map(|(_, event)| event));
    }
    std::fs::write(tmpfs.path().join("fifo"), "").expect("the machine allows it");
    events.extend(shell.told(&mut system));
    let opens = shell.opens(&events);
    let by = |file| opens.iter().find(|(_, name, _)| name == Path::new(file)).expect("told").0;
    let (process, exited) = (by("a"), Event::Exited { process: by("a") });
    assert_eq!(by("first"), process, "{events:?}");
    assert_eq!(events.iter().filter(|event| **event == exited).count(), 1, "{events:?}");
}

#[test]
fn names_of_any_bytes_are_told_as_they_are() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    let name = OsStr::from_bytes(b"\xfe folder\n/ \xff\n(deleted)");
    let path = tmpfs.path().join(name);
    std::fs::create_dir(path.parent().expect("the machine allows it"))
        .expect("the machine allows it");
    std::fs::write(&path, "x").expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    shell.run([b"cat '", name.as_bytes(), b"'"].concat());
    assert_eq!(shell.opened(&mut system)[0].1, Path::new(name));
}

#[test]
fn what_root_opened_before_it_became_a_user_is_not_told_as_that_users() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("perl"));
    let disk = LoopDisk::new(FileSystem::Ext4, 0);
    let folder = disk.path().join("secret");
    std::fs::create_dir(&folder).expect("the machine allows it");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))
        .expect("the machine allows it");
    let first = folder.join("first");
    std::fs::write(&first, "x").expect("the machine allows it");
    // More, by their names, than are taken in one look, in which the change of user is told, too.
    for number in 0..5000 {
        std::fs::hard_link(&first, folder.join(format!("{number:0200}")))
            .expect("the machine allows it");
    }
    let mut shell = Shell::new(&disk);
    let mut system = system(&disk);
    shell.run(
        "perl -e 'opendir D, q(secret); for (readdir D) { open F, qq(secret/$_); close F } \
         $> = 65534; exec q(true)'; : > done",
    );
    until("it has run", || disk.path().join("done").exists());
    let mut users = HashMap::new();
    let mut told: Vec<User> = Vec::new();
    for event in shell.told(&mut system) {
        match event {
            Event::Found { process, user } => drop(users.insert(process, user)),
            Event::Forked { parent, child } => {
                users.extend(users.get(&parent).copied().map(|user| (child, user)));
            }
            Event::Opened { process, file, .. }
                if file.path.windows(8).any(|p| p == b"/secret/") =>
            {
                told.extend(users.get(&process).copied().filter(|user| *user != User(0)));
            }
            _ => {}
        }
    }
    assert!(users.values().any(|user| *user == User(65534)), "it became that user");
    assert!(told.is_empty(), "{} files", told.len());
}

/// A group that nobody is a member of, and that of the user with this number.
const GROUP: u32 = 4242;
const USERS_GROUP: u32 = 65534;

#[test]
fn what_a_program_reads_by_rights_that_its_user_has_not_is_not_told_as_that_users() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"), Facility::Tool("setcap"));
    let tmpfs = Tmpfs::new(1 << 20);
    let allow = |name: &str, group, mode| {
        let path = tmpfs.path().join(name);
        std::os::unix::fs::chown(&path, Some(0), Some(group)).expect("ours");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("ours");
    };
    for folder in ["secret", "own"] {
        std::fs::create_dir(tmpfs.path().join(folder)).expect("ours");
    }
    for name in ["open", "secret/a", "own/a"] {
        std::fs::write(tmpfs.path().join(name), "x").expect("ours");
    }
    let programs = [
        ("cat", "capable"),
        ("cat", "setgid"),
        ("cat", "secret/cat"),
        ("cat", "own/cat"),
        ("env", "runs"),
        ("xargs", "starts"),
        ("setpriv", "becomes"),
    ];
    for (program, name) in programs {
        let program = testkit::program(program).expect("it is there");
        testkit::copy_program(program, tmpfs.path().join(name));
    }
    allow("", 0, 0o777);
    allow("secret", GROUP, 0o750);
    allow("own", USERS_GROUP, 0o750);
    for name in ["setgid", "runs", "starts", "becomes"] {
        allow(name, GROUP, 0o2755);
    }
    allow("capable", 0, 0o755);
    let setcap = testkit::program("setcap").expect("it is there");
    let mut made = Command::new(setcap);
    made.arg("cap_dac_read_search+ep").arg(tmpfs.path().join("capable"));
    assert!(made.status().expect("the machine allows it").success());
    let user = ["--reuid=65534", "--regid=65534"];
    let mut shell = Shell::as_user(&tmpfs, &[user[0], user[1], "--clear-groups"]);
    // What one session is a member of, its user need not be.
    let group = format!("--groups={GROUP}");
    let mut session = Shell::as_user(&tmpfs, &[user[0], user[1], &group]);
    let mut root = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    let read_by = |shell: &mut Shell, system: &mut System, command: &str, is_looked_at: bool| {
        let (fifo, done) = (tmpfs.path().join("fifo"), tmpfs.path().join("done"));
        let last = if is_looked_at { "fifo" } else { "" };
        shell.run(format!("mkfifo fifo; {command} {last}; : > done"));
        let mut events = Vec::new();
        if is_looked_at {
            // It lives until all was told that it opens before.
            until("what it opened is told", || {
                let more = system.next(Duration::from_millis(10)).expect("the queues can be read");
                events.extend(more.into_iter().map(|(_, event)| event));
                names(&shell.opens(&events)).contains(&"open")
            });
            drop(writer_of(&fifo));
        } else {
            until("it has run", || done.exists());
        }
        events.extend(shell.told(system));
        let opens = shell.opens(&events);
        for path in [fifo, done] {
            std::fs::remove_file(path).expect("ours");
        }
        let mut read = names(&opens).into_iter().map(str::to_owned).collect::<Vec<_>>();
        read.retain(|name| ["secret/a", "own/a", "open"].contains(&name.as_str()));
        // Root may know what it was about to run as it became the user.
        let became = |process| events.contains(&Event::Found { process, user: User(65534) });
        let is_users = |process| !command.starts_with("setpriv") || became(process);
        let runs = |event: &Event, name: &[u8]| match event {
            Event::Executed { process, program, .. } => {
                program.path.ends_with(name) && is_users(*process)
            }
            _ => false,
        };
        let runs = [&b"/secret/cat"[..], b"/own/cat"]
            .map(|name| events.iter().any(|event| runs(event, name)));
        (read, runs)
    };
    until("the groups of the user are known", || {
        read_by(&mut shell, &mut system, "cat own/a", false).0 == ["own/a"]
    });
    let open = vec!["open".to_owned()];
    for is_looked_at in [true, false] {
        let (read, runs) = read_by(&mut shell, &mut system, "own/cat own/a open", is_looked_at);
        assert_eq!((read.join(" "), runs), ("own/a open".to_owned(), [false, true]));
        for program in [
            "./setgid",
            "./capable",
            "./runs secret/cat",
            "echo | ./starts cat",
            "./becomes --regid=4242 --keep-groups cat",
        ] {
            let command = format!("{program} secret/a open");
            let told = read_by(&mut shell, &mut system, &command, is_looked_at);
            assert_eq!(told, (open.clone(), [false; 2]), "{program} {is_looked_at}");
        }
        let reads = "secret/cat secret/a open";
        let told = read_by(&mut session, &mut system, reads, is_looked_at);
        assert_eq!(told, (open.clone(), [false; 2]), "{is_looked_at}");
        let becomes = format!("setpriv {} --regid={GROUP} --clear-groups {reads}", user[0]);
        let told = read_by(&mut root, &mut system, &becomes, is_looked_at);
        assert_eq!(told, (open.clone(), [false; 2]), "root {is_looked_at}");
    }
}

#[test]
fn another_user_is_another_process() {
    skip_unless!(Facility::Root, Facility::Tool("setpriv"));
    let tmpfs = Tmpfs::new(1 << 20);
    std::fs::write(tmpfs.path().join("a"), "x").expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    shell.run("setpriv --reuid 65534 --regid 65534 --clear-groups cat a");
    let events = shell.told(&mut system);
    let reader = shell.opens(&events)[0].0;
    assert!(events.contains(&Event::Found { process: reader, user: User(65534) }));
    let is_child = |event: &Event| matches!(event, Event::Forked { child, .. } if *child == reader);
    assert!(!events.iter().any(is_child), "no tree leads from one user to another");
}

#[test]
fn what_is_excluded_and_what_is_no_file_is_not_told() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    std::fs::create_dir(tmpfs.path().join("private")).expect("the machine allows it");
    std::fs::write(tmpfs.path().join("private/a"), "x").expect("the machine allows it");
    std::fs::create_dir(tmpfs.path().join("linked")).expect("the machine allows it");
    std::fs::write(tmpfs.path().join("linked/a"), "x").expect("the machine allows it");
    std::os::unix::fs::symlink("linked", tmpfs.path().join("link")).expect("the machine allows it");
    std::fs::write(tmpfs.path().join("b"), "x").expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let excluded = vec![tmpfs.path().join("private"), tmpfs.path().join("link")];
    let mut system = system_of(Scope { on: vec![tmpfs.path().to_owned()], excluded });
    shell.run("mkfifo fifo; cat private/a link/a b; echo x > fifo & cat fifo; wait");
    assert_eq!(names(&shell.opened(&mut system)), ["b"]);
}

#[test]
fn a_container_that_has_the_file_system_elsewhere_opens_what_is_here() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let tmpfs = Tmpfs::new(1 << 20);
    let other = Tmpfs::new(1 << 20);
    std::fs::create_dir(tmpfs.path().join("inside")).expect("the machine allows it");
    std::fs::write(tmpfs.path().join("inside/a"), "x").expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    let there = other.path().display();
    shell.run(format!("unshare -m sh -c 'mount --bind inside {there} && cat {there}/a'"));
    assert_eq!(names(&shell.opened(&mut system)), ["inside/a"]);
}

#[test]
fn a_program_in_a_container_is_told_by_its_name_outside() {
    skip_unless!(Facility::Root, Facility::Tool("unshare"));
    let tmpfs = Tmpfs::new(4 << 20);
    let [outside, inside] = ["outside", "inside"].map(|name| tmpfs.path().join(name));
    // Each is a program of its own.
    for (program, of) in [(&outside, "/bin/sleep"), (&inside, "/bin/cat")] {
        testkit::copy_program(of, program);
    }
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    let (at, of) = (outside.display(), inside.display());
    shell.run(format!("mkfifo fifo; unshare -m sh -c 'mount --bind {of} {at} && {at} fifo'"));
    let runs = |events: &[Event], program: &Path| {
        let is = |event: &Event| match event {
            Event::Executed { program: file, .. } => *file.path == *program.as_os_str().as_bytes(),
            _ => false,
        };
        events.iter().any(is)
    };
    let mut events = Vec::new();
    // It lives until it was looked at.
    until("it runs", || {
        let more = system.next(Duration::from_millis(10)).expect("the queues can be read");
        events.extend(more.into_iter().map(|(_, event)| event));
        runs(&events, &inside) || runs(&events, &outside)
    });
    drop(writer_of(tmpfs.path().join("fifo")));
    events.extend(shell.told(&mut system));
    assert!(runs(&events, &inside) && !runs(&events, &outside), "{events:?}");
}

#[test]
fn what_this_program_reads_as_it_is_told_is_not_told_but_what_it_starts_is() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    for name in ["log", "a"] {
        std::fs::write(tmpfs.path().join(name), "x").expect("the machine allows it");
    }
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    // The program that listens is this test, which opens its log, if it is told to.
    let own = std::env::current_exe().expect("it runs");
    shell.run(format!("{} --list --logfile log; cat a", own.display()));
    let events = shell.told(&mut system);
    assert_eq!(names(&shell.opens(&events)), ["a"]);
    let is_own = |event: &Event| match event {
        Event::Executed { program, .. } => *program.path == *own.as_os_str().as_bytes(),
        _ => false,
    };
    assert!(events.iter().any(is_own), "{events:?}");
}

#[test]
fn what_has_no_path_here_is_not_told() {
    skip_unless!(Facility::Root, Facility::Loop, Facility::Tool("unshare"));
    let disk = LoopDisk::new(FileSystem::Ext4, 0);
    std::fs::create_dir(disk.path().join("shown")).expect("the machine allows it");
    std::fs::write(disk.path().join("shown/a"), "x").expect("the machine allows it");
    std::fs::create_dir(disk.path().join("hidden")).expect("the machine allows it");
    std::fs::write(disk.path().join("hidden/b"), "x").expect("the machine allows it");
    let at = disk.path();
    // The whole stays mounted in a namespace of its own; here, a part of it.
    let script = format!(
        "cd {0}; echo > shown/ready; while [ -e shown/ready ]; do sleep 0.01; done
        until [ -e shown/enough ]; do cat hidden/b shown/a > /dev/null; sleep 0.01; done",
        at.display()
    );
    let mut inside = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .current_dir("/")
        .spawn()
        .expect("the machine allows it");
    until("it has its namespace", || at.join("shown/ready").exists());
    let part = Tmpfs::new(1 << 20);
    let sh = |script: String| {
        assert!(
            Command::new("sh")
                .args(["-c", &script])
                .status()
                .expect("the machine allows it")
                .success()
        );
    };
    sh(format!("mount --bind {}/shown {}", at.display(), part.path().display()));
    sh(format!("umount {}", at.display()));
    let mut shell = Shell::new(part.path());
    let mut system = system(&part);
    std::fs::remove_file(part.path().join("ready")).expect("the machine allows it");
    let mut events = Vec::new();
    // What a process that has ended had opened need not be told.
    until("what it reads is told", || {
        let more = system.next(Duration::from_millis(10)).expect("the machine allows it");
        events.extend(more.into_iter().map(|(_, event)| event));
        names(&shell.opens(&events)).contains(&"a")
    });
    std::fs::write(part.path().join("enough"), "").expect("the machine allows it");
    until("it has read", || inside.try_wait().expect("the machine allows it").is_some());
    events.extend(shell.told(&mut system));
    drop((system, shell));
    sh(format!(
        "umount {0} && mount -t ext4 {1} {2}",
        part.path().display(),
        disk.device().display(),
        at.display()
    ));
    let is_hidden =
        |event: &Event| matches!(event, Event::Opened { file, .. } if file.path.ends_with(b"/b"));
    assert!(!events.iter().any(is_hidden), "{events:?}");
}

#[test]
fn files_of_fuse_are_told() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let slow = SlowDir::new(slowfs::Options::default());
    slow.create("a", "x");
    let mut shell = Shell::new(&slow);
    let mut system = system(&slow);
    let mut opens = Vec::new();
    until("it is told", || {
        // A thread of its own begins to listen there.
        shell.run("cat a");
        opens.extend(shell.opened(&mut system));
        !opens.is_empty()
    });
    assert_eq!(names(&opens[..1]), ["a"]);
}

#[test]
fn a_mount_that_may_not_answer_is_told_of_in_place_of_the_one_that_it_covers() {
    skip_unless!(Facility::Root, Facility::Fuse);
    let [below, above] = [(); 2].map(|()| SlowDir::new(slowfs::Options::default()));
    above.create("a", "x");
    let elsewhere = testkit::Dir::new();
    let mut shell = Shell::new(&elsewhere);
    shell.folder = below.path().to_owned();
    let mut system = system(&below);
    shell.opened(&mut system);
    let _covered = Covered::new(below.path(), above.path());
    let mut opens = Vec::new();
    until("it is told", || {
        // A thread of its own begins to listen there.
        shell.run(format!("cat {}/a", below.path().display()));
        opens.extend(shell.opened(&mut system));
        !opens.is_empty()
    });
    assert_eq!(names(&opens[..1]), ["a"]);
}

#[test]
fn what_is_listened_to_can_be_unmounted_and_comes_back() {
    skip_unless!(Facility::Root, Facility::Loop);
    let disk = LoopDisk::new(FileSystem::Ext4, 0);
    let (at, device) = (disk.path().display().to_string(), disk.device().display().to_string());
    std::fs::write(disk.path().join("a"), "x").expect("the machine allows it");
    let elsewhere = testkit::Dir::new();
    let mut shell = Shell::new(&elsewhere);
    shell.folder = disk.path().to_owned();
    let mut system = system(&disk);
    let sh = |script: &str| {
        assert!(
            Command::new("sh")
                .args(["-c", script])
                .status()
                .expect("the machine allows it")
                .success()
        );
    };
    // An event waits in the queue.
    shell.run(format!("read x < {at}/a; : > done"));
    until("it has run", || elsewhere.join("done").exists());
    sh(&format!("umount {at}"));
    system.next(Duration::ZERO).expect("the machine allows it");
    assert!(system.watched().all(|point| disk.path().starts_with(point) && point != disk.path()));
    sh(&format!("mount -t ext4 {device} {at}"));
    system.next(Duration::ZERO).expect("the machine allows it");
    assert_eq!(system.watched().collect::<Vec<_>>(), [disk.path()]);
    shell.run(format!("cat {at}/a"));
    assert_eq!(names(&shell.opened(&mut system)), ["a"]);
}

#[test]
fn an_overflow_of_opens_is_told_and_survived() {
    skip_unless!(Facility::Root);
    let most = std::fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events")
        .expect("the machine allows it");
    let most: usize = most.trim().parse().expect("the machine allows it");
    let tmpfs = Tmpfs::new(1 << 20);
    std::fs::write(tmpfs.path().join("a"), "x").expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    // Each name is new, so that no two events are one.
    shell.run(format!("i=0; while [ $i -le {most} ]; do : > f$i; i=$((i + 1)); done; : > done"));
    until("it has run", || tmpfs.path().join("done").exists());
    shell.run("rm done; cat a");
    let events = shell.told(&mut system);
    assert!(events.contains(&Event::Lost { process: None }));
    shell.run("cat a");
    assert!(names(&shell.opened(&mut system)).contains(&"a"));
}

#[test]
fn what_ends_between_looks_has_run_what_it_ran_and_read_what_it_read() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(8 << 20);
    std::fs::write(tmpfs.path().join("a"), "x").expect("the machine allows it");
    testkit::copy_program("/bin/cat", tmpfs.path().join("short"));
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    let storm = "i=0; while [ $i -lt 1000 ]; do ./short a; i=$((i + 1)); done";
    shell.run(format!("({storm}) & ({storm}) & wait"));
    let events = shell.told(&mut system);
    assert!(!events.contains(&Event::Lost { process: None }));
    let runs = |event: &&Event| matches!(event, Event::Executed { program, .. } if program.path.ends_with(b"/short"));
    let mut short: HashMap<Process, bool> = HashMap::new();
    let mut read = 0;
    for event in &events {
        match event {
            Event::Executed { process, .. } if runs(&event) => drop(short.insert(*process, false)),
            Event::Opened { process, file, .. } if file.path.ends_with(b"/a") => {
                read += usize::from(short.insert(*process, true) == Some(false));
            }
            _ => {}
        }
    }
    assert_eq!((events.iter().filter(runs).count(), read), (2000, 2000));
}

#[test]
fn programs_that_ended_before_anyone_looked_are_known_wherever_they_lie() {
    skip_unless!(Facility::Root);
    let tmpfs = Tmpfs::new(1 << 20);
    std::fs::write(tmpfs.path().join("a"), "x").expect("the machine allows it");
    let mut shell = Shell::new(&tmpfs);
    let mut system = system(&tmpfs);
    // Their programs lie on another file system, to which nobody listens but for this.
    shell.run("for i in 1 2 3 4 5; do cat a > /dev/null; done; : > done");
    until("they have ended", || tmpfs.path().join("done").exists());
    let events = shell.told(&mut system);
    let readers: Vec<Process> = shell
        .opens(&events)
        .into_iter()
        .filter(|(_, name, _)| name == Path::new("a"))
        .map(|(process, _, _)| process)
        .collect();
    assert_eq!(readers.len(), 5, "{events:?}");
    for reader in readers {
        let runs_cat = |event: &Event| matches!(event, Event::Executed { process, program, .. } if *process == reader && program.path.ends_with(b"/cat"));
        let reads = |event: &Event| matches!(event, Event::Opened { process, file, .. } if *process == reader && file.path.ends_with(b"/a"));
        let at = |what: &dyn Fn(&Event) -> bool| events.iter().position(what);
        let (runs, reads) = (at(&runs_cat), at(&reads));
        assert!(runs.is_some() && runs < reads, "{events:?}");
    }
}
