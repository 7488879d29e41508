//! Where events come from.

use std::io;
use std::task::Waker;
use std::time::Duration;

use tree::Event;

/// What tells of programs that run.
pub trait Source {
    /// What happened since the last call, in order, each with its time on the clock the source was
    /// made with; waits for something to happen, but not longer than `patience`.
    ///
    /// # Errors
    /// The system's, after which the source tells no more. What was lost on the way is no error
    /// but an [`Event::Lost`].
    fn next(&mut self, patience: Duration) -> io::Result<Vec<(Duration, Event)>>;

    /// Whether files are to be left alone at the moment, so that nothing may be fetched.
    fn stands_aside(&self) -> bool {
        false
    }

    /// Nothing is fetched any more, as [`Source::stands_aside`] asked for.
    fn has_stood_aside(&self) {}

    /// What ends the wait of [`Source::next`], or the next one, from another thread; `None` if
    /// nothing does.
    fn waker(&self) -> Option<Waker> {
        None
    }
}
