//! Descriptors of what holds a member, for libraries that want one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;

/// The same file with a position of its own, at the beginning.
///
/// # Errors
/// The system's: no descriptors; the file may not be opened any more.
pub(crate) fn again(file: &File) -> io::Result<File> {
    OpenOptions::new().read(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
