//! Walks by threads that can be left behind, where something is mounted that may not answer.
//!
//! Nobody sees into a walk that waits. So while nothing comes of one, the mounts are asked that its folders
//! lie on, and it is given up once one of them does not answer; a slow folder is waited for. What may
//! not answer is walked by itself, after what it is mounted in, so that only its own walk is given up.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use anyhow::Context as _;
use ignore::{DirEntry, WalkState};
use nearfirst::{Error, Name};
use store::lock;

use super::settings::Settings;
use super::trouble::Trouble;
use super::walk::builder;
use crate::outcome::NO_THREADS;
use crate::reach::Reach;

/// Entries that a walk may be ahead of who searches them.
const AHEAD_MAX: usize = 256;

/// How often it is looked whether a walk that is waited for still matters.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// After so many looks, a second, at which nothing had come of a walk its mounts are asked.
const QUIET_LOOKS_MAX: u32 = 20;

type Found = Result<DirEntry, ignore::Error>;

/// Walks over all that was named, one after the other.
pub(super) struct Walks<'a> {
    settings: &'a Settings,
    trouble: &'a Trouble,
    threads: usize,
    state: Mutex<State>,
    /// Whether nothing more is wanted.
    is_over: AtomicBool,
}

struct State {
    walk: Option<Walk>,
    /// What is walked after that.
    later: VecDeque<Roots>,
}

/// Where one walk begins.
struct Roots {
    paths: Vec<PathBuf>,
    /// How far below what was named.
    depth: usize,
}

impl<'a> Walks<'a> {
    /// Over `paths`, by so many threads.
    ///
    /// # Errors
    /// That no thread can be had.
    pub(super) fn new(
        paths: &[PathBuf],
        threads: usize,
        settings: &'a Settings,
        trouble: &'a Trouble,
    ) -> anyhow::Result<Self> {
        let reach = &settings.reach;
        let together = |a: &PathBuf, b: &PathBuf| reach.wary_point(a) == reach.wary_point(b);
        let mut later: VecDeque<_> = paths
            .chunk_by(together)
            .map(|paths| Roots { paths: paths.to_vec(), depth: 0 })
            .collect();
        let first = later.pop_front();
        let walk = first.map(|roots| Walk::begin(roots, threads, settings, trouble)).transpose()?;
        let state = Mutex::new(State { walk, later });
        Ok(Self { settings, trouble, threads, state, is_over: AtomicBool::new(false) })
    }

    /// What is found next; `None` at the end.
    pub(super) fn next(&self) -> Option<Found> {
        let state = &mut *lock(&self.state);
        loop {
            let Some(walk) = &mut state.walk else {
                let roots = state.later.pop_front()?;
                match Walk::begin(roots, self.threads, self.settings, self.trouble) {
                    Ok(walk) => state.walk = Some(walk),
                    Err(error) => self.trouble.say(error),
                }
                continue;
            };
            let found = walk.next(&self.is_over, self.trouble);
            if found.is_some() || self.is_over.load(Ordering::Relaxed) {
                return found;
            }
            walk.trail.mounts().drain(..).rev().for_each(|roots| state.later.push_front(roots));
            state.walk = None;
        }
    }

