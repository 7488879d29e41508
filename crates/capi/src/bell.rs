//! Wakes an event loop that waits for a set.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::Wake;

use nearfirst::above_standard;
use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable when it is worth to ask the set for a member.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// Rung: nothing is fetched before the first member is asked for.
    pub(crate) fn new() -> io::Result<Self> {
        let counter = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(above_standard(counter)?))
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub(crate) fn ring(&self) {
        // It fails only when it has been rung as often as a counter holds: it is heard then.
        let _heard = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        // Nothing to read: it was silent.
        let _count = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
