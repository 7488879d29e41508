//! The one file of the test vocabulary that reads the real clock, for servers that pace what they send.
//!
//! It has its own, so that it shares no code with what is tested with it.

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
