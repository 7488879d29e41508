//! What the kernel knows of a file, without a question to its server.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{self as sysfs, AtFlags, FileType, Stat, StatxAttributes, StatxFlags};

use super::{Ground, Kind, Status};

/// Bytes of a block as `st_blocks` counts them.
const BLOCK_BYTES: u64 = 512;

/// What is used of a file's attributes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    mode: u32,
    /// The number of the user it belongs to.
    pub(super) owner: u32,
    /// As `st_dev`.
    pub(super) device: u64,
    pub(super) size: u64,
    pub(super) allocated: u64,
    pub(super) modified_s: i64,
    pub(super) modified_ns: u32,
}

impl Attributes {
    /// Of an open file, as the kernel last heard of it: `fstat` asks the server of the file once
    /// more where that is some time ago, and waits for ever if it does not answer.
    ///
    /// # Errors
    /// The system's, if the descriptor cannot be asked about at all.
    pub(super) fn known(file: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let known = match sysfs::statx(file, "", flags, StatxFlags::BASIC_STATS) {
            Ok(known) => known,
            // A sandbox that knows no statx.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                return Ok(sysfs::fstat(file)?.into());
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            mode: known.stx_mode.into(),
            owner: known.stx_uid,
            device: sysfs::makedev(known.stx_dev_major, known.stx_dev_minor),
            size: known.stx_size,
            allocated: known.stx_blocks.saturating_mul(BLOCK_BYTES),
            modified_s: known.stx_mtime.tv_sec,
            modified_ns: known.stx_mtime.tv_nsec,
        })
    }

    /// With what is known of its file system.
    pub(super) fn on(&self, ground: &Ground) -> Status {
        Status {
            kind: self.kind(),
            size: self.size,
            allocated: self.allocated,
            modified_s: self.modified_s,
            modified_ns: self.modified_ns,
            device: ground.device.clone(),
            backing: ground.backing,
            mount: ground.mount.clone(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        kind_of(FileType::from_raw_mode(self.mode))
    }
}

pub(super) fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Stream,
    }
}

/// Whether a file lies in memory that is its device (DAX), and so never in the page cache.
pub(super) fn is_dax(file: BorrowedFd<'_>) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    sysfs::statx(file, "", flags, StatxFlags::empty())
        .is_ok_and(|known| known.stx_attributes.contains(StatxAttributes::DAX))
}

impl From<Stat> for Attributes {
    fn from(stat: Stat) -> Self {
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Self {
            mode: stat.st_mode,
            owner: stat.st_uid,
            device: stat.st_dev,
            size: count(stat.st_size),
            allocated: count(stat.st_blocks).saturating_mul(BLOCK_BYTES),
            modified_s: stat.st_mtime,
            modified_ns: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        }
    }
}
