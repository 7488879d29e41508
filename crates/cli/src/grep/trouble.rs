//! What goes wrong in a run of `grep`: said once, remembered for the exit code.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::messages;

/// Where a run reports trouble.
#[derive(Debug, Clone, Default)]
pub(super) struct Trouble {
    silent: bool,
    silent_about_ignore_files: bool,
    /// Shared by all clones.
    seen: Arc<AtomicBool>,
}

impl Trouble {
    pub(super) fn new(silent: bool, silent_about_ignore_files: bool) -> Trouble {
        Trouble { silent, silent_about_ignore_files, seen: Arc::default() }
    }

    /// A file or folder could not be searched: the run fails in the end.
    pub(super) fn say(&self, what: impl Display) {
        self.seen.store(true, Ordering::Relaxed);
        if !self.silent {
            messages::note(store::without_number(what));
        }
    }

    /// An ignore file could not be understood: worth a line, no failure.
    pub(super) fn say_of_ignore_file(&self, what: impl Display) {
        if !self.silent && !self.silent_about_ignore_files {
            messages::note(store::without_number(what));
        }
    }

    pub(super) fn any(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}

/// An error of something else than the file that is searched.
#[derive(Debug)]
struct Elsewhere {
    place: String,
    source: io::Error,
}

impl Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, messages::reason(&self.source))
    }
}

impl Error for Elsewhere {}

/// `error` as one of `place`, to tell it from those of the file that is searched; its kind stays.
pub(super) fn elsewhere(place: impl Into<String>, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Elsewhere { place: place.into(), source: error })
}

/// Whether an error was made by [`elsewhere`]: then it names its place itself.
pub(super) fn is_elsewhere(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<Elsewhere>)
}