    /// Nothing more is wanted: who waits for a walk waits no longer.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A walk that goes on by itself.
struct Walk {
    found: Receiver<Found>,
    /// Until it has ended, or is given up.
    walks: Option<JoinHandle<()>>,
    trail: Arc<Trail>,
    reach: Arc<Reach>,
    follows: bool,
    /// How many steps it had taken when it was last looked at.
    steps: u64,
    /// At how many looks since then it had taken no more.
    quiet_looks: u32,
    /// Comes from who asks its mounts meanwhile.
    answer: Option<Receiver<Result<(), Error>>>,
}

impl Walk {
    fn begin(
        roots: Roots,
        threads: usize,
        settings: &Settings,
        trouble: &Trouble,
    ) -> anyhow::Result<Self> {
        let asked = &settings.asked;
        let Roots { paths, depth } = roots;
        let mut builder = builder(&paths, settings, trouble);
        // The walk ends, or hangs, where it is given fewer than it counts on.
        let threads = store::threads_given(threads + 1, 2).context(NO_THREADS)? - 1;
        let trail = Arc::<Trail>::default();
        trail.folders().extend(paths);
        let reach = Arc::clone(&settings.reach);
        let gate = Gate {
            reach: Arc::clone(&reach),
            trouble: trouble.clone(),
            trail: Arc::clone(&trail),
            follows: asked.follow,
            // What ignore files above it say must hold there, too, and a link to what is above it
            // must be known for a loop.
            splits: !asked.one_file_system && !asked.no_ignore_parent && !asked.follow,
            depth,
            max_depth: asked.max_depth,
        };
        let walk = builder
            .filter_entry(move |entry| gate.lets_pass(entry))
            .max_depth(asked.max_depth.map(|most| most.saturating_sub(depth)))
            .threads(threads)
            .build_parallel();
        let (finds, found) = mpsc::sync_channel(AHEAD_MAX);
        let on_trail = Arc::clone(&trail);
        let go = move || {
            walk.run(|| {
                let (finds, trail) = (finds.clone(), Arc::clone(&on_trail));
                Box::new(move |found| {
                    trail.came(&found);
                    // What an ignore file above a mount has wrong was said when that was walked.
                    if depth > 0 && found.as_ref().is_err_and(|error| !error.is_io()) {
                        return WalkState::Continue;
                    }
                    match finds.send(found) {
                        Ok(()) => WalkState::Continue,
                        // Nobody searches any more.
                        Err(_) => WalkState::Quit,
                    }
                })
            });
        };
        let walks = Some(thread::Builder::new().name("walk".into()).spawn(go)?);
        let (follows, steps, quiet_looks, answer) = (asked.follow, 0, 0, None);
        Ok(Self { found, walks, trail, reach, follows, steps, quiet_looks, answer })
    }

    /// What it finds next; `None` at the end, also where it is given up, or once `is_over`.
    fn next(&mut self, is_over: &AtomicBool, trouble: &Trouble) -> Option<Found> {
        loop {
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            match self.found.recv_timeout(LOOKS_EVERY) {
                Ok(found) => return Some(found),
                Err(RecvTimeoutError::Disconnected) => return self.ended(),
                Err(RecvTimeoutError::Timeout) if self.walks.is_none() => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(dead) = self.look() {
                        trouble.say(dead);
                        self.trail.say_what_is_left(trouble);
                        // What was found meanwhile is handed out yet.
                        self.walks = None;
                    }
                }
            }
        }
    }

    /// Has its mounts asked, if nothing came of it for a while, and hears what they answered.
    ///
    /// # Errors
    /// That one did not, and that still nothing came.
    fn look(&mut self) -> Result<(), Error> {
        let steps = self.trail.steps();
        if steps != self.steps {
            (self.steps, self.quiet_looks, self.answer) = (steps, 0, None);
            return Ok(());
        }
        self.quiet_looks += 1;
        match self.answer.as_ref().map(Receiver::try_recv) {
            None if self.quiet_looks >= QUIET_LOOKS_MAX => self.answer = self.ask(),
            None | Some(Err(TryRecvError::Empty)) => {}
            Some(Ok(answer)) => {
                (self.quiet_looks, self.answer) = (0, None);
                return answer;
            }
            Some(Err(TryRecvError::Disconnected)) => self.answer = None,
        }
        Ok(())
    }

    /// Begins to ask the mounts of the folders that it may be waiting for.
    fn ask(&self) -> Option<Receiver<Result<(), Error>>> {
        let (reach, trail, follows) =
            (Arc::clone(&self.reach), Arc::clone(&self.trail), self.follows);
        let ask = move || {
            let is_concerned =
                |folder: &&PathBuf| follows || reach.may_stall(folder.as_os_str().as_bytes());
            let folders = trail.waited_for();
            folders.iter().filter(is_concerned).try_for_each(|folder| reach.ask(folder))
        };
        // Without a thread for it, it is tried again.
        store::begun(ask).ok()
    }

