//! A store written in Python, as the library asks it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, stream};
use nearfirst::{
    Answer, ByteStream, Device, Entries, Entry, Error, Name, Pattern, Query, Reading, Store,
};
use tokio::sync::Semaphore;

use crate::calls::{Calls, Queue, Reply, Request, THREADS_MAX};
use crate::kept::Reference;

/// Bytes asked for at a time at most: what the scheduler gives one request.
const ASK_BYTES_MAX: u64 = 8 << 20;
/// Bytes asked for at a time, however small the budget: less costs more calls than it saves memory.
const ASK_BYTES_MIN: u64 = 64 << 10;
/// Of the budget, the part that all calls under way may have asked for. What they give is in memory
/// a second time, as the store's own object, until it is copied.
const ASKED_SHARE: u64 = 4;
/// What room for answers is counted in: a semaphore counts to no more than 32 bits everywhere.
const ROOM_UNIT: u64 = 1 << 10;

/// A store written in Python. Dropped, it ends the threads that served it, once they are done.
#[derive(Debug)]
pub(crate) struct PythonStore {
    scheme: String,
    asks: Asks,
}

/// How long calls may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) read: Duration,
    /// Of a listing, what is given at a time.
    pub(crate) list: Duration,
}

/// How it is asked.
#[derive(Debug, Clone)]
struct Asks {
    queue: Arc<Queue>,
    patience: Patience,
    /// Bytes of one call at most.
    ask_bytes: u64,
    /// For answers of calls that are under way, in units. As many as one device is asked at a time
    /// have room: those of several may wait for it.
    room: Arc<Semaphore>,
}

impl PythonStore {
    /// Of names of this scheme, and its calls, which somebody must answer.
    pub(crate) fn new(
        scheme: &str,
        store: Reference,
        patience: Patience,
        budget_bytes: u64,
    ) -> (Self, Calls) {
        let queue = Queue::new(store);
        let ask_bytes = ask_bytes(budget_bytes);
        let asked_bytes = Self::asked_bytes(budget_bytes).max(ask_bytes);
        let room = Arc::new(Semaphore::new(units(asked_bytes)));
        let asks = Asks { queue: Arc::clone(&queue), patience, ask_bytes, room };
        (Self { scheme: scheme.to_owned(), asks }, Calls(queue))
    }

    /// Of a budget, what a store holds itself: the answers of its calls until they are copied.
    pub(crate) fn asked_bytes(budget_bytes: u64) -> u64 {
        budget_bytes / ASKED_SHARE
    }

    /// Of a budget, how many calls are answered side by side. One more would wait, and what the
    /// scheduler waits for is the device's delay to it.
    pub(crate) fn calls_max(budget_bytes: u64) -> u32 {
        let calls = Self::asked_bytes(budget_bytes) / ask_bytes(budget_bytes);
        u32::try_from(calls).map_or(THREADS_MAX, |calls| calls.clamp(1, THREADS_MAX))
    }

    /// What follows `scheme://`.
    fn key<'a>(&self, name: &'a Name) -> &'a [u8] {
        name.as_bytes().get(self.scheme.len() + 3..).unwrap_or_default()
    }
}

impl Drop for PythonStore {
    fn drop(&mut self) {
        self.asks.queue.close();
    }
}

/// Bytes of one call at most: so many that all threads have room.
fn ask_bytes(budget_bytes: u64) -> u64 {
    let share = PythonStore::asked_bytes(budget_bytes) / u64::from(THREADS_MAX);
    share.clamp(ASK_BYTES_MIN, ASK_BYTES_MAX)
}

/// Units of room for so many bytes, as far as they can be counted.
fn units(bytes: u64) -> usize {
    let units = usize::try_from(bytes.div_ceil(ROOM_UNIT)).unwrap_or(usize::MAX);
    units.min(Semaphore::MAX_PERMITS)
}

