//! Who says what comes next.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{Access, Decision, Event, File, Predicted, Prediction, PredictionId, Process, User};

/// Learns from events and predicts.
pub trait Predictor {
    /// What is to be done after `event`, which happened at `now`; `now` never decreases, but once it
    /// begins anew.
    fn on(&mut self, event: &Event, now: Duration) -> Vec<Decision>;

    /// A trace is over: goes on with what is kept when nobody is there to learn.
    fn begin_anew(&mut self) {}
}

/// Predicts nothing: what the cache alone is good for.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPredictor;

impl Predictor for NoPredictor {
    fn on(&mut self, _event: &Event, _now: Duration) -> Vec<Decision> {
        Vec::new()
    }
}

/// The file that an event reads, programs included, and the process that does.
pub(super) fn reference(event: &Event) -> Option<(Process, &File)> {
    match event {
        Event::Executed { process, program: file, .. }
        | Event::Opened { process, file, access: Access::Read } => Some((*process, file)),
        _ => None,
    }
}

/// Numbers the predictions of those who know neither users nor times: files are needed at once.
#[derive(Debug, Default)]
pub(super) struct Says {
    made: u64,
}

impl Says {
    pub(super) fn fetch(
        &mut self,
        process: Process,
        files: Vec<(Arc<[u8]>, f32)>,
    ) -> Vec<Decision> {
        if files.is_empty() {
            return Vec::new();
        }
        self.made += 1;
        let files = files.into_iter().map(|(path, chance)| Predicted {
            path,
            extents: Vec::new(),
            needed_in: Duration::ZERO,
            chance,
            inode: None,
        });
        let id = PredictionId(self.made);
        let files = files.collect();
        vec![Decision::Fetch(Prediction { id, process, user: User(0), files })]
    }
}

/// Which program each process runs.
#[derive(Debug, Default)]
pub(super) struct Programs(HashMap<Process, Arc<[u8]>>);

impl Programs {
    pub(super) fn on(&mut self, event: &Event) {
        match event {
            Event::Forked { parent, child } => {
                if let Some(program) = self.0.get(parent).cloned() {
                    self.0.insert(*child, program);
                }
            }
            Event::Executed { process, program, .. } => {
                self.0.insert(*process, Arc::clone(&program.path));
            }
            Event::Exited { process } => {
                self.0.remove(process);
            }
            _ => {}
        }
    }

    pub(super) fn of(&self, process: Process) -> Option<&Arc<[u8]>> {
        self.0.get(&process)
    }
}
