//! Descriptors 0, 1 and 2 of a process that closed them.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{Mode, OFlags};
use rustix::stdio::raw_stderr;

use crate::sync::lock;

/// The same file under a number that is not standard input's, output's or error's: others read and write
/// there.
///
/// # Errors
/// The system's, where no more descriptors can be had.
pub fn above_standard(file: OwnedFd) -> io::Result<OwnedFd> {
    if file.as_raw_fd() > raw_stderr() {
        return Ok(file);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(file, raw_stderr() + 1)?)
}

/// One holds them at a time: what another holds is not open for good.
static HELD: Mutex<()> = Mutex::new(());

/// Keeps those of 0, 1 and 2 that are closed from what is opened while this lives: what their program
/// prints would go there. They are closed again with this.
#[derive(Debug)]
pub struct Standard {
    // Closed before the next one looks for those that are closed.
    _held: Vec<OwnedFd>,
    _alone: MutexGuard<'static, ()>,
}

impl Standard {
    /// Holds them, if there is a `/dev/null`.
    pub fn held() -> Self {
        let alone = lock(&HELD);
        let null = || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        // The lowest number that is free is given.
        let opened = std::iter::from_fn(|| null().ok());
        let held = opened.take_while(|fd| fd.as_raw_fd() <= raw_stderr()).collect();
        Self { _held: held, _alone: alone }
    }
}
