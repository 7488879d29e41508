//! The driver of the scheduler: feeds it what happens, carries out what it answers.
//!
//! Attempts on remote objects are tasks of a runtime of its own; files of this machine are opened
//! and read ahead by threads. It decides no more than how these share that work (`waiting.rs`).

mod ahead;
mod arrivals;
mod attempt;
mod beginning;
mod blocking;
mod buffer;
mod devices;
mod feed;
mod files;
mod item;
mod pool;
mod pump;
mod reader;
mod state;
mod timer;
mod waiting;

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use sled::Device;
use store::{Costs, Name, SpillFolder, Stores};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::scheduler::{DeviceId, Event, Limits, MemberId, Snapshot};
use crate::sync::{AtomicUsize, Mutex, lock};
use pool::Pool;
use state::{After, State};

pub use blocking::blocking;
pub use feed::{Arrival, Feed, Turn};
pub use pump::Want;
pub use reader::{BytesReader, FileReader, Near, NearFile, opened_anew};

/// Threads that carry remote attempts: they wait for most of their time.
const WORKERS_MAX: usize = 4;
/// How long a thread of the runtime that has nothing to do is kept: a new one may be refused.
const IDLE_MAX: Duration = Duration::from_mins(1);
/// How long a first thread for what blocks may take to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(5);
/// How long threads of the runtime are waited for at its end: those that do nothing end at once.
const ENDS_WITHIN: Duration = Duration::from_millis(50);
/// Descriptors that a runtime opens when it begins.
const RUNTIME_DESCRIPTORS: usize = 8;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// What it may use, and when it loses patience.
    pub limits: Limits,
    /// Where bytes go that the budget has no room for; if not said, the folder for
    /// temporary files, or /var/tmp where that is kept in memory ([`SpillFolder`]).
    pub spill_folder: Option<PathBuf>,
}

impl Default for EngineOptions {
    /// With no more memory than a quarter of what this process could still have: its memory group may
    /// allow it less than a run takes elsewhere.
    fn default() -> Self {
        let limits = Limits::default();
        let within = store::memory_room().map(|room| limits.within(room));
        let limits =
            within.filter(|less| less.budget_bytes < limits.budget_bytes).unwrap_or(limits);
        Self { limits, spill_folder: None }
    }
}

/// Brings near what sets want; one for a process, shared by all its sets.
///
/// Clones are the same engine. It ends with its last clone, feed and reader.
#[derive(Debug, Clone)]
pub struct Engine(Arc<Inner>);

pub(crate) struct Inner {
    state: Mutex<State>,
    pool: Pool,
    /// Descriptors held for members that no reader has taken yet.
    open_files: Arc<AtomicUsize>,
    stores: Arc<Stores>,
    costs: Arc<Costs>,
    spill_folder: SpillFolder,
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
}

impl Engine {
    /// Over these stores, and the costs that files are located by.
    ///
    /// # Errors
    /// The system's, if it gives no threads, or not what a runtime hears of signals by;
    /// `InvalidInput`: limits by which nothing could be fetched.
    pub fn new(stores: Arc<Stores>, costs: Arc<Costs>, options: EngineOptions) -> io::Result<Self> {
        if let Some(why) = options.limits.unusable() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        may_have_runtime()?;
        // Its threads keep what they begin with open.
        let _others = store::Standard::held();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // A runtime that is refused one of its threads waits for it without an end.
        let threads = store::threads_given(cores.min(WORKERS_MAX) + 1, 2)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads - 1)
            .thread_keep_alive(IDLE_MAX)
            .thread_name("nearfirst")
            .on_thread_start(|| {
                store::leave_signals_to_others();
                blocking::thread_began();
            })
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        // With one thread for what blocks, more work waits for it where the system gives no second.
        let (began, begins) = mpsc::sync_channel(1);
        drop(handle.spawn_blocking(move || began.send(())));
        if begins.recv_timeout(BEGINS_WITHIN).is_err() {
            // Somebody else took the threads meanwhile.
            runtime.shutdown_background();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let timer = Arc::new(tokio::sync::Notify::new());
        let inner = Arc::new_cyclic(|me| Inner {
            state: Mutex::new(State::new(options.limits, Arc::clone(&timer))),
            pool: Pool::new(Weak::clone(me)),
            open_files: Arc::default(),
            stores,
            costs,
            spill_folder: options.spill_folder.into(),
            handle: handle.clone(),
            runtime: Mutex::new(Some(runtime)),
        });
        handle.spawn(timer::run(Arc::downgrade(&inner), timer));
        Ok(Self(inner))
    }

