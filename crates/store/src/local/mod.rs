//! The local store: files of mounted file systems.

mod attributes;
mod awaited;
pub(crate) mod block;
mod bounded;
mod canary;
mod files;
mod folder;
mod holes;
mod leases;
mod listing;
mod locate;
mod mount_table;
mod mounts;
pub(crate) mod nfs;
mod opened;
mod opener;
mod position;
mod probe;
mod reach;
mod reader;
mod residency;
mod sys;
mod unanswered;
mod walk;
mod warm;

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{self as sysfs, OFlags};
use sled::{Device, DeviceTable, Extent, Place};

use crate::{Clock, Error, Version};

pub use bounded::{Lingering, begun, does_anything_linger};
pub use files::{Files, blocking};
pub use folder::Folder;
pub use holes::holes;
pub use locate::data_ranges;
pub use mounts::{Backing, Mount, Mounts};
pub use opened::Opened;
pub(crate) use opener::Opener;
pub use position::disk_position;
pub use probe::{Probe, Progress, probe_first, probe_memory};
pub use reach::Reached;
pub use residency::{is_in_memory_in_part, resident_ranges, was_evicted};
pub use sys::leave_signals_to_others;
pub(crate) use sys::starting_programs;
#[cfg(feature = "object")]
pub(crate) use sys::taking_ends;
pub use walk::Walk;

use attributes::Attributes;
use canary::Canaries;
pub(crate) use leases::Leases;
pub(crate) use locate::locate_open;
use locate::wholly;
use mount_table::{Ground, MountTable};
pub(crate) use mounts::absolute;
pub(crate) use reach::Handle;
use unanswered::Unanswered;

/// How long a mount may take to answer unless the caller says otherwise:
/// longer than a disk needs to spin up, shorter than a person waits without a word.
const WAIT_MAX: Duration = Duration::from_secs(10);

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
#[non_exhaustive]
pub struct Status {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Bytes that the file system has allocated.
    pub allocated: u64,
    /// Seconds of Unix time of the last change of the content.
    pub modified_s: i64,
    /// Nanoseconds after that, below 1,000,000,000; as exact as the file system keeps them.
    pub modified_ns: u32,
    /// The device it lies on.
    pub device: Device,
    /// What stands behind its file system.
    pub backing: Backing,
    /// Where its file system is mounted.
    pub mount: PathBuf,
}

impl Status {
    /// When its content last changed; `None` for a time that the clock of this machine cannot hold.
    pub fn modified(&self) -> Option<SystemTime> {
        let seconds = Duration::from_secs(self.modified_s.unsigned_abs());
        let whole = if self.modified_s < 0 {
            UNIX_EPOCH.checked_sub(seconds)
        } else {
            UNIX_EPOCH.checked_add(seconds)
        };
        whole?.checked_add(Duration::from_nanos(self.modified_ns.into()))
    }

    /// What tells this content from a later one: when it was written, and how long it is.
    pub fn version(&self) -> Version {
        Version::of_file(self.modified_s, self.modified_ns, self.size)
    }
}

/// Where the parts of a file are.
#[derive(Debug, Clone, Default)]
pub struct Located {
    /// In file order, without gaps; empty for an empty file.
    pub extents: Vec<Extent>,
    /// What its far parts would be fetched from, and its near ones were; `None` where there is no file.
    pub device: Option<Device>,
    /// Why some extents are [`Place::Unknown`] or [`Place::Cold`], if any is.
    pub reason: Option<Reason>,
}

/// Why it cannot be said where data is, or why it was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The kernel tells residency only to the owner and to those who may write the file (Linux 5.2);
    /// on a mount that may not answer, `mincore` is believed by the owner alone.
    NotOwner,
    /// Opening a file here may empty its cache, so it was not opened.
    OpeningMayEvict,
    /// No data is allocated for a file that has some: it is taken to be offline, and left alone.
    Offline,
    /// The kernel refused to say.
    Refused,
    /// It is made as it is read, as files of `/proc` are, and how long it will be is not told.
    SizeUntold,
    /// It is an object, and its server does not tell how long it is.
    SizeUntoldByServer,
    /// It is an object that must be restored before it can be read; the name of its storage class.
    Cold(Arc<str>),
    /// As [`Reason::Cold`], and its restore is under way.
    Recalling(Arc<str>),
}

impl Reason {
    /// Whether all of it is unknown because its size is.
    pub fn is_untold_size(&self) -> bool {
        matches!(self, Self::SizeUntold | Self::SizeUntoldByServer)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NotOwner => {
                "the kernel says what is in memory only to the owner of a file and to those who may write it"
            }
            Self::OpeningMayEvict => {
                "opening a file on this FUSE mount may empty its cache; calibrating it finds out whether it does"
            }
            Self::Offline => "it has a size but no blocks: it seems to be offline",
            Self::Refused => "the kernel does not say what is in memory",
            Self::SizeUntold => "the kernel does not tell its size: it is made as it is read",
            Self::SizeUntoldByServer => "its server does not tell its size",
            Self::Cold(class) => return write!(f, "in cold storage ({class})"),
            Self::Recalling(class) => {
                return write!(f, "in cold storage ({class}), and being restored");
            }
        };
        f.write_str(text)
    }
}

