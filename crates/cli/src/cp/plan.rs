//! What is to be copied of what is listed: decided as names become known.

use std::cmp;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use futures::{StreamExt as _, stream};
use nearfirst::{Cursor, Entries, Entry, Error, Looks, Name, Spec, unix_parts};
use store::lock;

use super::copy::shown;
use super::place::{self, Base, Target};
use super::{known, part};

/// Names that are decided on at a time: some must be asked about.
const DECIDED_AT_ONCE: usize = 16;
/// Links followed to find out where a path leads; the kernel follows as many.
const LINKS_MAX: usize = 40;

/// What is done about files that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// They are an error, but for copies that are as this run would make them.
    Refuse,
    /// They are left without a word.
    Leave,
    /// They are replaced.
    Replace,
    /// They are replaced if they are older than the object, or as old and of another size.
    ReplaceOlder,
}

/// How an object is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// The file that it becomes.
    pub(super) dest: PathBuf,
    /// Whether a file that is there may be replaced.
    pub(super) replaces: bool,
    /// Bytes that are here from an earlier run.
    pub(super) resume_at: u64,
}

/// Decides on names as they become known, and keeps what was decided until it is done.
#[derive(Debug)]
pub(super) struct Plan {
    looks: Looks,
    target: Target,
    /// The folder of the target without links, once it is there.
    real_target: OnceLock<PathBuf>,
    existing: Existing,
    /// Whether nothing is to be written, not even to find out whose files are.
    is_dry: bool,
    state: Mutex<State>,
    copied: AtomicU64,
    left: AtomicU64,
}

/// Stands for a path in a quarter of the bytes: the first half of its BLAKE3 hash, which no two have in
/// common.
type PathKey = [u8; 16];

#[derive(Debug, Default)]
struct State {
    seen: HashSet<Name>,
    dests: HashMap<PathKey, Name>,
    fetched: HashMap<Name, Task>,
}

