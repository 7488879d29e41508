//! Stores around a store: each fault, pace and count is what it says.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future, stream};
use nearfirst_store::wrap::{Call, Fault, Faulty, Pace, Read, Recording, Throttled};
use nearfirst_store::{
    Answer, Entries, Entry, Error, Name, Query, Reading, Sequence, Store, Version,
};
use sled::Device;

/// Every name is an object of these bytes; every query finds three.
const BYTES: &[u8] = b"0123456789";

#[derive(Debug)]
struct Memory;

impl Memory {
    fn entry(name: Name) -> Entry {
        let version = Some(Version::new("1"));
        Entry { size: Some(BYTES.len() as u64), version, ..Entry::named(name) }
    }
}

impl Store for Memory {
    fn device(&self, _name: &Name) -> Device {
        Device::memory()
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        future::ready(Ok(Self::entry(name.clone()))).boxed()
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let range = range.start..range.end.min(BYTES.len() as u64);
        let at = |offset| usize::try_from(offset).expect("within the bytes");
        let part = &BYTES[at(range.start)..at(range.end)];
        let pieces = part.chunks(4).map(|piece| Ok(Bytes::from_static(piece)));
        let bytes = stream::iter(pieces.collect::<Vec<_>>()).boxed();
        let entry = Self::entry(entry.name.clone());
        future::ready(Ok(Reading { entry, range, headers: Vec::new(), bytes })).boxed()
    }

    fn list(&self, _query: &Query) -> Entries {
        let names = ["a", "b", "c"].map(|name| Ok(Self::entry(Name::from(name))));
        stream::iter(names).boxed()
    }
}

fn a() -> Entry {
    Entry::named(Name::from("a"))
}

fn told(name: Name) -> Error {
    Error::interrupted(name, "told so")
}

/// The bytes that come, and whether an error ends them; none if nothing does.
fn read(store: &dyn Store) -> Option<(Vec<u8>, bool)> {
    let pieces = async {
        let reading = store.read(&a(), 0..u64::MAX).await?;
        let mut bytes = Vec::new();
        let mut pieces = reading.bytes;
        while let Some(piece) = pieces.next().await {
            let Ok(piece) = piece else { return Ok((bytes, true)) };
            bytes.extend_from_slice(&piece);
        }
        Ok::<_, Error>((bytes, false))
    };
    pieces.now_or_never()?.ok()
}

#[tokio::test]
async fn each_fault_is_at_its_call_and_nowhere_else() {
    let store = Faulty::new(Arc::new(Memory));
    store.at(Call::Read, 2, Fault::FailsAfter(6, told));
    store.at(Call::Read, 3, Fault::EndsAfter(4));
    store.at(Call::Read, 4, Fault::HangsAfter(4));
    store.at(Call::Read, 5, Fault::FailsAfter(100, told));
    assert_eq!(read(&store), Some((BYTES.to_vec(), false)));
    assert_eq!(read(&store), Some((b"012345".to_vec(), true)));
    assert_eq!(read(&store), Some((b"0123".to_vec(), false)));
    assert_eq!(read(&store), None);
    assert_eq!(read(&store), Some((BYTES.to_vec(), true)));

    store.at(Call::Stat, 1, Fault::Hangs);
    store.every(Call::Stat, 2, Fault::SaysSize(7));
    store.at(Call::Stat, 4, Fault::SaysOtherVersion);
    let stat = || store.stat(&Name::from("a")).now_or_never().map(Result::unwrap);
    assert_eq!(stat(), None);
    assert_eq!(stat().unwrap().size, Some(7));
    assert_eq!(stat().unwrap(), Memory::entry(Name::from("a")));
    let other = stat().unwrap();
    assert!(other.size == Some(10) && other.version != Some(Version::new("1")));

    store.at(Call::List, 1, Fault::FailsAfter(2, told));
    let listed: Vec<_> =
        store.list(&Query::Glob(Name::from("*"), Sequence::InTurn)).collect().await;
    assert!(matches!(listed[..], [Ok(_), Ok(_), Err(Error::Interrupted { .. })]), "{listed:?}");
}

#[tokio::test]
async fn a_throttled_store_makes_wait_where_its_pace_says() {
    let slow = Pace { bytes_per_second: Some(0), ..Pace::default() };
    let slow = Throttled::new(Arc::new(Memory), slow);
    assert!(slow.stat(&Name::from("a")).now_or_never().is_some());
    let mut reading = slow.read(&a(), 0..u64::MAX).await.unwrap();
    assert!(reading.bytes.next().now_or_never().is_none());

    let few = Throttled::new(Arc::new(Memory), Pace { reads_max: 2, ..Pace::default() });
    assert_eq!(read(&few), Some((BYTES.to_vec(), false)));
    let first = few.read(&a(), 0..1).await.unwrap();
    let second = few.read(&a(), 0..1).await.unwrap();
    let mut third = few.read(&a(), 0..1);
    assert!((&mut third).now_or_never().is_none());
    drop(first);
    assert_eq!(third.await.unwrap().bytes.count().await, 1);
    drop(second);
}

#[tokio::test]
async fn what_was_asked_is_counted() {
    let store = Recording::new(Arc::new(Memory));
    let first = store.read(&a(), 0..4).await.unwrap();
    let second = store.read(&a(), 4..9).await.unwrap();
    assert_eq!(store.recorded().under_way, 2);
    assert_eq!(second.bytes.count().await, 2);
    drop(first);
    store.stat(&Name::from("a")).await.unwrap();
    drop(store.list(&Query::Glob(Name::from("*"), Sequence::InTurn)));
    let recorded = store.clone().recorded();
    assert_eq!((recorded.under_way, recorded.under_way_max, recorded.bytes), (0, 2, 5));
    let reads = [0..4, 4..9].map(|range| Read { name: Name::from("a"), range });
    assert_eq!(recorded.reads, reads);
    let calls = [Call::Read, Call::Stat, Call::List];
    let counts = calls.map(|call| recorded.calls.get(&call).copied().unwrap_or(0));
    assert_eq!(counts, [2, 1, 1]);
}
