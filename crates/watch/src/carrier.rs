//! Carries predictions out: guessed wants of files of this machine, until they are withdrawn.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::future::poll_fn;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::Waker;
use std::time::Duration;

use fetch::engine::{Engine, EngineOptions, Feed, Near, Turn, Want};
use fetch::scheduler::{Limits, Order, Origin, SetTerms};
use futures::stream;
use futures::task::AtomicWaker;
use store::{Clock, Costs, Entry, Name, Power, Pressure, Stores, StoresOptions};
use tokio::task::AbortHandle;
use tree::{Event, Predicted, Prediction, PredictionId};

use crate::io_priority;
use crate::ranges::{bytes, without};
use crate::recent::Recent;
use crate::unread::Unread;

/// Of a file of which nobody saw which parts are read, no more than this is fetched: who reads all
/// of it from the start is read ahead for by the kernel meanwhile, who reads little of it is spared
/// the rest.
const UNSEEN_BYTES_MAX: u64 = 32 << 20;

/// On a disk with a head files that are needed up to sixteen times as late come in one go, which is
/// over long before the last of them is needed.
const SWEPT_BANDS: u32 = 4;

/// Predictions that are brought near at a time: what waits behind so many would come too late.
const RUNNING_MAX: usize = 1024;

/// How long it is looked what of a prediction would be fetched: who predicts waits meanwhile.
const LOOKED_MAX: Duration = Duration::from_millis(100);

/// Files remembered that would have been fetched; about 100 bytes each.
const SPARED_MAX: usize = 1 << 16;

/// How often it is looked whether what was given up is over, which takes microseconds.
const LEAVING_LOOKED_EVERY: Duration = Duration::from_micros(200);
const LEAVING_LOOKS: usize = 250;

/// What carrying out may use.
#[derive(Debug, Clone, PartialEq)]
pub struct CarrierOptions {
    /// Limits of the engine that fetches.
    pub limits: Limits,
    /// Only to look at what would be fetched: nothing is.
    pub looks: bool,
    /// To fetch also while the machine runs on a battery.
    pub on_battery: bool,
    /// Nothing that lies here is looked at or fetched.
    pub excluded: Vec<PathBuf>,
    /// Bytes that may be fetched, or on their way, and not read yet; `None`: what memory has room for.
    pub unread_bytes_max: Option<u64>,
}

impl Default for CarrierOptions {
    fn default() -> Self {
        let limits = Limits {
            // Guesses may use half of it: what the largest window of 64 files has in flight at 1 MiB.
            budget_bytes: 128 << 20,
            // The page cache is the only place that files are brought to.
            spill_bytes: 0,
            // Beyond this a program's own reads wait behind ours in the device's queue.
            window_max: 64,
            part_bytes: 1 << 20,
            // All that one run is told of at a time: where a disk has a head it is opened before any
            // of it is read. The engine keeps fewer descriptors, and opens the others again.
            ahead: 4096,
            attempts_max: 1,
            ..Limits::default()
        };
        Self {
            limits,
            looks: false,
            on_battery: false,
            excluded: Vec::new(),
            unread_bytes_max: None,
        }
    }
}

/// What came of predictions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Files that were predicted.
    pub predicted: u64,
    /// Of these, files that were near already, as far as was known or found.
    pub near: u64,
    /// Files of which something was fetched.
    pub fetched: u64,
    /// The bytes of that.
    pub fetched_bytes: u64,
    /// Files of which something would have been fetched by who does not only look.
    pub spared: u64,
    /// The bytes of that.
    pub spared_bytes: u64,
    /// Files that could not be read, or must not be opened for a guess.
    pub refused: u64,
    /// Files that were given up under pressure of memory; where it is only looked, for want of time, too.
    pub dropped: u64,
    /// Files that were left alone since too many others waited.
    pub crowded: u64,
    /// Files that were left alone since the machine ran on a battery.
    pub unpowered: u64,
}

