//! Locks that outlive a panic of who holds them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic of another holder was reported to that holder's caller.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
