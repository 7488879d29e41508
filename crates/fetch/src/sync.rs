//! Locks and atomics, in one place so that a model checker can stand in.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, mpsc};
pub(crate) use store::lock;
