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
mod file;
mod filling;
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
mod store;
mod wait;
mod waiting;

use pyo3::prelude::*;

/// Sets and sleds; use them through the package `nearfirst`.
#[pymodule]
mod _nearfirst {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::bell::Bell;
    #[pymodule_export]
    use crate::calls::{Call, Calls};
    #[pymodule_export]
    use crate::chunks::Chunks;
    #[pymodule_export]
    use crate::device::{Device, calibrate, devices};
    #[pymodule_export]
    use crate::entry::Entry;
    #[pymodule_export]
    use crate::member::Member;
    #[pymodule_export]
    use crate::name::redacted;
    #[pymodule_export]
    use crate::pick::{Piece, Pieces, pick};
    #[pymodule_export]
    use crate::set::{Names, Set, open};
    #[pymodule_export]
    use crate::sled::{DeliveryTime, Keys, Sled, delivery_time, sleds};
    #[pymodule_export]
    use crate::spec::Spec;
    #[pymodule_export]
    use crate::waiting::Waiting;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::callback::end_with_python(module)
    }
}
