//! When the observer keeps its hands off files: a program is about to unmount their file system, which is
//! busy as long as anybody has one of them open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Shared by the listener, which asks for it, and the observer, which does it.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// Until when, in nanoseconds.
    until: AtomicU64,
    /// How often it was asked for.
    asked: AtomicU64,
    /// Of these, how often it is done.
    done: AtomicU64,
}

/// That it was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked(u64);

impl Aside {
    /// Asks for it, until [`Aside::stand_until`] says.
    pub(super) fn ask(&self) -> Asked {
        Asked(self.asked.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Nothing is opened before `moment`.
    pub(super) fn stand_until(&self, moment: Duration) {
        let nanos = u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX);
        self.until.fetch_max(nanos, Ordering::AcqRel);
    }

    /// Whether nothing is to be opened at `now`.
    pub(super) fn holds(&self, now: Duration) -> bool {
        now.as_nanos() < self.until.load(Ordering::Acquire).into()
    }

    /// What was asked for so far is done: nothing more will be opened.
    pub(super) fn is_done(&self) {
        self.done.store(self.asked.load(Ordering::Acquire), Ordering::Release);
    }

    /// Whether what was asked for is done.
    pub(super) fn has_done(&self, asked: Asked) -> bool {
        self.done.load(Ordering::Acquire) >= asked.0
    }
}
