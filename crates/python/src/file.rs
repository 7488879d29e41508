//! Descriptors and files that hold a member for libraries that want one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;

/// A file without a name, in memory or on disk.
pub(crate) fn temporary(in_memory: bool) -> io::Result<File> {
    if in_memory {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        return Ok(rustix::fs::memfd_create("nearfirst-member", flags)?.into());
    }
    tempfile::tempfile_in(nearfirst::scratch_folder())
}

/// The same file with a position of its own, at the beginning.
///
/// # Errors
/// The system's: no descriptors; the file may not be opened any more.
pub(crate) fn again(file: &File) -> io::Result<File> {
    OpenOptions::new().read(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
