//! What files of this machine cost, as this process knows it.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearfirst::Costs;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::apart;
use crate::owned::Owned;

/// How far the caller of what is documented is away: it is called by a function of the package.
const CALLER: i32 = 2;
/// How often what reads taught is written down before the process ends: a disk may take its time for
/// it, where a program closes sets by the hundred.
const SAVED_EVERY: Duration = Duration::from_mins(1);

/// The costs of this process.
struct Known {
    costs: Arc<Costs>,
    /// When what reads taught was last written down.
    saved: Option<Duration>,
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
/// Where they were not read before: no threads; what a signal handler raises.
pub(crate) fn costs(py: Python<'_>) -> PyResult<Arc<Costs>> {
    let costs_of =
        |known: &Option<Owned<Known>>| Some(Arc::clone(&known.as_ref()?.get().ok()?.costs));
    if let Some(costs) = known(|known| costs_of(known)) {
        return Ok(costs);
    }
    // The tables may lie on a mount that does not answer.
    let costs = Arc::new(apart::asked(py, true, Costs::load)?);
    Ok(known(|known| {
        // Another thread may have been first.
        costs_of(known).unwrap_or_else(|| {
            *known = Some(Owned::new(Known { costs: Arc::clone(&costs), saved: None }));
            costs
        })
    }))
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
        let now = known.costs.clock().now();
        if known.saved.is_some_and(|saved| now.saturating_sub(saved) < pause) {
            return None;
        }
        known.saved = Some(now);
        Some(Arc::clone(&known.costs))
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
