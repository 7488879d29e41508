//! Wakes the scheduler when it asked to be woken.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::Inner;
use crate::scheduler::Event;
use crate::sync::lock;

/// Runs until the engine ends; `changed` says that the time to wake may have come nearer.
pub(crate) async fn run(engine: Weak<Inner>, changed: Arc<Notify>) {
    loop {
        let Some(inner) = engine.upgrade() else { return };
        let wake_at = lock(&inner.state).wake_at();
        let now = inner.costs.clock().now();
        drop(inner);
        match wake_at {
            None => changed.notified().await,
            Some(at) if at > now => {
                // Earlier wishes replace this one.
                drop(tokio::time::timeout(at.saturating_sub(now), changed.notified()).await);
            }
            Some(_) => {
                let Some(inner) = engine.upgrade() else { return };
                inner.post(inner.pool.waited(now).into_iter().chain([Event::Tick]));
            }
        }
    }
}
