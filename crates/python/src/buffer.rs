//! The buffer protocol: Python sees the bytes where they lie.
#![expect(unsafe_code, reason = "Python's buffer protocol is a C interface")]

use std::ffi::c_int;

use bytes::Bytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::filling::Filling;

/// Lends `bytes`, which live and stay unchanged as long as `owner` lives.
///
/// # Safety
/// `view` is what Python's buffer protocol passes. `bytes` do not move, change or end before `owner`.
pub(crate) unsafe fn lend(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let length = ffi::Py_ssize_t::try_from(bytes.len())?;
    let first = bytes.as_ptr().cast_mut().cast();
    // SAFETY: the caller says so of view and bytes; read-only, so nobody writes through the pointer.
    let filled = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), first, length, 1, flags) };
    if filled == -1 { Err(PyErr::fetch(owner.py())) } else { Ok(()) }
}

/// The bytes of a buffer, copied.
///
/// # Errors
/// One that is not contiguous; no memory.
pub(crate) fn copied(buffer: &PyUntypedBuffer) -> PyResult<Bytes> {
    if !buffer.is_c_contiguous() {
        return Err(PyTypeError::new_err("bytes are read from a contiguous buffer"));
    }
    let (first, length) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
    if length == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the buffer is contiguous and held, and Python is attached, so that nobody moves or
    // writes it while it is copied.
    let bytes = unsafe { std::slice::from_raw_parts(first, length) };
    if length < PAGES_BYTES_MIN {
        return Ok(Bytes::copy_from_slice(bytes));
    }
    let mut pages = Filling::pages(length)?;
    pages.put(bytes);
    Ok(pages.done())
}

/// Bytes from which on copies have pages of their own.
///
/// Large blocks that one thread allocates and another frees, in turns with a store's own, stay with
/// the allocator: several times what is in use.
const PAGES_BYTES_MIN: usize = 64 << 10;

/// Copies `bytes`, no more than there is room for, to the beginning of a buffer.
///
/// # Errors
/// A buffer that cannot be written, or is not contiguous.
pub(crate) fn fill(buffer: &PyUntypedBuffer, bytes: &[u8]) -> PyResult<()> {
    writable(buffer)?;
    let length = bytes.len().min(buffer.len_bytes());
    // SAFETY: the buffer is contiguous, writable and held, and Python is attached, so that nobody
    // moves it; its owner accepts writes by whoever asks for them; bytes of ours are not Python's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.buf_ptr().cast(), length) };
    Ok(())
}

/// # Errors
/// A buffer that cannot be written, or is not contiguous.
pub(crate) fn writable(buffer: &PyUntypedBuffer) -> PyResult<()> {
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyTypeError::new_err("readinto takes a contiguous buffer that can be written"));
    }
    Ok(())
}
