//! A folder, whose names are read some at a time: in bounded time where its mount may not answer.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use rustix::fs::{self as sysfs, AtFlags, FileType, OFlags, RawDir};
use rustix::io::Errno;

use super::attributes::kind_of;
use super::reach::OF_FOLDER;
use super::{Kind, Local};
use crate::Error;

/// Bytes of names that one call reads, which has the whole limit where the mount may not answer: as
/// many as most file systems give at once.
const NAMES_BYTES: usize = 32 << 10;

/// A name, with what the listing says that it is.
type Listed = (OsString, FileType);
/// What comes after names, if there is no more to read.
type End = Option<Result<(), Errno>>;

/// A folder that is open.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    may_stall: bool,
    /// Until it is lost to a call that does not return.
    dir: Option<OwnedFd>,
    /// What was read and not given yet.
    names: IntoIter<Listed>,
    end: End,
}

impl Local {
    /// Opens the folder at `path`, in bounded time where its mount may not answer.
    ///
    /// # Errors
    /// [`Error::Io`], also of what is no folder; [`Error::Stalled`].
    pub fn folder(&self, path: &Path) -> Result<Folder, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let table = self.mount_table();
        let (file, stat) = self.on_mount(&table, path, flags, OF_FOLDER, |file| {
            let stat = sysfs::fstat(&file)?;
            Ok((file, stat))
        })?;
        let status = self.status_of(&table, file.as_fd(), &stat.into());
        let may_stall = status.map_err(|error| Error::io(path, error))?.backing.may_stall();
        Ok(Folder {
            path: path.to_owned(),
            may_stall,
            dir: Some(file),
            names: IntoIter::default(),
            end: None,
        })
    }
}

impl Folder {
    /// Its path, by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next name, and what that is, where it can be told: a link is one. After an error comes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`].
    pub fn next(&mut self, local: &Local) -> Option<Result<(OsString, Option<Kind>), Error>> {
        loop {
            if let Some((name, kind)) = self.names.next() {
                let kind = match kind {
                    FileType::Unknown => self.look(&name, local),
                    kind => Ok(Some(kind_of(kind))),
                };
                return Some(kind.map(|kind| (name, kind)));
            }
            match self.end {
                None => {}
                Some(Ok(())) => return None,
                Some(Err(error)) => {
                    self.end = Some(Ok(()));
                    return Some(Err(Error::io(&self.path, error)));
                }
            }
            match self.call(local, some_names) {
                Ok((names, end)) => (self.names, self.end) = (names.into_iter(), end),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// What a name stands for; `None` if that cannot be told.
    fn look(&mut self, name: &OsString, local: &Local) -> Result<Option<Kind>, Error> {
        let name = name.clone();
        let looked = self.call(local, move |dir| {
            let stat = sysfs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok::<_, Errno>(FileType::from_raw_mode(stat.st_mode))
        })?;
        Ok(looked.ok().map(kind_of))
    }

    /// Makes a call with it; one that is given up is its end.
    fn call<T: Send + 'static>(
        &mut self,
        local: &Local,
        call: impl FnOnce(&OwnedFd) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let dir = self.dir.take().expect("without it this has ended");
        let call = move || {
            let made = call(&dir);
            (dir, made)
        };
        let called = if self.may_stall {
            local.reached(&self.path).and_then(|reached| reached.until(OF_FOLDER, call))
        } else {
            Ok(call())
        };
        if called.is_err() {
            (self.names, self.end) = (IntoIter::default(), Some(Ok(())));
        }
        let (dir, made) = called?;
        self.dir = Some(dir);
        Ok(made)
    }
}

/// Reads the names that the system gives next; with what comes after them, if these are the last.
fn some_names(dir: &OwnedFd) -> (Vec<Listed>, End) {
    let (mut names, mut buffer) = (Vec::new(), Vec::with_capacity(NAMES_BYTES));
    let mut listing = RawDir::new(dir, buffer.spare_capacity_mut());
    loop {
        match listing.next() {
            // A folder that is removed meanwhile has no more names.
            None | Some(Err(Errno::NOENT)) => return (names, Some(Ok(()))),
            Some(Err(Errno::INTR)) => continue,
            Some(Err(error)) => return (names, Some(Err(error))),
            Some(Ok(entry)) => {
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push((OsString::from_vec(name.to_vec()), entry.file_type()));
                }
            }
        }
        if listing.is_buffer_empty() {
            return (names, None);
        }
    }
}
