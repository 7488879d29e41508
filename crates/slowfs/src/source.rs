//! The source directory: attributes, and calls on paths relative to it.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

use crate::control::Control;
use crate::inodes::Identity;

/// An open descriptor of the directory that is passed through.
#[derive(Debug)]
pub(crate) struct Source {
    root: OwnedFd,
}

impl Source {
    pub(crate) fn open(directory: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(directory, flags, Mode::empty())? })
    }

    pub(crate) fn root(&self) -> &OwnedFd {
        &self.root
    }

    pub(crate) fn stat(&self, path: &Path) -> Result<Statx, Errno> {
        rustix::fs::statx(&self.root, here(path), AtFlags::SYMLINK_NOFOLLOW, MASK)
    }

    pub(crate) fn open_at(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.root, here(path), flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
    }

    /// A path for the calls that take no directory descriptor.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd())).join(here(path))
    }
}

const MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The path as the calls on a directory descriptor take it: the root is `.`, not empty.
pub(crate) fn here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

pub(crate) fn stat_open(fd: impl AsFd) -> Result<Statx, Errno> {
    rustix::fs::statx(fd, OsStr::new(""), AtFlags::EMPTY_PATH, MASK)
}

/// Reads up to `length` bytes; fewer only at the end of the file.
pub(crate) fn read_at(fd: impl AsFd, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match rustix::io::pread(&fd, &mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

pub(crate) fn write_at(fd: impl AsFd, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(&fd, &bytes[written..], offset + written as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(crate) fn identity(stat: &Statx) -> Identity {
    let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    let born = i128::from(stat.stx_btime.tv_sec) << 32 | i128::from(stat.stx_btime.tv_nsec);
    (device, stat.stx_ino, born)
}

/// The attributes of `stat` under the inode number `number`.
pub(crate) fn attributes(stat: &Statx, number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: time(&stat.stx_atime),
        mtime: time(&stat.stx_mtime),
        ctime: time(&stat.stx_ctime),
        crtime: time(&stat.stx_btime),
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.stx_mode.into()))
            .unwrap_or(FileType::RegularFile),
        perm: stat.stx_mode & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: encode_device(stat.stx_rdev_major, stat.stx_rdev_minor),
        blksize: stat.stx_blksize,
        flags: 0,
    }
}

/// Of what is not there: by its number the kernel knows.
pub(crate) fn absent() -> FileAttr {
    FileAttr { ino: INodeNo(0), ..Control::Directory.attributes() }
}

/// `None` where the file system does not say the type in its directories.
pub(crate) fn kind(file_type: rustix::fs::FileType) -> Option<FileType> {
    use rustix::fs::FileType as Source;
    match file_type {
        Source::RegularFile => Some(FileType::RegularFile),
        Source::Directory => Some(FileType::Directory),
        Source::Symlink => Some(FileType::Symlink),
        Source::Fifo => Some(FileType::NamedPipe),
        Source::Socket => Some(FileType::Socket),
        Source::CharacterDevice => Some(FileType::CharDevice),
        Source::BlockDevice => Some(FileType::BlockDevice),
        Source::Unknown => None,
    }
}

fn time(stamp: &StatxTimestamp) -> SystemTime {
    let whole = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let second = if stamp.tv_sec < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    second
        .and_then(|second| second.checked_add(Duration::from_nanos(stamp.tv_nsec.into())))
        .unwrap_or(UNIX_EPOCH)
}

/// A device number as FUSE carries it: Linux's 32-bit form.
fn encode_device(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The text of a file in `/proc` or `/sys`, without the line end.
pub(crate) fn read_line(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.read_to_string(&mut text)?;
    Ok(text.trim_end().to_owned())
}
