//! The operations of the file system, each carried out on the source; `fuse.rs` asks for them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, RenameFlags,
    ReplyDirectory, Request, TimeOrNow,
};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, RawDir, SeekFrom, Statx, Timespec, Timestamps, Uid};

use crate::control::{self, Control};
use crate::engine::Engine;
use crate::inodes::{Inodes, ROOT};
use crate::mount::Options;
use crate::source::{self, Source, attributes, here, identity, stat_open};

/// Directory bytes taken from the source per call; more than the kernel asks for at a time.
const DIRECTORY_BUFFER_BYTES: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct SlowFs {
    pub(crate) source: Source,
    pub(crate) engine: Arc<Engine>,
    inodes: Mutex<Inodes>,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    next_handle: AtomicU64,
    pub(crate) open_flags: FopenFlags,
    pub(crate) time_to_live: Duration,
    pub(crate) absence_time_to_live: Duration,
    pub(crate) readahead_bytes_max: Option<u32>,
    /// Whether files can be given to the user who makes them.
    is_root: bool,
}

#[derive(Debug)]
pub(crate) enum Handle {
    File {
        fd: OwnedFd,
        number: u64,
        path: PathBuf,
    },
    /// Locked while its position is in use.
    Directory {
        fd: Mutex<OwnedFd>,
        number: u64,
        path: PathBuf,
    },
    Control {
        control: Control,
        text: Vec<u8>,
    },
}

pub(crate) type Result<T> = std::result::Result<T, Errno>;

pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

impl SlowFs {
    pub(crate) fn new(source: Source, engine: Arc<Engine>, options: &Options) -> Result<Self> {
        let root = source.stat(Path::new("")).map_err(errno)?;
        Ok(Self {
            source,
            engine,
            inodes: Mutex::new(Inodes::new(identity(&root))),
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            open_flags: if options.keep_cache {
                FopenFlags::FOPEN_KEEP_CACHE
            } else {
                FopenFlags::empty()
            },
            time_to_live: options.time_to_live,
            absence_time_to_live: options.absence_time_to_live,
            readahead_bytes_max: options.readahead_bytes_max,
            is_root: rustix::process::geteuid().is_root(),
        })
    }

