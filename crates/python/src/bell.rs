//! Wakes an event loop without the GIL: whoever rings must not wait for Python.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable once some who wait in one event loop are to be woken, and who they are.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Bell(Arc<Tower>);

#[derive(Debug)]
struct Tower {
    counter: OwnedFd,
    rung: Mutex<Vec<u64>>,
    next: AtomicU64,
}

/// One who is woken by a bell.
#[derive(Debug)]
pub(crate) struct Rope {
    tower: Arc<Tower>,
    pub(crate) number: u64,
}

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut rung = self.tower.rung.lock().unwrap_or_else(PoisonError::into_inner);
        rung.push(self.number);
        drop(rung);
        // It fails only when it has been rung as often as a counter holds: it is heard then.
        let _heard = rustix::io::write(&self.tower.counter, &1_u64.to_ne_bytes());
    }
}

impl Rope {
    /// What tells it from every other one that lives.
    pub(crate) fn place(&self) -> (usize, u64) {
        (Arc::as_ptr(&self.tower).addr(), self.number)
    }
}

impl Bell {
    /// A rope of its own for one who waits.
    pub(crate) fn rope(&self) -> Arc<Rope> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        Arc::new(Rope { tower: Arc::clone(&self.0), number })
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let counter = eventfd(0, flags).map_err(std::io::Error::from)?;
        Ok(Self(Arc::new(Tower { counter, rung: Mutex::default(), next: AtomicU64::default() })))
    }

    fn fileno(&self) -> RawFd {
        self.0.counter.as_raw_fd()
    }

    /// Who is to be woken; the bell is silent until it is rung again.
    fn rung(&self) -> Vec<u64> {
        // In this order: who rings between the two is told now or rings once more.
        // Nothing to read: it was silent.
        let _count = rustix::io::read(&self.0.counter, &mut [0_u8; 8]);
        std::mem::take(&mut *self.0.rung.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
