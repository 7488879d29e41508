//! Whether a mount answers, found out by a process that can be left behind.
//!
//! A thread that waits for a hung FUSE program cannot be killed, and neither
//! can the process that it belongs to. So the first to ask a mount that may
//! hang is another process, which dies alone.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::awaited::{Silence, awaited};
use super::unanswered::Begun;
use super::{bounded, sys};
use crate::Clock;
use crate::sync::lock;

/// How long an answer holds: asking takes about a tenth of a millisecond, once in this
/// time while nothing else is asked of the mount.
const ANSWER_HOLDS: Duration = Duration::from_secs(1);
/// How long a mount that did not answer is left alone: a run over many of its
/// files must not wait for each.
const SILENCE_HOLDS: Duration = Duration::from_secs(30);

/// Whether this process may be left behind: see [`super::Local::be_left_behind`].
pub(super) static LEFT_BEHIND: AtomicBool = AtomicBool::new(false);

/// What mounts last answered.
#[derive(Debug, Default)]
pub(crate) struct Canaries {
    mounts: Mutex<HashMap<u64, Known>>,
    answered: Condvar,
}

/// What is known of a mount.
#[derive(Debug)]
enum Known {
    /// It answered, or did not, a question that another asked.
    Last { at: Duration, answered: bool },
    /// It did not answer this question in time. While it has not, another would only hang as well,
    /// with a thread and a process.
    /// But the question may be lost: some day another is asked.
    Silent { at: Duration, patience: Duration, question: Question },
    /// It is being asked: who comes meanwhile waits for that answer.
    Asked,
}

/// What does not answer.
#[derive(Debug)]
pub(crate) enum Silent {
    Mount,
    /// What was asked about alone, by a call that is gone once it has an answer.
    Name(Weak<()>),
}

/// What a mount is asked: about the absolute `path`, for `limit`; that its root at `point` answers may take
/// `mount_limit`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) path: &'a Path,
    pub(crate) limit: Duration,
    pub(crate) point: &'a Path,
    pub(crate) mount_limit: Duration,
}

impl Canaries {
    /// Asks the mount numbered `mount`, unless it answered a moment ago. Without a number it is asked
    /// each time.
    ///
    /// # Errors
    /// What did not answer.
    pub(crate) fn answers(
        &self,
        mount: Option<u64>,
        about: About<'_>,
        clock: &Clock,
    ) -> Result<(), Silent> {
        let Some(id) = mount else { return ask(about, clock).map_err(|silence| silence.0) };
        let mut mounts = lock(&self.mounts);
        loop {
            match mounts.get(&id) {
                Some(Known::Asked) => {
                    mounts = self.answered.wait(mounts).unwrap_or_else(PoisonError::into_inner);
                }
                Some(&Known::Last { at, answered }) if holds(answered, at, clock) => {
                    return if answered { Ok(()) } else { Err(Silent::Mount) };
                }
                Some(Known::Silent { at, patience, question })
                    if holds(false, *at, clock)
                        || is_unanswered(question)
                            && clock.now().saturating_sub(*at) < *patience =>
                {
                    return Err(Silent::Mount);
                }
                _ => break,
            }
        }
        let patience = match mounts.insert(id, Known::Asked) {
            // One that was answered after all was late, and not lost.
            Some(Known::Silent { patience, question, .. }) if is_unanswered(&question) => {
                patience.saturating_mul(2)
            }
            _ => SILENCE_HOLDS * 2,
        };
        drop(mounts);
        let mut asking = Asking { canaries: self, id, known: None };
        let silence = ask(about, clock).err();
        let at = clock.now();
        let (silent, question) =
            silence.map_or((None, None), |(silent, question)| (Some(silent), question));
        asking.known = Some(match question {
            Some(question) => Known::Silent { at, patience, question },
            None => Known::Last { at, answered: true },
        });
        silent.map_or(Ok(()), Err)
    }

    /// Whether the mount numbered `mount` did not answer a question a while ago.
    pub(crate) fn is_silent(&self, mount: Option<u64>, clock: &Clock) -> bool {
        match mount.and_then(|id| lock(&self.mounts).get(&id).map(Known::silent_since)) {
            Some(Some(at)) => holds(false, at, clock),
            _ => false,
        }
    }

    /// Notes whether a mount answered another question.
    pub(crate) fn note(&self, mount: Option<u64>, answered: bool, clock: &Clock) {
        if let Some(id) = mount {
            self.learn(id, Known::Last { at: clock.now(), answered });
        }
    }

    fn learn(&self, id: u64, known: Known) {
        lock(&self.mounts).insert(id, known);
        self.answered.notify_all();
    }
}

/// Who asks a mount, for whom others wait; what comes of it is noted at its end, whichever that is.
struct Asking<'a> {
    canaries: &'a Canaries,
    id: u64,
    known: Option<Known>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut mounts = lock(&self.canaries.mounts);
        // Who panics has nothing to tell.
        mounts.remove(&self.id);
        mounts.extend(self.known.take().map(|known| (self.id, known)));
        drop(mounts);
        self.canaries.answered.notify_all();
    }
}

