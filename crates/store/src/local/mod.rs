//! The local store: files of mounted file systems.

mod block;
mod bounded;
mod canary;
mod files;
mod holes;
mod listing;
mod mounts;
pub(crate) mod nfs;
mod position;
mod probe;
mod residency;
mod sys;
mod walk;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::fs::{self as sysfs, AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use sled::{Device, DeviceTable, Extent, Place};

use crate::{Clock, Error};

pub use files::Files;
pub use holes::holes;
pub use mounts::{Backing, Mount, Mounts};
pub use position::disk_position;
pub use probe::{Probe, Progress, probe, probe_memory};
pub use residency::resident_ranges;
pub use walk::Walk;

use canary::Canaries;
use mounts::absolute;
use residency::{Method, ranges_by};

/// How long a mount may take to answer unless the caller says otherwise:
/// longer than a disk needs to spin up, shorter than a person waits without a word.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Links followed to find out which mount a path leads to; the kernel follows as many.
const LINKS_MAX: usize = 40;

/// Bytes of a large file that are asked about before the whole of it.
const SAMPLE_BYTES: u64 = 2 << 20;

/// What kind of thing a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link (only where links are not followed).
    Link,
    /// A FIFO, a socket or a device: nothing that can be read in any order.
    Stream,
}

/// What a store knows of a name without opening it.
#[derive(Debug, Clone)]
pub struct Status {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Bytes that the file system has allocated.
    pub allocated: u64,
    /// Seconds of Unix time of the last change of the content.
    pub modified_s: i64,
    /// The device it lies on.
    pub device: Device,
    /// What stands behind its file system.
    pub backing: Backing,
    /// Where its file system is mounted.
    pub mount: PathBuf,
}

/// Where the parts of a file are.
#[derive(Debug, Clone, Default)]
pub struct Located {
    /// In file order, without gaps; empty for an empty file.
    pub extents: Vec<Extent>,
    /// Why some extents are [`Place::Unknown`] or [`Place::Cold`], if any is.
    pub reason: Option<Reason>,
}

/// Why it cannot be said where data is, or why it was left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The kernel tells residency only to the owner and to those who may write the file (Linux 5.2).
    NotOwner,
    /// Opening a file here may empty its cache, so it was not opened.
    OpeningMayEvict,
    /// No data is allocated for a file that has some: it is taken to be offline, and was not opened.
    Offline,
    /// The kernel refused to say.
    Refused,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOwner => {
                "the kernel says what is in memory only to the owner of a file and to those who may write it"
            }
            Self::OpeningMayEvict => {
                "opening a file on this FUSE mount may empty its cache; `nearfirst calibrate` finds out whether it does"
            }
            Self::Offline => "it has a size but no blocks: it seems to be offline",
            Self::Refused => "the kernel does not say what is in memory",
        })
    }
}

/// What is known of a file system, found once.
#[derive(Debug)]
struct Ground {
    device: Device,
    backing: Backing,
    mount: PathBuf,
}

/// The files of mounted file systems. Cheap calls take about 4 µs.
#[derive(Debug)]
pub struct Local {
    wait_max: Duration,
    clock: Clock,
    canaries: Canaries,
    grounds: Mutex<HashMap<u64, Arc<Ground>>>,
    mounts: Mutex<Option<Arc<MountTable>>>,
}

#[derive(Debug)]
struct MountTable(Mounts);

impl Default for Local {
    fn default() -> Self {
        Self::new(WAIT_MAX)
    }
}

impl Local {
    /// A store that waits no longer than `wait_max` for a mount that does not answer.
    pub fn new(wait_max: Duration) -> Self {
        Self {
            wait_max,
            clock: Clock::real(),
            canaries: Canaries::default(),
            grounds: Mutex::default(),
            mounts: Mutex::default(),
        }
    }

    /// How long a mount may take to answer.
    pub fn wait_max(&self) -> Duration {
        self.wait_max
    }

    /// What `path` is, following links; nothing is opened and no other mount is touched.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`] where the mount does not answer.
    pub fn stat(&self, path: &Path) -> Result<Status, Error> {
        self.look(path).map(|(entry, _)| entry)
    }

    /// As [`Local::stat`], with a handle on what was found, which reads nothing.
    pub(crate) fn look(&self, path: &Path) -> Result<(Status, OwnedFd), Error> {
        let (file, stat) = self.on_mount(path, OFlags::PATH | OFlags::CLOEXEC, |file| {
            let stat = sysfs::fstat(&file)?;
            Ok((file, stat))
        })?;
        let entry =
            self.status_of(file.as_fd(), &stat).map_err(|source| Error::io(path, source))?;
        Ok((entry, file))
    }

