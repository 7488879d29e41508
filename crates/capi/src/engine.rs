//! The engines that the sets of this process share: made when the first set is
//! opened, of the process that made the first call on sets, and of no fork of it.
//! When that exits, what lists names for its sets is ended.

#![expect(unsafe_code, reason = "a function is registered with the C library")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use nearfirst::{Bindings, Engine, EngineOptions, Permissions, Stores, StoresOptions};

use crate::costs::costs;
use crate::error::{Failure, answer};

/// The process that made the first call on sets; 0 before it.
static OWNER: AtomicU32 = AtomicU32::new(0);

static ENGINES: [OnceLock<Engine>; 2] = [const { OnceLock::new() }; 2];

/// Claims sets for this process.
///
/// # Errors
/// `EOPNOTSUPP` in a fork of a process that used sets: it has a copy of their
/// locks, in whatever state they were, and none of the threads.
pub(crate) fn own() -> Result<(), Failure> {
    let this = std::process::id();
    match OWNER.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
        Err(owner) if owner != this => {
            let message = format!(
                "sets belong to process {owner}, which this is a fork of; \
                 make the first call on sets after the fork, or exec"
            );
            Err(Failure::new(libc::EOPNOTSUPP, message))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The engine of sets that follow private links, or of those that do not; its threads start with the
/// first call.
///
/// # Errors
/// A configuration that cannot be read, or no threads: another call tries again.
pub(crate) fn engine(private_links: bool) -> Result<&'static Engine, Failure> {
    /// Held while one is made.
    static IS_ENDED_AT_EXIT: Mutex<bool> = Mutex::new(false);
    let mut is_ended_at_exit = IS_ENDED_AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = &ENGINES[usize::from(private_links)];
    if let Some(engine) = place.get() {
        return Ok(engine);
    }
    let options = StoresOptions {
        // Sets whose caller does not allow programs are refused when they are opened.
        permissions: Permissions { programs: true, private_links },
        bindings: Bindings::load(costs().local())?,
        ..StoresOptions::default()
    };
    if !*is_ended_at_exit {
        at_exit(end_listings)?;
        *is_ended_at_exit = true;
    }
    let stores = Arc::new(Stores::new(Arc::clone(costs()), &options));
    let engine = Engine::new(stores, Arc::clone(costs()), EngineOptions::default())?;
    Ok(place.get_or_init(|| engine))
}

/// Has a function called when this process exits.
///
/// # Errors
/// `ENOMEM`.
fn at_exit(function: extern "C" fn()) -> Result<(), Failure> {
    // SAFETY: a function of this library, which the C library calls before it is unloaded.
    if unsafe { libc::atexit(function) } != 0 {
        return Err(Failure::new(libc::ENOMEM, "exit handlers: no memory".to_owned()));
    }
    Ok(())
}

/// Ends the programs and the queries that list names: nobody lives to drop the listings.
extern "C" fn end_listings() {
    // A fork has the handlers of its parent.
    if OWNER.load(Ordering::Relaxed) == std::process::id() {
        answer((), || {
            ENGINES.iter().filter_map(OnceLock::get).for_each(|one| one.stores().end_listings());
            Ok(())
        });
    }
}
