//! The caller's memory: strings in, values, arrays and texts out.

#![expect(unsafe_code, reason = "pointers of C callers are read and written")]

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::slice;

use crate::error::Failure;

/// A string of the caller's.
///
/// # Safety
/// `text` is null or ends with a NUL and stays as it is for `'a`.
pub(crate) unsafe fn string<'a>(text: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null; the caller promises the rest.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Strings of the caller's. `array` is told by `name`, each of its strings by `item`.
///
/// # Safety
/// `array` is null or `count` strings, each null or ended by a NUL, that stay as they are for `'a`.
pub(crate) unsafe fn strings<'a>(
    array: *const *const c_char,
    count: usize,
    name: &str,
    item: &str,
) -> Result<Vec<&'a CStr>, Failure> {
    if array.is_null() && count > 0 {
        return Err(null(name));
    }
    // SAFETY: below `count`, for which the caller promises strings.
    let each = (0..count).map(|at| unsafe { string(array.add(at).read_unaligned(), item) });
    each.collect()
}

/// Writes one value.
///
/// # Safety
/// `out` is null or may be written as a `T`.
pub(crate) unsafe fn put<T>(out: *mut T, name: &str, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, need not be aligned; the caller promises that it may be written.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// A structure of the caller's, of which its header knows `size` bytes: fields that it does not know are zero.
///
/// # Errors
/// `EINVAL` for less than `first`, the bytes of its first version.
///
/// # Safety
/// `from` may be read for `size` bytes; a `T` of zeroes is valid, and so is what the caller has set.
pub(crate) unsafe fn sized<T>(
    from: *const T,
    name: &str,
    size: usize,
    first: usize,
) -> Result<T, Failure> {
    is_whole(name, size, first)?;
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: the caller promises `size` bytes, and `known` are no more than a `T` has.
    unsafe { from.cast::<u8>().copy_to_nonoverlapping(value.as_mut_ptr().cast(), known) };
    // SAFETY: zeroes, and what the caller promises to be valid.
    Ok(unsafe { value.assume_init() })
}

/// Makes sure that the caller's header knows no field that is set and not known here (as openat2(2) takes its
/// `open_how`).
///
/// # Errors
/// `E2BIG`.
///
/// # Safety
/// `from` may be read for `size` bytes.
pub(crate) unsafe fn nothing_further<T>(
    from: *const T,
    name: &str,
    size: usize,
) -> Result<(), Failure> {
    let known = size.min(size_of::<T>());
    // SAFETY: the caller promises that these may be read.
    let further = unsafe { slice::from_raw_parts(from.cast::<u8>().add(known), size - known) };
    if further.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let message = format!("{name} set what this version of the library does not know");
    Err(Failure::new(libc::E2BIG, message))
}

/// Writes a structure of which the caller's header knows `size` bytes: fields that it does not know are left
/// out, those that this version does not know are zero.
///
/// # Errors
/// `EINVAL` for null, and for less than `first`, the bytes of its first version.
///
/// # Safety
/// `out` is null or may be written for `size` bytes.
pub(crate) unsafe fn put_sized<T>(
    out: *mut T,
    name: &str,
    size: usize,
    first: usize,
    value: &T,
) -> Result<(), Failure> {
    if out.is_null() {
        return Err(null(name));
    }
    is_whole(name, size, first)?;
    let (out, known) = (out.cast::<u8>(), size.min(size_of::<T>()));
    // SAFETY: the caller promises `size` bytes, and `known` are no more than a `T` has.
    unsafe {
        out.copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), known);
        out.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

fn is_whole(name: &str, size: usize, first: usize) -> Result<(), Failure> {
    if size >= first {
        return Ok(());
    }
    let message = format!("{size} bytes are less than {name} have: pass the size of the structure");
    Err(Failure::new(libc::EINVAL, message))
}

/// Writes as many `items` as have room and returns how many there are, as
/// `snprintf` does. Without room `array`, which is told by `name`, may be null.
///
/// # Safety
/// `array` is null or has room for `capacity` items.
pub(crate) unsafe fn put_all<T>(
    array: *mut T,
    name: &str,
    capacity: usize,
    items: impl ExactSizeIterator<Item = T>,
) -> Result<i64, Failure> {
    if array.is_null() && capacity > 0 {
        return Err(null(name));
    }
    let count = items.len();
    for (at, item) in items.take(capacity).enumerate() {
        // SAFETY: `at` is below `capacity`, for which the caller promises room.
        unsafe { array.add(at).write_unaligned(item) };
    }
    Ok(i64::try_from(count).expect("an array in memory is shorter"))
}

/// Writes as much of `text` as has room, always ended by a NUL where there is
/// any room, and returns its length without the NUL, as `snprintf` does.
///
/// # Safety
/// `buffer` is null or has room for `capacity` bytes.
pub(crate) unsafe fn put_text(
    buffer: *mut c_char,
    name: &str,
    capacity: usize,
    text: impl AsRef<[u8]>,
) -> Result<i64, Failure> {
    let text = text.as_ref();
    let length = text.len();
    if capacity == 0 {
        return Ok(i64::try_from(length).expect("a text in memory is shorter"));
    }
    let shown = text.iter().copied().take(capacity - 1).chain([0]);
    let shown: Vec<c_char> = shown.map(|byte| c_char::from_ne_bytes([byte])).collect();
    // SAFETY: `shown` has at most `capacity` bytes, for which the caller promises room.
    unsafe { put_all(buffer, name, capacity, shown.into_iter()) }?;
    Ok(i64::try_from(length).expect("a text in memory is shorter"))
}

/// The failure of a call that was given no `name`.
pub(crate) fn null(name: &str) -> Failure {
    Failure::new(libc::EINVAL, format!("{name} is null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_room_is_cut_and_ended() {
        let mut buffer: [c_char; 4] = [1; 4];
        // SAFETY: the buffer is as long as said.
        let length = unsafe { put_text(buffer.as_mut_ptr(), "buffer", 4, "memory") };
        assert_eq!(length, Ok(6));
        assert_eq!(buffer.map(c_char::to_ne_bytes), [*b"m", *b"e", *b"m", [0]]);
    }

    #[test]
    fn no_more_is_written_than_has_room() {
        let mut array = [0; 3];
        // SAFETY: of three elements two are given.
        let count = unsafe { put_all(array.as_mut_ptr(), "array", 2, [7, 8, 9].into_iter()) };
        assert_eq!((count, array), (Ok(3), [7, 8, 0]));
        // SAFETY: null is allowed without room.
        let count = unsafe { put_all(std::ptr::null_mut(), "array", 0, [7, 8, 9].into_iter()) };
        assert_eq!(count, Ok(3));
        // SAFETY: null is refused.
        let refused = unsafe { put_all(std::ptr::null_mut(), "array", 1, [7].into_iter()) };
        assert_eq!(refused, Err(null("array")));
    }
}
