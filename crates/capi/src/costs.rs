//! The costs of this process: loaded at the first question, shared by all threads.

#![expect(
    unsafe_code,
    reason = "C symbols are exported, and a pointer to what is never freed is read"
)]

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use nearfirst::{Clock, Costs, Local, Process, TableFiles};

use crate::error::answer;
use crate::memory::put_text;

/// Costs, and the process that asks them.
struct Own {
    process: Process,
    costs: Arc<Costs>,
}

/// The costs that all calls ask. A fork has its own: of its parent's it has a
/// copy with locks that a thread, which it has no copy of, may have held.
pub(crate) fn costs() -> &'static Arc<Costs> {
    static OWN: AtomicPtr<Own> = AtomicPtr::new(ptr::null_mut());
    let process = Process::this();
    let mut known = OWN.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or leaked below, and not changed after.
        if let Some(own) = unsafe { known.as_ref() }
            && own.process == process
        {
            return &own.costs;
        }
        // Threads that meet here make several, of which one is kept and loads the tables.
        let costs =
            Costs::not_loaded(Local::default(), TableFiles::default(), Clock::real(), |_| ());
        let made = Box::into_raw(Box::new(Own { process, costs: Arc::new(costs) }));
        match OWN.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => known = made,
            Err(now) => {
                // SAFETY: made above, and nobody else knows it.
                drop(unsafe { Box::from_raw(made) });
                known = now;
            }
        }
    }
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
        unsafe { put_text(buffer, "buffer", capacity, lines.collect::<String>()) }
    })
}

/// The version of the library, such as "0.1.0". Never null, not to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn nf_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
