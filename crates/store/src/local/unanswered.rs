//! Names that do not answer on mounts that do.
//!
//! Each keeps whoever asked waiting, and a thread for as long as it does not answer. So the more of them a
//! mount has, the less each further one is waited for, and there is an end to how many are asked for.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::bounded;
use crate::Clock;
use crate::sync::lock;

/// How many names of a mount may hang before nothing else on it is asked for. With the n-th waited for an n-th
/// of the limit, they cost less than five limits together, one after the other.
const HANGING_MAX: usize = 64;
/// How long nothing else is asked for: in a process that lives on, the answers may be lost for good.
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// Names that did not answer, by the number of their mount.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<HashMap<u64, Vec<Hanging>>>);

/// A name that did not answer.
#[derive(Debug)]
struct Hanging {
    path: PathBuf,
    waited: Duration,
    /// When it was given up.
    at: Duration,
    call: Weak<()>,
}

/// A call that was begun, and may never return.
#[derive(Debug)]
pub(super) struct Begun<T> {
    pub(super) answer: Receiver<T>,
    /// Gone once it has returned.
    pub(super) call: Weak<()>,
}

impl<T: Send + 'static> Begun<T> {
    /// # Errors
    /// The system's, where no thread can be had.
    pub(super) fn new(call: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let under_way = Arc::new(());
        let begun = Arc::downgrade(&under_way);
        let answer = bounded::begun(move || {
            let answer = call();
            drop(under_way);
            answer
        })?;
        Ok(Self { answer, call: begun })
    }
}

impl Unanswered {
    /// How much of `limit` to wait for `path`, an absolute one.
    ///
    /// # Errors
    /// That it is not asked for, since it hangs, or too many others do.
    pub(super) fn patience(
        &self,
        mount: Option<u64>,
        path: &Path,
        limit: Duration,
        clock: &Clock,
    ) -> io::Result<Duration> {
        let mut mounts = lock(&self.0);
        let Some(hanging) = mount.and_then(|id| mounts.get_mut(&id)) else { return Ok(limit) };
        hanging.retain(Hanging::hangs);
        if let Some(same) = hanging.iter().find(|name| name.path == path) {
            return Err(no_answer(same.waited));
        }
        let before = hanging.len();
        let is_fresh = |name: &Hanging| clock.now().saturating_sub(name.at) < LEFT_ALONE;
        if before >= HANGING_MAX && hanging.last().is_some_and(is_fresh) {
            return Err(late(format!("not asked for: {before} others on its mount do not answer")));
        }
        Ok(limit / u32::try_from(before + 1).unwrap_or(u32::MAX))
    }

    /// Notes that this call about `path` was not answered for so long, though its mount answers; what to
    /// say of it.
    pub(super) fn note(
        &self,
        mount: Option<u64>,
        path: &Path,
        waited: Duration,
        call: Weak<()>,
        clock: &Clock,
    ) -> io::Error {
        if let Some(id) = mount {
            let name = Hanging { path: path.to_owned(), waited, at: clock.now(), call };
            lock(&self.0).entry(id).or_default().push(name);
        }
        no_answer(waited)
    }
}

impl Hanging {
    fn hangs(&self) -> bool {
        self.call.strong_count() > 0
    }
}

fn no_answer(waited: Duration) -> io::Error {
    // Of a third of a limit no more digits are of interest.
    let waited_s = waited.as_millis() as f64 / 1000.0;
    late(format!("no answer for {waited_s} s, though its mount answers"))
}

fn late(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(12);

    #[test]
    fn names_that_hang_are_waited_for_less_and_less_until_they_answer() {
        let (names, clock) = (Unanswered::default(), Clock::manual());
        let patience = |path| names.patience(Some(7), Path::new(path), LIMIT, &clock).ok();
        let hangs = Arc::new(());
        names.note(Some(7), Path::new("/a"), LIMIT, Arc::downgrade(&hangs), &clock);
        assert_eq!((patience("/a"), patience("/b")), (None, Some(LIMIT / 2)));
        drop(hangs);
        assert_eq!((patience("/a"), patience("/b")), (Some(LIMIT), Some(LIMIT)));
    }

    #[test]
    fn of_a_mount_with_many_that_hang_nothing_is_asked_for_a_while() {
        let (names, clock) = (Unanswered::default(), Clock::manual());
        let other = |mount| names.patience(Some(mount), Path::new("/other"), LIMIT, &clock).ok();
        let hangs = Arc::new(());
        let mut all = Duration::ZERO;
        for _ in 0..HANGING_MAX {
            let waited = other(7).expect("there are fewer");
            all += waited;
            names.note(Some(7), Path::new("/one"), waited, Arc::downgrade(&hangs), &clock);
        }
        assert!(all < LIMIT * 5, "{all:?}");
        assert_eq!((other(7), other(8)), (None, Some(LIMIT)));
        clock.advance(LEFT_ALONE);
        assert!(other(7).is_some());
    }
}
