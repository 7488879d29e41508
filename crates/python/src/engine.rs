//! The engines of this process: sets that are opened alike share one, which ends with the last of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nearfirst::{Costs, Engine, Setup, Store, Stores, StoresOptions};
use pyo3::prelude::*;

use crate::calls::Calls;
use crate::costs::costs_and_warnings;
use crate::kept::{Kept, Reference};
use crate::owned::Owned;
use crate::store::{Patience, PythonStore};
use crate::{apart, error};

/// How much sooner than the engine a store of Python's loses patience: its error says what did not answer.
const STORE_FIRST: Duration = Duration::from_secs(2);

/// How long a store may list that may give all below a folder at once: millions of names, of which a
/// server names a thousand at a time.
const WHOLE_LISTING_MAX: Duration = Duration::from_hours(1);

/// An engine that sets share.
#[derive(Debug)]
pub(crate) struct Shared {
    setup: Setup,
    /// Stores of Python's, by scheme.
    stores: Vec<(String, Reference)>,
    engine: Owned<Engine>,
}

/// A store of Python's that a set is opened with.
struct Given {
    scheme: String,
    object: Py<PyAny>,
    reference: Reference,
    kept: Py<Kept>,
    /// Whether it may list for as long as [`WHOLE_LISTING_MAX`].
    lists_whole: bool,
}

/// An engine, what its sets keep, and the calls to stores that nobody answers yet.
type Found = (Arc<Shared>, Vec<Py<Kept>>, Vec<Calls>);

/// Those that are in use.
///
/// Nothing under this lock lets go of the GIL: who waits for it holds the GIL.
fn engines() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    static ENGINES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
    ENGINES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The engine of this setup and with these stores, and what its sets must keep.
    ///
    /// # Errors
    /// A configuration that cannot be read; no threads.
    pub(crate) fn with(
        py: Python<'_>,
        setup: Setup,
        mut stores: Vec<(String, Py<PyAny>)>,
    ) -> PyResult<(Arc<Self>, Vec<Py<Kept>>)> {
        // In whatever order they were given, they are the same.
        stores.sort_by(|(left, _), (right, _)| left.cmp(right));
        let made = |(scheme, object): (String, Py<PyAny>)| {
            let (reference, kept) = Reference::new(object.bind(py).clone())?;
            let lists_whole = object.bind(py).hasattr("_lists_whole")?;
            Ok(Given { scheme, object, reference, kept, lists_whole })
        };
        // Before the lock: what allocates objects of Python's may have it collect garbage.
        let given = stores.into_iter().map(made).collect::<PyResult<Vec<_>>>()?;
        let (shared, kept, unanswered) = Self::found_or_made(py, setup, &given)?;
        drop(given);
        for calls in unanswered {
            py.import("nearfirst._calls")?.getattr("start")?.call1((calls,))?;
        }
        Ok((shared, kept))
    }

    fn found_or_made(py: Python<'_>, setup: Setup, given: &[Given]) -> PyResult<Found> {
        let costs = costs_and_warnings(py)?;
        if let Some(found) = Self::found(py, &mut engines(), &setup, given) {
            return Ok(found);
        }
        let made = Self::made(py, setup, given, costs)?;
        let mut engines = engines();
        // Another thread may have been first.
        if let Some(found) = Self::found(py, &mut engines, &made.0.setup, given) {
            drop(engines);
            py.detach(|| drop(made));
            return Ok(found);
        }
        engines.push(Arc::downgrade(&made.0));
        Ok(made)
    }

    /// The engine of this setup and with these stores, if there is one.
    fn found(
        py: Python<'_>,
        engines: &mut Vec<Weak<Self>>,
        setup: &Setup,
        given: &[Given],
    ) -> Option<Found> {
        engines.retain(|engine| engine.strong_count() > 0);
        engines.iter().filter_map(Weak::upgrade).find_map(|known| {
            let is_alike = known.setup == *setup && known.engine.is_ours();
            let kept = is_alike.then(|| known.keeps(py, given)).flatten()?;
            Some((known, kept, Vec::new()))
        })
    }

    /// One that nobody shares yet.
    fn made(py: Python<'_>, setup: Setup, given: &[Given], costs: Arc<Costs>) -> PyResult<Found> {
        let (mut unanswered, mut schemes) = (Vec::new(), HashMap::<_, Arc<dyn Store>>::new());
        let mut engine_options = setup.engine();
        let budget_bytes = engine_options.limits.budget_bytes;
        let share = budget_bytes / (given.len() as u64).max(1);
        for Given { scheme, reference, lists_whole, .. } in given {
            let reference = reference.clone_ref(py);
            let list = if *lists_whole { WHOLE_LISTING_MAX } else { setup.answer_max() };
            let patience = Patience { read: setup.stall(), list };
            let (store, calls) = PythonStore::new(scheme, reference, patience, share);
            schemes.insert(scheme.clone(), Arc::new(store));
            unanswered.push(calls);
        }
        let of = |given: &Given| (given.scheme.clone(), given.reference.clone_ref(py));
        let stores: Vec<_> = given.iter().map(of).collect();
        let kept = given.iter().map(|given| given.kept.clone_ref(py)).collect();
        if !stores.is_empty() {
            engine_options.limits.stall = setup.stall() + STORE_FIRST;
            engine_options.limits.budget_bytes -= PythonStore::asked_bytes(budget_bytes);
            let window_max = &mut engine_options.limits.window_max;
            *window_max = PythonStore::calls_max(share).min(*window_max);
        }
        // Configuration may lie on a mount that does not answer.
        let (setup, opened) = apart::asked(py, true, move || {
            let opened = setup.stores(costs.local()).map(|options| {
                let stores = Stores::new(Arc::clone(&costs), &StoresOptions { schemes, ..options });
                Engine::new(Arc::new(stores), costs, engine_options)
            });
            (setup, opened)
        })?;
        let engine = opened.map_err(|error| error::of(py, &error.name(), &error))??;
        let shared = Arc::new(Self { setup, stores, engine: Owned::new(engine) });
        Ok((shared, kept, unanswered))
    }

    /// What keeps its stores, if they are these and still kept.
    fn keeps(&self, py: Python<'_>, given: &[Given]) -> Option<Vec<Py<Kept>>> {
        if self.stores.len() != given.len() {
            return None;
        }
        let kept = |(store, given): (&(String, Reference), &Given)| {
            let is_same = same(py, store, &given.scheme, given.object.bind(py));
            is_same.then(|| store.1.kept(py).map(Bound::unbind))?
        };
        self.stores.iter().zip(given).map(kept).collect()
    }

    /// Whether a name means the same object to both.
    pub(crate) fn reads_as(&self, py: Python<'_>, other: &Self) -> bool {
        let is_same = |(ours, (scheme, theirs)): (&(String, Reference), &(String, Reference))| {
            theirs.get(py).is_some_and(|theirs| same(py, ours, scheme, &theirs))
        };
        self.setup.storage == other.setup.storage
            && self.setup.permissions.private_links == other.setup.permissions.private_links
            && self.stores.len() == other.stores.len()
            && self.stores.iter().zip(&other.stores).all(is_same)
    }

    /// # Errors
    /// In a fork of the process that it was made in.
    pub(crate) fn engine(&self) -> PyResult<&Engine> {
        self.engine.get()
    }
}

/// Whether a store is of this scheme and is this object.
fn same(
    py: Python<'_>,
    store: &(String, Reference),
    scheme: &str,
    object: &Bound<'_, PyAny>,
) -> bool {
    store.0 == scheme && store.1.get(py).is_some_and(|ours| ours.is(object))
}
