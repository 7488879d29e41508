//! What the file system and the mount's owner share: rules with their devices, counts, waiting answers.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::device::{Answer, Device, Verdict};
use crate::later::{Later, When};
use crate::mount::Options;
use crate::rule::{Profile, Rule};
use crate::stats::{Read, Stats};

#[derive(Debug)]
pub(crate) struct Engine {
    clock: Clock,
    pub(crate) later: Later,
    seed: u64,
    speed_up: f64,
    log_reads_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rules: Vec<(Rule, Device)>,
    /// For files that no rule is about: it costs nothing and never fails.
    free: Device,
    stats: Stats,
}

impl Engine {
    /// Takes the rules out of `options`.
    pub(crate) fn new(options: &mut Options, clock: Clock, later: Later) -> Self {
        let engine = Self {
            clock,
            later,
            seed: options.seed,
            speed_up: options.speed_up,
            log_reads_max: options.log_reads_max,
            state: Mutex::new(State {
                rules: Vec::new(),
                free: Device::new(Profile::default(), options.seed),
                stats: Stats::default(),
            }),
        };
        engine.set_rules(std::mem::take(&mut options.rules));
        engine
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the rules; their devices are fresh, and requests that hang are answered.
    pub(crate) fn set_rules(&self, rules: Vec<Rule>) {
        let devices = rules.into_iter().zip(self.seed..).map(|(rule, seed)| {
            let device = Device::new(rule.profile.clone().sped_up(self.speed_up), seed);
            (rule, device)
        });
        let mut state = self.state();
        state.rules = devices.collect();
        // Still under the lock: whoever hangs by the old rules is released, by the new ones not.
        let held = self.later.release();
        drop(state);
        for answer in held {
            answer();
        }
    }

    pub(crate) fn rules(&self) -> Vec<Rule> {
        self.state().rules.iter().map(|(rule, _)| rule.clone()).collect()
    }

    /// The rules in their text form, one a line.
    pub(crate) fn rules_text(&self) -> String {
        let rules: Vec<String> = self.rules().iter().map(Rule::to_string).collect();
        rules.join("\n") + "\n"
    }

    pub(crate) fn stats(&self) -> Stats {
        self.state().stats.clone()
    }

    /// Sets all counts to zero and lets every device begin anew.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        state.stats = Stats::default();
        state.rules.iter_mut().for_each(|(_, device)| device.reset());
    }

    /// Charges and counts a read for which the source gave `available` bytes (`None`: it failed).
    pub(crate) fn read(&self, file: u64, asked: Read, available: Option<u64>) -> (When, Answer) {
        let mut state = self.state();
        let now = self.clock.now();
        let device = state.device(&asked.path);
        let answer = device.read(now, file, asked.offset, available.unwrap_or(0));
        let bytes = match answer.verdict {
            Verdict::Whole => available,
            Verdict::Short => available.map(|bytes| bytes / 2),
            Verdict::Fail => None,
        };
        state.stats.count_read(asked, bytes, answer.seek, self.log_reads_max);
        (self.later.when(answer.due), answer)
    }

    /// Counts that a read of `path` was answered.
    pub(crate) fn answered(&self, path: &Path) {
        self.state().stats.count_answer(path);
    }

    /// Charges and counts a write; returns when it is answered.
    pub(crate) fn write(&self, file: u64, path: &Path, offset: u64, bytes: u64) -> When {
        let mut state = self.state();
        state.stats.count_write(path, bytes);
        let now = self.clock.now();
        let due = state.device(path).write(now, file, offset, bytes);
        self.later.when(due)
    }

    /// Whether the next look-up of `path` is late.
    pub(crate) fn is_late(&self, path: &Path) -> bool {
        self.state().device(path).is_late()
    }

    /// Counts a request without file data about `path`, and gives the answer at its time.
    pub(crate) fn answer_metadata(&self, path: &Path, answer: impl FnOnce() + Send + 'static) {
        let now = self.clock.now();
        let mut state = self.state();
        state.stats.count_metadata();
        let due = state.device(path).metadata(now);
        let when = self.later.when(due);
        drop(state);
        self.later.at(when, answer);
    }

    /// Gives the answer to the closing of a file, which costs nothing: at once, unless its device hangs.
    pub(crate) fn answer_close(&self, path: &Path, answer: impl FnOnce() + Send + 'static) {
        let now = self.clock.now();
        let mut state = self.state();
        let due = state.device(path).close(now);
        let when = self.later.when(due);
        drop(state);
        self.later.at(when, answer);
    }

    /// The same for the opening of a file, which some devices are not asked about.
    pub(crate) fn answer_open(
        &self,
        file: u64,
        path: &Path,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let mut state = self.state();
        state.stats.count_open(path);
        let is_asked = state.device(path).is_asked_to_open(file);
        drop(state);
        if is_asked {
            self.answer_metadata(path, answer);
        } else {
            answer();
        }
    }
}

impl State {
    /// The device of the first rule about the path.
    fn device(&mut self, path: &Path) -> &mut Device {
        self.rules
            .iter_mut()
            .find(|(rule, _)| rule.matches(path))
            .map_or(&mut self.free, |(_, device)| device)
    }
}
