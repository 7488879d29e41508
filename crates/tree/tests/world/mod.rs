//! The words in which these tests speak: programs that start, open files and end.

#![allow(dead_code, reason = "no test uses all words")]
#![allow(clippy::allow_attributes, reason = "which words a test leaves out differs")]

use std::sync::Arc;
use std::time::Duration;

use nearfirst_tree::{
    Access, Decision, Event, File, Identity, Learner, Prediction, PredictionId, Process, User,
};

/// What every fetch takes.
pub(crate) const TOOK: Duration = Duration::from_millis(30);

/// A learner, what happens to it, and what it decided.
pub(crate) struct World {
    pub(crate) learner: Learner,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) user: User,
    pub(crate) folder: String,
    now: Duration,
    processes: u64,
}

impl World {
    pub(crate) fn new(learner: Learner) -> Self {
        let (user, folder) = (User(1000), "/home/u".to_owned());
        Self { learner, decisions: Vec::new(), user, folder, now: Duration::ZERO, processes: 0 }
    }

    /// Ten milliseconds later, this happens.
    pub(crate) fn event(&mut self, event: Event) {
        self.now += Duration::from_millis(10);
        self.decisions.extend(self.learner.on(event, self.now));
    }

    /// A process of nobody's that executes a program.
    pub(crate) fn start(&mut self, program: &str, arguments: &str) -> Process {
        let process = self.process();
        let user = self.user;
        self.event(Event::Found { process, user });
        self.execute(process, program, arguments);
        process
    }

    pub(crate) fn fork(&mut self, parent: Process) -> Process {
        let child = self.process();
        self.event(Event::Forked { parent, child });
        child
    }

    /// A child that executes a program.
    pub(crate) fn invoke(&mut self, parent: Process, program: &str, arguments: &str) -> Process {
        let child = self.fork(parent);
        self.execute(child, program, arguments);
        child
    }

    pub(crate) fn execute(&mut self, process: Process, program: &str, arguments: &str) {
        let arguments = arguments.split(' ').map(|word| Arc::from(word.as_bytes())).collect();
        let folder = Arc::from(self.folder.as_bytes());
        self.event(Event::Executed { process, program: file(program), arguments, folder });
    }

    pub(crate) fn open(&mut self, process: Process, path: &str) {
        self.event(Event::Opened { process, file: file(path), access: Access::Read });
    }

    pub(crate) fn open_all<S: AsRef<str>>(
        &mut self,
        process: Process,
        paths: impl IntoIterator<Item = S>,
    ) {
        for path in paths {
            self.open(process, path.as_ref());
        }
    }

    pub(crate) fn write(&mut self, process: Process, path: &str) {
        self.event(Event::Opened { process, file: file(path), access: Access::Write });
    }

    pub(crate) fn exit(&mut self, process: Process) {
        self.event(Event::Exited { process });
    }

    pub(crate) fn fetched(&mut self, prediction: PredictionId, path: &str, bytes: u64) {
        let path = Arc::from(path.as_bytes());
        self.event(Event::Fetched { prediction, path, bytes, took: TOOK });
    }

    /// All that was predicted is near already, by all decisions from the so-manieth on.
    pub(crate) fn near_from(&mut self, decision: usize) {
        let mut next = decision;
        while let Some(decision) = self.decisions.get(next).cloned() {
            if let Decision::Fetch(Prediction { id, files, .. }) = decision {
                for file in files {
                    self.fetched(id, &String::from_utf8_lossy(&file.path), 0);
                }
            }
            next += 1;
        }
    }

    /// A program that starts, opens these files and ends.
    pub(crate) fn run(&mut self, program: &str, arguments: &str, files: &[&str]) {
        let process = self.start(program, arguments);
        self.open_all(process, files);
        self.exit(process);
    }

    pub(crate) fn predictions(&self) -> impl Iterator<Item = &Prediction> {
        self.decisions.iter().filter_map(|decision| match decision {
            Decision::Fetch(prediction) => Some(prediction),
            Decision::Withdraw(_) => None,
        })
    }

    /// The files predicted, in order.
    pub(crate) fn predicted(&self) -> Vec<String> {
        let files = self.predictions().flat_map(|prediction| &prediction.files);
        files.map(|file| String::from_utf8_lossy(&file.path).into_owned()).collect()
    }

    pub(crate) fn withdrawn(&self) -> usize {
        self.decisions.iter().filter(|decision| matches!(decision, Decision::Withdraw(_))).count()
    }

    pub(crate) fn forget_decisions(&mut self) {
        self.decisions.clear();
    }

    fn process(&mut self) -> Process {
        self.processes += 1;
        Process(self.processes)
    }
}

/// A file whose identity is a function of its path.
pub(crate) fn file(path: &str) -> File {
    let inode = path.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
    let identity = Some(Identity { device: 1, inode });
    File { path: Arc::from(path.as_bytes()), identity, size: Some(4096) }
}
