//! One attempt to read a range of a remote object.

use std::any::Any;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use sled::{Device, Observation};
use store::{ByteStream, Entry, Error, Name, Reading, Store};
use tokio::sync::Notify;

use super::Inner;
use super::beginning::Prefix;
use super::item::Item;
use crate::panic;
use crate::scheduler::{AttemptId, Contact, Event, Failure};
use crate::sync::{AtomicBool, AtomicU64, Ordering, lock};

/// Bytes after which progress is reported: a connection's window, so that
/// neither the budget nor a reader lags by more than that.
const REPORT_BYTES: u64 = 256 << 10;

/// The same in time, where little comes: who is not told takes the connection for one that stalls, and
/// a reader may wait for the little.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// Of an attempt that its reader held up for a larger part than one in so many, nothing is learned.
const RESTED_PART_MAX: u32 = 10;

/// Fetches `range` into the item's buffer, and tells the scheduler how it goes.
pub(crate) async fn fetch(
    engine: Arc<Inner>,
    attempt: AttemptId,
    item: Arc<Item>,
    store: Arc<dyn Store>,
    range: Range<u64>,
    allowed: Arc<Allowed>,
) {
    let mut unreported = 0;
    let bringing = async {
        let (store, unreported) = (store.as_ref(), &mut unreported);
        let begun = Coming::begin(&engine, attempt, &item, store, range, &allowed, unreported);
        let mut coming = begun.await?;
        while let Some(chunk) = coming.next().await {
            coming.take(chunk?).await?;
        }
        coming.end()
    };
    // Who waits for it is to hear of a store that panics, and not that no byte came.
    let brought = AssertUnwindSafe(bringing).catch_unwind().await;
    let brought = brought.unwrap_or_else(|panic| Err(panicked(&item, &*panic)));
    let end = match brought {
        Ok(()) => Event::Finished { attempt },
        Err(error) => {
            let is_final = |error: &Error| failure(error) == Failure::Final;
            let event = Event::Failed { attempt, failure: failure(&error) };
            // What another attempt at a part met after that does not hide it.
            if is_final(&error) || !item.error().is_some_and(|before| is_final(&before)) {
                item.set_error(error);
            }
            event
        }
    };
    // What came before a failure is not fetched again.
    let progressed = Event::Progressed { attempt, bytes: unreported };
    engine.post([progressed, end].into_iter().skip(usize::from(unreported == 0)));
}

fn panicked(item: &Item, panic: &(dyn Any + Send)) -> Error {
    Error::refused(item.name(), format!("its store panicked: {}", panic::text(panic)))
}

/// How far an attempt may go: to the end of its aim, until it is let go on or stopped.
#[derive(Debug)]
pub(crate) struct Allowed {
    end: AtomicU64,
    stopped: AtomicBool,
    further: Notify,
}

impl Allowed {
    pub(crate) fn to(end: u64) -> Self {
        Self { end: AtomicU64::new(end), stopped: AtomicBool::new(false), further: Notify::new() }
    }

    /// Keeps a task that was aborted, and runs on to where it next waits, from bringing more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn extend(&self, end: u64) {
        self.end.fetch_max(end, Ordering::AcqRel);
        self.further.notify_one();
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Waits until more than `at` is allowed; returns how far.
    async fn beyond(&self, at: u64) -> u64 {
        loop {
            let end = self.end();
            if end > at && !self.stopped.load(Ordering::Acquire) {
                return end;
            }
            self.further.notified().await;
        }
    }
}

/// An answer of which bytes are coming.
struct Coming<'a> {
    engine: &'a Arc<Inner>,
    attempt: AttemptId,
    item: &'a Item,
    allowed: &'a Allowed,
    /// Bytes that the scheduler was not told of.
    unreported: &'a mut u64,
    /// When it was last told.
    reported: Duration,
    name: Name,
    device: Device,
    size: Option<u64>,
    covers: Range<u64>,
    bytes: ByteStream,
    /// How far it has come.
    at: u64,
    /// What has come of an object without a version.
    read: Option<Prefix>,
    began: Duration,
    first_byte: Duration,
    /// For how long its reader held it up.
    rested: Duration,
}

