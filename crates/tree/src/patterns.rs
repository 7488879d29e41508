//! What was learned: of every user, of every program.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::account::Account;
use crate::event::{Identity, User};
use crate::names::{Name, Names};
use crate::numbered::NumberMap;
use crate::paper::AccessTree;

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
    /// Events that changed something: the clock of usefulness.
    pub(crate) ticks: u64,
}

/// Files that were seen under one program's name, of which the oldest is forgotten: containers that
/// run side by side have their own, and an update replaces one.
const INODES_MAX: usize = 4;

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
        let trees = self.trees.iter().map(|tree| tree.nodes() * size_of::<crate::paper::Node>());
        size_of::<Self>() + trees.sum::<usize>()
    }

    fn names(&self, each: &mut impl FnMut(Name)) {
        self.trees.iter().for_each(|tree| tree.names(each));
    }
}

impl Habits {
    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.names.bytes() + self.programs.values().map(Program::bytes).sum::<usize>()
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        for (&name, program) in &self.programs {
            each(name);
            program.names(each);
        }
    }

    /// Forgets the programs that ran longest ago, until less than `bytes` remain.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let mut held = self.bytes() - self.names.bytes();
        let mut programs: Vec<(u64, Name)> =
            self.programs.iter().map(|(&name, program)| (program.used, name)).collect();
        programs.sort_unstable();
        for (_, name) in programs {
            if held <= bytes {
                return;
            }
            held -= self.programs.remove(&name).map_or(0, |program| program.bytes());
        }
    }
}
