//! Whether a mount answers, found out by somebody who can be left behind.
//!
//! A thread that waits for a hung FUSE program cannot be killed, and neither
//! can the process that it belongs to. So the first to ask a mount that may
//! hang is another process, which dies alone; or a thread of a process that
//! may be left behind itself.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{self as sysfs, AtFlags, StatxFlags};
use rustix::io::Errno;

use super::bounded;
use crate::Clock;

/// How long an answer holds: asking takes a process one to three milliseconds,
/// once in this time while nothing else is asked of the mount.
const ANSWER_HOLDS: Duration = Duration::from_secs(1);
/// How long a mount that did not answer is left alone: a run over many of its
/// files must not wait for each.
const SILENCE_HOLDS: Duration = Duration::from_secs(30);
/// The program that asks; where it is missing the question is passed over.
const ASKER: &str = "/usr/bin/stat";

/// What mounts last answered.
#[derive(Debug, Default)]
pub(crate) struct Canaries {
    asker: Asker,
    mounts: Mutex<HashMap<u64, Known>>,
    answered: Condvar,
}

/// Who asks, and may come to hang.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Asker {
    #[default]
    Process,
    Thread,
}

/// What is known of a mount.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// It was asked, or answered another question.
    Last { at: Duration, answered: bool },
    /// It is being asked: who comes meanwhile waits for that answer.
    Asked,
}

impl Canaries {
    pub(crate) fn by(asker: Asker) -> Self {
        Self { asker, ..Self::default() }
    }

    /// Whether the mount numbered `mount` answers a question about `path`
    /// within `limit`, or did a moment ago. Without a number it is asked each time.
    pub(crate) fn answers(
        &self,
        mount: Option<u64>,
        path: &Path,
        limit: Duration,
        clock: &Clock,
    ) -> bool {
        let Some(id) = mount else { return self.asker.ask(path, limit) };
        let mut mounts = self.lock();
        loop {
            match mounts.get(&id) {
                Some(Known::Asked) => {
                    mounts = self.answered.wait(mounts).unwrap_or_else(PoisonError::into_inner);
                }
                Some(&Known::Last { at, answered }) if holds(answered, at, clock) => {
                    return answered;
                }
                _ => break,
            }
        }
        mounts.insert(id, Known::Asked);
        drop(mounts);
        let answered = self.asker.ask(path, limit);
        self.note(Some(id), answered, clock);
        answered
    }

    /// Notes whether a mount answered another question.
    pub(crate) fn note(&self, mount: Option<u64>, answered: bool, clock: &Clock) {
        if let Some(id) = mount {
            self.lock().insert(id, Known::Last { at: clock.now(), answered });
            self.answered.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn holds(answered: bool, at: Duration, clock: &Clock) -> bool {
    clock.now().saturating_sub(at) < if answered { ANSWER_HOLDS } else { SILENCE_HOLDS }
}

impl Asker {
    /// Asks about `path`; any answer will do, also that there is no such file.
    fn ask(self, path: &Path, limit: Duration) -> bool {
        let path = path.to_owned();
        let asked = move || match self {
            // What the kernel remembers is no answer of the mount. Older programs cannot be told so.
            Self::Process => {
                let _ = run(&["-L", "--cached=never"], &path) || run(&["-L"], &path);
            }
            Self::Thread => look(&path),
        };
        bounded::within(limit, asked).is_some()
    }
}

/// Looks at `path` in this very thread, and not at what the kernel remembers of it.
fn look(path: &Path) {
    let seen = sysfs::statx(sysfs::CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE);
    if seen.is_err_and(|error| error == Errno::NOSYS) {
        // A sandbox that knows no statx.
        let _ = sysfs::stat(path);
    }
}

/// Whether the program that asks could be run, and liked what it was told and found.
fn run(options: &[&str], path: &Path) -> bool {
    let mut asker = Command::new(ASKER);
    // Without an environment no language is looked up, nor is a user for the size; asked for
    // nothing at all, the mount would not be asked.
    asker.args(options).args(["--format=%s", "--"]).arg(path).env_clear();
    asker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    asker.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_an_answer_too() {
        for asker in [Asker::Process, Asker::Thread] {
            assert!(asker.ask(Path::new("/nowhere/to be found"), Duration::from_mins(1)));
        }
    }

    #[test]
    fn a_silent_mount_is_left_alone_for_a_while() {
        let (canaries, clock) = (Canaries::default(), Clock::manual());
        let answers = || canaries.answers(Some(7), Path::new("/"), Duration::from_mins(1), &clock);
        canaries.note(Some(7), false, &clock);
        assert!(!answers());
        clock.advance(SILENCE_HOLDS);
        assert!(answers());
    }
}
