//! A folder of a user's state, open: what is in it is reached by its descriptor, wherever its path leads
//! by then.
//!
//! Root may keep state below the folder of a user, whose environment it was given (`sudo -E`). By a link
//! there that user could have root write anywhere, and have given to it what it has no right to.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{self as sysfs, AtFlags, Dir, Gid, Mode, OFlags, Uid};

/// A file that is the user's alone.
const PRIVATE: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Such a folder.
#[derive(Debug)]
pub(crate) struct StateFolder {
    descriptor: OwnedFd,
}

impl StateFolder {
    /// Opens a folder that is there.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::PermissionDenied`] for root, where a link leads to it that others
    /// could change.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { descriptor: store::open_folder(path)? })
    }

    /// Opens a folder; makes it, private, and those that it lies in, where there is none. Each is whose
    /// the folder around it is.
    ///
    /// # Errors
    /// As [`StateFolder::open`].
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        let made = |around: &OwnedFd, folder: &OwnedFd| {
            // What was put in the place of ours meanwhile is not ours to give; if it is empty, that
            // is nothing.
            if names(folder).is_ok_and(|names| names.is_empty()) {
                give(around, folder);
            }
        };
        Ok(Self { descriptor: store::make_folder(path, Mode::RWXU, &made)? })
    }

    /// Makes a file that is not there yet, its user's alone.
    pub(crate) fn make_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = PRIVATE | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = sysfs::openat(&self.descriptor, name.as_ref(), flags, mode)?;
        give(&self.descriptor, &file);
        Ok(file.into())
    }

    /// Opens a file that is its user's alone, or makes it. One that is there is not given to anybody: it
    /// may be another's, brought here by who has the folder.
    pub(crate) fn own_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        match self.make_file(name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        let flags = PRIVATE | OFlags::NONBLOCK;
        Ok(sysfs::openat(&self.descriptor, name.as_ref(), flags, Mode::empty())?.into())
    }

    /// What is in a file of no more than so many bytes, and what is known of the file.
    pub(crate) fn read(
        &self,
        name: impl AsRef<OsStr>,
        bytes_max: u64,
    ) -> io::Result<(Vec<u8>, fs::Metadata)> {
        // To open a FIFO would wait for who writes to it.
        let file = self.open_file(name, OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            let what =
                "a folder, as the service has it for all users: one user's are in a folder in it";
            return Err(io::Error::new(io::ErrorKind::IsADirectory, what));
        }
        if !metadata.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        if metadata.len() > bytes_max {
            return Err(io::Error::other("too large to be patterns"));
        }
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok((bytes, metadata))
    }

    /// What is known of a file.
    pub(crate) fn metadata(&self, name: impl AsRef<OsStr>) -> io::Result<fs::Metadata> {
        self.open_file(name, OFlags::PATH)?.metadata()
    }

    fn open_file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<File> {
        let unfollowed = if is_root() { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = flags | unfollowed | OFlags::CLOEXEC;
        Ok(sysfs::openat(&self.descriptor, name.as_ref(), flags, Mode::empty())?.into())
    }

    /// Gives a file another name, in the place of what has it.
    pub(crate) fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let folder = &self.descriptor;
        Ok(sysfs::renameat(folder, from.as_ref(), folder, to.as_ref())?)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(sysfs::unlinkat(&self.descriptor, name.as_ref(), AtFlags::empty())?)
    }

    /// The names of what is in it.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        names(&self.descriptor)
    }
}

fn names(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = Dir::new(sysfs::openat(folder, ".", flags, Mode::empty())?)?;
    let mut names = Vec::new();
    for entry in listed {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Gives what was just made in a folder to whose that is, where root writes in the folder of a user,
/// who could neither read nor replace it.
fn give(folder: &OwnedFd, made: impl AsFd) {
    if is_root()
        && let Ok(folder) = sysfs::fstat(folder)
    {
        let (user, group) = (Uid::from_raw(folder.st_uid), Gid::from_raw(folder.st_gid));
        let _ = sysfs::chownat(made, "", Some(user), Some(group), AtFlags::EMPTY_PATH);
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
