//! The file system as FUSE asks for it: each request is converted, carried out, and its answer left
//! to the engine to give at its time.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, FallocateFlags, Mode, SeekFrom, XattrFlags};

use crate::control::{self, Control};
use crate::device::Verdict;
use crate::filesystem::{Handle, Result, Set, SlowFs, errno, timestamps};
use crate::inodes::ROOT;
use crate::source;
use crate::stats::Read;

/// Requests the kernel may have on their way without a reader that waits: readahead. More than its
/// usual 12, so that a device with `parallel` servers can be kept busy.
const BACKGROUND_MAX: u16 = 64;

/// The largest read or write the kernel sends: its own limit of 256 pages.
const REQUEST_BYTES_MAX: u32 = 1024 * 1024;

const GENERATION: Generation = Generation(0);

fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl fuser::Filesystem for SlowFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Each setting that the kernel limits comes back as the nearest it accepts.
        if let Err(nearest) = config.set_max_write(REQUEST_BYTES_MAX) {
            config.set_max_write(nearest).ok();
        }
        config.set_max_background(BACKGROUND_MAX).ok();
        if let Some(bytes) = self.readahead_bytes_max
            && let Err(nearest) = config.set_max_readahead(bytes)
        {
            config.set_max_readahead(nearest).ok();
        }
        // A loop device with direct I/O sends its requests without waiting for each.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_PARALLEL_DIROPS).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.look_up(parent, name);
        if parent.0 == ROOT && name == control::DIRECTORY_NAME
            || Control::from_number(parent.0).is_some()
        {
            return answer_entry(found, control::TIME_TO_LIVE, reply);
        }
        let path = self.path_for_rules(parent).join(name);
        let found = if self.engine.is_late(&path) { Err(Errno::ETIMEDOUT) } else { found };
        let absence = Some(self.absence_time_to_live).filter(|time| !time.is_zero());
        let (found, time_to_live) = match (found, absence) {
            (Err(Errno::ENOENT), Some(time)) => (Ok(source::absent()), time),
            (found, _) => (found, self.time_to_live),
        };
        self.engine.answer_metadata(&path, move || answer_entry(found, time_to_live, reply));
    }

    fn forget(&self, _: &Request, inode: INodeNo, lookups: u64) {
        self.inodes().forget(inode.0, lookups);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let attributes = self.attributes_of(inode);
        let time_to_live = self.time_to_live(inode.0);
        let answer = move || match attributes {
            Ok(attributes) => reply.attr(&time_to_live, &attributes),
            Err(error) => reply.error(error),
        };
        if Control::from_number(inode.0).is_some() {
            return answer();
        }
        self.engine.answer_metadata(&self.path_for_rules(inode), answer);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let result = if Control::from_number(inode.0).is_some() {
            // The shell truncates a control file before it writes.
            Ok(())
        } else {
            let times = timestamps(accessed, modified);
            self.set_attributes(inode, handle, &Set { size, mode, user, group, times })
        };
        match result.and_then(|()| self.attributes_of(inode)) {
            Ok(attributes) => reply.attr(&self.time_to_live(inode.0), &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let target = self.path(inode).and_then(|path| {
            rustix::fs::readlinkat(self.source.root(), &path, Vec::new()).map_err(errno)
        });
        self.engine.answer_metadata(&self.path_for_rules(inode), move || match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let kind = rustix::fs::FileType::from_raw_mode(mode);
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let made = self.make(request, (parent, name), Some(mode), |path| {
            rustix::fs::mknodat(self.source.root(), path, kind, mode, device.into())
        });
        answer_entry(made, self.time_to_live, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let made = self.make(request, (parent, name), Some(mode), |path| {
            rustix::fs::mkdirat(self.source.root(), path, mode)
        });
        answer_entry(made, self.time_to_live, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.remove(parent, name, AtFlags::empty()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.remove(parent, name, AtFlags::REMOVEDIR), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = self.make(request, (parent, name), None, |path| {
            rustix::fs::symlinkat(target, self.source.root(), path)
        });
        answer_entry(made, self.time_to_live, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        done(self.move_name((parent, name), (new_parent, new_name), flags), reply);
    }

    fn link(
        &self,
        _: &Request,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let made = self.path(inode).and_then(|from| {
            let to = self.child(new_parent, new_name)?;
            let root = self.source.root();
            rustix::fs::linkat(root, &from, root, &to, AtFlags::empty()).map_err(errno)?;
            self.find(new_parent, new_name)
        });
        answer_entry(made, self.time_to_live, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.open_file(inode, flags);
        let answer = move || match opened {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(error) => reply.error(error),
        };
        if Control::from_number(inode.0).is_some() {
            return answer();
        }
        self.engine.answer_open(inode.0, &self.path_for_rules(inode), answer);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_file(request, (parent, name), mode, flags) {
            Ok((attributes, handle)) => {
                let open_flags = self.open_flags;
                reply.created(&self.time_to_live, &attributes, GENERATION, handle, open_flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let handle = match self.handle(handle) {
            Ok(handle) => handle,
            Err(error) => return reply.error(error),
        };
        match &*handle {
            Handle::Control { text, .. } => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
                let end = start.saturating_add(size as usize).min(text.len());
                reply.data(&text[start..end]);
            }
            Handle::Directory { .. } => reply.error(Errno::EISDIR),
            Handle::File { fd, number, path } => {
                let bytes = source::read_at(fd, offset, size as usize).map_err(errno);
                let available = bytes.as_ref().ok().map(|bytes| bytes.len() as u64);
                let asked = Read { path: path.clone(), offset, length: size.into() };
                let (when, answer) = self.engine.read(*number, asked, available);
                let (engine, path) = (Arc::clone(&self.engine), path.clone());
                self.engine.later.at(when, move || {
                    match (bytes, answer.verdict) {
                        (Ok(bytes), Verdict::Whole) => reply.data(&bytes),
                        (Ok(bytes), Verdict::Short) => reply.data(&bytes[..bytes.len() / 2]),
                        (Ok(_), Verdict::Fail) => reply.error(Errno::EIO),
                        (Err(error), _) => reply.error(error),
                    }
                    engine.answered(&path);
                });
            }
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let handle = match self.handle(handle) {
            Ok(handle) => handle,
            Err(error) => return reply.error(error),
        };
        let count = u32::try_from(data.len()).expect("FUSE sends at most 16 MiB at once");
        match &*handle {
            Handle::Control { control, .. } if control.write(&self.engine, data) => {
                reply.written(count);
            }
            Handle::Control { .. } => reply.error(Errno::EINVAL),
            Handle::Directory { .. } => reply.error(Errno::EISDIR),
            Handle::File { fd, number, path } => {
                if let Err(error) = source::write_at(fd, offset, data) {
                    return reply.error(errno(error));
                }
                let when = self.engine.write(*number, path, offset, count.into());
                self.engine.later.at(when, move || reply.written(count));
            }
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        match self.handle(handle).as_deref() {
            Ok(Handle::File { path, .. }) => self.engine.answer_close(path, move || reply.ok()),
            _ => reply.ok(),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.handles().remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let result = self.handle(handle).and_then(|handle| match &*handle {
            Handle::File { fd, .. } => rustix::fs::fsync(fd).map_err(errno),
            _ => Ok(()),
        });
        done(result, reply);
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.open_directory(inode);
        let answer = move || match opened {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        };
        if Control::from_number(inode.0).is_some() {
            return answer();
        }
        self.engine.answer_metadata(&self.path_for_rules(inode), answer);
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.handle(handle).and_then(|handle| self.list(&handle, offset, &mut reply));
        let answer = move || match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        };
        if Control::from_number(inode.0).is_some() {
            return answer();
        }
        self.engine.answer_metadata(&self.path_for_rules(inode), answer);
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.handles().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let result = self.handle(handle).and_then(|handle| match &*handle {
            Handle::Directory { fd, .. } => {
                let fd = fd.lock().unwrap_or_else(PoisonError::into_inner);
                rustix::fs::fsync(&*fd).map_err(errno)
            }
            _ => Ok(()),
        });
        done(result, reply);
    }

    fn statfs(&self, _: &Request, inode: INodeNo, reply: ReplyStatfs) {
        let status = rustix::fs::fstatvfs(self.source.root());
        self.engine.answer_metadata(&self.path_for_rules(inode), move || match status {
            Ok(s) => {
                let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                reply.statfs(
                    s.f_blocks,
                    s.f_bfree,
                    s.f_bavail,
                    s.f_files,
                    s.f_ffree,
                    small(s.f_bsize),
                    small(s.f_namemax),
                    small(s.f_frsize),
                );
            }
            Err(error) => reply.error(errno(error)),
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        let result = self.path(inode).and_then(|path| {
            rustix::fs::lsetxattr(self.source.absolute(&path), name, value, flags).map_err(errno)
        });
        done(result, reply);
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.path(inode).and_then(|path| {
            let path = self.source.absolute(&path);
            all_bytes(
                || rustix::fs::lgetxattr_query(&path, name),
                |buffer| rustix::fs::lgetxattr(&path, name, buffer),
            )
        });
        answer_xattr(value, size, reply);
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.path(inode).and_then(|path| {
            let path = self.source.absolute(&path);
            all_bytes(
                || rustix::fs::llistxattr_query(&path),
                |buffer| rustix::fs::llistxattr(&path, buffer),
            )
        });
        answer_xattr(names, size, reply);
    }

    fn removexattr(&self, _: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let result = self.path(inode).and_then(|path| {
            rustix::fs::lremovexattr(self.source.absolute(&path), name).map_err(errno)
        });
        done(result, reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let by_fd = |fd: &OwnedFd| rustix::fs::fallocate(fd, mode, offset, length);
        done(self.change(inode, Some(handle), |_| Ok(()), by_fd), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        /// The kernel asks only for these two.
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let found = self.file(handle).and_then(|handle| {
            let Handle::File { fd, .. } = &*handle else { return Err(Errno::EBADF) };
            let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
            let seek = match whence {
                SEEK_DATA => SeekFrom::Data(from),
                SEEK_HOLE => SeekFrom::Hole(from),
                _ => return Err(Errno::EINVAL),
            };
            rustix::fs::seek(fd, seek).map_err(errno)
        });
        match found {
            Ok(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
            Err(error) => reply.error(error),
        }
    }
}

fn answer_entry(found: Result<FileAttr>, time_to_live: Duration, reply: ReplyEntry) {
    match found {
        Ok(attributes) => reply.entry(&time_to_live, &attributes, GENERATION),
        Err(error) => reply.error(error),
    }
}

/// Asks for the size, then for the bytes.
fn all_bytes(
    size: impl FnOnce() -> rustix::io::Result<usize>,
    fill: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>,
) -> Result<Vec<u8>> {
    let mut bytes = vec![0; size().map_err(errno)?];
    // An empty buffer would ask for the size again.
    if !bytes.is_empty() {
        let filled = fill(&mut bytes).map_err(errno)?;
        bytes.truncate(filled);
    }
    Ok(bytes)
}

fn answer_xattr(bytes: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match bytes {
        Err(error) => reply.error(error),
        Ok(bytes) if size == 0 => reply.size(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
    }
}
