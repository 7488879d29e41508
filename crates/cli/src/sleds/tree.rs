//! What all files below a folder sum up to, in memory that does not grow with them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nearfirst::{
    Backing, Costs, DeliveryTime, Device, Error, Kind, Mount, Place, Plan, Reason, Sled,
    delivery_time,
};
use store::{Folder, lock};

use crate::divide::divided;
use crate::shares::Shares;
use crate::{human, messages, progress};

/// Names of one folder in memory at once, and files asked about together.
const BATCH: usize = 4096;
/// With fewer files, a thread costs more than it saves.
const FILES_PER_THREAD_MIN: usize = 64;

/// The sums.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Regular files.
    pub(super) files: u64,
    /// Bytes by place.
    pub(super) shares: Shares,
    /// Bytes by the device they would come from.
    pub(super) devices: BTreeMap<Device, u64>,
    /// Time to read all files one after the other, each in file order.
    pub(super) linear: DeliveryTime,
    /// Time to read all files one after the other, each near first.
    pub(super) best: DeliveryTime,
    /// Devices of which the table knows nothing.
    pub(super) unmeasured: BTreeSet<Device>,
    /// Why it is not known of some files where they are, and of how many.
    pub(super) reasons: Vec<(Reason, u64)>,
    /// Mounts with files of their own that were not gone into.
    pub(super) left_out: usize,
}

impl Tree {
    /// Adds a file.
    pub(super) fn add(&mut self, sleds: &[Sled], reason: Option<Reason>) {
        self.files += 1;
        for sled in sleds {
            self.shares.add(sled.place, sled.length);
            match self.devices.get_mut(&sled.device) {
                // Sparse files are as long as they like.
                Some(bytes) => *bytes = bytes.saturating_add(sled.length),
                None => drop(self.devices.insert(sled.device.clone(), sled.length)),
            }
            if sled.estimate.is_none()
                && sled.place != Place::Unknown
                && !self.unmeasured.contains(&sled.device)
            {
                self.unmeasured.insert(sled.device.clone());
            }
        }
        self.linear += delivery_time(sleds, Plan::Linear);
        self.best += delivery_time(sleds, Plan::Best);
        if let Some(reason) = reason {
            self.add_reason(reason, 1);
        }
    }

    fn add_reason(&mut self, reason: Reason, files: u64) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, known)) => *known += files,
            None => self.reasons.push((reason, files)),
        }
    }

    /// Adds the files of another tree.
    fn merge(&mut self, other: Self) {
        let Self { files, shares, devices, linear, best, unmeasured, reasons, left_out } = other;
        self.left_out += left_out;
        self.files += files;
        self.shares.merge(&shares);
        for (device, bytes) in devices {
            let known = self.devices.entry(device).or_default();
            *known = known.saturating_add(bytes);
        }
        self.linear += linear;
        self.best += best;
        self.unmeasured.extend(unmeasured);
        for (reason, files) in reasons {
            self.add_reason(reason, files);
        }
    }
}

/// What is still to be walked.
enum Task {
    Folder(PathBuf),
    /// The rest of a folder that is larger than a batch.
    Rest(Folder),
}

/// Sums up all regular files below `root`. Links are not followed, and what
/// is mounted below is not touched unless `other_mounts`. What cannot be read
/// is reported and left out.
pub(super) fn sum_up(
    costs: &Costs,
    root: &Path,
    other_mounts: bool,
    threads: usize,
    line: &mut progress::Line,
) -> Tree {
    let mounts = mounts_below(costs, root);
    let below = if other_mounts { HashSet::new() } else { mounts.keys().cloned().collect() };
    let tasks = vec![Task::Folder(root.to_owned())];
    let has_files = |point: &&PathBuf| mounts[*point].backing != Backing::Pseudo;
    let left_out = below.iter().filter(has_files).count();
    let (files, tree) = (Vec::new(), Tree { left_out, ..Tree::default() });
    let mut walk = Walk { costs, root, mounts, below, tasks, threads, files, tree };
    while let Some(task) = walk.tasks.pop() {
        let (at, outcome) = match task {
            Task::Folder(path) => {
                let opened = costs.local().folder(&path);
                (path, opened.and_then(|folder| walk.batch(folder)))
            }
            Task::Rest(folder) => (folder.path().to_owned(), walk.batch(folder)),
        };
        let found = walk.tree.files + walk.files.len() as u64;
        line.show(|| progress(found, walk.tree.shares.total(), &at));
        if let Err(error) = outcome {
            messages::error(format_args!("{}: {}", human::name(&at), error.reason()));
            walk.leave_out(&error);
        }
        if walk.files.len() >= BATCH || walk.tasks.is_empty() {
            for (at, error) in walk.ask(line) {
                messages::error(format_args!("{}: {}", human::name(&at), error.reason()));
                walk.leave_out(&error);
            }
        }
    }
    walk.tree
}

struct Walk<'a> {
    costs: &'a Costs,
    root: &'a Path,
    /// Mounts below the root, by paths that begin with the root.
    mounts: HashMap<PathBuf, Mount>,
    /// Those that are not gone into.
    below: HashSet<PathBuf>,
    tasks: Vec<Task>,
    /// That ask about files.
    threads: usize,
    /// Found, and not asked about yet: about a batch.
    files: Vec<PathBuf>,
    tree: Tree,
}