    pub(crate) fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handles(&self) -> MutexGuard<'_, HashMap<u64, Arc<Handle>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, handle: Handle) -> FileHandle {
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles().insert(number, Arc::new(handle));
        FileHandle(number)
    }

    pub(crate) fn handle(&self, handle: FileHandle) -> Result<Arc<Handle>> {
        self.handles().get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) fn file(&self, handle: FileHandle) -> Result<Arc<Handle>> {
        self.handle(handle).and_then(|handle| match &*handle {
            Handle::File { .. } => Ok(handle),
            _ => Err(Errno::EBADF),
        })
    }

    /// An open file of the inode: the way to a file whose name is gone.
    fn open_file_of(&self, number: u64) -> Result<Arc<Handle>> {
        let handles = self.handles();
        let of = |handle: &&Arc<Handle>| matches!(&***handle, Handle::File { number: of, .. } if *of == number);
        handles.values().find(of).cloned().ok_or(Errno::ESTALE)
    }

    pub(crate) fn path(&self, inode: INodeNo) -> Result<PathBuf> {
        self.inodes().path(inode.0).ok_or(Errno::ESTALE)
    }

    pub(crate) fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf> {
        if Control::from_number(parent.0).is_some()
            || (parent.0 == ROOT && name == control::DIRECTORY_NAME)
        {
            return Err(Errno::EPERM);
        }
        Ok(self.path(parent)?.join(name))
    }

    /// The path that the rules see; a file without a name is seen as the root.
    pub(crate) fn path_for_rules(&self, inode: INodeNo) -> PathBuf {
        self.inodes().path(inode.0).unwrap_or_default()
    }

    /// Finds a name and counts the kernel's reference to what it is.
    pub(crate) fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let path = self.path(parent)?.join(name);
        let stat = self.source.stat(&path).map_err(errno)?;
        let number = self.inodes().refer(parent.0, name, identity(&stat));
        Ok(attributes(&stat, number))
    }

    /// Gives a file just made its mode, whatever our umask, and its maker as the owner.
    fn settle(&self, request: &Request, path: &Path, mode: Option<Mode>) -> Result<()> {
        let root = self.source.root();
        if self.is_root {
            let (user, group) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
            rustix::fs::chownat(root, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(errno)?;
        }
        match mode {
            Some(mode) => rustix::fs::chmodat(root, path, mode, AtFlags::empty()).map_err(errno),
            None => Ok(()),
        }
    }

    /// Makes something with `make`, settles it and finds it.
    pub(crate) fn make(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        mode: Option<Mode>,
        make: impl FnOnce(&Path) -> rustix::io::Result<()>,
    ) -> Result<FileAttr> {
        let path = self.child(parent, name)?;
        make(&path).map_err(errno)?;
        self.settle(request, &path, mode)?;
        self.find(parent, name)
    }

    pub(crate) fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Result<()> {
        let path = self.child(parent, name)?;
        let stat = self.source.stat(&path).map_err(errno)?;
        rustix::fs::unlinkat(self.source.root(), &path, flags).map_err(errno)?;
        self.inodes().unlinked(identity(&stat), parent.0, name);
        Ok(())
    }

    pub(crate) fn move_name(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = (self.child(parent, name)?, self.child(new_parent, new_name)?);
        let moved = self.source.stat(&from).map_err(errno)?;
        let replaced = self.source.stat(&to).ok();
        let root = self.source.root();
        let how = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        rustix::fs::renameat_with(root, &from, root, &to, how).map_err(errno)?;
        let mut inodes = self.inodes();
        let (old, new) = ((parent.0, name), (new_parent.0, new_name));
        if let Some(replaced) = replaced {
            if flags.contains(RenameFlags::RENAME_EXCHANGE) {
                inodes.renamed(identity(&replaced), new, old);
            } else {
                inodes.unlinked(identity(&replaced), new.0, new.1);
            }
        }
        inodes.renamed(identity(&moved), old, new);
        Ok(())
    }

    fn stat(&self, inode: INodeNo) -> Result<Statx> {
        let by_name = self.path(inode).and_then(|path| self.source.stat(&path).map_err(errno));
        by_name.or_else(|error| match &*self.open_file_of(inode.0).map_err(|_| error)? {
            Handle::File { fd, .. } => stat_open(fd).map_err(errno),
            _ => Err(error),
        })
    }

    pub(crate) fn attributes_of(&self, inode: INodeNo) -> Result<FileAttr> {
        if let Some(control) = Control::from_number(inode.0) {
            return Ok(control.attributes());
        }
        let stat = self.stat(inode)?;
        // The root has FUSE's number in requests, and its own for whoever asks for it.
        let number = if inode.0 == ROOT { stat.stx_ino } else { inode.0 };
        Ok(attributes(&stat, number))
    }

    pub(crate) fn time_to_live(&self, inode: u64) -> Duration {
        match Control::from_number(inode) {
            Some(_) => control::TIME_TO_LIVE,
            None => self.time_to_live,
        }
    }

    pub(crate) fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        if parent.0 == ROOT && name == control::DIRECTORY_NAME {
            return Ok(Control::Directory.attributes());
        }
        if Control::from_number(parent.0).is_some() {
            return Control::from_name(name).map(Control::attributes).ok_or(Errno::ENOENT);
        }
        self.find(parent, name)
    }

    pub(crate) fn open_file(
        &self,
        inode: INodeNo,
        flags: OpenFlags,
    ) -> Result<(FileHandle, FopenFlags)> {
        if let Some(control) = Control::from_number(inode.0) {
            let text = control.text(&self.engine).into_bytes();
            let handle = self.keep(Handle::Control { control, text });
            return Ok((handle, FopenFlags::FOPEN_DIRECT_IO));
        }
        let path = self.path(inode)?;
        let fd =
            self.source.open_at(&path, access(flags.acc_mode()), Mode::empty()).map_err(errno)?;
        Ok((self.keep(Handle::File { fd, number: inode.0, path }), self.open_flags))
    }

    pub(crate) fn create_file(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: i32,
    ) -> Result<(FileAttr, FileHandle)> {
        let path = self.child(parent, name)?;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let how = access(OpenFlags(flags).acc_mode()) | OFlags::CREATE | OFlags::EXCL;
        let fd = self.source.open_at(&path, how, mode).map_err(errno)?;
        self.settle(request, &path, Some(mode))?;
        let attributes = self.find(parent, name)?;
        let number = attributes.ino.0;
        Ok((attributes, self.keep(Handle::File { fd, number, path })))
    }

    pub(crate) fn open_directory(&self, inode: INodeNo) -> Result<FileHandle> {
        if Control::from_number(inode.0).is_some() {
            return Ok(self.keep(Handle::Control { control: Control::Directory, text: Vec::new() }));
        }
        let path = self.path(inode)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.source.open_at(&path, flags, Mode::empty()).map_err(errno)?;
        Ok(self.keep(Handle::Directory { fd: Mutex::new(fd), number: inode.0, path }))
    }

    pub(crate) fn list(
        &self,
        handle: &Handle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<()> {
        let Handle::Directory { fd, number, path } = handle else {
            list_control(offset, reply);
            return Ok(());
        };
        let fd = fd.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::fs::seek(&*fd, SeekFrom::Start(offset)).map_err(errno)?;
        let mut buffer = vec![MaybeUninit::uninit(); DIRECTORY_BUFFER_BYTES];
        let mut entries = RawDir::new(&*fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(errno)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if *number == ROOT && name == control::DIRECTORY_NAME {
                continue;
            }
            let kind = source::kind(entry.file_type()).or_else(|| {
                let stat = self.source.stat(&path.join(name)).ok()?;
                Some(attributes(&stat, entry.ino()).kind)
            });
            // It vanished since it was listed.
            let Some(kind) = kind else { continue };
            if reply.add(INodeNo(entry.ino()), entry.next_entry_cookie(), kind, name) {
                break;
            }
        }
        Ok(())
    }

    /// Calls `by_path` or `by_fd` on the inode, whichever way there is to it.
    pub(crate) fn change(
        &self,
        inode: INodeNo,
        handle: Option<FileHandle>,
        by_path: impl FnOnce(&Path) -> rustix::io::Result<()>,
        by_fd: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) -> Result<()> {
        let open = match (handle, self.path(inode)) {
            (Some(handle), _) => self.file(handle)?,
            (None, Ok(path)) => return by_path(here(&path)).map_err(errno),
            (None, Err(_)) => self.open_file_of(inode.0)?,
        };
        match &*open {
            Handle::File { fd, .. } => by_fd(fd).map_err(errno),
            _ => Err(Errno::EBADF),
        }
    }

    pub(crate) fn set_attributes(
        &self,
        inode: INodeNo,
        handle: Option<FileHandle>,
        set: &Set,
    ) -> Result<()> {
        let root = self.source.root();
        if let Some(size) = set.size {
            let truncate = |path: &Path| {
                let fd = self.source.open_at(path, OFlags::WRONLY, Mode::empty())?;
                rustix::fs::ftruncate(fd, size)
            };
            self.change(inode, handle, truncate, |fd| rustix::fs::ftruncate(fd, size))?;
        }
        if set.user.is_some() || set.group.is_some() {
            let (user, group) = (set.user.map(Uid::from_raw), set.group.map(Gid::from_raw));
            let nofollow = AtFlags::SYMLINK_NOFOLLOW;
            self.change(
                inode,
                handle,
                |path| rustix::fs::chownat(root, path, user, group, nofollow),
                |fd| rustix::fs::fchown(fd, user, group),
            )?;
        }
        if let Some(mode) = set.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            self.change(
                inode,
                handle,
                |path| rustix::fs::chmodat(root, path, mode, AtFlags::empty()),
                |fd| rustix::fs::fchmod(fd, mode),
            )?;
        }
        if let Some(times) = &set.times {
            self.change(
                inode,
                handle,
                |path| rustix::fs::utimensat(root, path, times, AtFlags::SYMLINK_NOFOLLOW),
                |fd| rustix::fs::futimens(fd, times),
            )?;
        }
        Ok(())
    }
}

