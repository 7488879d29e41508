//! What became of single reads and predictions: where a predictor falls short.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::names::Name;
use crate::{Event, PredictionId, Process};

/// Why a read missed, or how a prediction was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Missed: nobody had read or written the file before.
    New,
    /// Missed: it was not predicted since it was last read.
    Unsaid,
    /// Missed: it was predicted since then, and withdrawn or thrown out.
    Gone,
    /// Missed: it was predicted and is not near yet.
    Late,
    /// Wrong: withdrawn before it was fetched.
    Withdrawn,
    /// Wrong: thrown out of the cache before anybody read it.
    ThrownOut,
    /// Wrong: written before anybody read it.
    Written,
    /// Wrong: not read until the trace ended.
    Unread,
}

/// A read that missed, or a prediction that was wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// At which event of the trace it was seen.
    pub event: usize,
    /// The cause.
    pub cause: Cause,
    /// The file.
    pub path: Arc<[u8]>,
    /// What the process that read it, or that it was predicted for, was called with, between
    /// spaces.
    pub command: Arc<[u8]>,
}

/// Notes fates.
#[derive(Debug, Default)]
pub(super) struct Fates {
    pub(super) all: Vec<Fate>,
    /// The event that is being played.
    pub(super) event: usize,
    commands: HashMap<Process, Arc<[u8]>>,
    predicted_for: HashMap<PredictionId, Arc<[u8]>>,
    /// Files predicted since they were last read.
    said: HashSet<Name>,
}

impl Fates {
    /// Follows which process was called with what.
    pub(super) fn on(&mut self, event: &Event) {
        match event {
            Event::Forked { parent, child } => {
                if let Some(command) = self.commands.get(parent).cloned() {
                    self.commands.insert(*child, command);
                }
            }
            Event::Executed { process, arguments, .. } => {
                self.commands.insert(*process, arguments.join(&b' ').into());
            }
            Event::Exited { process } => drop(self.commands.remove(process)),
            _ => {}
        }
    }

    /// A file was predicted for a process.
    pub(super) fn predicted(&mut self, name: Name, prediction: PredictionId, process: Process) {
        self.said.insert(name);
        let command = self.commands.get(&process).cloned().unwrap_or_default();
        self.predicted_for.entry(prediction).or_insert(command);
    }

    /// A file was read, and for this cause missed.
    pub(super) fn read(
        &mut self,
        (name, path): (Name, &Arc<[u8]>),
        process: Process,
        cause: Option<Cause>,
    ) {
        let said = self.said.remove(&name);
        let Some(cause) = cause else { return };
        let cause = if said && cause == Cause::Unsaid { Cause::Gone } else { cause };
        let command = self.commands.get(&process).cloned().unwrap_or_default();
        self.note(cause, Arc::clone(path), command);
    }

    /// A prediction of a file was wrong.
    pub(super) fn wrong(&mut self, path: Arc<[u8]>, prediction: PredictionId, cause: Cause) {
        let command = self.predicted_for.get(&prediction).cloned().unwrap_or_default();
        self.note(cause, path, command);
    }

    fn note(&mut self, cause: Cause, path: Arc<[u8]>, command: Arc<[u8]>) {
        self.all.push(Fate { event: self.event, cause, path, command });
    }
}
