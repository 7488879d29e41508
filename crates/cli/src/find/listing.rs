//! Directories: opened, and their names read as the kernel gives them.

use std::ffi::CStr;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

/// Bytes of one listing call, as much as the kernel fills at once on most file systems.
pub(crate) const LISTING_BYTES: usize = 32 << 10;

/// What a directory was found to hold.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Names so far, each with a NUL.
    pub(crate) names: Vec<u8>,
    pub(crate) items: Vec<Item>,
    /// Whether these are all that can be had.
    pub(crate) ended: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    pub(crate) start: usize,
    /// Length with the NUL.
    pub(crate) len: usize,
    pub(crate) kind: u8,
}

impl Listing {
    pub(crate) fn name(&self, item: Item) -> &CStr {
        CStr::from_bytes_with_nul(&self.names[item.start..item.start + item.len])
            .expect("a listed name ends with its only NUL")
    }

    /// Adds one call's worth of names.
    pub(crate) fn read_on(
        &mut self,
        directory: BorrowedFd<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Errno> {
        let mut listing = RawDir::new(directory, buffer.spare_capacity_mut());
        loop {
            match listing.next() {
                // A directory that is removed meanwhile has no more names: POSIX's rule for `readdir`.
                None | Some(Err(Errno::NOENT)) => {
                    self.ended = true;
                    return Ok(());
                }
                Some(Err(Errno::INTR)) => {}
                Some(Err(error)) => {
                    self.ended = true;
                    return Err(error);
                }
                Some(Ok(found)) => {
                    let name = found.file_name().to_bytes_with_nul();
                    if name != b".\0" && name != b"..\0" {
                        let start = self.names.len();
                        self.names.extend_from_slice(name);
                        let kind = letter(found.file_type());
                        self.items.push(Item { start, len: name.len(), kind });
                    }
                }
            }
            if listing.is_buffer_empty() {
                return Ok(());
            }
        }
    }

    pub(crate) fn append(&mut self, more: Self) {
        let start = self.names.len();
        self.names.extend_from_slice(&more.names);
        let moved = |item: Item| Item { start: start + item.start, ..item };
        self.items.extend(more.items.into_iter().map(moved));
        self.ended = more.ended;
    }
}

fn letter(kind: FileType) -> u8 {
    match kind {
        FileType::RegularFile => b'f',
        FileType::Directory => b'd',
        FileType::Symlink => b'l',
        FileType::Fifo => b'p',
        FileType::Socket => b's',
        FileType::CharacterDevice => b'c',
        FileType::BlockDevice => b'b',
        FileType::Unknown => 0,
    }
}

pub(crate) fn open(directory: BorrowedFd<'_>, name: &CStr, follow: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    rustix::fs::openat(directory, name, flags, Mode::empty())
}
