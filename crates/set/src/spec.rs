//! A membership specification: which objects are wanted, by pattern, query, program or list.

mod braces;
mod glob;
mod home;
mod parse;
mod words;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::str::FromStr;

use store::{Local, Name};

pub use glob::Glob;
pub(crate) use glob::is_wild;

/// Which objects are wanted (the SETS paper, section 3.3).
///
/// Every form has a constructor; [`Spec::parse`] reads the text that shells
/// pass on, and [`fmt::Display`] writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Spec {
    /// Explicit: the names that match a pattern, or one name.
    Glob(Glob),
    /// Interpreted: the names that the store of `prefix` answers with.
    Query {
        /// The database or page: a name, or several in braces; no wildcards.
        prefix: Glob,
        /// The question, in the store's own language.
        text: String,
        /// What is appended to each name before it is looked up as a pattern.
        suffix: Glob,
    },
    /// Executable: the names that a program prints.
    Program {
        /// Where it runs; no wildcards.
        folder: Glob,
        /// The program and its arguments.
        words: Vec<OsString>,
        /// As in [`Spec::Query`].
        suffix: Glob,
    },
    /// These names as they stand.
    List(Vec<Name>),
    /// The names that a file lists, NUL- or newline-separated, as they stand.
    ListFile(ListSource),
}

/// Where a list of names is read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListSource {
    /// Standard input.
    Stdin,
    /// A file, or an object by its URL.
    Object(Name),
}

/// Text that is no spec, and why.
///
/// As text it gives the spec without the passwords that URLs in it may hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", spec.redacted())]
#[non_exhaustive]
pub struct SpecError {
    /// The text.
    pub spec: Name,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl SpecError {
    /// Of this text, for this reason.
    pub fn new(spec: impl AsRef<[u8]>, reason: impl Into<String>) -> Self {
        Self { spec: Name::new(spec.as_ref()), reason: reason.into() }
    }
}

impl Spec {
    /// The names that match a csh pattern over a path or a URL.
    ///
    /// `*`, `?` and `[a-z]` within a component, `**` for any folders, `{a,b}`
    /// for either, `{01..12}` for each number, `~` and `~user` at the start for
    /// a home folder; a backslash quotes what follows. Without any of these, the
    /// name that it is.
    pub fn glob(pattern: impl AsRef<[u8]>) -> Self {
        Self::Glob(Glob::new(pattern.as_ref()))
    }

    /// The names that the store of `prefix`, a path or URL as it stands,
    /// answers to `text` with, each with `suffix` (a pattern, often empty) appended.
    pub fn query(
        prefix: impl Into<Name>,
        text: impl Into<String>,
        suffix: impl AsRef<[u8]>,
    ) -> Self {
        Self::Query {
            prefix: Glob::literal(prefix.into().as_bytes()),
            text: text.into(),
            suffix: Glob::new(suffix.as_ref()),
        }
    }

    /// The links of a page that a CSS selector meets: `a[href$=".pdf"]`.
    pub fn links(page: impl Into<Name>, selector: impl Into<String>) -> Self {
        Self::query(page, selector, "")
    }

    /// The names that a program prints, run in `folder` without a shell, each
    /// with `suffix` (a pattern, often empty) appended.
    pub fn program<W: Into<OsString>>(
        folder: impl AsRef<Path>,
        words: impl IntoIterator<Item = W>,
        suffix: impl AsRef<[u8]>,
    ) -> Self {
        let mut folder = folder.as_ref().as_os_str().as_bytes().to_vec();
        if !folder.is_empty() && !folder.ends_with(b"/") {
            folder.push(b'/');
        }
        Self::Program {
            folder: Glob::literal(&folder),
            words: words.into_iter().map(Into::into).collect(),
            suffix: Glob::new(suffix.as_ref()),
        }
    }

