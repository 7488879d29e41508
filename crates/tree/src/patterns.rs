//! What was learned: of every user, of every program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::account::Account;
use crate::event::{Identity, User};
use crate::names::{Accesses, Name, Names};
use crate::numbered::NumberMap;
use crate::options::Options;
use crate::ours::Memory;
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
}

/// Files that were seen under one program's name, of which the oldest is forgotten: containers that
/// run side by side have their own, and an update replaces one.
const INODES_MAX: usize = 4;

/// Memory of a program's account and table entry, about.
const PROGRAM_BYTES: usize = 256;

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
        self.accesses.bytes += size.unwrap_or(self.names.size(file));
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
        self.names.bytes() + self.memory.bytes() + programs
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.names_of_programs(each);
        self.memory.names(each);
    }

    fn names_of_programs(&self, each: &mut impl FnMut(Name)) {
        for (&name, program) in &self.programs {
            each(name);
            program.names(each);
        }
    }

    /// Forgets a program, and the files that only it had to do with; whether it was known.
    pub(crate) fn forget(&mut self, program: Name) -> bool {
        let was_known = self.programs.remove(&program).is_some();
        self.memory.retain(|known| known != program);
        let mut kept = vec![false; self.names.len()];
        let mut keep = |name: Name| kept[name.0 as usize] = true;
        self.names_of_programs(&mut keep);
        self.memory.names_of_programs(&mut keep);
        self.memory.retain_files(|file| kept[file.0 as usize]);
        self.names.sweep(&kept);
        was_known
    }

    /// Forgets what was useful longest ago, until about so many bytes less are held.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let patterns = self.memory.bytes();
        self.memory.shrink(patterns.saturating_sub(bytes));
        let mut excess = bytes.saturating_sub(patterns - self.memory.bytes());
        let mut programs: Vec<(u64, Name)> =
            self.programs.iter().map(|(&name, program)| (program.used, name)).collect();
        programs.sort_unstable();
        for (_, name) in programs {
            if excess == 0 {
                break;
            }
            let freed = self.programs.remove(&name).map_or(0, |program| program.bytes());
            excess = excess.saturating_sub(freed);
        }
        let programs = &self.programs;
        self.memory.retain(|program| programs.contains_key(&program));
    }
}
