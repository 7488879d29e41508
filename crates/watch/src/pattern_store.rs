//! Patterns on disk: whole or not at all, private to their user, and nobody's lost to another's.
//!
//! Everybody reads them; one process at a time holds them, and replaces them. Who finds, once it
//! holds them, that another has replaced what it read learns the same again on top of that. Who
//! cannot have them leaves what it saw beside them, or what is to be forgotten, for who holds them next.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use store::{Clock, Readers, StateFolder};
use tree::replay::trace;
use tree::{DecodeError, Event, Learner, Options, Patterns};

/// The file of the patterns.
const TREES: &str = "trees";
/// The lock of who may replace them.
const LOCK: &str = "trees.lock";
/// What the names of what is left begin with, after that.
const SEEN: &str = "seen.";
const FORGET: &str = "forget.";
/// Patterns that were set aside.
const BROKEN: &str = "trees.broken";
/// Memory that a learner may keep patterns in: more bytes than this are none, as patterns take fewer on disk.
/// What somebody else wrote there may take many times its bytes to read.
pub const PATTERN_BYTES_MAX: usize = 128 << 20;
/// Patterns on disk that are small beside any memory.
const SMALL_BYTES: u64 = 256 << 10;
/// What patterns take in memory, in bytes of theirs on disk: 37 MB where 6 MB are read.
const READ_TIMES: u64 = 6;
/// Files of what was seen that are left for another; beyond it, the oldest is lost.
const LEFT_FILES_MAX: usize = 64;
/// Their bytes, likewise: some seconds of learning.
const LEFT_BYTES_MAX: u64 = 64 << 20;
/// Requests to forget that wait at a time, and the bytes of one, which names no more programs than a command
/// line can.
const ASKED_FILES_MAX: usize = 64;
const ASKED_BYTES_MAX: usize = 4 << 20;
/// How they begin.
const ASKED_ALL: &[u8] = b"all\n";
const ASKED_PROGRAMS: &[u8] = b"programs\n";
/// Who has not written on what it leaves for so long was killed.
const PART_ENDS: Duration = Duration::from_hours(1);

/// Something that a person should know and that stops nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreWarning {
    /// Patterns that cannot be read as such were set aside; new ones begin.
    #[error("{path}: {source}; set aside as {kept}, starting anew", path = path.display(), kept = kept_as.display())]
    SetAside {
        /// The patterns.
        path: PathBuf,
        /// Where they are now.
        kept_as: PathBuf,
        /// What is wrong with them.
        source: io::Error,
    },
    /// Patterns that could not be read or written.
    #[error("{path}: {said}", path = path.display(), said = store::io_reason(source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl StoreWarning {
    /// That the system said something of this file.
    pub(crate) fn about(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Whether a later version wrote the patterns.
    pub(crate) fn is_of_later(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_later(source))
    }

    /// Whether the patterns are damaged: who learns next sets them aside, and begins anew.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_damage(source))
    }
}

/// Those of the system, and a link that is not followed, say nothing about what is in it; and a
/// folder is somebody else's. What a later version wrote is whole, for that one.
fn is_damage(error: &io::Error) -> bool {
    let is_of_the_file =
        matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::PermissionDenied);
    error.raw_os_error().is_none() && !is_later(error) && !is_of_the_file
}

fn is_later(error: &io::Error) -> bool {
    let decoded = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(decoded, Some(DecodeError::Later { .. }))
}

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forget {
    /// All.
    All,
    /// Programs: their names, their paths, or the last parts of those.
    Programs(Vec<OsString>),
}

impl Forget {
    /// As a file has it: of which kind it is, and each name with a NUL behind it.
    fn encode(&self) -> Vec<u8> {
        let Self::Programs(names) = self else { return ASKED_ALL.to_vec() };
        let names = names.iter().flat_map(|name| name.as_bytes().iter().chain(&[0]));
        ASKED_PROGRAMS.iter().chain(names).copied().collect()
    }