impl Asks {
    async fn ask(&self, request: Request) -> Result<Reply, Error> {
        let name = request.name().clone();
        let limit = match request {
            Request::List { .. } | Request::More { .. } => self.patience.list,
            Request::Stat { .. } | Request::Read { .. } => self.patience.read,
        };
        let answer = self.queue.ask(request);
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) if self.queue.is_closed() => {
                Err(Error::interrupted(name, "its store is closed"))
            }
            Ok(Err(_)) => Err(Error::interrupted(name, "a thread of its store ended in mid-call")),
            Err(_) => {
                let seconds = limit.as_secs_f32();
                let reason = format!("its store has not answered for {seconds} s");
                let late = std::io::Error::new(std::io::ErrorKind::TimedOut, reason);
                Err(Error::io(name.to_string_lossy().into_owned(), late))
            }
        }
    }

    async fn stat(&self, name: Name) -> Result<Entry, Error> {
        match self.ask(Request::Stat { name: name.clone() }).await? {
            Reply::Entry(entry) => Ok(entry),
            Reply::Names(..) | Reply::Bytes(_) => Err(mismatched(name)),
        }
    }

    /// The bytes of a range, no more than are asked for at a time.
    async fn bytes(&self, entry: Entry, range: Range<u64>) -> Result<Bytes, Error> {
        let name = entry.name.clone();
        let end = range.end.min(range.start.saturating_add(self.ask_bytes));
        let (range, is_last) = (range.start..end, end == range.end);
        let units =
            u32::try_from(units(range.end - range.start)).expect("of ASK_BYTES_MAX at most");
        let _room = self.room.acquire_many(units).await.expect("it is never closed");
        match self.ask(Request::Read { entry, range, is_last }).await? {
            Reply::Bytes(bytes) => Ok(bytes),
            Reply::Names(..) | Reply::Entry(_) => Err(mismatched(name)),
        }
    }

    async fn read(self, entry: Entry, range: Range<u64>) -> Result<Reading, Error> {
        let known = entry.version.clone();
        let entry =
            if entry.size.is_some() { entry } else { self.stat(entry.name.clone()).await? };
        let is_same =
            |known: &nearfirst::Version| entry.version.as_ref().is_some_and(|it| known.is_same(it));
        if known.is_some_and(|known| !is_same(&known)) {
            return Err(Error::Changed { name: entry.name });
        }
        let unsized_ =
            || Error::refused(entry.name.clone(), "its store does not say how large it is");
        let size = entry.size.ok_or_else(unsized_)?;
        let range = range.start.min(size)..range.end.min(size);
        let bytes = if range.is_empty() {
            stream::empty().boxed()
        } else {
            let first = self.bytes(entry.clone(), range.clone()).await?;
            self.rest(entry.clone(), first, range.clone())
        };
        Ok(Reading { entry, range, headers: Vec::new(), bytes })
    }

    /// The bytes of a range, of which the first are here; what is short ends it.
    fn rest(self, entry: Entry, first: Bytes, range: Range<u64>) -> ByteStream {
        let from = range.start + first.len() as u64;
        let begins = stream::once(futures::future::ready(Ok(first)));
        let goes_on = move |at: u64| {
            let (asks, entry) = (self.clone(), entry.clone());
            async move {
                if at >= range.end {
                    return None;
                }
                let bytes = asks.bytes(entry, at..range.end).await;
                let next = match &bytes {
                    Ok(bytes) if !bytes.is_empty() => at + bytes.len() as u64,
                    _ => range.end,
                };
                Some((bytes, next))
            }
        };
        begins.chain(stream::unfold(from, goes_on)).boxed()
    }

    /// What matches below a folder, batch by batch.
    fn listed(self, folder: Name, prefix: Name, recursive: bool) -> Entries {
        let first = Request::List { folder: folder.clone(), prefix, recursive };
        let batches = stream::unfold(Some(first), move |request| {
            let (asks, folder) = (self.clone(), folder.clone());
            async move {
                let batch = match asks.ask(request?).await {
                    Ok(Reply::Names(entries, listing)) => {
                        let more = listing.map(|listing| Request::More { folder, listing });
                        return Some((entries.into_iter().map(Ok).collect::<Vec<_>>(), more));
                    }
                    Ok(Reply::Entry(_) | Reply::Bytes(_)) => Err(mismatched(folder)),
                    Err(error) => Err(error),
                };
                Some((vec![batch], None))
            }
        });
        batches.flat_map(stream::iter).boxed()
    }
}

/// Of a name that would be another store's, or a file's.
fn foreign(name: Name, begin: &[u8]) -> Error {
    let begin = String::from_utf8_lossy(begin);
    Error::refused(name, format!("its store lists it, and its names begin with {begin}"))
}

fn mismatched(name: Name) -> Error {
    Error::refused(name, "its store answered what was not asked")
}

impl Store for PythonStore {
    fn device(&self, name: &Name) -> Device {
        // It is shown, and may be kept in the table of devices.
        let name = name.redacted();
        let key = self.key(&name);
        let first = key.split(|&byte| byte == b'/').next().unwrap_or_default();
        Device::new(format!("{}://{}", self.scheme, String::from_utf8_lossy(first)))
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        let name = name.clone();
        async move { self.asks.stat(name).await }.boxed()
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        self.asks.clone().read(entry.clone(), range).boxed()
    }

    fn list(&self, query: &Query) -> Entries {
        let Query::Glob(pattern, _) = query else {
            let error = Error::unsupported(query.prefix(), "this store answers no questions");
            return one(Err(error));
        };
        let text = self.key(pattern).to_vec();
        let begin = pattern.as_bytes()[..self.scheme.len() + 3].to_vec();
        if !Pattern::is_wild(&text) {
            let name = Name::new([&begin[..], &Pattern::unquoted(&text)].concat());
            let asks = self.asks.clone();
            let found = stream::once(async move { asks.stat(name).await });
            let is_there = |found: &Result<_, _>| !matches!(found, Err(Error::NotFound { .. }));
            return found.filter(move |found| futures::future::ready(is_there(found))).boxed();
        }
        let parsed = match Pattern::new(&text) {
            Ok(parsed) => parsed,
            Err(error) => return one(Err(Error::refused(pattern.clone(), error.reason()))),
        };
        let literal = parsed.literal_prefix();
        let prefix = last_component(literal);
        let folder = &literal[..literal.len() - prefix.len()];
        let recursive = parsed.is_recursive() || depth(&text) > depth(folder);
        let (folder, prefix) = (Name::new([&begin[..], folder].concat()), Name::new(prefix));
        let matching = move |entry: Result<Entry, Error>| match entry {
            Ok(entry) => match entry.name.as_bytes().strip_prefix(&begin[..]) {
                Some(rest) => parsed.matches(rest).then_some(Ok(entry)),
                None => Some(Err(foreign(entry.name, &begin))),
            },
            error => Some(error),
        };
        let listed = self.asks.clone().listed(folder, prefix, recursive);
        listed.filter_map(move |entry| futures::future::ready(matching(entry))).boxed()
    }
}

/// What follows the last slash.
fn last_component(text: &[u8]) -> &[u8] {
    text.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// How many components a text has; what follows a last slash is one.
fn depth(text: &[u8]) -> usize {
    text.split(|&byte| byte == b'/').count()
}

fn one(item: Result<Entry, Error>) -> Entries {
    stream::once(futures::future::ready(item)).boxed()
}
