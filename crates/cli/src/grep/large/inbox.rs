//! What threads hand over to something that takes one thing at a time, without waiting for it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use store::lock;

/// Things that wait before a thread waits with its own: a slow taker slows those who bring.
const MOST: usize = 4;

/// Things on their way. Who finds the taker busy leaves what it brings to who is at it.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    things: Mutex<VecDeque<T>>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self { things: Mutex::new(VecDeque::new()) }
    }
}

impl<T> Inbox<T> {
    /// Brings a thing. `take` is given it and what others brought meanwhile, by this thread or by
    /// another one that is in here; once all have left, all was taken.
    pub(super) fn put<S>(&self, thing: T, taker: &Mutex<S>, mut take: impl FnMut(&mut S, T)) {
        let waiting = self.push(thing);
        let mut turn = if waiting > MOST { Some(lock(taker)) } else { try_lock(taker) };
        while let Some(mut taker_held) = turn {
            while let Some(thing) = self.pop() {
                take(&mut taker_held, thing);
            }
            drop(taker_held);
            // One may have come and found the taker busy since the last look.
            turn = if lock(&self.things).is_empty() { None } else { try_lock(taker) };
        }
    }

    fn push(&self, thing: T) -> usize {
        let mut things = lock(&self.things);
        things.push_back(thing);
        things.len()
    }

    fn pop(&self) -> Option<T> {
        lock(&self.things).pop_front()
    }
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn everything_is_taken_once_whoever_brings_it() {
        const EACH: usize = 10_000;
        let inbox = Inbox::default();
        let taken = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for thread in 0..4 {
                let (inbox, taken) = (&inbox, &taken);
                scope.spawn(move || {
                    for number in 0..EACH {
                        inbox.put(thread * EACH + number, taken, Vec::push);
                    }
                });
            }
        });
        let mut taken = taken.into_inner().expect("nobody panicked");
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..4 * EACH));
    }

    #[test]
    fn who_finds_the_taker_busy_goes_on_until_too_much_waits() {
        let inbox = Inbox::default();
        let taken = Mutex::new(Vec::new());
        let busy = taken.lock().expect("nobody panicked");
        (0..MOST).for_each(|number| inbox.put(number, &taken, Vec::push));
        thread::scope(|scope| {
            let late = scope.spawn(|| inbox.put(MOST, &taken, Vec::push));
            while lock(&inbox.things).len() <= MOST {
                thread::yield_now();
            }
            assert!(!late.is_finished(), "it waits for its turn");
            drop(busy);
        });
        assert_eq!(taken.into_inner().expect("nobody panicked"), [0, 1, 2, 3, 4]);
    }
}
