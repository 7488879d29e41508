//! Sets made of sets: union, intersection, difference and subset.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's functions called")]

use std::ffi::{c_int, c_void};

use nearfirst::{Entry, Set};

use crate::callback::{Data, Predicate, Release, chosen};
use crate::error::{Failure, answer};
use crate::memory::null;
use crate::open_sets;
use crate::sets::SetId;

/// Opens the set of what is in either set. Both stay open, and what was made of
/// them goes on when they are closed. Members are read with what `left` allows.
///
/// Returns the new set, or -1 with `errno`: `EBADF` (no such set), `EMFILE`.
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_union(left: SetId, right: SetId) -> SetId {
    answer(-1, || joined(left, right, Set::union))
}

/// Opens the set of what is in both sets; as `nf_set_union`.
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_intersect(left: SetId, right: SetId) -> SetId {
    answer(-1, || joined(left, right, Set::intersection))
}

/// Opens the set of what is in `left` and not in `right`, which is listed whole
/// first; as `nf_set_union`.
#[unsafe(no_mangle)]
pub extern "C" fn nf_set_difference(left: SetId, right: SetId) -> SetId {
    answer(-1, || joined(left, right, Set::difference))
}

/// Opens the set of those members of `set` of which `predicate` does not say 0.
///
/// `release` (it may be null) is called when `data` is not used any more, also
/// if this call fails. Returns the new set, or -1 with `errno`: `EBADF`,
/// `EINVAL` (`predicate` is null), `EMFILE`.
///
/// # Safety
/// `predicate`, `data` and `release` may be used from any thread until
/// `release` is called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_set_restrict(
    set: SetId,
    predicate: Predicate,
    data: *mut c_void,
    release: Release,
) -> SetId {
    answer(-1, || {
        let data = Data::new(data, release);
        let predicate = predicate.ok_or_else(|| null("predicate"))?;
        restricted(set, chosen(predicate, data))
    })
}

pub(crate) fn restricted(
    set: SetId,
    predicate: impl Fn(&Entry) -> bool + Send + Sync + 'static,
) -> Result<SetId, Failure> {
    open_sets::insert(open_sets::get(set)?.set().subset(predicate))
}

fn joined(left: SetId, right: SetId, join: fn(&Set, &Set) -> Set) -> Result<c_int, Failure> {
    let (left, right) = (open_sets::get(left)?, open_sets::get(right)?);
    open_sets::insert(join(left.set(), right.set()))
}
