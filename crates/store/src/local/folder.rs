//! A folder, whose names are read some at a time: in bounded time where its mount may not answer.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use rustix::fs::{self as sysfs, AtFlags, Dir, FileType, OFlags};
use rustix::io::Errno;

use super::attributes::kind_of;
use super::{Kind, Local};
use crate::Error;

/// Names that one call reads, which has the whole limit where the mount may not answer: about as
/// many as the system gives at once.
const NAMES_MAX: usize = 512;

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
    dir: Option<Dir>,
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
        let (file, stat) = self.on_mount(&table, path, flags, |file| {
            let stat = sysfs::fstat(&file)?;
            Ok((file, stat))
        })?;
        let status = self.status_of(&table, file.as_fd(), &stat.into());
        let may_stall = status.map_err(|error| Error::io(path, error))?.backing.may_stall();
        let dir = Some(Dir::new(file).map_err(|error| Error::io(path, error))?);
        Ok(Folder { path: path.to_owned(), may_stall, dir, names: IntoIter::default(), end: None })
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
            let stat = sysfs::statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok::<_, Errno>(FileType::from_raw_mode(stat.st_mode))
        })?;
        Ok(looked.ok().map(kind_of))
    }

    /// Makes a call with it; one that is given up is its end.
    fn call<T: Send + 'static>(
        &mut self,
        local: &Local,
        call: impl FnOnce(&mut Dir) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let mut dir = self.dir.take().expect("without it this has ended");
        let call = move || {
            let made = call(&mut dir);
            (dir, made)
        };
        let called = if self.may_stall {
            local.reached(&self.path).and_then(|reached| reached.while_answered(call))
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

/// Reads some names; with what comes after them, if these are the last.
fn some_names(dir: &mut Dir) -> (Vec<Listed>, End) {
    let mut names = Vec::new();
    while names.len() < NAMES_MAX {
        match dir.read() {
            None => return (names, Some(Ok(()))),
            Some(Err(error)) => return (names, Some(Err(error))),
            Some(Ok(entry)) => {
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    names.push((OsString::from_vec(name.to_vec()), entry.file_type()));
                }
            }
        }
    }
    (names, None)
}
