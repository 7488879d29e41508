//! Locks that outlive a panic of who holds them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a panic of another holder is that holder's to report.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