    /// Opens `path` to read it. A FIFO without a writer does not block; a
    /// mount that does not answer is given up after [`Local::wait_max`].
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`].
    pub fn open(&self, path: &Path) -> Result<File, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        self.on_mount(path, flags, |file| Ok(File::from(file)))
    }

    /// As [`Local::open`], with what was opened: one look-up of the name for both.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`].
    pub(crate) fn open_known(&self, path: &Path) -> Result<(File, Status), Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let (file, stat) = self.on_mount(path, flags, |file| {
            let stat = sysfs::fstat(&file)?;
            Ok((File::from(file), stat))
        })?;
        let status =
            self.status_of(file.as_fd(), &stat).map_err(|source| Error::io(path, source))?;
        Ok((file, status))
    }

    /// Where the parts of an open file are. What is not a regular file has no parts.
    ///
    /// # Errors
    /// The system's, if the descriptor cannot be asked about at all.
    pub fn locate(&self, file: &impl AsFd) -> io::Result<Located> {
        let file = file.as_fd();
        let stat = sysfs::fstat(file)?;
        if !sysfs::FileType::from_raw_mode(stat.st_mode).is_file() {
            return Ok(Located::default());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let ground = self.ground(file, stat.st_dev)?;
        Ok(locate_on(file, size, &ground))
    }

    /// Where the parts of the file at `path` are, of which `entry` is known and
    /// which `handle` holds.
    ///
    /// It is opened only where that does no harm: not if it is offline, and
    /// not where opening would empty its cache.
    pub(crate) fn locate_entry(
        &self,
        path: &Path,
        entry: &Status,
        handle: &OwnedFd,
        offline: bool,
        opening_evicts: bool,
    ) -> Result<Located, Error> {
        if entry.kind != Kind::File {
            return Ok(Located::default());
        }
        let whole = |place, reason| Located {
            extents: whole_extent(entry.size, &entry.device, place),
            reason: Some(reason),
        };
        if offline {
            return Ok(whole(Place::Cold, Reason::Offline));
        }
        if opening_evicts {
            return Ok(whole(Place::Unknown, Reason::OpeningMayEvict));
        }
        let opened = if entry.backing.may_stall() { self.open(path) } else { reopen(path, handle) };
        let file = match opened {
            // Who may not read it may still learn where it would come from.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(whole(Place::Unknown, Reason::NotOwner));
            }
            opened => opened?,
        };
        self.locate(&file).map_err(|source| Error::io(path, source))
    }

    /// Whether one call of half a microsecond shows that the first `size`
    /// bytes of an open file are in memory. `false` may also mean that the
    /// call does not tell, as on overlayfs: then [`Local::locate`] does.
    pub fn is_wholly_near(&self, file: &impl AsFd, size: u64) -> bool {
        size == 0
            || sys::cached_pages(file.as_fd(), &(0..size))
                .is_ok_and(|cached| cached >= size.div_ceil(sys::page_bytes()))
    }

    /// What an open file is, and on what device.
    ///
    /// # Errors
    /// The system's, if the descriptor cannot be asked about at all.
    pub fn status(&self, file: &impl AsFd) -> io::Result<Status> {
        let file = file.as_fd();
        self.status_of(file, &sysfs::fstat(file)?)
    }

    fn status_of(&self, file: BorrowedFd<'_>, stat: &sysfs::Stat) -> io::Result<Status> {
        let ground = self.ground(file, stat.st_dev)?;
        Ok(Status {
            kind: match sysfs::FileType::from_raw_mode(stat.st_mode) {
                sysfs::FileType::RegularFile => Kind::File,
                sysfs::FileType::Directory => Kind::Folder,
                sysfs::FileType::Symlink => Kind::Link,
                _ => Kind::Stream,
            },
            size: u64::try_from(stat.st_size).unwrap_or(0),
            allocated: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
            modified_s: stat.st_mtime,
            device: ground.device.clone(),
            backing: ground.backing,
            mount: ground.mount.clone(),
        })
    }

    /// What is mounted; asked again when a path lies on a mount not seen before.
    ///
    /// # Errors
    /// If `/proc` is not there.
    pub fn mounts(&self) -> io::Result<Mounts> {
        match &self.mount_table().0 {
            none if none.all().is_empty() => Mounts::read(),
            mounts => Ok(mounts.clone()),
        }
    }

    /// The device that the files of `mount` come from.
    pub fn device_of(&self, mount: &Mount) -> Device {
        block::device_of(mount, &self.mount_table().0)
    }

    /// What is mounted; nothing where `/proc` is not there: files can be read all the same.
    fn mount_table(&self) -> Arc<MountTable> {
        let mut known = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        let table =
            known.get_or_insert_with(|| Arc::new(MountTable(Mounts::read().unwrap_or_default())));
        Arc::clone(table)
    }

    /// What stands behind the file system that a path seems to lie on, by the names of mounts alone.
    pub fn backing_by_name(&self, path: &Path) -> Option<Backing> {
        Some(self.mount_table().0.by_path(&absolute(path).ok()?)?.backing)
    }

    /// The device that a path seems to lie on, by the names of mounts alone:
    /// nothing is asked of a file system, and links are not followed.
    pub fn device_by_name(&self, path: &Path) -> Option<Device> {
        let path = absolute(path).ok()?;
        let mount = self.mount_table().0.by_path(&path)?.clone();
        Some(self.device_of(&mount))
    }

    fn ground(&self, file: BorrowedFd<'_>, st_dev: u64) -> io::Result<Arc<Ground>> {
        let mut grounds = self.grounds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ground) = grounds.get(&st_dev) {
            return Ok(Arc::clone(ground));
        }
        let mut mount = self.mount_table().mount_of(file)?;
        if mount.is_none() {
            // Mounted since the table was read.
            *self.mounts.lock().unwrap_or_else(PoisonError::into_inner) = None;
            mount = self.mount_table().mount_of(file)?;
        }
        let ground = Arc::new(match mount {
            Some(mount) => Ground {
                device: self.device_of(&mount),
                backing: mount.backing,
                mount: mount.point,
            },
            // A mount of another namespace, or a file that lies on none, such as a memfd.
            None => Ground {
                device: Device::new(format!(
                    "dev:{}:{}",
                    sysfs::major(st_dev),
                    sysfs::minor(st_dev)
                )),
                backing: Backing::Disk,
                mount: PathBuf::from("/"),
            },
        });
        grounds.insert(st_dev, Arc::clone(&ground));
        Ok(ground)
    }

    /// Opens `path` and calls `use_it`. On a mount that cannot stall this is
    /// done at once, and the kernel is told not to leave that mount; where it
    /// can, or where a link leads to another mount, in bounded time.
    fn on_mount<T: Send + 'static>(
        &self,
        path: &Path,
        flags: OFlags,
        use_it: fn(OwnedFd) -> io::Result<T>,
    ) -> Result<T, Error> {
        let failed = |source: io::Error| Error::io(path, source);
        let table = self.mount_table();
        let whole = absolute(path).map_err(failed)?;
        if let Some(mount) = table.0.by_path(&whole)
            && !mount.backing.may_stall()
            && let Some(within) = relative(path, &whole, &mount.point)
            && let Some(opened) = open_within(mount, &whole, within, flags)
        {
            match opened {
                Ok(file) => return use_it(file).map_err(failed),
                Err(rustix::io::Errno::XDEV | rustix::io::Errno::NOSYS) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        let mount = table.behind(&whole);
        let stalled = || Error::Stalled {
            path: path.to_owned(),
            mount: mount.map_or_else(|| PathBuf::from("/"), |mount| mount.point.clone()),
            limit: self.wait_max,
        };
        let id = mount.filter(|mount| mount.backing.may_stall()).map(|mount| mount.id);
        let may_stall = mount.is_none() || id.is_some();
        if may_stall && !self.canaries.answers(id, path, self.wait_max, &self.clock) {
            return Err(stalled());
        }
        let target = path.to_owned();
        let open = move || sysfs::open(&target, flags, Mode::empty()).map_err(Into::into);
        let used = move || open().and_then(use_it);
        if let Some(used) = bounded::within(self.wait_max, used) {
            return used.map_err(failed);
        }
        self.canaries.is_silent(id, &self.clock);
        Err(stalled())
    }
}

impl MountTable {
    fn mount_of(&self, file: impl AsFd) -> io::Result<Option<Mount>> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = sysfs::statx(file, "", flags, StatxFlags::MNT_ID)?;
        Ok(self.0.by_id(stat.stx_mnt_id).cloned())
    }

    /// The mount that an absolute path leads to through links, as far as that
    /// can be seen without touching a mount that may stall.
    fn behind(&self, whole: &Path) -> Option<&Mount> {
        let names = |path: &Path| -> Vec<OsString> {
            let names = path.components().rev().filter_map(|component| match component {
                Component::Normal(_) | Component::ParentDir => Some(component.as_os_str()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
            });
            names.map(OsStr::to_owned).collect()
        };
        let (mut at, mut rest, mut links) = (PathBuf::from("/"), names(whole), 0);
        while let Some(name) = rest.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            at.push(name);
            if self.0.by_path(&at).is_some_and(|mount| mount.backing.may_stall()) {
                break;
            }
            if links < LINKS_MAX
                && let Ok(target) = std::fs::read_link(&at)
            {
                links += 1;
                at.pop();
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                rest.extend(names(&target));
            }
        }
        self.0.by_path(&at)
    }
}

