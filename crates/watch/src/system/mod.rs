//! What all programs of this machine do: fanotify tells of opens, the process connector of the rest.
//!
//! Needs `CAP_SYS_ADMIN` (marks of whole file systems), `CAP_DAC_READ_SEARCH` (folders by their
//! handles) and `CAP_SYS_PTRACE` (what programs of others run). Nothing is held up by it: no event
//! waits for an answer. Of what is lost in either queue, [`Event::Lost`] tells.

mod apart;
mod connector;
mod fanotify;
mod groups;
mod loaded;
mod opens;
mod order;
mod places;
mod processes;
#[cfg(test)]
mod tests;
mod turned;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use store::{Costs, Mounts};
use tree::{Event, Identity, Process, User};

use crate::Source;
use apart::Apart;
use connector::{Change, Connector, Pid};
use fanotify::{Group, Record, Telling, What};
use groups::Groups;
use loaded::{folder_by, program_of};
use opens::{Batch, Ground, Open, Resolver};
use order::{Step, ordered};
use places::{Place, chosen};
use processes::{Here, Processes, Rights, Running};
use turned::Turned;

pub use places::Scope;

/// Changes taken at a time; opens in about as many.
const CHANGES_MAX: usize = 4096;
/// Files kept that were opened to be run by programs that are not told yet: as many as begin at a time.
const LOADING_MAX: usize = 4096;
/// How long who looks at a mount apart may take to tell of an open: a process that ended is told of
/// after that, so that its opens are still its own.
const APART_TELLS_WITHIN: Duration = Duration::from_millis(20);
/// How often it is looked whether processes whose first thread has ended live on, beside whenever a thread
/// of theirs ends: one that is traced stays until its tracer has heard of its end.
const OUTLIVED_EVERY: Duration = Duration::from_secs(1);
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
    /// A path that was asked for lies on no mount that can be found.
    #[error("{}: no file system to listen to: {why}", path.display())]
    NoPlace {
        /// The path.
        path: PathBuf,
        /// Why none is found.
        why: String,
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

/// Sees what all programs do; of this process and what it starts, nothing is told.
///
/// Every [`Process`] belongs to one user: one that takes on the rights of another is
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
    chosen: Vec<PathBuf>,
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

/// What is known after a look of the rights of those whose program or groups changed.
#[derive(Debug, Default)]
struct Since {
    /// Of those that are still there.
    rights: HashMap<Pid, Rights>,
    /// Whose program gave capabilities.
    capable: HashSet<Pid>,
}

impl System {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`Error`]; of file systems that nobody named, those that cannot be listened to are passed over.
    pub fn new(mut scope: Scope, costs: Arc<Costs>) -> Result<Self, Error> {
        scope.excluded = places::excluded(&scope, &costs);
        let points = places::points(&scope, &costs)
            .map_err(|(path, error)| Error::NoPlace { path, why: error.reason() })?;
        for path in &mut scope.on {
            *path = places::real(path, &costs).unwrap_or_else(|| path.clone());
        }
        let refused = |what| move |source| Error::Refused { what, source };
        let connector = Connector::new().map_err(refused("processes"))?;
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

    /// Where the file systems are mounted that are listened to, or are going to be when they answer.
    pub fn watched(&self) -> impl Iterator<Item = &Path> {
        let hears = |point: &&Path| self.apart.get(*point).is_none_or(|it| it.failure().is_none());
        self.watched.iter().map(PathBuf::as_path).filter(hears)
    }

    /// Where the file systems are mounted that should be listened to and are not, and why.
    pub fn unheard(&self) -> impl Iterator<Item = (&Path, String)> {
        let refused = self.unheard.iter().map(|(path, error)| (&**path, error.to_string()));
        let apart = self.apart.iter().filter_map(|(path, apart)| {
            let why = apart.failure().map(ToString::to_string);
            let why = why.or_else(|| (!apart.listens()).then(|| "it has not answered yet".into()));
            Some((&**path, why?))
        });
        refused.chain(apart)
    }

    /// What nothing is told of, by the names it was given and by those without links.
    pub(crate) fn excluded(&self) -> &[PathBuf] {
        &self.scope.excluded
    }

    /// Users whose groups are others than before, since this was asked.
    pub(crate) fn regrouped(&self) -> HashSet<User> {
        self.groups.regrouped()
    }

    /// Makes [`Source::next`] return when `bell` can be read, too.
    pub fn wake_by(&mut self, bell: OwnedFd) {
        self.bell = Some(bell);
    }

    /// Chooses the file systems anew that are worth it, by what their devices take; whether these are others.
    /// If so, what is opened in this moment is not told.
    pub fn choose_anew(&mut self, costs: Arc<Costs>) -> bool {
        self.costs = costs;
        if !self.scope.on.is_empty() {
            return false;
        }
        let mounts = Mounts::read().unwrap_or_default();
        let places = places::places(&self.scope, &self.points, &mounts, &self.costs);
        if chosen(&places).eq(&self.chosen) {
            return false;
        }
        for group in std::iter::once(&self.named).chain(&self.described) {
            group.unmark_all();
        }
        self.listen_to_places();
        true
    }

    /// Listens to what of the scope is mounted now.
    fn listen_to_places(&mut self) {
        let mounts = Arc::new(Mounts::read().unwrap_or_default());
        places::move_on(&mut self.points, &self.scope, &mounts);
        let mut places = places::places(&self.scope, &self.points, &mounts, &self.costs);
        self.resolver.mounts = mounts;
        self.here.clear();
        self.watched.clear();
        self.unheard.clear();
        self.chosen = chosen(&places).cloned().collect();
        // What is in the queue of one that has a copy would be taken to have happened on the copy.
        let known: HashSet<_> =
            self.resolver.grounds.drain().map(|(_, ground)| ground.device).collect();
        places.sort_by_key(|place| !known.contains(&place.ground.device));
        // Another mount at the same point is another place.
        self.apart.retain(|_, apart| {
            apart.failure().is_none() && places.iter().any(|place| place.ground == *apart.ground())
        });
        for place in places {
            let (point, what) = (place.ground.point.clone(), place.ground.what);
            match self.listen_to(place) {
                Ok(()) if what == What::Opens => self.watched.push(point),
                Ok(()) => {}
                // Programs there are known as long as they live.
                Err(_) if what == What::Programs => {}
                Err(source) => self.unheard.push((point, source)),
            }
        }
    }

    fn listen_to(&mut self, place: Place) -> io::Result<()> {
        let Place { ground, may_stall } = place;
        if may_stall {
            if let Entry::Vacant(entry) = self.apart.entry(ground.point.clone()) {
                entry.insert(Apart::new(ground, self.resolver.clone())?);
            }
            return Ok(());
        }
        opens::ensure_reached(&ground)?;
        match self.listen_by_name(&ground) {
            Err(_) if ground.what == What::Opens => {
                if self.described.is_none() {
                    self.described = Some(Group::new(Telling::Descriptor)?);
                }
                let described = self.described.as_ref().expect("just made");
                described.mark(&ground.point, ground.what)
            }
            marked => marked,
        }
    }

    fn listen_by_name(&mut self, ground: &Ground) -> io::Result<()> {
        let id = fanotify::file_system_id(&ground.point)?;
        if self.resolver.grounds.contains_key(&id) {
            // What happens on a copy of a file system would be taken to happen on the other.
            self.named.unmark(&ground.point);
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.named.mark(&ground.point, ground.what)?;
        self.described.iter().for_each(|described| described.unmark(&ground.point));
        self.resolver.grounds.insert(id, ground.clone());
        Ok(())
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

    fn tell(&mut self, seen: Seen, now: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        if seen.lost {
            self.processes.clear();
            self.ended.clear();
            self.outlived.clear();
            self.unnamed.clear();
            self.loading.clear();
            self.turned.lost();
            events.push(Event::Lost { process: None });
        }
        self.turned.look(&seen.changes, &self.processes);
        // Opens are looked at first: what is told of a process that ends in this look, it may have
        // opened since.
        if seen.opens_emptied {
            let late = self.opens_take();
            let over = self.ended.extract_if(.., |(_, at)| now.saturating_sub(*at) >= late);
            for (pid, _) in over {
                if self.processes.get(pid).is_none() || processes::has_ended(pid) {
                    self.over.push(pid);
                } else {
                    self.outlived.insert(pid);
                }
            }
        }
        let mut ends = HashSet::new();
        if now.saturating_sub(self.outlived_at) >= OUTLIVED_EVERY {
            self.outlived_at = now;
            ends.extend(self.outlived.drain());
        }
        for change in &seen.changes {
            match *change {
                Change::Exited { pid } => drop(ends.insert(pid)),
                Change::ThreadExited { pid } => ends.extend(self.outlived.take(&pid)),
                // The pid is used again.
                Change::Forked { child, .. } => {
                    ends.remove(&child);
                    self.outlived.remove(&child);
                }
                // Another thread took the place of the first.
                Change::Executed { pid } => {
                    ends.remove(&pid);
                    self.outlived.remove(&pid);
                    self.ended.retain(|&(ended, _)| ended != pid);
                }
                Change::BecameUser { .. } | Change::BecameGroup { .. } => {}
            }
        }
        let ended = self.ended.iter().map(|(pid, _)| pid);
        let ended: HashSet<Pid> = ends.iter().chain(ended).chain(&self.over).copied().collect();
        let unnamed = std::mem::take(&mut self.unnamed);
        let mut late = unnamed.len();
        let unnamed = unnamed.into_iter().map(|pid| Change::Executed { pid });
        let changes: Vec<Change> = unnamed.chain(seen.changes).collect();
        let mut opens = std::mem::take(&mut self.loading);
        opens.extend(seen.opens);
        let since = self.rights_since(&changes, &opens);
        for step in ordered(&changes, opens, &mut self.loading) {
            match step {
                Step::Changed(Change::Forked { parent, child }) => {
                    self.forked(parent, child, &mut events);
                }
                Step::Changed(Change::BecameUser { pid, user }) => {
                    self.became(pid, User(user), &mut events);
                }
                Step::Changed(Change::BecameGroup { pid, groups }) => {
                    self.has_rights(pid, &since, &groups);
                }
                Step::Executed { pid, loaded } => {
                    let running = if ended.contains(&pid) { None } else { processes::running(pid) };
                    let running =
                        running.filter(|it| self.here.has(pid, &it.program, &self.resolver.mounts));
                    let is_named = self.executed(pid, running, loaded, &mut events);
                    self.has_rights(pid, &since, &[]);
                    let is_late = late > 0;
                    late = late.saturating_sub(1);
                    if !(is_named || is_late && seen.opens_emptied) {
                        self.unnamed.push(pid);
                    }
                }
                Step::Opened(open) => self.opened(open, &mut events),
                Step::Changed(_) => {}
            }
        }
        let over: HashSet<Pid> = self.over.iter().copied().collect();
        self.loading.retain(|open| !over.contains(&open.pid));
        self.loading.drain(..self.loading.len().saturating_sub(LOADING_MAX));
        for pid in std::mem::take(&mut self.over) {
            self.exited(pid, &mut events);
        }
        self.ended.extend(ends.into_iter().map(|pid| (pid, now)));
        self.turned.end_look(seen.opens_emptied && seen.changes_emptied);
        events
    }

    /// The process of a pid, which may be seen for the first time; `None` if it is gone, or ours.
    fn process(&mut self, pid: Pid, events: &mut Vec<Event>) -> Option<Process> {
        if let Some(known) = self.processes.get(pid) {
            return (!known.is_ours).then_some(known.process);
        }
        let rights = processes::rights(pid)?;
        self.turned.met(pid);
        Some(self.found(pid, rights, events))
    }

    fn found(&mut self, pid: Pid, rights: Rights, events: &mut Vec<Event>) -> Process {
        let user = rights.user;
        self.groups.meet(user);
        let process = self.processes.add(pid, rights, false);
        events.push(Event::Found { process, user });
        process
    }

    /// What its rights are after a change of program or groups. Who is gone has what it had, and what the
    /// change gave it.
    fn has_rights(&mut self, pid: Pid, since: &Since, groups: &[u32]) {
        let Some(known) = self.processes.get_mut(pid) else { return };
        if let Some(rights) = since.rights.get(&pid) {
            known.rights = Rights { user: known.rights.user, ..rights.clone() };
        }
        known.rights.add_groups(groups);
        known.rights.has_more |= since.capable.contains(&pid);
    }

    /// Looks at those whose program or groups changed. All of them that may open what their users may not, or
    /// might, may have done it before the change and after.
    fn rights_since(&mut self, changes: &[Change], opens: &[Open]) -> Since {
        // Of a program that has ended before anyone looked its file tells.
        let capable = opens.iter().filter(|open| open.gives_capabilities).map(|open| open.pid);
        let mut since = Since { capable: capable.collect(), ..Since::default() };
        for change in changes {
            let pid = match *change {
                Change::Executed { pid } => pid,
                Change::BecameGroup { pid, .. } => {
                    self.turned.met(pid);
                    pid
                }
                _ => continue,
            };
            if let Entry::Vacant(entry) = since.rights.entry(pid) {
                let rights = processes::rights(pid);
                let had = self.processes.get(pid).map(|known| &known.rights);
                if had.into_iter().chain(&rights).any(|rights| self.exceeds(rights)) {
                    self.turned.met(pid);
                }
                rights.map(|rights| entry.insert(rights));
            }
        }
        since.capable.iter().for_each(|pid| self.turned.met(*pid));
        since
    }

    /// Whether who has these rights may open what its user may not; root may open all.
    fn exceeds(&self, rights: &Rights) -> bool {
        let Rights { user, groups, has_more } = rights;
        *user != User(0) && (*has_more || !self.groups.has(*user, groups))
    }

    fn forked(&mut self, parent: Pid, child: Pid, events: &mut Vec<Event>) {
        if self.processes.get(child).is_some() {
            // The pid is used again.
            self.ended.retain(|&(pid, _)| pid != child);
            self.over.retain(|&pid| pid != child);
            self.exited(child, events);
        }
        if self.processes.get(parent).is_some_and(|known| known.is_ours) {
            self.processes.add(child, Rights::of(User(0)), true);
            return;
        }
        let Some(of) = self.process(parent, events) else { return };
        let known = self.processes.get(parent).expect("it was just found");
        let (parents, reads_as_told) = (known.rights.clone(), known.reads_as_told);
        let user = parents.user;
        let rights = self.rights_of_child(parent, child, parents);
        if rights.user != user {
            self.found(child, rights, events);
            self.reads_as_told(child, reads_as_told);
            return;
        }
        let process = self.processes.add(child, rights, false);
        self.reads_as_told(child, reads_as_told);
        events.push(Event::Forked { parent: of, child: process });
    }

    /// What rights a child has: its parent's, if these are known for the time of the fork. If not, its own
    /// are asked for, which may be another's for as long as it lives; of one that is gone nobody knows.
    fn rights_of_child(&mut self, parent: Pid, child: Pid, parents: Rights) -> Rights {
        if !self.turned.has(parent) {
            return parents;
        }
        self.turned.met(child);
        processes::rights(child).unwrap_or(parents)
    }

    fn became(&mut self, pid: Pid, user: User, events: &mut Vec<Event>) {
        let Some(known) = self.processes.get(pid) else { return };
        if known.is_ours || known.rights.user == user {
            return;
        }
        let reads_as_told = known.reads_as_told;
        self.exited(pid, events);
        let rights = processes::rights(pid).unwrap_or_else(|| Rights::unknown(user));
        self.found(pid, Rights { user, ..rights }, events);
        self.reads_as_told(pid, reads_as_told);
    }

    fn reads_as_told(&mut self, pid: Pid, reads_as_told: bool) {
        if let Some(known) = self.processes.get_mut(pid) {
            known.reads_as_told = reads_as_told;
        }
    }

    /// A process that has ended already tells nothing of what it ran: what was loaded for it does.
    /// Whether that is known.
    fn executed(
        &mut self,
        pid: Pid,
        running: Option<Running>,
        loaded: Vec<Open>,
        events: &mut Vec<Event>,
    ) -> bool {
        let Some(process) = self.process(pid, events) else { return true };
        // A script, or what it runs.
        let called = loaded.first().filter(|open| !open.is_loader());
        let called = called.map(|open| Arc::clone(&open.file.path));
        let (program, arguments, folder) = match running {
            Some(Running { program, arguments, folder }) => {
                let folder = folder_by(&loaded, &arguments).unwrap_or(folder);
                (program, arguments, folder)
            }
            None => match program_of(loaded) {
                Some((program, arguments)) => (program, arguments, Arc::from(&b"/"[..])),
                // What it opens is then told as its parent's, which it is a copy of. To call it lost would
                // spoil what is learned of all that it is part of, for the sake of a moment.
                None => return false,
            },
        };
        self.reads_as_told(pid, program.identity.is_some() && program.identity == self.own);
        // What it opens is then told as if it ran its former program.
        let is_excluded = called.iter().chain([&program.path]).any(|it| self.resolver.excludes(it));
        let is_secret = || [&program.path, &folder].iter().any(|path| self.is_secret(pid, path));
        if !is_excluded && !is_secret() {
            events.push(Event::Executed { process, program, arguments, folder });
        }
        true
    }

    /// Whether a path may have been reached by rights that the process's user has not, and is nothing that
    /// that one may know of. The process is known.
    fn is_secret(&self, pid: Pid, path: &[u8]) -> bool {
        let Some(known) = self.processes.get(pid) else { return true };
        (self.exceeds(&known.rights) || self.turned.has(pid))
            && self.is_closed_to(known.rights.user, path)
    }

    /// Whether a user may not know of a file; root may know of all.
    fn is_closed_to(&self, user: User, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        user != User(0) && !(self.may_ask(path) && opens::is_open_to(user, path))
    }

    /// Whether a file may be asked about: a mount that may not answer is not.
    fn may_ask(&self, path: &Path) -> bool {
        !self.apart.keys().any(|point| path.starts_with(point))
    }

    fn opened(&mut self, open: Open, events: &mut Vec<Event>) {
        // Whose it is has to be asked once: the answer may change.
        let Some(process) = self.process(open.pid, events) else { return };
        // What this program is told to read it fetches better than who guesses, and what it guesses is no
        // habit.
        let is_told = self.processes.get(open.pid).is_some_and(|known| known.reads_as_told);
        if is_told || self.is_secret(open.pid, &open.file.path) {
            return;
        }
        let access = open.access();
        events.push(Event::Opened { process, file: open.file, access });
    }

    fn exited(&mut self, pid: Pid, events: &mut Vec<Event>) {
        let Some(known) = self.processes.remove(pid).filter(|known| !known.is_ours) else { return };
        events.push(Event::Exited { process: known.process });
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
