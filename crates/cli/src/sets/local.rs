//! A file of this machine for each member, with the member's own file name.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nearfirst::{Error, Member, MemberError};

use super::Tally;
use super::interrupt::{self, Prepared};
use crate::{human, messages};

/// How often it is tried to remove a folder that others fill: each may put one thing back in.
const REMOVAL_TRIES: usize = 1000;

/// A private folder for copies of remote members, made for the first of them, gone with this value or
/// with the run.
#[derive(Debug)]
pub(crate) struct Folder {
    parent: PathBuf,
    place: OnceLock<Result<tempfile::TempDir, Error>>,
    next: AtomicU64,
    removed: Prepared,
}

/// A member's file; a copy is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct MemberFile {
    path: PathBuf,
    bytes: u64,
    /// The folder of its own that a copy lies in.
    own: Option<PathBuf>,
}

impl Folder {
    /// To be made below `parent`.
    pub(crate) fn below(parent: PathBuf) -> Self {
        let removed = interrupt::prepare(|| ());
        Self { parent, place: OnceLock::new(), next: AtomicU64::new(0), removed }
    }

    /// The same, made.
    ///
    /// # Errors
    /// [`Error::Io`] if none can be made there.
    pub(crate) fn made(self) -> Result<Self, Error> {
        self.path()?;
        Ok(self)
    }

    /// Why none could be made, if that was tried.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.place.get()?.as_ref().err()
    }

    fn path(&self) -> Result<&Path, Error> {
        let place = self.place.get_or_init(|| {
            // What only this user may fetch, only this user may read, whatever the umask.
            let folder = tempfile::Builder::new()
                .prefix("nearfirst-copies-")
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(&self.parent);
            let folder = folder.map_err(|error| Error::io(&self.parent, error))?;
            let path = folder.path().to_owned();
            self.removed.becomes(move || remove(&path));
            Ok(folder)
        });
        place.as_ref().map(tempfile::TempDir::path).map_err(Error::again)
    }

    /// The file of a member: its own, or a copy.
    ///
    /// # Errors
    /// What kept its bytes away; no room for a copy.
    pub(crate) fn file(&self, member: Member, tally: &Tally) -> Result<MemberFile, MemberError> {
        if let Some(path) = member.path() {
            let bytes = member.size().unwrap_or(0);
            tally.read(bytes);
            return Ok(MemberFile { path: path.to_owned(), bytes, own: None });
        }
        let name = member.name().clone();
        // Names may be the same: each copy has a folder of its own.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let place = self.path().map_err(|error| MemberError::new(name.clone(), error))?;
        let own = place.join(number.to_string());
        let path = own.join(OsStr::from_bytes(&name.of_copy()));
        let mut file = MemberFile { path, bytes: 0, own: Some(own) };
        match file.fill(member, tally, &self.parent) {
            Ok(()) => Ok(file),
            Err(error) => Err(MemberError::of(&name, error)),
        }
    }
}

impl MemberFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn fill(&mut self, mut member: Member, tally: &Tally, parent: &Path) -> io::Result<()> {
        let name = member.name().clone();
        let failed = |error: io::Error| {
            let (parent, reason) = (human::name(parent), messages::reason(&error));
            let what =
                format!("no copy can be made in {parent}: {reason}; --spill names another folder");
            io::Error::other(Arc::new(Error::refused(name.clone(), what)))
        };
        if let Some(own) = &self.own {
            DirBuilder::new().mode(0o700).create(own).map_err(failed)?;
        }
        let made = File::options().write(true).create_new(true).mode(0o600).open(&self.path);
        let mut file = made.map_err(failed)?;
        loop {
            let chunk = member.chunk().map_err(io::Error::other)?;
            if chunk.is_empty() {
                return Ok(());
            }
            tally.read(chunk.len() as u64);
            self.bytes += chunk.len() as u64;
            file.write_all(&chunk).map_err(failed)?;
        }
    }
}

impl Drop for MemberFile {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            // What the command left beside the copy goes with it.
            drop(fs::remove_dir_all(own));
        }
    }
}

/// Removes a folder, though copies are still made in it: nobody makes any once it is gone.
fn remove(folder: &Path) {
    let is_filled = |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty;
    let tries = std::iter::repeat_with(|| fs::remove_dir_all(folder)).take(REMOVAL_TRIES);
    let mut ends = tries.skip_while(|removed| removed.as_ref().is_err_and(is_filled));
    drop(ends.next());
}
