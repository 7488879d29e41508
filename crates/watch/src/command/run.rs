//! Starting a command with those who observe it, and ending as it ends.

use std::ffi::{OsStr, OsString};
use std::fs::DirEntry;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, AtFlags, CWD, MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use rustix::thread::CapabilitySet;

use super::report::Reporter;
use super::sys::{self, Forked, Mask, Signals};
use super::{Observer, guardian, waiter};

/// Where the C library looks for programs if there is no `PATH`.
const FOLDERS: &str = "/bin:/usr/bin";

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What came of running a command.
#[derive(Debug)]
pub enum Outcome {
    /// It ran and ended.
    Ended {
        /// How.
        how: Ended,
        /// What was said meanwhile by those who observed it.
        said: Vec<String>,
    },
    /// It could not be started.
    NotStarted(io::Error),
    /// It was not started, because it cannot be observed; [`replace`] runs it all the same.
    Unobserved(Unobserved),
}

/// Why a command cannot be observed.
#[derive(Debug)]
pub enum Unobserved {
    /// An observed program cannot gain privileges, and this one is there for that.
    GainsPrivileges(PathBuf),
    /// Somebody observes already; it sees this command too.
    IsObserved,
    /// The system does not let us.
    Refused(io::Error),
}

/// What a command is started with.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) words: &'a [OsString],
    /// Descriptors that it inherits, and those around it do not keep.
    pub(super) inherited: &'a [RawFd],
    /// Signals that it starts with as held.
    pub(super) mask: Mask,
    /// Whether it is to be killed when the process that called us ends.
    pub(super) dies_with_caller: bool,
}

/// Runs a command to its end, observed; `work` is done meanwhile in a process of its own, which
/// outlives this call for as long as a descendant of the command lives.
///
/// The command has the terminal, the process group and the descriptors of this process. To be
/// called by a process of one thread, which [minds its children](super::mind_children).
///
/// # Errors
/// Those who observed the command are gone, so that how it ended is not known.
pub fn run(words: &[OsString], work: impl FnOnce(&mut Observer, &Reporter)) -> io::Result<Outcome> {
    if let Some(path) = words.first().and_then(|word| gains_privileges(word)) {
        return Ok(Outcome::Unobserved(Unobserved::GainsPrivileges(path)));
    }
    let inherited = descriptors();
    let mask = Mask::current();
    // Other signals of a caller's end come to us, and are handed on.
    let asked = rustix::process::parent_process_death_signal();
    let dies_with_caller = asked == Ok(Some(Signal::KILL));
    let outcome = match part() {
        Ok(Parted::Beside(reporter)) => {
            let start = Start { words, inherited: &inherited, mask, dies_with_caller };
            guardian::stand_by(&start, &reporter, work)
        }
        Ok(Parted::Waiting(stream, signals)) => {
            drop(work);
            waiter::wait(stream, &signals, &inherited)
        }
        Err(error) => Ok(Outcome::Unobserved(Unobserved::Refused(error))),
    };
    if !matches!(outcome, Ok(Outcome::Ended { .. })) {
        sys::release_signals(mask);
    }
    outcome
}

/// Who one is once there are two processes, and by what it hears of the other.
enum Parted {
    /// The one that was called.
    Waiting(UnixStream, Signals),
    /// The new one.
    Beside(Reporter),
}

fn part() -> io::Result<Parted> {
    may_wait()?;
    may_look()?;
    let signals = Signals::hold_all()?;
    let (ours, theirs) = UnixStream::pair()?;
    let waiter = rustix::process::getpid();
    Ok(match sys::fork()? {
        Forked::Child => Parted::Beside(Reporter::new(theirs, waiter)),
        Forked::Parent(_) => Parted::Waiting(ours, signals.and_faults()),
    })
}

/// Whether it can be learned how a command ends: a sandbox may refuse the call that tells it.
fn may_wait() -> io::Result<()> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::All, look) {
        Ok(_) | Err(Errno::CHILD) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether programs are shown by the numbers that they have here: nothing may be mounted, or what shows
/// another PID namespace.
fn may_look() -> io::Result<()> {
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    match std::fs::read_link("/proc/self") {
        Ok(shown) if shown.as_os_str() == &*own => Ok(()),
        _ => Err(io::Error::other("/proc does not show its processes")),
    }
}

/// Becomes the command, unobserved; returns only if that fails.
pub fn replace(words: &[OsString]) -> io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    let mut command = Command::new(program);
    Mask::current().give(command.args(arguments), []);
    command.exec()
}

/// Descriptors beyond the standard three that this process was started with.
fn descriptors() -> Vec<RawFd> {
    let listed = std::fs::read_dir("/proc/self/fd");
    let number = |entry: DirEntry| entry.file_name().to_str()?.parse().ok();
    // Where nothing lists them the command is not observed.
    let numbers = listed.into_iter().flatten().flatten().filter_map(number);
    // What was opened here is not inherited in turn.
    numbers.filter(|fd| *fd > 2 && sys::is_inherited(*fd)).collect()
}

/// The file of a program that is there to gain privileges, if this word stands for one.
fn gains_privileges(word: &OsStr) -> Option<PathBuf> {
    // Who may administer the system is filtered without giving anything up.
    let own = rustix::thread::capabilities(None);
    if own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN)) {
        return None;
    }
    let path = found(word)?;
    let metadata = path.metadata().ok()?;
    let set_id = metadata.mode() & (libc::S_ISUID | libc::S_ISGID) != 0;
    let has_capabilities =
        || rustix::fs::getxattr(&path, "security.capability", &mut [0_u8; 64]).is_ok();
    (set_id || has_capabilities()).then_some(path)
}

/// The file that is run for this word.
fn found(word: &OsStr) -> Option<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(word));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| FOLDERS.into());
    let candidates = std::env::split_paths(&folders).map(|folder| folder.join(word));
    candidates.into_iter().find(|path| path.is_file() && may_run(path))
}

/// Whether this process may run a file: what it may not it passes over, and looks on.
fn may_run(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Leaves the folder that the caller is in: its file system could not be unmounted.
pub(super) fn let_go_of_folder() {
    let _ = rustix::process::chdir("/");
}

/// Leaves nothing of these of the caller's standard streams open.
pub(super) fn let_go_of_streams(streams: impl IntoIterator<Item = RawFd>) {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null");
    // Where there are no devices, what is in memory alone does: nothing reads it, and little is written.
    let null = null.map(OwnedFd::from).or_else(|_| memfd_create("null", MemfdFlags::CLOEXEC));
    let Ok(null) = null else { return };
    // A stream that stays open keeps its reader from seeing the end.
    for stream in streams {
        let _ = match stream {
            libc::STDIN_FILENO => rustix::stdio::dup2_stdin(&null),
            libc::STDOUT_FILENO => rustix::stdio::dup2_stdout(&null),
            _ => rustix::stdio::dup2_stderr(&null),
        };
    }
}
