//! Learns from what programs do, and says what they will read.

mod bounds;
mod finish;
mod follow;
mod foresee;
mod predict;

use std::collections::HashMap;
use std::time::Duration;

use crate::account::Account;
use crate::event::{Decision, Event, PredictionId, Process, User};
use crate::numbered::NumberMap;
use crate::options::Options;
use crate::ours::Foresight;
use crate::outstanding::Outstanding;
use crate::patterns::Patterns;
use crate::run::{Run, RunId};

/// Learns which files programs read, and predicts them.
///
/// It is told what happens, in order, with the time on any one clock, and answers what to do about
/// it. What it knows it keeps in [`Patterns`].
#[derive(Debug)]
pub struct Learner {
    options: Options,
    patterns: Patterns,
    account: Account,
    processes: NumberMap<Process, Seen>,
    runs: NumberMap<RunId, Run>,
    outstanding: HashMap<User, Outstanding>,
    foresights: HashMap<User, Foresight>,
    /// Events so far.
    events: u64,
    next_run: u64,
    next_prediction: u64,
    /// Files recorded in all runs.
    files: usize,
    /// Files that all runs watch for or have planned.
    watched: usize,
    /// Bytes of names after the last sweep.
    swept_bytes: usize,
}

/// A process.
#[derive(Debug)]
struct Seen {
    user: User,
    run: Option<RunId>,
    /// Its latest event.
    active: u64,
}

impl Learner {
    /// A learner that knows `patterns`.
    pub fn new(options: Options, patterns: Patterns) -> Self {
        Self {
            options,
            patterns,
            account: Account::default(),
            processes: NumberMap::default(),
            runs: NumberMap::default(),
            outstanding: HashMap::new(),
            foresights: HashMap::new(),
            events: 0,
            next_run: 0,
            next_prediction: 0,
            files: 0,
            watched: 0,
            swept_bytes: 0,
        }
    }

    /// What is known so far; of programs that still run, nothing of that run, but its reads in their
    /// order after [`Learner::keep_within_memory`].
    pub fn patterns(&self) -> &Patterns {
        &self.patterns
    }

    /// The same, of one that is told nothing more.
    pub fn into_patterns(self) -> Patterns {
        self.patterns
    }

    /// Ends, and goes on as the next one would that finds what this one saved.
    pub(crate) fn begin_anew(&mut self) {
        self.end();
        self.keep_within_memory();
        let saved = Patterns::decode(&self.patterns.encode()).unwrap_or_default();
        *self = Self::new(self.options.clone(), saved);
    }

    /// What came of predictions since it began, also of programs that were forgotten since.
    ///
    /// While nobody fetches ([`Options::fetches`]), files that were read are late, or in time where
    /// they were said to be near.
    pub fn account(&self) -> Account {
        self.account
    }

    /// Something happened; gives what to do about it, in order.
    ///
    /// Events of processes that were neither found nor forked from known ones are ignored.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Decision> {
        self.events += 1;
        let mut decisions = Vec::new();
        match event {
            Event::Found { process, user } => self.found(process, user, &mut decisions),
            Event::Forked { parent, child } => self.forked(parent, child, &mut decisions),
            Event::Executed { process, program, arguments, folder } => {
                let call =
                    follow::Call { program: &program, arguments: &arguments, folder: &folder };
                self.executed(process, call, now, &mut decisions);
            }
            Event::Opened { process, file, access } => {
                self.opened(process, (&file, access), now, &mut decisions);
            }
            Event::Touched { process, file, extents } => self.touched(process, &file, extents),
            Event::Exited { process } => {
                if let Some(Seen { run: Some(run), .. }) = self.processes.remove(&process) {
                    self.release(run, &mut decisions);
                }
            }
            Event::Lost { process: Some(process) } => self.lost(process),
            Event::Lost { process: None } => self.lost_all(&mut decisions),
            Event::Fetched { prediction, path, bytes, took } => {
                let (file, what) = ((prediction, &*path), (bytes, took));
                self.fetched(file, what, now, &mut decisions);
            }
            Event::Swept { prediction } => self.swept(prediction, now, &mut decisions),
            Event::Refused { prediction, path } => {
                self.refused((prediction, &path), now, &mut decisions);
            }
        }
        decisions
    }

    /// Forgets what `forget` takes from what is known, and what was to come of the programs that run; what
    /// is being fetched for them is not wanted any more.
    pub fn forget(&mut self, forget: impl FnOnce(&mut Patterns)) {
        self.lost_all(&mut Vec::new());
        // What is not forgotten of the order of reads is found there again.
        self.copy_courses();
        // They name files by numbers, which others may have after that.
        self.outstanding.clear();
        self.foresights.clear();
        forget(&mut self.patterns);
    }

    fn found(&mut self, process: Process, user: User, decisions: &mut Vec<Decision>) {
        let active = self.events;
        let seen = self.processes.entry(process).or_insert(Seen { user, run: None, active });
        seen.user = user;
        seen.active = active;
        self.bound_processes(decisions);
    }

    fn forked(&mut self, parent: Process, child: Process, decisions: &mut Vec<Decision>) {
        let Some(seen) = self.processes.get_mut(&parent) else { return };
        seen.active = self.events;
        let born = Seen { user: seen.user, run: seen.run, active: self.events };
        if let Some(run) = born.run.and_then(|run| self.runs.get_mut(&run)) {
            run.holders += 1;
        }
        if let Some(Seen { run: Some(run), .. }) = self.processes.insert(child, born) {
            self.release(run, decisions);
        }
        self.bound_processes(decisions);
    }

    /// Marks the trees that lack something: of the process and of all above it.
    fn lost(&mut self, process: Process) {
        let mut next = self.processes.get(&process).and_then(|seen| seen.run);
        while let Some(run) = next.and_then(|id| self.runs.get_mut(&id)) {
            run.spoiled = true;
            next = run.parent.map(|(parent, _)| parent);
        }
    }

    /// Forgets all trees, and what was to come.
    fn lost_all(&mut self, decisions: &mut Vec<Decision>) {
        let mut all: Vec<(RunId, Run)> = self.runs.drain().collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        for (_, run) in all {
            self.files -= run.opened.len();
            self.watched -= run.working.watched();
            for prediction in run.predictions {
                self.abandon(run.user, prediction, decisions);
            }
        }
        let foreseen = self.foresights.iter_mut();
        let mut foreseen: Vec<(PredictionId, User)> = foreseen
            .flat_map(|(&user, foresight)| foresight.lost().into_iter().map(move |id| (id, user)))
            .collect();
        foreseen.sort_unstable();
        for (prediction, user) in foreseen {
            self.abandon(user, prediction, decisions);
        }
        self.processes.values_mut().for_each(|seen| seen.run = None);
    }
}
