//! Files of this machine: opened, and read ahead into the page cache.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Resource;
use store::{Backing, Entry, Error, Opener, Status};

use super::Inner;
use super::ahead::read_ahead;
use super::attempt::failure;
use super::item::Item;
use crate::apart::panicked;
use crate::ranges;
use crate::scheduler::{Aim, AttemptId, Contact, DeviceId, Event, Failure};
use crate::sync::{AtomicBool, Ordering, lock};

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
    /// When the scheduler asked for it.
    pub(crate) since: Duration,
    /// When it was first given to the pool, among others; 0: it was not.
    pub(crate) turn: u64,
}

impl Job {
    pub(super) fn is_open(&self) -> bool {
        self.aim == Aim::Open
    }

    /// Where it lies, as far as its name tells.
    pub(super) fn device(&self) -> Option<DeviceId> {
        self.item.device.as_ref().map(|(_, id)| *id)
    }
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

/// What a batch of opens shares.
pub(super) struct Opens<'a> {
    opener: Opener<'a>,
    /// Descriptors that may be held: the process may change its limit at any time.
    held_max: usize,
}

impl<'a> Opens<'a> {
    pub(super) fn new(engine: &'a Inner) -> Self {
        let limit = rustix::process::getrlimit(Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let held_max = OPEN_FILES_MAX.min(limit / OPEN_FILES_SHARE);
        Self { opener: engine.costs.opener(), held_max }
    }
}

/// Does one job; what the scheduler is to be told of its end is added to `events`.
/// `false` where it is of no use any more.
pub(super) fn carry_out(
    engine: &Arc<Inner>,
    opens: &mut Opens<'_>,
    job: Job,
    events: &mut Vec<Event>,
) -> bool {
    let Job { attempt, item, aim, cancelled, .. } = job;
    if cancelled.is_set() {
        return false;
    }
    let is_told = |contact| Event::Contacted { attempt, contact };
    let done = catch_unwind(AssertUnwindSafe(|| match aim {
        Aim::Open => open(engine, opens, &item).map(is_told),
        Aim::Fetch(range) => read_ahead(engine, attempt, &item, range, &cancelled, events)
            .map(|()| Event::Finished { attempt }),
    }));
    // Its thread goes on with others; who waits for this one is to hear of it.
    let done = done.unwrap_or_else(|_| {
        let path = item.path().unwrap_or_else(|| Path::new(""));
        Err(Error::io(path, panicked()))
    });
    events.push(match done {
        Ok(event) => event,
        Err(error) => {
            // What nobody asked for is not worth another attempt.
            let failure = if item.is_guess { Failure::Final } else { failure(&error) };
            item.set_error(error);
            Event::Failed { attempt, failure }
        }
    });
    true
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
    let far = engine.costs.local().far_ranges(&file, &status);
    let far = of_parts(far.map_err(|source| Error::io(path, source))?, &item.parts);
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

#[cfg(test)]
mod tests {
    #![expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]

    use store::{Clock, Costs, Local, Name, Stores, StoresOptions, TableFiles};

    use super::super::item::Source;
    use super::super::{Engine, EngineOptions};
    use super::*;

    #[test]
    fn a_job_that_panics_is_one_that_failed() {
        let costs = Costs::with(Local::default(), TableFiles::default(), Clock::real());
        let costs = Arc::new(costs);
        let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
        let engine = Engine::new(stores, costs, EngineOptions::default()).expect("threads");
        let entry = Entry::named(Name::from(Path::new("/a")));
        let item = Arc::new(Item::new(0, entry, Source::Nowhere, None));
        let job = Job {
            attempt: AttemptId(1),
            item: Arc::clone(&item),
            aim: Aim::Open,
            cancelled: Cancelled::default(),
            since: Duration::ZERO,
            turn: 0,
        };
        let mut events = Vec::new();
        assert!(carry_out(&engine.0, &mut Opens::new(&engine.0), job, &mut events));
        let failed = Event::Failed { attempt: AttemptId(1), failure: Failure::Final };
        assert_eq!(events, [failed]);
        let reason = item.error().expect("it is blamed").reason();
        assert_eq!(reason, "the thread that read it panicked");
    }

    #[test]
    fn only_the_wanted_parts_of_what_is_far_are_brought() {
        let far = vec![0..10, 20..30, 40..50];
        assert_eq!(of_parts(far.clone(), &[]), far);
        assert_eq!(of_parts(far.clone(), &[5..25, 45..90]), [5..10, 20..25, 45..50]);
        assert!(of_parts(far, &[10..20]).is_empty());
    }
}
