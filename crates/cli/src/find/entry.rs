//! One file met on the walk, and what is known of it so far.
//!
//! Nothing is asked of the kernel before a test needs it: most expressions
//! get by with the name and the type, which the listing gives for nothing.

use std::ffi::{CStr, CString};

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::expr::Stamp;
use super::mode;
use super::quote::quoted;
use super::session::Session;
use super::time::SECOND;
use crate::messages;

/// A file and where it was met.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// The path from the start point on, as it is printed.
    pub(crate) path: &'a [u8],
    /// How much of the path is the start point.
    pub(crate) start_len: usize,
    pub(crate) depth: usize,
    /// The directory that `name` is in: system calls go through it, so no path is too long.
    pub(crate) directory: BorrowedFd<'a>,
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
    pub(crate) cost: Option<super::cost::Cost>,
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
        if let Err(error) = self.reaches(session) {
            self.known.meta = Some(Err(error));
            return Err(error);
        }
        session.stats.looks += 1;
        let mut found = stat(self.directory, self.name, self.follow);
        if let Err(error) = found {
            self.report(session, error);
            // The link itself is better than nothing, unless it leads back to itself.
            if self.follow && self.depth > 0 && error != Errno::LOOP {
                found = stat(self.directory, self.name, false);
            }
        }
        self.known.meta = Some(found);
        found
    }

    /// Keeps the properties for when the file is gone; who asks for them is told why they are not
    /// there.
    pub(crate) fn look_ahead(&mut self, session: &mut Session<'_>) {
        if self.known.meta.is_none() && self.reaches(session).is_ok() {
            session.stats.looks += 1;
            self.known.meta = stat(self.directory, self.name, self.follow).ok().map(Ok);
        }
    }

    /// The file's properties with links treated the other way round.
    pub(crate) fn other_meta(&self, session: &mut Session<'_>) -> Result<Statx, Errno> {
        self.reaches(session)?;
        session.stats.looks += 1;
        let flags = if self.follow { QUIET | AtFlags::SYMLINK_NOFOLLOW } else { QUIET };
        rustix::fs::statx(self.directory, self.name, flags, WANTED)
    }

    /// Whether the file's mount answers; that it does not is told.
    pub(crate) fn reaches(&self, session: &Session<'_>) -> Result<(), Errno> {
        if let Some(Err(Errno::TIMEDOUT)) = self.known.meta {
            return Err(Errno::TIMEDOUT);
        }
        let follows = self.follow && matches!(self.known.listed_kind, b'l' | 0);
        let reach = &session.reach;
        if !reach.is_wary() || !(self.may_stall || follows || self.is_mount(session)) {
            return Ok(());
        }
        reach.ask(self.path).map_err(|error| {
            messages::error(format_args!("{}: {}", quoted(self.path), error.reason()));
            Errno::TIMEDOUT
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
    pub(crate) fn link_target(&self) -> Option<CString> {
        rustix::fs::readlinkat(self.directory, self.name, Vec::new()).ok()
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
