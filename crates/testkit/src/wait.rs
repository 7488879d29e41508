//! Waiting for what another process or thread brings about.

use std::sync::mpsc;
use std::time::Duration;

const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// A minute: longer than anything takes on a busy machine.
const LOOKS_MAX: u32 = 6000;

/// Looks again and again until `happened`.
///
/// Panics if it has not within a minute. For events of other processes and threads; where code takes
/// a clock, give it one that is advanced instead.
#[track_caller]
pub fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let (_silent, waiting) = mpsc::channel::<()>();
    for _ in 0..LOOKS_MAX {
        if happened() {
            return;
        }
        waiting.recv_timeout(LOOKS_EVERY).ok();
    }
    panic!("it has not happened in a minute: {what}");
}
