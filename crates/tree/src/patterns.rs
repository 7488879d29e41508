//! What was learned: of every user, of every program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;
use crate::event::{Identity, User};
use crate::names::{Accesses, Name, Names, SIZE_MAX};
use crate::numbered::{NumberMap, NumberSet};
use crate::options::Options;
use crate::ours::{Chain, Kept, Memory};
use crate::paper::{AccessTree, Node};

/// What was learned of the programs of all users.
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    pub(crate) users: BTreeMap<User, Habits>,
}

/// What was learned of one user's programs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Habits {
    pub(crate) names: Names,
    pub(crate) programs: NumberMap<Name, Program>,
    pub(crate) memory: Memory,
    /// Events that changed something: the clock of usefulness.
    pub(crate) ticks: u64,
    /// First accesses of files in runs, since the learner began.
    pub(crate) accesses: Accesses,
    /// How many files ahead predictions have lately had to be to be in time.
    pub(crate) window: usize,
    /// The last reads in their order, as they were when that was saved, until a foresight holds
    /// them.
    pub(crate) course: Vec<Kept>,
    /// Where the bars were then, of files of runs and of what comes next; 0: nothing is known of that.
    pub(crate) bars: [f32; 2],
}

/// Files that were seen under one program's name, of which the oldest is forgotten: containers that
/// run side by side have their own, and an update replaces one.
const INODES_MAX: usize = 4;

/// Memory of a program's account and table entry, about.
const PROGRAM_BYTES: usize = 256;

/// Part of what is known of programs that is forgotten at a time: how much memory that frees is only
/// known once the names that nobody else holds are gone, too.
const FORGOTTEN_PART: usize = 16;

/// What is forgotten at a time; what one run taught, before its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Pattern(u64),
    Program(Name),
}

/// What was learned of one program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Program {
    pub(crate) trees: Vec<Arc<AccessTree>>,
    pub(crate) account: Account,
    /// When it ran last.
    pub(crate) used: u64,
    /// The inodes seen under its name, the latest last; devices change their numbers at a boot.
    pub(crate) inodes: Vec<u64>,
}

impl Program {
    /// Notes which file the program is; whether it is another than those seen before.
    pub(crate) fn identify(&mut self, identity: Option<Identity>) -> bool {
        let Some(Identity { inode, .. }) = identity else { return false };
        if self.inodes.contains(&inode) {
            return false;
        }
        if self.inodes.len() == INODES_MAX {
            self.inodes.remove(0);
        }
        self.inodes.push(inode);
        self.inodes.len() > 1
    }

    fn bytes(&self) -> usize {
        let trees = self.trees.iter().map(|tree| tree.nodes() * size_of::<Node>());
        PROGRAM_BYTES + trees.sum::<usize>()
    }

    fn names(&self, each: &mut impl FnMut(Name)) {
        self.trees.iter().for_each(|tree| tree.names(each));
    }
}

impl Habits {
    /// Adds to what a program's predictions were worth.
    pub(crate) fn add(&mut self, program: Name, account: Account) {
        if let Some(program) = self.programs.get_mut(&program) {
            program.account += account;
        }
    }

    /// A file is accessed, for the first time in a run.
    pub(crate) fn access(&mut self, file: Name, size: Option<u64>, now: Duration) {
        self.accesses.at = now;
        self.accesses.files += 1;
        self.accesses.bytes += size.unwrap_or(self.names.size(file)).min(SIZE_MAX);
        self.names.access(file, size, self.accesses);
    }

    /// A file is read again in a run: it is near for longer.
    pub(crate) fn access_again(
        &mut self,
        file: Name,
        size: Option<u64>,
        options: &Options,
        now: Duration,
    ) {
        if self.is_near(file, options, now) {
            // It pushes nothing out.
            self.accesses.at = now;
            self.names.access(file, size, self.accesses);
        } else {
            self.access(file, size, now);
        }
    }

    /// Whether a file was accessed so short a while ago that it is near.
    pub(crate) fn is_near(&self, file: Name, options: &Options, now: Duration) -> bool {
        self.names.accessed(file).is_some_and(|then| {
            self.accesses.files - then.files < options.near_files
                && self.accesses.bytes - then.bytes < options.near_bytes
                && now.saturating_sub(then.at) < options.near_for
        })
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let programs = self.programs.values().map(Program::bytes).sum::<usize>();
        let course = self.course.len() * size_of::<Kept>();
        self.names.bytes() + self.memory.bytes() + programs + course
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.names_of_programs(each);
        self.memory.names(each);
        self.names_of_course(each);
    }

    /// The names that are held because of the order of the last reads.
    pub(crate) fn names_of_course(&self, each: &mut impl FnMut(Name)) {
        for Kept { step, start } in &self.course {
            each(step.file);
            if let Some(start) = start {
                each(start.executable);
            }
        }
    }

    fn names_of_programs(&self, each: &mut impl FnMut(Name)) {
        for (&name, program) in &self.programs {
            each(name);
            program.names(each);
        }
    }

    /// Forgets programs, and the files that only these had to do with.
    pub(crate) fn forget(&mut self, programs: &NumberSet<Name>) {
        self.programs.retain(|program, _| !programs.contains(program));
        self.course = Vec::new();
        self.memory.retain(|known| !programs.contains(&known));
        let mut kept = vec![false; self.names.len()];
        let mut keep = |name: Name| kept[name.0 as usize] = true;
        self.names_of_programs(&mut keep);
        self.memory.names_of_programs(&mut keep);
        self.memory.retain_files(|file| kept[file.0 as usize]);
        self.names.sweep(&kept);
    }

