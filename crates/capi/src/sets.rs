//! Opening and closing sets, and what is known of what they gave: `nf_set_` calls.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_int, c_void};

use nearfirst::{Duplicates, Name, Order, Set, Spec};

use crate::callback::{Data, Rank, Release, outside, ranked};
use crate::engine::{engine, own};
use crate::error::{Failure, answer};
use crate::memory::{null, put_text, string};
use crate::open_sets;

/// What is ready first; of that the highest rank, then the largest.
pub const NF_ORDER_READY: c_int = 0;
/// As the names are listed: a slow member holds up all behind it.
pub const NF_ORDER_LISTED: c_int = 1;
/// By name, byte by byte: nothing comes before all names are known.
pub const NF_ORDER_NAME: c_int = 2;
/// By rank, the highest first, then by name: nothing comes before all names are known.
pub const NF_ORDER_RANK: c_int = 3;
/// The names of `replay` first, in that order, then others as they are listed: nothing comes before
/// all names are known.
pub const NF_ORDER_REPLAY: c_int = 4;

/// Members of the same name are one: known before anything is fetched.
pub const NF_SAME_NAME: c_int = 0;
/// Members of the same content are one too: known when they have been fetched.
pub const NF_SAME_CONTENT: c_int = 1;

/// The number of an open set: the lowest that is free from 1 up, as
/// descriptors have; a table of its own.
pub type SetId = c_int;

/// How a set is opened; all zero is the default.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SetOptions {
    /// `NF_ORDER_READY` or another `NF_ORDER_`.
    pub order: c_int,
    /// `NF_SAME_NAME` or `NF_SAME_CONTENT`.
    pub duplicates: c_int,
    /// Other than 0: programs that specs name are run. Otherwise they are `EPERM`.
    pub allow_programs: c_int,
    /// 1: links of public pages to private networks and to files of this machine are followed; 0: they
    /// are not.
    pub allow_private_links: c_int,
    /// The priority of each member; null: all the same.
    pub rank: Rank,
    /// Passed to `rank` and `release`.
    pub data: *mut c_void,
    /// Called when `data` is not used any more, also if the set cannot be opened; may be null.
    pub release: Release,
    /// With `NF_ORDER_REPLAY`, and only then: the names to come first, as `nf_set_order_taken` told
    /// them; they are copied.
    pub replay: *const *const c_char,
    /// How many there are.
    pub replay_count: usize,
}

/// Opens the set of the objects that `spec` stands for: a pattern over paths or
/// URLs, a query, a list. docs/c.md says how specs are written.
///
/// Nothing is fetched before the first member is asked for. Relative names are
/// relative to the working directory at the time that they are read.
///
/// Returns the set, or -1 with `errno`: `EINVAL` (null, or no spec), `EPERM` (it
/// names a program), `EMFILE` (1024 sets are open), `EOPNOTSUPP` (a fork of a
/// process that used sets), `EAGAIN` (no threads), or that of a configuration
/// that cannot be read. A spec that no object satisfies opens; its only member
/// is the error.
///
/// # Safety
/// `spec` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_open(spec: *const c_char) -> SetId {
    // SAFETY: the C caller promises a string.
    unsafe { nf_set_open_with(&raw const spec, 1, std::ptr::null()) }
}

