//! A store that remembers what it was asked.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::{FutureExt as _, StreamExt as _};
use sled::{Device, Extent};

use super::Call;
use crate::sync::lock;
use crate::{Answer, Checksum, Entries, Entry, Name, PartLengths, Query, Reading, Recall, Store};

/// Reads that are remembered one by one; more are counted only.
const READS_MAX: usize = 100_000;

/// What a store was asked until now.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Calls by kind; none of a kind that did not occur.
    pub calls: HashMap<Call, u64>,
    /// The first hundred thousand reads, in their order.
    pub reads: Vec<Read>,
    /// Bytes that reads have brought.
    pub bytes: u64,
    /// Reads that were asked for and have neither ended nor been dropped.
    pub under_way: u64,
    /// The most that were under way at a time.
    pub under_way_max: u64,
}

/// A read that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Of this object.
    pub name: Name,
    /// Of these bytes.
    pub range: Range<u64>,
}

/// A store that answers as another does, and counts. Clones count together.
#[derive(Debug, Clone)]
pub struct Recording {
    store: Arc<dyn Store>,
    recorded: Arc<Mutex<Recorded>>,
}

impl Recording {
    /// Around a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, recorded: Arc::default() }
    }

    /// What was asked until now.
    pub fn recorded(&self) -> Recorded {
        change(&self.recorded, |recorded| recorded.clone())
    }

    fn count(&self, call: Call) {
        change(&self.recorded, |recorded| *recorded.calls.entry(call).or_default() += 1);
    }
}

fn change<T>(recorded: &Mutex<Recorded>, work: impl FnOnce(&mut Recorded) -> T) -> T {
    work(&mut lock(recorded))
}

/// A read that is under way until this is dropped.
struct UnderWay(Arc<Mutex<Recorded>>);

impl UnderWay {
    fn new(recorded: &Arc<Mutex<Recorded>>, read: Read) -> Self {
        change(recorded, |recorded| {
            if recorded.reads.len() < READS_MAX {
                recorded.reads.push(read);
            }
            recorded.under_way += 1;
            recorded.under_way_max = recorded.under_way_max.max(recorded.under_way);
        });
        Self(Arc::clone(recorded))
    }

    fn brought(&self, bytes: usize) {
        change(&self.0, |recorded| recorded.bytes += bytes as u64);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        change(&self.0, |recorded| recorded.under_way -= 1);
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Recording {
    fn device(&self, name: &Name) -> Device {
        self.store.device(name)
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        self.count(Call::Stat);
        self.store.stat(name)
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        self.count(Call::Read);
        let read = Read { name: entry.name.clone(), range: range.clone() };
        let under_way = UnderWay::new(&self.recorded, read);
        let answer = self.store.read(entry, range);
        let counted = move |reading: Reading| {
            let bytes = reading.bytes.inspect(move |piece| {
                under_way.brought(piece.as_ref().map_or(0, bytes::Bytes::len));
            });
            Reading { bytes: bytes.boxed(), ..reading }
        };
        answer.map(|reading| reading.map(counted)).boxed()
    }

    fn list(&self, query: &Query) -> Entries {
        self.count(Call::List);
        self.store.list(query)
    }

    fn locate(&self, entry: &Entry) -> Answer<'_, Vec<Extent>> {
        self.store.locate(entry)
    }

    fn checksum(&self, entry: &Entry) -> Answer<'_, Option<Checksum>> {
        self.store.checksum(entry)
    }

    fn part_lengths(&self, entry: &Entry) -> PartLengths {
        self.store.part_lengths(entry)
    }

    fn recall(&self, entry: &Entry) -> Answer<'_, Recall> {
        self.store.recall(entry)
    }

    fn file(&self, _name: &Name) -> Option<PathBuf> {
        None
    }
}
