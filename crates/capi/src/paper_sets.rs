//! The calls on dynamic sets that the SETS paper names or describes (SOSP 1997,
//! section 3 and figure 1). `sets.h` gives them the paper's names.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's functions called")]

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_long, c_void};

use crate::callback::{Data, chosen_by_name};
use crate::digest::{nf_set_digest, nf_set_member, nf_set_size};
use crate::error::{Failure, answer};
use crate::iterate::{NO_CALL, nf_set_iterate};
use crate::joins::{nf_set_intersect, nf_set_union, restricted};
use crate::memory::null;
use crate::paper::fitting;
use crate::sets::{nf_set_close, nf_set_open, nf_set_rewind};

thread_local! {
    /// The set of which this thread was told -1 for a call that was none; 0: of none.
    static TOLD: Cell<c_int> = const { Cell::new(0) };
}

/// Says by its name whether a member belongs to a subset: 0 if not. The
/// library's threads call it, several at once. It makes no calls on sets.
pub type SetPredicate =
    Option<unsafe extern "C" fn(name: *const c_char, data: *mut c_void) -> c_int>;

/// `setOpen`: opens the set of the objects that `set_spec` stands for. Nothing
/// is fetched before the first `setIterate`.
///
/// Returns a small number that is not 0, or -1 with `errno`: `EINVAL` (null, or
/// text that cannot be understood), `EPERM` (it names a program), `EMFILE` (too
/// many sets are open).
///
/// # Safety
/// `set_spec` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sets_open(set_spec: *const c_char) -> c_int {
    // SAFETY: as promised to this function.
    let set = unsafe { nf_set_open(set_spec) };
    // Its number may have been another set's.
    forget(set);
    set
}

/// `setIterate`: a descriptor, at its beginning, of a member that is ready and
/// was not handed out yet. The caller reads, seeks in and closes it.
///
/// Returns 0 after the last member. A member that cannot be read is -1 with
/// `errno` and its name in `nf_last_error` of nearfirst.h, as open(2) would
/// have answered: the others go on with the next call. What is no set has no
/// members: 0, so that the loop of figure 1 ends, with `errno` `EBADF` (also of one
/// that was closed meanwhile), or `EOPNOTSUPP` in a fork of a process that used sets. Another call that is none
/// (`EDEADLK`, `ENOTRECOVERABLE`) is -1, and 0 if the next one of this thread is
/// none, too.
#[unsafe(no_mangle)]
pub extern "C" fn sets_iterate(s: c_int) -> c_int {
    let answer = nf_set_iterate(s);
    let errno = std::io::Error::last_os_error().raw_os_error();
    in_the_loop(s, answer, errno.unwrap_or_default())
}

/// What the loop of figure 1 is told: it ends at 0 alone, and is not to take a bug for the end.
fn in_the_loop(s: c_int, answer: c_int, errno: c_int) -> c_int {
    let is_no_set = matches!(errno, libc::EBADF | libc::EOPNOTSUPP);
    if answer == NO_CALL && !is_no_set && TOLD.replace(s) != s {
        return -1;
    }
    TOLD.set(0);
    if answer == NO_CALL { 0 } else { answer }
}

/// Of this set nothing was told yet.
fn forget(s: c_int) {
    if TOLD.get() == s {
        TOLD.set(0);
    }
}

/// `setClose`: closes a set. Descriptors that it gave stay open.
///
/// Returns 0, or -1 with `errno` `EBADF`.
#[unsafe(no_mangle)]
pub extern "C" fn sets_close(s: c_int) -> c_int {
    forget(s);
    nf_set_close(s)
}

/// `setUnion`: opens the set of what is in either set.
///
/// Returns it, or -1 with `errno`: `EBADF`, `EMFILE`.
#[unsafe(no_mangle)]
pub extern "C" fn sets_union(s: c_int, other: c_int) -> c_int {
    nf_set_union(s, other)
}

/// `setIntersect`: opens the set of what is in both sets.
///
/// Returns it, or -1 with `errno`: `EBADF`, `EMFILE`.
#[unsafe(no_mangle)]
pub extern "C" fn sets_intersect(s: c_int, other: c_int) -> c_int {
    nf_set_intersect(s, other)
}

