//! The course of a run over a set, which may be stopped before the set ends.

use std::pin::pin;

use futures::StreamExt as _;
use nearfirst::{Member, MemberError, Set};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::Sets;

/// What threads take members by, until one of them stops the run.
#[derive(Debug)]
pub(crate) struct Course {
    /// In which members are waited for.
    runtime: Handle,
    /// Closed once the run is stopped; it never has a permit.
    goes_on: Semaphore,
}

impl Course {
    pub(crate) fn of(sets: &Sets) -> Self {
        Self { runtime: sets.engine().handle().clone(), goes_on: Semaphore::new(0) }
    }

    /// The next member that is ready; `None` after the last, and once the run is stopped, also for who
    /// waits already.
    pub(crate) fn next(&self, set: &Set) -> Option<Result<Member, MemberError>> {
        self.runtime.block_on(async {
            let mut members = pin!(set.stream());
            tokio::select! {
                biased;
                _ = self.goes_on.acquire() => None,
                member = members.next() => member,
            }
        })
    }

    /// Nothing more is begun.
    pub(crate) fn stop(&self) {
        self.goes_on.close();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.goes_on.is_closed()
    }
}