/// Brings near what is predicted.
///
/// Nothing is started before the first prediction of a file that may be far. What a program opened
/// or we brought a moment ago is taken to be near. Under pressure of memory everything is given up, and on
/// a battery nothing is begun; where much of what was fetched was not read yet, the rest waits until it is.
#[derive(Debug)]
pub(crate) struct Carrier {
    costs: Arc<Costs>,
    options: CarrierOptions,
    engine: Option<Engine>,
    running: HashMap<PredictionId, Running>,
    /// Given up, and perhaps not over.
    leaving: Vec<AbortHandle>,
    recent: Recent,
    unread: Arc<Unread>,
    /// Files that would have been fetched, and that nobody opened since.
    spared: HashSet<Arc<[u8]>>,
    /// Those that nobody was told of.
    untold: Vec<(Predicted, u64)>,
    pressure: Pressure,
    power: Power,
    counts: Carried,
    tell: Sender<Done>,
    told: Receiver<Done>,
    /// Of whoever waits for what is told.
    waiting: Arc<AtomicWaker>,
}

#[derive(Debug)]
struct Running {
    task: AbortHandle,
    /// Files that were not heard of yet.
    files: u64,
}

/// What became of a file; `None`: of the last file of a prediction.
#[derive(Debug)]
struct Done {
    prediction: PredictionId,
    at: Duration,
    file: Option<(Arc<[u8]>, Outcome)>,
}

#[derive(Debug)]
enum Outcome {
    Near { bytes: u64, took: Duration },
    Refused,
}

/// Why a prediction is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    IsOnBattery,
    IsCrowded,
    MemoryIsShort,
}

impl Carrier {
    /// Opens files and learns what devices take by `costs`, whose clock it goes by.
    pub(crate) fn new(costs: Arc<Costs>, options: CarrierOptions) -> Self {
        let (tell, told) = mpsc::channel();
        Self {
            costs,
            options,
            engine: None,
            running: HashMap::new(),
            leaving: Vec::new(),
            recent: Recent::default(),
            unread: Arc::default(),
            spared: HashSet::new(),
            untold: Vec::new(),
            pressure: Pressure::default(),
            power: Power::default(),
            counts: Carried::default(),
            tell,
            told,
            waiting: Arc::default(),
        }
    }

    /// The clock that events are timed by.
    pub(crate) fn clock(&self) -> &Clock {
        self.costs.clock()
    }

    /// What came of predictions so far.
    pub(crate) fn counts(&self) -> Carried {
        self.counts
    }

    /// Predictions that are being carried out.
    pub(crate) fn in_flight(&self) -> usize {
        self.running.len()
    }

    /// A program opened a file: it is being read, whether it was near or not.
    pub(crate) fn is_opened(&mut self, path: &Arc<[u8]>) {
        let now = self.costs.clock().now();
        self.recent.note(path, now);
        self.unread.read(path);
        self.spared.remove(path);
    }

    /// The files that would have been fetched, and how many bytes of each, since the last call.
    pub(crate) fn take_spared(&mut self) -> Vec<(Predicted, u64)> {
        std::mem::take(&mut self.untold)
    }

    /// Finds out at once what would be fetched, as far as there is time; no file counts again that nobody
    /// has opened meanwhile.
    fn look(&mut self, id: PredictionId, files: Vec<Predicted>) -> Vec<Event> {
        let began = self.costs.clock().now();
        let mut told = Vec::new();
        for file in files {
            let path = Arc::clone(&file.path);
            if self.spared.contains(&path) {
                continue;
            }
            let now = self.costs.clock().now();
            if now.saturating_sub(began) >= LOOKED_MAX {
                self.counts.dropped += 1;
                told.push(Event::Refused { prediction: id, path });
                continue;
            }
            match self.far_bytes(&file) {
                Ok(0) => {
                    self.counts.near += 1;
                    self.recent.note(&path, now);
                    told.push(near_already(id, path));
                }
                Ok(bytes) => self.spare(file, bytes),
                Err(_) => {
                    self.counts.refused += 1;
                    told.push(Event::Refused { prediction: id, path });
                }
            }
        }
        told
    }

