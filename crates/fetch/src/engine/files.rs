//! Files of this machine: opened, and read ahead into the page cache, by threads.

use std::collections::VecDeque;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use rustix::process::Resource;
use sled::Place;
use store::{Backing, Clock, Entry, Error, Opener, Status};

use super::Inner;
use super::ahead::read_ahead;
use super::attempt::failure;
use super::item::Item;
use crate::ranges;
use crate::scheduler::{Aim, AttemptId, Contact, DeviceId, Event, Failure};
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, lock};

/// Threads that open and read files of mounts that always answer.
const THREADS_MAX: usize = 8;
/// Jobs that one thread takes at a time.
const BATCH: usize = 32;
/// Fewer opens than these are not worth another thread, while none waits for a device.
const BATCH_MIN: usize = 8;
/// How long an open may take that waits for no device.
const SLOW: Duration = Duration::from_micros(200);
/// So many opens that took no longer, one after the other, say that the next need not either.
const QUICK_RUN: usize = 16;
/// How long a result may wait for others of its batch; a thread that was not heard of for so long
/// waits for a device.
const LINGER: Duration = Duration::from_millis(1);
/// Descriptors that may be held for members that were not asked for yet: so many, or this share of
/// those that the process may have. Beyond it a file is opened again when its reader comes.
const OPEN_FILES_MAX: usize = 512;
const OPEN_FILES_SHARE: usize = 4;

/// Something to do with a file.
pub(crate) struct Job {
    pub(crate) attempt: AttemptId,
    pub(crate) item: Arc<Item>,
    pub(crate) aim: Aim,
    pub(crate) cancelled: Cancelled,
    /// When it was first given to the pool, among others; 0: it was not.
    pub(crate) turn: u64,
}

impl Job {
    fn is_open(&self) -> bool {
        self.aim == Aim::Open
    }

    /// Where it lies, as far as its name tells.
    fn device(&self) -> Option<DeviceId> {
        self.item.device.as_ref().map(|(_, id)| *id)
    }
}

/// How many of the first jobs, at most so many, one thread does one after the other: a read, or
/// opens of one device, so that none waits for a slower one.
fn share<'a>(mut jobs: impl Iterator<Item = &'a Job>, most: usize) -> usize {
    let Some(first) = jobs.next() else { return 0 };
    let is_like_first = |job: &&Job| job.is_open() && job.device() == first.device();
    let more = if first.is_open() { most - 1 } else { 0 };
    1 + jobs.take(more).take_while(is_like_first).count()
}

/// Says to a thread that its attempt is of no use any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The threads, and what waits for them.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    engine: Weak<Inner>,
}

struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
    clock: Clock,
}

#[derive(Default)]
struct Waiting {
    /// By their turns: what a thread gives back comes before what is later.
    jobs: VecDeque<Job>,
    turns: u64,
    /// Of each thread that has a batch of opens.
    opening: Vec<Opening>,
    /// How many opens more must be quick before they are taken for such: 0 until one was not.
    to_prove: usize,
    threads: usize,
    /// Threads that have nothing to do and were not called.
    idle: usize,
    /// Calls that no thread has answered yet.
    calls: usize,
    processors: usize,
    closed: bool,
}

/// A batch of opens: of which device, and when it was taken.
#[derive(Clone, Copy, PartialEq)]
struct Opening {
    device: Option<DeviceId>,
    since: Duration,
}

