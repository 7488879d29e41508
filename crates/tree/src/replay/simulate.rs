//! Plays a trace to a predictor, with a cache and a device that are models.
//!
//! Each file read and each program started is a reference. One that is not in the cache is a miss:
//! its process waits until the device has delivered the whole file, and what waits for the process
//! comes later (see [`order`](super::order)). What is predicted has its turn in the order of need,
//! as long as what had its turn and is yet unread takes no more than half of the cache: in the
//! cache it is kept as if it had been used, else it is fetched when the device has room. What a
//! program asks for goes before guesses that have not begun. A file written is in the cache.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::cache::{Cache, Capacity};
use super::device::{Device, Queue};
use super::fate::{Cause, Fate, Fates};
use super::ledger::{Ledger, State, Turn};
use super::names::{Name, Names};
use super::order::Order;
use super::predictor::{Predictor, reference};
use super::report::{FileReport, Report};
use super::trace::Trace;
use crate::{Access, Decision, Event, File, Prediction, PredictionId, Process};

/// Guesses that nobody has read yet, near before or not, may take one part in so many of the cache;
/// what is beyond waits for its turn. Everything else in the cache is what was read last, which is
/// worth as much.
const GUESSED_SHARE: u64 = 2;

/// What is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How much memory there is for files. By default 64 MiB: files are few in recorded work, and
    /// nothing would ever miss in a memory of today's size.
    pub cache: Capacity,
    /// Where the files are. By default a server.
    pub device: Device,
    /// Bytes of a file whose size the trace does not have. By default 16 KiB, about the mean of a
    /// source file.
    pub unknown_size: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { cache: Capacity::Bytes(64 << 20), device: Device::SERVER, unknown_size: 16 << 10 }
    }
}

/// Plays the trace once, from an empty cache, and says what the predictor was good for.
///
/// The predictor may have learned before; it learns on.
pub fn simulate(trace: &Trace, predictor: &mut dyn Predictor, options: &Options) -> Report {
    play(trace, predictor, options, None).report
}

/// As [`simulate`], with what became of each file, in the order of their first mention.
pub fn simulate_files(
    trace: &Trace,
    predictor: &mut dyn Predictor,
    options: &Options,
) -> (Report, Vec<FileReport>) {
    let simulation = play(trace, predictor, options, None);
    (simulation.report, simulation.files)
}

/// As [`simulate`], with all reads that missed and predictions that were wrong, as they were seen.
pub fn simulate_fates(
    trace: &Trace,
    predictor: &mut dyn Predictor,
    options: &Options,
) -> (Report, Vec<Fate>) {
    let simulation = play(trace, predictor, options, Some(Fates::default()));
    (simulation.report, simulation.fates.map(|fates| fates.all).unwrap_or_default())
}

fn play<'a>(
    trace: &Trace,
    predictor: &'a mut dyn Predictor,
    options: &'a Options,
    fates: Option<Fates>,
) -> Simulation<'a> {
    let mut simulation = Simulation {
        options,
        predictor,
        names: Names::default(),
        files: Vec::new(),
        sizes: HashMap::new(),
        cache: Cache::new(options.cache),
        queue: Queue::new(options.device),
        ledger: Ledger::default(),
        arriving: BTreeMap::new(),
        report: Report::default(),
        fates,
    };
    simulation.learn_sizes(trace);
    let mut order = Order::new(&trace.events);
    while let Some((now, index)) = order.next() {
        if let Some(fates) = &mut simulation.fates {
            fates.event = index;
        }
        simulation.advance(now);
        let wait = simulation.event(&trace.events[index].1, now);
        order.done(index, wait);
        // What is decided at a moment is done at that moment, if the device is free.
        simulation.issue(now);
        simulation.report.elapsed = simulation.report.elapsed.max(now + wait);
    }
    for (name, prediction, state) in simulation.ledger.rest() {
        simulation.wrong(name, (prediction, state), Cause::Unread);
    }
    simulation
}

struct Simulation<'a> {
    options: &'a Options,
    predictor: &'a mut dyn Predictor,
    names: Names,
    files: Vec<FileReport>,
    sizes: HashMap<Arc<[u8]>, u64>,
    cache: Cache,
    queue: Queue,
    ledger: Ledger,
    /// Guesses under way, by when they are through.
    arriving: BTreeMap<(Duration, Name), (PredictionId, u64, Duration)>,
    report: Report,
    /// Only where somebody asks for them.
    fates: Option<Fates>,
}