impl<'a> Coming<'a> {
    /// Asks, and tells the scheduler of the answer. Of what comes then, `unreported` is what is still to
    /// be told.
    async fn begin(
        engine: &'a Arc<Inner>,
        attempt: AttemptId,
        item: &'a Item,
        store: &dyn Store,
        range: Range<u64>,
        allowed: &'a Allowed,
        unreported: &'a mut u64,
    ) -> Result<Self, Error> {
        let clock = engine.costs.clock();
        let began = clock.now();
        let entry = item.entry();
        let reading = met(item, store, &entry, range).await?;
        let (name, Reading { entry: found, range: covers, headers, bytes }) = (entry.name, reading);
        item.set_headers(headers);
        let Entry { size, version, .. } = item.entry();
        if size.is_some_and(|size| size < item.start()) {
            return Err(Error::Changed { name });
        }
        if size.is_none() && covers.end < u64::MAX {
            return Err(Error::refused(name, "a part of it came, and not where it ends"));
        }
        let device = found.device.unwrap_or_else(|| store.device(&name));
        let contact = contact(engine, &device, size, &covers);
        item.set_contact(contact.clone());
        if let Some(size) = size {
            item.buffer.set_end(size);
        }
        engine.post([Event::Contacted { attempt, contact }]);
        let reported = clock.now();
        let (first_byte, rested) = (reported.saturating_sub(began), Duration::ZERO);
        let (at, read) = (covers.start, version.is_none().then(Prefix::default));
        Ok(Self {
            engine,
            attempt,
            item,
            allowed,
            unreported,
            reported,
            name,
            device,
            size,
            covers,
            bytes,
            at,
            read,
            began,
            first_byte,
            rested,
        })
    }

    /// What comes next. The scheduler is told meanwhile of what it was not told of.
    async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        if *self.unreported > 0 {
            if let Ok(next) = tokio::time::timeout(REPORT_EVERY, self.bytes.next()).await {
                return next;
            }
            self.reported = self.now();
            self.report();
        }
        self.bytes.next().await
    }

    async fn take(&mut self, mut chunk: Bytes) -> Result<(), Error> {
        if chunk.len() as u64 > self.most().saturating_sub(self.at) {
            let reason = "the server sent more than it said it would";
            return Err(Error::refused(self.name.clone(), reason));
        }
        while !chunk.is_empty() {
            let room = self.room().await;
            let fits = usize::try_from(room).unwrap_or(usize::MAX).min(chunk.len());
            self.keep(chunk.split_to(fits))?;
        }
        let now = self.now();
        let is_time = *self.unreported > 0 && now.saturating_sub(self.reported) >= REPORT_EVERY;
        if *self.unreported >= REPORT_BYTES || is_time {
            self.reported = now;
            self.report();
        }
        Ok(())
    }

    /// Waits until more is allowed; returns how much.
    async fn room(&mut self) -> u64 {
        if self.at < self.allowed.end() {
            return self.allowed.beyond(self.at).await - self.at;
        }
        self.report();
        let since = self.now();
        let end = self.allowed.beyond(self.at).await;
        self.rested += self.now().saturating_sub(since);
        end - self.at
    }

    fn keep(&mut self, mut piece: Bytes) -> Result<(), Error> {
        let known = match &mut self.read {
            Some(read) => {
                let known = self.item.beginning.take(read, &piece);
                known.ok_or_else(|| Error::Changed { name: self.name.clone() })?
            }
            None => 0,
        };
        let (begin, bytes) = (self.at + known as u64, piece.len() as u64);
        self.at += bytes;
        // Told before who reads has all of it, who may end the process then.
        if self.at == self.most() {
            self.learn();
        }
        self.item.buffer.insert(begin, piece.split_off(known));
        *self.unreported += bytes;
        Ok(())
    }

    fn report(&mut self) {
        let bytes = std::mem::take(self.unreported);
        if bytes > 0 {
            self.engine.post([Event::Progressed { attempt: self.attempt, bytes }]);
        }
    }

    fn end(self) -> Result<(), Error> {
        if self.covers.end < u64::MAX {
            return if self.at < self.covers.end {
                Err(self.early(self.covers.end))
            } else {
                Ok(())
            };
        }
        if self.read.as_ref().is_some_and(|read| !self.item.beginning.is_all(read)) {
            return Err(Error::Changed { name: self.name });
        }
        match self.size {
            // Who does not say how long the answer is ends it as a connection that breaks ends.
            Some(size) if self.at < size => return Err(self.early(size)),
            Some(_) => {}
            None => self.learn(),
        }
        self.item.buffer.set_end(self.at);
        Ok(())
    }

    /// What the device took: of the whole, as one stream among several has it.
    fn learn(&self) {
        let whole = self.now().saturating_sub(self.began);
        // What its reader took his time for says nothing about the device.
        if self.rested < whole / RESTED_PART_MAX {
            let bytes = self.at - self.covers.start;
            let (first_byte, whole) = (Some(self.first_byte.as_secs_f64()), whole.as_secs_f64());
            let observation = Observation { bytes, first_byte, whole };
            self.engine.costs.observe(&self.device, observation);
        }
    }

    /// To where it may come.
    fn most(&self) -> u64 {
        self.size.unwrap_or(u64::MAX).min(self.covers.end)
    }

    fn now(&self) -> Duration {
        self.engine.costs.clock().now()
    }

    fn early(&self, end: u64) -> Error {
        let reason = format!("the answer ended {} bytes early", end - self.at);
        Error::interrupted(self.name.clone(), reason)
    }
}