/// `path` seen from `point`; `None` if that could lead elsewhere: a `..` after a link means
/// something else than it says, and a slash at the end asks for a folder.
fn relative<'a>(path: &Path, whole: &'a Path, point: &Path) -> Option<&'a Path> {
    let has_parent = path.components().any(|component| component == Component::ParentDir);
    let bytes = path.as_os_str().as_bytes();
    if has_parent || bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        return None;
    }
    let within = whole.strip_prefix(point).ok()?;
    Some(if within.as_os_str().is_empty() { Path::new(".") } else { within })
}

/// Opens the path `whole`, which is `within` seen from its mount point,
/// without leaving its mount; `None` if something else is mounted there by now.
fn open_within(
    mount: &Mount,
    whole: &Path,
    within: &Path,
    flags: OFlags,
) -> Option<rustix::io::Result<OwnedFd>> {
    let open = |folder: BorrowedFd<'_>, path: &Path| {
        sysfs::openat2(folder, path, flags, Mode::empty(), ResolveFlags::NO_XDEV)
    };
    if mount.point.as_os_str() == "/" {
        // An absolute path begins there by itself.
        return Some(open(sysfs::CWD, whole));
    }
    // The mount point is not kept open: that would keep it from being unmounted.
    let point_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let point = sysfs::open(&mount.point, point_flags, Mode::empty()).ok()?;
    let at = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = sysfs::statx(&point, "", at, StatxFlags::MNT_ID).ok()?;
    (stat.stx_mnt_id == mount.id).then(|| open(point.as_fd(), within))
}

