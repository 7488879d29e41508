//! Whose output leaves, of files or objects that are searched together in no order: that of a search
//! that has ended, at once. One whose output has no room leaves while it goes on, and others wait for it.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use store::lock;

use super::held::{Held, Room, Turn};
use super::output::Output;

/// Files that were searched to their end, and whose output waits for one that was not.
const DONE_MAX: usize = 1 << 16;

/// The turns of all files.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    output: &'a Output,
    room: &'a Room,
    /// Held while what was done is written: who reads slowly holds back whoever is done next.
    state: Mutex<State<'a>>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State<'a> {
    /// Whether it is the turn of a search that goes on.
    taken: bool,
    /// What is to leave after that.
    done: Vec<Held<'a>>,
}

impl<'a> Turns<'a> {
    /// Of files whose output goes there, and waits in this room.
    pub(super) fn new(output: &'a Output, room: &'a Room) -> Self {
        Self { output, room, state: Mutex::default(), ended: Condvar::new() }
    }

    /// The output of another file.
    pub(super) fn held(&self) -> Held<'a> {
        Held::new(self.room, self.output)
    }

    /// Has the output of a file leave that was searched to its end.
    ///
    /// # Errors
    /// As [`Held::leave`], of this file and of those that wait for it.
    pub(super) fn end(&self, held: Held<'a>) -> io::Result<()> {
        if held.has_turn() {
            return self.pass_on();
        }
        if held.is_empty() {
            return Ok(());
        }
        self.output.wait();
        let mut state = lock(&self.state);
        if state.taken && state.done.len() < DONE_MAX {
            state.done.push(held);
            return Ok(());
        }
        let _state = self.until_free(state);
        held.leave()
    }

    /// Nothing more leaves of a file.
    pub(super) fn give_up(&self, held: &Held<'_>) {
        if held.has_turn() {
            // Whoever writes next meets what is wrong with the output.
            drop(self.pass_on());
        }
    }

    /// Has all leave that waits, unless something could not be written, and ends the turn.
    fn pass_on(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        let mut done = std::mem::take(&mut state.done).into_iter();
        let written = done.try_for_each(|held| held.leave());
        state.taken = false;
        self.ended.notify_all();
        written
    }

    /// Waits until no search that goes on has the turn.
    fn until_free<'b>(&'b self, state: MutexGuard<'b, State<'a>>) -> MutexGuard<'b, State<'a>> {
        let state = self.ended.wait_while(state, |state| state.taken);
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn for Turns<'_> {
    /// What has room waits for the end of its search, so that none that is done waits for it.
    fn has_come(&self) -> bool {
        false
    }

    fn comes(&self) -> bool {
        self.until_free(lock(&self.state)).taken = true;
        true
    }
}
