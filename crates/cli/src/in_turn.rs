//! Results of several threads, written one at a time: in the order of their numbers, or as they come.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use store::lock;

/// Whose turn it is to be written.
#[derive(Debug)]
pub(crate) struct InTurn<T> {
    ahead_max: Option<usize>,
    state: Mutex<State<T>>,
    /// Told when there is another turn, and when there is to be none.
    moved: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// The number whose turn it is.
    next: usize,
    /// Results that wait for their turn.
    waiting: BTreeMap<usize, T>,
    written: io::Result<()>,
}

impl<T> InTurn<T> {
    /// With results of so many numbers at most waiting for their turn; `None`: there is no order.
    pub(crate) fn new(ahead_max: Option<usize>) -> Self {
        let state = State { next: 0, waiting: BTreeMap::new(), written: Ok(()) };
        Self { ahead_max, state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Writes the result of this number, if it is its turn, and those that waited for it; `false` once
    /// something could not be written: then nothing more is.
    pub(crate) fn deliver(
        &self,
        number: usize,
        result: T,
        mut write: impl FnMut(T) -> io::Result<()>,
    ) -> bool {
        let mut state = match self.ahead_max {
            Some(ahead_max) => self.wait(number, ahead_max),
            None => self.state(),
        };
        let state = &mut *state;
        // Without an order, what comes is the next.
        let place = if self.ahead_max.is_some() { number } else { state.next };
        state.waiting.insert(place, result);
        while state.written.is_ok()
            && let Some(result) = state.waiting.remove(&state.next)
        {
            state.written = write(result);
            state.next += 1;
        }
        self.moved.notify_all();
        state.written.is_ok()
    }

    /// Whether it is the turn of this number.
    pub(crate) fn has_come(&self, number: usize) -> bool {
        self.ahead_max.is_some() && self.state().next == number
    }

    /// Waits for the turn of this number, of those in order; `false` if it does not come.
    pub(crate) fn comes(&self, number: usize) -> bool {
        self.wait(number, 1).written.is_ok()
    }

    /// Nothing more is written, because of this: who waits for their turn is not to.
    pub(crate) fn fail(&self, error: io::Error) {
        let mut state = self.state();
        if state.written.is_ok() {
            state.written = Err(error);
        }
        drop(state);
        self.moved.notify_all();
    }

    /// Whether all could be written.
    pub(crate) fn into_written(self) -> io::Result<()> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).written
    }

    /// Waits until fewer than `ahead` numbers come before this one.
    fn wait(&self, number: usize, ahead: usize) -> MutexGuard<'_, State<T>> {
        let waits = |state: &mut State<T>| number >= state.next + ahead && state.written.is_ok();
        self.moved.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers numbers, of which 5 cannot be written, and keeps what was.
    struct Numbers {
        results: InTurn<usize>,
        written: Mutex<Vec<usize>>,
    }

    impl Numbers {
        fn new(ahead_max: Option<usize>) -> Self {
            Self { results: InTurn::new(ahead_max), written: Mutex::default() }
        }

        fn deliver(&self, number: usize) -> bool {
            self.results.deliver(number, number, |number| {
                self.written.lock().unwrap().push(number);
                if number == 5 { Err(io::Error::other("full")) } else { Ok(()) }
            })
        }

        fn written(&self) -> Vec<usize> {
            self.written.lock().unwrap().clone()
        }
    }

    #[test]
    fn each_is_written_once_those_before_it_are() {
        let numbers = Numbers::new(Some(8));
        assert!(numbers.deliver(2) && numbers.deliver(1));
        assert!(numbers.results.has_come(0) && !numbers.results.has_come(1));
        assert!(numbers.written().is_empty());
        assert!(numbers.deliver(0) && numbers.results.comes(3));
        assert_eq!(numbers.written(), [0, 1, 2]);
        assert!(numbers.results.into_written().is_ok());
    }

    #[test]
    fn without_an_order_each_is_written_as_it_comes() {
        let numbers = Numbers::new(None);
        assert!([3, 1, 900].into_iter().all(|number| numbers.deliver(number)));
        assert!(!numbers.results.has_come(3));
        assert_eq!(numbers.written(), [3, 1, 900]);
    }

    #[test]
    fn nothing_is_written_after_what_could_not_be() {
        for ahead_max in [None, Some(2)] {
            let numbers = Numbers::new(ahead_max);
            numbers.results.state().next = 5;
            assert!(!numbers.deliver(5) && !numbers.deliver(6));
            assert!(!numbers.results.comes(90) && !numbers.deliver(91), "nothing is waited for");
            assert_eq!(numbers.written(), [5]);
            numbers.results.fail(io::Error::other("late"));
            assert_eq!(numbers.results.into_written().unwrap_err().to_string(), "full");
        }
    }

    #[test]
    fn who_is_too_far_ahead_waits() {
        let numbers = &Numbers::new(Some(1));
        std::thread::scope(|scope| {
            for number in (0..5).rev() {
                scope.spawn(move || {
                    assert!(numbers.deliver(number));
                    assert!(numbers.written().contains(&number), "{number} did not wait");
                });
            }
        });
        assert_eq!(numbers.written(), [0, 1, 2, 3, 4]);
    }
}
