//! Whatever programs do, a learner takes a bounded amount of memory.
//!
//! For what is known, with the order of reads, it is what the options give; what goes beyond that is
//! forgotten at the next look. For runs that are not over it is what so many processes, files that
//! they read, and files that are expected of them take (`run`), for predictions what so many files
//! do (`outstanding`), each with the names of these files.

use std::cmp::Reverse;

use super::Learner;
use crate::event::{Decision, User};
use crate::names::Name;
use crate::numbered::NumberMap;
use crate::ours::Foresight;
use crate::patterns::Habits;
use crate::run::{ALL_WATCHED_MAX, Run, RunId};

/// Processes known at a time: twice what a kernel allows by default. Beyond it those that did
/// nothing for longest are forgotten, for their ends must have been lost.
const PROCESSES_MAX: usize = 1 << 16;
/// How many runs end between two looks at the memory for patterns: a look costs some microseconds.
const RUNS_BETWEEN_LOOKS: u64 = 64;
/// Reads of a user between two looks at the memory.
const READS_BETWEEN_LOOKS: u64 = 1 << 12;
/// Part of the memory that is freed when it is full, so that this is seldom.
const FREED_PART: usize = 8;
/// Bytes of names from which on it is worth to look for those that nobody needs any more.
const SWEPT_BYTES_MIN: usize = 4 << 20;

/// One run may take this part of the room that all others have left: however large the first ones
/// are, there is some for the next.
const ROOM_PART: usize = 8;
/// Files that each run may watch for and plan in any case: more than are told at first.
const ROOM_MIN: usize = 64;

impl Learner {
    /// How many files a run may watch for and plan, by what others do.
    pub(super) fn room(&self) -> usize {
        (ALL_WATCHED_MAX.saturating_sub(self.watched) / ROOM_PART).max(ROOM_MIN)
    }

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

    /// Looks at the memory from time to time, as runs end.
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
        self.bound(littered);
    }

    /// The same at once: before what is known is saved, of which a run that is over now may have held much.
    ///
    /// The order of the last reads goes with it.
    pub fn keep_within_memory(&mut self) {
        self.bound(false);
        self.copy_courses();
    }

    /// Puts the order of the last reads where it is saved from.
    pub(super) fn copy_courses(&mut self) {
        for (user, foresight) in &self.foresights {
            if let Some(habits) = self.patterns.users.get_mut(user) {
                (habits.course, habits.bars) = (foresight.kept(), foresight.bars());
            }
        }
    }

    /// The same as files are read: a run may last for days.
    pub(super) fn bound_courses(&mut self, user: User) {
        let due = |foresight: &Foresight| foresight.reads().is_multiple_of(READS_BETWEEN_LOOKS);
        if self.foresights.get(&user).is_some_and(due) {
            self.bound(false);
        }
    }

    /// Keeps what is known within its memory: copies of the courses that were saved go first, then
    /// the older half of the longest course, then what is known of files that no pattern has, then
    /// of patterns and programs what was useful longest ago. However much the courses take, these
    /// keep half of the memory.
    fn bound(&mut self, littered: bool) {
        for user in self.foresights.keys() {
            if let Some(habits) = self.patterns.users.get_mut(user) {
                habits.course = Vec::new();
            }
        }
        let most = self.options.pattern_bytes_max;
        if !littered && self.bytes() <= most || self.sweep() <= most {
            return;
        }
        let key = |(user, foresight): &(&User, &mut Foresight)| (foresight.bytes(), **user);
        if let Some((_, longest)) = self.foresights.iter_mut().max_by_key(key) {
            longest.shrink();
        }
        if self.sweep() <= most {
            return;
        }
        let runs = &self.runs;
        for (&user, habits) in &mut self.patterns.users {
            habits.forget_fleeting(held(runs, user, habits));
        }
        let foreseen = self.foresights.values().map(Foresight::bytes).sum::<usize>();
        let aim = (most - most / FREED_PART).max(most / 2 + foreseen);
        while self.sweep() > aim && self.forget_oldest() {}
    }

    /// Forgets some of what the programs of one user did, of whom most is known; whether anything
    /// could be forgotten.
    fn forget_oldest(&mut self) -> bool {
        let mut users: Vec<(&User, &mut Habits)> = self.patterns.users.iter_mut().collect();
        users.sort_by_key(|(_, habits)| Reverse(habits.bytes()));
        let runs = &self.runs;
        users.into_iter().any(|(&user, habits)| habits.forget_oldest(held(runs, user, habits)))
    }

    /// Memory for what is known, about.
    fn bytes(&self) -> usize {
        let patterns = self.patterns.users.values().map(Habits::bytes).sum::<usize>();
        patterns + self.foresights.values().map(Foresight::bytes).sum::<usize>()
    }

    /// Forgets the names that nobody needs any more; gives the memory for what is known, without
    /// the names that only runs hold: these are bounded by themselves, and nothing that could be
    /// forgotten frees them.
    fn sweep(&mut self) -> usize {
        self.swept_bytes = 0;
        let mut held_bytes = 0;
        for (user, habits) in &mut self.patterns.users {
            let mut kept = vec![false; habits.names.len()];
            let mut keep = |name: Name| kept[name.0 as usize] = true;
            habits.names(&mut keep);
            if let Some(foresight) = self.foresights.get(user) {
                foresight.names(&mut keep);
            }
            let mut hold = |name: Name| {
                if !std::mem::replace(&mut kept[name.0 as usize], true) {
                    held_bytes += habits.names.bytes_of(name);
                }
            };
            for run in self.runs.values().filter(|run| run.user == *user) {
                run.names(&mut hold);
            }
            if let Some(outstanding) = self.outstanding.get(user) {
                outstanding.names(&mut hold);
            }
            habits.names.sweep(&kept);
            self.swept_bytes += habits.names.bytes();
        }
        self.bytes() - held_bytes
    }
}

