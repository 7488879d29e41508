//! A member that is no file of this machine as one: memory, or a file of ours.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use store::{Error, Name, SpillFolder};

/// Bytes of a member up to which its copy is memory; larger ones lie in a file.
pub(super) const MEMORY_BYTES_MAX: u64 = 8 << 20;

/// A copy of a member, to which its bytes are added as they come.
///
/// What was added is nowhere else any more: where a copy cannot be ended, its member is lost.
#[derive(Debug)]
pub struct MemberCopy {
    file: File,
    /// Where it lies, for who reads that there is no room.
    place: PathBuf,
}

impl MemberCopy {
    /// One without a name, of so many bytes: in memory if they are few, or else in the folder.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn new(name: &Name, size: Option<u64>, folder: &SpillFolder) -> Result<Self, Error> {
        let (place, file) = if size.is_some_and(|size| size <= MEMORY_BYTES_MAX) {
            (PathBuf::from("memory"), memory_file())
        } else {
            let folder = folder.path().into_owned();
            let file = tempfile::tempfile_in(&folder);
            (folder, file)
        };
        // That it is the folder which is missing must not pass for the member.
        let file = file.map_err(|error| Error::no_copy(name.clone(), &place, &error))?;
        Ok(Self { file, place })
    }

    /// One that is written to an empty file of this folder.
    pub fn to(file: File, folder: &Path) -> Self {
        Self { file, place: folder.to_owned() }
    }

    /// Adds what comes next.
    ///
    /// # Errors
    /// There is no room for it, as the system said; it names the place.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).map_err(|error| self.unwritten(error))
    }

    /// Adds what comes next of a file, and no more than so many bytes; returns how many, 0 at its end.
    ///
    /// # Errors
    /// As [`MemberCopy::put`].
    pub fn put_file(&mut self, file: &File, bytes_max: u64) -> io::Result<u64> {
        io::copy(&mut file.take(bytes_max), &mut self.file).map_err(|error| self.unwritten(error))
    }

    /// All that was added, to be read from its beginning.
    ///
    /// # Errors
    /// The system's.
    pub fn whole(mut self) -> io::Result<File> {
        self.file.rewind()?;
        Ok(self.file)
    }

    fn unwritten(&self, error: io::Error) -> io::Error {
        store::unwritten(&self.place, error)
    }
}

/// A file in memory without a name.
fn memory_file() -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(rustix::fs::memfd_create("nearfirst-member", flags)?.into())
}
