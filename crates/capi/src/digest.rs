//! What a set has, without fetching it: names, properties, membership and size.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_int};

use nearfirst::{Name, Set};

use crate::callback::Properties;
use crate::costs::costs;
use crate::error::{Failure, answer};
use crate::memory::{null, put, put_text, string};
use crate::open_sets;
use crate::sets::SetId;

/// Whether `name` is a member; waits until listing meets it, or ends.
///
/// What could not be listed is left out, and told where `name` was not met.
///
/// Returns 1 or 0, or -1 with `errno`: `EBADF` (no such set, or it was
/// closed meanwhile), `EINVAL` (null), or that of what could not be listed.
///
/// # Safety
/// `name` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_member(set: SetId, name: *const c_char) -> c_int {
    answer(-1, || {
        // SAFETY: the C caller promises a string.
        let name = Name::new(unsafe { string(name, "name") }?.to_bytes());
        let opened = open_sets::get(set)?;
        let is_member = opened.wait(opened.set().lists(&name))?;
        if !is_member {
            nothing_is_certain(opened.set())?;
        }
        Ok(c_int::from(is_member))
    })
}

/// How many members there are; waits until listing ends.
///
/// What could not be listed is left out, and told where there are none; `nf_set_digest`
/// and `nf_set_iterate` tell of it in any case.
///
/// Returns the number, or -1 with `errno` `EBADF` (no such set, or it was closed meanwhile),
/// or that of what could not be listed.
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_size(set: SetId) -> i64 {
    answer(-1, || {
        let opened = open_sets::get(set)?;
        let size = opened.wait(opened.set().listed())?;
        if size == 0 {
            nothing_is_certain(opened.set())?;
        }
        Ok(i64::try_from(size).expect("names in memory are fewer"))
    })
}

/// The name and the properties of the `index`-th member, from 0 on in the order
/// that they become known, waiting for it. Nothing is fetched.
///
/// Writes at most `capacity` bytes of the name, the NUL among them, and
/// `properties` unless it is null. Returns the length of the whole name without
/// the NUL; 0 past the last; -1 with `errno`: `EBADF` (no such set, or it was closed
/// meanwhile), `EINVAL` (`name` is null), or that of a listing which failed at this
/// place: the next index goes on. Such places are counted, so that there may be more of them than
/// `nf_set_size` says members: go on until 0 is returned.
///
/// # Safety
/// `name` has room for `capacity` bytes; `properties` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_digest(
    set: SetId,
    index: u64,
    name: *mut c_char,
    capacity: usize,
    properties: *mut Properties,
) -> i64 {
    answer(-1, || {
        if name.is_null() && capacity > 0 {
            return Err(null("name"));
        }
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let opened = open_sets::get(set)?;
        let is_there = opened.wait(opened.set().has_entry(at))?;
        let Some(known) = is_there.then(|| opened.set().entry(at)).flatten() else {
            // SAFETY: the C caller promises the room.
            return unsafe { put_text(name, "name", capacity, "") };
        };
        let entry = known.map_err(|error| Failure::from(&*error))?;
        if !properties.is_null() {
            // SAFETY: the C caller promises that it may be written.
            unsafe { put(properties, "properties", Properties::of(&costs().known(&entry))) }?;
        }
        // SAFETY: the C caller promises the room.
        unsafe { put_text(name, "name", capacity, entry.name.as_bytes()) }
    })
}

/// # Errors
/// What could not be listed, where nothing was found.
fn nothing_is_certain(set: &Set) -> Result<(), Failure> {
    set.doubt().map_or(Ok(()), |error| Err(Failure::from(&*error)))
}
