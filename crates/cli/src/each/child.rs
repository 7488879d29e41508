//! Runs a command in a process group of its own, and ends it if the run is broken off.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use nearfirst::Name;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use store::{is_short_of_descriptors, lock};
use tokio::runtime::Handle;

use crate::sets::interrupt::{self, Prepared};
use crate::{human, messages, program};

/// How often it is tried to begin a command while none runs that would give back what is missing.
const TRIES_ALONE: u32 = 10;
/// How long is waited for that, each time, though none ends.
const TRIES_EVERY: Duration = Duration::from_millis(100);
/// How long a command may take to end when it is asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// Where what a command writes goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    /// To files, to be written when it has ended.
    Kept,
    /// To our own, as it comes.
    Shared,
}

/// What a command wrote.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) stdout: File,
    pub(super) stderr: File,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With 0.
    Well,
    /// With another code.
    With(i32),
    /// By a signal.
    BySignal(i32),
    /// By us: it was stopped because it is in the background of a terminal and would read from it.
    AtTerminal,
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) => Self::Well,
            (Some(code), _) => Self::With(code),
            (None, signal) => Self::BySignal(signal.unwrap_or(0)),
        }
    }
}

/// The commands that run.
#[derive(Debug)]
pub(super) struct Children {
    running: Arc<Running>,
    /// For what they write.
    folder: PathBuf,
    streams: Streams,
    _ended: Prepared,
}

#[derive(Debug, Default)]
struct Running {
    groups: Mutex<Groups>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Groups {
    alive: HashSet<Pid>,
    /// How many are being started, which may take for ever where their programs lie.
    starting: usize,
    /// How many have ended.
    over: u64,
    /// A command could not be begun though none ran, and none has been since.
    is_hopeless: bool,
    /// The run is broken off: nothing is begun.
    closed: bool,
}

impl Children {
    /// What they write, if it is kept, is kept in `folder`.
    ///
    /// # Errors
    /// That there is no place for it.
    pub(super) fn new(folder: PathBuf, streams: Streams) -> anyhow::Result<Self> {
        if streams == Streams::Kept {
            tempfile::tempfile_in(&folder).map_err(|error| {
                let (folder, reason) = (human::name(&folder), messages::reason(&error));
                anyhow::anyhow!(
                    "{folder}: {reason}; what commands write is kept there, if neither --spill nor \
                     TMPDIR names another folder"
                )
            })?;
        }
        let running = Arc::<Running>::default();
        let ended = Arc::clone(&running);
        Ok(Self { running, folder, streams, _ended: interrupt::prepare(move || ended.end()) })
    }

    /// Has commands stop where a terminal stops this process, and go on with it.
    pub(super) fn stop_with_us(&self, runtime: &Handle) {
        let running = Arc::clone(&self.running);
        interrupt::tell_of_stops(runtime, move |signal| lock(&running.groups).signal(signal));
    }

