//! What files of this machine cost, as this process knows it.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nearfirst::Costs;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::owned::Owned;

/// How far the caller of what is documented is away: it is called by a function of the package.
const CALLER: i32 = 2;

/// The costs, for who begins something: what is wrong with the device tables is a warning, once.
///
/// # Errors
/// The warning, where warnings are errors.
pub(crate) fn costs_and_warnings(py: Python<'_>) -> PyResult<Arc<Costs>> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let costs = costs();
    if !SAID.swap(true, Ordering::Relaxed) {
        for warning in costs.warnings() {
            let text = CString::new(warning.to_string())?;
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, CALLER)?;
        }
    }
    Ok(costs)
}

/// The costs that engines and sleds share; a fork makes its own.
pub(crate) fn costs() -> Arc<Costs> {
    static COSTS: Mutex<Option<Owned<Arc<Costs>>>> = Mutex::new(None);
    // Nothing under this lock lets go of the GIL: a fork finds it free.
    let mut known = COSTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(costs) = known.as_ref().and_then(|costs| costs.get().ok()) {
        return Arc::clone(costs);
    }
    let costs = Arc::new(Costs::load());
    *known = Some(Owned::new(Arc::clone(&costs)));
    costs
}
