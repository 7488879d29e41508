//! Whose output leaves, of files that are searched together in no order: that of one at a time, also
//! while its search goes on.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::held::{Held, Room, Turn};
use super::output::Output;

/// Files that were searched to their end, and whose output waits for one that was not.
const DONE_MAX: usize = 256;

/// The turns of all files.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    output: &'a Output,
    room: &'a Room,
    state: Mutex<State<'a>>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State<'a> {
    /// Whether it is somebody's turn.
    taken: bool,
    /// What is to leave after that.
    done: Vec<Held<'a>>,
}

impl<'a> Turns<'a> {
    /// Of files whose output goes there, and waits in this room.
    pub(super) fn new(output: &'a Output, room: &'a Room) -> Self {
        Self { output, room, state: Mutex::default(), moved: Condvar::new() }
    }

    /// The output of another file.
    pub(super) fn held(&self) -> Held<'a> {
        Held::new(self.room, self.output)
    }

    /// Has the output of a file leave that was searched to its end: what is held, and `last`.
    ///
    /// # Errors
    /// As [`Held::write`] and [`Held::leave`], of this file and of those that wait for it.
    pub(super) fn end(&self, held: Held<'a>, mut last: &[u8]) -> io::Result<()> {
        if !held.has_turn() && !self.has_come() {
            if let Err(error) = held.write(last, self) {
                self.give_up(&held);
                return Err(error);
            }
            last = &[];
            if !held.has_turn() {
                let waits = |state: &mut State<'_>| state.taken && state.done.len() >= DONE_MAX;
                let state = self.moved.wait_while(self.state(), waits);
                let mut state = state.unwrap_or_else(PoisonError::into_inner);
                if state.taken {
                    state.done.push(held);
                    return Ok(());
                }
                state.taken = true;
            }
        }
        let written = held.leave(last);
        self.pass_on(written)
    }

    /// Nothing more leaves of a file.
    pub(super) fn give_up(&self, held: &Held<'_>) {
        if held.has_turn() {
            // Whoever writes next meets what is wrong with the output.
            drop(self.pass_on(Ok(())));
        }
    }

    /// Has all leave that waits, unless something could not be written, and ends the turn.
    fn pass_on(&self, mut written: io::Result<()>) -> io::Result<()> {
        loop {
            let mut state = self.state();
            let done = std::mem::take(&mut state.done);
            state.taken = !done.is_empty();
            drop(state);
            self.moved.notify_all();
            if done.is_empty() {
                return written;
            }
            for held in done {
                written = written.and_then(|()| held.leave(&[]));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn for Turns<'_> {
    fn has_come(&self) -> bool {
        !std::mem::replace(&mut self.state().taken, true)
    }

    fn comes(&self) -> bool {
        let state = self.moved.wait_while(self.state(), |state| state.taken);
        state.unwrap_or_else(PoisonError::into_inner).taken = true;
        true
    }
}