    /// Where bytes go that have no place in memory.
    pub fn spill_folder(&self) -> &SpillFolder {
        &self.0.spill_folder
    }

    /// Where objects live.
    pub fn stores(&self) -> &Arc<Stores> {
        &self.0.stores
    }

    /// What files of this machine cost.
    pub fn costs(&self) -> &Arc<Costs> {
        &self.0.costs
    }

    /// The runtime that stores must be asked in.
    pub fn handle(&self) -> &Handle {
        &self.0.handle
    }

    /// Whether there is another clone of it, or a set or a reader of its own that is not dropped.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The device that a number in a [`Snapshot`] stands for.
    pub fn device(&self, device: DeviceId) -> Option<Device> {
        lock(&self.0.state).devices.name(device).cloned()
    }

    /// The name of a member in a [`Snapshot`], while it is on its way or read.
    pub fn member(&self, member: MemberId) -> Option<Name> {
        let item = lock(&self.0.state).items.get(&member).map(Arc::clone)?;
        Some(item.entry().name)
    }

    /// Whether a file lies on a disk that is taken to have a head, by its name alone: there many
    /// files together cost little more than some of them, since they come in the order of their
    /// places.
    pub fn has_head(&self, path: &Path) -> bool {
        let place = self.0.costs.local().place_by_name(path);
        place.is_some_and(|(device, _)| devices::has_head(&device, &self.0.costs))
    }

    /// Which spill folder did not take what was to go there, and why, if one did not, lastly.
    pub fn spill_failure(&self) -> Option<String> {
        lock(&self.0.state).spill_failure.clone()
    }

    /// What is in flight, near and waited for.
    pub fn snapshot(&self) -> Snapshot {
        let state = lock(&self.0.state);
        state.scheduler.snapshot_at(self.0.costs.clock().now())
    }
}

impl Inner {
    /// Tells the scheduler what happened, and does what it answers.
    pub(crate) fn post(self: &Arc<Self>, events: impl IntoIterator<Item = Event>) {
        self.tell(events).finish(&self.pool);
    }

    /// As [`Inner::post`], but for what takes time.
    pub(crate) fn tell(self: &Arc<Self>, events: impl IntoIterator<Item = Event>) -> After {
        let mut state = lock(&self.state);
        let now = self.costs.clock().now();
        state.tell_all(events, now);
        self.carry_out(&mut state)
    }
}

/// Whether there are descriptors for a runtime, and sockets, which panics where it gets none.
fn may_have_runtime() -> io::Result<()> {
    let spare = |_| rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC);
    (0..RUNTIME_DESCRIPTORS).map(spare).collect::<Result<Vec<_>, _>>()?;
    UnixStream::pair().map(drop).map_err(|error| {
        let reason = store::io_reason(&error);
        io::Error::new(error.kind(), format!("no pair of sockets can be had: {reason}"))
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(runtime) = lock(&self.runtime).take() {
            end(runtime, ENDS_WITHIN);
        }
    }
}

/// Ends a runtime, and waits a moment for its threads: to let go of one just as it ends touches, in glibc,
/// what the thread has given back to the system by then. Here many end at once.
fn end(runtime: Runtime, within: Duration) {
    if Handle::try_current().is_err() {
        return runtime.shutdown_timeout(within);
    }
    // The last reader may be dropped within a task, where waiting is not allowed.
    let runtime = Arc::new(Mutex::new(Some(runtime)));
    let take = |runtime: &Mutex<Option<Runtime>>| lock(runtime).take();
    let ended = std::thread::Builder::new().spawn({
        let runtime = Arc::clone(&runtime);
        move || take(&runtime).map(|runtime| runtime.shutdown_timeout(within))
    });
    if ended.is_err()
        && let Some(runtime) = take(&runtime)
    {
        runtime.shutdown_background();
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("spill_folder", &self.spill_folder).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// What a thread has that counts its end.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    thread_local! {
        static LAST: RefCell<Option<Counted>> = const { RefCell::new(None) };
    }

    fn runtime(ended: &Arc<AtomicUsize>) -> Runtime {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("begun");
        let counted = Counted(Arc::clone(ended));
        let begun = runtime.spawn_blocking(move || LAST.set(Some(counted)));
        runtime.block_on(begun).expect("it ran");
        runtime
    }

    #[test]
    fn the_threads_of_a_runtime_have_ended_with_it() {
        let ended = Arc::default();
        end(runtime(&ended), Duration::MAX);
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_runtime_ends_within_a_task_too() {
        let ended = Arc::default();
        let (outer, inner) = (Runtime::new().expect("begun"), runtime(&ended));
        outer.block_on(async { end(inner, Duration::MAX) });
        drop(outer);
        while ended.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}
