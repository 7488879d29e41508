//! Walks a tree by directory descriptors: no path is too long, no link is
//! followed by accident, and nothing is asked of a file that the listing says.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{AtFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::ahead::{Ahead, Found};
use super::entry::{Directory, Entry, Known, Stalled};
use super::eval;
use super::listing::{Item, LISTING_BYTES, Listing, open};
use super::parse::{Follow, Parsed};
use super::quote::quoted;
use super::session::Session;
use crate::messages;
use crate::reach::Reach;

/// Directories kept open at once; above this the outermost are closed and opened again on the way
/// back. Far below the usual limit of 1,024 descriptors, far above usual depths.
const OPEN_MAX: usize = 256;

/// Directories opened after which others are asked for ahead: starting a thread takes as long as some.
const AHEAD_FROM: u64 = 16;

/// A device and inode number.
type Identity = (u32, u32, u64);

/// A directory that is being read.
#[derive(Debug)]
struct Frame {
    /// Closed while too many others are open.
    descriptor: Option<Directory>,
    /// Known from when the descriptor was first needed for more than reading.
    identity: Option<Identity>,
    number: u64,
    listing: Listing,
    next: usize,
    /// Of the first items of the listing, what was looked at ahead.
    metas: Vec<Option<Statx>>,
    /// Items of the listing that others were told of, or need not be.
    told: usize,
    /// How much of the walk's path is this directory.
    path_len: usize,
    /// What is known of the directory itself, for when its contents come first.
    known: Known,
    /// Whether it was reached through a symbolic link.
    via_link: bool,
    /// Whether it lies on a mount that may not answer.
    may_stall: bool,
}

impl Frame {
    fn identify(&mut self) -> Option<Identity> {
        if self.identity.is_none() {
            self.identity = self.descriptor.as_ref().and_then(|open| identity(open.as_fd()));
        }
        self.identity
    }

    /// The next directory below that others may be told of, with the number of its item.
    fn next_to_tell(&mut self, reach: &Reach) -> Option<(usize, CString)> {
        let from = self.told.max(self.next);
        let is_plain = |item: &Item| {
            let name = self.listing.name(*item);
            item.kind == b'd' && !reach.may_be_mount(name.to_bytes())
        };
        let found = self.listing.items[from..].iter().position(is_plain);
        self.told = found.map_or(self.listing.items.len(), |at| from + at + 1);
        let item = self.told.checked_sub(1).filter(|_| found.is_some())?;
        Some((item, self.listing.name(self.listing.items[item]).to_owned()))
    }

    /// Reads the next names; false at the end. The error is a reason in words.
    fn fill(&mut self, path: &[u8], buffer: &mut Vec<u8>, reach: &Reach) -> Result<bool, String> {
        self.listing.names.clear();
        self.listing.items.clear();
        self.metas.clear();
        (self.next, self.told) = (0, 0);
        while !self.listing.ended && self.listing.items.is_empty() {
            self.read_on(path, buffer, reach)?;
        }
        Ok(!self.listing.items.is_empty())
    }

    /// Adds one call's worth of names.
    fn read_on(&mut self, path: &[u8], buffer: &mut Vec<u8>, reach: &Reach) -> Result<(), String> {
        let Some(descriptor) = &self.descriptor else {
            self.listing.ended = true;
            return Ok(());
        };
        let read = if self.may_stall {
            let descriptor = descriptor.clone();
            let read = reach.bounded(path, move || {
                let mut more = Listing::default();
                let mut buffer = Vec::with_capacity(LISTING_BYTES);
                let read = more.read_on(descriptor.as_fd(), &mut buffer);
                (more, read)
            });
            match read {
                Ok((more, read)) => {
                    self.listing.append(more);
                    read
                }
                Err(error) => {
                    self.listing.ended = true;
                    return Err(error.reason());
                }
            }
        } else {
            self.listing.read_on(descriptor.as_fd(), buffer)
        };
        read.map_err(|error| messages::reason(&error.into()))
    }
}

pub(super) fn identity(directory: BorrowedFd<'_>) -> Option<Identity> {
    // It does not change, so that no server needs to be asked.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let meta = rustix::fs::statx(directory, c"", flags, StatxFlags::INO).ok()?;
    Some((meta.stx_dev_major, meta.stx_dev_minor, meta.stx_ino))
}

