//! What gives a set its names: each time anew.

use std::sync::Arc;

use store::Entries;

use crate::listing::{Listing, with_stack};

/// Evaluates the specs of a set; of a set made of sets, those of all of them.
#[derive(Clone)]
pub(crate) struct Source(Option<Arc<dyn Fn() -> Entries + Send + Sync>>);

impl Source {
    pub(crate) fn new(evaluate: Arc<dyn Fn() -> Entries + Send + Sync>) -> Self {
        Self(Some(evaluate))
    }

    /// The names as they are from now on.
    pub(crate) fn listing(&self) -> Arc<Listing> {
        let evaluate = self.0.as_ref().expect("it is kept until this is dropped");
        with_stack(|| Listing::new(evaluate()))
    }
}

/// What a source is made of ends with it, all the way down.
impl Drop for Source {
    fn drop(&mut self) {
        let evaluate = self.0.take();
        with_stack(|| drop(evaluate));
    }
}
