//! Patience with what nobody else asks again for, or waits for with a limit: names. Only who lists
//! knows where the listing stands, so it alone can go on.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};

use crate::{ByteStream, Error, Name};

/// How often a page is asked for before the listing ends with an error.
pub(crate) const ATTEMPTS: u32 = 6;

/// The wait before a page is asked for again, doubled each time: six attempts are 6 s.
const AGAIN: Duration = Duration::from_millis(200);

/// The longest that a server is left alone because it asks for it: one may ask for days.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The waits between two attempts.
pub(crate) fn waits(attempts: u32) -> impl Iterator<Item = Duration> {
    (1..attempts).scan(AGAIN, |wait, _| Some(std::mem::replace(wait, (*wait * 2).min(WAIT_MAX))))
}

/// The wait before a busy server is asked again, which may ask for longer than `wait`.
pub(crate) fn pause(wait: Duration, retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or(wait).clamp(wait, WAIT_MAX)
}

/// What `ask` gives, asked again while it gives errors that pass, and not before a busy server wants it.
///
/// For a task of a runtime of Tokio's.
///
/// # Errors
/// The last of `ask`.
pub async fn patiently<T, F>(ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    tried(ATTEMPTS, ask).await
}

/// As [`patiently`], so often at most.
///
/// # Errors
/// The last of `ask`.
pub async fn tried<T, F>(attempts: u32, mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for wait in waits(attempts) {
        let again = match ask().await {
            Err(Error::Busy { retry_after, .. }) => pause(wait, retry_after),
            Err(error) if error.is_transient() => wait,
            result => return result,
        };
        tokio::time::sleep(again).await;
    }
    ask().await
}

/// A page or a list as it comes, given up when nothing has come for so long.
pub(crate) fn unless_silent<S>(name: Name, limit: Duration, bytes: S) -> ByteStream
where
    S: Stream<Item = Result<Bytes, Error>> + Send + 'static,
{
    stream::unfold(Some((name, bytes.boxed())), move |rest| async move {
        let (name, mut bytes) = rest?;
        if let Ok(next) = tokio::time::timeout(limit, bytes.next()).await {
            return Some((next?, Some((name, bytes))));
        }
        let reason = format!("no more of it came for {} s", limit.as_secs_f32());
        Some((Err(Error::interrupted(name, reason)), None))
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_is_left_alone_as_long_as_it_asks_for_but_no_longer_than_a_minute() {
        let [wait, second, days] = [AGAIN, Duration::from_secs(1), Duration::from_hours(50)];
        let waits = [None, Some(Duration::ZERO), Some(second), Some(days)];
        let pauses = waits.map(|retry_after| pause(wait, retry_after));
        assert_eq!(pauses, [wait, wait, second, WAIT_MAX]);
    }
}
