//! Whose output leaves, of files or objects that are searched together in no order: that of one at a
//! time, also while its search goes on.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::held::{Held, Room, Turn};
use super::output::Output;

/// Files that were searched to their end, and whose output waits for one that was not.
const DONE_MAX: usize = 1 << 16;

/// Those among them whose output is in a file: each keeps a descriptor.
const SPILLED_MAX: usize = 256;

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
    /// How many of these are in a file.
    spilled: usize,
    /// How many wait for their turn, or for room among these.
    waiting: usize,
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
                let is_full = |state: &State<'_>| {
                    state.done.len() >= DONE_MAX || state.spilled >= SPILLED_MAX
                };
                let mut state = self.wait_while(|state| state.taken && is_full(state));
                if state.taken {
                    state.spilled += usize::from(held.has_spilled());
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
            state.spilled = 0;
            state.taken = !done.is_empty();
            // Waking nobody is a call of the system, too.
            if state.waiting > 0 {
                self.moved.notify_all();
            }
            drop(state);
            if done.is_empty() {
                return written;
            }
            for held in done {
                written = written.and_then(|()| held.leave(&[]));
            }
        }
    }

    fn wait_while(&self, waits: impl Fn(&State<'a>) -> bool) -> MutexGuard<'_, State<'a>> {
        let mut state = self.state();
        while waits(&state) {
            state.waiting += 1;
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state
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
        self.wait_while(|state| state.taken).taken = true;
        true
    }
}
