//! Descriptors and files that hold a member for libraries that want one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;

/// A file without a name, in memory.
pub(crate) fn in_memory() -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(rustix::fs::memfd_create("nearfirst-member", flags)?.into())
}

/// The same file with a position of its own, at the beginning.
///
/// # Errors
/// The system's: no descriptors; the file may not be opened any more.
pub(crate) fn again(file: &File) -> io::Result<File> {
    OpenOptions::new().read(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
