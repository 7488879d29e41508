//! The `ssh` processes that connections over SFTP are. They go into the background as soon as they
//! are connected, and would outlive the run.

use std::fs;
use std::path::{Path, PathBuf};

use nearfirst::{Name, Spec};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

/// How the folders are called in which connections are reached.
const FOLDER: &str = ".ssh-connection";

/// Whether a spec may name what is reached over SFTP.
pub(super) fn may_come_of(spec: &Spec) -> bool {
    match spec {
        Spec::Glob(glob) => glob.alternatives().iter().flatten().any(is_reached),
        Spec::List(_) | Spec::ListFile(_) => true,
        Spec::Query { .. } | Spec::Program { .. } => false,
    }
}

fn is_reached(name: impl AsRef<[u8]>) -> bool {
    Name::new(name.as_ref()).scheme() == Some("sftp")
}

/// Has those that are begun from now on come back to this process when they go into the background.
/// So does everything else that does.
pub(super) fn keep() {
    // Where that cannot be had, they stay behind.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Ends them, with what they are reached by.
pub(super) fn end() {
    let connections: Vec<_> =
        children().filter_map(|child| Some((child, folder(child)?))).collect();
    for (child, _) in &connections {
        let _ = kill_process(*child, Signal::TERM);
    }
    for (child, folder) in connections {
        let _ = waitpid(Some(child), WaitOptions::empty());
        drop(fs::remove_dir_all(folder));
    }
}

fn children() -> impl Iterator<Item = Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let told = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = told.flat_map(|told| told.split_whitespace().map(str::parse).collect::<Vec<_>>());
    numbers.flatten().filter_map(Pid::from_raw)
}

/// The folder that a connection is reached by, if a process is one.
fn folder(process: Pid) -> Option<PathBuf> {
    let words = fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).ok()?;
    let words = String::from_utf8(words).ok()?;
    let folders = words.split('\0').filter_map(|word| Path::new(word).parent());
    let is_one = |folder: &&Path| {
        folder
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with(FOLDER))
    };
    folders.filter(is_one).map(Path::to_owned).next()
}
