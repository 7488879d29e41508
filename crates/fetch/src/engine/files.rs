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
use store::{Backing, Entry, Error, Opener, Status};

use super::Inner;
use super::ahead::read_ahead;
use super::attempt::failure;
use super::item::Item;
use crate::ranges;
use crate::scheduler::{Aim, AttemptId, Contact, DeviceId, Event, Failure};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, lock};

/// Threads that open and read files of mounts that always answer.
const THREADS_MAX: usize = 8;
/// Jobs that one thread takes at a time.
const BATCH: usize = 32;
/// How long a result may wait for others of its batch.
const LINGER: Duration = Duration::from_micros(200);
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

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// By their turns: what a thread gives back comes before what is later.
    jobs: VecDeque<Job>,
    turns: u64,
    /// Whether something that was opened since the last time that nothing waited here waited for its
    /// device.
    is_slow: bool,
    idle: usize,
    threads: usize,
    processors: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(engine: Weak<Inner>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let waiting = Mutex::new(Waiting { processors, ..Waiting::default() });
        Self { queue: Arc::new(Queue { waiting, more: Condvar::default() }), engine }
    }

    /// Takes jobs on. Those of mounts that may not answer get threads of their own.
    pub(crate) fn push(&self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let Some(engine) = self.engine.upgrade() else { return };
        let (lone, common): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.item.may_stall());
        push_lone(&engine, lone);
        if !common.is_empty() {
            self.push_common(&engine, common);
        }
    }

    /// Notes that what was opened waited for its device.
    fn was_slow(&self) {
        lock(&self.queue.waiting).is_slow = true;
    }

    fn push_common(&self, engine: &Arc<Inner>, jobs: Vec<Job>) {
        let mut waiting = lock(&self.queue.waiting);
        waiting.add(jobs);
        let wanted = waiting.threads_wanted();
        let more = wanted.saturating_sub(waiting.idle).min(THREADS_MAX - waiting.threads);
        for _ in 0..more {
            let queue = Arc::clone(&self.queue);
            let engine = Weak::clone(&self.engine);
            let named = std::thread::Builder::new().name("nearfirst-files".into());
            if named.spawn(move || work(&queue, &engine)).is_ok() {
                waiting.threads += 1;
            }
        }
        if waiting.threads == 0 {
            let jobs = std::mem::take(&mut waiting.jobs);
            drop(waiting);
            return push_lone(engine, jobs);
        }
        let idle = waiting.idle;
        drop(waiting);
        for _ in 0..wanted.min(idle) {
            self.queue.more.notify_one();
        }
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

    /// A thread for each read, and for each batch of opens of one device.
    fn threads_wanted(&self) -> usize {
        let (mut wanted, mut at) = (0, 0);
        while at < self.jobs.len() && wanted < THREADS_MAX {
            at += share(self.jobs.range(at..), BATCH);
            wanted += 1;
        }
        wanted
    }

    /// A read, or an even share of the opens among processors, which are all that they need while
    /// none waits for a device. Of those that do one, so that it is asked in their order.
    fn take(&mut self, batch: &mut Vec<Job>) {
        let even = self.jobs.len().div_ceil(self.threads.min(self.processors).max(1)).min(BATCH);
        let most = if self.is_slow { 1 } else { even };
        let taken = share(self.jobs.iter(), most);
        batch.extend(self.jobs.drain(..taken));
        if self.jobs.is_empty() {
            self.is_slow = false;
        }
    }
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

/// Has each job be done by a thread of the runtime.
fn push_lone(engine: &Arc<Inner>, jobs: impl IntoIterator<Item = Job>) {
    for job in jobs {
        let engine = Arc::clone(engine);
        drop(engine.handle.clone().spawn_blocking(move || {
            let mut events = Vec::new();
            carry_out(&engine, &mut engine.costs.opener(), job, &mut events);
            engine.post(events);
        }));
    }
}

/// What one thread does until the engine ends.
fn work(queue: &Queue, engine: &Weak<Inner>) {
    store::leave_signals_to_others();
    let mut batch = Vec::with_capacity(BATCH);
    let mut events = Vec::new();
    loop {
        if batch.is_empty() {
            let mut waiting = lock(&queue.waiting);
            while waiting.jobs.is_empty() && !waiting.closed {
                waiting.idle += 1;
                waiting = queue.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                waiting.idle -= 1;
            }
            if waiting.closed {
                return;
            }
            waiting.take(&mut batch);
        }
        let Some(engine) = engine.upgrade() else { return };
        work_off(&engine, &mut batch, &mut events);
    }
}

/// Does a batch of jobs. What comes of them that this thread can do at once, without
/// waking another, is in `batch` afterwards.
fn work_off(engine: &Arc<Inner>, batch: &mut Vec<Job>, events: &mut Vec<Event>) {
    let clock = engine.costs.clock();
    let mut opener = engine.costs.opener();
    let since = clock.now();
    let mut jobs = batch.drain(..);
    let (mut opens, mut is_slow) = (false, false);
    for job in jobs.by_ref() {
        opens = job.is_open();
        carry_out(engine, &mut opener, job, events);
        is_slow = clock.now().saturating_sub(since) > LINGER;
        if is_slow {
            break;
        }
    }
    let rest: Vec<Job> = jobs.collect();
    if opens && is_slow {
        engine.pool.was_slow();
    }
    let is_slow = !rest.is_empty();
    // Others may have the rest: what is opened here waits for the device.
    engine.pool.push(rest);
    let mut found = engine.tell(events.drain(..)).finish_but_jobs();
    if !is_slow {
        let common = found.iter().take_while(|job| !job.item.may_stall());
        let kept = share(common, BATCH);
        batch.extend(found.drain(..kept));
    }
    engine.pool.push(found);
}

/// Does one job; what the scheduler is to be told of its end is added to `events`.
fn carry_out(engine: &Arc<Inner>, opener: &mut Opener<'_>, job: Job, events: &mut Vec<Event>) {
    let Job { attempt, item, aim, cancelled, .. } = job;
    if cancelled.is_set() {
        return;
    }
    let done = match aim {
        Aim::Open => {
            open(engine, opener, &item).map(|contact| Event::Contacted { attempt, contact })
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
fn open(engine: &Inner, opener: &mut Opener<'_>, item: &Item) -> Result<Contact, Error> {
    let path = item.path().expect("only files are opened");
    let (file, status) = open_wanted(engine, opener, item, path)?;
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
    item.keep_file(file, &engine.open_files, open_files_max());
    Ok(contact)
}

/// The process may change its limit at any time.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    OPEN_FILES_MAX.min(limit / OPEN_FILES_SHARE)
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

    fn taken(waiting: &mut Waiting) -> Vec<Job> {
        let mut batch = Vec::new();
        waiting.take(&mut batch);
        batch
    }

    fn numbers(jobs: &[Job]) -> Vec<u64> {
        jobs.iter().map(|job| job.attempt.0).collect()
    }

    #[test]
    fn opens_that_wait_for_a_device_are_taken_one_by_one_and_keep_their_order() {
        let mut waiting = Waiting { threads: 8, processors: 2, ..Waiting::default() };
        waiting.add(opens(10));
        let mut share = taken(&mut waiting);
        assert_eq!(numbers(&share), [1, 2, 3, 4, 5]);
        waiting.is_slow = true;
        waiting.add(share.split_off(1));
        (2..=10).for_each(|next| assert_eq!(numbers(&taken(&mut waiting)), [next]));
        waiting.add(opens(4));
        assert_eq!(taken(&mut waiting).len(), 2, "what was slow is over");
    }

    #[test]
    fn opens_do_not_wait_for_those_of_another_device() {
        let mut waiting = Waiting { threads: 8, processors: 1, ..Waiting::default() };
        waiting.add(opens_on(0, 1..=1));
        waiting.add(opens_on(1, 2..=32));
        assert_eq!(waiting.threads_wanted(), 2);
        assert_eq!(numbers(&taken(&mut waiting)), [1]);
        assert_eq!(taken(&mut waiting).len(), 31, "one device keeps its batches");
    }

    #[test]
    fn only_the_wanted_parts_of_what_is_far_are_brought() {
        let far = vec![0..10, 20..30, 40..50];
        assert_eq!(of_parts(far.clone(), &[]), far);
        assert_eq!(of_parts(far.clone(), &[5..25, 45..90]), [5..10, 20..25, 45..50]);
        assert!(of_parts(far, &[10..20]).is_empty());
    }
}
