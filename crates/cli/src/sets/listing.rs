//! What is listed, in batches of what has become known meanwhile, and what listing left open.

use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use nearfirst::{Engine, Entries, Entry, Error, Looks, Name, Rank, Set, Sled};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::{Sets, progress};
use crate::divide::begun;

/// Names that are looked at together, if so many are known.
const BATCH: usize = 256;
/// Names asked about at a time: a server answers many at once.
const ASKED_AT_ONCE: usize = 32;

/// What a set lists.
pub(crate) type Item = Result<Entry, Arc<Error>>;

/// An entry with where its parts are and what those cost.
pub(crate) type Described = Result<(Entry, Vec<Sled>), Arc<Error>>;

/// Hands what a set lists to `take`, as it becomes known.
///
/// # Errors
/// The first of `take`; nothing is listed after it.
pub(crate) fn in_batches(
    set: &Arc<Set>,
    mut take: impl FnMut(Vec<Item>) -> io::Result<()>,
) -> io::Result<()> {
    let _shown = progress::show_names(set);
    let (to, from) = mpsc::channel(BATCH);
    std::thread::scope(|scope| {
        // Listed here, looked at there: a batch is what has become known meanwhile.
        let list = move || set.engine().handle().block_on(listed(set, to));
        if begun(scope, list).is_none() {
            // Where no thread can be had, each is a batch of its own.
            return set.digest().try_for_each(|item| take(vec![item]));
        }
        // Closed before the other is waited for.
        let mut from: Receiver<Item> = from;
        while let Some(first) = from.blocking_recv() {
            let further = std::iter::from_fn(|| from.try_recv().ok());
            take(std::iter::once(first).chain(further.take(BATCH - 1)).collect())?;
        }
        Ok(())
    })
}

/// As [`in_batches`], files of this machine apart from objects: they have more to tell than a store does.
///
/// # Errors
/// As [`in_batches`].
pub(crate) fn files_and_objects(
    set: &Arc<Set>,
    mut take: impl FnMut(Vec<Name>, Vec<Item>) -> io::Result<()>,
) -> io::Result<()> {
    in_batches(set, |batch| {
        let (mut files, mut objects) = (Vec::new(), Vec::new());
        for item in batch {
            match item {
                Ok(entry) if entry.name.path().is_some() => files.push(entry.name),
                item => objects.push(item),
            }
        }
        take(files, objects)
    })
}

/// Sends what a set lists, until nobody takes it any more.
async fn listed(set: &Set, to: Sender<Item>) {
    let mut entries = pin!(set.entries());
    loop {
        let item = tokio::select! {
            biased;
            () = to.closed() => return,
            item = entries.next() => item,
        };
        let Some(item) = item else { return };
        if to.send(item).await.is_err() {
            return;
        }
    }
}

/// The same entries with what listing left open, where `is_open` says so.
pub(crate) fn looked_up(
    sets: &Sets,
    batch: Vec<Item>,
    is_open: impl Fn(&Entry) -> bool,
    at_once: Option<usize>,
) -> Vec<Item> {
    if !batch.iter().flatten().any(&is_open) {
        return batch;
    }
    let asked = batch.into_iter().map(|item| {
        let open = item.as_ref().is_ok_and(&is_open);
        async move {
            match item {
                Ok(entry) if open => looked_up_one(sets, entry.name).await.map_err(Arc::new),
                item => item,
            }
        }
    });
    several(sets.engine(), asked.collect(), at_once)
}

/// What is under a name, and of a file of this machine whether it seems to be offline. Sets that are read
/// need not be told: of each file that is found out as it is opened.
async fn looked_up_one(sets: &Sets, name: Name) -> Result<Entry, Error> {
    let Some(path) = name.path().map(Path::to_owned) else {
        return sets.looks().entry(&name).await;
    };
    let costs = Arc::clone(sets.engine().costs());
    store::blocking(move || Ok(costs.entry(name, &costs.local().stat(&path)?))).await
}

/// The same entries with what listing left open, where `rank` can make no number of what it told.
pub(crate) fn known(looks: Looks, rank: Rank, entries: Entries) -> Entries {
    let known = entries.map(move |entry| {
        let (looks, rank) = (looks.clone(), Arc::clone(&rank));
        async move {
            let entry = entry?;
            if !rank(&entry).is_nan() {
                return Ok(entry);
            }
            // What is wrong with it is told when it is read.
            Ok(looks.entry(&entry.name).await.unwrap_or(entry))
        }
    });
    known.buffered(ASKED_AT_ONCE).boxed()
}

/// The same entries with the sizes of objects that listing did not tell of.
pub(crate) fn sized(looks: Looks, entries: Entries) -> Entries {
    let sized = entries.map(move |entry| {
        let looks = looks.clone();
        async move {
            let entry = entry?;
            if entry.size.is_some() || entry.name.path().is_some() {
                return Ok(entry);
            }
            // What has no size may be made anew at each answer: its version is not held to.
            let known = looks.entry(&entry.name).await?;
            Ok(if known.size.is_some() { known } else { Entry::named(entry.name) })
        }
    });
    sized.buffered(ASKED_AT_ONCE).boxed()
}

/// Entries with where their parts are and what those cost.
pub(crate) fn described(engine: &Engine, looks: &Looks, batch: Vec<Item>) -> Vec<Described> {
    let asked = batch.into_iter().map(|item| async move {
        let entry = item?;
        let is_open = entry.size.is_none();
        let entry = if is_open { looks.entry(&entry.name).await? } else { entry };
        let sleds = looks.sleds(&entry).await?;
        Ok((entry, sleds))
    });
    several(engine, asked.collect(), None)
}

/// Waits for all answers, some at a time; in order.
fn several<F: Future>(engine: &Engine, asked: Vec<F>, at_once: Option<usize>) -> Vec<F::Output> {
    let all = stream::iter(asked).buffered(at_once.unwrap_or(ASKED_AT_ONCE)).collect();
    let _entered = engine.handle().enter();
    futures::executor::block_on(all)
}
