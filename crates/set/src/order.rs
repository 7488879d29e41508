//! In what order a set's names are told to the scheduler.

use std::sync::Arc;

use fetch::engine::Want;
use fetch::scheduler;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use store::{Entry, Error, Sequence};

use crate::listing::Listing;
use crate::options::{Order, Rank, SetOptions};
use crate::recall::Tagged;

type Wants = BoxStream<'static, Result<Want, (u64, Error)>>;

/// What the scheduler is to make of an order.
pub(crate) fn terms(order: &Order) -> scheduler::Order {
    match order {
        Order::Ready => scheduler::Order::Ready,
        Order::Listed | Order::Name | Order::Rank | Order::Replay(_) => scheduler::Order::Listed,
    }
}

/// The names of a list in the order of its options; cold ones once they are restored, if these say so.
pub(crate) fn wants(listing: &Arc<Listing>, options: &SetOptions) -> Wants {
    let options = options.clone();
    let listed = listed(listing, &options);
    let there = match (&options.recalls, terms(&options.order)) {
        (None, _) => listed,
        (Some(recalls), scheduler::Order::Ready) => recalls.restored(listed, Sequence::AsKnown),
        (Some(recalls), scheduler::Order::Listed) => recalls.restored(listed, Sequence::InTurn),
    };
    there.map(move |((tag, rank), entry)| want(tag, rank, entry, &options)).boxed()
}

/// The names of a list, by their numbers, with their ranks where the order asked for these.
fn listed(listing: &Arc<Listing>, options: &SetOptions) -> Tagged<(u64, Option<f64>)> {
    let again = |(index, entry): (usize, Result<Entry, Arc<Error>>), rank: Option<f64>| {
        ((index as u64, rank), entry.map_err(|error| error.again()))
    };
    if matches!(options.order, Order::Ready | Order::Listed) {
        return listing.walk().map(move |entry| again(entry, None)).boxed();
    }
    let (listing, order, rank) = (Arc::clone(listing), options.order.clone(), options.rank.clone());
    let sorted = async move {
        listing.all().await;
        let is_by_rank = matches!(order, Order::Rank);
        let ranks = if is_by_rank { ranks(&listing, rank.as_ref()) } else { Vec::new() };
        let indices = sorted(&listing, &order, &ranks);
        stream::iter(indices)
            .map(move |index| again((index, listing.known().get(index)), ranks.get(index).copied()))
    };
    sorted.flatten_stream().boxed()
}

fn want(
    tag: u64,
    rank: Option<f64>,
    entry: Result<Entry, Error>,
    options: &SetOptions,
) -> Result<Want, (u64, Error)> {
    let entry = entry.map_err(|error| (tag, error))?;
    let rank = rank.unwrap_or_else(|| ranked(&entry, options.rank.as_ref()));
    let start = options.start.as_ref().map_or(0, |start| start(&entry));
    let rest = Some(start..u64::MAX).filter(|_| start > 0);
    Ok(Want { entry, rank, tag, parts: rest.into_iter().collect() })
}

/// The numbers of what is listed so far, in this order; `ranks` are theirs where it is by rank.
pub(crate) fn sorted(listing: &Listing, order: &Order, ranks: &[f64]) -> Vec<usize> {
    let known = listing.known();
    let mut indices: Vec<usize> = (0..known.len()).collect();
    match order {
        Order::Ready | Order::Listed => {}
        Order::Name => indices.sort_by(|&a, &b| known.name(a).cmp(known.name(b))),
        Order::Rank => {
            indices.sort_by(|&a, &b| {
                ranks[b].total_cmp(&ranks[a]).then_with(|| known.name(a).cmp(known.name(b)))
            });
        }
        Order::Replay(names) => {
            let places: std::collections::HashMap<&[u8], usize> =
                names.iter().enumerate().map(|(place, name)| (name.as_bytes(), place)).collect();
            indices
                .sort_by_key(|&index| places.get(known.name(index)).copied().unwrap_or(usize::MAX));
        }
    }
    indices
}

/// The rank of an entry; what is no number counts as 0.
fn ranked(entry: &Entry, rank: Option<&Rank>) -> f64 {
    let rank = rank.map_or(0.0, |rank| rank(entry));
    // There are two zeros, which an order of all numbers tells apart.
    if rank.is_nan() { 0.0 } else { rank + 0.0 }
}

/// The ranks of all that is listed, each asked for without the lock on the list.
fn ranks(listing: &Listing, rank: Option<&Rank>) -> Vec<f64> {
    let count = listing.known().len();
    let of = |index| {
        let entry = listing.known().get(index);
        entry.map_or(0.0, |entry| ranked(&entry, rank))
    };
    (0..count).map(of).collect()
}