    /// `None` of what nobody asked for so.
    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes == ASKED_ALL {
            return Some(Self::All);
        }
        let names = bytes.strip_prefix(ASKED_PROGRAMS)?.split_inclusive(|&byte| byte == 0);
        let name = |name: &[u8]| Some(OsString::from_vec(name.strip_suffix(&[0])?.to_vec()));
        names.map(name).collect::<Option<_>>().map(Self::Programs)
    }

    /// Forgets it; which of its names are no program's.
    pub fn apply(&self, patterns: &mut Patterns) -> Vec<&OsStr> {
        let Self::Programs(names) = self else {
            *patterns = Patterns::default();
            return Vec::new();
        };
        let unknown = patterns.forget(names.iter().map(|name| name.as_bytes()));
        unknown.into_iter().map(OsStr::from_bytes).collect()
    }
}

/// Where a user's patterns are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternStore {
    folder: PathBuf,
}

/// Which patterns were read: those that replace them are others. `None` where there were none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version(Option<[i128; 5]>);

/// The right to replace the patterns; given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    store: PatternStore,
    /// The store's, as long as this is held.
    folder: StateFolder,
    _lock: File,
}

impl PatternStore {
    /// In this folder, which is made when it is needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The user's own: `$XDG_STATE_HOME/nearfirst`, by default `~/.local/state/nearfirst`;
    /// `$NEARFIRST_STATE`, a folder, stands in for it. `None` without a home; one that is named from
    /// where somebody stands is none.
    pub fn own() -> Option<Self> {
        store::state_folder().map(Self::at)
    }

    /// The file of the patterns.
    pub fn path(&self) -> PathBuf {
        self.folder.join(TREES)
    }

    /// What is saved. Where nothing is, or what cannot be read, no patterns; it is left as it is.
    pub fn load(&self) -> (Patterns, Option<StoreWarning>) {
        let path = self.path();
        match self.read() {
            Ok((patterns, _)) => (patterns, None),
            Err(source) => (Patterns::default(), Some(StoreWarning::Io { path, source })),
        }
    }

    /// What is saved, and which it is.
    pub(crate) fn read(&self) -> io::Result<(Patterns, Version)> {
        match self.open() {
            Ok(folder) => read_patterns(&folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok((Patterns::default(), Version(None)))
            }
            Err(error) => Err(error),
        }
    }

    /// The same where memory has room for it, by what `room` says.
    pub(crate) fn read_within(
        &self,
        room: impl FnOnce() -> Option<u64>,
    ) -> io::Result<(Patterns, Version)> {
        if self.has_room(room) { self.read() } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }

    /// Whether what is saved can be read in this much memory.
    pub(crate) fn has_room(&self, room: impl FnOnce() -> Option<u64>) -> bool {
        let bytes = self.open().and_then(|folder| folder.metadata(TREES));
        let bytes = bytes.map_or(0, |metadata| metadata.len());
        bytes <= SMALL_BYTES || room().is_none_or(|room| bytes.saturating_mul(READ_TIMES) <= room)
    }

    /// Asks for the right to replace the patterns, for no longer than `patience`; `None` if
    /// another has it all that time.
    ///
    /// # Errors
    /// The system's, where nothing can be written; for root, a link on the way that others could change.
    pub fn hold(&self, patience: Duration, clock: &Clock) -> Result<Option<Held>, StoreWarning> {
        let folder = StateFolder::make(&self.folder, Readers::Owner);
        let folder = folder.map_err(StoreWarning::about(&self.folder))?;
        let lock = folder.lock(LOCK, patience, clock);
        let lock = lock.map_err(StoreWarning::about(&self.folder.join(LOCK)))?;
        Ok(lock.map(|lock| Held { store: self.clone(), folder, _lock: lock }))
    }

    fn open(&self) -> io::Result<StateFolder> {
        StateFolder::open(&self.folder, Readers::Owner)
    }

