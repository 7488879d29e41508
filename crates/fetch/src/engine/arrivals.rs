//! The members of one set that arrived and were not handed out yet, and who waits for more.
//!
//! It has a lock of its own: what is here is handed out without the engine's.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use super::item::Item;
use crate::scheduler::{Delivery, MemberId};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};

/// A member as the scheduler delivered it.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) member: MemberId,
    pub(crate) item: Arc<Item>,
    pub(crate) state: Delivery,
}

/// What a set's consumers share.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    here: Mutex<Here>,
    more: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Here {
    members: VecDeque<Delivered>,
    ended: bool,
    /// What the listing of names said as it panicked.
    panicked: Option<String>,
    /// Threads that wait, also those that were woken and have not looked since.
    threads: usize,
    threads_woken: usize,
    /// Tasks that wait, also those that were woken and have not looked since.
    tasks: usize,
    /// Of tasks that were not woken yet, by their place in the line.
    wakers: BTreeMap<u64, Waker>,
    next_place: u64,
}

impl Arrivals {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Here> {
        lock(&self.here)
    }

    /// Waits for a change.
    pub(crate) fn wait<'a>(&'a self, mut here: MutexGuard<'a, Here>) {
        here.threads += 1;
        let mut here = self.more.wait(here).unwrap_or_else(PoisonError::into_inner);
        here.threads -= 1;
        // One that woke of itself only has another woken in vain.
        here.threads_woken = here.threads_woken.saturating_sub(1);
    }

    /// Tells those who wait, no more of them than there are members that nobody was told of; the
    /// engine's lock need not be held.
    pub(crate) fn wake(&self) {
        let Woken { threads, tasks } = self.lock().next_in_line();
        (0..threads).for_each(|_| self.more.notify_one());
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Wakes the first task in the line. Until it has looked no other is woken for a member that
    /// comes, which it takes or leaves to others.
    pub(crate) fn wake_task(&self) {
        let woken = self.lock().wakers.pop_first();
        if let Some((_, waker)) = woken {
            waker.wake();
        }
    }
}

/// Who is to be woken.
#[derive(Debug)]
pub(crate) struct Woken {
    threads: usize,
    tasks: Vec<Waker>,
}

impl Here {
    pub(crate) fn push(&mut self, delivered: Delivered) {
        self.members.push_back(delivered);
    }

    pub(crate) fn pop(&mut self) -> Option<Delivered> {
        self.members.pop_front()
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<Delivered> {
        std::mem::take(&mut self.members)
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Nothing more will be listed: who waits for the end is not to take it for one.
    pub(crate) fn panicked(&mut self, why: &str) {
        self.panicked = Some(why.to_owned());
    }

    pub(crate) fn why_panicked(&self) -> Option<&str> {
        self.panicked.as_deref()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Consumers that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.threads + self.tasks
    }

    /// Consumers that wait beyond the members that are here for them.
    pub(crate) fn lacking(&self) -> usize {
        if self.ended { 0 } else { self.waiting().saturating_sub(self.members.len()) }
    }

    /// Whether who comes now has to wait.
    pub(crate) fn is_still(&self) -> bool {
        self.members.is_empty() && !self.ended
    }

    /// A task waits from now on, until it leaves; in the place that it had, or at the end of the line.
    pub(crate) fn task_waits(&mut self, waker: &Waker, place: Option<u64>) -> u64 {
        let place = place.unwrap_or_else(|| {
            self.next_place += 1;
            self.next_place
        });
        self.tasks += 1;
        self.wakers.insert(place, waker.clone());
        place
    }

    pub(crate) fn task_left(&mut self, place: u64) {
        self.tasks -= 1;
        self.wakers.remove(&place);
    }

    /// Takes out who is to be woken: one for each member that nobody was woken for, all at the end.
    /// Threads come first, and tasks by their places.
    fn next_in_line(&mut self) -> Woken {
        let tasks_woken = self.tasks - self.wakers.len();
        let woken = self.threads_woken + tasks_woken;
        let wanted = if self.ended { usize::MAX } else { self.members.len().saturating_sub(woken) };
        let threads = wanted.min(self.threads - self.threads_woken);
        self.threads_woken += threads;
        let tasks = (wanted - threads).min(self.wakers.len());
        let tasks = (0..tasks).filter_map(|_| self.wakers.pop_first()).map(|(_, waker)| waker);
        Woken { threads, tasks: tasks.collect() }
    }
}

#[cfg(test)]
mod tests {
    use store::{Entry, Name};

    use super::super::item::Source;
    use super::*;

    /// How many threads and tasks are woken once `members` more have come.
    fn woken(here: &mut Here, members: u64) -> (usize, usize) {
        for number in 0..members {
            let entry = Entry::named(Name::from("x"));
            let item = Arc::new(Item::new(0, entry, Source::Nowhere, None));
            let member = MemberId(number);
            here.push(Delivered { member, item, state: Delivery::Whole });
        }
        let Woken { threads, tasks } = here.next_in_line();
        (threads, tasks.len())
    }

    #[test]
    fn one_is_woken_for_each_member() {
        let mut here = Here::default();
        let places = [(); 4].map(|()| here.task_waits(Waker::noop(), None));
        assert_eq!(woken(&mut here, 1), (0, 1));
        assert_eq!(woken(&mut here, 0), (0, 0));
        assert_eq!(woken(&mut here, 1), (0, 1), "the first has not looked yet");
        here.task_left(places[3]);
        assert_eq!(woken(&mut here, 0), (0, 0), "it was not woken for any");
        here.task_left(places[0]);
        assert_eq!(woken(&mut here, 0), (0, 1), "what it was woken for is another's");
        here.threads = 3;
        assert_eq!(woken(&mut here, 2), (2, 0));
        here.end();
        assert_eq!(woken(&mut here, 0), (1, 0));
    }
}
