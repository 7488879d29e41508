//! Calls that may never return, such as those to a dead network mount.

use std::io;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// Runs `call` in a thread of its own and waits for it no longer than `limit`.
///
/// A call that does not return is left behind with its thread: the system
/// offers no way to take it back.
///
/// # Errors
/// The system's, where no thread can be had.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    Ok(begun(call)?.recv_timeout(limit).ok())
}

/// Runs `call` in a thread of its own; what it returns is received when it does.
///
/// # Errors
/// The system's, where no thread can be had.
pub(crate) fn begun<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || drop(sender.send(call()));
    std::thread::Builder::new().name("bounded".into()).spawn(run)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_returns_is_waited_for() {
        assert_eq!(within(Duration::from_mins(1), || 7).expect("a thread"), Some(7));
    }

    #[test]
    fn a_call_that_hangs_is_left() {
        let (keep, hang) = mpsc::channel::<()>();
        let found = within(Duration::from_millis(1), move || hang.recv().is_ok());
        assert_eq!(found.expect("a thread"), None);
        drop(keep);
    }
}
