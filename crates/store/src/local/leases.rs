//! Leases on files: who opens a file that another holds a lease to write on takes it from its holder,
//! who is told by a signal that ends a program which does not expect it (`F_SETLEASE` in fcntl(2)).

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::bounded;
use crate::sync::lock;

/// How old what is known may be before it is asked for again, by another thread.
const FRESH: Duration = Duration::from_secs(1);
/// How old it may be before the answer is waited for: it takes the kernel some milliseconds.
const USABLE: Duration = Duration::from_secs(10);

/// The files on which leases were held a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<Told>);

/// What is known, since when, and what was asked for meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Told {
    files: HashSet<u64>,
    at: Option<Duration>,
    asked: Option<(Receiver<Answer>, Duration)>,
}

/// The numbers of the files, or why they could not be found out.
type Answer = io::Result<HashSet<u64>>;

impl Leases {
    /// Whether anybody may hold one on a file of this number, on whatever file system: somebody did no
    /// longer than seconds ago, or it cannot be found out.
    pub(crate) fn is_leased(&self, inode: u64, now: Duration) -> bool {
        self.ask(now).is_leased(inode, now)
    }

    /// Has it be found out, unless it is known.
    pub(crate) fn ask(&self, now: Duration) -> MutexGuard<'_, Told> {
        let mut told = lock(&self.0);
        told.hear(Receiver::try_recv);
        if told.is_older(FRESH, now) && told.asked.is_none() {
            told.asked = bounded::begun(leased).ok().map(|answers| (answers, now));
        }
        told
    }
}

impl Told {
    fn is_leased(&mut self, inode: u64, now: Duration) -> bool {
        if self.is_older(USABLE, now) {
            self.hear(|answers| Ok(answers.recv()?));
        }
        self.is_older(USABLE, now) || self.files.contains(&inode)
    }

    fn is_older(&self, than: Duration, now: Duration) -> bool {
        self.at.is_none_or(|at| now.saturating_sub(at) > than)
    }

    /// What is known only grows older where it could not be found out, and is asked for again.
    fn hear(&mut self, hear: impl FnOnce(&Receiver<Answer>) -> Result<Answer, TryRecvError>) {
        let Some((answers, asked_at)) = self.asked.take() else { return };
        match hear(&answers) {
            Ok(Ok(files)) => (self.files, self.at) = (files, Some(asked_at)),
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => {}
            Err(TryRecvError::Empty) => self.asked = Some((answers, asked_at)),
        }
    }
}

/// The numbers of the files on which somebody holds a lease to write; none where nobody tells.
fn leased() -> Answer {
    match std::fs::read_to_string("/proc/locks") {
        Ok(locks) => Ok(locks.lines().filter_map(leased_file).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
        Err(error) => Err(error),
    }
}

/// Of a line such as `7: LEASE  ACTIVE    WRITE 4711 fe:00:1234 0 EOF`.
fn leased_file(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (kind, _, access, _, file) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let takes = matches!(kind, "LEASE" | "DELEG") && access == "WRITE";
    takes.then(|| file.rsplit(':').next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn any_file_may_be_leased_where_what_is_known_is_old_and_nobody_could_be_asked() {
        let mut told = Told { at: Some(Duration::ZERO), ..Told::default() };
        assert!(!told.is_leased(1234, USABLE));
        assert!(told.is_leased(1234, USABLE + Duration::from_secs(1)));
        assert!(Told::default().is_leased(1234, Duration::ZERO));
    }

    #[test]
    fn what_could_not_be_found_out_leaves_what_is_known_and_is_asked_for_again() {
        let (sender, answers) = mpsc::sync_channel(1);
        sender.send(Err(io::ErrorKind::PermissionDenied.into())).expect("there is room");
        let (panicked, nothing) = mpsc::sync_channel(1);
        drop(panicked);
        for answers in [answers, nothing] {
            let mut told = Told {
                files: HashSet::from([1234]),
                at: Some(Duration::ZERO),
                asked: Some((answers, FRESH)),
            };
            told.hear(Receiver::try_recv);
            assert!(told.asked.is_none());
            assert_eq!((told.at, told.files.len()), (Some(Duration::ZERO), 1));
        }
    }

    #[test]
    fn what_was_not_answered_yet_is_not_asked_for_twice() {
        let (_sender, answers) = mpsc::sync_channel(1);
        let mut told = Told { asked: Some((answers, FRESH)), ..Told::default() };
        told.hear(Receiver::try_recv);
        assert!(told.asked.is_some());
    }

    #[test]
    fn a_lease_that_readers_take_is_told_from_others_and_from_locks() {
        assert_eq!(leased_file("2: LEASE  ACTIVE    WRITE 4711 fe:00:1234 0 EOF"), Some(1234));
        assert_eq!(leased_file("1: DELEG  BREAKING  WRITE 4711 00:2a:1234 0 EOF"), Some(1234));
        assert_eq!(leased_file("2: LEASE  ACTIVE    READ 4711 fe:00:1234 0 EOF"), None);
        assert_eq!(leased_file("2: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"), None);
        assert_eq!(leased_file("2: -> POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"), None);
        assert_eq!(leased_file(""), None);
    }
}
