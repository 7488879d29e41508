//! Union, intersection, difference and subset: lists made of lists, as lazily as their meaning allows.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use store::{Entries, Entry, Error};

use crate::listing::Listing;

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
        entries(&right).filter(|entry| futures::future::ready(entry.is_err()))
    };
    let is_left = move |entry: &Result<Entry, Error>| {
        entry.as_ref().map_or(true, |entry| !right.contains(&entry.name))
    };
    errors.chain(left.filter(move |entry| futures::future::ready(is_left(entry)))).boxed()
}

/// What satisfies a predicate.
pub(crate) fn subset<P>(of: &Arc<Listing>, predicate: P) -> Entries
where
    P: Fn(&Entry) -> bool + Send + 'static,
{
    let keeps = move |entry: &Result<Entry, Error>| entry.as_ref().map_or(true, &predicate);
    entries(of).filter(move |entry| futures::future::ready(keeps(entry))).boxed()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::channel::mpsc::unbounded;
    use store::{Name, Tier};

    use super::*;

    fn entry(name: &str) -> Entry {
        let name = Name::new(name.as_bytes());
        Entry { name, size: None, version: None, modified: None, tier: Tier::Online, device: None }
    }

    #[test]
    fn who_waits_in_a_list_keeps_nothing_from_those_it_is_made_of() {
        type Made = fn(&Arc<Listing>, &Arc<Listing>) -> Entries;
        let all: [Made; 5] = [
            union,
            intersection,
            difference,
            |left, right| difference(right, left),
            |left, _| subset(left, |_| true),
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