    fn spare(&mut self, file: Predicted, bytes: u64) {
        self.counts.spared += 1;
        self.counts.spared_bytes += bytes;
        if self.spared.len() >= SPARED_MAX {
            self.spared.clear();
        }
        self.spared.insert(Arc::clone(&file.path));
        self.untold.push((file, bytes));
    }

    /// How many bytes of what is predicted of a file are not near, or not known to be.
    fn far_bytes(&self, file: &Predicted) -> Result<u64, store::Error> {
        let path = path_of(file);
        let (opened, status) = self.costs.open_harmless(path)?;
        let far = self.costs.local().far_ranges(&opened, &status);
        let far = far.map_err(|source| store::Error::io(path, source))?;
        let parts = parts_of(file);
        Ok(bytes(&far) - bytes(&without(far, &parts)))
    }

    /// Begins to bring near what is predicted; gives what the guesser is to be told at once: whether
    /// it does well to say more ([`Event::Swept`]), and what is known to be near already.
    pub(crate) fn fetch(&mut self, mut prediction: Prediction) -> Vec<Event> {
        let refused = self.refuse_excluded(&mut prediction);
        let Prediction { id, files, .. } = prediction;
        let now = self.costs.clock().now();
        self.counts.predicted += files.len() as u64;
        let (near, wanted): (Vec<Predicted>, Vec<Predicted>) =
            files.into_iter().partition(|file| self.recent.is_near(&file.path, now));
        self.counts.near += near.len() as u64;
        let mut told = self.carry_out(id, wanted, now);
        told.extend(near.into_iter().map(|file| near_already(id, file.path)));
        told.extend(refused);
        told
    }

    /// Takes what is excluded out of a prediction; gives what the guesser is to be told of it.
    fn refuse_excluded(&mut self, prediction: &mut Prediction) -> Vec<Event> {
        let excluded = &self.options.excluded;
        let is_excluded = |file: &mut Predicted| {
            excluded.iter().any(|excluded| path_of(file).starts_with(excluded))
        };
        let id = prediction.id;
        let refused = prediction.files.extract_if(.., is_excluded);
        let refused = refused.map(|file| Event::Refused { prediction: id, path: file.path });
        let refused: Vec<_> = refused.collect();
        self.counts.predicted += refused.len() as u64;
        self.counts.refused += refused.len() as u64;
        refused
    }

    /// Looks for, or begins to fetch, what may be far, if that is admitted.
    fn carry_out(&mut self, id: PredictionId, files: Vec<Predicted>, now: Duration) -> Vec<Event> {
        if files.is_empty() {
            return Vec::new();
        }
        match self.admit(now) {
            Ok(()) if self.options.looks => self.look(id, files),
            Ok(()) => self.begin(id, files),
            Err(why) => self.leave_alone(id, files, why),
        }
    }

    /// Whether one more prediction may be carried out; the same is asked where it is only looked.
    fn admit(&mut self, now: Duration) -> Result<(), Why> {
        if !self.options.on_battery && self.power.is_on_battery(now) {
            Err(Why::IsOnBattery)
        } else if self.running.len() >= RUNNING_MAX {
            Err(Why::IsCrowded)
        } else if self.memory_is_short(now) {
            Err(Why::MemoryIsShort)
        } else {
            Ok(())
        }
    }

    /// Counts what is not admitted; what passes soon the guesser is told nothing of.
    fn leave_alone(&mut self, id: PredictionId, files: Vec<Predicted>, why: Why) -> Vec<Event> {
        let count = match why {
            Why::IsOnBattery => &mut self.counts.unpowered,
            Why::IsCrowded => &mut self.counts.crowded,
            Why::MemoryIsShort => &mut self.counts.dropped,
        };
        *count += files.len() as u64;
        if why != Why::IsOnBattery {
            return Vec::new();
        }
        let refused = |file: Predicted| Event::Refused { prediction: id, path: file.path };
        files.into_iter().map(refused).collect()
    }

