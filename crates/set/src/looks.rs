//! What is under names of which listing does not tell it: asked again while errors pass, and so
//! many at a time.

use std::sync::Arc;
use std::time::Duration;

use fetch::scheduler::Limits;
use sled::Sled;
use store::{Entry, Error, Name, Stores, heard_within, tried};
use tokio::sync::Semaphore;

/// Requests that are not an engine's; clones share their turns. For tasks of a runtime of Tokio's.
#[derive(Debug, Clone)]
pub struct Looks {
    stores: Arc<Stores>,
    attempts: u32,
    turns: Arc<Semaphore>,
    answer_max: Option<Duration>,
}

impl Looks {
    /// By stores, with no more attempts and requests at a time than `limits` allow.
    pub fn new(stores: &Arc<Stores>, limits: &Limits) -> Self {
        // As the scheduler does, one where none may be made.
        let at_once = limits.window_max.max(1) as usize;
        Self {
            stores: Arc::clone(stores),
            attempts: limits.attempts_max,
            turns: Arc::new(Semaphore::new(at_once)),
            answer_max: None,
        }
    }

    /// The same, by which a store that is asked what is under a name and not heard for `limit` is given up
    /// and not asked again: each of the requests that it takes may take as long.
    #[must_use]
    pub fn answered_within(&self, limit: Duration) -> Self {
        Self { answer_max: Some(limit), ..self.clone() }
    }

    /// Whom it asks.
    pub fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    /// What is under this name now.
    ///
    /// # Errors
    /// As [`Looks::patiently`]; a name that no store owns; [`Error::Interrupted`] where there was no answer.
    pub async fn entry(&self, name: &Name) -> Result<Entry, Error> {
        let store = self.stores.of(name)?;
        let Some(limit) = self.answer_max else { return self.patiently(|| store.stat(name)).await };
        let silent = || {
            let reason = format!("no answer for {} s", limit.as_secs_f32());
            Error::interrupted(name.clone(), reason)
        };
        // Silence is an answer here: what a store is asked again for is an error.
        self.patiently(|| heard_within(limit, store.stat(name))).await?.ok_or_else(silent)
    }

    /// Where the parts of an object are and what those cost; that of an empty one, and of one whose
    /// size its server does not tell, has no bytes.
    ///
    /// # Errors
    /// Those of its store; a name that no store owns.
    pub async fn sleds(&self, entry: &Entry) -> Result<Vec<Sled>, Error> {
        let extents = self.stores.of(&entry.name)?.locate(entry).await?;
        Ok(sled::describe(extents, &self.stores.costs().table()))
    }

    /// What `ask` gives in its turn, asked again while it gives errors that pass.
    ///
    /// # Errors
    /// The last of `ask`.
    pub async fn patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let in_turn = || async {
            let _turn = self.turns.acquire().await.expect("nobody closes it");
            ask().await
        };
        tried(self.attempts, in_turn).await
    }
}
