//! Learns from what programs do, and says what they will read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;
use crate::event::{
    Access, Decision, Event, File, Predicted, Prediction, PredictionId, Process, User,
};
use crate::names::Name;
use crate::numbered::{NumberMap, NumberSet};
use crate::options::Options;
use crate::outstanding::Outstanding;
use crate::paper::{self, Foreseen, Leaf};
use crate::patterns::{Habits, Patterns};
use crate::program::{Role, role};
use crate::run::{ALL_FILES_MAX, FILES_MAX, Run, RunId, Working};

/// Processes known at a time: twice what a kernel allows by default. Beyond it those that did
/// nothing for longest are forgotten, for their ends must have been lost.
const PROCESSES_MAX: usize = 1 << 16;
/// Runs that one process may have after one another before their trees end early: a program that
/// executes itself for ever holds no more.
const REPLACEMENTS_MAX: usize = 16;

/// Learns which files programs read, and predicts them.
///
/// It is told what happens, in order, with the time on any one clock, and answers what to do about
/// it. What it knows it keeps in [`Patterns`].
#[derive(Debug)]
pub struct Learner {
    options: Options,
    patterns: Patterns,
    processes: NumberMap<Process, Seen>,
    runs: NumberMap<RunId, Run>,
    outstanding: HashMap<User, Outstanding>,
    /// Events so far.
    events: u64,
    next_run: u64,
    next_prediction: u64,
    /// Files recorded in all runs.
    files: usize,
}

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
            processes: NumberMap::default(),
            runs: NumberMap::default(),
            outstanding: HashMap::new(),
            events: 0,
            next_run: 0,
            next_prediction: 0,
            files: 0,
        }
    }

    /// What is known so far; of programs that still run, nothing of that run.
    pub fn patterns(&self) -> &Patterns {
        &self.patterns
    }

    /// Something happened; gives what to do about it, in order.
    ///
    /// Events of processes that were neither found nor forked from known ones are ignored.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Decision> {
        self.events += 1;
        let mut decisions = Vec::new();
        match event {
            Event::Found { process, user } => self.found(process, user),
            Event::Forked { parent, child } => self.forked(parent, child),
            Event::Executed { process, program, arguments, folder } => {
                self.executed(process, &program, &arguments, &folder, now, &mut decisions);
            }
            Event::Opened { process, file, access } => {
                self.opened(process, &file, access, now, &mut decisions);
            }
            Event::Touched { .. } => {}
            Event::Exited { process } => {
                if let Some(Seen { run: Some(run), .. }) = self.processes.remove(&process) {
                    self.release(run, &mut decisions);
                }
            }
            Event::Lost { process } => self.lost(process, &mut decisions),
            Event::Fetched { prediction, path, bytes, took } => {
                self.fetched(prediction, &path, bytes, took);
            }
        }
        decisions
    }

    fn found(&mut self, process: Process, user: User) {
        let active = self.events;
        let seen = self.processes.entry(process).or_insert(Seen { user, run: None, active });
        seen.user = user;
        self.bound_processes();
    }

    fn forked(&mut self, parent: Process, child: Process) {
        let Some(seen) = self.processes.get_mut(&parent) else { return };
        seen.active = self.events;
        let born = Seen { user: seen.user, run: seen.run, active: self.events };
        if let Some(run) = born.run.and_then(|run| self.runs.get_mut(&run)) {
            run.holders += 1;
        }
        self.processes.insert(child, born);
        self.bound_processes();
    }

    fn executed(
        &mut self,
        process: Process,
        program: &File,
        arguments: &[Arc<[u8]>],
        folder: &[u8],
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(seen) = self.processes.get_mut(&process) else { return };
        seen.active = self.events;
        let (user, above) = (seen.user, seen.run);
        let Role::Program(name) = role(&program.path, arguments, folder) else { return };

        let habits = self.patterns.users.entry(user).or_default();
        habits.ticks += 1;
        let (name, file) =
            (habits.names.intern(&Arc::from(name)), habits.names.intern(&program.path));
        let known = habits.programs.entry(name).or_default();
        known.used = habits.ticks;
        known.identify(program.identity);

        let mut foreseen = Vec::new();
        let mut parent = None;
        let mut inherited = None;
        let mut replaced = None;
        let mut replacements = 0;
        if let Some(id) = above
            && let Some(run) = self.runs.get_mut(&id)
        {
            let at = now.saturating_sub(run.started);
            let Working::Paper(working) = &mut run.working;
            foreseen = working.invoked((name, file), at, self.options.match_threshold);
            let (count, tree) = working.last_invoked();
            inherited = tree;
            parent = Some((id, count - 1));
            if run.owner == process && run.replacements < REPLACEMENTS_MAX {
                replaced = Some(id);
                replacements = run.replacements + 1;
            }
        }
        let run = Run {
            user,
            program: name,
            started: now,
            owner: process,
            holders: 1,
            parent,
            replaced,
            replacements,
            spoiled: false,
            predictions: Vec::new(),
            opened: NumberSet::default(),
            working: Working::Paper(paper::Working::new(&known.trees, inherited)),
        };
        let id = RunId(self.next_run);
        self.next_run += 1;
        self.runs.insert(id, run);
        if let Some(seen) = self.processes.get_mut(&process) {
            seen.run = Some(id);
        }
        if let Some(above) = above {
            self.predict(above, &foreseen, now, decisions);
            if replaced.is_none() {
                self.release(above, decisions);
            }
        }
    }

    fn opened(
        &mut self,
        process: Process,
        file: &File,
        access: Access,
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(seen) = self.processes.get_mut(&process) else { return };
        seen.active = self.events;
        let Some(id) = seen.run else { return };
        let Some(run) = self.runs.get_mut(&id) else { return };
        if !learnable(&file.path) {
            return;
        }
        let Some(habits) = self.patterns.users.get_mut(&run.user) else { return };
        let known = habits.names.find(&file.path);
        let full = run.opened.len() >= FILES_MAX || self.files >= ALL_FILES_MAX;
        let name = match known {
            Some(name) => name,
            None if full => {
                run.spoiled = true;
                return;
            }
            None => habits.names.intern(&file.path),
        };
        if full {
            run.spoiled = true;
        } else if run.opened.insert(name) {
            self.files += 1;
            if access == Access::Read {
                let outstanding = self.outstanding.entry(run.user).or_default();
                let (program, account) = outstanding
                    .read(name)
                    .unwrap_or((run.program, Account { missed: 1, ..Account::default() }));
                add(habits, program, account);
            }
        }
        let Working::Paper(working) = &mut run.working;
        let at = now.saturating_sub(run.started);
        let foreseen =
            working.opened(Leaf { file: name, access }, at, self.options.match_threshold);
        self.predict(id, &foreseen, now, decisions);
    }

    fn fetched(&mut self, prediction: PredictionId, path: &[u8], bytes: u64, took: Duration) {
        for (user, outstanding) in &mut self.outstanding {
            let Some(habits) = self.patterns.users.get_mut(user) else { continue };
            let Some(file) = habits.names.find(path) else { continue };
            if let Some(program) = outstanding.fetched(prediction, file, bytes, took) {
                add(habits, program, Account { fetched_bytes: bytes, ..Account::default() });
                return;
            }
        }
    }

    fn predict(
        &mut self,
        id: RunId,
        foreseen: &[Foreseen],
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        if foreseen.is_empty() {
            return;
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Some(habits) = self.patterns.users.get_mut(&run.user) else { return };
        let outstanding = self.outstanding.entry(run.user).or_default();
        let mut chosen = NumberSet::default();
        let fresh =
            |entry: &&Foreseen| !outstanding.awaits(entry.file) && chosen.insert(entry.file);
        let fresh: Vec<Foreseen> =
            foreseen.iter().filter(fresh).take(outstanding.room()).copied().collect();
        if fresh.is_empty() {
            return;
        }
        let prediction = PredictionId(self.next_prediction);
        self.next_prediction += 1;
        run.predictions.push(prediction);
        let files = fresh.iter().map(|entry| Predicted {
            path: Arc::clone(habits.names.path(entry.file)),
            extents: Vec::new(),
            needed_in: (run.started + entry.at).saturating_sub(now),
            chance: 1.0,
        });
        let files = files.collect();
        outstanding.made(prediction, run.program, fresh.iter().map(|entry| entry.file).collect());
        let predicted = fresh.len() as u64;
        add(habits, run.program, Account { predicted, ..Account::default() });
        let process = run.owner;
        let user = run.user;
        decisions.push(Decision::Fetch(Prediction { id: prediction, process, user, files }));
    }

    /// One of those that kept a run from being over does so no more.
    fn release(&mut self, id: RunId, decisions: &mut Vec<Decision>) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(run) = self.runs.get_mut(&id) else { return };
            run.holders -= 1;
            if run.holders == 0
                && let Some(run) = self.runs.remove(&id)
            {
                next = run.replaced;
                self.finish(run, decisions);
            }
        }
    }

    fn finish(&mut self, run: Run, decisions: &mut Vec<Decision>) {
        self.files -= run.opened.len();
        self.close(&run, decisions);
        let Some(habits) = self.patterns.users.get_mut(&run.user) else { return };
        add(habits, run.program, Account { runs: 1, ..Account::default() });
        if run.spoiled {
            return;
        }
        let Working::Paper(working) = run.working;
        let Some(tree) = working.finish() else { return };
        let tree = Arc::new(tree);
        if let Some((parent, nth)) = run.parent
            && let Some(parent) = self.runs.get_mut(&parent)
        {
            let Working::Paper(working) = &mut parent.working;
            working.ended(nth, &tree);
        }
        let (threshold, most) = (self.options.match_threshold, self.options.trees_per_program_max);
        if let Some(program) = habits.programs.get_mut(&run.program) {
            paper::save(&mut program.trees, tree, threshold, most);
        }
        self.bound_patterns(run.user);
    }

    /// Nothing more is expected of a run's predictions.
    fn close(&mut self, run: &Run, decisions: &mut Vec<Decision>) {
        let Some(outstanding) = self.outstanding.get_mut(&run.user) else { return };
        for &prediction in &run.predictions {
            let Some(closed) = outstanding.close(prediction) else { continue };
            if closed.unfetched {
                decisions.push(Decision::Withdraw(prediction));
            }
            if let Some(habits) = self.patterns.users.get_mut(&run.user) {
                add(habits, closed.program, closed.account);
            }
        }
    }

    /// Forgets the trees that lack something: of the process and of all above it, or of all.
    fn lost(&mut self, process: Option<Process>, decisions: &mut Vec<Decision>) {
        let Some(process) = process else {
            let mut all: Vec<(RunId, Run)> = self.runs.drain().collect();
            all.sort_unstable_by_key(|(id, _)| *id);
            for (_, run) in &all {
                self.files -= run.opened.len();
                self.close(run, decisions);
            }
            self.processes.values_mut().for_each(|seen| seen.run = None);
            return;
        };
        let mut next = self.processes.get(&process).and_then(|seen| seen.run);
        while let Some(run) = next.and_then(|id| self.runs.get_mut(&id)) {
            run.spoiled = true;
            next = run.parent.map(|(parent, _)| parent);
        }
    }

    fn bound_processes(&mut self) {
        if self.processes.len() <= PROCESSES_MAX {
            return;
        }
        let mut active: Vec<u64> = self.processes.values().map(|seen| seen.active).collect();
        let (_, &mut middle, _) = active.select_nth_unstable(PROCESSES_MAX / 2);
        self.processes.retain(|_, seen| seen.active > middle);
        self.runs.clear();
        self.processes.values_mut().for_each(|seen| seen.run = None);
        self.files = 0;
    }

    fn bound_patterns(&mut self, user: User) {
        let most = self.options.pattern_bytes_max;
        let Some(habits) = self.patterns.users.get_mut(&user) else { return };
        if habits.bytes() <= most {
            return;
        }
        habits.shrink(most / 2);
        let mut kept = vec![false; habits.names.len()];
        let mut keep = |name: Name| kept[name.0 as usize] = true;
        habits.names(&mut keep);
        for run in self.runs.values().filter(|run| run.user == user) {
            keep(run.program);
            run.opened.iter().for_each(|&name| keep(name));
            let Working::Paper(working) = &run.working;
            working.names(&mut keep);
        }
        if let Some(outstanding) = self.outstanding.get(&user) {
            outstanding.names(&mut keep);
        }
        habits.names.sweep(&kept);
    }
}

fn add(habits: &mut Habits, program: Name, account: Account) {
    if let Some(program) = habits.programs.get_mut(&program) {
        program.account += account;
    }
}

/// Whether a path is one of a file that can be fetched at all.
fn learnable(path: &[u8]) -> bool {
    path.starts_with(b"/")
        && ![&b"/proc/"[..], b"/sys/", b"/dev/"].iter().any(|apart| path.starts_with(apart))
}
