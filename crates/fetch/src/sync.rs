//! The locks and atomics that are used here, in one place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, mpsc};
pub(crate) use store::lock;