/// Opens the set of the objects that any of `count` specs stands for.
///
/// Returns the set, or -1 with `errno`: as `nf_set_open`, `EINVAL` too for an
/// option that is none. With `options` null it opens as by default.
///
/// # Safety
/// `specs` are `count` strings that end with a NUL, and `replay` as many as it
/// says. `rank`, `data` and `release` may be used from any thread until
/// `release` is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_open_with(
    specs: *const *const c_char,
    count: usize,
    options: *const SetOptions,
) -> SetId {
    answer(-1, || {
        // SAFETY: null, or the C caller promises that it may be read.
        let options = (!options.is_null()).then(|| unsafe { options.read_unaligned() });
        let data = options.map(|options| Data::new(options.data, options.release));
        outside()?;
        own()?;
        // SAFETY: the C caller promises these strings.
        let specs = unsafe { specs_of(specs, count) }?;
        if options.is_none_or(|options| options.allow_programs == 0) {
            no_programs(&specs)?;
        }
        let private_links = options.map_or(Ok(false), private_links)?;
        let options = match (options, data) {
            // SAFETY: the C caller promises the strings of `replay`.
            (Some(options), Some(data)) => unsafe { options_of(options, data) }?,
            _ => nearfirst::SetOptions::default(),
        };
        open_sets::insert(Set::open(engine(private_links)?, specs, options))
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
        let name = open_sets::get(set)?.name_of(fd)?;
        // SAFETY: the C caller promises the room.
        unsafe { put_text(buffer, "buffer", capacity, name.as_bytes()) }
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

/// # Safety
/// `specs` is null or `count` strings, each null or ended by a NUL.
unsafe fn specs_of(specs: *const *const c_char, count: usize) -> Result<Vec<Spec>, Failure> {
    if specs.is_null() && count > 0 {
        return Err(null("specs"));
    }
    let each = (0..count).map(|at| {
        // SAFETY: below `count`, for which the caller promises strings.
        let spec = unsafe { string(specs.add(at).read_unaligned(), "spec") }?;
        let parsed = Spec::parse(spec.to_bytes());
        parsed.map_err(|error| Failure::new(libc::EINVAL, error.to_string()))
    });
    each.collect()
}

/// # Safety
/// As of [`options_of`].
unsafe fn replay_of(options: SetOptions) -> Result<Vec<Name>, Failure> {
    let SetOptions { replay, replay_count, .. } = options;
    if replay.is_null() && replay_count > 0 {
        return Err(null("replay"));
    }
    let each = (0..replay_count).map(|at| {
        // SAFETY: below `replay_count`, for which the caller promises strings.
        let name = unsafe { string(replay.add(at).read_unaligned(), "a name of replay") }?;
        Ok(Name::new(name.to_bytes()))
    });
    each.collect()
}

fn no_programs(specs: &[Spec]) -> Result<(), Failure> {
    match specs.iter().find(|spec| matches!(spec, Spec::Program { .. })) {
        None => Ok(()),
        Some(spec) => {
            let message =
                format!("{spec}: programs are not allowed; allow_programs of nf_set_options does");
            Err(Failure::new(libc::EPERM, message))
        }
    }
}

/// Nothing but 1 allows them: another number may be of memory that nobody set.
fn private_links(options: SetOptions) -> Result<bool, Failure> {
    match options.allow_private_links {
        0 => Ok(false),
        1 => Ok(true),
        other => {
            let message = format!("{other}: allow_private_links is 0 or 1");
            Err(Failure::new(libc::EINVAL, message))
        }
    }
}

/// # Safety
/// `replay` is null or as many strings as `replay_count` says, each null or ended by a NUL.
unsafe fn options_of(options: SetOptions, data: Data) -> Result<nearfirst::SetOptions, Failure> {
    let order = match options.order {
        NF_ORDER_READY => Order::Ready,
        NF_ORDER_LISTED => Order::Listed,
        NF_ORDER_NAME => Order::Name,
        NF_ORDER_RANK => Order::Rank,
        // SAFETY: as promised to this function.
        NF_ORDER_REPLAY => Order::Replay(unsafe { replay_of(options) }?),
        other => {
            let message = format!("{other} is no order: use one of the NF_ORDER_ numbers");
            return Err(Failure::new(libc::EINVAL, message));
        }
    };
    let duplicates = match options.duplicates {
        NF_SAME_NAME => Duplicates::ByName,
        NF_SAME_CONTENT => Duplicates::ByContent,
        other => {
            let message = format!("{other}: duplicates are NF_SAME_NAME or NF_SAME_CONTENT");
            return Err(Failure::new(libc::EINVAL, message));
        }
    };
    let rank = options.rank.map(|rank| ranked(rank, data));
    Ok(nearfirst::SetOptions { order, rank, duplicates, ..nearfirst::SetOptions::default() })
}
