//! From operands to paths: existing paths as they are, otherwise csh-like globs.
//!
//! `*`, `?`, `[a-z]`, `{a,b}`, `~` and `**` (any folders, also none), for
//! patterns that the shell was kept from expanding: a folder is read as it is
//! walked, so that a million names never stand in memory or on a command line.
//! Whether a path that is not a pattern exists is for its reader to say.

mod braces;
mod glob;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nearfirst::Local;

use glob::Walk;

/// What the long help of a command says of its operands.
pub(crate) const HELP: &str = "\
A SPEC is a path, or a pattern in quotes: `*`, `?` and `[a-z]` within a name, `**` for any folders, \
`{a,b}` for either, `~` for a home folder. Names that begin with a dot are met only by patterns \
that do. What exists under the name as it stands is taken, pattern or not.";

/// What is said of a pattern that no file matches: as of a file that is not there.
const NO_MATCH: &str = "No such file or directory";

/// An operand, or a part of what it stands for, that gives no paths.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SpecError {
    /// The operand, or the folder that could not be read.
    pub(crate) spec: OsString,
    /// What is wrong.
    pub(crate) reason: String,
}

impl SpecError {
    fn new(spec: impl Into<OsString>, reason: impl Into<String>) -> Self {
        Self { spec: spec.into(), reason: reason.into() }
    }
}

/// The paths that operands stand for, one after the other, in the order of
/// the operands; each folder's names are sorted, in batches where they are many.
pub(crate) struct Specs<'a> {
    local: &'a Local,
    operands: std::vec::IntoIter<OsString>,
    /// What the operand at work still stands for, last first.
    plain: Vec<Vec<u8>>,
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
        let bytes = spec.as_bytes();
        let scheme = remote_scheme(bytes);
        if !is_spec(&spec) {
            return Some(Ok(PathBuf::from(spec)));
        }
        if self.local.stat(Path::new(&spec)).is_ok() {
            return Some(Ok(PathBuf::from(spec)));
        }
        if let Some(scheme) = scheme {
            let reason = format!(
                "{scheme}:// is not supported: only local paths and globs are in this version"
            );
            return Some(Err(SpecError::new(spec, reason)));
        }
        match braces::expand(bytes) {
            Ok(mut plain) => {
                plain.reverse();
                self.plain = plain;
                self.spec = spec;
                None
            }
            Err(reason) => Some(Err(SpecError::new(spec, reason))),
        }
    }

    /// Begins with one alternative of the operand at work.
    fn begin_plain(&mut self, pattern: &[u8]) -> Option<Result<PathBuf, SpecError>> {
        let pattern = match home_expanded(pattern) {
            Ok(pattern) => pattern,
            Err(reason) => return Some(Err(SpecError::new(&self.spec, reason))),
        };
        if !glob::is_pattern(&pattern) {
            self.found_any = true;
            let path = OsString::from_vec(glob::unescaped(&pattern));
            return Some(Ok(PathBuf::from(path)));
        }
        match Walk::new(&pattern) {
            Ok(walk) => {
                self.walk = Some(walk);
                None
            }
            Err(reason) => Some(Err(SpecError::new(&self.spec, reason))),
        }
    }
}

impl Iterator for Specs<'_> {
    type Item = Result<PathBuf, SpecError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(walk) = &mut self.walk {
                if let Some(found) = walk.next(self.local) {
                    self.found_any = true;
                    return Some(found);
                }
                self.walk = None;
            }
            let begun = if let Some(pattern) = self.plain.pop() {
                self.begin_plain(&pattern)
            } else if !std::mem::replace(&mut self.found_any, true) {
                let spec = std::mem::take(&mut self.spec);
                return Some(Err(SpecError::new(spec, NO_MATCH)));
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
        || remote_scheme(bytes).is_some()
}

/// Whether an operand looks like a URL.
pub(crate) fn is_remote(operand: &OsStr) -> bool {
    remote_scheme(operand.as_bytes()).is_some()
}

/// The scheme of what looks like a URL.
fn remote_scheme(spec: &[u8]) -> Option<&str> {
    let at = memchr::memmem::find(spec, b"://")?;
    let (first, rest) = spec[..at].split_first()?;
    let follows = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    if !first.is_ascii_alphabetic() || !rest.iter().all(follows) {
        return None;
    }
    std::str::from_utf8(&spec[..at]).ok()
}

/// `~` and `~user` at the start, replaced by the home folder, its name escaped.
fn home_expanded(pattern: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some(rest) = pattern.strip_prefix(b"~") else { return Ok(Cow::Borrowed(pattern)) };
    let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
    let (user, path) = rest.split_at(end);
    let home = if user.is_empty() {
        std::env::var_os("HOME").filter(|home| !home.is_empty())
    } else {
        None
    };
    let home = match home {
        Some(home) => home,
        None => home_in_passwd(user)?,
    };
    let mut expanded = glob::escaped(home.as_bytes());
    expanded.extend_from_slice(path);
    Ok(Cow::Owned(expanded))
}

/// The home folder of `user`, or of who runs this if that is empty, by `/etc/passwd`.
fn home_in_passwd(user: &[u8]) -> Result<OsString, String> {
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    let own_uid = rustix::process::getuid().as_raw().to_string();
    let home = users.split(|&byte| byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
        let [name, _, uid, _, _, home, ..] = fields.as_slice() else { return None };
        let is_it = if user.is_empty() { *uid == own_uid.as_bytes() } else { *name == user };
        is_it.then(|| OsStr::from_bytes(home).to_owned())
    });
    home.ok_or_else(|| match user {
        [] => "no home folder is known: $HOME is not set".to_owned(),
        user => format!("/etc/passwd has no user {}", String::from_utf8_lossy(user)),
    })
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
        assert_eq!(found(&folder, "d/**"), ["d/e.log", "d/f", "d/f/g.log"]);
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
    fn remote_schemes_are_refused() {
        let local = Local::default();
        let mut specs = Specs::new(&local, vec!["s3://bucket/*.gz".into()]);
        let error = specs.next().expect("one item").expect_err("refused");
        assert!(error.reason.contains("only local paths and globs"), "{}", error.reason);
        assert!(specs.next().is_none());
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

    #[test]
    fn the_home_folder_is_found() {
        let home = home_expanded(b"~root/x").expect("root has one").into_owned();
        assert!(home.ends_with(b"/x") && home.starts_with(b"/"), "{home:?}");
        assert!(home_expanded(b"~no:such/x").is_err());
    }
}
