//! Opening and closing sets, and what is known of what they gave: `nf_set_` calls.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_int};

use nearfirst::{Name, Set};

use crate::callback::{Data, outside};
use crate::engine::{engine, own};
use crate::error::answer;
use crate::memory::{nothing_further, put_text};
use crate::open_sets;
use crate::options::SetOptions;

/// The number of an open set: the lowest that is free from 1 up, as
/// descriptors have; a table of its own.
pub type SetId = c_int;

/// Opens the set of the objects that `spec` stands for: a pattern over paths or
/// URLs, a query, a list. docs/c.md says how specs are written.
///
/// Nothing is fetched before the first member is asked for. Relative names are
/// relative to the working directory at the time that they are read.
///
/// Returns the set, or -1 with `errno`: `EINVAL` (null, or text that cannot be
/// understood), `EPERM` (it names a program), `EMFILE` (1024 sets are open),
/// `EOPNOTSUPP` (a fork of a process that used sets), `EAGAIN` (no threads), or
/// that of a configuration that cannot be read. A spec that no object satisfies
/// opens, also an empty one; its only member is the error.
///
/// # Safety
/// `spec` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_open(spec: *const c_char) -> SetId {
    // SAFETY: the C caller promises a string.
    unsafe { nf_set_open_with(&raw const spec, 1, std::ptr::null(), 0) }
}

/// Opens the set of the objects that any of `count` specs stands for. `size` is
/// `sizeof (struct nf_set_options)`.
///
/// Returns the set, or -1 with `errno`: as `nf_set_open`, `EINVAL` too for an
/// option that is none and a `size` below that of the first version, `E2BIG` for an
/// option that only a later version knows, and why the spill folder cannot be written to. With
/// `options` null it opens as by default, whatever `size` is.
///
/// # Safety
/// `options` is null or may be read for `size` bytes;
/// `specs` are `count` strings that end with a NUL, `replay` and `storage` as many
/// as they say; so is `spill_folder`, or null. `rank`, `data` and `release` may be
/// used from any thread until `release` is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_open_with(
    specs: *const *const c_char,
    count: usize,
    options: *const SetOptions,
    size: usize,
) -> SetId {
    answer(-1, || {
        // SAFETY: null, or the C caller promises that it may be read.
        let known = unsafe { SetOptions::at(options, size) }?;
        let data = Data::new(known.data, known.release);
        if !options.is_null() {
            // SAFETY: not null, and the C caller promises that it may be read.
            unsafe { nothing_further(options, "options", size) }?;
        }
        outside()?;
        own()?;
        // SAFETY: the C caller promises these strings.
        let specs = unsafe { known.specs(specs, count) }?;
        // SAFETY: the C caller promises the strings of `replay`.
        let how = unsafe { known.how(data) }?;
        // SAFETY: the C caller promises the strings of `storage`, and `spill_folder`.
        let setup = unsafe { known.setup() }?;
        let limits = setup.engine().limits;
        let engine = engine(setup)?;
        let how = nearfirst::SetOptions { recalls: known.recalls(&engine, &limits)?, ..how };
        open_sets::insert(Set::open(&engine, specs, how))
    })
}

/// The name of the member that `set` gave the descriptor `fd` for.
///
/// Writes at most `capacity` bytes, the NUL among them, and returns the length
/// of the whole name without the NUL, as snprintf does; -1 with `errno`: `EBADF`
/// (no such set, or `fd` is closed), `EINVAL` (`fd` is no member of it, or is
/// another file by now; `buffer` is null).
///
/// # Safety
/// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_member_name(
    set: SetId,
    fd: c_int,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    answer(-1, || {
        let name = open_sets::get(set)?.origin_of(fd)?.name;
        // SAFETY: the C caller promises the room.
        unsafe { put_text(buffer, "buffer", capacity, name.as_bytes()) }
    })
}

/// The headers that the member came with which `set` gave the descriptor `fd` for,
/// a line `name: value` for each; none of a file of this machine, and where its
/// store keeps none.
///
/// Writes and returns as `nf_set_member_name`; -1 with `errno` as that.
///
/// # Safety
/// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_headers(
    set: SetId,
    fd: c_int,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    answer(-1, || {
        let headers = open_sets::get(set)?.origin_of(fd)?.headers;
        // SAFETY: the C caller promises the room.
        unsafe { put_text(buffer, "buffer", capacity, headers) }
    })
}

/// The name of the `index`-th member that was handed out, from 0 on in the order
/// that they were; members that could not be read are left out. What was handed out
/// before the set began anew is forgotten.
///
/// Writes at most `capacity` bytes, the NUL among them, and returns the length
/// of the whole name without the NUL; 0 past the last so far; -1 with `errno`:
/// `EBADF` (no such set), `EINVAL` (`buffer` is null).
///
/// # Safety
/// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_order_taken(
    set: SetId,
    index: u64,
    buffer: *mut c_char,
    capacity: usize,
) -> i64 {
    answer(-1, || {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let name = open_sets::get(set)?.set().taken(at).unwrap_or_else(|| Name::from(""));
        // SAFETY: the C caller promises the room.
        unsafe { put_text(buffer, "buffer", capacity, name.as_bytes()) }
    })
}

/// Begins `set` anew: its specs are evaluated again, and every member comes again.
/// So are those of the sets that it was made of, which stay as they are.
///
/// Calls under way go on with the old one; descriptors that it gave stay known. Returns 0, or -1 with `errno` `EBADF`.
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_rewind(set: SetId) -> c_int {
    answer(-1, || {
        let before = open_sets::get(set)?;
        open_sets::replace(set, &before, before.rewound())?;
        Ok(0)
    })
}

/// Closes a set: what is on its way is given up. Descriptors that it gave stay
/// open, and sets that were made of it go on. Calls that wait for it end with `EBADF`.
///
/// Returns 0, or -1 with `errno` `EBADF` if there is no such set (any more).
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_close(set: SetId) -> c_int {
    answer(-1, || open_sets::remove(set).map(|()| 0))
}
