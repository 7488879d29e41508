//! Which file an event of fanotify means: its path as this process has it, or none.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self as sysfs, AtFlags, Mode, OFlags, Statx, StatxFlags};
use store::{Mount, Mounts};
use tree::{Access, Identity, User};

use super::connector::Pid;
use super::fanotify::{Deeds, FileSystemId, Handle, Record, What, Where, open_folder};

/// A file was opened, made or closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) pid: Pid,
    pub(crate) deeds: Deeds,
    pub(crate) file: tree::File,
    /// Whether who runs it has capabilities by it, if it was opened to be run.
    pub(crate) gives_capabilities: bool,
}

impl Open {
    /// What for. Nobody tells how a file was opened; who writes makes it, cuts it or closes it later.
    pub(crate) fn access(&self) -> Access {
        let is_new = self.file.size == Some(0);
        if self.deeds.written() || is_new { Access::Write } else { Access::Read }
    }

    /// Whether it is what links programs when they start, the last that is opened to be run for an
    /// exec.
    pub(crate) fn is_loader(&self) -> bool {
        let name = self.file.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        name.starts_with(b"ld") && name.windows(3).any(|part| part == b".so")
    }
}

/// A file system that is listened to, by the mount that its files are named by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// The kernel's number for the mount.
    pub(crate) mount: u64,
    /// Its number, as `st_dev` has it.
    pub(crate) device: u64,
    /// Whether the whole of it is mounted there: every folder of it has a path below.
    pub(crate) is_whole: bool,
    /// What is told of it.
    pub(crate) what: What,
}

/// Finds the files of events.
#[derive(Debug, Default, Clone)]
pub(crate) struct Resolver {
    pub(crate) grounds: HashMap<FileSystemId, Ground>,
    pub(crate) mounts: Arc<Mounts>,
    /// Nothing is told of what lies here.
    pub(crate) excluded: Vec<PathBuf>,
}

/// Folders kept open for events of one batch: more than that many at a time are looked up again.
const FOLDERS_MAX: usize = 512;

/// What was looked up for a batch of events, and is let go with it: what is kept open longer would
/// keep people from unmounting.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    mounts: HashMap<FileSystemId, Option<OwnedFd>>,
    folders: HashMap<(FileSystemId, Handle), Option<Folder>>,
}

#[derive(Debug)]
struct Folder {
    file: OwnedFd,
    path: Vec<u8>,
}

const UNWAITED: AtFlags = AtFlags::STATX_DONT_SYNC.union(AtFlags::SYMLINK_NOFOLLOW);

impl Resolver {
    /// The file of a record; `None` if it is gone, has no path here, or is no regular file.
    pub(crate) fn resolve(&self, record: Record, batch: &mut Batch) -> Option<Open> {
        let Record { pid, deeds, at } = record;
        let (file, gives_capabilities) = match at {
            Where::Open(file) => (self.open_file(&file)?, deeds.executed() && gives(&file, None)),
            Where::Named { file_system, folder, name } => {
                let ground = self.grounds.get(&file_system)?;
                if ground.what == What::Programs && !deeds.executed() {
                    return None;
                }
                let folder = batch.folder(ground, file_system, folder)?;
                let file = named_file(folder, &name)?;
                (file, deeds.executed() && gives(&folder.file, Some(&name)))
            }
        };
        // What is opened to be run tells that something ran, which may not be named.
        let is_told = deeds.executed() || !self.excludes(&file.path);
        is_told.then_some(Open { pid, deeds, file, gives_capabilities })
    }

    /// Whether nothing is told of what lies at this path.
    pub(crate) fn excludes(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        self.excluded.iter().any(|excluded| path.starts_with(excluded))
    }

    fn open_file(&self, file: &OwnedFd) -> Option<tree::File> {
        let flags = UNWAITED | AtFlags::EMPTY_PATH;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let stat = sysfs::statx(file, "", flags, wanted).ok()?;
        let path = link(file.as_fd()).ok().filter(|_| stat.stx_nlink > 0)?;
        let below = |mount: &Mount| Path::new(OsStr::from_bytes(&path)).starts_with(&mount.point);
        // On a mount of another namespace the path may mean another file here.
        let is_here = self.mounts.by_id(stat.stx_mnt_id).map_or_else(|| is_at(&path, file), below);
        is_here.then(|| described(path, &stat))?
    }
}

fn named_file(folder: &Folder, name: &[u8]) -> Option<tree::File> {
    let mut path = Vec::with_capacity(folder.path.len() + 1 + name.len());
    path.extend(folder.path.strip_suffix(b"/").unwrap_or(&folder.path));
    path.push(b'/');
    path.extend(name);
    let name = OsStr::from_bytes(name);
    let stat = sysfs::statx(&folder.file, name, UNWAITED, StatxFlags::BASIC_STATS).ok()?;
    described(path, &stat)
}

