//! What files of this machine cost, as this process knows it.

use std::sync::{Arc, Mutex, PoisonError};

use nearfirst::Costs;

use crate::owned::Owned;

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
