//! Directories that the walk will soon come to, opened, listed and looked into by other threads.
//!
//! The walk goes on in its own order, and asks for itself what nobody has begun when it comes there.
//! What a thread could not do is done again by the walk, which tells why it failed.

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::Statx;
use rustix::process::{Resource, getrlimit};
use store::lock;

use super::entry::{Directory, stat};
use super::expr::{Action, Expr, Test, TypeSet};
use super::listing::{Item, LISTING_BYTES, Listing, open};
use super::parse::{Follow, Parsed, STDERR};
use super::printf::Piece;
use crate::flags::processors;

/// Directories known of each that the walk is in: enough that no thread waits for the walk.
const KNOWN_MAX: usize = 32;
/// Directories listed and not come to yet: each takes up to 400 KiB.
const READY_MAX: usize = 16;
/// The same below which threads that waited go on: each wake costs as much as some files.
const READY_LOW: usize = READY_MAX / 2;
const THREADS_MAX: usize = 3;
/// Descriptors that a process must be allowed to have, so that the walk never lacks one for these.
const DESCRIPTORS_MIN: u64 = 512;

/// Which properties a walk asks for of every file of some types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    Nothing,
    Of(TypeSet),
    All,
}

impl Looks {
    /// What is asked of each file before anything else has failed for it.
    fn first_of(expr: &Expr) -> Self {
        match expr {
            Expr::Test(test) if test.needs_properties() => Self::All,
            Expr::Test(Test::Empty) => Self::Of(TypeSet::of(b"df")),
            Expr::Action(Action::Ls(_)) => Self::All,
            Expr::Action(Action::Printf(_, pieces)) => {
                let needs = |piece: &Piece| matches!(piece, Piece::Field(_, field) if field.needs_properties());
                if pieces.iter().any(needs) { Self::All } else { Self::Nothing }
            }
            Expr::And(items) => match &items[..] {
                [Expr::Test(Test::Type(types)), next, ..] => match Self::first_of(next) {
                    Self::Nothing => Self::Nothing,
                    Self::Of(others) => Self::Of(types.and(others)),
                    Self::All => Self::Of(*types),
                },
                [first, ..] => Self::first_of(first),
                [] => Self::Nothing,
            },
            Expr::Not(first) => Self::first_of(first),
            Expr::Or(items) | Expr::List(items) => {
                items.first().map_or(Self::Nothing, Self::first_of)
            }
            _ => Self::Nothing,
        }
    }

    fn includes(self, kind: u8) -> bool {
        match self {
            Self::Nothing => false,
            Self::Of(types) => types.has(kind),
            Self::All => true,
        }
    }
}

/// What was found in a directory.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) descriptor: OwnedFd,
    pub(crate) listing: Listing,
    /// Of the first items; `None` where they were not asked for, or not had.
    pub(crate) metas: Vec<Option<Statx>>,
}

impl Found {
    /// A directory of which nothing is known.
    pub(crate) fn unread(descriptor: OwnedFd) -> Self {
        Self { descriptor, listing: Listing::default(), metas: Vec::new() }
    }

    /// What a directory holds. The files of these names are not looked at: something that does not
    /// answer may be mounted there.
    fn of(
        directory: &Directory,
        name: &CStr,
        looks: Looks,
        mounts: &HashSet<Vec<u8>>,
        buffer: &mut Vec<u8>,
    ) -> Option<Self> {
        let descriptor = open(directory.as_fd(), name, false).ok()?;
        let mut listing = Listing::default();
        while !listing.ended && listing.items.is_empty() {
            listing.read_on(descriptor.as_fd(), buffer).ok()?;
        }
        let look = |item: &Item| {
            let name = listing.name(*item);
            let is_wanted = looks.includes(item.kind) && !mounts.contains(name.to_bytes());
            is_wanted.then(|| stat(descriptor.as_fd(), name, false)).and_then(Result::ok)
        };
        let metas = match looks {
            Looks::Nothing => Vec::new(),
            _ => listing.items.iter().map(look).collect(),
        };
        Some(Self { descriptor, listing, metas })
    }
}

/// A directory that the walk will come to.
#[derive(Debug)]
struct Job {
    number: u64,
    /// Of the item of the directory above.
    item: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting(Directory, CString),
    Begun,
    Done(Option<Found>),
}

#[derive(Debug, Default)]
struct Jobs {
    /// Of each directory that the walk is in, from the outermost on, in the walk's order.
    levels: Vec<VecDeque<Job>>,
    numbers: u64,
    /// Begun or done.
    ready: usize,
    /// Threads that wait.
    idle: usize,
    closed: bool,
}

impl Jobs {
    /// The next that the walk does not come to at once, to be read.
    fn begin(&mut self) -> Option<(u64, Directory, CString)> {
        if self.ready >= READY_MAX {
            return None;
        }
        let is_waiting = |job: &&mut Job| matches!(job.state, State::Waiting(..));
        // The next one is left to the walk, which would have to wait for it.
        let job = self.levels.iter_mut().rev().flatten().filter(is_waiting).nth(1)?;
        let State::Waiting(directory, name) = std::mem::replace(&mut job.state, State::Begun)
        else {
            return None;
        };
        self.ready += 1;
        Some((job.number, directory, name))
    }

    fn done(&mut self, number: u64, found: Option<Found>) {
        let mut jobs = self.levels.iter_mut().rev().flatten();
        match jobs.find(|job| job.number == number) {
            Some(job) => job.state = State::Done(found),
            // The walk has left what it was in.
            None => self.ready -= 1,
        }
    }

