//! Predictions: made, carried out, withdrawn.

use std::sync::Arc;
use std::time::Duration;

use super::Learner;
use crate::account::Account;
use crate::event::{Decision, Predicted, Prediction, PredictionId};
use crate::names::Name;
use crate::numbered::NumberSet;
use crate::options::Matching;
use crate::ours::Guess;
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
            // These are not awaited: others take their place.
            let Some(run) = self.runs.get_mut(&id) else { return };
            let Working::Ours(working) = &mut run.working else { return };
            let Some(habits) = self.patterns.users.get(&run.user) else { return };
            for file in left_out {
                working.came(habits.names.size(file), Duration::ZERO, false);
            }
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
        let Some(run) = self.runs.get_mut(&id) else { return left_out };
        let Some(habits) = self.patterns.users.get_mut(&run.user) else { return left_out };
        let outstanding = self.outstanding.entry(run.user).or_default();
        let ours = self.options.matching == Matching::Ours;
        let mut chosen = NumberSet::default();
        let mut files = Vec::new();
        let mut made: Vec<(Name, Duration)> = Vec::new();
        for guess in guesses {
            let known = outstanding.awaits(guess.file)
                || ours && !guess.below && run.opened.contains(&guess.file)
                || ours && habits.is_near(guess.file, &self.options, now);
            if known || made.len() >= outstanding.room() || !chosen.insert(guess.file) {
                left_out.push(guess.file);
                continue;
            }
            let needed = run.started + guess.at;
            made.push((guess.file, needed));
            files.push(Predicted {
                path: Arc::clone(habits.names.path(guess.file)),
                extents: habits.memory.extents(guess.file),
                needed_in: needed.saturating_sub(now),
                chance: guess.chance,
            });
        }
        if files.is_empty() {
            return left_out;
        }
        let prediction = PredictionId(self.next_prediction);
        self.next_prediction += 1;
        run.predictions.push(prediction);
        outstanding.made(prediction, (id, run.program), &made);
        habits.add(run.program, Account { predicted: made.len() as u64, ..Account::default() });
        let (process, user) = (run.owner, run.user);
        decisions.push(Decision::Fetch(Prediction { id: prediction, process, user, files }));
        left_out
    }

    /// A predicted file is near. Its run may be waiting for something else meanwhile, so that nothing
    /// but this tells that time has passed.
    pub(super) fn fetched(
        &mut self,
        (prediction, path): (PredictionId, &[u8]),
        (bytes, took): (u64, Duration),
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let found = self.outstanding.iter_mut().find_map(|(user, outstanding)| {
            let habits = self.patterns.users.get_mut(user)?;
            let file = habits.names.find(path)?;
            let (run, program) = outstanding.fetched(prediction, file, bytes, took)?;
            habits.add(program, Account { fetched_bytes: bytes, ..Account::default() });
            Some(run)
        });
        if let Some(run) = found {
            self.advance(run, now, decisions);
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

    /// Nothing more is expected of a run's predictions.
    pub(super) fn close(&mut self, run: &mut Run, decisions: &mut Vec<Decision>) {
        let Some(outstanding) = self.outstanding.get_mut(&run.user) else { return };
        for prediction in run.predictions.drain(..) {
            let Some(closed) = outstanding.close(prediction) else { continue };
            if closed.unfetched {
                decisions.push(Decision::Withdraw(prediction));
            }
            if let Some(habits) = self.patterns.users.get_mut(&run.user) {
                habits.add(closed.program, closed.account);
            }
        }
    }
}