    /// Runs a command to its end. Where there are too many files or processes for one more, it is begun
    /// once another has ended.
    ///
    /// # Errors
    /// The system's, if it cannot be run; [`io::ErrorKind::Interrupted`] if the run is broken off;
    /// [`io::ErrorKind::Other`] if there is no place for what it writes.
    pub(super) fn run(
        &self,
        words: &[OsString],
        name: &Name,
    ) -> io::Result<(Ended, Option<Output>)> {
        let (group, output) = self.running.patiently(|| self.begin(words, name))?;
        let ended = ended(group);
        let mut groups = lock(&self.running.groups);
        groups.alive.remove(&group);
        groups.over += 1;
        self.running.ended.notify_all();
        if groups.closed {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok((ended?, output))
    }

    fn begin(&self, words: &[OsString], name: &Name) -> io::Result<(Pid, Option<Output>)> {
        let output = match self.streams {
            Streams::Shared => None,
            Streams::Kept => Some(Output { stdout: self.file()?, stderr: self.file()? }),
        };
        let set_up = |command: &mut Command| {
            command.stdin(Stdio::null()).process_group(0);
            command.env("NEARFIRST_NAME", OsStr::from_bytes(name.as_bytes()));
            if let Some(output) = &output {
                command.stdout(output.stdout.try_clone()?).stderr(output.stderr.try_clone()?);
            }
            Ok(())
        };
        let group = self.running.start(|| program::start(words, set_up))?;
        Ok((group, output))
    }

    fn file(&self) -> io::Result<File> {
        tempfile::tempfile_in(&self.folder).map_err(|error| {
            if is_passing(&error) {
                return error;
            }
            let folder = human::name(&self.folder);
            io::Error::other(format!(
                "{folder}: what its command writes: {}",
                messages::reason(&error)
            ))
        })
    }
}

/// Whether there are too many files or processes at this moment.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock)
        || is_short_of_descriptors(error)
}

/// Waits for the leader of a group.
fn ended(leader: Pid) -> io::Result<Ended> {
    let mut at_terminal = false;
    loop {
        let status = retry_on_intr(|| waitpid(Some(leader), WaitOptions::UNTRACED))?;
        let Some((_, status)) = status else { continue };
        if !status.stopped() {
            let ended = ExitStatus::from_raw(status.as_raw()).into();
            return Ok(if at_terminal { Ended::AtTerminal } else { ended });
        }
        let signal = status.stopping_signal().unwrap_or_default();
        if [Signal::TTIN, Signal::TTOU].iter().any(|stops| stops.as_raw() == signal) {
            at_terminal = true;
            // It would be stopped again where it went on. What is another user's by now stays there.
            if kill_process_group(leader, Signal::KILL) == Err(Errno::PERM) {
                return Ok(Ended::AtTerminal);
            }
        }
    }
}

impl Running {
    /// Tries what the system may have no room for at the moment.
    fn patiently<T>(&self, attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let (mut tries_alone, mut known) = (0, 0);
        loop {
            let done = attempt();
            let mut groups = lock(&self.groups);
            if !done.as_ref().is_err_and(is_passing) {
                groups.is_hopeless &= done.is_err();
                return done;
            }
            if groups.alive.is_empty() && groups.over == known {
                tries_alone += 1;
                if groups.is_hopeless || tries_alone == TRIES_ALONE {
                    groups.is_hopeless = true;
                    return done;
                }
            }
            known = groups.over;
            if groups.closed {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let none_ended = |groups: &mut Groups| groups.over == known && !groups.closed;
            drop(self.ended.wait_timeout_while(groups, TRIES_EVERY, none_ended));
        }
    }

    /// Starts the leader of a group.
    fn start(&self, start: impl FnOnce() -> io::Result<Child>) -> io::Result<Pid> {
        let mut groups = lock(&self.groups);
        if groups.closed {
            return Err(io::ErrorKind::Interrupted.into());
        }
        groups.starting += 1;
        drop(groups);
        let group = start().map(|child| Pid::from_child(&child));
        let mut groups = lock(&self.groups);
        groups.starting -= 1;
        if let Ok(group) = group {
            groups.alive.insert(group);
            if groups.closed {
                // So that none escapes: who ends all may have looked away by now.
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        drop(groups);
        self.ended.notify_all();
        group
    }

    /// Asks all to end, and then makes them.
    fn end(&self) {
        let mut groups = lock(&self.groups);
        groups.closed = true;
        groups.signal(Signal::TERM);
        // What is stopped hears of it when it goes on.
        groups.signal(Signal::CONT);
        let waited = self.ended.wait_timeout_while(groups, ENDS_WITHIN, |groups| !groups.is_over());
        let (groups, _) = waited.unwrap_or_else(PoisonError::into_inner);
        groups.signal(Signal::KILL);
    }
}

impl Groups {
    fn is_over(&self) -> bool {
        self.starting == 0 && self.alive.is_empty()
    }

    fn signal(&self, signal: Signal) {
        for group in &self.alive {
            // It may have ended this moment.
            let _ = kill_process_group(*group, signal);
        }
    }
}