    fn begin(&mut self, id: PredictionId, mut wanted: Vec<Predicted>) -> Vec<Event> {
        // Without threads programs run as they do without us.
        let Some(engine) = self.engine().cloned() else { return Vec::new() };
        let has_head = |file: &&Predicted| engine.has_head(path_of(file));
        let is_swept = wanted.iter().filter(has_head).count() * 2 >= wanted.len();
        if is_swept {
            sort_by_place(&mut wanted);
        } else {
            wanted.sort_by_key(|file| file.needed_in);
        }
        let files = wanted.len() as u64;
        let paths: Vec<_> = wanted.iter().map(|file| Arc::clone(&file.path)).collect();
        let bands = if is_swept { SWEPT_BANDS } else { 1 };
        let wants = wanted.into_iter().enumerate().map(|(at, file)| want(at, &file, bands));
        let wants: Vec<_> = wants.collect();
        let terms = SetTerms { origin: Origin::Guessed, order: Order::Ready };
        let feed = engine.open(stream::iter(wants.into_iter().map(Ok)), terms);
        let (clock, tell) = (self.costs.clock().clone(), self.tell.clone());
        let (unread, waiting) = (Arc::clone(&self.unread), Arc::clone(&self.waiting));
        let drain = Drain { prediction: id, paths, clock, tell, unread, waiting };
        let task = engine.handle().spawn(drain.run(feed));
        self.running.insert(id, Running { task: task.abort_handle(), files });
        if is_swept { vec![Event::Swept { prediction: id }] } else { Vec::new() }
    }

    /// Gives up what of a prediction is not near yet.
    pub(crate) fn withdraw(&mut self, id: PredictionId) {
        if let Some(running) = self.running.remove(&id) {
            running.task.abort();
        }
    }

    /// Has `waker` called when something becomes near, or cannot, that the next [`Carrier::done`]
    /// does not tell.
    pub(crate) fn wake(&self, waker: &Waker) {
        self.waiting.register(waker);
    }

    /// What became near since the last call, and what cannot. Of what was given up under pressure of
    /// memory nothing is told: what waits for it stays behind until the pressure is over.
    pub(crate) fn done(&mut self) -> Vec<(Duration, Event)> {
        let mut events = Vec::new();
        while let Ok(Done { prediction, at, file }) = self.told.try_recv() {
            let Some((path, outcome)) = file else {
                self.running.remove(&prediction);
                continue;
            };
            if let Some(running) = self.running.get_mut(&prediction) {
                running.files = running.files.saturating_sub(1);
            }
            let Outcome::Near { bytes, took } = outcome else {
                self.counts.refused += 1;
                events.push((at, Event::Refused { prediction, path }));
                continue;
            };
            self.recent.note(&path, at);
            if bytes > 0 {
                self.counts.fetched += 1;
                self.counts.fetched_bytes += bytes;
            } else {
                self.counts.near += 1;
            }
            events.push((at, Event::Fetched { prediction, path, bytes, took }));
        }
        events
    }

    /// Gives everything up if memory has become short; to be called now and then.
    pub(crate) fn look_after(&mut self) {
        if !self.running.is_empty() && self.memory_is_short(self.costs.clock().now()) {
            self.counts.dropped += self.running.values().map(|running| running.files).sum::<u64>();
            self.give_up();
        }
    }

    /// Gives everything up.
    pub(crate) fn give_up(&mut self) {
        self.recent.clear();
        self.leaving.retain(|task| !task.is_finished());
        for (_, Running { task, .. }) in self.running.drain() {
            task.abort();
            self.leaving.push(task);
        }
    }

    /// Waits a moment until nothing more is begun of what was given up.
    pub(crate) fn wait_for_leaving(&mut self) {
        for _ in 0..LEAVING_LOOKS {
            self.leaving.retain(|task| !task.is_finished());
            if self.leaving.is_empty() {
                return;
            }
            store::pause(LEAVING_LOOKED_EVERY);
        }
    }

    fn memory_is_short(&mut self, now: Duration) -> bool {
        let room = self.room(now);
        self.unread.has_room_for(room, now);
        self.pressure.is_high(now)
    }

