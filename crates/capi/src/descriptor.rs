//! Descriptors of the caller's, borrowed for a call, and known again.

#![expect(unsafe_code, reason = "descriptors of C callers are borrowed")]

use std::ffi::c_int;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, StatxTimestamp, fcntl_getfl, statx};

use crate::error::Failure;

/// Which file a descriptor stands for. The birth time tells a file from a
/// later one that was given the same inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: (u32, u32),
    inode: u64,
    born: Option<(i64, u32)>,
}

/// A descriptor for the time of a call, and which file it stands for.
///
/// # Errors
/// `EBADF`; `EISDIR` for a folder and `ESPIPE` for all else that cannot be
/// read in any order.
pub(crate) fn regular_file<'a>(fd: c_int) -> Result<(BorrowedFd<'a>, Identity), Failure> {
    let borrowed = borrow(fd)?;
    let (kind, identity) = identified(borrowed, fd)?;
    match kind {
        FileType::RegularFile => Ok((borrowed, identity)),
        FileType::Directory => {
            Err(Failure::new(libc::EISDIR, format!("descriptor {fd} is a directory")))
        }
        _ => {
            let message = format!("descriptor {fd} is not a regular file");
            Err(Failure::new(libc::ESPIPE, message))
        }
    }
}

/// Makes sure that a descriptor can be read.
///
/// # Errors
/// `EBADF`.
pub(crate) fn is_to_read(fd: c_int, file: BorrowedFd<'_>) -> Result<(), Failure> {
    let mode = fcntl_getfl(file).map_err(|error| Failure::of_descriptor(fd, error))?;
    if mode & OFlags::RWMODE == OFlags::WRONLY || mode.contains(OFlags::PATH) {
        return Err(Failure::new(libc::EBADF, format!("descriptor {fd} is not open for reading")));
    }
    Ok(())
}

/// Which file a descriptor stands for, of whatever kind.
///
/// # Errors
/// `EBADF`.
pub(crate) fn identity(fd: c_int) -> Result<Identity, Failure> {
    Ok(identified(borrow(fd)?, fd)?.1)
}

fn identified(borrowed: BorrowedFd<'_>, fd: c_int) -> Result<(FileType, Identity), Failure> {
    // What the kernel has cached is enough to know a file again: a server need not be asked.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
    let stat =
        statx(borrowed, "", flags, wanted).map_err(|error| Failure::of_descriptor(fd, error))?;
    let StatxTimestamp { tv_sec, tv_nsec, .. } = stat.stx_btime;
    let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let identity = Identity {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        born: has_birth.then_some((tv_sec, tv_nsec)),
    };
    Ok((FileType::from_raw_mode(stat.stx_mode.into()), identity))
}

/// A descriptor for the time of a call.
///
/// # Errors
/// `EBADF` if it is negative; whether it is open shows at its first use.
pub(crate) fn borrow<'a>(fd: c_int) -> Result<BorrowedFd<'a>, Failure> {
    if fd < 0 {
        return Err(Failure::new(libc::EBADF, format!("{fd} is not a descriptor")));
    }
    // SAFETY: not -1. That it stays open during the call is the C caller's to
    // keep, as with read(2); if it does not, the kernel answers EBADF.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}
