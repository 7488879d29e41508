//! The engines that the sets of this process share, each by those that are opened with the same
//! options: made when the first is, of the process that made the first call on sets, and of no fork of it.
//! When that exits, what lists names for its sets is ended.

#![expect(unsafe_code, reason = "a function is registered with the C library")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use nearfirst::{Engine, Process, Setup, Stores};

use crate::costs::costs;
use crate::error::{Failure, answer};
use crate::sync::lock;

/// The process that made the first call on sets; 0 before it.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// Those that sets use; others are kept until one more is made, for sets that are opened alike.
static ENGINES: Mutex<Vec<(Setup, Engine)>> = Mutex::new(Vec::new());

/// Claims sets for this process.
///
/// # Errors
/// `EOPNOTSUPP` in a fork of a process that used sets: it has a copy of their
/// locks, in whatever state they were, and none of the threads.
pub(crate) fn own() -> Result<(), Failure> {
    let this = Process::this().to_bits();
    match OWNER.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
        Err(owner) if owner != this => {
            let message = format!(
                "sets belong to process {}, which this is a fork of; \
                 make the first call on sets after the fork, or exec",
                Process::from_bits(owner).number()
            );
            Err(Failure::new(libc::EOPNOTSUPP, message))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The engine for these options; its threads start with the first call.
///
/// # Errors
/// A configuration that cannot be read, or no threads: another call tries again.
pub(crate) fn engine(setup: Setup) -> Result<Engine, Failure> {
    /// Changed under the lock on the engines.
    static IS_ENDED_AT_EXIT: AtomicBool = AtomicBool::new(false);
    let mut engines = engines();
    if let Some((_, engine)) = engines.iter().find(|(known, _)| *known == setup) {
        return Ok(engine.clone());
    }
    if !IS_ENDED_AT_EXIT.load(Ordering::Relaxed) {
        at_exit(end_listings)?;
        IS_ENDED_AT_EXIT.store(true, Ordering::Relaxed);
    }
    let stores = Arc::new(Stores::new(Arc::clone(costs()), &setup.stores(costs().local())?));
    let engine = Engine::new(stores, Arc::clone(costs()), setup.engine())?;
    let unused: Vec<_> = engines.extract_if(.., |(_, engine)| !engine.is_shared()).collect();
    engines.push((setup, engine.clone()));
    // They end without the lock.
    drop(engines);
    drop(unused);
    Ok(engine)
}

fn engines() -> MutexGuard<'static, Vec<(Setup, Engine)>> {
    lock(&ENGINES)
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
    if OWNER.load(Ordering::Relaxed) == Process::this().to_bits() {
        answer((), || {
            let engines: Vec<Engine> = engines().iter().map(|(_, one)| one.clone()).collect();
            for one in engines {
                one.stores().end_listings();
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use nearfirst::{Set, SetOptions, Spec};

    use super::*;

    fn with(window_max: u32) -> Setup {
        Setup { window_max: Some(window_max), ..Setup::default() }
    }

    /// Whether there is an engine for it, and sets use it.
    fn known(setup: &Setup) -> Option<bool> {
        let engines = engines();
        engines.iter().find(|(known, _)| known == setup).map(|(_, engine)| engine.is_shared())
    }

    #[test]
    fn an_engine_that_no_set_uses_ends_when_another_is_made() {
        let setups = [with(101), with(102), with(103)];
        let used = engine(setups[0].clone()).expect("threads");
        let set = Set::open(&used, [Spec::glob("/etc/pass*")], SetOptions::default());
        drop(used);
        assert!(set.next().expect("a member").is_ok());
        drop(engine(setups[1].clone()).expect("threads"));
        assert_eq!(known(&setups[0]), Some(true));
        drop(set);
        testkit::until("what the set had under way ends", || known(&setups[0]) == Some(false));
        drop(engine(setups[2].clone()).expect("threads"));
        assert_eq!(setups.each_ref().map(known), [None, None, Some(false)]);
    }
}
