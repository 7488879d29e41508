//! Walks by threads that can be left behind, where something is mounted that may not answer.
//!
//! Nobody sees into a walk that waits. So while nothing comes of one, the mounts are asked that its folders
//! lie on, and it is given up once one of them does not answer. Where they answer, in the end the folders are
//! listed that it has not come to: of one that does not answer the walk is given up, too, and the others are
//! walked anew, each by itself, behind the files that the walk had seen and not come to; a slow folder is waited
//! for. What may not answer is walked by itself, after what it is mounted in, so that only its own walk is given up.

use std::collections::{HashMap, VecDeque};
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

/// A walk is given up without knowing why after the limit and so many looks more: by then its own
/// questions to mounts have come to an end.
const OVERDUE_LOOKS: u32 = 2 * QUIET_LOOKS_MAX;

/// Folders that are listed at once to find those that do not answer: each that hangs keeps a thread.
const LISTED_MAX: usize = 4;

type Found = Result<DirEntry, ignore::Error>;

/// The folders that do not answer.
///
/// The error is that of a mount.
type Silent = Result<Vec<(PathBuf, Error)>, Error>;

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
            walk.trail.later().drain(..).rev().for_each(|roots| state.later.push_front(roots));
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
    /// Once it is given up: the files that it had seen and not come to.
    left: std::vec::IntoIter<DirEntry>,
    reach: Arc<Reach>,
    follows: bool,
    /// Whether folders of it can be walked by themselves.
    splits: bool,
    /// How many steps it had taken when it was last looked at.
    steps: u64,
    /// At how many looks since then it had taken no more.
    quiet_looks: u32,
    /// Comes from who asks its mounts meanwhile.
    answer: Option<Receiver<Silent>>,
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
        trail.folders().extend(paths.into_iter().map(|path| (path, depth)));
        // What ignore files above it say must hold there, too, and a link to what is above it
        // must be known for a loop.
        let heeds_none = asked.no_ignore_dot && asked.no_ignore_vcs;
        let heeds_above = heeds_none || !asked.no_ignore_parent;
        let splits = !asked.one_file_system && heeds_above && !asked.follow;
        let reach = Arc::clone(&settings.reach);
        let gate = Gate {
            reach: Arc::clone(&reach),
            trouble: trouble.clone(),
            trail: Arc::clone(&trail),
            follows: asked.follow,
            splits,
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
                    if !trail.came(&found) {
                        return WalkState::Quit;
                    }
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
        let (left, follows) = (Vec::new().into_iter(), asked.follow);
        let (steps, quiet_looks, answer) = (0, 0, None);
        Ok(Self { found, walks, trail, left, reach, follows, splits, steps, quiet_looks, answer })
    }

    /// What it finds next; `None` at the end, also where it is given up, or once `is_over`.
    fn next(&mut self, is_over: &AtomicBool, trouble: &Trouble) -> Option<Found> {
        loop {
            if is_over.load(Ordering::Relaxed) {
                return None;
            }
            match self.found.recv_timeout(LOOKS_EVERY) {
                Ok(found) => return Some(found),
                Err(_) if self.walks.is_none() => return self.left.next().map(Ok),
                Err(RecvTimeoutError::Disconnected) => return self.ended(),
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(silent) = self.look() {
                        self.leave(silent, trouble);
                    }
                }
            }
        }
    }

    /// Has its mounts and folders asked, if nothing came of it for a while; what does not answer, if
    /// still nothing came.
    fn look(&mut self) -> Option<Silent> {
        let steps = self.trail.steps();
        if steps != self.steps {
            (self.steps, self.quiet_looks, self.answer) = (steps, 0, None);
            return None;
        }
        self.quiet_looks += 1;
        match self.answer.as_ref().map(Receiver::try_recv) {
            None if self.quiet_looks.is_multiple_of(QUIET_LOOKS_MAX) => self.answer = self.ask(),
            None | Some(Err(TryRecvError::Empty)) => {}
            Some(Err(TryRecvError::Disconnected)) => self.answer = None,
            Some(Ok(silent)) => {
                self.answer = None;
                let is_known = silent.as_ref().map_or(true, |folders| !folders.is_empty());
                return (is_known || self.is_overdue()).then_some(silent);
            }
        }
        None
    }

    /// Whether nothing has come for as long as a file may take: to list folders is work for their
    /// server, which may be slow only.
    fn is_late(&self) -> bool {
        LOOKS_EVERY * self.quiet_looks > self.reach.local().wait_max()
    }

    fn is_overdue(&self) -> bool {
        let looks = self.quiet_looks.saturating_sub(OVERDUE_LOOKS);
        LOOKS_EVERY * looks > self.reach.local().folder_max()
    }

    /// Begins to ask the mounts of the folders that it may be waiting for, and in the end these.
    fn ask(&self) -> Option<Receiver<Silent>> {
        let (reach, trail) = (Arc::clone(&self.reach), Arc::clone(&self.trail));
        let (follows, steps, is_late) = (self.follows, self.steps, self.is_late());
        let ask = move || {
            let is_concerned =
                |folder: &&PathBuf| follows || reach.may_stall(folder.as_os_str().as_bytes());
            let folders = trail.waited_for();
            folders.iter().filter(is_concerned).try_for_each(|folder| reach.ask(folder))?;
            if !is_late {
                return Ok(Vec::new());
            }
            let ahead: Vec<_> = trail.folders().keys().cloned().collect();
            let is_quiet = |_: &&[PathBuf]| trail.steps() == steps;
            let listed = ahead.chunks(LISTED_MAX).take_while(is_quiet);
            Ok(listed.flat_map(|folders| silent(&reach, folders)).collect())
        };
        // Without a thread for it, it is tried again.
        store::begun(ask).ok()
    }

    /// Gives it up, and leaves for later what can be walked without what is silent.
    fn leave(&mut self, silent: Silent, trouble: &Trouble) {
        self.trail.is_left.store(true, Ordering::Relaxed);
        // What was found meanwhile is handed out yet.
        self.walks = None;
        let mut folders = std::mem::take(&mut *self.trail.folders());
        let files = std::mem::take(&mut *self.trail.files());
        match silent {
            Err(dead) => {
                trouble.say(dead);
                say_what_is_left(folders.len().saturating_sub(1), "folders", trouble);
                return say_what_is_left(files.len(), "files", trouble);
            }
            Ok(silent) if silent.is_empty() => self.say_where_it_waits(&mut folders, trouble),
            Ok(silent) => {
                for (folder, error) in silent {
                    folders.remove(&folder);
                    trouble.say(error);
                }
            }
        }
        let mut files: Vec<_> = files.into_values().collect();
        files.sort_unstable_by(|a, b| a.path().cmp(b.path()));
        self.left = files.into_iter();
        if !self.splits {
            return say_what_is_left(folders.len(), "folders", trouble);
        }
        let alone = |(folder, depth)| Roots { paths: vec![folder], depth };
        let mut folders: Vec<_> = folders.into_iter().collect();
        folders.sort_unstable();
        self.trail.later().extend(folders.into_iter().map(alone));
    }

    /// Says of a folder that is listed, and of which nothing comes, that it is not searched further.
    fn say_where_it_waits(&self, folders: &mut HashMap<PathBuf, usize>, trouble: &Trouble) {
        let waits_at: Vec<_> = match folders.len() {
            1 => folders.drain().map(|(folder, _)| folder).collect(),
            // Each of those by itself tells.
            2.. if self.splits => return,
            _ => lock(&self.trail.listed).values().cloned().collect(),
        };
        let limit = self.reach.local().folder_max().as_secs_f32();
        for folder in waits_at {
            trouble.say(format_args!(
                "{}: something in it has not answered for {limit} s, though its mount answers",
                folder.display()
            ));
        }
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
    /// Folders that it will list, or lists, with how far below what was named they are.
    folders: Mutex<HashMap<PathBuf, usize>>,
    /// Files that it has seen and not come to.
    files: Mutex<HashMap<PathBuf, DirEntry>>,
    /// Of each of its threads, the last folder that it listed: it may be looking at what is in it.
    listed: Mutex<HashMap<ThreadId, PathBuf>>,
    /// What is to be walked by itself, as places of mounts are.
    later: Mutex<Vec<Roots>>,
    /// Whether it is given up.
    is_left: AtomicBool,
}