impl Pool {
    pub(crate) fn new(engine: Weak<Inner>, clock: Clock) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let waiting = Mutex::new(Waiting { processors, ..Waiting::default() });
        Self { queue: Arc::new(Queue { waiting, more: Condvar::default(), clock }), engine }
    }

    /// Takes jobs on. Those of mounts that may not answer get threads of their own.
    pub(crate) fn push(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let Some(engine) = self.engine.upgrade() else { return };
        let common = push_lone(&engine, jobs);
        if !common.is_empty() {
            let mut waiting = lock(&self.queue.waiting);
            waiting.add(common);
            self.call(&engine, waiting);
        }
    }

    /// A thread takes of what waits, and calls others for the rest; if there is nothing, it is idle.
    fn go_on(
        &self,
        engine: &Arc<Inner>,
        mut waiting: MutexGuard<'_, Waiting>,
        batch: &mut Vec<Job>,
    ) -> Option<Opening> {
        if waiting.jobs.is_empty() {
            waiting.idle += 1;
            return None;
        }
        let opening = waiting.take(batch, self.queue.clock.now());
        if !waiting.jobs.is_empty() {
            self.call(engine, waiting);
        }
        opening
    }

    /// Calls threads for what waits, as many as it is worth.
    fn call(&self, engine: &Arc<Inner>, mut waiting: MutexGuard<'_, Waiting>) {
        let wanted = waiting.threads_wanted(self.queue.clock.now());
        let wanted = wanted.saturating_sub(waiting.calls);
        let more = wanted.saturating_sub(waiting.idle).min(THREADS_MAX - waiting.threads);
        for _ in 0..more {
            let queue = Arc::clone(&self.queue);
            let engine = Weak::clone(&self.engine);
            let named = std::thread::Builder::new().name("nearfirst-files".into());
            if named.spawn(move || work(&queue, &engine)).is_ok() {
                waiting.threads += 1;
                waiting.idle += 1;
            }
        }
        if waiting.threads == 0 {
            let jobs = std::mem::take(&mut waiting.jobs);
            drop(waiting);
            jobs.into_iter().for_each(|job| spawn_lone(engine, job));
            return;
        }
        let called = wanted.min(waiting.idle);
        waiting.idle -= called;
        waiting.calls += called;
        drop(waiting);
        for _ in 0..called {
            self.queue.more.notify_one();
        }
    }
}

impl Queue {
    /// A thread that is counted as idle waits for a call; `false` once all is over.
    fn is_called(&self) -> bool {
        let mut waiting = lock(&self.waiting);
        while waiting.calls == 0 && !waiting.closed {
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.calls = waiting.calls.saturating_sub(1);
        !waiting.closed
    }
}

impl Waiting {
    fn add(&mut self, jobs: Vec<Job>) {
        for mut job in jobs {
            if job.turn > 0 {
                let at = self.jobs.partition_point(|other| other.turn < job.turn);
                self.jobs.insert(at, job);
                continue;
            }
            self.turns += 1;
            job.turn = self.turns;
            self.jobs.push_back(job);
        }
    }

    /// How many opens one thread takes at most.
    fn opens_max(&self) -> usize {
        if self.to_prove > 0 { 1 } else { BATCH }
    }

    /// A thread for each read, and for each batch of opens of one device. While those wait for no
    /// device no more than processors, and for a few none but the one that is at it.
    fn threads_wanted(&self, now: Duration) -> usize {
        let (mut wanted, mut at) = (0, 0);
        let mut called = Vec::new();
        while at < self.jobs.len() && wanted < THREADS_MAX {
            let first = &self.jobs[at];
            let jobs = share(self.jobs.range(at..), self.opens_max());
            at += jobs;
            if first.is_open() && self.to_prove == 0 {
                let device = first.device();
                let called_so = called.iter().filter(|other| **other == device).count();
                let busy = self.busy_opening(device, now) + called_so;
                if busy >= self.processors || (busy > 0 && jobs < BATCH_MIN) {
                    continue;
                }
                called.push(device);
            }
            wanted += 1;
        }
        wanted
    }

    /// Threads that open files of a device and that are not known to wait for it.
    fn busy_opening(&self, device: Option<DeviceId>, now: Duration) -> usize {
        let is_busy = |opening: &&Opening| {
            opening.device == device && now.saturating_sub(opening.since) <= LINGER
        };
        self.opening.iter().filter(is_busy).count()
    }