    /// Leaves what was seen, a trace, for who holds the patterns next.
    ///
    /// # Errors
    /// The system's, on a read-only or full disk: then it is lost.
    pub fn leave(&self, seen: &str) -> Result<(), StoreWarning> {
        let folder = self.open().map_err(StoreWarning::about(&self.folder))?;
        let name = own_name(SEEN);
        let written = folder.write_whole(&name, seen.as_bytes());
        written.map_err(StoreWarning::about(&self.folder.join(&name)))?;
        bound_left(&folder);
        Ok(())
    }

    /// Leaves what is to be forgotten for who holds the patterns: the service looks for it, a run before
    /// it saves.
    ///
    /// # Errors
    /// The system's, or that too much is asked for; then it is not forgotten.
    pub fn ask_to_forget(&self, what: &Forget) -> io::Result<Left> {
        let (folder, bytes) = (self.open()?, what.encode());
        if bytes.len() > ASKED_BYTES_MAX {
            return Err(io::Error::other("too many programs to be forgotten at a time"));
        }
        if files(&folder, Kind::Forget).len() >= ASKED_FILES_MAX {
            let what = format!("{ASKED_FILES_MAX} requests to forget wait already");
            return Err(io::Error::other(what));
        }
        let name = own_name(FORGET);
        folder.write_whole(&name, &bytes)?;
        Ok(Left { folder, name })
    }
}

/// What is left for who holds the patterns next, or holds them now and looks.
#[derive(Debug)]
pub struct Left {
    folder: StateFolder,
    name: String,
}

impl Left {
    /// Whether it is still there.
    pub fn is_there(&self) -> bool {
        !is_gone(&self.folder.metadata(&self.name))
    }

    /// Takes it back; whether it was still there.
    pub fn take_back(self) -> bool {
        !is_gone(&self.folder.remove(&self.name))
    }
}

