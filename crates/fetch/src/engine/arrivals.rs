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
    /// Threads that wait.
    threads: usize,
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
    }

    /// Tells those who wait, of tasks no more than there are members; the engine's lock need not be held.
    pub(crate) fn wake(&self) {
        let mut here = self.lock();
        let wakers = here.first_in_line();
        let (threads, one) = (here.threads, here.members.len() == 1 && !here.ended);
        drop(here);
        match threads {
            0 => {}
            _ if one => self.more.notify_one(),
            _ => self.more.notify_all(),
        }
        wakers.into_iter().for_each(Waker::wake);
    }
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

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Consumers that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.threads + self.tasks
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

    /// Takes out who is to be woken: as many as there are members, all at the end.
    pub(crate) fn first_in_line(&mut self) -> Vec<Waker> {
        if self.ended {
            return std::mem::take(&mut self.wakers).into_values().collect();
        }
        let woken = self.members.len().min(self.wakers.len());
        (0..woken).filter_map(|_| self.wakers.pop_first()).map(|(_, waker)| waker).collect()
    }
}
