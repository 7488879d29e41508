//! Which processes there are: pids are used again, so each gets a number of its own.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self as sysfs, AtFlags, Mode, OFlags, StatxFlags};
use store::Mounts;
use tree::{File, Identity, Process, User};

use super::connector::Pid;
use super::opens::{self, device};
use crate::status::words;

/// Bytes of a process's arguments that are kept: a command line of xargs can have megabytes.
const ARGUMENTS_BYTES_MAX: u64 = 64 << 10;
/// Programs that are known to be here: more than most machines run in an hour.
const HERE_MAX: usize = 1024;

/// A process that is known.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) process: Process,
    pub(crate) rights: Rights,
    /// Whether nothing is told of it and of what comes of it: ourselves.
    pub(crate) is_ours: bool,
    /// Whether it runs this same program, which reads what people tell it to, or guesses: what it opens is
    /// not told, but what it starts is.
    pub(crate) reads_as_told: bool,
}

/// Processes by pid. As many as there are at a time, which the kernel bounds.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    known: HashMap<Pid, Known>,
    given: u64,
}

/// By whose rights a process opens files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The effective user.
    pub(crate) user: User,
    /// All its groups: those that are permitted only can be made to count.
    pub(crate) groups: Arc<[u32]>,
    /// Whether it may open files by more than user and groups: by capabilities, or nobody knows.
    pub(crate) has_more: bool,
}

impl Rights {
    pub(crate) fn of(user: User) -> Self {
        Self { user, groups: Arc::default(), has_more: false }
    }

    /// Those of whom nobody could ask.
    pub(crate) fn unknown(user: User) -> Self {
        Self { has_more: true, ..Self::of(user) }
    }

    pub(crate) fn add_groups(&mut self, groups: &[u32]) {
        if groups.iter().any(|group| !self.groups.contains(group)) {
            self.groups = self.groups.iter().chain(groups).copied().collect();
        }
    }
}

/// What a process runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) program: File,
    pub(crate) arguments: Vec<Arc<[u8]>>,
    pub(crate) folder: Arc<[u8]>,
}

impl Processes {
    pub(crate) fn get(&self, pid: Pid) -> Option<&Known> {
        self.known.get(&pid)
    }

    pub(crate) fn get_mut(&mut self, pid: Pid) -> Option<&mut Known> {
        self.known.get_mut(&pid)
    }

    /// Makes a process known; the pid must not be.
    pub(crate) fn add(&mut self, pid: Pid, rights: Rights, is_ours: bool) -> Process {
        let process = Process(self.given);
        self.given += 1;
        self.known.insert(pid, Known { process, rights, is_ours, reads_as_told: false });
        process
    }

    pub(crate) fn remove(&mut self, pid: Pid) -> Option<Known> {
        self.known.remove(&pid)
    }

    /// Forgets all: some of them may have ended unseen. Who is ours stays so.
    pub(crate) fn clear(&mut self) {
        let own = std::process::id().cast_signed();
        self.known.retain(|&pid, known| known.is_ours && (pid == own || is_alive(pid)));
    }
}

fn is_alive(pid: Pid) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// By whose rights a process opens files; `None` if it is gone.
pub(crate) fn rights(pid: Pid) -> Option<Rights> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    parse_rights(&String::from_utf8_lossy(&status))
}

/// Whether a process has ended, of which its first thread has.
pub(crate) fn has_ended(pid: Pid) -> bool {
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    !is_alive_by(&String::from_utf8_lossy(&status), pid)
}

fn is_alive_by(status: &str, pid: Pid) -> bool {
    let field = |key| words(status, key).next();
    let number = |key| field(key).and_then(|word| word.parse().ok()).unwrap_or(0);
    // The number may be that of another's thread by now.
    number("Tgid:") == pid
        && (number("Threads:") > 1 || !matches!(field("State:"), Some("Z" | "X")))
}

fn parse_rights(status: &str) -> Option<Rights> {
    let user = words(status, "Uid:").nth(1)?.parse().ok().map(User)?;
    let groups = words(status, "Gid:").chain(words(status, "Groups:"));
    let groups = groups.map(str::parse).collect::<Result<_, _>>().ok()?;
    // Those that are permitted only can be made to count, and nobody tells of that.
    let has_more =
        words(status, "CapPrm:").next().is_some_and(|bits| bits.bytes().any(|bit| bit != b'0'));
    Some(Rights { user, groups, has_more })
}

/// Programs whose names mean them here, as was found: each exec is looked at in a hurry.
#[derive(Debug, Default)]
pub(crate) struct Here(HashSet<(Arc<[u8]>, Identity)>);

impl Here {
    /// Whether a program's name means it here: in a container it may be that of another file. Of a mount
    /// that may not answer that is not asked.
    pub(crate) fn has(&mut self, pid: Pid, program: &File, mounts: &Mounts) -> bool {
        let known = program.identity.map(|identity| (Arc::clone(&program.path), identity));
        if known.as_ref().is_some_and(|known| self.0.contains(known)) {
            return true;
        }
        let path = Path::new(OsStr::from_bytes(&program.path));
        let is_here = has_our_mounts(pid)
            || mounts.by_path(path).is_none_or(|mount| mount.backing.may_stall())
            || opens::identity(path) == program.identity;
        if let Some(known) = known.filter(|_| is_here) {
            if self.0.len() >= HERE_MAX {
                self.0.clear();
            }
            self.0.insert(known);
        }
        is_here
    }

