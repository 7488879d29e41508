//! The Python module `nearfirst._nearfirst`: sets and sleds, their waits and their errors for Python.
//!
//! It converts, calls, and converts the error; what can be said in Python stands in `python/nearfirst`.

mod answer;
mod apart;
mod bell;
mod buffer;
mod callback;
mod calls;
mod chunks;
mod costs;
mod device;
mod engine;
mod entry;
mod error;
mod filling;
mod interpreter;
mod kept;
mod member;
mod name;
mod options;
mod owned;
mod pick;
mod pieces;
mod reading;
mod set;
mod sled;
mod spec;
mod stats;
mod store;
mod wait;
mod waiting;

use pyo3::prelude::*;

/// Sets and sleds; use them through the package `nearfirst`.
#[pymodule]
fn _nearfirst(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Before there is anything that another interpreter would take with it.
    interpreter::is_main(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<bell::Bell>()?;
    module.add_class::<calls::Call>()?;
    module.add_class::<calls::Calls>()?;
    module.add_class::<chunks::Chunks>()?;
    module.add_class::<device::Device>()?;
    module.add_class::<entry::Entry>()?;
    module.add_class::<member::Member>()?;
    module.add_class::<pick::Piece>()?;
    module.add_class::<pick::Pieces>()?;
    module.add_class::<set::Names>()?;
    module.add_class::<set::Set>()?;
    module.add_class::<sled::DeliveryTime>()?;
    module.add_class::<sled::Keys>()?;
    module.add_class::<sled::Sled>()?;
    module.add_class::<spec::Spec>()?;
    module.add_class::<stats::SetStats>()?;
    module.add_class::<waiting::Waiting>()?;
    module.add_function(wrap_pyfunction!(device::calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(device::devices, module)?)?;
    module.add_function(wrap_pyfunction!(name::redacted, module)?)?;
    module.add_function(wrap_pyfunction!(pick::pick, module)?)?;
    module.add_function(wrap_pyfunction!(set::open, module)?)?;
    module.add_function(wrap_pyfunction!(sled::delivery_time, module)?)?;
    module.add_function(wrap_pyfunction!(sled::sleds, module)?)?;
    callback::end_with_python(module)
}