    /// Bytes that may be fetched and not read yet; `None` if nobody tells.
    fn room(&mut self, now: Duration) -> Option<u64> {
        let rooms = [self.pressure.room(now), self.options.unread_bytes_max];
        rooms.into_iter().flatten().min()
    }

    fn engine(&mut self) -> Option<&Engine> {
        if self.engine.is_none() {
            // It starts threads, which come last with us.
            io_priority::come_last();
            let stores = Arc::new(Stores::new(Arc::clone(&self.costs), &StoresOptions::default()));
            let mut limits = self.options.limits;
            if let Some(room) = self.room(self.costs.clock().now()) {
                // Guesses use half of it. That is as of the first one; what memory has room for later
                // bounds what nobody has read yet.
                limits.budget_bytes = limits.budget_bytes.min(room.saturating_mul(2));
            }
            let options = EngineOptions { limits, spill_folder: None };
            self.engine = Engine::new(stores, Arc::clone(&self.costs), options).ok();
        }
        self.engine.as_ref()
    }
}

/// Of a file of which nothing had to be fetched.
fn near_already(prediction: PredictionId, path: Arc<[u8]>) -> Event {
    Event::Fetched { prediction, path, bytes: 0, took: Duration::ZERO }
}

fn path_of(file: &Predicted) -> &Path {
    Path::new(OsStr::from_bytes(&file.path))
}

/// As they, and the folders that name them, probably lie on a disk; of each folder first one file,
/// since threads that look for two of one wait for the same block.
fn sort_by_place(files: &mut [Predicted]) {
    files.sort_by(|one, other| (one.inode, &one.path).cmp(&(other.inode, &other.path)));
    let mut folders = HashSet::new();
    let is_first = |file: &Predicted| folders.insert(path_of(file).parent().map(Path::to_owned));
    let firsts: Vec<bool> = files.iter().map(is_first).collect();
    let mut firsts = firsts.into_iter();
    files.sort_by_cached_key(|_| !firsts.next().unwrap_or(false));
}

/// The parts of a file that are wanted.
fn parts_of(file: &Predicted) -> Vec<Range<u64>> {
    if file.extents.is_empty() {
        return vec![Range { start: 0, end: UNSEEN_BYTES_MAX }];
    }
    file.extents.clone()
}

/// A predicted file as the engine is told of it. When it is needed is told as one of so many
/// doublings of a millisecond, each `bands` of which are one.
fn want(at: usize, file: &Predicted, bands: u32) -> Want {
    // Files that are needed at about the same time may come in the order of their places on disk.
    let soon = file.needed_in.as_millis().saturating_add(1).ilog2() / bands;
    let name = Name::from(path_of(file));
    let rank = -f64::from(soon);
    let parts = parts_of(file);
    Want { entry: Entry::named(name), rank, tag: at as u64, parts }
}

/// Takes every member of a feed and lets it go at once: it is in the page cache.
struct Drain {
    prediction: PredictionId,
    /// By the tags of their wants.
    paths: Vec<Arc<[u8]>>,
    clock: Clock,
    tell: Sender<Done>,
    unread: Arc<Unread>,
    waiting: Arc<AtomicWaker>,
}