impl Plan {
    /// Of copies to this target, which are only told of if it `is_dry`.
    pub(super) fn new(looks: Looks, target: Target, existing: Existing, is_dry: bool) -> Self {
        Self {
            looks,
            target,
            real_target: OnceLock::new(),
            existing,
            is_dry,
            state: Mutex::default(),
            copied: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    /// What is to be fetched, each from its [`Plan::start`] on.
    pub(super) fn entries(self: &Arc<Self>, specs: Vec<Spec>) -> Entries {
        let plan = Arc::clone(self);
        let listed = stream::iter(specs).flat_map(move |spec| {
            let base = Arc::new((Base::of(&spec), place::looked_through(&spec)));
            let names = Cursor::open(Arc::clone(plan.looks.stores()), spec, Path::new(""));
            names.map(move |entry| (entry, Arc::clone(&base)))
        });
        let plan = Arc::clone(self);
        let found = listed.map(move |(entry, base)| {
            let plan = Arc::clone(&plan);
            async move {
                let (entry, (base, folder)) = (entry?, &*base);
                if plan.is_in_target(&entry.name, folder.as_ref()).await? {
                    return Ok(None);
                }
                plan.found(entry, base).await
            }
        });
        // In the order of the names: of two that would be one file the second is an error.
        let found = found.buffered(DECIDED_AT_ONCE);
        let plan = Arc::clone(self);
        let decided = found.map(move |found| {
            let plan = Arc::clone(&plan);
            async move {
                let Some((entry, found)) = found? else { return Ok(None) };
                plan.decided(entry, found).await
            }
        });
        let decided = decided.buffer_unordered(DECIDED_AT_ONCE);
        decided.filter_map(|decided| std::future::ready(decided.transpose())).boxed()
    }

    /// The task of a name that was handed out; each once.
    pub(super) fn take(&self, name: &Name) -> Option<Task> {
        lock(&self.state).fetched.remove(name)
    }

    /// From which byte on what was handed out is to be fetched.
    pub(super) fn start(&self, name: &Name) -> u64 {
        lock(&self.state).fetched.get(name).map_or(0, |task| task.resume_at)
    }

    /// How what is not the engine's is asked for.
    pub(super) fn looks(&self) -> &Looks {
        &self.looks
    }

    /// How many objects that are known are still to be copied.
    pub(super) fn waiting(&self) -> u64 {
        lock(&self.state).fetched.len() as u64
    }

    /// How many files were the copies that were asked for.
    pub(super) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// How many files were left as they were.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether a name that was met below `folder` lies in the folder that is copied to, as the copies
    /// do. Whoever looks for names in there means them.
    async fn is_in_target(&self, name: &Name, folder: Option<&Name>) -> Result<bool, Error> {
        let (Target::Folder(target), Some(folder)) = (&self.target, folder) else {
            return Ok(false);
        };
        let Some(path) = self.looks.stores().of(name)?.file(name) else { return Ok(false) };
        let (Some(parent), Some(last)) = (path.parent(), path.file_name()) else {
            return Ok(false);
        };
        // It may be made by the first copy.
        if self.real_target.get().is_none()
            && let Some(real) = self.real(target).await?
        {
            self.real_target.get_or_init(|| real);
        }
        let Some(target) = self.real_target.get() else { return Ok(false) };
        if !self.real(parent).await?.is_some_and(|parent| parent.join(last).starts_with(target)) {
            return Ok(false);
        }
        let Some(folder) = self.looks.stores().of(folder)?.file(folder) else { return Ok(true) };
        Ok(self.real(&folder).await?.is_none_or(|folder| !folder.starts_with(target)))
    }

    /// A folder without links, if it is there.
    async fn real(&self, folder: &Path) -> Result<Option<PathBuf>, Error> {
        let here = folder.as_os_str().is_empty();
        let folder = if here { Path::new(".") } else { folder };
        self.looked(folder.to_owned(), |folder| fs::canonicalize(folder).ok()).await
    }

    /// What there is where an object is to be, if it is one to copy.
    async fn found(&self, entry: Entry, base: &Base) -> Result<Option<(Entry, Found)>, Error> {
        // What a store shows in place of a folder: nothing that could be a file.
        if entry.name.as_bytes().ends_with(b"/") && entry.size == Some(0) {
            return Ok(None);
        }
        let dest = place::dest(&self.target, base, &entry.name)
            .map_err(|reason| Error::refused(entry.name.clone(), reason))?;
        let follows = self.replaces();
        let found = self.looked(dest, move |dest| Found::at(dest, follows)).await?;
        Ok(Some((entry, found)))
    }

    async fn decided(&self, entry: Entry, found: Found) -> Result<Option<Entry>, Error> {
        if !self.claims(&entry.name, &found.dest)? {
            return Ok(None);
        }
        if found.is_special && self.existing != Existing::Leave {
            let reason = format!("{} is no file to replace; cat writes to it", shown(&found.dest));
            return Err(Error::refused(entry.name, reason));
        }
        // First contact tells of an object; a file is only opened.
        let is_file = entry.name.path().is_some();
        let is_compared = matches!(self.existing, Existing::Refuse | Existing::ReplaceOlder);
        let is_left = found.left.is_some();
        let asks = is_file || is_left || (found.there.is_some() && is_compared);
        let is_known = entry.version.is_some() && entry.size.is_some() && entry.modified.is_some();
        let entry = if asks && !is_known { self.looks.entry(&entry.name).await? } else { entry };
        if self.stands(&entry, &found).await? {
            return Ok(None);
        }
        let dest = found.dest;
        let resume_at = match &entry.version {
            // Its first bytes are here, but the rest must be recalled as if none were.
            Some(version) if is_left && !entry.tier.is_cold() => {
                let (version, size, is_dry) = (version.clone(), entry.size, self.is_dry);
                let resumable = move |dest: PathBuf| part::resumable(&dest, &version, size, is_dry);
                self.looked(dest.clone(), resumable).await?
            }
            _ => 0,
        };
        let task = Task { dest, replaces: self.replaces(), resume_at };
        lock(&self.state).fetched.insert(entry.name.clone(), task);
        Ok(Some(entry))
    }

    /// Whether what is where an object is to be stands for it by now: another run may have made it.
    pub(super) async fn stands_by_now(&self, entry: &Entry, dest: &Path) -> Result<bool, Error> {
        let follows = self.replaces();
        let found = self.looked(dest.to_owned(), move |dest| Found::at(dest, follows)).await?;
        self.stands(entry, &found).await
    }

    /// Whether what is there stands for an object, as its copy or because it is to stay: then nobody goes
    /// on with a part of it.
    async fn stands(&self, entry: &Entry, found: &Found) -> Result<bool, Error> {
        let Some(there) = &found.there else { return Ok(false) };
        let is_refused = self.existing == Existing::Refuse;
        if is_refused && self.is_copy(entry, &found.dest, there).await? {
            self.copied.fetch_add(1, Ordering::Relaxed);
        } else if !self.is_replaced(entry, found, there)? {
            self.left.fetch_add(1, Ordering::Relaxed);
        } else {
            return Ok(false);
        }
        if found.left.is_some() && !self.is_dry {
            self.looked(found.dest.clone(), |dest| part::remove_left(&dest)).await?;
        }
        Ok(true)
    }

    /// Looks at what is at a path, in bounded time where its mount may not answer, and by a thread
    /// that holds up nobody.
    async fn looked<T: Send + 'static>(
        &self,
        path: PathBuf,
        look: impl FnOnce(PathBuf) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let costs = Arc::clone(self.looks.stores().costs());
        store::blocking(move || {
            let at = path.clone();
            costs.local().bounded(&path, move || look(at))
        })
        .await
    }

    fn replaces(&self) -> bool {
        matches!(self.existing, Existing::Replace | Existing::ReplaceOlder)
    }

    /// Keeps a file for a name; `false` for a name that was met before.
    fn claims(&self, name: &Name, dest: &Path) -> Result<bool, Error> {
        let mut state = lock(&self.state);
        if !state.seen.insert(name.clone()) {
            return Ok(false);
        }
        let key = path_key(dest);
        if let Some(other) = state.dests.get(&key) {
            let reason = format!("{} would be that of {}, too", shown(dest), other.redacted());
            return Err(Error::refused(name.clone(), reason));
        }
        state.dests.insert(key, name.clone());
        Ok(true)
    }

    /// Whether what is at `dest` is the copy of this object, and not the object itself.
    async fn is_copy(
        &self,
        entry: &Entry,
        dest: &Path,
        there: &fs::Metadata,
    ) -> Result<bool, Error> {
        if !there.is_file() || entry.size != Some(there.len()) {
            return Ok(false);
        }
        let Some(path) = self.looks.stores().of(&entry.name)?.file(&entry.name) else {
            // Some listings tell of parts of a second, and what the object comes with does not.
            let second = entry.modified.map(|time| unix_parts(time).0);
            return Ok(second == Some(there.mtime()));
        };
        let file = self.looked(path.clone(), fs::metadata).await?;
        let file = file.map_err(|error| Error::io(&path, error))?;
        if let Some(told) = known::by_times(&file, there) {
            return Ok(told);
        }
        // To compare them would recall it.
        if entry.tier.is_cold() {
            return Ok(false);
        }
        let (costs, dest) = (Arc::clone(self.looks.stores().costs()), dest.to_owned());
        store::blocking(move || known::by_bytes(costs.local(), &path, &dest)).await
    }

    fn is_replaced(&self, entry: &Entry, found: &Found, at: &fs::Metadata) -> Result<bool, Error> {
        let dest = &found.dest;
        if at.is_dir() {
            let reason = format!("{} is a folder", shown(dest));
            return Err(Error::refused(entry.name.clone(), reason));
        }
        match self.existing {
            Existing::Replace => Ok(true),
            Existing::Leave => Ok(false),
            Existing::ReplaceOlder => {
                // What a server tells is compared by the second, as in `is_copy`.
                let age = match entry.modified {
                    Some(object) if entry.name.file_path().is_some() => known::age(object, at),
                    Some(object) => unix_parts(object).0.cmp(&at.mtime()),
                    None => cmp::Ordering::Greater,
                };
                // One of its time and of another size was cut short.
                let is_cut = entry.size.is_some_and(|size| size != at.len());
                Ok(age.is_gt() || age.is_eq() && is_cut)
            }
            Existing::Refuse => {
                let left = found.left.as_ref().map_or_else(String::new, |part| {
                    format!("; what came of it is in {}", shown(part))
                });
                let reason = format!(
                    "{} is there: --force replaces it, --skip-existing leaves it{left}",
                    shown(dest)
                );
                Err(Error::refused(entry.name.clone(), reason))
            }
        }
    }
}

fn path_key(path: &Path) -> PathKey {
    let hash = blake3::hash(path.as_os_str().as_bytes());
    *hash.as_bytes().first_chunk().expect("a hash is longer")
}

/// What there is where a file is to be.
#[derive(Debug)]
struct Found {
    /// Where it is to be indeed.
    dest: PathBuf,
    /// What is there. What a link leads to counts: it may be a folder, or /dev/null.
    there: Option<fs::Metadata>,
    /// Whether that is no file to replace: a FIFO, a device, or what a process holds open, as /dev/stdout
    /// is. Who holds it would not see another in its place.
    is_special: bool,
    /// The part of it that an earlier run has left.
    left: Option<PathBuf>,
}

impl Found {
    fn at(dest: PathBuf, follows: bool) -> Self {
        let is_held = leads_through_proc(&dest);
        let dest = if follows && !is_held { behind_links(dest) } else { dest };
        let link = fs::symlink_metadata(&dest).ok();
        let there = link.map(|link| fs::metadata(&dest).unwrap_or(link));
        let is_stream =
            there.as_ref().is_some_and(|at| !(at.is_file() || at.is_dir() || at.is_symlink()));
        let left = part::left(&dest);
        Self { dest, there, is_special: is_held || is_stream, left }
    }
}

/// Whether links lead to a path by way of those that the kernel has for the files of a process.
fn leads_through_proc(path: &Path) -> bool {
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(to) = fs::read_link(&at) else { return false };
        let folder = at.parent().filter(|folder| !folder.as_os_str().is_empty());
        let Ok(folder) = fs::canonicalize(folder.unwrap_or(Path::new("."))) else { return false };
        if folder.starts_with("/proc") {
            return true;
        }
        at = folder.join(to);
    }
    false
}

/// The file to be replaced: a link to one stays, as it does for GNU cp.
fn behind_links(dest: PathBuf) -> PathBuf {
    let is_link = fs::symlink_metadata(&dest).is_ok_and(|there| there.is_symlink());
    if !is_link || !fs::metadata(&dest).is_ok_and(|at| at.is_file()) {
        return dest;
    }
    fs::canonicalize(&dest).unwrap_or(dest)
}
