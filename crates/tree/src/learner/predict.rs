//! Predictions: made, carried out, withdrawn.

use std::sync::Arc;
use std::time::Duration;

use super::Learner;
use crate::account::Account;
use crate::event::{Decision, Predicted, Prediction, PredictionId, Process, User};
use crate::names::Name;
use crate::numbered::NumberSet;
use crate::options::Matching;
use crate::ours::{Guess, WINDOW_MIN, window_from};
use crate::outstanding::Closed;
use crate::run::{Run, RunId, Working};

impl Learner {
    /// Predicts what a run's plan has next.
    pub(super) fn advance(&mut self, id: RunId, now: Duration, decisions: &mut Vec<Decision>) {
        loop {
            let Some(run) = self.runs.get_mut(&id) else { return };
            let Working::Ours(working) = &mut run.working else { return };
            let Some(habits) = self.patterns.users.get(&run.user) else { return };
            let elapsed = now.saturating_sub(run.started);
            let next = working.ahead(&habits.names, elapsed, self.options.horizon);
            let left_out = self.predict(id, &next, now, decisions);
            if left_out.is_empty() {
                return;
            }
            self.give_up(id, &left_out);
        }
    }

    /// A run does not wait for these of its plan: others take their place.
    fn give_up(&mut self, id: RunId, files: &[Name]) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let Working::Ours(working) = &mut run.working else { return };
        let Some(habits) = self.patterns.users.get(&run.user) else { return };
        for &file in files {
            working.came(habits.names.size(file), Duration::ZERO, false);
        }
    }

    /// Predicts files for a run, but those that it opened, that are predicted already, or near:
    /// gives these.
    pub(super) fn predict(
        &mut self,
        id: RunId,
        guesses: &[Guess],
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) -> Vec<Name> {
        let mut left_out = Vec::new();
        if guesses.is_empty() {
            return left_out;
        }
        let Some(run) = self.runs.get(&id) else { return left_out };
        let Some(habits) = self.patterns.users.get(&run.user) else { return left_out };
        let outstanding = self.outstanding.entry(run.user).or_default();
        let ours = self.options.matching == Matching::Ours;
        let accesses = habits.accesses.files;
        let mut chosen = NumberSet::default();
        let mut made: Vec<(Name, Duration, f32)> = Vec::new();
        for guess in guesses {
            let known = ours && outstanding.holds_for_run(guess.file, accesses)
                || !ours && outstanding.awaits(guess.file)
                || ours && !guess.below && run.opened.contains(&guess.file)
                || ours && habits.is_near(guess.file, &self.options, now);
            if known || made.len() >= outstanding.room() || !chosen.insert(guess.file) {
                left_out.push(guess.file);
                continue;
            }
            made.push((guess.file, run.started + guess.at, guess.chance));
        }
        if !made.is_empty() {
            let prediction = self.announce(Source::of_run(id, run), made, now, decisions);
            if let Some(run) = self.runs.get_mut(&id) {
                run.predictions.push(prediction);
            }
        }
        left_out
    }

    /// Makes a prediction of files, each with the time at which it is needed and its chance.
    pub(super) fn announce(
        &mut self,
        source: Source,
        made: Vec<(Name, Duration, f32)>,
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) -> PredictionId {
        let Source { run, process, user, program } = source;
        let id = PredictionId(self.next_prediction);
        self.next_prediction += 1;
        let Some(habits) = self.patterns.users.get_mut(&user) else { return id };
        let predicted = |&(file, needed, chance): &(Name, Duration, f32)| Predicted {
            path: Arc::clone(habits.names.path(file)),
            extents: habits.memory.extents(file),
            needed_in: needed.saturating_sub(now),
            chance,
            inode: habits.names.inode(file),
        };
        let files: Vec<Predicted> = made.iter().map(predicted).collect();
        let accesses = habits.accesses.files;
        let account = Account { predicted: made.len() as u64, ..Account::default() };
        self.credit(user, program, account);
        let made: Vec<_> = made.into_iter().map(|(file, needed, _)| (file, needed)).collect();
        let outstanding = self.outstanding.entry(user).or_default();
        let overdue = outstanding.made(id, (run, program), &made, accesses);
        if let Some(foresight) = self.foresights.get_mut(&user) {
            foresight.bar(true).wrong(overdue);
        }
        decisions.push(Decision::Fetch(Prediction { id, process, user, files }));
        id
    }

    /// A predicted file is near. Its run may be waiting for something else meanwhile, so that
    /// nothing but this tells that time has passed.
    pub(super) fn fetched(
        &mut self,
        (prediction, path): (PredictionId, &[u8]),
        (bytes, took): (u64, Duration),
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let found = self.outstanding.iter_mut().find_map(|(&user, outstanding)| {
            let habits = self.patterns.users.get_mut(&user)?;
            let file = habits.names.find(path)?;
            let arrived = outstanding.fetched(prediction, file, bytes, took)?;
            let wasted_bytes = arrived.wasted_bytes;
            let account = Account { fetched_bytes: bytes, wasted_bytes, ..Account::default() };
            self.account += account;
            habits.add(arrived.program, account);
            Some((user, arrived))
        });
        let Some((user, arrived)) = found else {
            if bytes > 0 {
                self.came_late((prediction, path), (bytes, took));
            }
            return;
        };
        if arrived.wasted_bytes > 0 {
            self.too_early(user, arrived.run);
            // As good as wrong: it was told, and had to be fetched once more.
            if let Some(foresight) = self.foresights.get_mut(&user) {
                foresight.bar(arrived.run.is_none()).wrong(1);
            }
        }
        if let Some(run) = arrived.run {
            self.advance(run, now, decisions);
        }
    }

    /// Nobody waits for what came; it was fetched all the same.
    fn came_late(
        &mut self,
        (prediction, path): (PredictionId, &[u8]),
        (bytes, took): (u64, Duration),
    ) {
        for (user, outstanding) in &mut self.outstanding {
            let Some(habits) = self.patterns.users.get_mut(user) else { continue };
            let Some(file) = habits.names.find(path) else { continue };
            let read_at = habits.names.accessed(file).map(|then| then.files);
            let late = outstanding.came_late(prediction, file, (bytes, took), read_at);
            if let Some((program, wasted_bytes)) = late {
                let account = Account { fetched_bytes: bytes, wasted_bytes, ..Account::default() };
                self.account += account;
                habits.add(program, account);
            }
        }
    }

    /// The files of a prediction are fetched from where it is best to know all of them at once.
    pub(super) fn swept(
        &mut self,
        prediction: PredictionId,
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let holds = |(_, run): &(&RunId, &Run)| run.predictions.contains(&prediction);
        let Some(id) = self.runs.iter().find(holds).map(|(&id, _)| id) else { return };
        if let Some(Run { working: Working::Ours(working), .. }) = self.runs.get_mut(&id) {
            working.tell_whole();
        }
        self.advance(id, now, decisions);
    }

    /// A predicted file cannot be brought near.
    pub(super) fn refused(
        &mut self,
        (prediction, path): (PredictionId, &[u8]),
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let found = self.outstanding.iter_mut().find_map(|(user, outstanding)| {
            let file = self.patterns.users.get(user)?.names.find(path)?;
            Some((outstanding.refused(prediction, file)?, file))
        });
        if let Some((run, file)) = found {
            self.give_up(run, &[file]);
            self.advance(run, now, decisions);
        }
    }

    /// A predicted file was gone again when it was needed: so far ahead others would be, too.
    fn too_early(&mut self, user: User, run: Option<RunId>) {
        if let Some(Run { working: Working::Ours(working), .. }) =
            run.and_then(|run| self.runs.get_mut(&run))
        {
            working.gone();
        } else if let Some(habits) = self.patterns.users.get_mut(&user) {
            habits.window = (window_from(habits.window) - 1).max(WINDOW_MIN);
        }
    }

    /// The first so many predictions for a run are wrong.
    pub(super) fn withdraw(&mut self, id: RunId, most: usize, decisions: &mut Vec<Decision>) {
        if most == 0 {
            return;
        }
        if let Some(mut run) = self.runs.remove(&id) {
            let rest = run.predictions.split_off(run.predictions.len().min(most));
            self.close(&mut run, decisions);
            run.predictions = rest;
            self.runs.insert(id, run);
        }
    }

    /// Nothing more is expected of a run's predictions: what has not come of them was wrong.
    pub(super) fn close(&mut self, run: &mut Run, decisions: &mut Vec<Decision>) {
        for prediction in run.predictions.drain(..) {
            self.close_one(run.user, prediction, decisions);
        }
    }

    /// Nothing more is expected of a prediction: what has not come of it was wrong.
    pub(super) fn close_one(
        &mut self,
        user: User,
        prediction: PredictionId,
        decisions: &mut Vec<Decision>,
    ) {
        let Some(closed) = self.abandon(user, prediction, decisions) else { return };
        if let Some(foresight) = self.foresights.get_mut(&user) {
            foresight.bar(closed.foreseen).wrong(closed.account.unused);
        }
    }

    /// Nothing more will be heard of a prediction, whether it was right or wrong.
    pub(super) fn abandon(
        &mut self,
        user: User,
        prediction: PredictionId,
        decisions: &mut Vec<Decision>,
    ) -> Option<Closed> {
        let closed = self.outstanding.get_mut(&user)?.close(prediction)?;
        if closed.unfetched {
            decisions.push(Decision::Withdraw(prediction));
        }
        self.credit(user, closed.program, closed.account);
        Some(closed)
    }

    /// Adds to what predictions were worth; to what is known of those for a program, if somebody fetches.
    pub(super) fn credit(&mut self, user: User, program: Name, account: Account) {
        self.account += account;
        if self.options.fetches
            && let Some(habits) = self.patterns.users.get_mut(&user)
        {
            habits.add(program, account);
        }
    }
}

/// For whom a prediction is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    /// The run that it ends with; `None`: whichever reads the files next.
    pub(super) run: Option<RunId>,
    pub(super) process: Process,
    pub(super) user: User,
    pub(super) program: Name,
}

impl Source {
    fn of_run(id: RunId, run: &Run) -> Self {
        Self { run: Some(id), ..Self::foreseen(run) }
    }

    /// What was foreseen when a run read a file.
    pub(super) fn foreseen(run: &Run) -> Self {
        Self { run: None, process: run.owner, user: run.user, program: run.program }
    }
}
