//! From operands to paths: existing paths as they are, otherwise csh-like globs.
//!
//! `*`, `?`, `[a-z]`, `{a,b}`, `{01..12}`, `~` and `**` (any folders, also none), for
//! patterns that the shell was kept from expanding: a folder is read as it is
//! walked, so that a million names never stand in memory or on a command line.
//! Whether a path that is not a pattern exists is for its reader to say.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nearfirst::{Error, Glob, Local, Name, Pattern, SpecError};
use store::Walk;

/// What is said of a pattern that no file matches: as of a file that is not there.
const NO_MATCH: &str = "No such file or directory";

/// The paths that operands stand for, one after the other, in the order of
/// the operands; each folder's names are sorted, in batches where they are many.
/// Of a folder that cannot be read the error tells the name in place of a spec.
pub(crate) struct Specs<'a> {
    local: &'a Local,
    operands: std::vec::IntoIter<OsString>,
    /// What the operand at work still stands for, last first.
    plain: Vec<Result<Vec<u8>, SpecError>>,
    spec: OsString,
    walk: Option<Walk>,
    found_any: bool,
}

impl<'a> Specs<'a> {
    /// Of these operands; folders are opened through `local`, so that a dead mount does not hang the walk.
    pub(crate) fn new(local: &'a Local, specs: Vec<OsString>) -> Self {
        Self {
            local,
            operands: specs.into_iter(),
            plain: Vec::new(),
            spec: OsString::new(),
            walk: None,
            found_any: true,
        }
    }

    /// Begins with an operand: yields it at once if it is a path as it stands.
    fn begin(&mut self, spec: OsString) -> Option<Result<PathBuf, SpecError>> {
        if !is_spec(&spec) {
            return Some(Ok(PathBuf::from(spec)));
        }
        if self.local.stat(Path::new(&spec)).is_ok() {
            return Some(Ok(PathBuf::from(spec)));
        }
        self.plain = Glob::new(spec.as_bytes()).alternatives();
        self.plain.reverse();
        self.spec = spec;
        None
    }

    /// Begins with one alternative of the operand at work.
    fn begin_plain(
        &mut self,
        pattern: Result<Vec<u8>, SpecError>,
    ) -> Option<Result<PathBuf, SpecError>> {
        let pattern = match pattern {
            Ok(pattern) if Pattern::is_wild(&pattern) => pattern,
            Ok(plain) => {
                let path = OsString::from_vec(Pattern::unquoted(&plain).into_owned());
                return Some(Ok(PathBuf::from(path)));
            }
            Err(error) => return Some(Err(self.error(error.reason))),
        };
        match Pattern::new(&pattern) {
            Ok(pattern) => {
                self.walk = Some(Walk::new(&pattern));
                None
            }
            Err(error) => Some(Err(self.error(error.reason()))),
        }
    }

    /// What is wrong with the operand at work.
    fn error(&self, reason: String) -> SpecError {
        SpecError::new(self.spec.as_bytes(), reason)
    }
}

impl Iterator for Specs<'_> {
    type Item = Result<PathBuf, SpecError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(walk) = &mut self.walk {
                if let Some(found) = walk.next(self.local) {
                    self.found_any = true;
                    let error =
                        |error: Error| SpecError::new(error.name().as_bytes(), error.reason());
                    return Some(found.map_err(error));
                }
                self.walk = None;
            }
            let begun = if let Some(pattern) = self.plain.pop() {
                self.begin_plain(pattern)
            } else if !std::mem::replace(&mut self.found_any, true) {
                return Some(Err(self.error(NO_MATCH.to_owned())));
            } else {
                let spec = self.operands.next()?;
                let begun = self.begin(spec);
                self.found_any = begun.is_some();
                begun
            };
            if begun.is_some() {
                self.found_any = true;
                return begun;
            }
        }
    }
}

