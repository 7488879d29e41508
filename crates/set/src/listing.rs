//! The names of a set as they become known, for everyone who wants to know them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{Stream, StreamExt as _, stream};
use store::{Entries, Entry, Error, Name};

use crate::roster::Roster;

/// Names taken from a source at a time, if so many are known.
const BATCH: usize = 64;

/// What is listed so far, and the source of the rest.
///
/// Whoever needs a name that is not known yet draws on the source; all see
/// the same names in the same order.
pub(crate) struct Listing {
    roster: Mutex<Roster>,
    source: tokio::sync::Mutex<Source>,
}

/// `None` once it has ended.
type Source = Option<stream::ReadyChunks<Entries>>;

impl Listing {
    pub(crate) fn new(source: Entries) -> Arc<Self> {
        let source = tokio::sync::Mutex::new(Some(source.ready_chunks(BATCH)));
        Arc::new(Self { roster: Mutex::default(), source })
    }

    /// What is known so far.
    pub(crate) fn known(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody waits for more.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.source.try_lock().is_err()
    }

    /// Waits until more than `count` names are known; `false` if there are no more.
    pub(crate) async fn beyond(&self, count: usize) -> bool {
        loop {
            if self.known().len() > count {
                return true;
            }
            let mut source = self.source.lock().await;
            if self.known().len() > count {
                return true;
            }
            let Some(entries) = source.as_mut() else { return false };
            let Some(batch) = entries.next().await else {
                *source = None;
                return false;
            };
            let mut roster = self.known();
            for entry in batch {
                match entry {
                    Ok(entry) => drop(roster.add(&entry)),
                    Err(error) => roster.add_error(error),
                }
            }
        }
    }

    /// Waits until all names are known.
    pub(crate) async fn all(&self) {
        let mut known = self.known().len();
        while self.beyond(known).await {
            known = self.known().len();
        }
    }

    /// The entries from the first on, with their numbers.
    pub(crate) fn walk(
        self: &Arc<Self>,
    ) -> impl Stream<Item = (usize, Result<Entry, Arc<Error>>)> + Send + 'static + use<> {
        stream::unfold((Arc::clone(self), 0), |(listing, index)| async move {
            listing.beyond(index).await.then_some(())?;
            let entry = listing.known().get(index);
            Some(((index, entry), (listing, index + 1)))
        })
    }

    /// Whether a name is listed so far.
    pub(crate) fn contains(&self, name: &Name) -> bool {
        self.known().contains(name.as_bytes())
    }
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").field("known", &self.known().len()).finish_non_exhaustive()
    }
}
