//! Silence of those who are asked: of one who has to ask several times, or needs credentials first,
//! each of them is waited for as long.

#![expect(clippy::disallowed_methods, reason = "what timers of tokio wait for goes by their clock")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::Error;
use crate::sync::lock;

/// How much longer than one silence a question may take, however often somebody answers meanwhile: who
/// asks a program for credentials may type a number first, and up to ten redirects are followed.
const WHOLE_MORE: Duration = Duration::from_mins(1);

tokio::task_local! {
    /// Stores are told nothing of who asks.
    static SIGNS: Arc<Mutex<Signs>>;
}

/// Signs of life.
#[derive(Debug)]
struct Signs {
    last: Instant,
    /// Something of this machine is waited for, such as a program.
    is_busy: bool,
    /// A store has waited for its limit, whatever was heard meanwhile.
    is_over: bool,
}

/// What a store answers, or `None` where nobody was heard for `limit`; an error that passes and ends such
/// a silence is part of it.
///
/// # Errors
/// Those of `ask`.
pub async fn heard_within<T>(
    limit: Duration,
    ask: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, Error> {
    let signs =
        Arc::new(Mutex::new(Signs { last: Instant::now(), is_busy: false, is_over: false }));
    // None: longer than there will be time.
    let silent_at = || {
        let signs = lock(&signs);
        let since = if signs.is_busy { Instant::now() } else { signs.last };
        since.checked_add(limit)
    };
    let is_silent = || silent_at().is_some_and(|at| Instant::now() >= at);
    let mut answer = std::pin::pin!(SIGNS.scope(Arc::clone(&signs), ask));
    let mut whole = std::pin::pin!(sleep(limit.saturating_add(WHOLE_MORE)));
    while !is_silent() {
        let silence = async {
            match silent_at() {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // What is here counts, also if it came late.
            biased;
            answer = &mut answer => return match answer {
                Err(error) if error.is_transient() && (is_silent() || lock(&signs).is_over) => {
                    Ok(None)
                }
                answer => answer.map(Some),
            },
            () = &mut whole => return Ok(None),
            () = silence => {}
        }
    }
    Ok(None)
}

/// Notes that somebody who was asked has answered; for stores.
#[cfg(any(feature = "object", feature = "web"))]
pub(crate) fn heard() {
    // Others go by the limits of the store alone.
    let _outside = SIGNS.try_with(|signs| lock(signs).last = Instant::now());
}

/// Notes whether the request made last was answered within its limit, one for all that it was sent on to.
#[cfg(any(feature = "object", feature = "web"))]
pub(crate) fn waited(is_over: bool) {
    let _outside = SIGNS.try_with(|signs| lock(signs).is_over = is_over);
}

/// Waits for something that is not the silence of a server.
#[cfg(feature = "object")]
pub(crate) async fn meanwhile<T>(work: impl Future<Output = T>) -> T {
    let is_busy = |is_busy| {
        let _outside = SIGNS.try_with(|signs| lock(signs).is_busy = is_busy);
    };
    is_busy(true);
    let done = work.await;
    is_busy(false);
    heard();
    done
}

#[cfg(all(test, feature = "object"))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    fn ended<T>(ask: impl Future<Output = Result<T, Error>>) -> Result<Option<T>, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("nothing keeps it from").block_on(heard_within(LIMIT, ask))
    }

    #[test]
    fn who_says_nothing_is_silent() {
        assert!(ended(std::future::pending::<Result<(), _>>()).is_ok_and(|it| it.is_none()));
        let late = async {
            sleep(LIMIT).await;
            Err::<(), _>(Error::interrupted("a", "a limit of the store's own"))
        };
        assert!(ended(late).is_ok_and(|it| it.is_none()));
        let sent_on = async {
            sleep(LIMIT / 2).await;
            heard();
            waited(true);
            Err::<(), _>(Error::interrupted("a", "one limit for both"))
        };
        assert!(ended(sent_on).is_ok_and(|it| it.is_none()));
        let refused = async { Err::<(), _>(Error::interrupted("a", "at once")) };
        assert!(ended(refused).is_err());
    }

    #[test]
    fn who_prepares_or_answers_in_part_is_not_silent() {
        let prepared = async {
            meanwhile(sleep(LIMIT * 3)).await;
            Ok(())
        };
        assert!(ended(prepared).is_ok_and(|it| it.is_some()));
        let begun = std::cell::Cell::new(0);
        let asked_twice = async {
            while begun.get() < 4 {
                begun.set(begun.get() + 1);
                sleep(LIMIT / 2).await;
                heard();
            }
            Ok(())
        };
        assert!(ended(asked_twice).is_ok_and(|it| it.is_some()));
    }

    #[test]
    fn what_is_here_counts_however_late_it_is_looked_at() {
        let late = async {
            #[expect(clippy::disallowed_methods, reason = "a thread that is held up")]
            std::thread::sleep(LIMIT * 2);
            Ok(())
        };
        assert!(ended(late).is_ok_and(|it| it.is_some()));
    }
}
