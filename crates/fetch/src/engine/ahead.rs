//! Reading a file ahead into the page cache, and what that teaches of its device.
//!
//! A device is asked for more than is waited for, so that it never waits for
//! us. Reading into a buffer that is thrown away is what tells when data has
//! arrived: `WILLNEED` returns before.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use sled::Observation;
use store::Error;

use super::Inner;
use super::files::{Cancelled, open_wanted};
use super::item::Item;
use crate::advise;
use crate::apart::{Calls, is_given_up};
use crate::scheduler::{AttemptId, Contact, DeviceId, Event};
use crate::sync::lock;

/// Bytes of the first read: what it takes tells what the device takes to its first byte.
const FIRST_BYTES: u64 = 64 << 10;
/// Bytes of one read.
const STEP_BYTES: u64 = 512 << 10;
/// Bytes that a device is asked for before they are waited for: a disk is at them for longer
/// than a thread takes to be woken, and a cancelled attempt wastes no more.
const ASKED_BYTES: u64 = 2 << 20;
/// The same for parts of a file that somebody may read, and bytes of one read of them: as much as
/// the kernel reads ahead.
const PART_ASKED_BYTES: u64 = 256 << 10;
const PART_STEP_BYTES: u64 = 128 << 10;

/// Reads a range, so that it lies in the page cache.
pub(super) fn read_ahead(
    engine: &Arc<Inner>,
    attempt: AttemptId,
    item: &Item,
    range: Range<u64>,
    cancelled: &Cancelled,
    events: &mut Vec<Event>,
) -> Result<(), Error> {
    let path = item.path().expect("only files are read ahead");
    let failed = |source: io::Error| Error::io(path, source);
    let file = match item.clone_file() {
        Some(file) => file.map_err(failed)?,
        None => open_wanted(engine, &mut engine.costs.opener(), item, path)?.0,
    };
    let file = Calls::new("ahead", file, &engine.costs, item.may_stall()).map_err(failed)?;
    let clock = engine.costs.clock();
    let began = clock.now();
    let mut asking = Asking::new(engine, attempt, item, &range);
    if asking.ends_exactly {
        // The kernel would read on beyond a part. Where it takes no advice, it does.
        drop(file.call(|file| Ok(fadvise(file, 0, None, Advice::Random)?)));
    }
    let steps = if asking.ends_exactly { PART_STEP_BYTES } else { STEP_BYTES };
    let mut buffer = vec![0; usize::try_from(steps.min(range.end - range.start)).unwrap_or(0)];
    let mut at = range.start;
    while at < range.end && !cancelled.is_set() {
        asking.ask(&file, at);
        let step = if at == range.start { FIRST_BYTES } else { steps };
        let wanted = usize::try_from(step.min(range.end - at)).expect("at most STEP_BYTES");
        let read = match file.read_at(at, &mut buffer[..wanted]) {
            Ok(0) => return Err(Error::Changed { name: item.entry().name }),
            Ok(read) => read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                leave_behind(&error, file, item);
                return Err(failed(error));
            }
        };
        if at == range.start
            && let Some(contact) = item.contact()
        {
            learn(engine, attempt, &contact, &range, read, began);
            let contact = Contact { covers: range.clone(), ..contact };
            events.push(Event::Contacted { attempt, contact });
        }
        asking.has_read();
        at += read;
        events.push(Event::Progressed { attempt, bytes: read });
        if at < range.end {
            engine.post(events.drain(..));
        }
    }
    item.add_took(clock.now().saturating_sub(began));
    if item.is_guess {
        refresh(&file);
    }
    Ok(())
}

/// Has the kernel know a file's attributes, which its own reader may ask for before it reads: some
/// file systems (FUSE) take them to be outdated by our reading.
fn refresh(file: &Calls) {
    // If it fails, its reader will hear why.
    drop(file.call(File::metadata));
}

/// After a read that hangs, has the thread that makes it close the descriptor that is kept for the
/// reader, too: each thread that closes one may hang as well.
fn leave_behind(error: &io::Error, file: Calls, item: &Item) {
    if let Calls::Apart(apart) = file
        && is_given_up(error)
        && let Some(kept) = item.take_file()
    {
        drop(apart.begin(move |_| {
            drop(kept);
            Ok(())
        }));
    }
}