    /// Of what the walk passes over nothing is kept. What is begun is counted until it is done.
    fn dropped(&mut self, jobs: impl IntoIterator<Item = Job>) {
        let done = jobs.into_iter().filter(|job| matches!(job.state, State::Done(_)));
        self.ready -= done.count();
    }
}

#[derive(Debug, Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    /// Of threads: there is something to do.
    more: Condvar,
    /// Of the walk: something is done.
    done: Condvar,
}

impl Shared {
    /// What a thread does until the walk is over.
    fn work(&self, looks: Looks, mounts: &HashSet<Vec<u8>>) {
        let mut buffer = Vec::with_capacity(LISTING_BYTES);
        let mut jobs = lock(&self.jobs);
        while !jobs.closed {
            let Some((number, directory, name)) = jobs.begin() else {
                jobs.idle += 1;
                jobs = wait(&self.more, jobs);
                jobs.idle -= 1;
                continue;
            };
            drop(jobs);
            let found = Found::of(&directory, &name, looks, mounts, &mut buffer);
            drop(directory);
            jobs = lock(&self.jobs);
            jobs.done(number, found);
            self.done.notify_one();
        }
    }

    /// Wakes a thread if there is enough to do.
    fn call(&self, jobs: &Jobs) {
        if jobs.idle > 0 && jobs.ready <= READY_LOW {
            self.more.notify_one();
        }
    }
}

fn wait<'a>(on: &Condvar, jobs: MutexGuard<'a, Jobs>) -> MutexGuard<'a, Jobs> {
    on.wait(jobs).unwrap_or_else(PoisonError::into_inner)
}

/// What is done ahead of a walk. It ends with it.
#[derive(Debug)]
pub(crate) struct Ahead {
    shared: Arc<Shared>,
}

impl Ahead {
    /// Threads beside the walk; `None` where another order of calls could be noticed, or would be
    /// of no use. Under the names of `mounts` something may be mounted that does not answer.
    pub(crate) fn of(parsed: &Parsed, mounts: &Arc<HashSet<Vec<u8>>>) -> Option<Self> {
        // A directory that is pruned or elsewhere is not to be read, one that is changed by a
        // command not before, and one whose time of access is asked for not before it is told.
        let is_told_apart = parsed.one_file_system
            || parsed.follow == Follow::Always
            || parsed.outputs.len() > STDERR + 1
            || parsed.expr.changes_the_walk()
            || parsed.expr.asks_for_access_times();
        let is_short =
            getrlimit(Resource::Nofile).current.is_some_and(|most| most < DESCRIPTORS_MIN);
        let threads = processors().saturating_sub(1).min(THREADS_MAX);
        if is_told_apart || is_short || threads == 0 {
            return None;
        }
        let shared = Arc::<Shared>::default();
        let looks = Looks::first_of(&parsed.expr);
        let mut started = 0;
        for _ in 0..threads {
            let (shared, mounts) = (Arc::clone(&shared), Arc::clone(mounts));
            let named = thread::Builder::new().name("nearfirst-ahead".into());
            started += usize::from(named.spawn(move || shared.work(looks, &mounts)).is_ok());
        }
        (started > 0).then_some(Self { shared })
    }

    /// The walk has entered a directory.
    pub(crate) fn entered(&self) {
        lock(&self.shared.jobs).levels.push(VecDeque::new());
    }

    /// The walk has left the directory that it was in.
    pub(crate) fn left(&self) {
        let mut jobs = lock(&self.shared.jobs);
        let level = jobs.levels.pop().unwrap_or_default();
        jobs.dropped(level);
        self.shared.call(&jobs);
    }

    /// Forgets what was told of in the directory at this depth.
    pub(crate) fn forget(&self, depth: usize) {
        let mut jobs = lock(&self.shared.jobs);
        let level = jobs.levels.get_mut(depth).map(std::mem::take).unwrap_or_default();
        jobs.dropped(level);
    }

    /// Tells of directories in the one that the walk is in, as far as there is room: `next` gives
    /// their items' numbers and names.
    pub(crate) fn tell(
        &self,
        directory: &Directory,
        mut next: impl FnMut() -> Option<(usize, CString)>,
    ) {
        let mut jobs = lock(&self.shared.jobs);
        let jobs = &mut *jobs;
        let Some(level) = jobs.levels.last_mut() else { return };
        while level.len() < KNOWN_MAX
            && let Some((item, name)) = next()
        {
            jobs.numbers += 1;
            let state = State::Waiting(directory.clone(), name);
            level.push_back(Job { number: jobs.numbers, item, state });
        }
        self.shared.call(jobs);
    }

    /// What was found in the directory that is this item of the one that the walk is in; `None`:
    /// the walk is to look itself.
    pub(crate) fn take(&self, item: usize) -> Option<Found> {
        let mut jobs = lock(&self.shared.jobs);
        loop {
            let level = jobs.levels.last_mut()?;
            let passed = level.iter().take_while(|job| job.item < item).count();
            let passed: Vec<_> = level.drain(..passed).collect();
            let is_begun = match level.front() {
                Some(job) if job.item == item => matches!(job.state, State::Begun),
                _ => {
                    jobs.dropped(passed);
                    return None;
                }
            };
            let job = if is_begun { None } else { level.pop_front() };
            jobs.dropped(passed);
            match job.map(|job| job.state) {
                None => jobs = wait(&self.shared.done, jobs),
                Some(State::Done(found)) => {
                    jobs.ready -= 1;
                    self.shared.call(&jobs);
                    return found;
                }
                Some(State::Waiting(..) | State::Begun) => return None,
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        lock(&self.shared.jobs).closed = true;
        self.shared.more.notify_all();
    }
}
