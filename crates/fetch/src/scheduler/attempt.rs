//! One attempt in flight.

use std::time::Duration;

use super::slab::{Link, Linked};

/// An attempt between its start and its end.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) part: u32,
    /// The device whose window it takes.
    pub(super) device: u32,
    pub(super) started: Duration,
    /// When something of it was last heard, or it was not to be heard of before.
    pub(super) heard: Duration,
    /// When it made contact.
    pub(super) met: Option<Duration>,
    /// From where it brings bytes.
    pub(super) start: u64,
    /// To where its server said that it goes on.
    pub(super) covers_end: u64,
    /// Bytes that it brought.
    pub(super) brought: u64,
    pub(super) is_hedge: bool,
    /// It opens, beside the window.
    pub(super) is_beside: bool,
    /// It waits for `Action::Extend`, and takes no place in the window: its connection rests.
    pub(super) rests: bool,
    /// Its device has been asked for all of it, which was so many bytes.
    pub(super) submitted: Option<u64>,
    pub(super) silent: Link,
    pub(super) unmet: Link,
}

/// The list of all attempts that bytes are expected of, the longest silent first.
pub(super) const SILENT: usize = 2;
/// The list of a device's attempts without a first byte, the oldest first.
pub(super) const UNMET: usize = 3;

impl Linked<SILENT> for Attempt {
    fn link(&mut self) -> &mut Link {
        &mut self.silent
    }

    fn link_of(&self) -> Link {
        self.silent
    }
}

impl Linked<UNMET> for Attempt {
    fn link(&mut self) -> &mut Link {
        &mut self.unmet
    }

    fn link_of(&self) -> Link {
        self.unmet
    }
}