impl Walk<'_> {
    /// Takes the files among a batch of names, and leaves the folders and the rest for later.
    fn batch(&mut self, mut folder: Folder) -> Result<(), Error> {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        let (mut ended, mut outcome) = (false, Ok(()));
        while files.len() + folders.len() < BATCH && !ended {
            match folder.next(self.costs.local()) {
                None => ended = true,
                Some(Err(error)) => (ended, outcome) = (true, Err(error)),
                Some(Ok((name, Some(Kind::File)))) => files.push(folder.path().join(name)),
                Some(Ok((name, Some(Kind::Folder)))) => folders.push(folder.path().join(name)),
                Some(Ok(_)) => {}
            }
        }
        let is_gone_into = |path: &PathBuf| !self.below.contains(path);
        self.files.extend(files.into_iter().filter(is_gone_into));
        if !ended {
            self.tasks.push(Task::Rest(folder));
        }
        self.tasks.extend(folders.into_iter().filter(is_gone_into).map(Task::Folder));
        outcome
    }

    /// Leaves out what is still to be walked of a mount that stalled: it would be waited for as
    /// long, name by name. What lies on other mounts is not lost with it.
    fn leave_out(&mut self, error: &Error) {
        let Error::Stalled { mount, .. } = error else { return };
        let dead = self.on(mount);
        self.tasks.retain(|task| {
            let path = match task {
                Task::Folder(path) => path,
                Task::Rest(folder) => folder.path(),
            };
            !path.starts_with(&dead)
        });
        self.files.retain(|path| !path.starts_with(&dead));
    }

    /// Below which path of the walk all that is on a mount lies.
    fn on(&self, mount: &Path) -> PathBuf {
        let known = self.mounts.iter().find(|(_, known)| known.point == mount);
        known.map_or_else(|| self.root.to_owned(), |(path, _)| path.clone())
    }

    /// Adds the files that were found; errors come with the folders of the files that stalled.
    fn ask(&mut self, line: &mut progress::Line) -> Vec<(PathBuf, Error)> {
        let files = std::mem::take(&mut self.files);
        let asking = Asking {
            walk: self,
            before: (self.tree.files, self.tree.shares.total()),
            asked: AtomicU64::new(0),
            dead: Mutex::default(),
            line: Mutex::new(line),
        };
        let threads = self.threads;
        let trees = divided(&files, threads, FILES_PER_THREAD_MIN, |files| asking.sum_up(files));
        let dead = asking.dead.into_inner().unwrap_or_else(PoisonError::into_inner);
        for tree in trees {
            self.tree.merge(tree);
        }
        dead.into_values().collect()
    }
}

/// What threads that ask about files share.
struct Asking<'a> {
    walk: &'a Walk<'a>,
    /// Files and bytes that are summed up already.
    before: (u64, u64),
    asked: AtomicU64,
    /// Below which paths files stalled, each with the folder of the first that did.
    dead: Mutex<BTreeMap<PathBuf, (PathBuf, Error)>>,
    line: Mutex<&'a mut progress::Line>,
}

impl Asking<'_> {
    /// Sums up files, but for those on mounts where one stalled, here or elsewhere.
    fn sum_up(&self, files: &[PathBuf]) -> Tree {
        let costs = self.walk.costs;
        let mut tree = Tree::default();
        for path in files {
            if lock(&self.dead).keys().any(|dead| path.starts_with(dead)) {
                continue;
            }
            let folder = path.parent().unwrap_or(path);
            match costs.path_located(path) {
                Ok(located) => {
                    let reason = located.reason.clone();
                    tree.add(&costs.describe(located), reason);
                }
                Err(Error::Stalled { mount, path, limit }) => {
                    let on = self.walk.on(&mount);
                    let error = Error::Stalled { mount, path, limit };
                    lock(&self.dead).entry(on).or_insert_with(|| (folder.to_owned(), error));
                }
                // Deleted since its folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    messages::error(format_args!("{}: {}", human::name(path), error.reason()));
                }
            }
            let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            if let Ok(mut line) = self.line.try_lock() {
                line.show(|| progress(self.before.0 + asked, self.before.1, folder));
            }
        }
        tree
    }
}

fn progress(files: u64, bytes: u64, folder: &Path) -> String {
    let files = human::counted(files, "file");
    format!("{files}, {}: {}", human::bytes(bytes), human::name(folder))
}

/// What is mounted below `root`, by the paths at which the walk will meet it.
fn mounts_below(costs: &Costs, root: &Path) -> HashMap<PathBuf, Mount> {
    // The root's own mount answered when its kind was asked for.
    let whole = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let mounts = costs.local().mounts().unwrap_or_default();
    let points = mounts.all().iter().filter_map(|mount| {
        let below = mount.point.strip_prefix(&whole).ok()?;
        Some((root.join(below), mount.clone()))
    });
    points.filter(|(_, mount)| mount.point != whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_sparse_files_end_where_numbers_do() {
        let length = i64::MAX.unsigned_abs();
        let (device, place) = (Device::new("disk:a"), Place::Far);
        let sled = Sled { offset: 0, length, device, place, estimate: None };
        let mut tree = Tree::default();
        (0..3).for_each(|_| tree.add(std::slice::from_ref(&sled), None));
        let other = std::mem::take(&mut tree);
        tree.add(&[sled], None);
        tree.merge(other);
        assert_eq!((tree.shares.total(), tree.best.unknown_bytes), (u64::MAX, u64::MAX));
        assert_eq!(tree.devices.into_values().collect::<Vec<_>>(), [u64::MAX]);
    }
}