/// Opens for reading what `handle` is a handle on: cheaper than looking `path` up again.
fn reopen(path: &Path, handle: &OwnedFd) -> Result<File, Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let name = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let opened = match sysfs::open(name, flags, Mode::empty()) {
        // Without `/proc` there is only the path.
        Err(rustix::io::Errno::NOENT) => sysfs::open(path, flags, Mode::empty()),
        opened => opened,
    };
    opened.map(File::from).map_err(|error| Error::io(path, error))
}

/// Whether a file has a size but no blocks where that means a stub: on file
/// systems known to front a tape or another cold tier, or said to in `table`.
pub(crate) fn seems_offline(entry: &Status, table: &DeviceTable) -> bool {
    let is_stub = entry.kind == Kind::File && entry.size > 0 && entry.allocated == 0;
    let family = entry.device.name().split(':').next().unwrap_or_default();
    let fronts_cold = matches!(
        family,
        "lustre" | "gpfs" | "beegfs" | "nfs" | "cifs" | "smb3" | "fuse.ltfs" | "fuse.eosxd"
    );
    is_stub && table.has_stubs(&entry.device).unwrap_or(fronts_cold)
}

fn whole_extent(size: u64, device: &Device, place: Place) -> Vec<Extent> {
    match size {
        0 => Vec::new(),
        length => vec![Extent { offset: 0, length, device: device.clone(), place }],
    }
}

fn locate_on(file: BorrowedFd<'_>, size: u64, ground: &Ground) -> Located {
    let near =
        || Located { extents: whole_extent(size, &Device::memory(), Place::Near), reason: None };
    if size == 0 || matches!(ground.backing, Backing::Memory | Backing::Pseudo) {
        return near();
    }
    let method = match how_to_ask(file, size, ground.backing) {
        Ok(Answer::AllNear) => return near(),
        Ok(Answer::NoneNear) => None,
        Ok(Answer::Ask(method)) => Some(method),
        Err(reason) => {
            let extents = whole_extent(size, &ground.device, Place::Unknown);
            return Located { extents, reason: Some(reason) };
        }
    };
    // Who does not say where the holes are is taken to have none.
    let data = sys::data_ranges(&file, size).unwrap_or_else(|_| std::iter::once(0..size).collect());
    let found = match method {
        None => Ok(data.into_iter().map(|range| (range, false)).collect()),
        Some(method) => ranges_by(file, &data, method),
    };
    match found {
        Ok(found) => Located { extents: fill_holes(found, size, &ground.device), reason: None },
        // Files of FUSE with direct I/O cannot be mapped, and nothing of them is ever cached.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            Located { extents: whole_extent(size, &ground.device, Place::Far), reason: None }
        }
        Err(_) => Located {
            extents: whole_extent(size, &ground.device, Place::Unknown),
            reason: Some(Reason::Refused),
        },
    }
}