    /// A read, or an even share of the opens among processors, which are all that they need while
    /// none waits for a device. Of those that do one, so that it is asked in their order.
    fn take(&mut self, batch: &mut Vec<Job>, now: Duration) -> Option<Opening> {
        let even = self.jobs.len().div_ceil(self.threads.min(self.processors).max(1));
        let most = even.max(BATCH_MIN).min(self.opens_max());
        let taken = share(self.jobs.iter(), most);
        batch.extend(self.jobs.drain(..taken));
        let first = batch.first().filter(|first| first.is_open())?;
        let opening = Opening { device: first.device(), since: now };
        self.opening.push(opening);
        Some(opening)
    }

    /// Notes how a batch of opens went, all of it or as far as its thread came.
    fn ended(&mut self, opening: Opening, pace: Pace) {
        let at = self.opening.iter().position(|other| *other == opening);
        self.opening.swap_remove(at.expect("it was taken"));
        self.to_prove = match pace {
            Pace::Quick(opens) => self.to_prove.saturating_sub(opens),
            Pace::Slow => QUICK_RUN,
        };
    }
}

/// How a batch of opens went: so many of them were quick, or the last waited for its device.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    Quick(usize),
    Slow,
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut waiting = lock(&self.queue.waiting);
        waiting.closed = true;
        let jobs = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        drop(jobs);
        self.queue.more.notify_all();
    }
}

/// Has a thread of the runtime do each job of a mount that may not answer; the others are returned.
fn push_lone(engine: &Arc<Inner>, jobs: Vec<Job>) -> Vec<Job> {
    let (lone, common) = jobs.into_iter().partition::<Vec<_>, _>(|job| job.item.may_stall());
    lone.into_iter().for_each(|job| spawn_lone(engine, job));
    common
}

fn spawn_lone(engine: &Arc<Inner>, job: Job) {
    let engine = Arc::clone(engine);
    drop(engine.handle.clone().spawn_blocking(move || {
        let mut events = Vec::new();
        carry_out(&engine, &mut Opens::new(&engine), job, &mut events);
        engine.post(events);
    }));
}

/// What one thread does until the engine ends.
fn work(queue: &Queue, engine: &Weak<Inner>) {
    store::leave_signals_to_others();
    let mut batch = Vec::with_capacity(BATCH);
    let mut events = Vec::new();
    while queue.is_called() {
        let Some(engine) = engine.upgrade() else { return };
        let mut opening = engine.pool.go_on(&engine, lock(&queue.waiting), &mut batch);
        while !batch.is_empty() {
            opening = work_off(&engine, &mut batch, &mut events, opening);
        }
    }
}

/// Does a batch of jobs. What this thread can do at once, without waking another, is in `batch`
/// afterwards.
fn work_off(
    engine: &Arc<Inner>,
    batch: &mut Vec<Job>,
    events: &mut Vec<Event>,
    mut opening: Option<Opening>,
) -> Option<Opening> {
    let pool = &engine.pool;
    let clock = engine.costs.clock();
    let mut opens = Opens::new(engine);
    let mut jobs = batch.drain(..);
    let begin = clock.now();
    let (mut since, mut pace) = (begin, Pace::Quick(0));
    for (number, job) in jobs.by_ref().enumerate() {
        carry_out(engine, &mut opens, job, events);
        let now = clock.now();
        let is_slow = opening.is_some() && now.saturating_sub(since) > SLOW;
        pace = if is_slow { Pace::Slow } else { Pace::Quick(number + 1) };
        if is_slow || now.saturating_sub(begin) > LINGER {
            break;
        }
        since = now;
    }
    drop(opens);
    let rest: Vec<Job> = jobs.collect();
    if pace == Pace::Slow || !rest.is_empty() {
        // Others may have the rest: what is opened here waits for the device.
        let mut waiting = lock(&pool.queue.waiting);
        if let Some(opening) = opening.take() {
            waiting.ended(opening, pace);
        }
        waiting.add(rest);
        pool.call(engine, waiting);
    }
    let found = engine.tell(events.drain(..)).finish_but_jobs();
    let common = push_lone(engine, found);
    let mut waiting = lock(&pool.queue.waiting);
    if let Some(opening) = opening {
        waiting.ended(opening, pace);
    }
    waiting.add(common);
    pool.go_on(engine, waiting, batch)
}

