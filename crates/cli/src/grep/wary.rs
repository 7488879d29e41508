//! Walks by threads that can be left behind, where something is mounted that may not answer.
//!
//! What is so mounted is walked by itself, after what it is mounted in: if it dies, only its own walk
//! is given up. Nobody sees into a walk that waits. So if nothing comes of one for a while, its folders
//! are asked once more what it asks of them, in bounded time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, DirEntry as Listed, ReadDir};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use anyhow::ensure;
use ignore::{DirEntry, WalkState};
use nearfirst::{Error, Name};

use super::settings::Settings;
use super::trouble::Trouble;
use super::walk::{RIPGREP_IGNORE_FILE, builder};
use crate::divide::startable;
use crate::outcome::NO_THREADS;
use crate::reach::Reach;

/// Entries that a walk may be ahead of who searches them.
const AHEAD_MAX: usize = 256;

/// How long nothing comes of a walk before its folders are asked.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// Names of a folder that are asked for in one bounded call.
const LISTED_MAX: usize = 1000;

/// What a walk reads in each folder, if it is there.
const IGNORE_FILES: [&str; 4] = [".ignore", ".gitignore", RIPGREP_IGNORE_FILE, ".git/info/exclude"];

type Found = Result<DirEntry, ignore::Error>;

/// Walks over all that was named, one after the other.
pub(super) struct Walks<'a> {
    settings: &'a Settings,
    trouble: &'a Trouble,
    threads: usize,
    state: Mutex<State>,
}

