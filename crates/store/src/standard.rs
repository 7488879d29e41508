//! Descriptors 0, 1 and 2 of a process that closed them.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::stdio::raw_stderr;

/// Keeps those of 0, 1 and 2 that are closed from what is opened while this lives: what their program
/// prints would go there. They are closed again with this.
#[derive(Debug)]
pub struct Standard {
    _held: Vec<OwnedFd>,
}

impl Standard {
    /// Holds them, if there is a `/dev/null`.
    pub fn held() -> Self {
        let null = || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        // The lowest number that is free is given.
        let opened = std::iter::from_fn(|| null().ok());
        Self { _held: opened.take_while(|fd| fd.as_raw_fd() <= raw_stderr()).collect() }
    }
}