/// What a batch of opens shares.
struct Opens<'a> {
    opener: Opener<'a>,
    /// Descriptors that may be held: the process may change its limit at any time.
    held_max: usize,
}

impl<'a> Opens<'a> {
    fn new(engine: &'a Inner) -> Self {
        let limit = rustix::process::getrlimit(Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let held_max = OPEN_FILES_MAX.min(limit / OPEN_FILES_SHARE);
        Self { opener: engine.costs.opener(), held_max }
    }
}

/// Does one job; what the scheduler is to be told of its end is added to `events`.
fn carry_out(engine: &Arc<Inner>, opens: &mut Opens<'_>, job: Job, events: &mut Vec<Event>) {
    let Job { attempt, item, aim, cancelled, .. } = job;
    if cancelled.is_set() {
        return;
    }
    let done = match aim {
        Aim::Open => {
            open(engine, opens, &item).map(|contact| Event::Contacted { attempt, contact })
        }
        Aim::Fetch(range) => read_ahead(engine, attempt, &item, range, &cancelled, events)
            .map(|()| Event::Finished { attempt }),
    };
    events.push(match done {
        Ok(event) => event,
        Err(error) => {
            // What nobody asked for is not worth another attempt.
            let failure = if item.is_guess { Failure::Final } else { failure(&error) };
            item.set_error(error);
            Event::Failed { attempt, failure }
        }
    });
}

/// Opens a file and finds what is far of it.
fn open(engine: &Inner, opens: &mut Opens<'_>, item: &Item) -> Result<Contact, Error> {
    let path = item.path().expect("only files are opened");
    let (file, status) = open_wanted(engine, &mut opens.opener, item, path)?;
    item.pin(&Entry::of_file(item.name(), &status))?;
    let is_told = status.size > 0 || status.backing != Backing::Pseudo;
    if is_told && status.size < item.start() {
        return Err(Error::Changed { name: item.name() });
    }
    if status.backing.may_stall() {
        item.found_to_stall();
    }
    let far = of_parts(far(engine, path, &file, &status)?, &item.parts);
    let (device, by_position) = match &item.device {
        Some((device, id)) if far.is_empty() && *device == status.device => (*id, false),
        _ => {
            let mut state = lock(&engine.state);
            let id = engine.met(&mut state, &status.device);
            (id, !far.is_empty() && state.devices.has_head(id))
        }
    };
    // Where the file system does not tell, inodes lie near their data.
    let inode = || file.metadata().map_or(0, |metadata| metadata.ino());
    let position = if by_position {
        store::disk_position(&file).ok().flatten().unwrap_or_else(inode)
    } else {
        0
    };
    let contact = Contact { device, size: Some(status.size), far, covers: 0..0, position };
    item.set_contact(contact.clone());
    item.keep_file(file, &engine.open_files, opens.held_max);
    Ok(contact)
}

/// Opens a file to read it; one that nobody asked for only after a look at what it is.
pub(super) fn open_wanted(
    engine: &Inner,
    opener: &mut Opener<'_>,
    item: &Item,
    path: &Path,
) -> Result<(File, Status), Error> {
    if item.is_guess { engine.costs.open_harmless(path) } else { opener.open_regular(path) }
}

/// What of `ranges` lies in `parts`; both in file order. Without parts, all.
fn of_parts(ranges: Vec<Range<u64>>, parts: &[Range<u64>]) -> Vec<Range<u64>> {
    if parts.is_empty() {
        return ranges;
    }
    ranges.iter().flat_map(|range| ranges::within(parts, range)).collect()
}

/// The ranges that are not in memory; of what the kernel does not tell, all.
fn far(
    engine: &Inner,
    path: &Path,
    file: &File,
    status: &Status,
) -> Result<Vec<Range<u64>>, Error> {
    let local = engine.costs.local();
    if status.backing == Backing::Memory || local.is_wholly_near(file, status.size) {
        return Ok(Vec::new());
    }
    let located = local.locate(file).map_err(|source| Error::io(path, source))?;
    let far = located.extents.into_iter().filter(|extent| extent.place != Place::Near);
    Ok(far.map(|extent| extent.offset..extent.offset + extent.length).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]

    use std::ops::RangeInclusive;

    use sled::Device;
    use store::Name;

    use super::super::item::Source;
    use super::*;

    fn opens(count: u64) -> Vec<Job> {
        opens_on(0, 1..=count)
    }

    fn opens_on(device: u32, numbers: RangeInclusive<u64>) -> Vec<Job> {
        let device = (Device::new("d"), DeviceId(device));
        let entry = Entry::named(Name::from(Path::new("/a")));
        let item = || Item::new(0, entry.clone(), Source::Nowhere, Some(device.clone()));
        let job = |number| Job {
            attempt: AttemptId(number),
            item: Arc::new(item()),
            aim: Aim::Open,
            cancelled: Cancelled::default(),
            turn: 0,
        };
        numbers.map(job).collect()
    }

    const NOW: Duration = Duration::ZERO;

    /// What a thread takes.
    fn taken(waiting: &mut Waiting) -> (Vec<Job>, Option<Opening>) {
        let mut batch = Vec::new();
        let opening = waiting.take(&mut batch, NOW);
        (batch, opening)
    }

    fn numbers(jobs: &[Job]) -> Vec<u64> {
        jobs.iter().map(|job| job.attempt.0).collect()
    }

    #[test]
    fn opens_that_wait_for_a_device_are_taken_one_by_one_and_keep_their_order() {
        let mut waiting = Waiting { threads: 8, processors: 2, ..Waiting::default() };
        waiting.add(opens(20));
        let (mut share, opening) = taken(&mut waiting);
        assert_eq!(numbers(&share), (1..=10).collect::<Vec<_>>());
        waiting.ended(opening.unwrap(), Pace::Slow);
        waiting.add(share.split_off(1));
        assert_eq!(waiting.threads_wanted(NOW), THREADS_MAX);
        for next in 2..=17 {
            let (share, opening) = taken(&mut waiting);
            assert_eq!(numbers(&share), [next]);
            waiting.ended(opening.unwrap(), Pace::Quick(1));
        }
        assert_eq!(numbers(&taken(&mut waiting).0), [18, 19, 20], "they are quick again");
    }

    #[test]
    fn quick_opens_get_no_more_threads_than_are_worth_it() {
        let mut waiting = Waiting { threads: 8, processors: 2, ..Waiting::default() };
        waiting.add(opens(8));
        assert_eq!(waiting.threads_wanted(NOW), 1);
        let (share, _) = taken(&mut waiting);
        assert_eq!(share.len(), 8, "a few go together");
        waiting.add(opens(7));
        assert_eq!(waiting.threads_wanted(NOW), 0, "they wait for the one that is at it");
        assert_eq!(waiting.threads_wanted(2 * LINGER), 1, "not where that waits itself");
        waiting.add(opens(200));
        assert_eq!(waiting.threads_wanted(NOW), 1, "as many as processors");
    }

    #[test]
    fn opens_do_not_wait_for_those_of_another_device() {
        let mut waiting = Waiting { threads: 8, processors: 1, ..Waiting::default() };
        waiting.add(opens_on(0, 1..=1));
        waiting.add(opens_on(1, 2..=32));
        assert_eq!(waiting.threads_wanted(NOW), 2);
        assert_eq!(numbers(&taken(&mut waiting).0), [1]);
        assert_eq!(waiting.threads_wanted(NOW), 1);
        assert_eq!(taken(&mut waiting).0.len(), 31, "one device keeps its batches");
    }

    #[test]
    fn only_the_wanted_parts_of_what_is_far_are_brought() {
        let far = vec![0..10, 20..30, 40..50];
        assert_eq!(of_parts(far.clone(), &[]), far);
        assert_eq!(of_parts(far.clone(), &[5..25, 45..90]), [5..10, 20..25, 45..50]);
        assert!(of_parts(far, &[10..20]).is_empty());
    }
}
