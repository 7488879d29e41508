//! What is under names of which listing does not tell it: asked again while errors pass, and so
//! many at a time.

use std::sync::Arc;

use nearfirst::{Entry, Error, Limits, Name, Stores};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::patience::{Patience, Tries};

/// Requests that are not the engine's.
#[derive(Debug, Clone)]
pub(crate) struct Looks {
    stores: Arc<Stores>,
    patience: Patience,
    turns: Arc<Semaphore>,
}

impl Looks {
    /// By stores, with no more attempts and requests at a time than `limits` allow.
    pub(super) fn new(stores: &Arc<Stores>, limits: &Limits) -> Self {
        let patience = Patience { attempts: limits.attempts_max, backoff: limits.backoff };
        let turns = Arc::new(Semaphore::new(limits.window_max as usize));
        Self { stores: Arc::clone(stores), patience, turns }
    }

    pub(crate) fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    /// A turn to make one of these requests.
    async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("nobody closes it")
    }

    /// What is under this name now.
    pub(crate) async fn entry(&self, name: &Name) -> Result<Entry, Error> {
        let store = self.stores.of(name)?;
        self.patiently(|| store.stat(name)).await
    }

    /// What `ask` gives in its turn, asked again while it gives errors that pass.
    pub(crate) async fn patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut tries = Tries::default();
        loop {
            let turn = self.turn().await;
            let error = match ask().await {
                Err(error) => error,
                found => return found,
            };
            drop(turn);
            let Some(pause) = tries.pause_after(&error, self.patience) else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }
}