#[derive(Default)]
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
    /// As [`builder`]; that no thread can be had.
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
        Ok(Self { settings, trouble, threads, state })
    }

    /// What is found next; `None` at the end.
    pub(super) fn next(&self) -> Option<Found> {
        let state = &mut *self.state();
        loop {
            let Some(walk) = &mut state.walk else {
                let roots = state.later.pop_front()?;
                match Walk::begin(roots, self.threads, self.settings, self.trouble) {
                    Ok(walk) => state.walk = Some(walk),
                    Err(error) => self.trouble.say(error),
                }
                continue;
            };
            match walk.next(&self.settings.reach) {
                Ok(Some(found)) => return Some(found),
                Ok(None) => {}
                Err(dead) => {
                    self.trouble.say(dead);
                    walk.say_what_is_left(self.trouble);
                }
            }
            walk.trail.mounts().drain(..).rev().for_each(|roots| state.later.push_front(roots));
            state.walk = None;
        }
    }

    /// Nothing more is wanted.
    pub(super) fn end(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A walk that goes on by itself.
struct Walk {
    /// From where it began.
    roots: Vec<PathBuf>,
    found: Receiver<Found>,
    trail: Arc<Trail>,
    follows: bool,
    /// Whether files are looked at, too.
    weighs_files: bool,
    /// How often its folders were asked since something came of it.
    asked: u32,
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
        let mut builder = builder(&paths, settings, trouble)?;
        // The walk ends, or hangs, where it is given fewer than it counts on.
        let threads = startable(threads + 1).saturating_sub(1);
        ensure!(threads > 0, NO_THREADS);
        let trail = Arc::<Trail>::default();
        trail.folders().extend(paths.iter().cloned());
        let gate = Gate {
            reach: Arc::clone(&settings.reach),
            trouble: trouble.clone(),
            trail: Arc::clone(&trail),
            follows: asked.follow,
            // What ignore files above it say must hold there, too.
            splits: !asked.one_file_system && !asked.no_ignore_parent,
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
                    match finds.send(found) {
                        Ok(()) => WalkState::Continue,
                        // Nobody searches any more.
                        Err(_) => WalkState::Quit,
                    }
                })
            });
        };
        thread::Builder::new().name("walk".into()).spawn(go)?;
        let weighs_files = asked.max_filesize.is_some();
        Ok(Self { roots: paths, found, trail, follows: asked.follow, weighs_files, asked: 0 })
    }

    /// What it finds next; `None` at the end.
    ///
    /// # Errors
    /// What it waits for does not answer.
    fn next(&mut self, reach: &Reach) -> Result<Option<Found>, Error> {
        let quiet = reach.local().wait_max().min(QUIET_MAX);
        loop {
            let steps = self.trail.steps();
            match self.found.recv_timeout(quiet) {
                Ok(found) => {
                    self.asked = 0;
                    return Ok(Some(found));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if self.trail.steps() != steps => self.asked = 0,
                Err(RecvTimeoutError::Timeout) => self.ask(reach, steps, quiet)?,
            }
        }
    }

    /// Asks the folders that it may be waiting for, unless it takes a step meanwhile.
    ///
    /// # Errors
    /// That one does not answer; that nothing comes though all do.
    fn ask(&mut self, reach: &Reach, steps: u64, quiet: Duration) -> Result<(), Error> {
        let folders = self.trail.waited_for();
        for folder in &folders {
            let concerned = self.follows || reach.may_stall(folder.as_os_str().as_bytes());
            if concerned && self.trail.steps() == steps {
                self.ask_folder(reach, folder)?;
            }
        }
        self.asked += 1;
        let limit = reach.local().wait_max();
        // An answer was lost. To be sure that none is on its way it is waited for twice as long.
        if quiet * self.asked > limit * 2
            && let Some(folder) = folders.first()
        {
            let mount = reach.wary_point(folder).unwrap_or_else(|| folder.clone());
            return Err(Error::Stalled { path: folder.clone(), mount, limit });
        }
        Ok(())
    }

    /// Asks of a folder what a walk asks of it.
    ///
    /// # Errors
    /// That it did not answer; any other answer will do.
    fn ask_folder(&self, reach: &Reach, folder: &Path) -> Result<(), Error> {
        let listed = folder.to_owned();
        let mut listing = bounded(reach, folder, move || fs::read_dir(listed).ok())?;
        while let Some(names) = listing {
            let (rest, names) = bounded(reach, folder, move || listed_on(names))?;
            let looks = |name: &Listed| {
                let kind = name.file_type().ok();
                self.weighs_files || (self.follows && kind.is_none_or(|kind| kind.is_symlink()))
            };
            for path in names.iter().filter(|name| looks(name)).map(Listed::path) {
                bounded(reach, &path.clone(), move || drop(path.metadata()))?;
            }
            listing = rest;
        }
        Self::ask_ignore_files(reach, folder)?;
        if self.roots.iter().any(|root| root == folder)
            && let Ok(whole) = std::path::absolute(folder)
        {
            return whole
                .ancestors()
                .skip(1)
                .try_for_each(|above| Self::ask_ignore_files(reach, above));
        }
        Ok(())
    }

    fn ask_ignore_files(reach: &Reach, folder: &Path) -> Result<(), Error> {
        IGNORE_FILES
            .iter()
            .map(|name| folder.join(name))
            .try_for_each(|path| bounded(reach, &path.clone(), move || drop(fs::read(path))))
    }

    /// Says how much of what it knew of it has not come to.
    fn say_what_is_left(&self, trouble: &Trouble) {
        let left = self.trail.folders().len().saturating_sub(1);
        if left > 0 {
            let root = self.roots.first().map_or(Path::new(""), PathBuf::as_path).display();
            trouble.say(format_args!("{root}: {left} more folders were found and not searched"));
        }
    }
}

/// The next names of a folder, and what lists the rest, if there is more.
fn listed_on(mut listing: ReadDir) -> (Option<ReadDir>, Vec<Listed>) {
    let names: Vec<_> = listing.by_ref().flatten().take(LISTED_MAX).collect();
    ((names.len() == LISTED_MAX).then_some(listing), names)
}

fn bounded<T: Send + 'static>(
    reach: &Reach,
    path: &Path,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    reach.bounded(path.as_os_str().as_bytes(), call)
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
        let bytes = path.as_os_str().as_bytes();
        let answers = if self.follows {
            // The path does not show where the links in it lead.
            self.reach.ask(bytes).and_then(|()| self.reach.ask_links(path))
        } else if self.reach.may_stall(bytes) {
            self.reach.ask(bytes)
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
