//! Wakes an event loop without the GIL: whoever rings must not wait for Python.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable once something has happened.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Bell(Arc<Rope>);

#[derive(Debug)]
struct Rope(OwnedFd);

impl Wake for Rope {
    fn wake(self: Arc<Self>) {
        // It fails only when it has been rung as often as a counter holds: it is heard then.
        let _heard = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Bell {
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(Arc::new(Rope(eventfd(0, flags).map_err(std::io::Error::from)?))))
    }

    fn fileno(&self) -> RawFd {
        self.0.0.as_raw_fd()
    }

    /// Makes it silent until it is rung again.
    fn clear(&self) {
        // Nothing to read: it was silent.
        let _count = rustix::io::read(&self.0.0, &mut [0_u8; 8]);
    }
}