/// Asks a device for a range, a little ahead of who waits for it.
struct Asking<'a> {
    engine: &'a Arc<Inner>,
    attempt: AttemptId,
    /// To where it was asked; `None` if it is not.
    to: Option<u64>,
    /// Bytes that it is asked for at once.
    ahead: u64,
    end: u64,
    /// Whether it is asked as the kernel would, but for nothing beyond the range.
    ends_exactly: bool,
    /// The device, if it has a head.
    head: Option<DeviceId>,
}

impl<'a> Asking<'a> {
    fn new(engine: &'a Arc<Inner>, attempt: AttemptId, item: &Item, range: &Range<u64>) -> Self {
        let contact = item.contact();
        let device = contact.as_ref().map(|contact| contact.device);
        let is_part = item.is_guess && contact.is_some_and(|contact| !is_whole(item, contact.size));
        let mut state = lock(&engine.state);
        let head = device.filter(|id| state.devices.began(*id, attempt));
        // What a device was asked for cannot be taken back, and a guess must not delay what is told.
        let may_ask = !item.is_guess || head.is_some_and(|id| state.scheduler.is_swept(id));
        drop(state);
        let ahead = if may_ask { ASKED_BYTES } else { PART_ASKED_BYTES };
        let ends_exactly = is_part && !may_ask;
        let to = (may_ask || is_part).then_some(range.start);
        Self { engine, attempt, to, ahead, end: range.end, ends_exactly, head }
    }

    /// Notes that a read is over: what waits behind it has the head from here on.
    fn has_read(&self) {
        if let Some(id) = self.head {
            let now = self.engine.costs.clock().now();
            lock(&self.engine.state).devices.left_at(id, now);
        }
    }

    /// Asks for what is soon to be read from `at` on.
    fn ask(&mut self, file: &Calls, at: u64) {
        let goal = at.saturating_add(self.ahead).min(self.end);
        let Some(from) = self.to.filter(|to| *to < goal) else { return };
        // The first bytes by themselves, or they would come no sooner than the others.
        let first = if from == at { goal.min(at + FIRST_BYTES) } else { from };
        let asked = file.call(move |file| {
            advise::fetch(file, from..first).and_then(|()| advise::fetch(file, first..goal))
        });
        self.to = asked.is_ok().then_some(goal);
        if self.to == Some(self.end) && self.head.is_some() && !self.ends_exactly {
            self.engine.post([Event::Submitted { attempt: self.attempt }]);
        }
    }
}

/// Whether all of a file of `size` bytes is wanted.
fn is_whole(item: &Item, size: Option<u64>) -> bool {
    match (&item.parts[..], size) {
        ([], _) => true,
        ([part], Some(size)) => part.start == 0 && part.end >= size,
        _ => false,
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.head {
            lock(&self.engine.state).devices.ended(id, self.attempt);
        }
    }
}

/// What the device took to its first bytes; where its head came from elsewhere, if it has one.
fn learn(
    engine: &Inner,
    attempt: AttemptId,
    contact: &Contact,
    range: &Range<u64>,
    bytes: u64,
    began: Duration,
) {
    let now = engine.costs.clock().now();
    let from = |offset: u64| contact.position.saturating_add(offset);
    let reach = from(range.start)..from(range.end);
    let mut state = lock(&engine.state);
    let since = state.devices.free_since(contact.device, attempt);
    let device = state.devices.moved_to(contact.device, &reach);
    drop(state);
    let (Some(since), Some(device)) = (since, device) else { return };
    let took = now.saturating_sub(since.max(began)).as_secs_f64();
    engine.costs.observe(&device, Observation { bytes, first_byte: Some(took), whole: took });
    let mut state = lock(&engine.state);
    if let Some(terms) = state.devices.learned(contact.device, &engine.costs) {
        state.tell(Event::DeviceMet { device: contact.device, terms }, now);
    }
}