impl Simulation<'_> {
    /// Files that are predicted before they are read have sizes, too.
    fn learn_sizes(&mut self, trace: &Trace) {
        for (_, event) in trace.events.iter().rev() {
            if let Event::Opened { file, .. } | Event::Executed { program: file, .. } = event
                && let Some(size) = file.size
            {
                self.sizes.insert(Arc::clone(&file.path), size);
            }
        }
    }

    /// Does what the device does until `now`, in the order of time.
    fn advance(&mut self, now: Duration) {
        loop {
            let arrival = self.arriving.first_key_value().map_or(Duration::MAX, |(key, _)| key.0);
            self.issue(now.min(arrival));
            let Some(first) = self.arriving.first_entry() else { return };
            let (ready, name) = *first.key();
            if ready > now {
                return;
            }
            let (prediction, bytes, took) = first.remove();
            let path = self.names.bytes(name);
            let event = Event::Fetched { prediction, path, bytes, took };
            let decisions = self.predictor.on(&event, ready);
            self.decide(decisions, ready);
        }
    }

    /// Starts the guesses that the device has room for until `now`.
    fn issue(&mut self, now: Duration) {
        while let Some(&turn) = self.ledger.turn() {
            let cost = self.cache.cost(turn.bytes);
            if self.ledger.unread() + cost > self.cache.most() / GUESSED_SHARE {
                return;
            }
            if self.cache.ready(turn.name).is_some() {
                self.cache.touch(turn.name);
                self.ledger.taken(State::Kept { cost });
                self.near(turn.prediction, turn.name, now);
                continue;
            }
            let begin = self.queue.begin(turn.asked);
            if begin > now {
                return;
            }
            self.ledger.taken(State::Fetched { bytes: turn.bytes, cost });
            let ready = self.queue.start(turn.asked, turn.bytes);
            self.report.fetched += 1;
            self.of(turn.name).fetched += 1;
            add(&mut self.report.fetched_bytes, turn.bytes);
            self.arriving.insert(
                (ready, turn.name),
                (turn.prediction, turn.bytes, ready.saturating_sub(begin)),
            );
            self.put(turn.name, turn.bytes, ready);
        }
    }

    /// Tells that nothing of a predicted file has to be fetched.
    fn near(&mut self, prediction: PredictionId, name: Name, now: Duration) {
        let (path, took) = (self.names.bytes(name), Duration::ZERO);
        let event = Event::Fetched { prediction, path, bytes: 0, took };
        let decisions = self.predictor.on(&event, now);
        self.decide(decisions, now);
    }

    /// What the world does and what the predictor says to it; returns how long the process waits.
    fn event(&mut self, event: &Event, now: Duration) -> Duration {
        let mut wait = Duration::ZERO;
        if let Some(fates) = &mut self.fates {
            fates.on(event);
        }
        if let Some((process, file)) = reference(event) {
            wait = self.read(process, file, now);
        } else if let Event::Opened { file, access: Access::Write, .. } = event {
            let (name, bytes) = self.file(file);
            // Nobody read what was predicted, and nobody will.
            if let Some(predicted) = self.ledger.remove(name) {
                self.wrong(name, predicted, Cause::Written);
            }
            self.put(name, bytes, now);
        }
        let decisions = self.predictor.on(event, now);
        self.decide(decisions, now);
        wait
    }

    fn read(&mut self, process: Process, file: &File, now: Duration) -> Duration {
        let known = self.names.len();
        let (name, bytes) = self.file(file);
        let new = self.names.len() > known;
        self.report.references += 1;
        self.of(name).references += 1;
        let predicted = self.ledger.remove(name).map(|(_, state)| state);
        self.report.right += u64::from(predicted.is_some());
        let ready = self.cache.ready(name);
        let guessed = matches!(predicted, Some(State::Fetched { .. }));
        self.report.used += u64::from(guessed);
        self.of(name).used += u64::from(guessed);
        let near = ready.is_some_and(|ready| ready <= now);
        let mut cause = None;
        // A file on its way because somebody asked for it is missed once.
        if !near && (guessed || ready.is_none()) {
            let late = matches!(predicted, Some(State::Waiting(_) | State::Fetched { .. }));
            self.report.misses += 1;
            self.report.new += u64::from(new);
            add(&mut self.report.missed_bytes, bytes);
            self.report.late += u64::from(late);
            let of = self.of(name);
            of.misses += 1;
            of.late += u64::from(late);
            cause = Some(match (late, new) {
                (true, _) => Cause::Late,
                (false, true) => Cause::New,
                (false, false) => Cause::Unsaid,
            });
        }
        if let Some(fates) = &mut self.fates {
            fates.read((name, &file.path), process, cause);
        }
        let ready = if let Some(ready) = ready {
            self.cache.touch(name);
            ready.max(now)
        } else {
            let ready = self.queue.start(now, bytes);
            self.put(name, bytes, ready);
            ready
        };
        let wait = ready.saturating_sub(now);
        self.report.waited += wait;
        wait
    }

    fn file(&mut self, file: &File) -> (Name, u64) {
        let name = self.names.number(&file.path);
        if let Some(size) = file.size {
            self.sizes.insert(Arc::clone(&file.path), size);
        }
        (name, self.size(name))
    }

    fn of(&mut self, name: Name) -> &mut FileReport {
        for index in self.files.len()..self.names.len() {
            let path = self.names.bytes(Name::from_index(index));
            self.files.push(FileReport {
                path,
                references: 0,
                misses: 0,
                late: 0,
                fetched: 0,
                used: 0,
            });
        }
        &mut self.files[name.index()]
    }

    fn size(&self, name: Name) -> u64 {
        let known = self.sizes.get(&self.names.bytes(name));
        known.copied().unwrap_or(self.options.unknown_size)
    }

    fn put(&mut self, name: Name, bytes: u64, ready: Duration) {
        for gone in self.cache.insert(name, bytes, ready) {
            if let Some(predicted) = self.ledger.thrown_out(gone) {
                self.wrong(gone, predicted, Cause::ThrownOut);
            }
        }
    }

    /// A file that was fetched for an earlier prediction, or is on its way, is predicted again.
    fn told_again(&mut self, prediction: PredictionId, name: Name, now: Duration) {
        match self.cache.ready(name).and_then(|ready| self.arriving.get_mut(&(ready, name))) {
            Some(arriving) => arriving.0 = prediction,
            None => self.near(prediction, name, now),
        }
    }

    /// A prediction that has left the ledger was wrong.
    fn wrong(&mut self, name: Name, (prediction, state): (PredictionId, State), cause: Cause) {
        if let State::Fetched { bytes, .. } = state {
            add(&mut self.report.wasted_bytes, bytes);
        }
        if let Some(fates) = &mut self.fates {
            fates.wrong(self.names.bytes(name), prediction, cause);
        }
    }

    /// Whether a guess of so many bytes will ever have its turn.
    fn fits(&self, bytes: u64) -> bool {
        self.cache.cost(bytes) <= self.cache.most() / GUESSED_SHARE
    }

    fn decide(&mut self, decisions: Vec<Decision>, now: Duration) {
        for decision in decisions {
            match decision {
                Decision::Fetch(prediction) => self.predicted(&prediction, now),
                Decision::Withdraw(prediction) => {
                    for (name, waited) in self.ledger.withdraw(prediction) {
                        self.report.withdrawn += u64::from(waited);
                        if let Some(fates) = &mut self.fates {
                            let path = self.names.bytes(name);
                            fates.wrong(path, prediction, Cause::Withdrawn);
                        }
                    }
                }
            }
        }
    }

    fn predicted(&mut self, prediction: &Prediction, now: Duration) {
        for file in &prediction.files {
            let name = self.names.number(&file.path);
            let whole = self.size(name);
            let read = file.extents.iter().map(|extent| extent.end - extent.start).sum::<u64>();
            let bytes = if file.extents.is_empty() { whole } else { read.min(whole) };
            let new = if self.fits(bytes) {
                let turn = Turn { name, prediction: prediction.id, bytes, asked: now };
                self.ledger.want(turn, now + file.needed_in)
            } else {
                self.ledger.leave(name, prediction.id)
            };
            self.report.predicted += u64::from(new);
            if let Some(fates) = self.fates.as_mut().filter(|_| new) {
                fates.predicted(name, prediction.id, prediction.process);
            }
            if self.ledger.had_its_turn(name) {
                self.told_again(prediction.id, name, now);
            }
        }
    }
}

/// Adds bytes of files, of which a trace may say anything.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}
