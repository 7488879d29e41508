//! Patterns on disk: whole or not at all, private to their user, and nobody's lost to another's.
//!
//! One process at a time holds the patterns and replaces them. Who finds them held learns for
//! itself, and learns the same again on top of what the other saved, once that is done; or leaves
//! what it saw beside them, for who holds them next.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::Clock;
use tree::replay::Trace;
use tree::{DecodeError, Learner, Options, Patterns};

/// More than this are no patterns: learners keep theirs within a fraction of it.
const BYTES_MAX: u64 = 1 << 30;
/// How often a lock that another holds is asked for.
const ASKS_EVERY: Duration = Duration::from_millis(5);
/// What was seen and is left for another is absorbed in pieces of no more files than this.
const LEFT_MAX: usize = 64;

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
        source: DecodeError,
    },
    /// Patterns that could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Where a user's patterns are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternStore {
    folder: PathBuf,
}

/// The right to replace the patterns; given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    store: PatternStore,
    _lock: File,
}

impl PatternStore {
    /// In this folder, which is made when it is needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The user's own: `$XDG_STATE_HOME/nearfirst`, by default `~/.local/state/nearfirst`;
    /// `$NEARFIRST_STATE`, a folder, stands in for it. `None` without a home.
    pub fn own() -> Option<Self> {
        let set = |name| std::env::var_os(name).map(PathBuf::from);
        if let Some(folder) = set("NEARFIRST_STATE").filter(|path| !path.as_os_str().is_empty()) {
            return Some(Self::at(folder));
        }
        let state = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let state = state.or_else(|| Some(set("HOME")?.join(".local/state")))?;
        Some(Self::at(state.join("nearfirst")))
    }

    /// The file of the patterns.
    pub fn path(&self) -> PathBuf {
        self.folder.join("trees")
    }

    /// What is saved. Where nothing is, no patterns; what is broken is set aside.
    pub fn load(&self) -> (Patterns, Option<StoreWarning>) {
        let path = self.path();
        let failed = |source| Some(StoreWarning::Io { path: path.clone(), source });
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (Patterns::default(), None);
            }
            Err(error) => return (Patterns::default(), failed(error)),
        };
        match Patterns::decode(&bytes) {
            Ok(patterns) => (patterns, None),
            Err(source) => {
                let kept_as = path.with_extension("broken");
                let warning = match fs::rename(&path, &kept_as) {
                    Ok(()) => Some(StoreWarning::SetAside { path, kept_as, source }),
                    Err(error) => failed(error),
                };
                (Patterns::default(), warning)
            }
        }
    }

    /// Asks for the right to replace the patterns, for no longer than `patience`; `None` if
    /// another has it all that time.
    ///
    /// # Errors
    /// The system's, where nothing can be written.
    pub fn hold(&self, patience: Duration, clock: &Clock) -> io::Result<Option<Held>> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder)?;
        let lock = private().open(self.folder.join("trees.lock"))?;
        let until = clock.now().saturating_add(patience);
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Some(Held { store: self.clone(), _lock: lock })),
                Err(fs::TryLockError::WouldBlock) if clock.now() < until => {
                    // Nothing tells when a lock is given back but having it.
                    let pause = rustix::time::Timespec::try_from(ASKS_EVERY);
                    let _ = rustix::event::poll(&mut [], pause.ok().as_ref());
                }
                Err(fs::TryLockError::WouldBlock) => return Ok(None),
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Leaves what was seen for who holds the patterns next.
    ///
    /// # Errors
    /// The system's, on a read-only or full disk: then it is lost.
    pub fn leave(&self, seen: &Trace) -> io::Result<()> {
        let (number, process) = (Clock::real().unix().as_nanos(), std::process::id());
        write_whole(
            &self.folder.join(format!("trees.seen.{number}-{process}")),
            seen.text().as_bytes(),
        )
    }

    /// What was left, oldest first.
    fn left(&self) -> Vec<PathBuf> {
        let Ok(listed) = fs::read_dir(&self.folder) else { return Vec::new() };
        let is_left = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("trees.seen.") && path.extension().is_none_or(|end| end != "part")
        };
        let mut left: Vec<_> = listed.flatten().map(|entry| entry.path()).filter(is_left).collect();
        left.sort_unstable();
        left.truncate(LEFT_MAX);
        left
    }
}

impl Held {
    /// Replaces the patterns: whole or not at all, also if the process is killed or the disk full.
    ///
    /// # Errors
    /// The system's; then what was saved before is still there.
    pub fn save(&self, patterns: &Patterns) -> Result<(), StoreWarning> {
        let path = self.store.path();
        write_whole(&path, &patterns.encode()).map_err(|source| StoreWarning::Io { path, source })
    }

    /// Learns, on top of `patterns`, what others saw and left, and forgets that they did once it
    /// is saved.
    ///
    /// # Errors
    /// As [`Held::save`]; then it is still left.
    pub fn absorb(&self, patterns: Patterns, options: &Options) -> Result<Patterns, StoreWarning> {
        let left = self.store.left();
        if left.is_empty() {
            return Ok(patterns);
        }
        let mut patterns = patterns;
        for path in &left {
            // What cannot be read was damaged by who left it, and is of no use to anybody.
            if let Ok(seen) = read(path).map(|bytes| Trace::parse(&bytes))
                && let Ok(seen) = seen
            {
                patterns = learned(patterns, &seen, options);
            }
        }
        self.save(&patterns)?;
        for path in left {
            drop(fs::remove_file(path));
        }
        Ok(patterns)
    }
}

/// Patterns after what was seen, as if it were seen now.
pub(crate) fn learned(patterns: Patterns, seen: &Trace, options: &Options) -> Patterns {
    let mut learner = Learner::new(options.clone(), patterns);
    for (at, event) in &seen.events {
        drop(learner.on(event.clone(), *at));
    }
    learner.patterns().clone()
}

/// For a file that is its user's alone.
fn private() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return Err(io::Error::other("too large to be patterns, or no file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_added_extension(format!("{}.part", std::process::id()));
    let written = private().truncate(true).open(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&part, path));
    if done.is_err() {
        // What could not be written whole must not stay in part.
        drop(fs::remove_file(&part));
    }
    done
}
