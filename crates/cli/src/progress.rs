//! One line on the terminal that says how far a long run is, and is gone when it ends.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use nearfirst::Clock;
use store::lock;

/// A run shorter than this says nothing.
const QUIET: Duration = Duration::from_millis(500);
/// Often enough to look alive, seldom enough to cost nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a line stands on the terminal; held while it changes.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// The line. It appears only where stderr is a terminal.
#[derive(Debug)]
pub(crate) struct Line {
    clock: Clock,
    next: Option<Duration>,
}

impl Line {
    /// A line that appears once a run takes long.
    pub(crate) fn new(clock: &Clock) -> Self {
        let next = io::stderr().is_terminal().then(|| clock.now() + QUIET);
        Self { clock: clock.clone(), next }
    }

    /// A line that appears at once.
    pub(crate) fn at_once(clock: &Clock) -> Self {
        let next = io::stderr().is_terminal().then(|| clock.now());
        Self { clock: clock.clone(), next }
    }

    /// Shows what `what` gives, if it is time to.
    pub(crate) fn show<T: Display>(&mut self, what: impl FnOnce() -> T) {
        let Some(next) = self.next else { return };
        let now = self.clock.now();
        if now >= next {
            // A line that is wider than the terminal ends at its edge: a second one would stay. In
            // one write, so that a run which is killed leaves the terminal as it was.
            let line = format!("\r\x1b[K\x1b[?7l{}\x1b[?7h", what());
            let mut shown = lock(&SHOWN);
            drop(io::stderr().lock().write_all(line.as_bytes()));
            *shown = true;
            self.next = Some(now + PAUSE);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        wipe();
    }
}

/// Takes the line away, whoever shows one, so that something else can be written.
pub(crate) fn wipe() {
    without(|| {});
}

/// Takes the line away where nobody writes beside it: who does may wait for a reader that takes nothing.
pub(crate) fn wipe_at_the_end() {
    let shown = SHOWN.try_lock();
    if shown.is_ok_and(|mut shown| std::mem::take(&mut *shown)) {
        drop(write!(io::stderr(), "\r\x1b[K"));
    }
}

/// Takes the line away, and lets none come until something short is written, or whatever else is done.
pub(crate) fn without(write: impl FnOnce()) {
    let mut shown = lock(&SHOWN);
    if std::mem::take(&mut *shown) {
        drop(write!(io::stderr().lock(), "\r\x1b[K"));
    }
    write();
}