impl Known {
    /// When it did not answer.
    fn silent_since(&self) -> Option<Duration> {
        match *self {
            Self::Last { at, answered: false } | Self::Silent { at, .. } => Some(at),
            Self::Last { .. } | Self::Asked => None,
        }
    }
}

fn holds(answered: bool, at: Duration, clock: &Clock) -> bool {
    clock.now().saturating_sub(at) < if answered { ANSWER_HOLDS } else { SILENCE_HOLDS }
}

/// Where the answer to a question comes, which may be that nobody could be asked.
type Question = Receiver<io::Result<()>>;

fn is_unanswered(question: &Question) -> bool {
    matches!(question.try_recv(), Err(TryRecvError::Empty))
}

/// Asks; any answer will do, also that there is no such file. Where no process or thread can be begun
/// the question is passed over.
///
/// # Errors
/// What did not answer, and the question that it did not, if it is the mount.
fn ask(about: About<'_>, clock: &Clock) -> Result<(), (Silent, Option<Question>)> {
    // Of a name that no file can have nothing is asked.
    let Some(look) = look_at(about.path, clock) else { return Ok(()) };
    let Ok(Begun { answer, call }) = Begun::new(look) else { return Ok(()) };
    let ask_mount = || {
        let look = look_at(about.point, clock).ok_or(io::ErrorKind::InvalidInput)?;
        bounded::begun(look)
    };
    match awaited(&answer, about.limit, about.mount_limit, ask_mount) {
        Err(Silence::OfMount(question)) => Err((Silent::Mount, Some(question))),
        Err(Silence::OfName) => Err((Silent::Name(call), None)),
        Ok(_) | Err(Silence::Untold(_)) => Ok(()),
    }
}

/// A look at `path` by another process.
fn look_at(path: &Path, clock: &Clock) -> Option<impl FnOnce() -> io::Result<()> + Send + use<>> {
    let (path, clock) = (CString::new(path.as_os_str().as_bytes()).ok()?, clock.clone());
    Some(move || sys::look_apart(path, clock))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn root() -> About<'static> {
        let (path, limit) = (Path::new("/"), Duration::from_mins(1));
        About { path, limit, point: path, mount_limit: limit }
    }

    #[test]
    fn what_is_not_there_is_an_answer_too() {
        let nowhere = About { path: Path::new("/nowhere/to be found"), ..root() };
        assert!(ask(nowhere, &Clock::real()).is_ok());
    }

    #[test]
    fn a_mount_is_not_asked_again_before_it_has_answered() {
        let (canaries, clock) = (Canaries::default(), Clock::manual());
        let answers = || canaries.answers(Some(7), root(), &clock).is_ok();
        let (answer, question) = mpsc::sync_channel(1);
        let patience = SILENCE_HOLDS * 4;
        canaries.learn(7, Known::Silent { at: clock.now(), patience, question });
        clock.advance(SILENCE_HOLDS * 2);
        assert!(!answers());
        answer.send(Ok(())).expect("it is waited for");
        assert!(answers());
    }

    #[test]
    fn a_mount_with_a_question_that_is_lost_is_asked_another_one_some_day() {
        let (canaries, clock) = (Canaries::default(), Clock::manual());
        let answers = || canaries.answers(Some(7), root(), &clock).is_ok();
        let (_lost, question) = mpsc::sync_channel(1);
        let patience = SILENCE_HOLDS * 4;
        canaries.learn(7, Known::Silent { at: clock.now(), patience, question });
        clock.advance(SILENCE_HOLDS * 3);
        assert!(!answers());
        clock.advance(SILENCE_HOLDS);
        assert!(answers());
    }

    #[test]
    fn a_mount_that_answers_late_is_asked_again_as_often_as_one_likes() {
        let (canaries, clock) = (Canaries::default(), Clock::manual());
        let (answer, question) = mpsc::sync_channel(1);
        canaries.learn(7, Known::Silent { at: clock.now(), patience: Duration::MAX, question });
        answer.send(Ok(())).expect("it is waited for");
        drop(answer);
        clock.advance(SILENCE_HOLDS);
        // Too short a limit for an answer, mostly.
        let brief = About { limit: Duration::ZERO, mount_limit: Duration::ZERO, ..root() };
        drop(canaries.answers(Some(7), brief, &clock));
        if let Some(Known::Silent { patience, .. }) = lock(&canaries.mounts).get(&7) {
            assert_eq!(*patience, SILENCE_HOLDS * 2);
        }
    }

    #[test]
    fn who_asks_and_panics_leaves_nobody_waiting() {
        let (canaries, clock) = (Canaries::default(), Clock::manual());
        lock(&canaries.mounts).insert(7, Known::Asked);
        drop(Asking { canaries: &canaries, id: 7, known: None });
        assert!(canaries.answers(Some(7), root(), &clock).is_ok());
    }

    #[test]
    fn a_silent_mount_is_left_alone_for_a_while() {
        let (canaries, clock) = (Canaries::default(), Clock::manual());
        let answers = || canaries.answers(Some(7), root(), &clock).is_ok();
        canaries.note(Some(7), false, &clock);
        assert!(!answers());
        clock.advance(SILENCE_HOLDS);
        assert!(answers());
    }
}
