//! One run of a program, from its execution to its end.

use std::time::Duration;

use crate::event::{PredictionId, Process, User};
use crate::names::Name;
use crate::numbered::NumberSet;
use crate::{ours, paper};

/// A run; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub(crate) u64);

/// Files of one run that are recorded: a package manager opens some twenty thousand at every start.
/// Of a run that opens more, the beginning is learned.
pub(crate) const FILES_MAX: usize = 1 << 16;
/// Files of all runs that are recorded: some tens of megabytes of memory beside their names,
/// whatever runs.
pub(crate) const ALL_FILES_MAX: usize = 1 << 20;

/// Files of all runs that are watched for or planned, about: some tens of megabytes.
pub(crate) const ALL_WATCHED_MAX: usize = 1 << 20;

/// A run of a program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) user: User,
    pub(crate) program: Name,
    pub(crate) started: Duration,
    /// The process that executed it.
    pub(crate) owner: Process,
    /// Processes and runs that keep it from being over.
    pub(crate) holders: u32,
    /// The run it was invoked from, and as which program of that.
    pub(crate) parent: Option<(RunId, usize)>,
    /// The run that it took the process of, and holds.
    pub(crate) replaced: Option<RunId>,
    /// Runs that its process had before.
    pub(crate) replacements: usize,
    /// Not all that it did is known: it is not learned from.
    pub(crate) spoiled: bool,
    pub(crate) predictions: Vec<PredictionId>,
    /// The files it opened, and that of its program.
    pub(crate) opened: NumberSet<Name>,
    pub(crate) working: Working,
}

/// What the rules in use know of a run.
#[derive(Debug)]
pub(crate) enum Working {
    Paper(paper::Working),
    Ours(Box<ours::Working>),
}

impl Working {
    /// Files that are watched for, and those that are planned: bounded for all runs together. The
    /// paper's rules share what they expect with their trees.
    pub(crate) fn watched(&self) -> usize {
        match self {
            Self::Paper(_) => 0,
            Self::Ours(working) => working.watched(),
        }
    }
}

impl Run {
    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        each(self.program);
        self.opened.iter().for_each(|&name| each(name));
        match &self.working {
            Working::Paper(working) => working.names(each),
            Working::Ours(working) => working.names(each),
        }
    }
}
