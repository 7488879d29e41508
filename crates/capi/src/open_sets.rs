//! The sets of this process by number, as a process has its open files.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use nearfirst::{Member, MemberCopy, Name, Set, Turn};
use tokio::sync::{Notify, watch};

use crate::bell::Bell;
use crate::callback::outside;
use crate::descriptor::{Identity, identity};
use crate::engine::own;
use crate::error::Failure;
use crate::sync::lock;

/// Sets that may be open at once, as many as descriptors by default: a program
/// that needs more forgets to close them.
const SETS_MAX: c_int = 1024;

static SETS: Mutex<BTreeMap<c_int, Arc<OpenSet>>> = Mutex::new(BTreeMap::new());

/// An open set, and what its C caller may ask about what it got.
#[derive(Debug)]
pub(crate) struct OpenSet {
    set: Set,
    given: Arc<Mutex<Given>>,
    closed: Arc<watch::Sender<bool>>,
    left: Mutex<Vec<Half>>,
    is_left: Notify,
    /// Of an event loop, if there is one.
    bell: Arc<OnceLock<Arc<Bell>>>,
    coming: Mutex<Coming>,
}

/// A member that is not whole yet.
#[derive(Debug)]
pub(crate) struct Half {
    pub(crate) member: Member,
    /// A line for each.
    pub(crate) headers: String,
    /// What of it was copied to its descriptor.
    pub(crate) copy: Option<MemberCopy>,
}

impl Half {
    pub(crate) fn of(member: Member) -> Self {
        let line = |(name, value): (String, String)| [name, ": ".into(), value, "\n".into()];
        let headers = member.headers().into_iter().flat_map(line).collect();
        Self { member, headers, copy: None }
    }
}

/// What the calls of an event loop wait for, from one to the next.
#[derive(Debug, Default)]
pub(crate) struct Coming {
    pub(crate) turn: Turn,
    pub(crate) half: Option<Half>,
}

/// Which member a descriptor was given for; a number that is used again takes
/// the place of the one before, so there are no more than numbers.
type Given = HashMap<c_int, (Identity, Origin)>;

/// What is told of a member by its descriptor.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) name: Name,
    /// A line for each.
    pub(crate) headers: String,
}

impl OpenSet {
    pub(crate) fn new(set: Set) -> Self {
        Self {
            set,
            given: Arc::default(),
            closed: Arc::default(),
            left: Mutex::default(),
            is_left: Notify::new(),
            bell: Arc::default(),
            coming: Mutex::default(),
        }
    }

    /// The same set from its start: the descriptors that it has given stay known.
    pub(crate) fn rewound(&self) -> Self {
        let (given, closed) = (Arc::clone(&self.given), Arc::clone(&self.closed));
        Self { given, closed, bell: Arc::clone(&self.bell), ..Self::new(self.set.rewind()) }
    }

    /// Waits for what is asked of the set.
    ///
    /// # Errors
    /// `EBADF` once the set is closed.
    pub(crate) fn wait<T>(&self, asked: impl Future<Output = T>) -> Result<T, Failure> {
        let mut closed = self.closed.subscribe();
        self.set.wait(async {
            tokio::select! {
                biased;
                told = asked => Ok(told),
                _ = closed.wait_for(|closed| *closed) => {
                    Err(Failure::new(libc::EBADF, "the set was closed while this call waited"))
                }
            }
        })
    }

    /// Leaves a member to who asks for one next.
    pub(crate) fn leave(&self, half: Half) {
        lock(&self.left).push(half);
        self.is_left.notify_one();
        self.ring();
    }

    /// A member that somebody left.
    pub(crate) async fn left(&self) -> Half {
        loop {
            if let Some(half) = self.take_left() {
                return half;
            }
            self.is_left.notified().await;
        }
    }

    pub(crate) fn take_left(&self) -> Option<Half> {
        let mut left = lock(&self.left);
        let half = left.pop();
        if !left.is_empty() {
            // Of several that were left, one alone may have been told of.
            self.is_left.notify_one();
        }
        half
    }

    /// The bell of an event loop, which begins to use one.
    pub(crate) fn bell(&self) -> Result<&Bell, Failure> {
        if self.bell.get().is_none() {
            let bell = Arc::new(Bell::new()?);
            let _first = self.bell.set(bell);
        }
        Ok(self.bell.get().expect("set above, or by another thread"))
    }

    pub(crate) fn has_bell(&self) -> Option<&Arc<Bell>> {
        self.bell.get()
    }

    fn ring(&self) {
        if let Some(bell) = self.has_bell() {
            bell.ring();
        }
    }