impl Drain {
    async fn run(self, feed: Feed) {
        let Self { prediction, paths, clock, tell, unread, waiting } = self;
        let mut turn = Turn::default();
        loop {
            // What is not taken is within the engine's budget, which is all that it goes on with.
            unread.room().await;
            let arrival = poll_fn(|context| feed.poll_next(context, &mut turn)).await;
            let Some(arrival) = arrival else { break };
            let at = clock.now();
            let path = usize::try_from(arrival.tag).ok().and_then(|tag| paths.get(tag));
            let Some(path) = path.map(Arc::clone) else { continue };
            let outcome = match arrival.near {
                Ok(Near::File(file)) => {
                    let bytes = file.fetched_bytes();
                    unread.fetched(&path, bytes, at);
                    Outcome::Near { bytes, took: file.fetch_took() }
                }
                Ok(Near::Bytes(_)) | Err(_) => Outcome::Refused,
            };
            // Whoever listened is gone, and with it the feed's use.
            if tell.send(Done { prediction, at, file: Some((path, outcome)) }).is_err() {
                return;
            }
            waiting.wake();
        }
        drop(tell.send(Done { prediction, at: clock.now(), file: None }));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use testkit::Dir;
    use tree::{Process, User};

    use super::*;

    /// A file of this folder.
    fn predicted(dir: &Dir) -> Prediction {
        let file = Predicted {
            path: dir.create("file", "x").into_os_string().into_vec().into(),
            extents: Vec::new(),
            needed_in: Duration::ZERO,
            chance: 1.0,
            inode: None,
        };
        Prediction { id: PredictionId(0), process: Process(1), user: User(0), files: vec![file] }
    }

    #[test]
    fn on_a_battery_nothing_is_fetched_or_said_to_be_unless_that_is_asked_for() {
        let dir = Dir::new();
        dir.create("BAT0/type", "Battery\n");
        dir.create("BAT0/status", "Discharging\n");
        let predicted = predicted(&dir);
        let fetch = |on_battery, looks| {
            let options = CarrierOptions { looks, on_battery, ..CarrierOptions::default() };
            let mut carrier = Carrier::new(Arc::new(Costs::load()), options);
            carrier.power = Power::by(dir.path());
            let told = carrier.fetch(predicted.clone());
            let Carried { unpowered, spared, .. } = carrier.counts();
            (told, unpowered, spared, carrier.in_flight())
        };
        let path = Arc::clone(&predicted.files[0].path);
        let refused = Event::Refused { prediction: predicted.id, path };
        let left = (vec![refused], 1, 0, 0);
        assert_eq!((fetch(false, false), fetch(false, true)), (left.clone(), left));
        assert_eq!((fetch(true, false).1, fetch(true, true).1), (0, 0));
    }

    #[test]
    fn what_is_left_alone_since_others_wait_is_not_said_to_lack_memory() {
        let options = CarrierOptions { on_battery: true, ..CarrierOptions::default() };
        let mut carrier = Carrier::new(Arc::new(Costs::load()), options);
        let engine = carrier.engine().expect("threads can be had").clone();
        for id in 1..=RUNNING_MAX as u64 {
            let task = engine.handle().spawn(std::future::pending::<()>()).abort_handle();
            carrier.running.insert(PredictionId(id), Running { task, files: 1 });
        }
        assert_eq!(carrier.fetch(predicted(&Dir::new())), []);
        let counts = carrier.counts();
        assert_eq!((counts.crowded, counts.dropped), (1, 0));
        carrier.give_up();
    }

    #[test]
    fn no_more_may_be_unread_than_is_allowed_however_much_memory_has_room() {
        let options = CarrierOptions { unread_bytes_max: Some(7), ..CarrierOptions::default() };
        let mut carrier = Carrier::new(Arc::new(Costs::load()), options);
        assert_eq!(carrier.room(Duration::ZERO), Some(7));
    }

    #[test]
    fn one_file_of_each_folder_is_looked_for_first() {
        let order = |files: [(&str, Option<u64>); 6]| {
            let mut files = files.map(|(path, inode)| Predicted {
                path: Arc::from(path.as_bytes()),
                extents: Vec::new(),
                needed_in: Duration::ZERO,
                chance: 1.0,
                inode,
            });
            sort_by_place(&mut files);
            files.map(|file| String::from_utf8_lossy(&file.path).into_owned())
        };
        let unknown = ["/b/2", "/a/2", "/b/1", "/a/1", "/a/3", "/c/1"].map(|path| (path, None));
        assert_eq!(order(unknown), ["/a/1", "/b/1", "/c/1", "/a/2", "/a/3", "/b/2"]);
        let known = [("/b/2", 2), ("/a/2", 5), ("/b/1", 1), ("/a/1", 4), ("/a/3", 9), ("/c/1", 3)];
        let known = known.map(|(path, inode)| (path, Some(inode)));
        assert_eq!(order(known), ["/b/1", "/c/1", "/a/1", "/b/2", "/a/2", "/a/3"]);
    }
}
