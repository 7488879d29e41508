//! The seam to where objects live: what a store must answer.

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sled::{Device, Extent, Place};

use crate::{Checksum, Entry, Error, Name};

/// What a store answers later.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// Names as they become known; an error among them does not end the listing,
/// unless it is the last item.
pub type Entries = BoxStream<'static, Result<Entry, Error>>;

/// Lengths of parts as they become known, until the last or an error.
pub type PartLengths = BoxStream<'static, Result<u64, Error>>;

/// Bytes as they arrive, in order, ending after the range or with an error.
pub type ByteStream = BoxStream<'static, Result<Bytes, Error>>;

/// Where objects live, and how to list, query and read them (the *warden* of
/// the SETS paper, SOSP '97, section 3.6).
///
/// A store may do a part only: a database answers queries about files that
/// another store owns, a server of single files lists nothing. What it does
/// not do is [`Error::Unsupported`]. It keeps no set and decides no order; it
/// limits how long a request may take to connect, not how long it may last:
/// what is slow, and what to do about it, is the scheduler's to say.
///
/// Dropping an answer or a stream cancels it. Methods are called from within
/// a tokio runtime.
///
/// What panics while an object is read, [`Store::device`] then among it, fails that object: a member of
/// a set is then an [`Error::Refused`] with the text of the panic, and no other attempt is made. Before
/// it is read, a panic of [`Store::device`] or [`Store::file`], as of what lists, ends the sets that
/// were told the name, and panics in who asks them for their next member. [`Store::stat`],
/// [`Store::locate`] and [`Store::checksum`] panic in who awaits them.
pub trait Store: Send + Sync + fmt::Debug {
    /// The device that a read of this object goes to: a server, a bucket.
    fn device(&self, name: &Name) -> Device;

    /// What is under this name now.
    fn stat(&self, name: &Name) -> Answer<'_, Entry>;

    /// The bytes of `range` of the version that `entry` knows, or
    /// [`Error::Changed`]; of an entry without a version, the present one,
    /// which [`Reading::entry`] then names.
    ///
    /// A range that reaches beyond the end is cut there.
    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading>;

    /// The names that satisfy a query, as they become known.
    fn list(&self, query: &Query) -> Entries {
        let error = Error::unsupported(query.prefix(), "this store lists no names");
        futures::stream::once(async { Err(error) }).boxed()
    }

    /// Where the parts of an object are now.
    fn locate(&self, entry: &Entry) -> Answer<'_, Vec<Extent>> {
        futures::future::ready(Ok(whole(entry, self.device(&entry.name)))).boxed()
    }

    /// A sum of the bytes of the version that `entry` knows, if the store keeps one and tells it
    /// apart from the bytes.
    ///
    /// # Errors
    /// Those of the store; also that it keeps a sum over parts and does not tell of these.
    fn checksum(&self, _entry: &Entry) -> Answer<'_, Option<Checksum>> {
        futures::future::ready(Ok(None)).boxed()
    }

    /// How long the parts are that an object was put in, in their order; nothing if the store knows
    /// of none. This may take a request for each of them, and they need not add up.
    fn part_lengths(&self, _entry: &Entry) -> PartLengths {
        futures::stream::empty().boxed()
    }

    /// Asks for an object of a cold tier to be made readable.
    fn recall(&self, entry: &Entry) -> Answer<'_, Recall> {
        let error = Error::unsupported(entry.name.clone(), "this store has no cold tier");
        futures::future::ready(Err(error)).boxed()
    }

    /// The object's file, if it is one of this machine: it is then brought
    /// near in the page cache and read through a descriptor. Its device and its parts are those of
    /// the file.
    fn file(&self, _name: &Name) -> Option<PathBuf> {
        None
    }
}

/// Where the parts of an object are that lies on its device as a whole; nowhere, if its size is not known.
pub(crate) fn whole(entry: &Entry, device: Device) -> Vec<Extent> {
    let (device, place) =
        if entry.tier.is_cold() { (device.cold_tier(), Place::Cold) } else { (device, Place::Far) };
    entry.size.map(|length| Extent { offset: 0, length, device, place }).into_iter().collect()
}

/// In which order the names of several listings come that are under way side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// One listing after the other, the same in every run.
    InTurn,
    /// As they become known: a slow listing keeps no other's names back.
    AsKnown,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// The names that match a csh pattern: `*`, `?`, `[a-z]` within a
    /// component, `**` for any number of them; no braces, no `~`. A backslash
    /// quotes. For a URL the pattern follows the bucket or host.
    Glob(Name, Sequence),
    /// A question in the store's own language: SQL, a CSS selector. Names it
    /// returns are resolved against `prefix`.
    Ask {
        /// The database or the page.
        prefix: Name,
        /// The question.
        text: String,
    },
    /// A program that prints names, one a line or NUL-separated, resolved
    /// against the folder it runs in.
    Run {
        /// The folder.
        folder: Name,
        /// The program and its arguments; no shell sees them.
        words: Vec<OsString>,
    },
}

impl Query {
    /// The name that the query is put to.
    pub fn prefix(&self) -> Name {
        match self {
            Self::Glob(name, _)
            | Self::Ask { prefix: name, .. }
            | Self::Run { folder: name, .. } => name.clone(),
        }
    }
}

/// A range of an object on its way.
pub struct Reading {
    /// The object as the answer to this read describes it: its version, and
    /// its size if the server told.
    pub entry: Entry,
    /// What the stream will hold: the range asked for, cut at the object's
    /// end; from 0 to `u64::MAX` if the server sends the whole and not how long it is.
    pub range: Range<u64>,
    /// What the server said beside the bytes, field by field; empty where there is no server.
    pub headers: Vec<(String, String)>,
    /// The bytes.
    pub bytes: ByteStream,
}

impl Reading {
    /// Of nothing, as there is nothing from `at` on, or nothing was asked for.
    #[cfg(any(feature = "object", feature = "web"))]
    pub(crate) fn empty(entry: Entry, at: u64, headers: Vec<(String, String)>) -> Self {
        Self { entry, range: at..at, headers, bytes: futures::stream::empty().boxed() }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("entry", &self.entry)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// What came of asking for a recall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recall {
    /// It can be read now.
    Ready,
    /// It is under way; ask again after this time.
    Pending {
        /// A good time to look again.
        again: Duration,
        /// How long such a recall takes at most, counted from when it was first asked for, where
        /// the store says so. A promise of the service, not a limit that is kept here.
        within: Option<Duration>,
    },
}
