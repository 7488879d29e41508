//! What all files below a folder sum up to, in memory that does not grow with them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nearfirst::{Costs, DeliveryTime, Device, Error, Place, Plan, Reason, Sled, delivery_time};
use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::shares::Shares;
use crate::{human, messages, progress};

/// Names of one folder in memory at once.
const BATCH: usize = 4096;

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
}

impl Tree {
    /// Adds a file.
    pub(super) fn add(&mut self, sleds: &[Sled], reason: Option<Reason>) {
        self.files += 1;
        for sled in sleds {
            self.shares.add(sled.place, sled.length);
            match self.devices.get_mut(&sled.device) {
                Some(bytes) => *bytes += sled.length,
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
            match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, files)) => *files += 1,
                None => self.reasons.push((reason, 1)),
            }
        }
    }
}

/// What is still to be walked.
enum Task {
    Folder(PathBuf),
    /// The rest of a folder that is larger than a batch.
    Rest(Dir, PathBuf),
}

/// Sums up all regular files below `root`. Links are not followed, and what
/// is mounted below is not touched unless `other_mounts`. What cannot be read
/// is reported and left out.
pub(super) fn sum_up(
    costs: &Costs,
    root: &Path,
    other_mounts: bool,
    line: &mut progress::Line,
) -> Tree {
    let mut tree = Tree::default();
    let mut walk =
        Walk { costs, below: HashSet::new(), tasks: vec![Task::Folder(root.to_owned())] };
    if !other_mounts {
        walk.below = mounts_below(costs, root);
    }
    while let Some(task) = walk.tasks.pop() {
        let (at, outcome) = match task {
            Task::Folder(path) => {
                let opened = costs
                    .local()
                    .open(&path)
                    .and_then(|folder| Dir::new(folder).map_err(|error| Error::io(&path, error)));
                match opened {
                    Ok(folder) => (path.clone(), walk.batch(folder, path, &mut tree, line)),
                    Err(error) => (path, Err(error)),
                }
            }
            Task::Rest(folder, path) => (path.clone(), walk.batch(folder, path, &mut tree, line)),
        };
        if let Err(error) = outcome {
            messages::error(format_args!("{}: {}", human::name(&at), error.reason()));
            if matches!(error, Error::Stalled { .. }) {
                // The rest lies on the same mount, and would be waited for as long, name by name.
                break;
            }
        }
    }
    tree
}

struct Walk<'a> {
    costs: &'a Costs,
    /// Mount points below the root, as paths that begin with the root.
    below: HashSet<PathBuf>,
    tasks: Vec<Task>,
}

impl Walk<'_> {
    /// Adds the files among a batch of names, and leaves the folders and the rest for later.
    fn batch(
        &mut self,
        mut folder: Dir,
        path: PathBuf,
        tree: &mut Tree,
        line: &mut progress::Line,
    ) -> Result<(), Error> {
        let mut files: Vec<OsString> = Vec::new();
        let mut folders: Vec<OsString> = Vec::new();
        let mut ended = false;
        while files.len() + folders.len() < BATCH && !ended {
            let Some(entry) = folder.read() else {
                ended = true;
                continue;
            };
            let entry = entry.map_err(|error| Error::io(&path, error))?;
            let name = entry.file_name();
            let mut kind = entry.file_type();
            if kind == FileType::Unknown
                && let Ok(fd) = folder.fd()
                && let Ok(stat) = statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)
            {
                kind = FileType::from_raw_mode(stat.st_mode);
            }
            let list = match kind {
                FileType::RegularFile => &mut files,
                FileType::Directory if !matches!(name.to_bytes(), b"." | b"..") => &mut folders,
                _ => continue,
            };
            list.push(OsStr::from_bytes(name.to_bytes()).to_owned());
        }
        let mut file = path.join("");
        for name in files {
            file.push(&name);
            if !self.below.contains(&file) {
                self.add_file(&file, tree)?;
            }
            file.pop();
            line.show(|| {
                let bytes = human::bytes(tree.shares.total());
                format!("{}, {bytes}: {}", human::counted(tree.files, "file"), human::name(&path))
            });
        }
        let folders = folders.into_iter().map(|name| path.join(name));
        let folders: Vec<_> = folders.filter(|folder| !self.below.contains(folder)).collect();
        if !ended {
            self.tasks.push(Task::Rest(folder, path));
        }
        self.tasks.extend(folders.into_iter().map(Task::Folder));
        Ok(())
    }

    fn add_file(&self, path: &Path, tree: &mut Tree) -> Result<(), Error> {
        match self.costs.path_located(path) {
            Ok(located) => {
                let reason = located.reason;
                tree.add(&self.costs.describe(located), reason);
                Ok(())
            }
            Err(error @ Error::Stalled { .. }) => Err(error),
            // Deleted since its folder was read.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                messages::error(format_args!("{}: {}", human::name(path), error.reason()));
                Ok(())
            }
        }
    }
}

/// The mount points below `root`, as the walk will meet them.
fn mounts_below(costs: &Costs, root: &Path) -> HashSet<PathBuf> {
    // The root's own mount answered when its kind was asked for.
    let whole = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let mounts = costs.local().mounts().unwrap_or_default();
    let points = mounts.all().iter().filter_map(|mount| mount.point.strip_prefix(&whole).ok());
    points.filter(|below| !below.as_os_str().is_empty()).map(|below| root.join(below)).collect()
}
