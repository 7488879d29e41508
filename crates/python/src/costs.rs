//! What files of this machine cost, as this process knows it.

use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearfirst::Costs;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::apart::Apart;
use crate::owned::Owned;
use crate::wait::SLICE;

/// How far the caller of what is documented is away: it is called by a function of the package.
const CALLER: i32 = 2;
/// How often what reads taught is written down before the process ends: a disk may take its time for
/// it, where a program closes sets by the hundred.
const SAVED_EVERY: Duration = Duration::from_mins(1);

/// The costs of this process.
struct Known {
    coming: Arc<Coming>,
    /// When what reads taught was last written down.
    saved: Option<Duration>,
}

impl Known {
    /// Has a thread read them: the tables may lie on a mount that does not answer.
    ///
    /// # Errors
    /// No threads.
    fn begin() -> io::Result<Self> {
        let coming = Arc::new(Coming::default());
        let read = Arc::clone(&coming);
        Apart::begin(move || read.come(Costs::load()))?;
        Ok(Self { coming, saved: None })
    }
}

/// Costs that are read once, for all who wait: a broken table is set aside then, of which only these
/// costs warn.
#[derive(Default)]
struct Coming {
    costs: Mutex<Option<Arc<Costs>>>,
    came: Condvar,
}

impl Coming {
    fn come(&self, costs: Costs) {
        *self.costs() = Some(Arc::new(costs));
        self.came.notify_all();
    }

    /// They, if they are read by then.
    fn within(&self, time: Duration) -> Option<Arc<Costs>> {
        let waited = self.came.wait_timeout_while(self.costs(), time, |costs| costs.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn costs(&self) -> MutexGuard<'_, Option<Arc<Costs>>> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The costs, for who begins something: what is wrong with the device tables is a warning, once.
///
/// # Errors
/// The warning, where warnings are errors.
pub(crate) fn costs_and_warnings(py: Python<'_>) -> PyResult<Arc<Costs>> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let costs = costs(py)?;
    if !SAID.swap(true, Ordering::Relaxed) {
        for warning in costs.warnings() {
            let text = CString::new(warning.to_string())?;
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, CALLER)?;
        }
    }
    Ok(costs)
}

/// The costs that engines and sleds share; a fork makes its own.
///
/// # Errors
/// Where they are not read yet: no threads; what a signal handler raises.
pub(crate) fn costs(py: Python<'_>) -> PyResult<Arc<Costs>> {
    let coming = coming()?;
    if let Some(costs) = coming.within(Duration::ZERO) {
        return Ok(costs);
    }
    loop {
        if let Some(costs) = py.detach(|| coming.within(SLICE)) {
            return Ok(costs);
        }
        py.check_signals()?;
    }
}

/// The costs of this process, which who asks first has read.
fn coming() -> io::Result<Arc<Coming>> {
    known(|known| {
        if let Some(known) = known.as_ref().and_then(|known| known.get().ok()) {
            return Ok(Arc::clone(&known.coming));
        }
        let begun = Known::begin()?;
        let coming = Arc::clone(&begun.coming);
        *known = Some(Owned::new(begun));
        Ok(coming)
    })
}

/// Writes down what reads taught, unless that was done lately: it is worth keeping, but not worth
/// failing for.
pub(crate) fn save_now_and_then(py: Python<'_>) {
    save_after(py, SAVED_EVERY);
}

/// Writes down what reads taught, as the process ends.
pub(crate) fn save(py: Python<'_>) {
    save_after(py, Duration::ZERO);
}

fn save_after(py: Python<'_>, pause: Duration) {
    let costs = known(|known| {
        let known = known.as_mut()?.get_mut().ok()?;
        let costs = known.coming.within(Duration::ZERO)?;
        let now = costs.clock().now();
        if known.saved.is_some_and(|saved| now.saturating_sub(saved) < pause) {
            return None;
        }
        known.saved = Some(now);
        Some(costs)
    });
    if let Some(costs) = costs {
        drop(py.detach(|| costs.save()));
    }
}

fn known<T>(use_it: impl FnOnce(&mut Option<Owned<Known>>) -> T) -> T {
    static KNOWN: Mutex<Option<Owned<Known>>> = Mutex::new(None);
    // Nothing under this lock lets go of the GIL: a fork finds it free.
    use_it(&mut KNOWN.lock().unwrap_or_else(PoisonError::into_inner))
}
