//! The one file that reads the real clock.
//!
//! slowfs has its own, so that the tool shares no code with what is tested against it.

#![expect(clippy::disallowed_methods, reason = "this is the clock that the others take")]

use std::time::{Duration, Instant};

/// Time since the clock was started; it never goes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Duration {
        self.0.elapsed()
    }
}