/// What a setattr request sets.
pub(crate) struct Set {
    pub(crate) size: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) times: Option<Timestamps>,
}

pub(crate) fn timestamps(
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
) -> Option<Timestamps> {
    if accessed.is_none() && modified.is_none() {
        return None;
    }
    Some(Timestamps { last_access: timestamp(accessed), last_modification: timestamp(modified) })
}

fn timestamp(time: Option<TimeOrNow>) -> Timespec {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timespec { tv_sec: seconds(after), tv_nsec: after.subsec_nanos().into() },
            Err(before) => {
                let before = before.duration();
                let nanos = before.subsec_nanos();
                let borrow = i64::from(nanos > 0);
                Timespec {
                    tv_sec: -seconds(before) - borrow,
                    tv_nsec: i64::from(nanos > 0) * (1_000_000_000 - i64::from(nanos)),
                }
            }
        },
    }
}

/// How the source is opened: neither appending nor direct, since the kernel says where each write
/// goes and our buffers are not aligned.
fn access(mode: OpenAccMode) -> OFlags {
    match mode {
        OpenAccMode::O_RDONLY => OFlags::RDONLY,
        // A partial page is read before it is written.
        OpenAccMode::O_WRONLY | OpenAccMode::O_RDWR => OFlags::RDWR,
    }
}

fn list_control(offset: u64, reply: &mut ReplyDirectory) {
    let directory = (Control::Directory, ".");
    let entries = [directory, (Control::Directory, "..")].into_iter().chain(Control::files());
    for (next, (control, name)) in (1..).zip(entries) {
        if next > offset {
            let attributes = control.attributes();
            if reply.add(attributes.ino, next, attributes.kind, name) {
                break;
            }
        }
    }
}
