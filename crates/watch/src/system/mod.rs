//! What all programs of this machine do: fanotify tells of opens, the process connector of the rest.
//!
//! Needs `CAP_SYS_ADMIN` (marks of whole file systems), `CAP_DAC_READ_SEARCH` (folders by their
//! handles) and `CAP_SYS_PTRACE` (what programs of others run). Nothing is held up by it: no event
//! waits for an answer. Of what is lost in either queue, [`Event::Lost`] tells.

mod apart;
mod connector;
mod fanotify;
mod groups;
mod listening;
mod loaded;
mod opens;
mod order;
mod places;
mod processes;
mod telling;
#[cfg(test)]
mod tests;
mod turned;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use store::{Costs, Kind};
use tree::{Event, Identity, User};

use crate::Source;
use apart::Apart;
use connector::{Change, Connector, Pid};
use fanotify::{Group, Record, Telling};
use groups::Groups;
use opens::{Batch, Ground, Open, Resolver};
use processes::{Here, Processes, Rights};
use turned::Turned;

pub use places::Scope;

/// Changes taken at a time; opens in about as many.
const CHANGES_MAX: usize = 4096;
/// How long who looks at a mount apart may take to tell of an open: a process that ended is told of
/// after that, so that its opens are still its own.
const APART_TELLS_WITHIN: Duration = Duration::from_millis(20);
/// How long opens are left in their queue after some were taken, unless a process begins, runs a program
/// or ends: to be woken for each would cost more than to take it.
const OPENS_PACE: Duration = Duration::from_millis(2);
/// Reads of a queue of opens at a time, each of some hundred.
const READS_MAX: usize = 16;

/// Why programs cannot be seen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel lets only root listen, or is too old.
    #[error("cannot listen to {what}: {source}; it takes root and Linux 5.9")]
    Refused {
        /// To what.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel tells of programs in the namespaces that it booted with only.
    #[error("cannot listen to processes: the kernel tells of none to {0}")]
    Apart(&'static str),
    /// A path that was asked for lies on no mount that can be found.
    #[error("{}: no file system to listen to: {}", path.display(), source.reason())]
    NoPlace {
        /// The path.
        path: PathBuf,
        /// Why none is found.
        source: store::Error,
    },
    /// What was asked for is made up by the kernel.
    #[error("{}: no file system to listen to: its files hold no data that could be fetched", path.display())]
    NoData {
        /// The path.
        path: PathBuf,
    },
    /// A file system that was asked for cannot be listened to.
    #[error("{}: its file system cannot be listened to: {source}", path.display())]
    NoMark {
        /// Where it is mounted.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Whether it may do well if it is tried again.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Refused { source, .. } => {
                let is_short = |short: Errno| source.raw_os_error() == Some(short.raw_os_error());
                [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS].into_iter().any(is_short)
            }
            Self::NoData { .. } | Self::Apart(_) => false,
            Self::NoPlace { .. } | Self::NoMark { .. } => true,
        }
    }
}

/// Sees what all programs do; of this process and what it starts, nothing is told.
///
/// Every [`Process`](tree::Process) belongs to one user: one that takes on the rights of another is
/// [`Event::Exited`], and [`Event::Found`] anew.
#[derive(Debug)]
pub struct System {
    scope: Scope,
    /// Where the file systems that were asked for are mounted.
    points: Vec<PathBuf>,
    costs: Arc<Costs>,
    connector: Connector,
    named: Group,
    /// For file systems that give no handles, or whose id is another's; made for the first of them.
    described: Option<Group>,
    apart: HashMap<PathBuf, Apart>,
    resolver: Resolver,
    watched: Vec<PathBuf>,
    /// Those that could not be listened to.
    unheard: Vec<(PathBuf, io::Error)>,
    /// All of these.
    chosen: Vec<Ground>,
    mount_table: Option<File>,
    bell: Option<OwnedFd>,
    processes: Processes,
    here: Here,
    /// The program that this process runs.
    own: Option<Identity>,
    /// Ended, and when that was told; opens of theirs may still be in a queue.
    ended: Vec<(Pid, Duration)>,
    /// Ended, and none are.
    over: Vec<Pid>,
    /// Whose first thread ended before others did, and when they were last looked at.
    outlived: HashSet<Pid>,
    outlived_at: Duration,
    /// Those that executed a program and were gone before anyone looked; what was loaded for it may
    /// still be in a queue.
    unnamed: Vec<Pid>,
    /// What was opened to be run by programs that are not told yet.
    loading: Vec<Open>,
    turned: Turned,
    groups: Groups,
    /// Whether the last look gave opens.
    is_lively: bool,
}

/// What one look into all queues gave.
#[derive(Debug, Default)]
struct Seen {
    changes: Vec<Change>,
    opens: Vec<Open>,
    lost: bool,
    /// No open that happened before the look is left in a queue.
    opens_emptied: bool,
    /// No change that did is.
    changes_emptied: bool,
}

