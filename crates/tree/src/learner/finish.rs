//! The end of a run: what it was worth, and what is learned from it.

use std::sync::Arc;

use super::Learner;
use crate::account::Account;
use crate::event::Decision;
use crate::paper;
use crate::run::{Run, RunId, Working};

impl Learner {
    /// Nothing more is told: what the runs that are not over did is learned, as if they ended now. What
    /// was foreseen for whichever run came next was neither right nor wrong.
    pub fn end(&mut self) {
        let mut ids: Vec<RunId> = self.runs.keys().copied().collect();
        // What a run invoked ends before it.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        for id in ids {
            if let Some(run) = self.runs.remove(&id) {
                self.finish(run, &mut Vec::new());
            }
        }
        self.processes.clear();
        self.outstanding.clear();
    }

    /// One of those that kept a run from being over does so no more.
    pub(super) fn release(&mut self, id: RunId, decisions: &mut Vec<Decision>) {
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

    fn finish(&mut self, mut run: Run, decisions: &mut Vec<Decision>) {
        self.files -= run.opened.len();
        self.watched -= run.working.watched();
        self.close(&mut run, decisions);
        let Some(habits) = self.patterns.users.get_mut(&run.user) else { return };
        let account = Account { runs: 1, ..Account::default() };
        self.account += account;
        habits.add(run.program, account);
        if run.spoiled || !habits.programs.contains_key(&run.program) {
            return;
        }
        match run.working {
            Working::Ours(working) => {
                habits.window = working.window_of_next(habits.window);
                working.finish(&mut habits.memory, &mut habits.names, habits.ticks);
            }
            Working::Paper(working) => {
                let Some(tree) = working.finish().map(Arc::new) else { return };
                if let Some((parent, nth)) = run.parent
                    && let Some(Run { working: Working::Paper(above), .. }) =
                        self.runs.get_mut(&parent)
                {
                    above.ended(nth, &tree);
                }
                if let Some(program) = habits.programs.get_mut(&run.program) {
                    let options = &self.options;
                    let most = options.trees_per_program_max;
                    paper::save(&mut program.trees, tree, options.match_threshold, most);
                }
            }
        }
        self.bound_patterns(run.user);
    }
}