/// Whether an operand may stand for other names than its own, and so needs [`Specs`].
pub(crate) fn is_spec(operand: &OsStr) -> bool {
    let bytes = operand.as_bytes();
    bytes.first() == Some(&b'~')
        || bytes.iter().any(|byte| b"*?[{".contains(byte))
        || is_remote(operand)
}

/// Whether an operand looks like a URL.
pub(crate) fn is_remote(operand: &OsStr) -> bool {
    Name::new(operand.as_bytes()).scheme().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        folder
    }

    fn found(folder: &tempfile::TempDir, spec: &str) -> Vec<String> {
        let local = Local::default();
        let spec = folder.path().join(spec).into_os_string();
        Specs::new(&local, vec![spec])
            .map(|item| match item {
                // As text: paths are equal whether or not they end in a slash.
                Ok(path) => {
                    path.display().to_string()[folder.path().as_os_str().len() + 1..].to_owned()
                }
                Err(error) => format!("error: {}", error.reason),
            })
            .collect()
    }

    #[test]
    fn patterns_meet_what_csh_meets() {
        let folder = folder(&["a.log", "b.log", ".c.log", "d/e.log", "d/f/g.log", "d/.h/i.log"]);
        assert_eq!(found(&folder, "*.log"), ["a.log", "b.log"]);
        assert_eq!(found(&folder, ".*.log"), [".c.log"]);
        assert_eq!(found(&folder, "[^a].log"), ["b.log"]);
        assert_eq!(found(&folder, "?.log"), ["a.log", "b.log"]);
        assert_eq!(found(&folder, "{b,a}.log"), ["b.log", "a.log"]);
        assert_eq!(found(&folder, "{d/e,zz}.log"), ["d/e.log", "zz.log"]);
        assert_eq!(found(&folder, "**/*.log"), ["a.log", "b.log", "d/e.log", "d/f/g.log"]);
        for all in ["d/**", "d/**/*"] {
            assert_eq!(found(&folder, all), ["d/e.log", "d/f/g.log"]);
        }
        assert_eq!(found(&folder, "d/*"), ["d/e.log", "d/f"]);
        assert_eq!(found(&folder, "d/**/"), ["d/f/"]);
        assert_eq!(found(&folder, "*/e.log"), ["d/e.log"]);
        assert_eq!(found(&folder, "*/"), ["d/"]);
    }

    #[test]
    fn a_pattern_without_a_match_is_an_error_and_a_path_is_left_to_its_reader() {
        let folder = folder(&[]);
        assert_eq!(found(&folder, "*.log"), [format!("error: {NO_MATCH}")]);
        assert_eq!(found(&folder, "missing"), ["missing"]);
    }

    #[test]
    fn what_exists_is_taken_as_it_stands() {
        let folder = folder(&["a*b", "aXb", "[x]"]);
        assert_eq!(found(&folder, "a*b"), ["a*b"]);
        assert_eq!(found(&folder, "[x]"), ["[x]"]);
        assert_eq!(found(&folder, "a\\*[b]"), ["a*b"]);
    }

    #[test]
    fn broken_patterns_are_named() {
        let folder = folder(&[]);
        assert_eq!(found(&folder, "{a,b"), ["error: a `{` without its `}`"]);
        assert!(found(&folder, "[a")[0].starts_with("error: "), "{:?}", found(&folder, "[a"));
    }

    #[test]
    fn links_are_not_followed_by_any_folders() {
        let folder = folder(&["d/x"]);
        std::os::unix::fs::symlink("..", folder.path().join("d/up")).expect("linked");
        assert_eq!(found(&folder, "**/x"), ["d/x"]);
        assert_eq!(found(&folder, "d/*/d/x"), ["d/up/d/x"]);
    }

    #[test]
    fn a_folder_of_more_than_a_batch_comes_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        for at in 0..10_000 {
            std::fs::write(folder.path().join(format!("f{at}")), "").expect("written");
        }
        let mut names = found(&folder, "f*");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 10_000);
    }
}
