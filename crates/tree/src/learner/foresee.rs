//! What follows by the course of earlier reads is predicted, whichever run will read it.

use std::time::Duration;

use super::Learner;
use super::predict::Source;
use crate::event::{Decision, User};
use crate::names::{Name, ending_of};
use crate::ours::{Evidence, Foresight, KINDS, Soon, Subject, window_from};
use crate::patterns::Habits;
use crate::run::{RunId, Working};

/// Files ahead, as a part of the window of a run: what is found again by its last reads is less
/// sure than what its arguments say.
const DEPTH_PART: usize = 3;
/// Files ahead at most: farther nothing is sure, and each is looked at after each read.
const DEPTH_MAX: usize = 32;

impl Learner {
    /// What is foreseen of a user.
    pub(super) fn foresight(&mut self, user: User) -> &mut Foresight {
        let share = self.options.right_share;
        let habits = self.patterns.users.get_mut(&user);
        self.foresights.entry(user).or_insert_with(|| {
            let mut foresight = Foresight::new(share);
            if let Some(Habits { course, bars, .. }) = habits {
                foresight.restore(std::mem::take(course), *bars);
            }
            foresight
        })
    }

    /// A run read a file: predicts what followed earlier.
    pub(super) fn foresee(
        &mut self,
        id: RunId,
        file: Name,
        now: Duration,
        decisions: &mut Vec<Decision>,
    ) {
        let Some((source, soon)) = self.step(id, file, now) else { return };
        if let Some(within) = soon.iter().map(|(soon, _)| soon.within).max() {
            let made = soon.iter().map(|(soon, chance)| (soon.file, now + soon.after, *chance));
            let prediction = self.announce(source, made.collect(), now, decisions);
            self.foresight(source.user).predicted(prediction, within);
        }
        while let Some(overdue) = self.foresights.get_mut(&source.user).and_then(Foresight::overdue)
        {
            self.close_one(source.user, overdue, decisions);
        }
        self.bound_courses(source.user);
    }

    /// Notes the read, and gives what is to be predicted, with its chance.
    fn step(&mut self, id: RunId, file: Name, now: Duration) -> Option<(Source, Vec<(Soon, f32)>)> {
        let run = self.runs.get_mut(&id)?;
        let source = Source::foreseen(run);
        let Working::Ours(working) = &mut run.working else { return None };
        let habits = self.patterns.users.get_mut(&source.user)?;
        let foresight = self.foresights.get_mut(&source.user)?;
        let trail = working.trail();
        if !foresight.read(&mut habits.memory.beliefs, trail, file, now) {
            return Some((source, Vec::new()));
        }
        let depth = (window_from(habits.window) / DEPTH_PART).min(DEPTH_MAX);
        // Who reads some files of a folder often reads all of that kind, in the order of another
        // one who read them all.
        let ending = ending_of(habits.names.path(file));
        let kin = |other| ending_of(habits.names.path(other)) == ending;
        let outstanding = self.outstanding.entry(source.user).or_default();
        let wanted = |other| {
            other != file
                && !habits.is_near(other, &self.options, now)
                && !outstanding.holds(other, habits.accesses.files)
        };
        let ahead = foresight.ahead(trail, depth, wanted, kin);
        let bar = foresight.next_bar.chance();
        let mut chosen: Vec<(Soon, f32)> = Vec::new();
        for mut soon in ahead {
            if chosen.iter().any(|(chosen, _)| chosen.file == soon.file) {
                continue;
            }
            let opened = run.opened.contains(&soon.file);
            let by_patterns = Evidence::of_run(opened, working.knows(soon.file), soon.steps);
            soon.reasons[KINDS - 1] = Some(by_patterns);
            let beliefs = &habits.memory.beliefs;
            let subject = Subject::of(source.program, habits.names.path(soon.file));
            let chance = foresight.mixer.chance(beliefs, subject, &soon.reasons);
            foresight.expect(soon, subject);
            if chance >= bar && chosen.len() < outstanding.room() {
                chosen.push((soon, chance));
            }
        }
        Some((source, chosen))
    }
}
