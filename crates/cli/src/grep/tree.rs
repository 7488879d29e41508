//! Searches everything that was asked for: files that were named, and folders.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ignore::WalkState;
use nearfirst::{Cost, Plan};
use store::{Opened, lock};

use super::held::Room;
use super::large::{self, Scanned};
use super::objects;
use super::output::{FileOutput, Output};
use super::print::Outcome;
use super::print::tally::Stats;
use super::search::{Patience, Searched, Worker};
use super::settings::Settings;
use super::trouble::{Trouble, is_elsewhere};
use super::turns::Turns;
use super::walk::{self, Haystack};
use crate::divide::together;
use crate::flags::PlanFlag;
use crate::reading::Reading;

/// Large files met on a walk wait until it ends, so that all threads can work
/// on one; beyond so many, a thread searches each alone.
const LARGE_WAITING_MAX: usize = 1 << 16;

/// Files that are being fetched meanwhile; beyond so many, the one that waits
/// longest is searched before another is put off. What the kernel was asked to
/// fetch must not push out what has not been searched.
const FAR_WAITING_MAX: usize = 1024;

/// A run over files.
pub(super) struct Run<'a> {
    pub(super) settings: &'a Settings,
    pub(super) output: &'a Output,
    pub(super) trouble: &'a Trouble,
    found: Mutex<Found>,
    is_match: AtomicBool,
    searched: AtomicBool,
    /// What is found cannot be written or kept.
    gave_up: AtomicBool,
}

/// What a run found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Found {
    pub(super) is_match: bool,
    pub(super) searched: bool,
    /// Nothing more can be written, or kept.
    pub(super) gave_up: bool,
    pub(super) stats: Stats,
    pub(super) reading: Reading,
}

/// What the threads of a run share.
#[derive(Debug)]
struct Shared<'a> {
    /// Files that are searched later.
    large: Mutex<Vec<(Cost, Haystack)>>,
    far: Mutex<VecDeque<Haystack>>,
    turns: Turns<'a>,
}

/// Whether the run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Quit,
}