    /// These names as they stand: nothing in them is a wildcard.
    pub fn list<N: Into<Name>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::List(names.into_iter().map(Into::into).collect())
    }

    /// Reads the text form.
    ///
    /// - `-` is the list on standard input, `@file` (also `@URL`) the list of a file.
    /// - A backslash before an ASCII letter, `.` or `#` opens a query to what
    ///   stands before it, and behind the URL of a database one before `(` as well; the
    ///   query ends at the next single backslash (doubled inside), and what follows
    ///   is the suffix: `data.db\select name from t\`. Before anything else, a backslash quotes.
    /// - A `%` opens a program at the start of a component of a path if another
    ///   closes it: `/src/%find . -name '*.c'%`. Words are split at spaces;
    ///   quotes and backslashes in them mean what they mean to a shell, and
    ///   nothing else does. In a URL, `%` is always percent-encoding.
    /// - Everything else is a pattern, as for [`Spec::glob`].
    ///
    /// Whether its braces can be read is left to [`Spec::checked`].
    ///
    /// # Errors
    /// A query without its end or that is not UTF-8, a second query or program,
    /// wildcards in the prefix of one, `@` without a name.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, SpecError> {
        parse::parse(text.as_ref())
    }

    /// What an operand of a command stands for: what exists under the name as
    /// it stands is taken, whatever it looks like; all else is [`Spec::parse`]d.
    ///
    /// # Errors
    /// As [`Spec::parse`].
    pub fn operand(local: &Local, operand: &OsStr) -> Result<Self, SpecError> {
        let text = operand.as_bytes();
        let parsed = Self::parse(text);
        let is_plain = matches!(&parsed, Ok(Self::Glob(glob)) if glob.is_plain(text));
        if !is_plain && text != b"-" && local.stat(Path::new(operand)).is_ok() {
            return Ok(Self::list([Name::new(text)]));
        }
        parsed
    }

    /// The same, if its braces can be read; otherwise what is wrong with them is found only as it is
    /// evaluated.
    ///
    /// # Errors
    /// A brace that is not closed; more alternatives than there may be.
    pub fn checked(self) -> Result<Self, SpecError> {
        match &self {
            Self::Glob(glob) => glob.check_braces()?,
            Self::Query { prefix: before, suffix, .. }
            | Self::Program { folder: before, suffix, .. } => {
                before.check_braces()?;
                suffix.check_braces()?;
            }
            Self::List(_) | Self::ListFile(_) => {}
        }
        Ok(self)
    }

    /// The text form as bytes, which [`Spec::parse`] reads to the same spec.
    ///
    /// Not every spec has one: a query that does not begin with a letter, `.`
    /// or `#`, a suffix that begins with a backslash and the names of a list
    /// are written as a person would read them.
    pub fn to_text(&self) -> Vec<u8> {
        match self {
            Self::Glob(glob) => parse::glob_text(glob),
            Self::Query { prefix, text, suffix } => [
                parse::glob_text(prefix).as_slice(),
                b"\\",
                text.replace('\\', "\\\\").as_bytes(),
                b"\\",
                suffix.text(),
            ]
            .concat(),
            Self::Program { folder, words, suffix } => {
                let folder = parse::glob_text(folder);
                [&folder, &b"%"[..], &words::joined(words), b"%", suffix.text()].concat()
            }
            Self::List(names) => {
                let texts =
                    names.iter().map(|name| parse::glob_text(&Glob::literal(name.as_bytes())));
                texts.collect::<Vec<_>>().join(&b' ')
            }
            Self::ListFile(ListSource::Stdin) => b"-".to_vec(),
            Self::ListFile(ListSource::Object(name)) if name.as_bytes() == b"-" => b"@./-".to_vec(),
            Self::ListFile(ListSource::Object(name)) => [b"@", name.as_bytes()].concat(),
        }
    }
}

/// As [`Spec::parse`] reads it.
impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_text()))
    }
}

#[cfg(test)]
mod tests;