impl Batch {
    fn folder(&mut self, ground: &Ground, id: FileSystemId, handle: Handle) -> Option<&Folder> {
        if self.folders.len() >= FOLDERS_MAX {
            self.folders.clear();
        }
        let mounts = &mut self.mounts;
        let folder = self.folders.entry((id, handle)).or_insert_with_key(|(_, handle)| {
            let mount = mounts.entry(id).or_insert_with(|| open_mount(ground)).as_ref()?;
            let file = open_folder(mount.as_fd(), handle).ok()?;
            let path = link(file.as_fd()).ok()?;
            let is_there = ground.is_whole || is_at(&path, &file);
            is_there.then_some(Folder { file, path })
        });
        folder.as_ref()
    }
}

/// The mount point, unless something else is mounted there by now.
fn open_mount(ground: &Ground) -> Option<OwnedFd> {
    // Handles are not looked up by a descriptor without access (`O_PATH`).
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mount = sysfs::open(&ground.point, flags, Mode::empty()).ok()?;
    let stat =
        sysfs::statx(&mount, "", UNWAITED | AtFlags::EMPTY_PATH, StatxFlags::empty()).ok()?;
    (device(&stat) == ground.device).then_some(mount)
}

/// An error where a mount point does not lead to its mount: what is done there would be done to
/// another.
pub(crate) fn ensure_reached(ground: &Ground) -> io::Result<()> {
    let at = UNWAITED | AtFlags::NO_AUTOMOUNT;
    let stat = sysfs::statx(sysfs::CWD, &ground.point, at, StatxFlags::MNT_ID)?;
    if stat.stx_mnt_id == ground.mount {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotFound, "another mount covers it"))
    }
}

/// Whether `path` leads to an open file or folder: what lies outside of what is mounted has no path, and is given one.
fn is_at(path: &[u8], file: &OwnedFd) -> bool {
    let identity = |stat: Statx| (device(&stat), stat.stx_ino);
    let there = OsStr::from_bytes(path);
    let there = sysfs::statx(sysfs::CWD, there, UNWAITED, StatxFlags::INO);
    let this = sysfs::statx(file, "", UNWAITED | AtFlags::EMPTY_PATH, StatxFlags::INO);
    there.is_ok_and(|there| this.is_ok_and(|this| identity(there) == identity(this)))
}

/// The file that a path leads to.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    let stat = sysfs::statx(sysfs::CWD, path, UNWAITED, StatxFlags::INO).ok()?;
    Some(Identity { device: device(&stat), inode: stat.stx_ino })
}

/// Whether a user may read a file, and reach it by its path, as its owner or as everybody may; of groups
/// nothing is known.
pub(crate) fn is_open_to(user: User, path: &Path) -> bool {
    let allows = |path: &Path, (owners, others): (Mode, Mode)| {
        let wanted = StatxFlags::MODE | StatxFlags::UID;
        let stat = sysfs::statx(sysfs::CWD, path, UNWAITED, wanted);
        stat.is_ok_and(|stat| {
            let right = if stat.stx_uid == user.0 { owners } else { others };
            Mode::from_raw_mode(stat.stx_mode.into()).contains(right)
        })
    };
    let mut folders = path.ancestors().skip(1);
    allows(path, (Mode::RUSR, Mode::ROTH))
        && folders.all(|folder| allows(folder, (Mode::XUSR, Mode::XOTH)))
}

/// Whether who runs a file, by its name in an open folder or open itself, has capabilities by it. By its
/// path another might be found by then, on a mount that does not answer.
fn gives(at: &OwnedFd, name: Option<&[u8]>) -> bool {
    let mut path = format!("/proc/self/fd/{}", at.as_raw_fd()).into_bytes();
    let attribute = "security.capability";
    let asked = match name {
        Some(name) => {
            path.push(b'/');
            path.extend(name);
            sysfs::lgetxattr_query(path, attribute)
        }
        None => sysfs::getxattr_query(path, attribute),
    };
    asked.is_ok()
}

/// The path of an open file.
pub(crate) fn link(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(path.into_os_string().into_vec())
}

pub(crate) fn device(stat: &Statx) -> u64 {
    sysfs::makedev(stat.stx_dev_major, stat.stx_dev_minor)
}

/// A regular file; nothing else is ever told of.
fn described(path: Vec<u8>, stat: &Statx) -> Option<tree::File> {
    let kind = sysfs::FileType::from_raw_mode(u32::from(stat.stx_mode));
    let identity = Identity { device: device(stat), inode: stat.stx_ino };
    let file =
        tree::File { path: path.into(), identity: Some(identity), size: Some(stat.stx_size) };
    (kind == sysfs::FileType::RegularFile).then_some(file)
}
