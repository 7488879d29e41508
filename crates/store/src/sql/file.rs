//! A file of `SQLite`'s, and how reading it leaves nothing beside it.
//!
//! In WAL mode also who only reads makes files beside the database, which stay, and cannot do so in a folder
//! that may not be written. Where nobody else has the database open, it can be read as it lies there; a
//! writer who comes meanwhile is not held off then, and noticed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;

use crate::{Error, Kind, Local, Name};

/// Where the header says by which means it is written and read (the file format, section 1.3).
const VERSIONS: std::ops::Range<usize> = 18..20;
/// Which is this.
const WAL: u8 = 2;

/// A database in a file, as it was found.
#[derive(Debug)]
pub(super) struct Found {
    path: PathBuf,
    wal: Wal,
}

#[derive(Debug)]
enum Wal {
    /// Others are held off by locks, or the file is none that we can say anything of.
    None,
    /// Somebody has it open, or has left it with changes that are not in it yet.
    Used,
    /// Nobody has.
    Unused(State),
}

/// By which a change is noticed.
#[derive(Debug, PartialEq, Eq)]
struct State {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
}

impl Found {
    /// Looks at a file, in bounded time.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn look(local: &Local, path: PathBuf) -> Result<Self, Error> {
        // Of a FIFO opening would never return.
        if local.stat(&path)?.kind != Kind::File {
            return Err(Error::refused(path.as_path(), "not a regular file, so no database"));
        }
        let file = path.clone();
        let wal = local.bounded(&path, move || wal(&file).unwrap_or(Wal::None))?;
        Ok(Self { path, wal })
    }

    /// How it is opened.
    pub(super) fn options(&self) -> SqliteConnectOptions {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .read_only(true)
            .create_if_missing(false)
            .pragma("query_only", "on");
        options.immutable(matches!(self.wal, Wal::Unused(_)))
    }

    /// What there is to say where it cannot be opened.
    pub(super) fn hint(&self) -> Option<&'static str> {
        matches!(self.wal, Wal::Used).then_some(
            "others have it open or left changes beside it (-wal), and then it is read only in a folder that may be written",
        )
    }

    /// Makes sure that it is what was read, where writers were not held off.
    ///
    /// # Errors
    /// [`Error::Changed`] about `name`; its mount does not answer.
    pub(super) fn is_still_there(&self, local: &Local, name: Name) -> Result<(), Error> {
        let Wal::Unused(before) = &self.wal else { return Ok(()) };
        let path = self.path.clone();
        let now = local.bounded(&self.path, move || State::of(&path))?;
        let is_same = now.is_ok_and(|now| now == *before);
        if is_same { Ok(()) } else { Err(Error::Changed { name }) }
    }
}

impl State {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

fn wal(path: &Path) -> io::Result<Wal> {
    // The others lie beside what a link leads to.
    let path = path.canonicalize()?;
    let state = State::of(&path)?;
    let mut header = [0; VERSIONS.end];
    fs::File::open(&path)?.read_exact(&mut header)?;
    if !header[VERSIONS].contains(&WAL) {
        return Ok(Wal::None);
    }
    let beside = |ending: &str| {
        let mut name = OsString::from(&path);
        name.push(ending);
        fs::symlink_metadata(name).ok()
    };
    let is_used = beside("-wal").is_some_and(|wal| wal.len() > 0)
        || beside("-shm").is_some()
        || beside("-journal").is_some();
    Ok(if is_used { Wal::Used } else { Wal::Unused(state) })
}
