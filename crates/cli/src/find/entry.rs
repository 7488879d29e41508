//! One file met on the walk, and what is known of it so far.
//!
//! Nothing is asked of the kernel before a test needs it: most expressions
//! get by with the name and the type, which the listing gives for nothing.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use rustix::io::Errno;

use super::expr::Stamp;
use super::mode;
use super::quote::quoted;
use super::session::Session;
use super::time::SECOND;
use crate::messages;

/// A directory that calls go through. It stays open for a call that was given up.
#[derive(Debug, Clone)]
pub(crate) enum Directory {
    Current,
    Open(Arc<OwnedFd>),
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Current => CWD,
            Self::Open(descriptor) => descriptor.as_fd(),
        }
    }
}

/// That a mount did not answer, which was told.
#[derive(Debug)]
pub(crate) struct Stalled;

/// A file and where it was met.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// The path from the start point on, as it is printed.
    pub(crate) path: &'a [u8],
    /// How much of the path is the start point.
    pub(crate) start_len: usize,
    pub(crate) depth: usize,
    /// The directory that `name` is in: system calls go through it, so no path is too long.
    pub(crate) directory: &'a Directory,
    /// Tells directories apart: two entries with the same number are in the same one.
    pub(crate) directory_number: u64,
    pub(crate) name: &'a CStr,
    /// Whether a symbolic link stands for its target.
    pub(crate) follow: bool,
    /// Whether the directory lies on a mount that may not answer, or may be a link to one.
    pub(crate) may_stall: bool,
    pub(crate) known: Known,
}

/// What was found out about a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The type letter that the listing gave; 0 when it gave none.
    pub(crate) listed_kind: u8,
    pub(crate) meta: Option<Result<Statx, Errno>>,
    /// Whether a call on it was given up. The system's own `ETIMEDOUT` is an answer.
    pub(crate) stalled: bool,
    pub(crate) cost: Option<super::cost::FileLatency>,
}

/// What every `statx` call here asks for.
pub(crate) const WANTED: StatxFlags =
    StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// Looking at a file never mounts anything.
const QUIET: AtFlags = AtFlags::NO_AUTOMOUNT;

/// Asks about a file. With `follow`, a link that leads nowhere is a file of its own.
pub(crate) fn stat(directory: BorrowedFd<'_>, name: &CStr, follow: bool) -> Result<Statx, Errno> {
    if follow {
        match rustix::fs::statx(directory, name, QUIET, WANTED) {
            Err(Errno::NOENT) => {}
            answer => return answer,
        }
    }
    rustix::fs::statx(directory, name, QUIET | AtFlags::SYMLINK_NOFOLLOW, WANTED)
}

/// Asks about what a link leads to; that there is nothing is an answer too.
pub(crate) fn stat_target(directory: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
    rustix::fs::statx(directory, name, QUIET, WANTED)
}