/// The files of mounted file systems. Cheap calls take about 4 µs.
#[derive(Debug)]
pub struct Local {
    wait_max: Duration,
    clock: Clock,
    canaries: Canaries,
    unanswered: Unanswered,
    mounts: RwLock<Option<Arc<MountTable>>>,
}

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
            unanswered: Unanswered::default(),
            mounts: RwLock::default(),
        }
    }

    /// Says of this process, once and for all, that nobody waits for its end: somebody ends the run
    /// for it, though a thread of it hangs. Then a mount is not asked before a file of it is opened,
    /// which is bounded in time anyhow: the question is one more round trip.
    pub fn be_left_behind() {
        canary::LEFT_BEHIND.store(true, Ordering::Relaxed);
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
        self.look(path).map(|(status, _)| status)
    }

    /// As [`Local::stat`], with a handle on what was found, which reads nothing.
    pub(crate) fn look(&self, path: &Path) -> Result<(Status, Handle), Error> {
        let (flags, table) = (OFlags::PATH | OFlags::CLOEXEC, self.mount_table());
        let (file, stat) = self.on_mount(&table, path, flags, reach::OF_NAME, |file| {
            let stat = sysfs::fstat(&file)?;
            Ok((file, stat))
        })?;
        let status = self.status_of(&table, file.as_fd(), &stat.into());
        let status = status.map_err(|source| Error::io(path, source))?;
        if status.kind == Kind::Folder
            && status.backing.may_stall()
            && canary::LEFT_BEHIND.load(Ordering::Relaxed)
        {
            // What is done with it next is not bounded in time.
            self.answers(path)?;
        }
        Ok((status, Handle { file, device: stat.st_dev, inode: stat.st_ino }))
    }

    /// Opens `path` to read it. A FIFO without a writer does not block; a
    /// mount that does not answer is given up after [`Local::wait_max`].
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`].
    pub fn open(&self, path: &Path) -> Result<File, Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        self.on_mount(&self.mount_table(), path, flags, reach::OF_NAME, |file| Ok(File::from(file)))
    }

    /// As [`Local::open`], with what was opened: one look-up of the name for both.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`].
    pub(crate) fn open_known(&self, path: &Path) -> Result<(File, Status), Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let table = self.mount_table();
        let (file, stat) = self.on_mount(&table, path, flags, reach::OF_NAME, |file| {
            let stat = sysfs::fstat(&file)?;
            Ok((File::from(file), stat))
        })?;
        let status = self.status_of(&table, file.as_fd(), &stat.into());
        Ok((file, status.map_err(|source| Error::io(path, source))?))
    }

    /// Where the parts of an open file are that is not offline. What is not a regular file has no
    /// parts.
    ///
    /// # Errors
    /// The system's, if the descriptor cannot be asked about at all.
    pub fn locate(&self, file: &impl AsFd) -> io::Result<Located> {
        Ok(locate_open(file.as_fd(), &self.status(file)?, false))
    }

    /// Where the parts of the file at `path` are, of which `status` is known and
    /// which `handle` holds.
    ///
    /// It is opened only where that does no harm: not if it is offline, and
    /// not where opening would empty its cache.
    pub(crate) fn locate_status(
        &self,
        path: &Path,
        status: &Status,
        handle: &Handle,
        offline: bool,
        opening_evicts: bool,
    ) -> Result<Located, Error> {
        if status.kind != Kind::File {
            return Ok(Located::default());
        }
        if offline {
            return Ok(wholly(status, Place::Cold, Reason::Offline));
        }
        if opening_evicts {
            return Ok(wholly(status, Place::Unknown, Reason::OpeningMayEvict));
        }
        let opened = if status.backing.may_stall() {
            self.open(path)
        } else {
            handle.reopen(path, &status.mount)
        };
        let file = match opened {
            // Who may not read it may still learn where it would come from.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(wholly(status, Place::Unknown, Reason::NotOwner));
            }
            opened => Opened::new(opened?, status.backing.may_stall()),
        };
        Ok(locate_open(file.as_fd(), status, false))
    }

    /// Whether one call of half a microsecond shows that the first `size`
    /// bytes of an open file are in memory. `false` may also mean that the
    /// call does not tell, as on overlayfs: then [`Local::locate`] does.
    pub fn is_wholly_near(&self, file: &impl AsFd, size: u64) -> bool {
        size == 0
            || sys::cached_pages(file.as_fd(), &(0..size))
                .is_ok_and(|cached| cached >= size.div_ceil(sys::page_bytes()))
    }

    /// The ranges of an open file that are not in memory; of what the kernel does not tell, all.
    ///
    /// # Errors
    /// As [`Local::locate`].
    pub fn far_ranges(&self, file: &impl AsFd, status: &Status) -> io::Result<Vec<Range<u64>>> {
        if status.backing == Backing::Memory || self.is_wholly_near(file, status.size) {
            return Ok(Vec::new());
        }
        let extents = self.locate(file)?.extents.into_iter();
        let far = extents.filter(|extent| extent.place != Place::Near);
        Ok(far.map(|extent| extent.offset..extent.offset + extent.length).collect())
    }

    /// What an open file is, and on what device; on a mount that may not answer, what the kernel
    /// last heard of it.
    ///
    /// # Errors
    /// The system's, if the descriptor cannot be asked about at all.
    pub fn status(&self, file: &impl AsFd) -> io::Result<Status> {
        let file = file.as_fd();
        self.status_of(&self.mount_table(), file, &Attributes::known(file)?)
    }

    /// As [`Local::status`], by what `table` knows; what was mounted since, as opening a file may, is
    /// asked for.
    fn status_of(
        &self,
        table: &MountTable,
        file: BorrowedFd<'_>,
        known: &Attributes,
    ) -> io::Result<Status> {
        let ground = match table.known_ground(known.device) {
            Some(ground) => ground,
            None => self.mount_table().ground(file, known.device)?,
        };
        Ok(known.on(&ground))
    }

    /// What is mounted now.
    ///
    /// # Errors
    /// If `/proc` is not there.
    pub fn mounts(&self) -> io::Result<Mounts> {
        match &self.mount_table().mounts {
            none if none.all().is_empty() => Mounts::read(),
            mounts => Ok(mounts.clone()),
        }
    }

    /// The device that the files of `mount` come from.
    pub fn device_of(&self, mount: &Mount) -> Device {
        block::device_of(mount, &self.mount_table().mounts)
    }

    /// What is mounted now, and what is known of that.
    fn mount_table(&self) -> Arc<MountTable> {
        let known = self.mounts.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = &*known
            && !table.is_outdated()
        {
            return Arc::clone(table);
        }
        drop(known);
        // Each change is told once: who hears of it reads anew, whatever others find here meanwhile.
        let mut known = self.mounts.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.insert(Arc::new(MountTable::read())))
    }

    /// The mount that a path seems to lie on, by the names of mounts alone.
    pub fn mount_by_name(&self, path: &Path) -> Option<Mount> {
        self.mount_table().mounts.by_path(&absolute(path).ok()?).cloned()
    }

    /// What stands behind the file system that a path seems to lie on, by the names of mounts alone.
    pub fn backing_by_name(&self, path: &Path) -> Option<Backing> {
        Some(self.mount_table().mounts.by_path(&absolute(path).ok()?)?.backing)
    }

    /// The device that a path seems to lie on, and what stands behind the file system there, by the
    /// names of mounts alone: nothing is asked of a file system, and links are not followed.
    pub fn place_by_name(&self, path: &Path) -> Option<(Device, Backing)> {
        self.places().by_name(path)
    }

    /// What is mounted now, to be asked about many paths one after the other.
    pub fn places(&self) -> Places {
        Places(self.mount_table())
    }
}

