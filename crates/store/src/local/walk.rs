//! The paths that match a pattern, found folder by folder in bounded memory.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Folder;
use crate::pattern::Component;
use crate::{Error, Kind, Local, Pattern};

/// Names of a folder that are sorted together, and the most that a level of the walk holds.
const BATCH: usize = 4096;

/// What one step of the walk looks for.
#[derive(Debug)]
enum Part {
    /// This path, which may be several components.
    Literal(PathBuf),
    /// What a name in a folder must be: never [`Component::Literal`].
    Names(Component),
}

/// What is still to be looked at.
#[derive(Debug)]
enum Task {
    /// Paths that begin with `base` and go on as `parts[part..]`.
    Match { base: PathBuf, part: usize },
    /// The rest of a folder that is larger than a batch.
    Scan { folder: Folder, base: PathBuf, part: usize },
    /// A link, which is given unless it leads nowhere, or to something that is no file.
    Link(PathBuf),
}

/// The walk of one pattern: each folder's names are sorted, in batches where they are many.
///
/// Symbolic links to folders are followed where the pattern names a component,
/// not by `**`. A path without wildcards is given if something is there. A pattern
/// of all below (`**` at its end) gives files, and links to such: who looks into folders,
/// too, would meet all twice, and a FIFO that nobody named would be waited for. A link that leads
/// nowhere is no file either; one of which it cannot be said where it leads is given, so that whoever
/// reads it says why.
#[derive(Debug)]
pub struct Walk {
    parts: Vec<Part>,
    only_folders: bool,
    only_files: bool,
    tasks: Vec<Task>,
}