/// The answer to a request for `range`, of what was met before; wider where a part alone could not be
/// told from one of another content.
async fn met(
    item: &Item,
    store: &dyn Store,
    entry: &Entry,
    range: Range<u64>,
) -> Result<Reading, Error> {
    let was_met = item.contact().is_some();
    let range = match &entry.version {
        None if was_met => 0..u64::MAX,
        // Where it ends is told by its end alone: nothing behind a part of it would be asked for.
        Some(_) if was_met && entry.size.is_none() => range.start..u64::MAX,
        _ => range,
    };
    let mut reading = store.read(entry, range.clone()).await?;
    item.pin(&reading.entry)?;
    let Entry { size, version, .. } = item.entry();
    // Of the whole that came, a part was kept: it need not be all behind its start.
    if size.is_none() && reading.range.start > 0 && reading.range.end < u64::MAX {
        reading = store.read(&item.entry(), range.start..u64::MAX).await?;
        item.pin(&reading.entry)?;
    }
    let is_whole =
        |covers: &Range<u64>| covers.start == 0 && covers.end >= size.unwrap_or(u64::MAX);
    if version.is_some() || is_whole(&reading.range) {
        let end = range.end.min(size.unwrap_or(u64::MAX));
        // What its reader waits for would be taken for brought.
        if reading.range.start > range.start || reading.range.end < end {
            let reason = "its store gave another part of it than it was asked for";
            return Err(Error::refused(entry.name.clone(), reason));
        }
        return Ok(reading);
    }
    drop(reading);
    let reading = store.read(&item.entry(), 0..u64::MAX).await?;
    item.pin(&reading.entry)?;
    if !is_whole(&reading.range) {
        let reason = "its server sends parts of it only, and nothing by which these could be told from parts of another version";
        return Err(Error::refused(entry.name.clone(), reason));
    }
    Ok(reading)
}

fn contact(engine: &Inner, device: &Device, size: Option<u64>, covers: &Range<u64>) -> Contact {
    let device = engine.met(&mut lock(&engine.state), device);
    let whole = 0..size.unwrap_or(u64::MAX);
    let far = Some(whole).filter(|whole| !whole.is_empty()).into_iter().collect();
    Contact { device, size, far, covers: covers.clone(), position: 0 }
}

/// What another attempt would be good for.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        Error::Busy { retry_after, .. } => Failure::Busy { retry_after: *retry_after },
        Error::Interrupted { .. } => Failure::Transient,
        // Who reads the others closes them.
        Error::Io { source, .. } if store::is_short_of_descriptors(source) => Failure::Short,
        _ => Failure::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_attempt_brings_no_more() {
        let allowed = Allowed::to(10);
        assert_eq!(allowed.beyond(4).now_or_never(), Some(10));
        assert_eq!(allowed.beyond(10).now_or_never(), None);
        allowed.extend(20);
        assert_eq!(allowed.beyond(10).now_or_never(), Some(20));
        allowed.stop();
        assert_eq!(allowed.beyond(10).now_or_never(), None);
    }
}
