//! A store that is as slow as it is told to be.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use sled::{Device, Extent};
use tokio::sync::Semaphore;

use crate::{Answer, Checksum, Entries, Entry, Name, PartLengths, Query, Reading, Recall, Store};

/// How slow reads are, by tokio's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Of all reads together; not limited if none.
    pub bytes_per_second: Option<u64>,
    /// Reads that are served at a time; others wait. A read is served until
    /// its stream ends or is dropped.
    pub reads_max: usize,
}

impl Default for Pace {
    /// Not slow at all.
    fn default() -> Self {
        Self { bytes_per_second: None, reads_max: Semaphore::MAX_PERMITS }
    }
}

/// A store that answers as another does, but reads no faster than its pace.
#[derive(Debug, Clone)]
pub struct Throttled {
    store: Arc<dyn Store>,
    bytes_per_second: Option<u64>,
    reads: Arc<Semaphore>,
    /// The one link that all bytes come over.
    link: Arc<Semaphore>,
}

impl Throttled {
    /// Around a store.
    pub fn new(store: Arc<dyn Store>, pace: Pace) -> Self {
        let reads = Arc::new(Semaphore::new(pace.reads_max.min(Semaphore::MAX_PERMITS)));
        Self {
            store,
            bytes_per_second: pace.bytes_per_second,
            reads,
            link: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits for the link, and then as long as so many bytes take.
    async fn carry(link: Arc<Semaphore>, bytes: usize, bytes_per_second: u64) {
        let _turn = link.acquire().await.expect("the link is never closed");
        let seconds = bytes as f64 / bytes_per_second.max(1) as f64;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Throttled {
    fn device(&self, name: &Name) -> Device {
        self.store.device(name)
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        self.store.stat(name)
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let entry = entry.clone();
        async move {
            let turn = Arc::clone(&self.reads).acquire_owned().await;
            let turn = turn.expect("the queue of reads is never closed");
            let reading = self.store.read(&entry, range).await?;
            let (link, rate) = (Arc::clone(&self.link), self.bytes_per_second);
            let bytes = reading.bytes.then(move |piece| {
                // Held by the stream: the next read is served when it is gone.
                let _turn = &turn;
                let (link, length) =
                    (Arc::clone(&link), piece.as_ref().map_or(0, bytes::Bytes::len));
                async move {
                    if let Some(rate) = rate {
                        Self::carry(link, length, rate).await;
                    }
                    piece
                }
            });
            Ok(Reading { bytes: bytes.boxed(), ..reading })
        }
        .boxed()
    }

    fn list(&self, query: &Query) -> Entries {
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
