//! The costs of this process: loaded at the first call, shared by all threads.

#![expect(unsafe_code, reason = "C symbols are exported")]

use std::ffi::{c_char, c_int};
use std::sync::{Arc, OnceLock};

use nearfirst::Costs;

use crate::error::answer;
use crate::memory::put_text;

/// The costs that all calls ask.
pub(crate) fn costs() -> &'static Arc<Costs> {
    static COSTS: OnceLock<Arc<Costs>> = OnceLock::new();
    COSTS.get_or_init(|| Arc::new(Costs::load()))
}

/// Writes down what `nf_device_fill` set in the device table on disk: root's
/// is the system's, others have one of their own (`$NEARFIRST_STATE` stands in
/// for both). Devices that were not filled stay as they are there.
///
/// Returns 0, or -1 with `errno`: `EACCES` or `EROFS` where the table cannot be written.
#[unsafe(no_mangle)]
pub extern "C" fn nf_save() -> c_int {
    answer(-1, || {
        costs().save()?;
        Ok(0)
    })
}

/// What was wrong with the device tables when they were loaded, a line for
/// each; empty as a rule. A broken table is set aside under the name given here.
///
/// Writes at most `capacity` bytes, the NUL among them, and returns the length
/// of the whole text without the NUL, as snprintf does; or -1 with `errno`.
///
/// # Safety
/// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_warnings(buffer: *mut c_char, capacity: usize) -> i64 {
    answer(-1, || {
        let lines = costs().warnings().iter().map(|warning| format!("{warning}\n"));
        // SAFETY: the C caller promises the room.
        unsafe { put_text(buffer, capacity, lines.collect::<String>()) }
    })
}

/// The version of the library, such as "0.1.0". Never null, not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn nf_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
