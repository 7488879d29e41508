//! fanotify: the kernel tells what is opened on a whole file system.
//!
//! A group tells the folder and name of what was opened, by a handle of the folder: nothing is opened
//! for it, and nothing that waits in its queue keeps a mount busy. Where the file system gives no
//! such handles (FUSE, overlayfs, btrfs subvolumes), or has the id of another (a copy or a snapshot
//! of ext4), it tells by a descriptor of the file.

#![expect(unsafe_code, reason = "fanotify and open_by_handle_at have no safe form")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::connector::{Pid, Taken};

/// How a group tells what was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// By the folder's handle and a name in it (Linux 5.9).
    Name,
    /// By a descriptor, which the kernel opens when the event is taken.
    Descriptor,
}

/// What is told of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// All that is opened.
    Opens,
    /// What is opened to be run: a program that has ended before anyone looked is known by it.
    Programs,
}

/// What happened to a file; several things may come as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Deeds(u64);

impl Deeds {
    #[cfg(test)]
    pub(crate) fn from_mask(mask: u64) -> Self {
        Self(mask)
    }

    /// Opened to be run.
    pub(crate) fn executed(self) -> bool {
        self.0 & libc::FAN_OPEN_EXEC != 0
    }

    /// Made, or closed by one who could write it.
    pub(crate) fn written(self) -> bool {
        self.0 & (libc::FAN_CREATE | libc::FAN_CLOSE_WRITE) != 0
    }
}

/// Which file system a handle belongs to, as `statfs` gives it.
pub(crate) type FileSystemId = [u8; 8];

/// A `struct file_handle`, whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Handle(Box<[u8]>);

/// Where the file is.
#[derive(Debug)]
pub(crate) enum Where {
    Named { file_system: FileSystemId, folder: Handle, name: Box<[u8]> },
    Open(OwnedFd),
}

/// One event.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) pid: Pid,
    pub(crate) deeds: Deeds,
    pub(crate) at: Where,
}

const OPENS: u64 = libc::FAN_OPEN | libc::FAN_OPEN_EXEC | libc::FAN_CLOSE_WRITE;
const BUFFER_BYTES: usize = 64 << 10;
/// Descriptors that one read brings: few, as the kernel drops an event for which there is none left.
const DESCRIPTORS_MAX: usize = 256;
/// `struct fanotify_event_metadata`.
const METADATA_BYTES: usize = 24;
/// `struct fanotify_event_info_header` and the file system's id.
const INFO_BYTES: usize = 12;
/// `struct file_handle` without the handle.
const HANDLE_BYTES: usize = 8;
const INFO_FOLDER_AND_NAME: u8 = 2;

/// The marked file systems of one process, and what happens on them.
#[derive(Debug)]
pub(crate) struct Group {
    queue: OwnedFd,
    telling: Telling,
    buffer: Vec<u8>,
}

impl Group {
    /// A group without marks. Its queue is bounded by `/proc/sys/fs/fanotify/max_queued_events`.
    ///
    /// # Errors
    /// The system's: `EPERM` without `CAP_SYS_ADMIN`, `EINVAL` before Linux 5.9.
    pub(crate) fn new(telling: Telling) -> io::Result<Self> {
        let reports = match telling {
            Telling::Name => libc::FAN_REPORT_DFID_NAME,
            Telling::Descriptor => 0,
        };
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | reports;
        // What another program holds a lease on would be waited for otherwise, 45 s by default.
        let opened = libc::O_RDONLY
            | libc::O_CLOEXEC
            | libc::O_LARGEFILE
            | libc::O_NOATIME
            | libc::O_NONBLOCK;
        // SAFETY: takes two numbers, and returns a descriptor that is nobody else's.
        let queue = unsafe { libc::fanotify_init(flags, opened.cast_unsigned()) };
        if queue < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and owned from here on.
        let queue = unsafe { OwnedFd::from_raw_fd(queue) };
        let buffer_bytes = match telling {
            Telling::Name => BUFFER_BYTES,
            Telling::Descriptor => DESCRIPTORS_MAX * METADATA_BYTES,
        };
        Ok(Self { queue, telling, buffer: vec![0; buffer_bytes] })
    }

