//! Mounts that may not answer: asked in bounded time before a walk looks at what lies on them, or
//! looked at in bounded time.
//!
//! Where none is mounted, nothing is ever asked. One that dies between the question and a look that
//! is not bounded itself is noticed by who watches over that look.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearfirst::{Backing, Error, Kind, Local, fetch};

/// Beyond so many folders it is not worth finding out which of them have to do with such a mount.
const FOLDERS_MAX: usize = 64;

/// What a walk must be wary of; by default nothing.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    local: Local,
    /// The last names of the places where something is mounted that may not answer.
    names: Arc<HashSet<Vec<u8>>>,
    /// Those places.
    points: Vec<PathBuf>,
}

impl Reach {
    pub(crate) fn new(local: Local) -> Self {
        let mounts = local.mounts().unwrap_or_default();
        let wary = mounts.all().iter().filter(|mount| mount.backing.may_stall());
        let name = |point: &Path| point.file_name().unwrap_or_default().as_bytes().to_vec();
        let points: Vec<PathBuf> = wary.map(|mount| mount.point.clone()).collect();
        let names = Arc::new(points.iter().map(|point| name(point)).collect());
        Self { local, names, points }
    }

    /// The file systems that it is wary of.
    pub(crate) fn local(&self) -> &Local {
        &self.local
    }

    /// Whether what may not answer is above one of these folders, or below it. Links in them are
    /// not looked at; the folders themselves have answered.
    pub(crate) fn concerns(&self, folders: &[PathBuf]) -> bool {
        let is_near = |folder: &PathBuf| {
            let Ok(folder) = folder.canonicalize() else { return true };
            self.points.iter().any(|at| at.starts_with(&folder) || folder.starts_with(at))
        };
        self.is_wary() && (folders.len() > FOLDERS_MAX || folders.iter().any(is_near))
    }

    /// Where the mount is that a path seems to lie on, if that may not answer.
    pub(crate) fn wary_point(&self, path: &Path) -> Option<PathBuf> {
        let mount = self.local.mount_by_name(path)?;
        mount.backing.may_stall().then_some(mount.point)
    }

    /// Whether a path below the root is the place of such a mount.
    pub(crate) fn is_wary_point(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        self.may_be_mount(name.as_bytes()) && {
            let above = path.parent().and_then(|above| self.local.mount_by_name(above));
            let mount = self.local.mount_by_name(path).filter(|mount| mount.backing.may_stall());
            mount.is_some_and(|mount| above.is_none_or(|above| above.id != mount.id))
        }
    }

    /// The names under which something may be mounted that may not answer.
    pub(crate) fn names(&self) -> &Arc<HashSet<Vec<u8>>> {
        &self.names
    }

    /// Whether anything is mounted that may not answer.
    pub(crate) fn is_wary(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether something that may not answer may be mounted under this name.
    pub(crate) fn may_be_mount(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// Whether a directory lies on a mount that may not answer.
    pub(crate) fn may_stall(&self, directory: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(directory));
        self.is_wary() && self.local.backing_by_name(path).is_none_or(Backing::may_stall)
    }

    /// Asks the root of the mount that a path leads to, unless it answered a moment ago: what else is on
    /// it may be slow.
    ///
    /// # Errors
    /// That it did not answer.
    pub(crate) fn ask(&self, path: &Path) -> Result<(), Error> {
        self.local.reached(path)?.answers()
    }

    /// Makes a call about a path, in bounded time where its mount may not answer.
    ///
    /// # Errors
    /// That it did not answer, now or a while ago.
    pub(crate) fn bounded<T: Send + 'static>(
        &self,
        path: &[u8],
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if self.is_wary() {
            self.local.bounded(Path::new(OsStr::from_bytes(path)), call)
        } else {
            Ok(call())
        }
    }

    /// Asks the mounts that the links of a folder lead to, if they may not answer.
    ///
    /// # Errors
    /// That one did not answer; which link leads to it. That the folder does not.
    pub(crate) fn ask_links(&self, folder: &Path) -> Result<(), Error> {
        self.listed(folder, |name, kind| match kind {
            Some(Kind::Link) => self.ask(&folder.join(name)),
            _ => Ok(()),
        })
    }

    /// Lists a folder to its end.
    ///
    /// # Errors
    /// That it does not answer.
    pub(crate) fn list(&self, folder: &Path) -> Result<(), Error> {
        self.listed(folder, |_, _| Ok(()))
    }

    /// Hands out what is in a folder, which has the limit for each of its answers. One that cannot be
    /// listed says so to who enters it.
    fn listed(
        &self,
        folder: &Path,
        take: impl Fn(OsString, Option<Kind>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut names = match self.local.folder(folder) {
            Ok(names) => names,
            Err(error) => return if is_silence(&error) { Err(error) } else { Ok(()) },
        };
        while let Some(next) = names.next(&self.local) {
            match next {
                Ok((name, kind)) => take(name, kind)?,
                Err(error) => return if is_silence(&error) { Err(error) } else { Ok(()) },
            }
        }
        Ok(())
    }
}

/// Whether this says that our own limit has passed.
fn is_silence(error: &Error) -> bool {
    match error {
        Error::Stalled { .. } => true,
        Error::Io { source, .. } => fetch::is_given_up(source),
        _ => false,
    }
}
