//! A folder of a user's state, open: what is in it is reached by its descriptor, wherever its path leads
//! by then.
//!
//! Root may keep state below the folder of a user, whose environment it was given (`sudo -E`). By a link
//! there that user could have root write anywhere, and have given to it what it has no right to.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{self as sysfs, AtFlags, Dir, Gid, Mode, OFlags, Uid};

use crate::open_folder::{make_folder, open_file, open_folder};
use crate::{Clock, pause};

/// A file that is there for whoever made it: no link is followed to it.
const OWN: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// How often a lock that another holds is asked for.
const ASKS_EVERY: Duration = Duration::from_millis(5);

/// Such a folder.
#[derive(Debug)]
pub struct StateFolder {
    descriptor: OwnedFd,
    readers: Readers,
}

/// Who may read what is made in a folder of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone.
    Owner,
    /// Whom the umask of who makes it lets.
    Umask,
    /// Everybody, whatever that umask.
    Everybody,
}

impl StateFolder {
    /// Opens a folder that is there.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::PermissionDenied`] for root, where a link leads to it that others
    /// could change.
    pub fn open(path: &Path, readers: Readers) -> io::Result<Self> {
        Ok(Self { descriptor: open_folder(path)?, readers })
    }

    /// Opens a folder; makes it, and those that it lies in, where there is none. Each is whose the folder
    /// around it is.
    ///
    /// # Errors
    /// As [`StateFolder::open`].
    pub fn make(path: &Path, readers: Readers) -> io::Result<Self> {
        let made = |around: &OwnedFd, folder: &OwnedFd| {
            // What was put in the place of ours meanwhile is not ours to give; if it is empty, that
            // is nothing.
            if names(folder).is_ok_and(|names| names.is_empty()) {
                give(around, folder);
                if readers == Readers::Everybody {
                    // What cannot be opened to all is of use to root.
                    let _ = let_all_enter(folder);
                }
            }
        };
        let mode = if readers == Readers::Owner { 0o700 } else { 0o777 };
        Ok(Self { descriptor: make_folder(path, Mode::from_raw_mode(mode), &made)?, readers })
    }

    /// Replaces a file, or makes it: whole or not at all, also if the process is killed or the disk full.
    /// Two who write one file at a time need a [lock](StateFolder::lock).
    ///
    /// # Errors
    /// The system's; then what was there before still is.
    pub fn write_whole(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        // One name: who was killed here leaves no more than one behind.
        let mut part = name.as_ref().to_owned();
        part.push(".part");
        drop(self.remove(&part));
        let written = self.make_part(&part).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        let done = written.and_then(|()| self.rename(&part, name));
        if done.is_err() {
            // What could not be written whole must not stay in part.
            drop(self.remove(&part));
        }
        done
    }

    fn make_part(&self, name: &OsStr) -> io::Result<File> {
        let mode = if self.readers == Readers::Owner { 0o600 } else { 0o666 };
        let file = self.make_file(name, Mode::from_raw_mode(mode))?;
        if self.readers == Readers::Everybody {
            sysfs::fchmod(&file, Mode::from_raw_mode(0o644))?;
        }
        Ok(file)
    }

    /// Makes a file that is not there yet.
    fn make_file(&self, name: &OsStr, mode: Mode) -> io::Result<File> {
        let flags = OWN | OFlags::CREATE | OFlags::EXCL;
        let file = sysfs::openat(&self.descriptor, name, flags, mode)?;
        give(&self.descriptor, &file);
        Ok(file.into())
    }

    /// Locks a file that is for that alone, until what is returned is dropped; `None` if another has it
    /// locked as long as `patience`: who stopped, or a user who only looks, may have it for ever.
    ///
    /// # Errors
    /// The system's.
    pub fn lock(
        &self,
        name: impl AsRef<OsStr>,
        patience: Duration,
        clock: &Clock,
    ) -> io::Result<Option<File>> {
        let lock = self.own_file(name.as_ref())?;
        let until = clock.now().saturating_add(patience);
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(lock)),
                Err(TryLockError::WouldBlock) if clock.now() < until => {
                    // Nothing tells when a lock is given back but having it.
                    pause(ASKS_EVERY);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Opens a file that is its user's alone, or makes it. One that is there is not given to anybody: it
    /// may be another's, brought here by who has the folder.
    fn own_file(&self, name: &OsStr) -> io::Result<File> {
        match self.make_file(name, Mode::RUSR | Mode::WUSR) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        // A pipe in its place would be waited for.
        let flags = OWN | OFlags::NONBLOCK;
        Ok(sysfs::openat(&self.descriptor, name, flags, Mode::empty())?.into())
    }

    /// What is in a file of no more than so many bytes, and what is known of the file.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::PermissionDenied`] for root, of a link that others could change;
    /// without a number of its own, what keeps the file from being what it was taken for:
    /// [`io::ErrorKind::IsADirectory`], no regular file, or too large.
    pub fn read(
        &self,
        name: impl AsRef<OsStr>,
        bytes_max: u64,
    ) -> io::Result<(Vec<u8>, fs::Metadata)> {
        // To open a FIFO would wait for who writes to it.
        let file = self.open_file(name, OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "a folder, and no file"));
        }
        if !metadata.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        if metadata.len() > bytes_max {
            let mib = bytes_max >> 20;
            return Err(io::Error::other(format!("too large: it has over {mib} MiB")));
        }
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok((bytes, metadata))
    }

    /// What is known of a file.
    ///
    /// # Errors
    /// The system's.
    pub fn metadata(&self, name: impl AsRef<OsStr>) -> io::Result<fs::Metadata> {
        self.open_file(name, OFlags::PATH)?.metadata()
    }

    fn open_file(&self, name: impl AsRef<OsStr>, flags: OFlags) -> io::Result<File> {
        Ok(open_file(&self.descriptor, name.as_ref(), flags | OFlags::CLOEXEC)?.into())
    }

    /// Gives a file another name, in the place of what has it.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let folder = &self.descriptor;
        Ok(sysfs::renameat(folder, from.as_ref(), folder, to.as_ref())?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(sysfs::unlinkat(&self.descriptor, name.as_ref(), AtFlags::empty())?)
    }

    /// The names of what is in it.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        names(&self.descriptor)
    }
}

fn let_all_enter(folder: &OwnedFd) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listable = sysfs::openat(folder, ".", flags, Mode::empty())?;
    sysfs::fchmod(listable, Mode::from_raw_mode(0o755))
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
