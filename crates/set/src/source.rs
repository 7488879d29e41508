//! What gives a set its names: each time anew.

use std::collections::HashMap;
use std::sync::Arc;

use store::Entries;

use crate::listing::{Listing, with_stack};

/// Evaluates the specs of a set; of a set made of sets, those of all of them.
#[derive(Clone)]
pub(crate) struct Source(Option<Arc<Evaluate>>);

type Evaluate = dyn Fn(&mut Anew) -> Entries + Send + Sync;

/// What is evaluated together: a source that several are made of gives its names once.
#[derive(Default)]
pub(crate) struct Anew(HashMap<*const (), Arc<Listing>>);

impl Source {
    pub(crate) fn new(evaluate: Arc<Evaluate>) -> Self {
        Self(Some(evaluate))
    }

    /// The names as they are from now on.
    pub(crate) fn listing(&self, anew: &mut Anew) -> Arc<Listing> {
        let evaluate = self.0.as_ref().expect("it is kept until this is dropped");
        let this = Arc::as_ptr(evaluate).cast();
        if let Some(listing) = anew.0.get(&this) {
            return Arc::clone(listing);
        }
        let listing = with_stack(|| Listing::new(evaluate(anew)));
        anew.0.insert(this, Arc::clone(&listing));
        listing
    }
}

/// What a source is made of ends with it, all the way down.
impl Drop for Source {
    fn drop(&mut self) {
        let evaluate = self.0.take();
        with_stack(|| drop(evaluate));
    }
}