enum Answer {
    AllNear,
    NoneNear,
    Ask(Method),
}

/// The cheapest call that tells the truth about this file.
fn how_to_ask(file: BorrowedFd<'_>, size: u64, backing: Backing) -> Result<Answer, Reason> {
    if backing != Backing::Overlay {
        match cached_share(file, size) {
            Ok(Some(false)) => return Ok(Answer::NoneNear),
            Ok(Some(true)) => return Ok(Answer::AllNear),
            Ok(None) => return Ok(Answer::Ask(Method::CachestatOfMixed)),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && cachestat_works() => {
                return Err(Reason::NotOwner);
            }
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return Err(Reason::Refused);
            }
            // An old kernel, or a sandbox that knows no cachestat.
            Err(_) => {}
        }
    }
    if mincore_tells_the_truth(file) {
        Ok(Answer::Ask(Method::Mincore))
    } else {
        Err(Reason::NotOwner)
    }
}

/// Whether all of the file is in memory or none; `None` if it is mixed.
///
/// A call takes 30 ns for each folio, and a file that is in memory in small
/// pieces has many: so the first piece of a large one is asked first.
fn cached_share(file: BorrowedFd<'_>, size: u64) -> io::Result<Option<bool>> {
    let share = |bytes: u64| {
        let pages = bytes.div_ceil(sys::page_bytes());
        // Some file systems count pages beyond the end of the file, too.
        sys::cached_pages(file, &(0..bytes)).map(|cached| match cached {
            0 => Some(false),
            cached if cached >= pages => Some(true),
            _ => None,
        })
    };
    if size > SAMPLE_BYTES && share(SAMPLE_BYTES)?.is_none() {
        return Ok(None);
    }
    share(size)
}

/// Whether `cachestat` is there at all: a sandbox may answer EPERM to any call it does not know.
fn cachestat_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let flags = sysfs::MemfdFlags::CLOEXEC;
        sysfs::memfd_create("nearfirst", flags)
            .is_ok_and(|file| sys::cached_pages(file.as_fd(), &(0..1)).is_ok())
    })
}

/// Since Linux 5.2 `mincore` says "all in memory" to callers who neither own
/// the file nor may write it, without an error.
fn mincore_tells_the_truth(file: BorrowedFd<'_>) -> bool {
    static ANY_FILE: OnceLock<bool> = OnceLock::new();
    if *ANY_FILE.get_or_init(sys::may_ask_about_any_file) {
        return true;
    }
    let is_owner =
        sysfs::fstat(file).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
    is_owner
        || sysfs::accessat(
            file,
            OsStr::new(""),
            sysfs::Access::WRITE_OK,
            AtFlags::EMPTY_PATH | AtFlags::EACCESS,
        )
        .is_ok()
}

/// Extents of all of the file: what is between `found` is a hole, and near.
fn fill_holes(found: Vec<(Range<u64>, bool)>, size: u64, device: &Device) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::with_capacity(found.len());
    let mut push = |range: Range<u64>, near: bool| {
        if range.is_empty() {
            return;
        }
        let length = range.end - range.start;
        match extents.last_mut() {
            Some(last) if (last.place == Place::Near) == near => last.length += length,
            _ => extents.push(Extent {
                offset: range.start,
                length,
                device: if near { Device::memory() } else { device.clone() },
                place: if near { Place::Near } else { Place::Far },
            }),
        }
    };
    let mut at = 0;
    for (range, resident) in found {
        push(at..range.start, true);
        at = range.end;
        push(range, resident);
    }
    push(at..size, true);
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_data_is_a_hole_and_near() {
        let extents = fill_holes(vec![(10..20, false), (20..30, true)], 50, &Device::new("d"));
        let parts: Vec<_> =
            extents.iter().map(|extent| (extent.offset, extent.length, extent.place)).collect();
        assert_eq!(parts, [(0, 10, Place::Near), (10, 10, Place::Far), (20, 30, Place::Near)]);
    }

    #[test]
    fn paths_are_seen_from_their_mount_unless_they_climb() {
        let relative = |path: &'static str, whole: &'static str| {
            relative(Path::new(path), Path::new(whole), Path::new("/m"))
        };
        assert_eq!(relative("/m/a", "/m/a"), Some(Path::new("a")));
        assert_eq!(relative("/m", "/m"), Some(Path::new(".")));
        assert_eq!(relative("l/../a", "/m/a"), None);
    }
}