/// Whether an answer about a file is that there is none; another error says nothing.
fn is_gone<T>(answer: &io::Result<T>) -> bool {
    matches!(answer, Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// A name that nobody else gives a file.
fn own_name(begin: &str) -> String {
    format!("trees.{begin}{}-{}", Clock::real().unix().as_nanos(), std::process::id())
}

/// Removes the oldest of what is left, but the newest never, as far as there is too much.
fn bound_left(folder: &StateFolder) {
    let size = |name: &OsString| folder.metadata(name).map_or(0, |metadata| metadata.len());
    let mut left = files(folder, Kind::Seen);
    let mut bytes: u64 = left.iter().map(size).sum();
    left.pop();
    let (mut files, mut oldest) = (left.len() + 1, left.into_iter());
    while files > LEFT_FILES_MAX || bytes > LEFT_BYTES_MAX {
        let Some(name) = oldest.next() else { break };
        bytes -= size(&name);
        files -= 1;
        drop(folder.remove(name));
    }
}

/// The files of a kind, oldest first if their names tell.
fn files(folder: &StateFolder, kind: Kind) -> Vec<OsString> {
    let mut files = folder.names().unwrap_or_default();
    files.retain(|name| Kind::of(name) == Some(kind));
    files.sort_unstable();
    files
}

/// What a file of the folder is, beside the patterns and their lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What was seen and left for another.
    Seen,
    /// What is to be forgotten.
    Forget,
    /// Either while it is written.
    PartLeft,
    /// Patterns while they are written, by who holds them.
    Part,
    /// What was set aside.
    Broken,
}

impl Kind {
    fn of(name: &OsStr) -> Option<Self> {
        let is_part = Path::new(name).extension().is_some_and(|end| end == "part");
        let name = name.to_str()?.strip_prefix("trees.")?;
        let left = [(SEEN, Self::Seen), (FORGET, Self::Forget)];
        match (left.into_iter().find(|(begin, _)| name.starts_with(begin)), is_part) {
            (Some((_, kind)), false) => Some(kind),
            (Some(_), true) => Some(Self::PartLeft),
            (None, true) => Some(Self::Part),
            (None, false) => (name == "broken").then_some(Self::Broken),
        }
    }
}

impl Version {
    fn of(file: &fs::Metadata) -> Self {
        let changed =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self(Some([
            file.dev().into(),
            file.ino().into(),
            file.size().into(),
            changed(file.mtime(), file.mtime_nsec()),
            changed(file.ctime(), file.ctime_nsec()),
        ]))
    }
}

impl Held {
    /// What is saved. Where nothing is, no patterns; what is damaged is set aside.
    ///
    /// # Errors
    /// What cannot be read, or set aside: it may be whole, and must not be replaced.
    pub fn load(&self) -> Result<(Patterns, Option<StoreWarning>), StoreWarning> {
        let source = match read_patterns(&self.folder) {
            Ok((patterns, _)) => return Ok((patterns, None)),
            Err(source) => source,
        };
        let path = self.store.path();
        let kept_as = path.with_file_name(BROKEN);
        if is_damage(&source) && self.folder.rename(TREES, BROKEN).is_ok() {
            let warning = StoreWarning::SetAside { path, kept_as, source };
            return Ok((Patterns::default(), Some(warning)));
        }
        Err(StoreWarning::Io { path, source })
    }

    /// Whether what is saved is what was read then.
    pub(crate) fn is_still(&self, version: &Version) -> bool {
        let now = self.folder.metadata(TREES);
        *version == now.map_or(Version(None), |metadata| Version::of(&metadata))
    }

    /// Replaces the patterns: whole or not at all, also if the process is killed or the disk full.
    ///
    /// # Errors
    /// The system's; then what was saved before is still there.
    pub fn save(&self, patterns: &Patterns) -> Result<(), StoreWarning> {
        let path = self.store.path();
        let saved = self.folder.write_whole(TREES, &patterns.encode());
        saved.map_err(|source| StoreWarning::Io { path, source })
    }

    /// Learns, on top of `patterns`, what others saw and left, forgets what they asked to be forgotten, and
    /// that they did once it is saved. What those who were killed left in part is removed.
    ///
    /// # Errors
    /// As [`Held::save`]; then it is still left.
    pub fn absorb(&self, patterns: Patterns, options: &Options) -> Result<Patterns, StoreWarning> {
        let remove = |name: OsString| drop(self.folder.remove(name));
        files(&self.folder, Kind::Part).into_iter().for_each(remove);
        let ended = (SystemTime::UNIX_EPOCH + Clock::real().unix()).checked_sub(PART_ENDS);
        let is_old = |name: &OsString| {
            let written = self.folder.metadata(name).and_then(|metadata| metadata.modified());
            written.is_ok_and(|at| Some(at) < ended)
        };
        files(&self.folder, Kind::PartLeft).into_iter().filter(is_old).for_each(remove);
        let seen = files(&self.folder, Kind::Seen);
        // What cannot be read was damaged by who left it, and is of no use to anybody.
        let read = |name| self.folder.read(name, LEFT_BYTES_MAX).ok().map(|(seen, _)| seen);
        let mut patterns = if seen.is_empty() {
            patterns
        } else {
            learned(patterns, seen.iter().filter_map(read), options)
        };
        let mut asked = Vec::new();
        while let Some((name, what)) = self.next_asked(&asked) {
            what.apply(&mut patterns);
            self.has_forgotten(name, &what, &mut asked);
        }
        if seen.is_empty() && asked.is_empty() {
            return Ok(patterns);
        }
        self.save(&patterns)?;
        seen.into_iter().for_each(remove);
        self.let_go(&mut asked);
        Ok(patterns)
    }

    /// The first request to forget beside these, and its file. What nobody can read as one is removed.
    pub(crate) fn next_asked(&self, beside: &[OsString]) -> Option<(OsString, Forget)> {
        let names = files(&self.folder, Kind::Forget).into_iter();
        let mut others = names.filter(|name| !beside.contains(name));
        others.find_map(|name| {
            let read = self.folder.read(&name, ASKED_BYTES_MAX as u64);
            match read.map(|(bytes, _)| Forget::decode(&bytes)) {
                Ok(Some(what)) => (beside.len() < ASKED_FILES_MAX).then_some((name, what)),
                // It may be read at the next look.
                Err(error) if error.raw_os_error().is_some_and(|error| error != libc::ELOOP) => {
                    None
                }
                Ok(None) | Err(_) => {
                    drop(self.folder.remove(name));
                    None
                }
            }
        })
    }

    /// Removes what was set aside: it may name what is forgotten, and nobody reads it.
    pub fn forget_set_aside(&self) {
        for name in files(&self.folder, Kind::Broken) {
            drop(self.folder.remove(name));
        }
    }

    /// Keeps a request that is forgotten among those that are let go of once the patterns are saved. Where
    /// all is, the patterns are removed, which takes no room on the disk, and so are these requests.
    pub(crate) fn has_forgotten(&self, name: OsString, what: &Forget, asked: &mut Vec<OsString>) {
        asked.push(name);
        self.forget_set_aside();
        if *what == Forget::All {
            let seen = files(&self.folder, Kind::Seen).into_iter();
            seen.chain([TREES.into()]).for_each(|name| drop(self.folder.remove(name)));
            if is_gone(&self.folder.metadata(TREES)) {
                self.let_go(asked);
            }
        }
    }

    /// Lets go of requests: what they ask for is forgotten. Those stay that cannot be removed, and are not
    /// heeded again.
    pub(crate) fn let_go(&self, asked: &mut Vec<OsString>) {
        asked.retain(|name| {
            let removed = self.folder.remove(name);
            removed.is_err() && !is_gone(&removed)
        });
    }

    /// Forgets everything: the patterns, what others saw and left, and what was set aside.
    ///
    /// # Errors
    /// The first file that cannot be removed; the others are.
    pub fn forget(&self) -> Result<(), StoreWarning> {
        let kinds = [Kind::Seen, Kind::Forget, Kind::PartLeft, Kind::Part, Kind::Broken];
        let files = kinds.into_iter().flat_map(|kind| files(&self.folder, kind));
        let mut failed = None;
        for name in files.chain([TREES.into()]) {
            match self.folder.remove(&name) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    let path = self.store.path().with_file_name(name);
                    failed = failed.or(Some(StoreWarning::Io { path, source }));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Patterns after what was seen, in traces, as if it were seen now; as far as each can be read.
pub(crate) fn learned<T: AsRef<[u8]>>(
    patterns: Patterns,
    traces: impl IntoIterator<Item = T>,
    options: &Options,
) -> Patterns {
    let mut learner = Learner::new(options.clone(), patterns);
    for trace in traces {
        drop(trace::each(trace.as_ref(), |at, event| drop(learner.on(event, at))));
        learner.end();
        // Nobody knows what came next: not what the next trace begins with.
        drop(learner.on(Event::Lost { process: None }, Duration::ZERO));
    }
    learner.keep_within_memory();
    learner.into_patterns()
}

/// What is saved, and which it is. Where nothing is, no patterns.
fn read_patterns(folder: &StateFolder) -> io::Result<(Patterns, Version)> {
    let (bytes, version) = match folder.read(TREES, PATTERN_BYTES_MAX as u64) {
        Ok((bytes, metadata)) => (bytes, Version::of(&metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Patterns::default(), Version(None)));
        }
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            let what =
                "a folder, as the service has it for all users: one user's are in a folder in it";
            return Err(io::Error::new(io::ErrorKind::IsADirectory, what));
        }
        Err(error) => return Err(error),
    };
    let patterns = Patterns::decode(&bytes);
    Ok((patterns.map_err(|source| io::Error::new(io::ErrorKind::InvalidData, source))?, version))
}

#[cfg(test)]
mod tests {
    use testkit::Dir;

    use super::*;

    #[test]
    fn patterns_are_read_where_memory_has_room_for_several_times_their_bytes() {
        const MIB: u64 = 1 << 20;
        let dir = Dir::new();
        dir.create_sparse(TREES, MIB);
        let store = PatternStore::at(dir.path());
        for (room, suffices) in [(Some(5 * MIB), false), (Some(6 * MIB), true), (None, true)] {
            assert_eq!(store.has_room(|| room), suffices, "{room:?}");
        }
    }
}