    /// Listens to the file system that `path` lies on, until it is unmounted; what was asked for before
    /// is told, too.
    ///
    /// # Errors
    /// The system's: `ENODEV`, `EXDEV` or `EOPNOTSUPP` where it cannot tell by [`Telling::Name`].
    pub(crate) fn mark(&self, path: &Path, what: What) -> io::Result<()> {
        self.change_mark(libc::FAN_MARK_ADD, path, what)
    }

    /// Listens to the file system that `path` lies on no more, if it did.
    pub(crate) fn unmark(&self, path: &Path) {
        drop(self.change_mark(libc::FAN_MARK_REMOVE, path, What::Opens));
    }

    fn change_mark(&self, change: u32, path: &Path, what: What) -> io::Result<()> {
        let mask = match (what, self.telling) {
            (What::Programs, _) => libc::FAN_OPEN_EXEC,
            (What::Opens, Telling::Descriptor) => OPENS,
            (What::Opens, Telling::Name) => OPENS | libc::FAN_CREATE,
        };
        let path = CString::new(path.as_os_str().as_bytes())?;
        let flags = change | libc::FAN_MARK_FILESYSTEM;
        let queue = self.queue.as_raw_fd();
        // SAFETY: the path ends with NUL and lives across the call.
        let done =
            unsafe { libc::fanotify_mark(queue, flags, mask, libc::AT_FDCWD, path.as_ptr()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Listens to nothing any more; what happened before is still told.
    pub(crate) fn unmark_all(&self) {
        let flags = libc::FAN_MARK_FLUSH | libc::FAN_MARK_FILESYSTEM;
        let (queue, path) = (self.queue.as_raw_fd(), std::ptr::null());
        // SAFETY: of a flush neither mask nor path is looked at. It fails for none of our descriptors.
        unsafe { libc::fanotify_mark(queue, flags, 0, libc::AT_FDCWD, path) };
    }

    /// Takes what happened: what one read brings. The records are in order.
    ///
    /// Of a group that tells by descriptors, taking opens the files: on a mount that does not answer
    /// it may never return; and the records are to be let go before more are taken.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn take(&mut self, records: &mut Vec<Record>) -> io::Result<Taken> {
        let length = match rustix::io::read(&self.queue, &mut self.buffer[..]) {
            Ok(length) => length,
            // Nothing is left; or an event was of a file that would be waited for, and is gone.
            Err(Errno::AGAIN) => {
                let mut queue = [PollFd::new(&self.queue, PollFlags::IN)];
                let is_left = super::is_ready(&mut queue, Duration::ZERO)?;
                return Ok(Taken { lost: false, emptied: !is_left });
            }
            Err(Errno::INTR) => return Ok(Taken::default()),
            Err(Errno::MFILE | Errno::NFILE) if self.telling == Telling::Descriptor => {
                return Ok(Taken { lost: true, emptied: false });
            }
            // The file of the first event is gone, or its server is; the event is gone with it.
            Err(_) if self.telling == Telling::Descriptor => return Ok(Taken::default()),
            Err(error) => return Err(error.into()),
        };
        // Of the event that there was no descriptor for, a read that brought others says nothing.
        let mut lost = self.telling == Telling::Descriptor && self.queue.try_clone().is_err();
        let mut rest = &self.buffer[..length];
        while let Some((event, after)) = split_event(rest) {
            match record(event) {
                Some(record) => records.push(record),
                None => lost |= is_overflow(event),
            }
            rest = after;
        }
        Ok(Taken { lost, emptied: false })
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

/// Opens the folder of a handle, without any access to it (`O_PATH`). `mount` is on its file system.
///
/// # Errors
/// `ESTALE` if it is gone; the system's.
pub(crate) fn open_folder(mount: BorrowedFd<'_>, folder: &Handle) -> io::Result<OwnedFd> {
    // The kernel reads two words first, so the bytes must begin where a word may.
    let mut words = vec![0_u64; folder.0.len().div_ceil(8)];
    let bytes = words.iter_mut().zip(folder.0.chunks(8));
    for (word, chunk) in bytes {
        let mut eight = [0; 8];
        eight[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(eight);
    }
    let flags = libc::O_PATH | libc::O_CLOEXEC | libc::O_DIRECTORY;
    let handle = words.as_mut_ptr().cast::<libc::file_handle>();
    // SAFETY: `words` holds a whole `file_handle`: its length was checked when it was taken.
    let opened = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), handle, flags) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned from here on.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn split_event(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_ne_bytes(number(bytes, 0)?) as usize;
    (METADATA_BYTES..=bytes.len()).contains(&length).then(|| bytes.split_at(length))
}

fn mask(event: &[u8]) -> u64 {
    number(event, 8).map_or(0, u64::from_ne_bytes)
}

fn is_overflow(event: &[u8]) -> bool {
    mask(event) & libc::FAN_Q_OVERFLOW != 0
}

fn record(event: &[u8]) -> Option<Record> {
    let descriptor = i32::from_ne_bytes(number(event, 16)?);
    // SAFETY: the kernel made this descriptor for this event, which is looked at once.
    let open = (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) });
    let pid = i32::from_ne_bytes(number(event, 20)?);
    let deeds = Deeds(mask(event));
    let at = match open {
        Some(open) => Where::Open(open),
        None => named(&event[METADATA_BYTES..])?,
    };
    Some(Record { pid, deeds, at })
}

/// The first folder and name among the information records of an event.
fn named(mut infos: &[u8]) -> Option<Where> {
    loop {
        let kind = *infos.first()?;
        let length = usize::from(u16::from_ne_bytes(number(infos, 2)?));
        let info = infos.get(..length).filter(|info| info.len() >= INFO_BYTES + HANDLE_BYTES)?;
        if kind != INFO_FOLDER_AND_NAME {
            infos = &infos[length..];
            continue;
        }
        let file_system = number(info, 4)?;
        let bytes = u32::from_ne_bytes(number(info, INFO_BYTES)?) as usize;
        let end = INFO_BYTES + HANDLE_BYTES + bytes;
        let folder = Handle(info.get(INFO_BYTES..end)?.into());
        let name = info[end..].split(|&byte| byte == 0).next().unwrap_or_default();
        // A file without a folder, such as one that never had a name, is called so.
        let has_name = !matches!(name, b"" | b"." | b"..");
        return has_name.then(|| Where::Named { file_system, folder, name: name.into() });
    }
}

/// Which file system a path lies on, as fanotify calls it.
pub(crate) fn file_system_id(path: &Path) -> io::Result<FileSystemId> {
    let id = rustix::fs::statvfs(path)?.f_fsid;
    let mut bytes = [0; 8];
    // Two words, the first of them in the lower half.
    let words = [id & 0xFFFF_FFFF, id >> 32].map(|half| u32::try_from(half).expect("a half"));
    bytes[..4].copy_from_slice(&words[0].to_ne_bytes());
    bytes[4..].copy_from_slice(&words[1].to_ne_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use testkit::{Facility, Tmpfs, skip_unless};

    use super::*;
    use crate::descriptors::tests::are_at_most;

    /// `F_SETSIG`.
    const SET_SIGNAL: libc::c_int = 10;

    fn event(mask: u64, pid: i32, infos: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(METADATA_BYTES + infos.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend([3, 0, 24, 0]);
        bytes.extend(mask.to_ne_bytes());
        bytes.extend((-1_i32).to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        bytes.extend(infos);
        bytes
    }

    fn info(kind: u8, handle: &[u8], name: &[u8]) -> Vec<u8> {
        let length = INFO_BYTES + HANDLE_BYTES + handle.len() + name.len();
        let mut bytes = vec![kind, 0];
        bytes.extend(u16::try_from(length).unwrap().to_ne_bytes());
        bytes.extend([7; 8]);
        bytes.extend(u32::try_from(handle.len()).unwrap().to_ne_bytes());
        bytes.extend(1_i32.to_ne_bytes());
        bytes.extend(handle);
        bytes.extend(name);
        bytes
    }

    #[test]
    fn a_name_of_any_bytes_is_found_behind_other_records() {
        let infos = [info(1, b"12345678", b""), info(2, b"abcdefgh", b"\xff a\n\0\0\0")].concat();
        let record = record(&event(libc::FAN_OPEN, 42, &infos)).expect("it tells a name");
        assert_eq!(record.deeds, Deeds(libc::FAN_OPEN));
        let Where::Named { file_system, folder, name } = record.at else { panic!("{record:?}") };
        assert_eq!((record.pid, file_system, &*name), (42, [7; 8], &b"\xff a\n"[..]));
        assert!(folder.0.ends_with(b"abcdefgh"));
    }

    #[test]
    fn what_is_cut_is_no_record() {
        let whole = event(libc::FAN_OPEN, 42, &info(2, b"abcdefgh", b"a\0"));
        let (one, rest) = split_event(&whole).expect("whole");
        assert_eq!((one.len(), rest.len()), (whole.len(), 0));
        for length in 0..whole.len() {
            assert!(split_event(&whole[..length]).is_none(), "{length} bytes");
        }
        for length in METADATA_BYTES..whole.len() - 2 {
            assert!(record(&whole[..length]).is_none(), "{length} bytes");
        }
    }

    #[test]
    fn opens_that_there_are_no_descriptors_for_are_told_as_lost() {
        skip_unless!(Facility::Root);
        let test =
            "system::fanotify::tests::opens_that_there_are_no_descriptors_for_are_told_as_lost";
        if !are_at_most(64, test) {
            return;
        }
        let tmpfs = Tmpfs::new(1 << 20);
        let mut group = Group::new(Telling::Descriptor).expect("the machine allows it");
        group.mark(tmpfs.path(), What::Opens).expect("the machine allows it");
        for number in 0..100 {
            std::fs::write(tmpfs.path().join(number.to_string()), "x").expect("ours");
        }
        let mut records = Vec::new();
        let taken = group.take(&mut records).expect("the queue can be read");
        assert!(taken.lost && (1..64).contains(&records.len()), "{}", records.len());
        let taken = group.take(&mut records).expect("the queue can be read");
        assert!(taken.lost, "no descriptor was left");
    }

    #[test]
    fn what_is_behind_a_file_that_would_be_waited_for_is_left_in_the_queue() {
        skip_unless!(Facility::Root);
        let tmpfs = Tmpfs::new(1 << 20);
        let mut group = Group::new(Telling::Descriptor).expect("the machine allows it");
        group.mark(tmpfs.path(), What::Opens).expect("the machine allows it");
        let leased = std::fs::File::create(tmpfs.path().join("leased")).expect("ours");
        // SAFETY: takes numbers only. Who holds a lease is told by a signal, here by one that ends nobody.
        unsafe {
            assert_eq!(libc::fcntl(leased.as_raw_fd(), SET_SIGNAL, libc::SIGURG), 0);
            assert_eq!(libc::fcntl(leased.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK), 0);
        }
        std::fs::write(tmpfs.path().join("a"), "x").expect("ours");
        let mut records = Vec::new();
        let first = group.take(&mut records).expect("the queue can be read");
        assert!(!first.emptied && records.is_empty(), "{records:?}");
        while !group.take(&mut records).expect("the queue can be read").emptied {}
        assert!(!records.is_empty());
    }

    #[test]
    fn an_overflow_is_told_from_a_file_without_a_name() {
        assert!(is_overflow(&event(libc::FAN_Q_OVERFLOW, 0, &[])));
        let nameless = event(libc::FAN_OPEN, 1, &info(2, b"abcdefgh", b".\0"));
        assert!(record(&nameless).is_none() && !is_overflow(&nameless));
    }
}