    /// What is mounted has changed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Whether a process has this one's mounts; who is gone is taken to have had them.
fn has_our_mounts(pid: Pid) -> bool {
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    mounts(&pid.to_string()).is_none_or(|theirs| mounts("self") == Some(theirs))
}

/// What a process runs; `None` if it is gone, or its program is.
///
/// All is asked of one folder of `/proc`, which stays that process's: a new one with its pid has another.
pub(crate) fn running(pid: Pid) -> Option<Running> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = sysfs::open(format!("/proc/{pid}"), flags, Mode::empty()).ok()?;
    let program = program(&folder)?;
    let arguments = arguments(&folder)?;
    let working = sysfs::readlinkat(&folder, "cwd", Vec::new()).ok()?;
    Some(Running { program, arguments, folder: working.into_bytes().into() })
}

fn program(folder: &OwnedFd) -> Option<File> {
    let path = sysfs::readlinkat(folder, "exe", Vec::new()).ok()?.into_bytes();
    let stat = sysfs::statx(folder, "exe", AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
    let known = stat
        .ok()
        .map(|stat| (Identity { device: device(&stat), inode: stat.stx_ino }, stat.stx_size));
    Some(File {
        path: path.into(),
        identity: known.map(|(identity, _)| identity),
        size: known.map(|(_, size)| size),
    })
}

fn arguments(folder: &OwnedFd) -> Option<Vec<Arc<[u8]>>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let line = sysfs::openat(folder, "cmdline", flags, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    fs::File::from(line).take(ARGUMENTS_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(split_arguments(&bytes))
}

fn split_arguments(line: &[u8]) -> Vec<Arc<[u8]>> {
    let line = line.strip_suffix(b"\0").unwrap_or(line);
    if line.is_empty() {
        return Vec::new();
    }
    line.split(|&byte| byte == 0).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;
    use std::process::{Command, Stdio};

    use testkit::{Dir, Facility, skip_unless};

    use super::*;

    #[test]
    fn the_effective_user_is_the_second_of_four() {
        let status = "Name:\tx\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t5\t5\t5\n";
        assert_eq!(parse_rights(status).map(|rights| rights.user), Some(User(0)));
        assert_eq!(parse_rights("Name:\tx\n"), None);
    }

    #[test]
    fn groups_of_all_kinds_and_capabilities_are_rights() {
        let status = |capabilities| {
            format!("Uid:\t7\t7\t7\t7\nGid:\t1\t2\t3\t4\nGroups:\t5 6 \nCapPrm:\t{capabilities}\n")
        };
        let rights = |capabilities| parse_rights(&status(capabilities)).expect("whole");
        let few = rights("0000000000000000");
        assert_eq!((&*few.groups, few.has_more), (&[1, 2, 3, 4, 5, 6][..], false));
        assert!(rights("0000000000000004").has_more);
    }

    #[test]
    fn a_process_lives_as_long_as_one_of_its_threads() {
        let status = |state, process, threads| {
            format!("Name:\tx\nState:\t{state} (x)\nTgid:\t{process}\nThreads:\t{threads}\n")
        };
        assert!(is_alive_by(&status('S', 7, 1), 7), "it runs another program");
        assert!(is_alive_by(&status('Z', 7, 2), 7), "its first thread alone has ended");
        assert!(!is_alive_by(&status('Z', 7, 1), 7) && !is_alive_by(&status('X', 7, 0), 7));
        assert!(!is_alive_by(&status('S', 6, 2), 7), "a thread of another has its number");
        assert!(!is_alive_by("", 7));
    }

    #[test]
    fn empty_arguments_are_arguments() {
        let split =
            |line: &[u8]| split_arguments(line).iter().map(|a| a.to_vec()).collect::<Vec<_>>();
        assert_eq!(split(b"cc\0\0\xff\0"), [&b"cc"[..], b"", b"\xff"]);
        assert!(split(b"").is_empty());
    }

    #[test]
    fn this_process_runs_its_test() {
        let running = running(std::process::id().cast_signed()).expect("it is alive");
        let own = std::env::current_exe().unwrap().into_os_string().into_vec();
        assert_eq!(&*running.program.path, own);
        assert!(running.program.identity.is_some() && running.program.size > Some(0));
        assert_eq!(&*running.folder, std::env::current_dir().unwrap().into_os_string().into_vec());
        let first = std::env::args_os().next().unwrap().into_vec();
        assert_eq!(*running.arguments[0], first);
    }

    #[test]
    fn a_program_that_was_found_here_is_not_looked_for_again_until_mounts_change() {
        skip_unless!(Facility::Root, Facility::Tool("unshare"));
        let folder = Dir::new();
        let path = folder.join("program");
        fs::write(&path, "x").expect("the machine allows it");
        let identity = opens::identity(&path);
        let program = File { path: path.as_os_str().as_bytes().into(), identity, size: Some(1) };
        let mut elsewhere = Command::new("unshare");
        elsewhere.args(["-m", "sh", "-c", "echo; read wait"]);
        elsewhere.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut elsewhere = elsewhere.spawn().expect("the machine allows it");
        let output = elsewhere.stdout.as_mut().expect("it is piped");
        output.read_exact(&mut [0]).expect("it begins");
        let pid = elsewhere.id().cast_signed();
        let (mut here, mounts) = (Here::default(), Mounts::read().expect("there are some"));
        assert!(!has_our_mounts(pid) && here.has(pid, &program, &mounts));
        fs::remove_file(&path).expect("it is ours");
        assert!(here.has(pid, &program, &mounts));
        here.clear();
        assert!(!here.has(pid, &program, &mounts));
        drop(elsewhere.stdin.take());
        elsewhere.wait().expect("it ends");
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut processes = Processes::default();
        let first = processes.add(7, Rights::of(User(1)), false);
        assert_eq!(processes.remove(7).map(|known| known.process), Some(first));
        assert_ne!(processes.add(7, Rights::of(User(1)), false), first);
    }
}