impl System {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`Error`]; of file systems that nobody named, those that cannot be listened to are passed over.
    pub fn new(mut scope: Scope, costs: Arc<Costs>) -> Result<Self, Error> {
        scope.excluded = places::excluded(&scope, &costs);
        let points = places::points(&scope, &costs)?;
        for path in &mut scope.on {
            *path = places::real(path, &costs).unwrap_or_else(|| path.clone());
        }
        let refused = |what| move |source| Error::Refused { what, source };
        let connector = Connector::new()?;
        let named = Group::new(Telling::Name).map_err(refused("files"))?;
        let groups = Groups::new(costs.clock().clone());
        let own = std::process::id().cast_signed();
        let mut system = Self {
            resolver: Resolver { excluded: scope.excluded.clone(), ..Resolver::default() },
            scope,
            points,
            costs,
            connector,
            named,
            described: None,
            apart: HashMap::new(),
            watched: Vec::new(),
            unheard: Vec::new(),
            chosen: Vec::new(),
            mount_table: File::open("/proc/self/mountinfo").ok(),
            bell: None,
            processes: Processes::default(),
            here: Here::default(),
            own: processes::running(own).and_then(|running| running.program.identity),
            ended: Vec::new(),
            over: Vec::new(),
            outlived: HashSet::new(),
            outlived_at: Duration::ZERO,
            unnamed: Vec::new(),
            loading: Vec::new(),
            turned: Turned::default(),
            groups,
            is_lively: false,
        };
        system.processes.add(own, Rights::of(User(0)), true);
        system.listen_to_places();
        if !system.scope.on.is_empty()
            && let Some((path, source)) = system.unheard.pop()
        {
            return Err(Error::NoMark { path, source });
        }
        Ok(system)
    }

    /// What nothing is told of, by the names it was given and by those without links.
    pub(crate) fn excluded(&self) -> &[PathBuf] {
        &self.scope.excluded
    }

    /// Folders that were asked for and are no mount points, each with the one that it lies on.
    pub(crate) fn on_others(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let is_folder = |path: &Path| {
            self.costs.local().stat(path).is_ok_and(|status| status.kind == Kind::Folder)
        };
        let all = self.scope.on.iter().zip(&self.points).map(|(path, point)| (&**path, &**point));
        all.filter(move |(path, point)| path != point && is_folder(path))
    }

    /// Users whose groups are others than before, since this was asked.
    pub(crate) fn regrouped(&self) -> HashSet<User> {
        self.groups.regrouped()
    }

    /// Makes [`Source::next`] return when `bell` can be read, too.
    pub(crate) fn wake_by(&mut self, bell: OwnedFd) {
        self.bell = Some(bell);
    }

    /// Waits until something can be taken; whether what is mounted has changed.
    fn wait(&self, patience: Duration) -> io::Result<bool> {
        let mut ready: Vec<_> =
            self.mount_table.iter().map(|table| PollFd::new(table, PollFlags::PRI)).collect();
        ready.push(PollFd::new(&self.connector, PollFlags::IN));
        ready.extend(self.bell.iter().map(|bell| PollFd::new(bell, PollFlags::IN)));
        let mut patience = patience;
        if self.is_lively {
            let pace = patience.min(OPENS_PACE);
            if is_ready(&mut ready, pace)? {
                return Ok(self.are_mounts_new(&ready));
            }
            patience = patience.saturating_sub(pace);
        }
        ready.push(PollFd::new(&self.named, PollFlags::IN));
        ready.extend(self.described.iter().map(|group| PollFd::new(group, PollFlags::IN)));
        ready.extend(self.apart.values().map(|apart| PollFd::new(apart, PollFlags::IN)));
        is_ready(&mut ready, patience)?;
        Ok(self.are_mounts_new(&ready))
    }

    /// Whether the mount table, which is waited for first, says that it has changed.
    fn are_mounts_new(&self, waited_for: &[PollFd<'_>]) -> bool {
        let table = waited_for.first().filter(|_| self.mount_table.is_some());
        table.is_some_and(|table| !table.revents().is_empty())
    }

    /// Takes what is in the queues. Opens first: whatever made them possible is then in the other queue.
    fn look(&mut self) -> io::Result<Seen> {
        let mut seen = Seen { opens_emptied: true, ..Seen::default() };
        let (mut records, mut batch) = (Vec::new(), Batch::default());
        let (resolver, processes) = (&self.resolver, &self.processes);
        let is_theirs = |pid| processes.get(pid).is_none_or(|known| !known.is_ours);
        for group in std::iter::once(&mut self.named).chain(&mut self.described) {
            let mut emptied = false;
            for _ in 0..READS_MAX {
                let taken = group.take(&mut records)?;
                seen.lost |= taken.lost;
                // After each read: what holds a descriptor must not keep the next from having one.
                let theirs = |record: &Record| record.pid > 0 && is_theirs(record.pid);
                let theirs = records.drain(..).filter(theirs);
                seen.opens.extend(theirs.filter_map(|record| resolver.resolve(record, &mut batch)));
                emptied = taken.emptied;
                if emptied {
                    break;
                }
            }
            seen.opens_emptied &= emptied;
        }
        for apart in self.apart.values() {
            seen.lost |= apart.take(&mut seen.opens);
        }
        let taken = self.connector.take(CHANGES_MAX, &mut seen.changes)?;
        seen.lost |= taken.lost;
        seen.changes_emptied = taken.emptied;
        Ok(seen)
    }

    /// How long it may take until what was opened is found in a queue.
    fn opens_take(&self) -> Duration {
        if self.apart.is_empty() { Duration::ZERO } else { APART_TELLS_WITHIN }
    }
}

impl Source for System {
    fn next(&mut self, patience: Duration) -> io::Result<Vec<(Duration, Event)>> {
        // What is told of those that ended lies in the queues already.
        let patience =
            if self.ended.is_empty() { patience } else { patience.min(self.opens_take()) };
        if self.wait(patience)? {
            // What was asked for and is gone is listened to when it comes back.
            self.listen_to_places();
        }
        let seen = self.look()?;
        self.is_lively = !seen.opens.is_empty();
        let now = self.costs.clock().now();
        Ok(self.tell(seen, now).into_iter().map(|event| (now, event)).collect())
    }
}

/// Waits for one of these; whether one is ready.
fn is_ready(waited_for: &mut [PollFd<'_>], patience: Duration) -> io::Result<bool> {
    let timeout = Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    match poll(waited_for, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