impl Entry<'_> {
    /// The file's properties; a failure is reported once.
    pub(crate) fn meta(&mut self, session: &mut Session<'_>) -> Result<Statx, Errno> {
        if let Some(known) = self.known.meta {
            return known;
        }
        if self.known.stalled {
            return Err(Errno::TIMEDOUT);
        }
        session.stats.looks += 1;
        let mut found = self.stat(session, self.follow).map_err(|Stalled| Errno::TIMEDOUT)?;
        if let Err(error) = found {
            self.report(session, error);
            // As a link that leads nowhere, this one is a file of its own. Of what only cannot be
            // looked at, nothing is known.
            if self.follow && self.depth > 0 && error == Errno::NOTDIR {
                found = self.stat(session, false).map_err(|Stalled| Errno::TIMEDOUT)?;
            }
        }
        self.known.meta = Some(found);
        found
    }

    fn stat(
        &mut self,
        session: &Session<'_>,
        follow: bool,
    ) -> Result<Result<Statx, Errno>, Stalled> {
        self.call(session, move |directory, name| stat(directory, name, follow))
    }

    /// Keeps the properties for when the file is gone; who asks for them is told why they are not
    /// there.
    pub(crate) fn look_ahead(&mut self, session: &mut Session<'_>) {
        if self.known.meta.is_none() {
            session.stats.looks += 1;
            if let Ok(Ok(found)) = self.stat(session, self.follow) {
                self.known.meta = Some(Ok(found));
            }
        }
    }

    /// The file's properties with links treated the other way round.
    pub(crate) fn other_meta(
        &mut self,
        session: &mut Session<'_>,
    ) -> Result<Result<Statx, Errno>, Stalled> {
        session.stats.looks += 1;
        let flags = if self.follow { QUIET | AtFlags::SYMLINK_NOFOLLOW } else { QUIET };
        let look = move |directory: BorrowedFd<'_>, name: &CStr| {
            rustix::fs::statx(directory, name, flags, WANTED)
        };
        if self.follow { self.call(session, look) } else { self.call_behind(session, look) }
    }

    /// Makes a call on the file, in bounded time where its mount may not answer. Once one did not,
    /// no other is made.
    pub(crate) fn call<T: Send + 'static>(
        &mut self,
        session: &Session<'_>,
        call: impl FnOnce(BorrowedFd<'_>, &CStr) -> T + Send + 'static,
    ) -> Result<T, Stalled> {
        let follows = self.follow && self.may_be_link();
        if self.may_stall || follows || self.is_mount(session) {
            self.bounded(session, call)
        } else {
            Ok(call(self.directory.as_fd(), self.name))
        }
    }

    /// As [`Entry::call`], of a call that follows a link.
    pub(crate) fn call_behind<T: Send + 'static>(
        &mut self,
        session: &Session<'_>,
        call: impl FnOnce(BorrowedFd<'_>, &CStr) -> T + Send + 'static,
    ) -> Result<T, Stalled> {
        if self.may_be_link() { self.bounded(session, call) } else { self.call(session, call) }
    }

    fn may_be_link(&self) -> bool {
        matches!(self.known.listed_kind, b'l' | 0)
    }

    /// In bounded time where the mount that the path leads to may not answer.
    fn bounded<T: Send + 'static>(
        &mut self,
        session: &Session<'_>,
        call: impl FnOnce(BorrowedFd<'_>, &CStr) -> T + Send + 'static,
    ) -> Result<T, Stalled> {
        if !session.reach.is_wary() {
            return Ok(call(self.directory.as_fd(), self.name));
        }
        if self.known.stalled {
            return Err(Stalled);
        }
        let (directory, name) = (self.directory.clone(), self.name.to_owned());
        let answer = session.reach.bounded(self.path, move || call(directory.as_fd(), &name));
        answer.map_err(|error| {
            messages::error(format_args!("{}: {}", quoted(self.path), error.reason()));
            self.known.stalled = true;
            Stalled
        })
    }

    /// Whether something that may not answer may be mounted here.
    pub(crate) fn is_mount(&self, session: &Session<'_>) -> bool {
        session.reach.may_be_mount(self.name.to_bytes())
    }

    /// The type letter; 0 when it cannot be found out.
    pub(crate) fn kind(&mut self, session: &mut Session<'_>) -> u8 {
        let listed = self.known.listed_kind;
        if listed != 0 && !(self.follow && listed == b'l') {
            return listed;
        }
        self.meta(session).map_or(0, |meta| mode::type_letter(meta.stx_mode.into()))
    }

    /// The last component of the path, as `-name` sees it: without slashes at its end.
    pub(crate) fn base(&self) -> &[u8] {
        let end = self.path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let trimmed = &self.path[..end];
        if trimmed.is_empty() {
            return &self.path[..self.path.len().min(1)];
        }
        match memchr::memrchr(b'/', trimmed) {
            Some(slash) => &trimmed[slash + 1..],
            None => trimmed,
        }
    }

    /// What a symbolic link says; `None` for what is none.
    pub(crate) fn link_target(&mut self, session: &Session<'_>) -> Option<CString> {
        let read = |directory: BorrowedFd<'_>, name: &CStr| {
            rustix::fs::readlinkat(directory, name, Vec::new())
        };
        self.call(session, read).ok()?.ok()
    }

    /// Says on stderr what went wrong with this file.
    pub(crate) fn report(&self, session: &Session<'_>, error: Errno) {
        if session.parsed.vanishing_is_fine && error == Errno::NOENT && self.depth > 0 {
            return;
        }
        messages::error(format_args!("{}: {}", quoted(self.path), messages::reason(&error.into())));
    }
}

/// One of a file's times in nanoseconds since the epoch; `None` where the file system keeps none.
pub(crate) fn time_of(meta: &Statx, stamp: Stamp) -> Option<i128> {
    let time = match stamp {
        Stamp::Access => meta.stx_atime,
        Stamp::Change => meta.stx_ctime,
        Stamp::Modify => meta.stx_mtime,
        Stamp::Birth if meta.stx_mask & StatxFlags::BTIME.bits() != 0 => meta.stx_btime,
        Stamp::Birth => return None,
    };
    Some(i128::from(time.tv_sec) * SECOND + i128::from(time.tv_nsec))
}