/// Walks the trees of start points, one after the other.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    parsed: &'a Parsed,
    path: Vec<u8>,
    start_len: usize,
    start_device: Option<(u32, u32)>,
    stack: Vec<Frame>,
    /// The first frame that is still open; those below were closed to save descriptors.
    first_open: usize,
    /// Emptied frames' memory.
    spare: Vec<Listing>,
    buffer: Vec<u8>,
    directories: u64,
    /// What is done ahead, once it is worth it.
    ahead: Option<Ahead>,
    /// Directories opened from which on it is worth it, until that was looked into.
    ahead_from: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(parsed: &'a Parsed) -> Self {
        Self {
            parsed,
            path: Vec::new(),
            start_len: 0,
            start_device: None,
            stack: Vec::new(),
            first_open: 0,
            spare: Vec::new(),
            buffer: Vec::with_capacity(LISTING_BYTES),
            directories: 0,
            ahead: None,
            ahead_from: AHEAD_FROM,
        }
    }

    /// Walks one tree; failures are reported and the rest goes on.
    pub(crate) fn run(&mut self, start: &OsStr, session: &mut Session<'_>) {
        self.path.clear();
        self.path.extend_from_slice(start.as_bytes());
        self.start_len = self.path.len();
        self.stack.clear();
        self.first_open = 0;
        let Ok(name) = CString::new(start.as_bytes()) else {
            messages::error(format_args!("{}: Invalid argument", quoted(start.as_bytes())));
            return;
        };
        let mut entry = self.start_entry(&name, Known::default());
        let Ok(meta) = entry.meta(session) else { return };
        let known = entry.known;
        self.start_device = Some((meta.stx_dev_major, meta.stx_dev_minor));
        let entry = self.start_entry(&name, known);
        if let Some(frame) = self.consider(entry, session) {
            self.push(frame, session);
        }
        while !session.quits && !self.stack.is_empty() {
            self.step(&name, session);
        }
    }

    fn start_entry<'b>(&'b self, name: &'b CStr, known: Known) -> Entry<'b> {
        Entry {
            path: &self.path,
            start_len: self.start_len,
            depth: 0,
            directory: &Directory::Current,
            directory_number: 0,
            name,
            follow: self.parsed.follow != Follow::Never,
            may_stall: true,
            known,
        }
    }

    /// The entry of an item of the innermost frame; the path is already its own.
    fn inner_entry(&self, item: Item, known: Known) -> Option<Entry<'_>> {
        let frame = self.stack.last()?;
        Some(Entry {
            path: &self.path,
            start_len: self.start_len,
            depth: self.stack.len(),
            directory: frame.descriptor.as_ref()?,
            directory_number: frame.number,
            name: frame.listing.name(item),
            follow: self.parsed.follow == Follow::Always,
            may_stall: frame.may_stall,
            known,
        })
    }

    /// Takes the next item of the innermost directory, or leaves it.
    fn step(&mut self, start: &CStr, session: &mut Session<'_>) {
        let Some(depth) = self.stack.len().checked_sub(1) else { return };
        let Some(frame) = self.stack.last_mut() else { return };
        if frame.next == frame.listing.items.len() {
            // Their items have numbers of their own.
            self.ahead.iter().for_each(|ahead| ahead.forget(depth));
            let path = &self.path[..frame.path_len];
            match frame.fill(path, &mut self.buffer, &session.reach) {
                Ok(true) => self.tell(session),
                Ok(false) => return self.leave(start, session),
                Err(reason) => {
                    messages::error(format_args!("{}: {reason}", quoted(path)));
                    return;
                }
            }
        }
        let Some(frame) = self.stack.last_mut() else { return };
        let item = frame.listing.items[frame.next];
        let meta = frame.metas.get(frame.next).copied().flatten().map(Ok);
        frame.next += 1;
        self.path.truncate(frame.path_len);
        if self.path.last() != Some(&b'/') {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(&frame.listing.names[item.start..item.start + item.len - 1]);
        let known = Known { listed_kind: item.kind, meta, ..Known::default() };
        let Some(entry) = self.inner_entry(item, known) else { return };
        if let Some(frame) = self.consider(entry, session) {
            self.push(frame, session);
        }
    }

    /// Evaluates an entry and opens it if the walk goes on below.
    fn consider(&self, mut entry: Entry<'_>, session: &mut Session<'_>) -> Option<Frame> {
        session.stats.entries += 1;
        let via_link = entry.follow && matches!(entry.known.listed_kind, b'l' | 0);
        let kind = entry.kind(session);
        if matches!(entry.known.meta, Some(Err(Errno::LOOP))) {
            return None;
        }
        let is_directory = kind == b'd';
        if is_directory
            && (via_link || self.is_below_link())
            && self.closes_loop(&mut entry, session)
        {
            return None;
        }
        let wanted = entry.depth >= self.parsed.min_depth;
        let first = self.parsed.contents_first;
        session.prunes = false;
        if wanted && !first {
            eval::evaluate(&mut entry, session);
        }
        let descends = is_directory
            && entry.depth < self.parsed.max_depth
            && !session.prunes
            && !session.quits
            && !self.crosses(&mut entry, session);
        if descends {
            if wanted && first && self.parsed.expr.asks_for_access_times() {
                // Reading a directory is an access.
                entry.look_ahead(session);
            }
            let may_stall = (entry.may_stall || via_link || entry.is_mount(session))
                && session.reach.may_stall(entry.path);
            session.stats.opens += 1;
            let opened = match self.found_ahead() {
                Some(found) => {
                    session.stats.looks += found.metas.iter().flatten().count() as u64;
                    Ok(Ok(found))
                }
                None => entry
                    .call(session, move |directory, name| open(directory, name, via_link))
                    .map(|opened| opened.map(Found::unread)),
            };
            match opened {
                Ok(Ok(Found { descriptor, listing, metas })) => {
                    return Some(Frame {
                        descriptor: Some(Directory::Open(Arc::new(descriptor))),
                        identity: None,
                        number: 0,
                        listing,
                        next: 0,
                        metas,
                        told: 0,
                        path_len: self.path.len(),
                        known: entry.known,
                        via_link,
                        may_stall: may_stall || (via_link && session.reach.is_wary()),
                    });
                }
                // Already told when its properties were asked for.
                Ok(Err(_)) if matches!(entry.known.meta, Some(Err(_))) => {}
                Ok(Err(error)) => entry.report(session, error),
                Err(Stalled) => {}
            }
        }
        if wanted && first {
            eval::evaluate(&mut entry, session);
        }
        None
    }

    /// What others found in the directory that is the innermost one's current item.
    fn found_ahead(&self) -> Option<Found> {
        let item = self.stack.last()?.next.checked_sub(1)?;
        self.ahead.as_ref()?.take(item)
    }

    /// Tells others of directories that the walk will come to.
    fn tell(&mut self, session: &Session<'_>) {
        if self.stack.len() >= self.parsed.max_depth {
            return;
        }
        if session.stats.opens >= self.ahead_from {
            self.ahead_from = u64::MAX;
            self.ahead = Ahead::of(self.parsed, session.reach.names());
            self.ahead.iter().for_each(|ahead| self.stack.iter().for_each(|_| ahead.entered()));
        }
        let (Some(ahead), Some(frame)) = (&self.ahead, self.stack.last_mut()) else { return };
        if frame.told < frame.listing.items.len()
            && !frame.may_stall
            && let Some(directory) = frame.descriptor.clone()
        {
            ahead.tell(&directory, || frame.next_to_tell(&session.reach));
        }
    }

    /// Whether a link led the walk to where it is. One to a start point closes no loop.
    fn is_below_link(&self) -> bool {
        self.parsed.follow == Follow::Always
            && self.stack.iter().skip(1).any(|frame| frame.via_link)
    }

    /// Whether a directory, which a link has led to or to one above it, is one that the walk is
    /// inside of.
    fn closes_loop(&self, entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
        let Ok(meta) = entry.meta(session) else { return false };
        let own = (meta.stx_dev_major, meta.stx_dev_minor, meta.stx_ino);
        let same = self.stack.iter().find(|frame| {
            frame.identity.or_else(|| identity(frame.descriptor.as_ref()?.as_fd())) == Some(own)
        });
        if let Some(frame) = same {
            messages::error(format_args!(
                "File system loop detected; {} is part of the same file system loop as {}.",
                quoted(entry.path),
                quoted(&self.path[..frame.path_len])
            ));
        }
        same.is_some()
    }

    /// Whether a directory is on another file system than the start point and `-xdev` minds.
    ///
    /// The mount is asked for what it remembers only: one that does not answer must not stall a
    /// walk that will not enter it.
    fn crosses(&self, entry: &mut Entry<'_>, session: &mut Session<'_>) -> bool {
        if !self.parsed.one_file_system || entry.depth == 0 {
            return false;
        }
        let device = if let Some(Ok(meta)) = entry.known.meta {
            Some((meta.stx_dev_major, meta.stx_dev_minor))
        } else {
            session.stats.looks += 1;
            let mut flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
            if !entry.follow {
                flags |= AtFlags::SYMLINK_NOFOLLOW;
            }
            let look = move |directory: BorrowedFd<'_>, name: &CStr| {
                rustix::fs::statx(directory, name, flags, StatxFlags::TYPE)
            };
            let found = if entry.may_stall {
                entry.call(session, look)
            } else {
                Ok(look(entry.directory.as_fd(), entry.name))
            };
            match found {
                Ok(Ok(meta)) => Some((meta.stx_dev_major, meta.stx_dev_minor)),
                // Opening it says why.
                Ok(Err(_)) => return false,
                Err(Stalled) => return true,
            }
        };
        device != self.start_device
    }

    fn push(&mut self, mut frame: Frame, session: &Session<'_>) {
        let is_read = !frame.listing.items.is_empty();
        if !is_read && let Some(spare) = self.spare.pop() {
            frame.listing = Listing { ended: false, ..spare };
        }
        self.directories += 1;
        frame.number = self.directories;
        self.stack.push(frame);
        self.ahead.iter().for_each(Ahead::entered);
        if self.is_below_link() {
            // Each folder below is compared with all above it.
            for frame in self.stack.iter_mut().rev().take_while(|frame| frame.identity.is_none()) {
                frame.identify();
            }
        }
        if self.stack.len() - self.first_open > OPEN_MAX {
            self.close_outermost(session);
        }
        if is_read {
            self.tell(session);
        }
    }

    /// Closes the outermost open directory, after reading the rest of its names.
    fn close_outermost(&mut self, session: &Session<'_>) {
        let Some(frame) = self.stack.get_mut(self.first_open) else { return };
        frame.identify();
        let path = &self.path[..frame.path_len];
        while !frame.listing.ended {
            if let Err(reason) = frame.read_on(path, &mut self.buffer, &session.reach) {
                messages::error(format_args!("{}: {reason}", quoted(path)));
            }
        }
        frame.descriptor = None;
        self.ahead.iter().for_each(|ahead| ahead.forget(self.first_open));
        self.first_open += 1;
    }

    /// Goes back to the directory above; with contents first, this one's turn has come.
    fn leave(&mut self, start: &CStr, session: &mut Session<'_>) {
        let Some(mut left) = self.stack.pop() else { return };
        self.ahead.iter().for_each(Ahead::left);
        self.path.truncate(left.path_len);
        if self.stack.len() <= self.first_open && !self.stack.is_empty() {
            self.reopen(start, left.descriptor.as_ref(), session);
        }
        let known = std::mem::take(&mut left.known);
        drop(left.descriptor.take());
        if self.spare.len() <= self.stack.len() {
            self.spare.push(std::mem::take(&mut left.listing));
        }
        self.tell(session);
        if !self.parsed.contents_first || self.stack.len() < self.parsed.min_depth {
            return;
        }
        session.prunes = false;
        if let Some(above) = self.stack.last() {
            let item = above.listing.items[above.next - 1];
            if let Some(mut entry) = self.inner_entry(item, known) {
                eval::evaluate(&mut entry, session);
            }
        } else {
            eval::evaluate(&mut self.start_entry(start, known), session);
        }
    }

    /// Opens the innermost directory again: through `..`, or down from the start where that leads
    /// elsewhere because a link was followed or a directory moved.
    fn reopen(&mut self, start: &CStr, below: Option<&Directory>, session: &Session<'_>) {
        let index = self.stack.len() - 1;
        let wanted = self.stack[index].identity;
        let again = below
            .and_then(|below| self.open_again(below, c"..", &self.stack[index], session))
            .filter(|found| wanted.is_some() && identity(found.as_fd()) == wanted)
            .or_else(|| {
                self.descend_again(start, session).filter(|found| identity(found.as_fd()) == wanted)
            });
        self.first_open = index;
        let frame = &mut self.stack[index];
        if again.is_none() {
            messages::error(format_args!(
                "failed to restore working directory after searching {}",
                quoted(&self.path[..frame.path_len])
            ));
            frame.next = frame.listing.items.len();
        }
        frame.descriptor = again;
    }

    fn descend_again(&self, start: &CStr, session: &Session<'_>) -> Option<Directory> {
        let mut open_now =
            self.open_again(&Directory::Current, start, self.stack.first()?, session)?;
        for pair in self.stack.windows(2) {
            let item = pair[0].listing.items[pair[0].next - 1];
            open_now = self.open_again(&open_now, pair[0].listing.name(item), &pair[1], session)?;
        }
        Some(open_now)
    }

    /// Opens what is to be the directory of `frame`, in bounded time if it lies where that was not
    /// sure to answer.
    fn open_again(
        &self,
        directory: &Directory,
        name: &CStr,
        frame: &Frame,
        session: &Session<'_>,
    ) -> Option<Directory> {
        let follow = frame.via_link && name != c"..";
        let opened = if frame.may_stall {
            let (directory, name) = (directory.clone(), name.to_owned());
            let open = move || open(directory.as_fd(), &name, follow);
            session.reach.bounded(&self.path[..frame.path_len], open).ok()?
        } else {
            open(directory.as_fd(), name, follow)
        };
        opened.ok().map(|descriptor| Directory::Open(Arc::new(descriptor)))
    }
}
