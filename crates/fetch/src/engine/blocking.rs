//! Waits that block a thread, which may be one of an engine's own runtime.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tokio::runtime::{self, Handle, RuntimeFlavor};
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
    let hands_over = IS_OURS.get() && !WAITS.get() && seems_worker();
    let _waiting = Waiting::begin();
    if hands_over { handing_over(wait) } else { wait() }
}

/// Whether this thread does the work of a runtime of several threads, as far as can be told: a thread of
/// ours for what blocks may run one of the caller's with one thread, or a `LocalSet`.
fn seems_worker() -> bool {
    let has_several = |handle: Handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread;
    runtime::worker_index().is_some() && Handle::try_current().is_ok_and(has_several)
}

/// Waits while another thread does this one's work.
fn handing_over<T>(wait: impl FnOnce() -> T) -> T {
    let mut wait = Some(wait);
    let mut waits = || wait.take().map(|wait| wait());
    match catch_unwind(AssertUnwindSafe(|| task::block_in_place(&mut waits))) {
        Ok(waited) => waited.expect("it waits once"),
        // A runtime with one thread within which ours was entered: it refuses by a panic, before it waits.
        Err(panic) => waits().unwrap_or_else(|| resume_unwind(panic)),
    }
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