impl Trail {
    fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Something is found; `false` if it is another's to search by now, since this walk was given up.
    fn came(&self, found: &Found) -> bool {
        self.step();
        // Whoever gives the walk up says so before it takes what these hold.
        let is_left = || self.is_left.load(Ordering::Relaxed);
        let Ok(entry) = found else { return !is_left() };
        let mut folders = self.folders();
        if is_left() {
            return false;
        }
        if folders.remove(entry.path()).is_some() {
            lock(&self.listed).insert(thread::current().id(), entry.path().to_owned());
            return true;
        }
        drop(folders);
        let mut files = self.files();
        if !is_left() {
            files.remove(entry.path());
            return true;
        }
        false
    }

    fn folders(&self) -> MutexGuard<'_, HashMap<PathBuf, usize>> {
        lock(&self.folders)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, DirEntry>> {
        lock(&self.files)
    }

    fn later(&self) -> MutexGuard<'_, Vec<Roots>> {
        lock(&self.later)
    }

    /// The folders that it may be waiting for.
    fn waited_for(&self) -> Vec<PathBuf> {
        let mut folders: Vec<_> = self.folders().keys().cloned().collect();
        folders.extend(lock(&self.listed).values().cloned());
        folders
    }
}

/// Says how many of these a walk knew of that nobody comes to.
fn say_what_is_left(count: usize, of_what: &str, trouble: &Trouble) {
    if count > 0 {
        trouble.say(format_args!("{count} more {of_what} were found and not searched"));
    }
}

/// Lists folders, all at once; those that do not answer.
fn silent(reach: &Arc<Reach>, folders: &[PathBuf]) -> Vec<(PathBuf, Error)> {
    let begin = |folder: &PathBuf| {
        let (reach, folder) = (Arc::clone(reach), folder.clone());
        store::begun(move || reach.list(&folder).err().map(|error| (folder, error)))
    };
    let listed: Vec<_> = folders.iter().filter_map(|folder| begin(folder).ok()).collect();
    listed.into_iter().filter_map(|listed| listed.recv().ok().flatten()).collect()
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
            self.trail.files().insert(entry.path().to_owned(), entry.clone());
            return true;
        }
        let passes = self.answers(entry) && !self.is_set_aside(entry);
        if passes {
            self.trail.folders().insert(entry.path().to_owned(), self.depth + entry.depth());
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
            self.trail.later().push(Roots { paths: vec![path.to_owned()], depth });
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
