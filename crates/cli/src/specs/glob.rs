//! A pattern without braces, walked folder by folder.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use nearfirst::{Error, Local};
use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::SpecError;

/// Names of a folder that are sorted together, and the most that a level of the walk holds.
const BATCH: usize = 4096;

/// Whether something in it is a wildcard.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    let mut quoted = false;
    text.iter().any(|&byte| {
        let wild = !quoted && b"*?[".contains(&byte);
        quoted = !quoted && byte == b'\\';
        wild
    })
}

/// The text that an escaped one stands for.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut quoted = false;
    let keep = |byte: &&u8| {
        quoted = !quoted && **byte == b'\\';
        !quoted
    };
    text.iter().filter(keep).copied().collect()
}

/// `text` so that every character stands for itself.
pub(crate) fn escaped(text: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    for &byte in text {
        if b"\\*?[]{}".contains(&byte) {
            result.push(b'\\');
        }
        result.push(byte);
    }
    result
}

/// What one component of a path must be.
#[derive(Debug)]
enum Part {
    /// This text, which may be several components.
    Literal(PathBuf),
    /// A name that matches; one with a leading dot only if `dot`.
    Matching { matcher: GlobMatcher, dot: bool },
    /// Any folders, also none.
    AnyFolders,
}

/// What is still to be looked at.
#[derive(Debug)]
enum Task {
    /// Paths that begin with `base` and go on as `parts[part..]`.
    Match { base: PathBuf, part: usize },
    /// The rest of a folder that is larger than a batch.
    Scan { folder: Dir, base: PathBuf, part: usize },
}

/// The walk of one pattern.
#[derive(Debug)]
pub(crate) struct Walk {
    parts: Vec<Part>,
    only_folders: bool,
    tasks: Vec<Task>,
}

impl Walk {
    /// Reads the pattern, in which some component has a wildcard.
    pub(crate) fn new(pattern: &[u8]) -> Result<Self, String> {
        let mut parts: Vec<Part> = Vec::new();
        let mut literal =
            if pattern.starts_with(b"/") { PathBuf::from("/") } else { PathBuf::new() };
        for component in pattern.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            if !is_pattern(component) {
                literal.push(OsString::from_vec(unescaped(component)));
                continue;
            }
            if !literal.as_os_str().is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            if component == b"**" {
                if !matches!(parts.last(), Some(Part::AnyFolders)) {
                    parts.push(Part::AnyFolders);
                }
            } else {
                parts.push(matching(component)?);
            }
        }
        if !literal.as_os_str().is_empty() {
            parts.push(Part::Literal(literal));
        }
        if matches!(parts.last(), Some(Part::AnyFolders)) {
            parts.push(matching(b"*")?);
        }
        let tasks = vec![Task::Match { base: PathBuf::new(), part: 0 }];
        Ok(Self { parts, only_folders: pattern.ends_with(b"/"), tasks })
    }

    /// The next path, or a folder that could not be read.
    pub(crate) fn next(&mut self, local: &Local) -> Option<Result<PathBuf, SpecError>> {
        while let Some(task) = self.tasks.pop() {
            let found = match task {
                Task::Scan { folder, base, part } => self.scan(folder, base, part),
                Task::Match { base, part } => match self.parts.get(part) {
                    None => return Some(Ok(self.ended(base))),
                    Some(Part::Literal(literal)) => {
                        let path = base.join(literal);
                        let is_last = part + 1 == self.parts.len();
                        if !is_last || local.stat(&path).is_ok() {
                            self.tasks.push(Task::Match { base: path, part: part + 1 });
                        }
                        Ok(())
                    }
                    Some(Part::Matching { .. } | Part::AnyFolders) => self.open(local, base, part),
                },
            };
            if let Err(error) = found {
                return Some(Err(error));
            }
        }
        None
    }

    /// A pattern that ends in `/` gives paths that do.
    fn ended(&self, path: PathBuf) -> PathBuf {
        if self.only_folders { path.join("") } else { path }
    }

    fn open(&mut self, local: &Local, base: PathBuf, part: usize) -> Result<(), SpecError> {
        let path = if base.as_os_str().is_empty() { Path::new(".") } else { &base };
        let opened = local
            .open(path)
            .and_then(|folder| Dir::new(folder).map_err(|error| Error::io(path, error)));
        let folder = match opened {
            Ok(folder) => folder,
            Err(error) if is_no_folder(&error) => return Ok(()),
            Err(error) => return Err(SpecError::new(path, error.reason())),
        };
        if matches!(self.parts[part], Part::AnyFolders) {
            // Comes after the folders below by the stack, so that it is pushed last to come first.
            self.scan(folder, base.clone(), part)?;
            self.tasks.push(Task::Match { base, part: part + 1 });
            return Ok(());
        }
        self.scan(folder, base, part)
    }

    /// Looks at a batch of names.
    fn scan(&mut self, mut folder: Dir, base: PathBuf, part: usize) -> Result<(), SpecError> {
        let is_last = part + 1 == self.parts.len();
        let wants_folder = !is_last || self.only_folders;
        let mut names: Vec<OsString> = Vec::new();
        let mut ended = false;
        while names.len() < BATCH && !ended {
            let entry = match folder.read() {
                None => {
                    ended = true;
                    continue;
                }
                Some(Ok(entry)) => entry,
                Some(Err(rustix::io::Errno::NOTDIR)) => return Ok(()),
                Some(Err(error)) => {
                    let reason = crate::messages::reason(&io::Error::from(error));
                    return Err(SpecError::new(base, reason));
                }
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let mut kind = entry.file_type();
            if kind == FileType::Unknown
                && let Ok(fd) = folder.fd()
                && let Ok(stat) = statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            {
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            let meets = match &self.parts[part] {
                Part::AnyFolders => kind == FileType::Directory && name[0] != b'.',
                Part::Matching { matcher, dot } => {
                    (name[0] != b'.' || *dot)
                        && (!wants_folder
                            || matches!(kind, FileType::Directory | FileType::Symlink))
                        && matcher.is_match(OsStr::from_bytes(name))
                }
                Part::Literal(_) => false,
            };
            if meets {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        // `**` stays at itself: folders within folders.
        let next = if matches!(self.parts[part], Part::AnyFolders) { part } else { part + 1 };
        names.sort_unstable_by(|a, b| b.cmp(a));
        let paths: Vec<_> = names.iter().map(|name| base.join(name)).collect();
        if !ended {
            self.tasks.push(Task::Scan { folder, base, part });
        }
        self.tasks.extend(paths.into_iter().map(|base| Task::Match { base, part: next }));
        Ok(())
    }
}

fn matching(component: &[u8]) -> Result<Part, String> {
    let text = std::str::from_utf8(component)
        .map_err(|_| "a pattern must be UTF-8; `?` stands for any other byte".to_owned())?;
    let mut pattern = String::with_capacity(text.len());
    let mut quoted = false;
    for character in text.chars() {
        // Braces that are left stand for themselves.
        if !quoted && matches!(character, '{' | '}') {
            pattern.push('\\');
        }
        quoted = !quoted && character == '\\';
        pattern.push(character);
    }
    let glob = GlobBuilder::new(&pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| error.kind().to_string())?;
    let dot = text.starts_with('.') || text.starts_with("\\.");
    Ok(Part::Matching { matcher: glob.compile_matcher(), dot })
}

fn is_no_folder(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
