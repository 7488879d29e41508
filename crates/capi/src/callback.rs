//! Functions of C callers that sets call: a rank and a predicate.

#![expect(unsafe_code, reason = "functions of C callers are called")]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_double, c_int, c_void};
use std::sync::Arc;

use nearfirst::{Costs, Entry, unix_s};

use crate::costs::costs;
use crate::error::Failure;

/// What is known of an object without its bytes. Of a file of this machine the
/// system is asked when somebody is to be told, which takes as long as its mount
/// takes to answer, up to a few seconds.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Properties {
    /// Bytes; -1 where nobody told.
    pub size: i64,
    /// When its content last changed, in seconds since 1970; NAN where nobody told.
    pub modified: c_double,
    /// 1 if it must be recalled from a cold tier before it can be read; else 0.
    pub cold: c_int,
}

/// Gives the priority of a member: higher is sooner; not a number is 0.
///
/// The library's threads call it, several at once, before the member is
/// fetched; `name` and `properties` are valid until it returns. It makes no
/// calls on sets (`EDEADLK`), and throws nothing; others it may make.
pub type Rank = Option<
    unsafe extern "C" fn(
        name: *const c_char,
        properties: *const Properties,
        data: *mut c_void,
    ) -> c_double,
>;

/// Says whether a member belongs to a subset: 0 if not. Called as `nf_rank` is.
pub type Predicate = Option<
    unsafe extern "C" fn(
        name: *const c_char,
        properties: *const Properties,
        data: *mut c_void,
    ) -> c_int,
>;

/// Told that `data` is not used any more: by any thread, once, when the sets
/// that were made with it are closed and what they had under way has ended, or
/// the call that it was passed to has failed, unless that was passed a wrong size
/// of its options. It makes no calls on sets.
pub type Release = Option<unsafe extern "C" fn(data: *mut c_void)>;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// # Errors
/// `EDEADLK` in a function that a set calls: the set may hold locks, and wait for its answer.
pub(crate) fn outside() -> Result<(), Failure> {
    if INSIDE.try_with(Cell::get).unwrap_or(false) {
        return Err(Failure::new(
            libc::EDEADLK,
            "a function that a set calls may not call on sets",
        ));
    }
    Ok(())
}

fn inside<T>(call: impl FnOnce() -> T) -> T {
    let before = INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(false);
    let answer = call();
    // A thread that is ending makes no more calls.
    let _restored = INSIDE.try_with(|inside| inside.set(before)).is_ok();
    answer
}

/// What a C caller wants passed to its function.
#[derive(Debug)]
pub(crate) struct Data {
    data: *mut c_void,
    release: Release,
}

// SAFETY: never looked at here; the C caller promises that its functions may
// be called with it from any thread.
unsafe impl Send for Data {}
// SAFETY: as above, and by several at once.
unsafe impl Sync for Data {}

impl Data {
    pub(crate) fn new(data: *mut c_void, release: Release) -> Self {
        Self { data, release }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the C caller promises that it may be called once, with this.
            inside(|| unsafe { release(self.data) });
        }
    }
}

/// The rank that a C function gives.
pub(crate) fn ranked(
    rank: unsafe extern "C" fn(*const c_char, *const Properties, *mut c_void) -> c_double,
    data: Data,
) -> nearfirst::Rank {
    Arc::new(move |entry| {
        let data = &data;
        let told = told(entry, |name, properties| {
            // SAFETY: both are valid during the call; the C caller promises the rest.
            unsafe { rank(name, properties, data.data) }
        });
        if told.is_nan() { 0.0 } else { told }
    })
}

/// The members of which a C function does not say 0.
pub(crate) fn chosen(
    predicate: unsafe extern "C" fn(*const c_char, *const Properties, *mut c_void) -> c_int,
    data: Data,
) -> impl Fn(&Entry) -> bool + Send + Sync + 'static {
    move |entry| {
        let data = &data;
        let told = told(entry, |name, properties| {
            // SAFETY: both are valid during the call; the C caller promises the rest.
            unsafe { predicate(name, properties, data.data) }
        });
        told != 0
    }
}

/// As [`chosen`], by their names alone: nothing is asked of the system.
pub(crate) fn chosen_by_name(
    predicate: unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int,
    data: Data,
) -> impl Fn(&Entry) -> bool + Send + Sync + 'static {
    move |entry| {
        let data = &data;
        // SAFETY: the name is valid during the call; the C caller promises the rest.
        told_name(entry, |name| unsafe { predicate(name, data.data) }) != 0
    }
}

/// Calls with the name and the properties of an entry.
fn told<T>(entry: &Entry, call: impl FnOnce(*const c_char, *const Properties) -> T) -> T {
    let properties = if Costs::is_to_be_asked(entry) {
        // Others take over a thread's work while a mount is asked.
        Properties::of(&tokio::task::block_in_place(|| costs().known(entry)))
    } else {
        Properties::of(entry)
    };
    told_name(entry, |name| call(name, &raw const properties))
}

/// Calls with the name of an entry.
fn told_name<T>(entry: &Entry, call: impl FnOnce(*const c_char) -> T) -> T {
    // C sees a name that holds a NUL as far as that.
    let name = entry.name.as_bytes().split(|&byte| byte == 0).next().unwrap_or_default();
    let name = CString::new(name).expect("there is no NUL in it");
    inside(|| call(name.as_ptr()))
}

impl Properties {
    /// Of something about which nothing is known.
    pub(crate) const UNKNOWN: Self = Self { size: -1, modified: f64::NAN, cold: 0 };

    pub(crate) fn of(entry: &Entry) -> Self {
        let size = entry.likely_size().map_or(-1, |size| i64::try_from(size).unwrap_or(i64::MAX));
        let modified = entry.modified.map_or(f64::NAN, unix_s);
        Self { size, modified, cold: c_int::from(entry.tier.is_cold()) }
    }
}

#[cfg(test)]
mod tests {
    use nearfirst::Name;

    use super::*;

    unsafe extern "C" fn is_small(
        _: *const c_char,
        properties: *const Properties,
        _: *mut c_void,
    ) -> c_int {
        // SAFETY: valid during the call.
        c_int::from(unsafe { (*properties).size } < 10)
    }

    #[test]
    fn no_thread_hands_over_its_work_for_what_nobody_is_asked_about() {
        let is_member = chosen(is_small, Data::new(std::ptr::null_mut(), None));
        let object = Entry { size: Some(7), ..Entry::named(Name::from("s3://bucket/key")) };
        // There is nobody to hand over to, and who tries panics.
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert!(runtime.block_on(async { is_member(&object) }));
    }
}
