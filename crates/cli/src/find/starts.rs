//! Start points: those of the command line, or of a list, one after the other as they come.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::vec;

use nearfirst::{Costs, fetch};
use rustix::fd::AsFd as _;

use super::parse::Parsed;
use super::quote::quoted;
use super::session::Session;
use super::walk::identity;
use crate::messages;

/// Where the walk is to start.
pub(super) enum Starts {
    Named(vec::IntoIter<OsString>),
    Listed(List),
}

/// A list of NUL-terminated names.
pub(super) struct List {
    /// As messages show it.
    name: String,
    /// Whether it is what stdin is.
    is_stdin: bool,
    bytes: BufReader<Box<dyn Read + Send>>,
    /// How many names have come.
    read: u64,
}

impl Starts {
    /// What was asked for, by default the current folder.
    ///
    /// # Errors
    /// A whole message: a list that cannot be opened.
    pub(super) fn of(parsed: &Parsed, costs: &Costs) -> Result<Self, String> {
        Ok(match &parsed.starts_from {
            Some(file) => Self::Listed(List::open(file, parsed.asks, costs)?),
            None if parsed.starts.is_empty() => Self::Named(vec![OsString::from(".")].into_iter()),
            None => Self::Named(parsed.starts.clone().into_iter()),
        })
    }

    /// Whether they come from stdin.
    pub(super) fn are_stdin(&self) -> bool {
        matches!(self, Self::Listed(List { is_stdin: true, .. }))
    }

    /// The next one. Before a list is waited for, what was found leaves.
    pub(super) fn next(&mut self, session: &mut Session<'_>) -> Option<OsString> {
        match self {
            Self::Named(names) => names.next(),
            Self::Listed(list) => list.next(session),
        }
    }
}

impl List {
    /// The one in that file, or on stdin for `-`. With `asks`, stdin is for the answers and nothing
    /// else.
    fn open(file: &OsStr, asks: bool, costs: &Costs) -> Result<Self, String> {
        let stdin = io::stdin();
        let (name, opened) = if file == "-" {
            if asks {
                return Err(
                    "option -files0-from reading from standard input cannot be combined with \
                            -ok, -okdir"
                        .to_owned(),
                );
            }
            let own = stdin.as_fd().try_clone_to_owned().map(File::from);
            (quoted(b"(standard input)"), own.map_err(|error| messages::reason(&error)))
        } else {
            let opened = costs.open(file.as_ref()).map_err(|error| error.reason());
            (quoted(file.as_bytes()), opened)
        };
        let failed = |reason| format!("cannot open {name} for reading: {reason}");
        let opened = opened.map_err(failed)?;
        let is_stdin =
            identity(opened.as_fd()).is_some_and(|it| identity(stdin.as_fd()) == Some(it));
        if asks && is_stdin {
            return Err(format!(
                "option -files0-from: standard input must not refer to the same file when combined \
                 with -ok, -okdir: {name}"
            ));
        }
        let bytes =
            fetch::answering(opened, costs).map_err(|error| failed(messages::reason(&error)))?;
        Ok(Self { name, is_stdin, bytes: BufReader::new(bytes), read: 0 })
    }

    fn next(&mut self, session: &mut Session<'_>) -> Option<OsString> {
        loop {
            if memchr::memchr(0, self.bytes.buffer()).is_none() {
                session.flush();
                if session.quits {
                    return None;
                }
            }
            let mut start = Vec::new();
            let name = &self.name;
            if let Err(error) = self.bytes.read_until(0, &mut start) {
                messages::error(format_args!("{name}: read error: {}", messages::reason(&error)));
                return None;
            }
            let is_ended = start.pop_if(|byte| *byte == 0).is_some();
            if start.is_empty() && !is_ended {
                return None;
            }
            self.read += 1;
            if !start.is_empty() {
                return Some(OsString::from_vec(start));
            }
            let number = self.read;
            messages::error(format_args!("{name}:{number}: invalid zero-length file name"));
        }
    }
}
