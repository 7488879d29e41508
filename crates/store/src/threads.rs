//! How many threads can be had.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::{Builder, scope, sleep};
use std::time::Duration;

use crate::lock;

/// How often it is looked whether a thread is gone, and how often at most.
const LOOK_EVERY: Duration = Duration::from_micros(50);
const LOOKS_MAX: usize = 1000;

/// How many threads the system gives at once, up to `wanted`, for those who begin theirs themselves
/// and do not bear a refusal. A moment later it may give fewer.
///
/// # Errors
/// The system's, where it gives fewer than `least`.
#[expect(clippy::disallowed_methods, reason = "nobody tells of the end of a thread")]
pub fn threads_given(wanted: usize, least: usize) -> io::Result<usize> {
    let (gate, numbers) = (Mutex::new(()), Mutex::new(Vec::new()));
    let had: io::Result<usize> = scope(|scope| {
        let _closed = lock(&gate);
        for had in 0..wanted {
            let wait = || {
                lock(&numbers).push(rustix::thread::gettid());
                drop(lock(&gate));
            };
            match Builder::new().spawn_scoped(scope, wait) {
                Err(error) if had < least => return Err(error),
                Err(_) => return Ok(had),
                Ok(_) => {}
            }
        }
        Ok(wanted)
    });
    // One that has ended counts until the system has let go of it.
    let place = |number: &rustix::process::Pid| {
        PathBuf::from(format!("/proc/self/task/{}", number.as_raw_nonzero()))
    };
    let numbers = lock(&numbers);
    let is_there = || numbers.iter().any(|number| place(number).exists());
    for _ in 0..LOOKS_MAX {
        if !is_there() {
            break;
        }
        sleep(LOOK_EVERY);
    }
    drop(numbers);
    had
}
