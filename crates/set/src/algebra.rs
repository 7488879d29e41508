//! Union, intersection, difference and subset: lists made of lists, as lazily as their meaning allows.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use store::{Clock, Entries, Entry, Error};

use crate::listing::Listing;
use crate::roster::leaves_doubt;

/// How long calls of a predicate keep who waits from giving up: many of a predicate's own cost, so
/// that a cheap one costs little more.
const CALLS_MAX: Duration = Duration::from_millis(1);

/// The entries of one list, as a source of another.
fn entries(listing: &Arc<Listing>) -> Entries {
    listing.walk().map(|(_, entry)| entry.map_err(shared)).boxed()
}

/// An error that another set reports too.
fn shared(error: Arc<Error>) -> Error {
    Arc::try_unwrap(error).unwrap_or_else(|error| error.again())
}

/// What either has, as it becomes known.
pub(crate) fn union(left: &Arc<Listing>, right: &Arc<Listing>) -> Entries {
    stream::select(entries(left), entries(right)).boxed()
}

/// What both have: a name is known to be in both when the second list gives it.
pub(crate) fn intersection(left: &Arc<Listing>, right: &Arc<Listing>) -> Entries {
    let side = |of: &Arc<Listing>, other: &Arc<Listing>| {
        let other = Arc::clone(other);
        let is_in_both = move |entry: &Result<Entry, Error>| {
            entry.as_ref().map_or(true, |entry| other.contains(&entry.name))
        };
        entries(of).filter(move |entry| futures::future::ready(is_in_both(entry))).boxed()
    };
    stream::select(side(left, right), side(right, left)).boxed()
}

/// What the first has and the second has not, which is known when the second is known whole.
pub(crate) fn difference(left: &Arc<Listing>, right: &Arc<Listing>) -> Entries {
    let (left, right) = (entries(left), Arc::clone(right));
    let errors = {
        let right = Arc::clone(&right);
        // What could not be listed might have been taken away.
        entries(&right)
            .filter(|entry| futures::future::ready(entry.as_ref().is_err_and(leaves_doubt)))
    };
    let is_left = move |entry: &Result<Entry, Error>| {
        entry.as_ref().map_or(true, |entry| !right.contains(&entry.name))
    };
    errors.chain(left.filter(move |entry| futures::future::ready(is_left(entry)))).boxed()
}

/// What satisfies a predicate, which may be a user's and slow: who waits may give up between its calls.
pub(crate) fn subset<P>(of: &Arc<Listing>, clock: Clock, predicate: P) -> Entries
where
    P: Fn(&Entry) -> bool + Send + 'static,
{
    let mut called = Duration::ZERO;
    let keeps = move |entry: &Result<Entry, Error>| {
        // What passes between the calls is not its own: a list may be one of thousands, each made of the next.
        let begun = clock.now();
        let keeps = entry.as_ref().map_or(true, &predicate);
        called += clock.now().saturating_sub(begun);
        let is_long = called >= CALLS_MAX;
        if is_long {
            called = Duration::ZERO;
        }
        async move {
            if is_long {
                tokio::task::yield_now().await;
            }
            keeps
        }
    };
    entries(of).filter(keeps).boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;
    use futures::channel::mpsc::unbounded;
    use store::Name;

    use super::*;

    fn entry(name: &str) -> Entry {
        Entry::named(Name::new(name.as_bytes()))
    }

    #[test]
    fn who_waits_in_a_list_keeps_nothing_from_those_it_is_made_of() {
        type Made = fn(&Arc<Listing>, &Arc<Listing>) -> Entries;
        let all: [Made; 5] = [
            union,
            intersection,
            difference,
            |left, right| difference(right, left),
            |left, _| subset(left, Clock::manual(), |_| true),
        ];
        for made in all {
            let (names, source) = unbounded();
            let slow = Listing::new(source.boxed());
            let other = Listing::new(stream::iter([Ok(entry("a"))]).boxed());
            let list = Listing::new(made(&slow, &other));
            names.unbounded_send(Ok(entry("a"))).expect("it is listened to");
            // It gives what is known, or waits; who asked does not ask again.
            let _ = list.beyond(0).now_or_never();
            names.unbounded_send(Ok(entry("b"))).expect("it is listened to");
            drop(names);
            assert_eq!(slow.all().now_or_never(), Some(()));
            assert_eq!(slow.known().len(), 2);
            assert_eq!(list.all().now_or_never(), Some(()));
        }
    }

    #[test]
    fn a_source_that_waits_is_asked_once_by_all_that_are_made_of_it() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let waits = stream::poll_fn(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            std::task::Poll::Pending
        });
        let doubled =
            (0..100).fold(Listing::new(waits.boxed()), |list, _| Listing::new(union(&list, &list)));
        assert_eq!(doubled.all().now_or_never(), None);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn who_waits_may_give_up_after_a_slow_call_and_loses_nothing() {
        let clock = Clock::manual();
        let of = Listing::new(stream::iter(["a", "b", "c"].map(|name| Ok(entry(name)))).boxed());
        let (calls, moved) = (Arc::new(AtomicUsize::new(0)), clock.clone());
        let counted = Arc::clone(&calls);
        let slow = move |entry: &Entry| {
            moved.advance(CALLS_MAX);
            counted.fetch_add(1, Ordering::Relaxed);
            entry.name.as_bytes() != b"b"
        };
        let list = Listing::new(subset(&of, clock, slow));
        assert_eq!(list.all().now_or_never(), None);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        futures::executor::block_on(list.all());
        assert_eq!((calls.load(Ordering::Relaxed), list.known().len()), (3, 2));
    }

    #[test]
    fn all_who_wait_are_told_of_what_one_finds() {
        let (names, source) = unbounded();
        let list = Listing::new(source.boxed());
        std::thread::scope(|scope| {
            let waits = || futures::executor::block_on(list.all());
            let waiting: Vec<_> = (0..4).map(|_| scope.spawn(waits)).collect();
            for number in 0..10_000 {
                names.unbounded_send(Ok(entry(&number.to_string()))).expect("it is listened to");
            }
            drop(names);
            for thread in waiting {
                thread.join().expect("it ends");
            }
        });
        assert_eq!(list.known().len(), 10_000);
    }
}
