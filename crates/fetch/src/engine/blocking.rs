//! Waits that block a thread, which may be one of an engine's own runtime.

use std::cell::Cell;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task;

thread_local! {
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Told by each thread of an engine's runtime when it begins.
pub(super) fn thread_began() {
    IS_OURS.set(true);
}

/// Waits by `wait`, which blocks this thread.
///
/// Of a thread of an engine's runtime another does the work meanwhile: what is waited for may be some
/// of it. Also within what is waited for: the predicate of a set may ask another one.
pub fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    // A runtime of the caller's with one thread, which such a thread may run, allows no such thing.
    let is_worker = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    let hands_over = IS_OURS.get() && !WAITS.get() && Handle::try_current().is_ok_and(is_worker);
    let _waiting = Waiting::begin();
    if hands_over { task::block_in_place(wait) } else { wait() }
}

/// Says that this thread waits, while it lives.
struct Waiting {
    before: bool,
}

impl Waiting {
    fn begin() -> Self {
        Self { before: WAITS.replace(true) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITS.set(self.before);
    }
}