    pub(crate) fn coming(&self) -> MutexGuard<'_, Coming> {
        lock(&self.coming)
    }

    /// Has an event loop give up what it waits for, for a call that waits, and ask once more.
    pub(crate) fn put_by(&self) {
        let Some(bell) = self.has_bell() else { return };
        let Coming { mut turn, half } = std::mem::take(&mut *self.coming());
        self.set.leave(&mut turn);
        if let Some(half) = half {
            self.leave(half);
        }
        bell.ring();
    }

    pub(crate) fn set(&self) -> &Set {
        &self.set
    }

    /// Remembers whose data a descriptor gives.
    pub(crate) fn remember(&self, fd: &OwnedFd, origin: Origin) -> Result<(), Failure> {
        let fd = fd.as_raw_fd();
        let identity = identity(fd)?;
        let before = lock(&self.given).insert(fd, (identity, origin));
        drop(before);
        Ok(())
    }

    /// The member that a descriptor was given for.
    pub(crate) fn origin_of(&self, fd: c_int) -> Result<Origin, Failure> {
        let identity = identity(fd)?;
        match lock(&self.given).get(&fd) {
            Some((known, origin)) if *known == identity => Ok(origin.clone()),
            _ => {
                let message = format!("descriptor {fd} is no member of this set");
                Err(Failure::new(libc::EINVAL, message))
            }
        }
    }
}

/// Gives a set the lowest number that is free.
pub(crate) fn insert(set: Set) -> Result<c_int, Failure> {
    let opened = Arc::new(OpenSet::new(set));
    let mut sets = lock(&SETS);
    let number = (1..).zip(sets.keys()).find(|(number, used)| number != *used);
    let number = number.map_or_else(
        || c_int::try_from(sets.len()).expect("at most the limit") + 1,
        |(free, _)| free,
    );
    if number > SETS_MAX {
        drop(sets);
        let message = format!("{SETS_MAX} sets are open: close those that are done with");
        return Err(Failure::new(libc::EMFILE, message));
    }
    sets.insert(number, opened);
    Ok(number)
}

/// The set of this number, for the time of a call.
pub(crate) fn get(number: c_int) -> Result<Arc<OpenSet>, Failure> {
    outside()?;
    own()?;
    lock(&SETS).get(&number).map(Arc::clone).ok_or_else(|| no_such(number))
}

/// Puts `after` in the place of `before`, or of what another thread made of that, unless the set
/// was closed meanwhile.
pub(crate) fn replace(number: c_int, before: &OpenSet, after: OpenSet) -> Result<(), Failure> {
    let after = Arc::new(after);
    let mut sets = lock(&SETS);
    let place = sets.get_mut(&number);
    let place = place.filter(|place| Arc::ptr_eq(&place.given, &before.given));
    let replaced = place.map(|place| std::mem::replace(place, after));
    // What it held is not dropped under the lock.
    drop(sets);
    replaced.map(drop).ok_or_else(|| no_such(number))?;
    // Who waits for the old one goes on, and the event loop with the new one.
    before.put_by();
    Ok(())
}

/// Takes a set out: calls that wait for it return, and it ends with them.
pub(crate) fn remove(number: c_int) -> Result<(), Failure> {
    outside()?;
    own()?;
    let removed = lock(&SETS).remove(&number).ok_or_else(|| no_such(number))?;
    removed.closed.send_replace(true);
    Ok(())
}

fn no_such(number: c_int) -> Failure {
    Failure::new(libc::EBADF, format!("there is no set {number}: not opened, or closed"))
}

#[cfg(test)]
mod tests {
    use nearfirst::Setup;

    use super::*;
    use crate::engine::engine;

    #[test]
    fn a_set_is_begun_anew_by_two_at_once_and_by_none_once_closed() {
        let set = Set::open(
            &engine(Setup::default()).expect("threads"),
            [],
            nearfirst::SetOptions::default(),
        );
        let number = insert(set).expect("few are open");
        let before = get(number).expect("it is open");
        for _ in 0..2 {
            replace(number, &before, before.rewound()).expect("it is open");
        }
        remove(number).expect("it is open");
        assert!(replace(number, &before, before.rewound()).is_err());
        let other = Set::open(
            &engine(Setup::default()).expect("threads"),
            [],
            nearfirst::SetOptions::default(),
        );
        assert_eq!(insert(other).expect("few are open"), number);
        assert!(replace(number, &before, before.rewound()).is_err(), "it is another's number");
        remove(number).expect("it is open");
    }
}
