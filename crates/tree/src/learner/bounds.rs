//! Whatever programs do, a learner takes a bounded amount of memory.

use super::Learner;
use crate::event::{Decision, User};
use crate::names::Name;
use crate::ours::Foresight;
use crate::patterns::Habits;

/// Processes known at a time: twice what a kernel allows by default. Beyond it those that did
/// nothing for longest are forgotten, for their ends must have been lost.
const PROCESSES_MAX: usize = 1 << 16;
/// How many runs end between two looks at the memory for patterns: a look costs some microseconds.
const RUNS_BETWEEN_LOOKS: u64 = 64;
/// Reads of a user between two looks at the memory for courses.
const READS_BETWEEN_LOOKS: u64 = 1 << 12;
/// Reads of all users that are remembered: some hundred megabytes at most, with their names.
const STEPS_MAX: usize = 1 << 20;
/// Part of the memory that is freed when it is full, so that this is seldom.
const FREED_PART: usize = 8;
/// Bytes of names from which on it is worth to look for those that nobody needs any more.
const SWEPT_BYTES_MIN: usize = 4 << 20;

impl Learner {
    pub(super) fn bound_processes(&mut self, decisions: &mut Vec<Decision>) {
        if self.processes.len() <= PROCESSES_MAX {
            return;
        }
        let mut active: Vec<u64> = self.processes.values().map(|seen| seen.active).collect();
        let (_, &mut middle, _) = active.select_nth_unstable(PROCESSES_MAX / 2);
        let mut idle: Vec<_> = (self.processes.iter())
            .filter(|(_, seen)| seen.active <= middle)
            .map(|(&process, _)| process)
            .collect();
        idle.sort_unstable();
        for process in idle {
            let run = self.processes.remove(&process).and_then(|seen| seen.run);
            if let Some(run) = run {
                if let Some(run) = self.runs.get_mut(&run) {
                    run.spoiled = true;
                }
                self.release(run, decisions);
            }
        }
    }

    /// Looks at the memory for patterns from time to time; what was useful longest ago goes first.
    pub(super) fn bound_patterns(&mut self, user: User) {
        let names = self.patterns.users.values().map(|habits| habits.names.bytes()).sum::<usize>();
        let due = self
            .patterns
            .users
            .get(&user)
            .is_some_and(|habits| habits.ticks.is_multiple_of(RUNS_BETWEEN_LOOKS));
        let littered = names > SWEPT_BYTES_MIN + 2 * self.swept_bytes;
        if !due && !littered {
            return;
        }
        let most = self.options.pattern_bytes_max;
        let total =
            |learner: &Self| learner.patterns.users.values().map(Habits::bytes).sum::<usize>();
        let mut full = total(self) > most;
        if full || littered {
            self.sweep();
            full = total(self) > most;
        }
        if full {
            let excess = (total(self) - most).saturating_add(most / FREED_PART);
            let largest = self.patterns.users.iter_mut().max_by_key(|(_, habits)| habits.bytes());
            if let Some((user, largest)) = largest {
                largest.shrink(excess);
                // It keeps names that nothing else needs any more.
                if let Some(foresight) = self.foresights.get_mut(user) {
                    foresight.shrink();
                }
            }
            self.sweep();
        }
    }

    /// Looks at the courses of all users from time to time.
    pub(super) fn bound_courses(&mut self, user: User) {
        let due = |foresight: &Foresight| foresight.reads().is_multiple_of(READS_BETWEEN_LOOKS);
        if !self.foresights.get(&user).is_some_and(due) {
            return;
        }
        let steps = self.foresights.values().map(Foresight::steps).sum::<usize>();
        let largest =
            self.foresights.iter_mut().max_by_key(|(user, foresight)| (foresight.steps(), **user));
        if let Some((_, largest)) = largest.filter(|_| steps > STEPS_MAX) {
            largest.shrink();
        }
    }

    /// Forgets the names that nobody needs any more.
    fn sweep(&mut self) {
        self.swept_bytes = 0;
        for (user, habits) in &mut self.patterns.users {
            let mut kept = vec![false; habits.names.len()];
            let mut keep = |name: Name| kept[name.0 as usize] = true;
            habits.names(&mut keep);
            for run in self.runs.values().filter(|run| run.user == *user) {
                run.names(&mut keep);
            }
            if let Some(outstanding) = self.outstanding.get(user) {
                outstanding.names(&mut keep);
            }
            if let Some(foresight) = self.foresights.get(user) {
                foresight.names(&mut keep);
            }
            habits.names.sweep(&kept);
            self.swept_bytes += habits.names.bytes();
        }
    }
}
