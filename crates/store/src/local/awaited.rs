//! An answer that is awaited for as long as its mount answers, or for less.
//!
//! One name that does not answer says nothing of its mount, nor do others in its folder: who looks a
//! name up may hold the folder meanwhile. So the root of the mount is asked before that is given up.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often a mount is asked that keeps a call waiting.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Time goes on by that much at least, however short a limit is.
const STEP_MIN: Duration = Duration::from_micros(100);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Silence<Q> {
    /// The mount does not answer this question, either.
    OfMount(Receiver<Q>),
    /// The mount answers.
    OfName,
    /// It cannot be waited for.
    Untold(io::Error),
}

/// Waits for an answer for `limit`, and no longer than the mount answers questions within `mount_limit`.
///
/// # Errors
/// Why there is none.
pub(super) fn awaited<T, Q>(
    answer: &Receiver<T>,
    limit: Duration,
    mount_limit: Duration,
    ask_mount: impl Fn() -> io::Result<Receiver<Q>>,
) -> Result<T, Silence<Q>> {
    // A dead mount is known for one, as a rule, soon after the limit is over.
    let step = ASKED_EVERY.min(mount_limit / 2).min(limit / 2).max(STEP_MIN);
    let (mut waited, mut asked) = (Duration::ZERO, None);
    loop {
        match answer.recv_timeout(step) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => {
                let error = io::Error::other("the thread that asked it panicked");
                return Err(Silence::Untold(error));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        // The time that it was stopped, as by Ctrl-Z, is not the mount's.
        waited += step;
        let (question, since) = match asked.take() {
            Some(asked) => asked,
            None => (ask_mount().map_err(Silence::Untold)?, waited),
        };
        let (is_over, asked_for) = (waited >= limit, waited.saturating_sub(since));
        let rest = if is_over { mount_limit.saturating_sub(asked_for) } else { Duration::ZERO };
        let silence = match question.recv_timeout(rest) {
            Err(RecvTimeoutError::Timeout) if is_over || asked_for >= mount_limit => {
                Silence::OfMount(question)
            }
            Err(RecvTimeoutError::Timeout) => {
                asked = Some((question, since));
                continue;
            }
            _ if is_over => Silence::OfName,
            _ => continue,
        };
        // It may have come meanwhile.
        return answer.try_recv().map_err(|_| silence);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(4);

    #[test]
    fn a_name_is_told_from_its_mount() {
        let (_never, answer) = mpsc::channel::<()>();
        let alive = || Ok(answers_with(()));
        let found = awaited(&answer, LIMIT, LIMIT, alive);
        assert!(matches!(found, Err(Silence::OfName)), "{found:?}");
        let (never, _) = mpsc::sync_channel::<()>(1);
        let keeps = std::cell::RefCell::new(vec![never]);
        let dead = || {
            let (never, question) = mpsc::sync_channel::<()>(1);
            keeps.borrow_mut().push(never);
            Ok(question)
        };
        // However long it would be waited for.
        let found = awaited(&answer, Duration::MAX, LIMIT, dead);
        assert!(matches!(found, Err(Silence::OfMount(_))), "{found:?}");
        assert_eq!(awaited(&answers_with(7), LIMIT, LIMIT, alive).ok(), Some(7));
    }

    fn answers_with<T>(answer: T) -> Receiver<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        sender.send(answer).expect("there is room");
        receiver
    }
}
