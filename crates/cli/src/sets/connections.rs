//! The `ssh` processes that connections over SFTP are. They go into the background as soon as they
//! are connected, and would outlive the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nearfirst::{Name, Spec};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// How the folders are called in which connections are reached.
const FOLDER: &str = ".ssh-connection";
/// How many letters their own names have behind that.
const OWN_LENGTH: usize = 6;
/// What is in them.
const FILES: [&str; 2] = ["master", "log"];
/// How often it is looked whether they have ended, and how often at most.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOKS_MAX: usize = 100;

/// Whether a spec may name what is reached over SFTP.
fn may_come_of(spec: &Spec) -> bool {
    // Of all others it is not known before they are evaluated.
    matches!(spec, Spec::Glob(glob) if glob.alternatives().iter().flatten().any(is_reached))
}

fn is_reached(name: impl AsRef<[u8]>) -> bool {
    Name::new(name.as_ref()).scheme() == Some("sftp")
}

/// As [`keep`], if some may come of these specs.
pub(super) fn keep_for(specs: &[Spec]) {
    if specs.iter().any(may_come_of) {
        keep();
    }
}

/// Has those that are begun from now on come back to this process when they go into the background.
/// So does everything else that does.
fn keep() {
    // Where that cannot be had, they stay behind.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Ends them, with what they are reached by.
#[expect(clippy::disallowed_methods, reason = "what they are waited for takes some milliseconds")]
pub(super) fn end() {
    let connections: Vec<_> =
        children().filter_map(|child| Some((child, folder(child)?))).collect();
    for (child, _) in &connections {
        let _ = kill_process(*child, Signal::TERM);
        let _ = kill_process(*child, Signal::CONT);
    }
    let mut alive: Vec<Pid> = connections.iter().map(|(child, _)| *child).collect();
    for _ in 0..LOOKS_MAX {
        alive.retain(|child| matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None)));
        if alive.is_empty() {
            break;
        }
        sleep(LOOK_EVERY);
    }
    for child in alive {
        let _ = kill_process(child, Signal::KILL);
    }
    for (_, folder) in connections {
        for name in FILES {
            drop(fs::remove_file(folder.join(name)));
        }
        drop(fs::remove_dir(folder));
    }
}

fn children() -> impl Iterator<Item = Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let told = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = told.flat_map(|told| told.split_whitespace().map(str::parse).collect::<Vec<_>>());
    numbers.flatten().filter_map(Pid::from_raw)
}

/// The folder that a connection is reached by, if a process is one that a store has begun.
fn folder(process: Pid) -> Option<PathBuf> {
    let words = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).ok()?;
    let words = String::from_utf8(words).ok()?;
    let socket = words.split('\0').skip_while(|word| *word != "-S").nth(1).map(Path::new)?;
    let folder = socket.parent().filter(|folder| folder.is_absolute())?;
    let has_name = |path: &Path, name| path.file_name().and_then(|own| own.to_str()) == Some(name);
    let own = folder.file_name()?.to_str()?.strip_prefix(FOLDER)?;
    let is_one = own.len() == OWN_LENGTH && has_name(socket, FILES[0]) && words.contains("\0-M\0");
    is_one.then(|| folder.to_owned())
}