/// Which of a user's names runs hold that are not over, by number.
fn held(runs: &NumberMap<RunId, Run>, user: User, habits: &Habits) -> Vec<bool> {
    let mut held = vec![false; habits.names.len()];
    for run in runs.values().filter(|run| run.user == user) {
        run.names(&mut |name| held[name.0 as usize] = true);
    }
    held
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::event::{Access, Event, File, Process};
    use crate::options::Options;
    use crate::patterns::Patterns;

    fn file(path: &str) -> File {
        File { path: Arc::from(path.as_bytes()), identity: None, size: None }
    }

    fn start(learner: &mut Learner, process: Process) {
        let now = Duration::ZERO;
        learner.on(Event::Found { process, user: User(0) }, now);
        let (program, folder) = (file("/bin/reader"), Arc::from(&b"/"[..]));
        let arguments = vec![Arc::from(&b"reader"[..])];
        learner.on(Event::Executed { process, program, arguments, folder }, now);
    }

    #[test]
    fn many_runs_of_what_once_read_very_much_share_their_room() {
        let mut learner = Learner::new(Options::default(), Patterns::default());
        start(&mut learner, Process(0));
        for number in 0..30_000 {
            let file = file(&format!("/data/{number}"));
            let opened = Event::Opened { process: Process(0), file, access: Access::Read };
            learner.on(opened, Duration::ZERO);
        }
        learner.on(Event::Exited { process: Process(0) }, Duration::ZERO);
        for process in 1..=100 {
            start(&mut learner, Process(process));
        }
        let watched = |learner: &Learner| {
            learner.runs.values().map(|run| run.working.watched()).collect::<Vec<_>>()
        };
        let each = watched(&learner);
        assert_eq!(each.iter().sum::<usize>(), learner.watched);
        assert!(learner.watched <= ALL_WATCHED_MAX + 100 * ROOM_MIN, "{}", learner.watched);
        assert!(each.iter().all(|&watched| watched >= ROOM_MIN), "{each:?}");
        for process in 1..=50 {
            learner.on(Event::Exited { process: Process(process) }, Duration::ZERO);
        }
        assert_eq!(watched(&learner).iter().sum::<usize>(), learner.watched);
        learner.on(Event::Lost { process: None }, Duration::ZERO);
        assert_eq!(learner.watched, 0);
    }
}
