//! The engines of this process: sets that are opened alike share one, which ends with the last of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use nearfirst::{Engine, Stores};
use pyo3::prelude::*;

use crate::costs::costs;
use crate::error;
use crate::options::Options;
use crate::owned::Owned;

/// An engine that sets share.
#[derive(Debug)]
pub(crate) struct Shared {
    options: Options,
    engine: Owned<Engine>,
}

/// What kept an engine from being made.
enum Failure {
    Configuration(nearfirst::Error),
    Threads(std::io::Error),
}

/// Those that are in use.
static ENGINES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

impl Shared {
    /// The engine for these options.
    ///
    /// # Errors
    /// A configuration that cannot be read; no threads.
    pub(crate) fn with(py: Python<'_>, options: Options) -> PyResult<Arc<Self>> {
        // Nothing under this lock lets go of the GIL: who waits for it holds the GIL.
        Self::found_or_made(options).map_err(|failure| match failure {
            Failure::Configuration(error) => error::of(py, &error.name(), &error),
            Failure::Threads(error) => error.into(),
        })
    }

    fn found_or_made(options: Options) -> Result<Arc<Self>, Failure> {
        let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
        engines.retain(|engine| engine.strong_count() > 0);
        let alike = |known: &Arc<Self>| known.options == options && known.engine.is_ours();
        if let Some(engine) = engines.iter().filter_map(Weak::upgrade).find(alike) {
            return Ok(engine);
        }
        let stores = options.stores().map_err(Failure::Configuration)?;
        let costs = costs();
        let stores = Arc::new(Stores::new(Arc::clone(&costs), &stores));
        let engine = Engine::new(stores, costs, options.engine()).map_err(Failure::Threads)?;
        let shared = Arc::new(Self { options, engine: Owned::new(engine) });
        engines.push(Arc::downgrade(&shared));
        Ok(shared)
    }

    /// # Errors
    /// In a fork of the process that it was made in.
    pub(crate) fn engine(&self) -> PyResult<&Engine> {
        self.engine.get()
    }
}