impl<'a> Run<'a> {
    pub(super) fn new(settings: &'a Settings, output: &'a Output, trouble: &'a Trouble) -> Run<'a> {
        Run {
            settings,
            output,
            trouble,
            found: Mutex::default(),
            is_match: AtomicBool::new(false),
            searched: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
        }
    }

    /// Searches everything; several files at a time where order allows.
    ///
    /// # Errors
    /// A walk that cannot begin.
    pub(super) fn search(self) -> anyhow::Result<Found> {
        match self.settings.threads {
            _ if self.settings.paths.all.is_empty() => {}
            1 => self.in_order()?,
            _ => self.in_parallel()?,
        }
        if !self.settings.paths.objects.is_empty() && !self.is_settled() {
            objects::search(&self)?;
        }
        self.settings.save_costs();
        let mut found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.is_match = self.is_match.into_inner();
        found.searched = self.searched.into_inner();
        found.gave_up = self.gave_up.into_inner();
        Ok(found)
    }

    fn in_order(&self) -> anyhow::Result<()> {
        let Some(mut worker) = Worker::new(self.settings) else { return Ok(()) };
        for haystack in walk::in_order(self.settings, self.trouble)? {
            if self.alone(&mut worker, &haystack) == Next::Quit {
                break;
            }
        }
        Ok(())
    }

    fn in_parallel(&self) -> anyhow::Result<()> {
        let room = Room::new(self.settings.budget_bytes, None);
        let turns = Turns::new(self.output, &room);
        let shared = Shared { large: Mutex::default(), far: Mutex::default(), turns };
        walk::in_parallel(self.settings, self.trouble, || {
            let mut worker = Worker::new(self.settings);
            let shared = &shared;
            move |haystack| {
                let Some(worker) = &mut worker else { return WalkState::Quit };
                match self.near_first(worker, haystack, shared) {
                    Next::Continue => WalkState::Continue,
                    Next::Quit => WalkState::Quit,
                }
            }
        })?;
        if self.is_settled() {
            return Ok(());
        }
        // What is read from a device may push out what is in memory.
        let mut near = std::mem::take(&mut *lock(&shared.large));
        near.sort_by_key(|(cost, _)| cost.key());
        let far = near.split_off(near.partition_point(|(cost, _)| *cost == Cost::Nothing));
        self.search_large(&near);
        if !self.is_settled() {
            let waiting = lock(&shared.far).len();
            together(self.settings.threads.min(waiting), || self.search_far(&shared));
        }
        self.search_large(&far);
        Ok(())
    }

    /// Searches large files, one after the other.
    fn search_large(&self, large: &[(Cost, Haystack)]) {
        if large.is_empty() || self.is_settled() {
            return;
        }
        let Some(mut worker) = Worker::new(self.settings) else { return };
        for (_, haystack) in large {
            if self.alone(&mut worker, haystack) == Next::Quit {
                return;
            }
        }
    }

    /// What a large file costs, if that decides when it is searched.
    fn cost(&self, file: &Opened) -> Cost {
        match self.settings.plan {
            PlanFlag::Linear => Cost::Nothing,
            PlanFlag::Best => {
                let sleds = self.settings.costs().file_sleds(&**file);
                sleds.map_or(Cost::Unasked, |sleds| Cost::of(&sleds, Plan::Best))
            }
        }
    }

    /// Searches a file, or puts it off.
    fn near_first(&self, worker: &mut Worker<'_>, haystack: Haystack, shared: &Shared<'_>) -> Next {
        let patience = match self.settings.plan {
            PlanFlag::Best => Patience::Later,
            PlanFlag::Linear => Patience::Now,
        };
        match self.among_others(worker, haystack, patience, shared) {
            Ok(next) => next,
            Err(far) => {
                let mut waiting = lock(&shared.far);
                waiting.push_back(far);
                if waiting.len() <= FAR_WAITING_MAX {
                    return Next::Continue;
                }
                let longest = waiting.pop_front();
                drop(waiting);
                longest.map_or(Next::Continue, |far| {
                    self.among_others(worker, far, Patience::Now, shared).unwrap_or(Next::Continue)
                })
            }
        }
    }

    /// Searches the files that were put off because they were far.
    fn search_far(&self, shared: &Shared<'_>) {
        let Some(mut worker) = Worker::new(self.settings) else { return };
        loop {
            let Some(far) = lock(&shared.far).pop_front() else { return };
            if let Ok(Next::Quit) = self.among_others(&mut worker, far, Patience::Now, shared) {
                return;
            }
        }
    }

    /// Searches a file while no other is searched; its output leaves meanwhile.
    fn alone(&self, worker: &mut Worker<'_>, haystack: &Haystack) -> Next {
        self.searched.store(true, Ordering::Relaxed);
        let file_output = FileOutput::new(self.output);
        let outcome = match worker.search(haystack, &file_output, Patience::Now) {
            Ok(Searched::Done(outcome)) => Ok(outcome),
            Ok(Searched::Far) => unreachable!("it was not allowed to wait"),
            Ok(Searched::Large(file)) => {
                match large::search(
                    self.settings,
                    self.settings.costs(),
                    self.output,
                    haystack,
                    &file,
                ) {
                    Ok(Scanned::Done(outcome, report)) => {
                        lock(&self.found).reading.add_scan(&report);
                        return self.note(haystack, Ok(outcome));
                    }
                    Ok(Scanned::Encoded) => worker.search_in_order(haystack, &file, &file_output),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        self.add_read(worker);
        let outcome = outcome.and_then(|outcome| {
            if self.settings.separates(&outcome) {
                file_output.write(worker.output())?;
            } else {
                self.output.write_more(worker.output())?;
            }
            Ok(outcome)
        });
        self.note(haystack, outcome)
    }

    /// Searches a file while others are searched; its output leaves as turns have it. A file that is far
    /// and may wait comes back.
    fn among_others(
        &self,
        worker: &mut Worker<'_>,
        haystack: Haystack,
        patience: Patience,
        shared: &Shared<'_>,
    ) -> Result<Next, Haystack> {
        self.searched.store(true, Ordering::Relaxed);
        let held = shared.turns.held();
        let file_output = FileOutput::held(&held, &shared.turns);
        let outcome = match worker.search(&haystack, &file_output, patience) {
            Ok(Searched::Done(outcome)) => Ok(outcome),
            Ok(Searched::Far) => return Err(haystack),
            Ok(Searched::Large(file)) => {
                if lock(&shared.large).len() < LARGE_WAITING_MAX {
                    let cost = self.cost(&file);
                    lock(&shared.large).push((cost, haystack));
                    return Ok(Next::Continue);
                }
                worker.search_in_order(&haystack, &file, &file_output)
            }
            Err(error) => Err(error),
        };
        self.add_read(worker);
        let outcome =
            outcome.and_then(|outcome| file_output.write(worker.output()).map(|()| outcome));
        let outcome = match outcome {
            Ok(outcome) => shared.turns.end(held).map(|()| outcome),
            Err(error) => {
                shared.turns.give_up(&held);
                Err(error)
            }
        };
        Ok(self.note(&haystack, outcome))
    }

    /// Notes what was read of the last file of `worker`, but for what was scanned in chunks.
    fn add_read(&self, worker: &Worker<'_>) {
        if self.settings.stats {
            lock(&self.found).reading.read_through += worker.read_bytes();
        }
    }

    /// Notes what became of a file.
    fn note(&self, haystack: &Haystack, outcome: io::Result<Outcome>) -> Next {
        match outcome {
            Ok(outcome) => {
                if outcome.is_match {
                    self.is_match.store(true, Ordering::Relaxed);
                }
                if self.settings.stats {
                    lock(&self.found).stats += outcome.stats;
                }
                if let Some(error) = outcome.failed {
                    self.failed(haystack, &error);
                }
            }
            // Whoever read the output has had enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.gave_up.store(true, Ordering::Relaxed);
            }
            // The next file would fare no better.
            Err(error) if is_elsewhere(&error) => {
                if !self.gave_up.swap(true, Ordering::Relaxed) {
                    self.trouble.say(error);
                }
            }
            Err(error) => self.failed(haystack, &error),
        }
        if self.is_settled() { Next::Quit } else { Next::Continue }
    }

    /// Whether the rest of the run can change nothing.
    fn is_settled(&self) -> bool {
        self.gave_up.load(Ordering::Relaxed)
            || (self.settings.quit_after_match && self.is_match.load(Ordering::Relaxed))
    }

    fn failed(&self, haystack: &Haystack, error: &dyn Display) {
        self.trouble.say(format_args!("{}: {error}", haystack.path().display()));
    }

    /// Notes what became of an object; whether the run goes on.
    pub(super) fn note_object(&self, outcome: &Outcome) -> bool {
        self.searched.store(true, Ordering::Relaxed);
        if outcome.is_match {
            self.is_match.store(true, Ordering::Relaxed);
        }
        if self.settings.stats {
            lock(&self.found).stats += outcome.stats;
        }
        !self.is_settled()
    }
}
