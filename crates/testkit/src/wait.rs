//! Waiting for what another process or thread brings about.

use std::sync::mpsc;
use std::time::Duration;

const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// Longer than anything takes on a busy machine.
const A_MINUTE: Duration = Duration::from_mins(1);

/// Looks again and again until `happened`.
///
/// Panics if it has not within a minute. For events of other processes and threads; where code takes
/// a clock, give it one that is advanced instead.
#[track_caller]
pub fn until(what: &str, happened: impl FnMut() -> bool) {
    assert!(happens_within(A_MINUTE, happened), "it has not happened in a minute: {what}");
}

/// Waits, but not for ever, until the machine has memory for what is fetched on a guess: nothing is while
/// some task has lately waited for memory for more than a twentieth of the time.
pub fn until_memory_suffices() {
    happens_within(A_MINUTE, || {
        let told = std::fs::read_to_string("/proc/pressure/memory").unwrap_or_default();
        let percent = told.strip_prefix("some avg10=").and_then(|rest| rest.split(' ').next());
        percent.and_then(|percent| percent.parse().ok()).is_none_or(|percent: f32| percent <= 5.0)
    });
}

/// Looks again and again until `happened`, for so long; whether it has.
pub fn happens_within(patience: Duration, mut happened: impl FnMut() -> bool) -> bool {
    let (_silent, waiting) = mpsc::channel::<()>();
    (0..patience.as_millis() / LOOKS_EVERY.as_millis()).any(|_| {
        let has = happened();
        if !has {
            waiting.recv_timeout(LOOKS_EVERY).ok();
        }
        has
    })
}