/// Where paths seem to lie, by what was mounted at one moment.
#[derive(Debug)]
pub struct Places(Arc<MountTable>);

impl Places {
    /// As [`Local::place_by_name`].
    pub fn by_name(&self, path: &Path) -> Option<(Device, Backing)> {
        let mount = self.0.mounts.by_path(&absolute(path).ok()?)?;
        Some((self.0.device_of(mount), mount.backing))
    }
}

/// Whether a file has a size but no blocks where that means a stub: on file
/// systems known to front a tape or another cold tier, or said to in `table`.
pub(crate) fn seems_offline(status: &Status, table: &DeviceTable) -> bool {
    is_stub(status) && has_stubs(&status.device, table)
}

/// Whether a device may have stubs.
pub(crate) fn has_stubs(device: &Device, table: &DeviceTable) -> bool {
    // A file's device, and no scheme: shares of CIFS are called `cifs://host/share`.
    let family = device.name().split(':').next().unwrap_or_default();
    let fronts_cold = matches!(
        family,
        "lustre" | "gpfs" | "beegfs" | "nfs" | "cifs" | "smb3" | "fuse.ltfs" | "fuse.eosxd"
    );
    table.has_stubs(device).unwrap_or(fronts_cold)
}

/// Whether a file has a size but no blocks.
pub(crate) fn is_stub(status: &Status) -> bool {
    status.kind == Kind::File && status.size > 0 && status.allocated == 0
}
