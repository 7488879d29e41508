//! Object stores against real servers, and against one that misbehaves as it is told.

#![cfg(feature = "object")]
#![expect(clippy::unwrap_used, reason = "what helpers do not expect fails the test")]

mod cold;
mod conformance;
mod credentials;
mod s3;
mod services;

use std::collections::BTreeSet;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::StreamExt as _;
use nearfirst_store::{
    Costs, Entry, Error, Name, Query, Reading, Sequence, StorageOptions, Store, Stores,
    StoresOptions,
};
use testkit::server::S3;
use tokio::runtime::Runtime;

/// Runs as the library does: on a runtime that is there all the time.
fn run<T>(work: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads"));
    RUNTIME.block_on(work)
}

/// Stores with these storage options.
fn stores(storage: &[(&str, &str)]) -> Stores {
    let storage = StorageOptions::new(storage.iter().copied()).unwrap();
    let answer_max = Duration::from_secs(5);
    let options = StoresOptions { storage, answer_max, ..StoresOptions::default() };
    Stores::new(Arc::new(Costs::load()), &options)
}

/// Stores that find S3 at `endpoint`.
fn s3_stores(endpoint: &str) -> Stores {
    stores(&[
        ("endpoint", endpoint),
        ("region", S3::REGION),
        ("access_key_id", S3::ACCESS_KEY),
        ("secret_access_key", S3::SECRET_KEY),
    ])
}

/// Where tests get the store of a name.
trait Source {
    fn open(&self, name: &Name) -> Arc<dyn Store>;
}

impl Source for Stores {
    fn open(&self, name: &Name) -> Arc<dyn Store> {
        self.of(name).unwrap()
    }
}

/// Puts a store around another.
type Wrap = fn(Arc<dyn Store>) -> Arc<dyn Store>;

/// Stores, each with another around it.
struct Around(Stores, Wrap);

impl Source for Around {
    fn open(&self, name: &Name) -> Arc<dyn Store> {
        self.1(self.0.open(name))
    }
}

fn open(stores: &dyn Source, name: &str) -> Arc<dyn Store> {
    stores.open(&Name::from(name))
}

/// Everything that a pattern lists.
fn listed(stores: &dyn Source, pattern: &str) -> Vec<Result<Entry, Error>> {
    let store = open(stores, pattern);
    run(store.list(&Query::Glob(Name::from(pattern), Sequence::InTurn)).collect())
}

/// The names that a pattern lists, without errors.
fn names(stores: &dyn Source, pattern: &str) -> BTreeSet<String> {
    let entries = listed(stores, pattern).into_iter();
    let all: Vec<_> =
        entries.map(|entry| entry.unwrap().name.to_string_lossy().into_owned()).collect();
    let distinct = all.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(all.len(), distinct.len(), "a name twice: {all:?}");
    distinct
}

async fn text(reading: Reading) -> Result<String, Error> {
    let mut all = Vec::new();
    let mut bytes = reading.bytes;
    while let Some(part) = bytes.next().await {
        all.extend_from_slice(&part?);
    }
    Ok(String::from_utf8(all).expect("tests store UTF-8"))
}

/// The bytes of a range of what is under a name, by name alone.
fn read(stores: &dyn Source, name: &str, range: Range<u64>) -> Result<String, Error> {
    read_entry(stores, &Entry::named(Name::from(name)), range)
}

fn read_entry(stores: &dyn Source, entry: &Entry, range: Range<u64>) -> Result<String, Error> {
    let store = stores.open(&entry.name);
    run(async { text(store.read(entry, range).await?).await })
}

fn stat(stores: &dyn Source, name: &str) -> Result<Entry, Error> {
    let store = open(stores, name);
    run(store.stat(&Name::from(name)))
}
