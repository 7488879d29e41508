//! Memory of its final size that is filled as bytes arrive: Python has them without another copy.
#![expect(unsafe_code, reason = "Python's bytes are made in place, and pages are mapped")]

use std::io;

use bytes::Bytes;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Memory that is filled from its beginning.
#[derive(Debug)]
pub(crate) struct Filling<O> {
    /// Whose memory it is.
    owner: O,
    first: *mut u8,
    length: usize,
    filled: usize,
}

// SAFETY: the memory is its owner's, nobody else has it yet, and goes where the owner goes.
unsafe impl<O: Send> Send for Filling<O> {}

impl<O> Filling<O> {
    /// # Safety
    /// `length` bytes from `first` may be written as long as `owner` is not shared.
    unsafe fn of(owner: O, first: *mut u8, length: usize) -> Self {
        advise_huge(first, length);
        Self { owner, first, length, filled: 0 }
    }

    /// Bytes there is room for.
    pub(crate) fn room(&self) -> usize {
        self.length - self.filled
    }

    /// Takes as many of the first bytes of `piece` as there is room for, and says how many.
    pub(crate) fn put(&mut self, piece: &[u8]) -> usize {
        let bytes = piece.len().min(self.room());
        // SAFETY: there is room for so many from there on; a piece is not this memory.
        unsafe { self.first.add(self.filled).copy_from_nonoverlapping(piece.as_ptr(), bytes) };
        self.filled += bytes;
        bytes
    }

    /// Has `read` fill some of the next bytes, at most so many; it says how many it filled.
    pub(crate) fn read<E>(
        &mut self,
        bytes_max: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let bytes = bytes_max.min(self.room());
        // SAFETY: there is room for so many from there on, and nobody else has a reference to it.
        let span = unsafe {
            let next = self.first.add(self.filled);
            next.write_bytes(0, bytes);
            std::slice::from_raw_parts_mut(next, bytes)
        };
        let read = read(span)?.min(bytes);
        self.filled += read;
        Ok(read)
    }

    /// What was filled.
    pub(crate) fn filled(&self) -> &[u8] {
        // SAFETY: so many were written, and are not written again while this is borrowed.
        unsafe { std::slice::from_raw_parts(self.first, self.filled) }
    }
}

impl Filling<Py<PyBytes>> {
    /// # Errors
    /// No memory, or more than an object can have.
    pub(crate) fn object(py: Python<'_>, length: usize) -> io::Result<Self> {
        let size = ffi::Py_ssize_t::try_from(length).map_err(|_| Errno::NOMEM)?;
        // SAFETY: without contents, a new object of which nobody else knows, to be filled; or an error.
        let object = unsafe {
            let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
            let object = Bound::from_owned_ptr_or_err(py, object).map_err(|_| Errno::NOMEM)?;
            object.cast_into_unchecked::<PyBytes>()
        };
        // SAFETY: it is a `bytes` object, and its memory is as long as asked for.
        unsafe {
            let first = ffi::PyBytes_AsString(object.as_ptr()).cast();
            Ok(Self::of(object.unbind(), first, length))
        }
    }

    /// The object: shorter if less was filled.
    pub(crate) fn done(self, py: Python<'_>) -> Bound<'_, PyBytes> {
        if self.room() > 0 {
            return PyBytes::new(py, self.filled());
        }
        self.owner.into_bound(py)
    }
}

impl Filling<Pages> {
    /// # Errors
    /// No memory; a length of 0.
    pub(crate) fn pages(length: usize) -> io::Result<Self> {
        let pages = Pages::new(length)?;
        let first = pages.first;
        // SAFETY: they are ours, as long, and nobody else has them yet.
        Ok(unsafe { Self::of(pages, first, length) })
    }

    /// What was filled.
    pub(crate) fn done(self) -> Bytes {
        Bytes::from_owner(self.owner).slice(..self.filled)
    }
}

/// Bytes from which on memory is asked for in huge pages: each costs one fault and not 512.
const HUGE_BYTES_MIN: usize = 4 << 20;
/// A huge page's, on every machine that has them; where it is another, the advice is refused.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks for huge pages where they fit in.
fn advise_huge(first: *mut u8, length: usize) {
    if length < HUGE_BYTES_MIN {
        return;
    }
    let before = first.align_offset(HUGE_PAGE_BYTES);
    let length = (length - before) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    // SAFETY: inside of the memory; advice changes no byte of it. Refused, the pages are small.
    let _taken = unsafe { madvise(first.add(before).cast(), length, Advice::LinuxHugepage) };
}

/// Memory that goes back to the system when it is dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    first: *mut u8,
    length: usize,
}

impl Pages {
    fn new(length: usize) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new pages anywhere; a length of 0 is refused.
        let first = unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, flags)? };
        Ok(Self { first: first.cast(), length })
    }
}

// SAFETY: they are this value's alone, and written only before it is shared.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped until it is dropped, and not written meanwhile.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody has a reference into it any more.
        let unmapped = unsafe { munmap(self.first.cast(), self.length) };
        debug_assert_eq!(unmapped, Ok(()), "what was mapped can be unmapped");
    }
}