impl Walk {
    /// Of a pattern over paths; relative ones are looked up in the current folder.
    pub fn new(pattern: &Pattern) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let root = if pattern.is_rooted() { "/" } else { "" };
        let mut literal = PathBuf::from(root);
        for component in pattern.components() {
            if let Component::Literal(text) = component {
                literal.push(OsStr::from_bytes(text));
                continue;
            }
            if !literal.as_os_str().is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Names(component.clone()));
        }
        if !literal.as_os_str().is_empty() {
            parts.push(Part::Literal(literal));
        }
        let tasks = vec![Task::Match { base: PathBuf::new(), part: 0 }];
        let only_folders = pattern.only_folders();
        let only_files = pattern.is_all_below() && !only_folders;
        Self { parts, only_folders, only_files, tasks }
    }

    /// The next path, or a folder that could not be read, or asked for a name; folders are opened and
    /// read through `local`, so that a dead mount does not hang the walk.
    pub fn next(&mut self, local: &Local) -> Option<Result<PathBuf, Error>> {
        self.next_within(local, || false)
    }

    /// Whether nothing is left to be looked at.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.is_empty()
    }

    /// As [`Walk::next`]; nothing also if `is_late` once something was looked at, a folder at most.
    pub(super) fn next_within(
        &mut self,
        local: &Local,
        is_late: impl Fn() -> bool,
    ) -> Option<Result<PathBuf, Error>> {
        while let Some(task) = self.tasks.pop() {
            let found = match task {
                Task::Scan { folder, base, part } => self.scan(local, folder, base, part),
                Task::Link(path) => match local.stat(&path) {
                    Ok(status) if status.kind != Kind::File => Ok(()),
                    Err(error) if is_nowhere(&error) || is_loop(&error) => Ok(()),
                    _ => return Some(Ok(path)),
                },
                Task::Match { base, part } => match self.parts.get(part) {
                    None => return Some(Ok(self.ended(base))),
                    Some(Part::Literal(literal)) => {
                        let path = base.join(literal);
                        let is_last = part + 1 == self.parts.len();
                        let asked = if is_last { local.stat(&path).map(drop) } else { Ok(()) };
                        match asked {
                            Err(error) if is_nowhere(&error) => {}
                            Err(error) => return Some(Err(error)),
                            Ok(()) => self.tasks.push(Task::Match { base: path, part: part + 1 }),
                        }
                        Ok(())
                    }
                    Some(Part::Names(_)) => self.open(local, base, part),
                },
            };
            if let Err(error) = found {
                return Some(Err(error));
            }
            if is_late() {
                break;
            }
        }
        None
    }

    /// A pattern that ends in `/` gives paths that do.
    fn ended(&self, path: PathBuf) -> PathBuf {
        if self.only_folders { path.join("") } else { path }
    }

    fn open(&mut self, local: &Local, base: PathBuf, part: usize) -> Result<(), Error> {
        let path = if base.as_os_str().is_empty() { Path::new(".") } else { &base };
        let folder = match local.folder(path) {
            Ok(folder) => folder,
            Err(error) if is_nowhere(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.goes_through_folders(part) {
            // Comes after the folders below by the stack, so that it is pushed last to come first.
            let scanned = self.scan(local, folder, base.clone(), part);
            self.tasks.push(Task::Match { base, part: part + 1 });
            return scanned;
        }
        self.scan(local, folder, base, part)
    }

    fn goes_through_folders(&self, part: usize) -> bool {
        matches!(self.parts[part], Part::Names(Component::AnyFolders { .. }))
    }

    /// Looks at a batch of names. Where the folder cannot be read on, those before are gone on with.
    fn scan(
        &mut self,
        local: &Local,
        mut folder: Folder,
        base: PathBuf,
        part: usize,
    ) -> Result<(), Error> {
        let is_last = part + 1 == self.parts.len();
        let mut names: Vec<(OsString, bool)> = Vec::new();
        let (mut ended, mut failed) = (false, None);
        while names.len() < BATCH && !ended {
            match folder.next(local) {
                None => ended = true,
                Some(Err(error)) => (ended, failed) = (true, Some(error)),
                Some(Ok((name, kind))) if self.meets(part, name.as_bytes(), kind) => {
                    let is_asked_about = is_last && self.only_files && kind == Some(Kind::Link);
                    names.push((name, is_asked_about));
                }
                Some(Ok(_)) => {}
            }
        }
        // `**` stays at itself: folders within folders.
        let next = if self.goes_through_folders(part) { part } else { part + 1 };
        names.sort_unstable_by(|a, b| b.cmp(a));
        let found = names.iter().map(|(name, is_asked_about)| match base.join(name) {
            path if *is_asked_about => Task::Link(path),
            base => Task::Match { base, part: next },
        });
        let found: Vec<_> = found.collect();
        if !ended {
            self.tasks.push(Task::Scan { folder, base, part });
        }
        self.tasks.extend(found);
        failed.map_or(Ok(()), Err)
    }

    /// Whether a name of a folder is one to go on with.
    fn meets(&self, part: usize, name: &[u8], kind: Option<Kind>) -> bool {
        let Part::Names(component) = &self.parts[part] else { return false };
        // Of one that cannot be looked at, who opens it says why, or that it is no folder.
        let may_be_folder = matches!(kind, Some(Kind::Folder | Kind::Link) | None);
        let is_last = part + 1 == self.parts.len();
        let wants_folder = !is_last || self.only_folders;
        let fits = match component {
            Component::AnyFolders { .. } => matches!(kind, Some(Kind::Folder) | None),
            _ if is_last && self.only_files => {
                matches!(kind, Some(Kind::File | Kind::Link) | None)
            }
            _ => may_be_folder || !wants_folder,
        };
        fits && component.matches(name)
    }
}

fn is_nowhere(error: &Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a link leads back to itself.
fn is_loop(error: &Error) -> bool {
    error.system_number() == Some(Errno::LOOP.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_that_finds_nothing_can_be_left_between_its_folders() {
        let (root, local) = (tempfile::tempdir().expect("a folder"), Local::default());
        for folder in ["a/b", "c"] {
            std::fs::create_dir_all(root.path().join(folder)).expect("made");
        }
        let pattern = root.path().join("**/nothing");
        let mut walk = Walk::new(&Pattern::new(pattern.as_os_str().as_bytes()).expect("it is one"));
        let mut late = 0;
        while !walk.is_over() {
            assert!(walk.next_within(&local, || true).is_none());
            late += 1;
        }
        assert!(late > 4, "{late}");
        assert!(walk.next(&local).is_none());
    }

    #[test]
    fn what_cannot_be_looked_at_may_be_a_folder() {
        for pattern in ["*/a", "**/a", "*/"] {
            let walk = Walk::new(&Pattern::new(pattern.as_bytes()).expect("it is one"));
            assert!(walk.meets(0, b"x", None), "{pattern}");
            assert!(!walk.meets(0, b"x", Some(Kind::File)), "{pattern}");
        }
    }
}
