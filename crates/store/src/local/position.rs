//! Where on its disk a file begins, for who reads many in the order of the platter.

use std::io;
use std::os::fd::AsFd;

use super::sys;

/// The byte of its block device at which the first part of an open file begins; `None` if it has
/// no place of its own there: an empty file, a hole, data kept within the inode, data not yet
/// written back.
///
/// Files of one device that are read in this order spare a spinning disk its seeks. A file system
/// on several disks answers with an address of its own, whose order is as good. No data is read,
/// but the file system may have to read where its extents are.
///
/// # Errors
/// The system's: `EOPNOTSUPP` where no file has such a place, as on tmpfs, FUSE and NFS.
pub fn disk_position(file: &impl AsFd) -> io::Result<Option<u64>> {
    sys::first_block(file.as_fd())
}