    /// Forgets what is known of files that no pattern has, but those that are `held`: what followed
    /// more than once is kept.
    pub(crate) fn forget_fleeting(&mut self, held: Vec<bool>) {
        self.course = Vec::new();
        let mut kept = held;
        self.memory.names_of_patterns(&mut |name| kept[name.0 as usize] = true);
        self.memory.retain_repeated(|file| kept[file.0 as usize]);
        let mut keep = |name: Name| kept[name.0 as usize] = true;
        self.names_of_programs(&mut keep);
        self.memory.names_of_programs(&mut keep);
        self.memory.chain.names(&mut keep);
        self.memory.retain_touched(|file| kept[file.0 as usize]);
    }

    /// Forgets a part of what is known of programs, what was useful longest ago first, and of files
    /// that only these had to do with; whether there was anything.
    ///
    /// What the runs hold that are not over (`held`) was useful just now; their programs stay, so
    /// that what they do can be learned.
    pub(crate) fn forget_oldest(&mut self, held: Vec<bool>) -> bool {
        let bytes = self.bytes();
        let is_held = |name: Name| held[name.0 as usize];
        let mut known = self.by_use(is_held);
        let mut left = known.iter().map(|&(.., bytes)| bytes).sum::<usize>() / FORGOTTEN_PART;
        known.sort_unstable();
        let mut gone: NumberSet<Name> = NumberSet::default();
        for (_, known, bytes) in known {
            match known {
                Known::Pattern(circumstance) => self.memory.forget(circumstance),
                Known::Program(name) => {
                    gone.insert(name);
                    if !is_held(name) {
                        self.programs.remove(&name);
                    }
                }
            }
            if left <= bytes {
                break;
            }
            left -= bytes;
        }
        let programs = &self.programs;
        self.memory.retain(|program| programs.contains_key(&program) && !gone.contains(&program));
        self.forget_fleeting(held);
        self.bytes() < bytes
    }

    /// Patterns and programs, each with when it was useful last and the memory that it takes.
    fn by_use(&self, is_held: impl Fn(Name) -> bool) -> Vec<(u64, Known, usize)> {
        let used = |(&name, program): (&Name, &Program)| {
            (name, if is_held(name) { self.ticks } else { program.used })
        };
        let mut programs: NumberMap<Name, u64> = self.programs.iter().map(used).collect();
        let mut known = Vec::with_capacity(programs.len() + self.memory.patterns.len());
        for (&circumstance, pattern) in &self.memory.patterns {
            if let Some(used) = pattern.program.and_then(|program| programs.get_mut(&program)) {
                *used = pattern.used.max(*used);
            }
            known.push((pattern.used, Known::Pattern(circumstance), pattern.bytes()));
        }
        known.extend(programs.into_iter().map(|(name, used)| {
            let chain = self.memory.chains.get(&name).map_or(0, Chain::bytes);
            (used, Known::Program(name), self.programs[&name].bytes() + chain)
        }));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours::Pattern;

    /// Programs of which nothing but their names is known, used in this order.
    fn habits_of(programs: u64) -> (Habits, Vec<Name>) {
        let mut habits = Habits { ticks: programs, ..Habits::default() };
        let mut names = Vec::new();
        for used in 0..programs {
            let name = habits.names.intern(&Arc::from(format!("/bin/{used}").as_bytes()));
            habits.programs.insert(name, Program { used, ..Program::default() });
            names.push(name);
        }
        (habits, names)
    }

    fn held(habits: &Habits, names: &[Name]) -> Vec<bool> {
        let mut held = vec![false; habits.names.len()];
        for name in names {
            held[name.0 as usize] = true;
        }
        held
    }

    #[test]
    fn the_file_seen_first_under_a_name_is_forgotten_first() {
        let mut program = Program::default();
        let most = u64::try_from(INODES_MAX).expect("small");
        let identify =
            |program: &mut Program, inode| program.identify(Some(Identity { device: 1, inode }));
        assert!(!identify(&mut program, 0), "there was no other");
        assert!((1..=most).all(|inode| identify(&mut program, inode)));
        assert_eq!(program.inodes, (1..=most).collect::<Vec<_>>());
        assert!(!identify(&mut program, most), "it is known");
        assert!(identify(&mut program, 0), "it was forgotten");
    }

    #[test]
    fn a_program_was_useful_when_it_or_one_of_its_patterns_was_last() {
        let (mut habits, names) = habits_of(4);
        for (circumstance, program, used) in [(10, names[1], 3), (11, names[2], 0)] {
            let pattern = Pattern { program: Some(program), used, ..Pattern::default() };
            habits.memory.patterns.insert(circumstance, pattern);
        }
        let mut by_use: Vec<_> = habits
            .by_use(|name| name == names[0])
            .into_iter()
            .map(|(used, known, _)| (known, used))
            .collect();
        by_use.sort_unstable();
        let patterns = [(Known::Pattern(10), 3), (Known::Pattern(11), 0)];
        let programs = [4, 3, 2, 3].into_iter().zip(&names);
        let programs = programs.map(|(used, &name)| (Known::Program(name), used));
        assert_eq!(by_use, patterns.into_iter().chain(programs).collect::<Vec<_>>());
    }

    #[test]
    fn a_sixteenth_is_forgotten_at_a_time() {
        let (mut habits, names) = habits_of(u64::try_from(FORGOTTEN_PART).expect("small"));
        let nothing_held = held(&habits, &[]);
        assert!(habits.forget_oldest(nothing_held));
        assert!(!habits.programs.contains_key(&names[0]));
        assert_eq!(habits.programs.len(), names.len() - 1);
    }

    #[test]
    fn what_a_run_holds_is_forgotten_last_and_its_program_stays() {
        let (mut habits, names) = habits_of(3);
        while habits.forget_oldest(held(&habits, &names[..1])) {}
        assert_eq!(habits.programs.keys().collect::<Vec<_>>(), [&names[0]]);
    }
}