    /// Nothing more comes, as all was found.
    fn ended(&mut self) -> Option<Found> {
        if let Some(Err(panic)) = self.walks.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        None
    }
}

/// Where a walk is.
#[derive(Default)]
struct Trail {
    /// Counts what comes of it.
    steps: AtomicU64,
    /// Folders that it will list, or lists.
    folders: Mutex<HashSet<PathBuf>>,
    /// Of each of its threads, the last folder that it listed: it may be looking at what is in it.
    listed: Mutex<HashMap<ThreadId, PathBuf>>,
    /// Places of mounts that are to be walked by themselves.
    mounts: Mutex<Vec<Roots>>,
}

impl Trail {
    fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Something is found.
    fn came(&self, found: &Found) {
        self.step();
        if let Ok(entry) = found
            && self.folders().remove(entry.path())
        {
            lock(&self.listed).insert(thread::current().id(), entry.path().to_owned());
        }
    }

    fn folders(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        lock(&self.folders)
    }

    fn mounts(&self) -> MutexGuard<'_, Vec<Roots>> {
        lock(&self.mounts)
    }

    /// Says how many folders it knew of and has not come to.
    fn say_what_is_left(&self, trouble: &Trouble) {
        let left = self.folders().len().saturating_sub(1);
        if left > 0 {
            trouble.say(format_args!("{left} more folders were found and not searched"));
        }
    }

    /// The folders that it may be waiting for.
    fn waited_for(&self) -> Vec<PathBuf> {
        let mut folders: Vec<_> = self.folders().iter().cloned().collect();
        folders.extend(lock(&self.listed).values().cloned());
        folders
    }
}

/// What a walk asks before it goes on with an entry.
struct Gate {
    reach: Arc<Reach>,
    trouble: Trouble,
    trail: Arc<Trail>,
    follows: bool,
    /// Whether mounts that may not answer are walked by themselves.
    splits: bool,
    /// How far the walk began below what was named.
    depth: usize,
    max_depth: Option<usize>,
}

impl Gate {
    fn lets_pass(&self, entry: &DirEntry) -> bool {
        self.trail.step();
        if !entry.file_type().is_some_and(|kind| kind.is_dir()) {
            return true;
        }
        let passes = self.answers(entry) && !self.is_set_aside(entry);
        if passes {
            self.trail.folders().insert(entry.path().to_owned());
        }
        passes
    }

    /// Whether a folder is to be walked by itself, as it is noted then.
    fn is_set_aside(&self, entry: &DirEntry) -> bool {
        let (path, depth) = (entry.path(), self.depth + entry.depth());
        let splits = self.splits
            && self.max_depth.is_none_or(|most| depth < most)
            && self.reach.is_wary_point(path);
        if splits {
            self.trail.mounts().push(Roots { paths: vec![path.to_owned()], depth });
        }
        splits
    }

    /// Whether the walk may go on with a folder: not if it is on a mount that does not answer, or has
    /// a link to such a mount, which the walk would follow unasked.
    fn answers(&self, entry: &DirEntry) -> bool {
        let path = entry.path();
        let answers = if self.follows {
            // The path does not show where the links in it lead.
            self.reach.ask(path).and_then(|()| self.reach.ask_links(path))
        } else if self.reach.may_stall(path.as_os_str().as_bytes()) {
            self.reach.ask(path)
        } else {
            Ok(())
        };
        match answers {
            Ok(()) => true,
            Err(dead) if dead.name() == Name::from(path) => {
                self.trouble.say(dead);
                false
            }
            Err(dead) => {
                let folder = path.display();
                self.trouble.say(format_args!(
                    "{folder}: not searched, for a link in it is followed: {dead}"
                ));
                false
            }
        }
    }
}