/// `setRestrict`: opens the subset of those members of which `predicate` does not say 0.
///
/// Returns it, or -1 with `errno`: `EBADF`, `EINVAL` (null), `EMFILE`.
///
/// # Safety
/// `predicate` and `data` may be used from any thread until the process ends;
/// `nf_set_restrict` says when they are not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sets_restrict(
    s: c_int,
    predicate: SetPredicate,
    data: *mut c_void,
) -> c_int {
    answer(-1, || {
        let predicate = predicate.ok_or_else(|| null("predicate"))?;
        restricted(s, chosen_by_name(predicate, Data::new(data, None)))
    })
}

/// `setMember`: whether `name` is a member; waits until listing meets it, or ends.
///
/// Returns 1 or 0, or -1 with `errno`: `EBADF`, `EINVAL` (null), or, where it was not
/// met, that of what could not be listed.
///
/// # Safety
/// `name` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sets_member(s: c_int, name: *const c_char) -> c_int {
    // SAFETY: as promised to this function.
    unsafe { nf_set_member(s, name) }
}

/// `setSize`: how many members there are; waits until listing ends.
///
/// Returns the number, or -1 with `errno`: `EBADF`, `EOVERFLOW` (it does not fit a `long`), or,
/// where there are none, that of what could not be listed.
#[unsafe(no_mangle)]
pub extern "C" fn sets_size(s: c_int) -> c_long {
    as_long(nf_set_size(s))
}

/// `setDigest`: the name of the `index`-th member, from 0 on in the order that
/// they become known, waiting for it. Nothing is fetched.
///
/// Writes at most `capacity` bytes, the NUL among them, and returns the length
/// of the whole name; 0 past the last; -1 with `errno`: `EBADF`, `EINVAL` (a
/// negative index, `name` is null), or that of a listing which failed at this
/// place: the next index goes on, and there may be more of them than `setSize` says.
///
/// # Safety
/// `name` has room for `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sets_digest(
    s: c_int,
    index: c_long,
    name: *mut c_char,
    capacity: usize,
) -> c_long {
    let Ok(index) = u64::try_from(index) else {
        Failure::new(libc::EINVAL, format!("an index of {index}")).tell();
        return -1;
    };
    // SAFETY: as promised to this function.
    as_long(unsafe { nf_set_digest(s, index, name, capacity, std::ptr::null_mut()) })
}

/// What a call gave, as the paper's type, which has 32 bits on some machines.
fn as_long(given: i64) -> c_long {
    answer(-1, || fitting(given))
}

/// `setRewind`: evaluates the spec anew; every member comes again.
///
/// Returns 0, or -1 with `errno` `EBADF`.
#[unsafe(no_mangle)]
pub extern "C" fn sets_rewind(s: c_int) -> c_int {
    forget(s);
    nf_set_rewind(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_not_taken_for_the_end_and_does_not_go_on_for_ever() {
        const S: c_int = 5;
        assert_eq!(in_the_loop(S, NO_CALL, libc::EBADF), 0);
        let bug = || in_the_loop(S, NO_CALL, libc::ENOTRECOVERABLE);
        assert_eq!((bug(), bug()), (-1, 0));
        assert_eq!((bug(), in_the_loop(S, 7, 0), bug(), bug()), (-1, 7, -1, 0));
        assert_eq!((bug(), in_the_loop(S + 1, NO_CALL, libc::EDEADLK)), (-1, -1));
        assert_eq!((in_the_loop(S, -1, libc::ENOENT), in_the_loop(S, 0, 0)), (-1, 0));
    }

    #[test]
    fn who_tries_again_is_told_of_the_bug_again() {
        const S: c_int = 5;
        let bug = || in_the_loop(S, NO_CALL, libc::ENOTRECOVERABLE);
        for again in [sets_rewind, sets_close] {
            assert_eq!((bug(), again(S)), (-1, -1), "there is no such set");
            assert_eq!((bug(), again(S + 1), bug()), (-1, -1, 0), "that is another set");
        }
        assert_eq!(bug(), -1);
    }
}
