//! What was seen, told as what programs do: by whom, and nothing that its user may not know of.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tree::{Event, Process, User};

use super::connector::{Change, Pid};
use super::loaded::{folder_by, program_of};
use super::opens::{self, Open};
use super::order::{Step, ordered};
use super::processes::{self, Rights, Running};
use super::{Seen, System};

/// Files kept that were opened to be run by programs that are not told yet: as many as begin at a time.
const LOADING_MAX: usize = 4096;
/// How often it is looked whether processes whose first thread has ended live on, beside whenever a thread
/// of theirs ends: one that is traced stays until its tracer has heard of its end.
const OUTLIVED_EVERY: Duration = Duration::from_secs(1);

/// What is known after a look of the rights of those whose program or groups changed.
#[derive(Debug, Default)]
struct Since {
    /// Of those that are still there.
    rights: HashMap<Pid, Rights>,
    /// Whose program gave capabilities.
    capable: HashSet<Pid>,
}

impl System {
    pub(super) fn tell(&mut self, seen: Seen, now: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        if seen.lost {
            self.forget_all();
            events.push(Event::Lost { process: None });
        }
        self.turned.look(&seen.changes, &self.processes);
        // Opens are looked at first: what is told of a process that ends in this look, it may have
        // opened since.
        if seen.opens_emptied {
            self.ended_are_over(now);
        }
        let ends = self.ends(&seen.changes, now);
        let ended = self.ended.iter().map(|(pid, _)| pid);
        let ended: HashSet<Pid> = ends.iter().chain(ended).chain(&self.over).copied().collect();
        let emptied = seen.opens_emptied && seen.changes_emptied;
        self.tell_in_order(seen, &ended, &mut events);
        self.tell_over(&mut events);
        self.ended.extend(ends.into_iter().map(|pid| (pid, now)));
        self.turned.end_look(emptied);
        events
    }

    fn forget_all(&mut self) {
        self.processes.clear();
        self.ended.clear();
        self.outlived.clear();
        self.unnamed.clear();
        self.loading.clear();
        self.turned.lost();
    }

    /// Notes those as over that ended so long ago that all their opens were taken.
    fn ended_are_over(&mut self, now: Duration) {
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

    /// Those that end by these changes.
    fn ends(&mut self, changes: &[Change], now: Duration) -> HashSet<Pid> {
        let mut ends = HashSet::new();
        if now.saturating_sub(self.outlived_at) >= OUTLIVED_EVERY {
            self.outlived_at = now;
            ends.extend(self.outlived.drain());
        }
        for change in changes {
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
        ends
    }

    /// Tells what was seen, in the order in which it happened; nobody can be asked of those that have `ended`.
    fn tell_in_order(&mut self, seen: Seen, ended: &HashSet<Pid>, events: &mut Vec<Event>) {
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
                    self.forked(parent, child, events);
                }
                Step::Changed(Change::BecameUser { pid, user }) => {
                    self.became(pid, User(user), events);
                }
                Step::Changed(Change::BecameGroup { pid, groups }) => {
                    self.has_rights(pid, &since, &groups);
                }
                Step::Executed { pid, loaded } => {
                    let running = if ended.contains(&pid) { None } else { processes::running(pid) };
                    let running =
                        running.filter(|it| self.here.has(pid, &it.program, &self.resolver.mounts));
                    let is_named = self.executed(pid, running, loaded, events);
                    self.has_rights(pid, &since, &[]);
                    let is_late = late > 0;
                    late = late.saturating_sub(1);
                    if !(is_named || is_late && seen.opens_emptied) {
                        self.unnamed.push(pid);
                    }
                }
                Step::Opened(open) => self.opened(open, events),
                Step::Changed(_) => {}
            }
        }
    }

    /// Tells of the end of those of which nothing more is to come.
    fn tell_over(&mut self, events: &mut Vec<Event>) {
        let over: HashSet<Pid> = self.over.iter().copied().collect();
        self.loading.retain(|open| !over.contains(&open.pid));
        self.loading.drain(..self.loading.len().saturating_sub(LOADING_MAX));
        for pid in std::mem::take(&mut self.over) {
            self.exited(pid, events);
        }
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
    pub(super) fn executed(
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
