//! System calls that no crate wraps: `cachestat`, `mincore` on a window, `FIEMAP`, a `clone` that
//! asks for a file's attributes.

#![expect(unsafe_code, reason = "system calls and a mapping that is never read through")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{self as sysfs, AtFlags, StatxFlags};
use rustix::io::Errno;

use crate::Clock;

/// The page size, in bytes.
pub(crate) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Keeps signals from the calling thread, one of the library's own: they are its program's, which may wait
/// for them, and a peer that is gone must not end it by SIGPIPE. Not kept are those of faults, what samples
/// the time of all threads, and what tells of children.
pub fn leave_signals_to_others() {
    let taken = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGSYS,
        libc::SIGPROF,
        libc::SIGCHLD,
    ];
    // SAFETY: an all-zero set is a value that `sigfillset` overwrites, and lives across the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        for signal in taken {
            libc::sigdelset(&raw mut set, signal);
        }
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        let kept = *KEPT.get_or_init(|| before);
        for signal in 1..=libc::SIGRTMAX() {
            if libc::sigismember(&raw const kept, signal) == 1 {
                libc::sigdelset(&raw mut set, signal);
            }
        }
        LEFT.set(set);
    }
}

/// Signals that whoever began the first of the library's threads had kept from itself; one that was begun
/// by another of them has all of theirs.
static KEPT: OnceLock<libc::sigset_t> = OnceLock::new();

thread_local! {
    /// Signals that this thread left to others, and would have had otherwise.
    // SAFETY: a set without a signal is all zero, as `sigemptyset` makes it.
    static LEFT: Cell<libc::sigset_t> = const { Cell::new(unsafe { std::mem::zeroed() }) };
}

/// Runs `call`, which starts a program, with all signals let through that the calling thread left to others:
/// a program keeps the mask of the thread that starts it, and is to have that of the library's user.
pub(crate) fn starting_programs<T>(call: impl FnOnce() -> T) -> T {
    taking(&LEFT.get(), call)
}

/// As [`starting_programs`], of what may start a program beside other work: only the signals that end one
/// are let through.
#[cfg(feature = "object")]
pub(crate) fn taking_ends<T>(call: impl FnOnce() -> T) -> T {
    let left = LEFT.get();
    // SAFETY: an all-zero set is a value that `sigemptyset` overwrites; both live across the calls.
    let ends = unsafe {
        let mut ends: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut ends);
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            if libc::sigismember(&raw const left, signal) == 1 {
                libc::sigaddset(&raw mut ends, signal);
            }
        }
        ends
    };
    taking(&ends, call)
}

/// Runs `call` with these signals let through to the calling thread.
fn taking<T>(signals: &libc::sigset_t, call: impl FnOnce() -> T) -> T {
    struct Mask(libc::sigset_t);
    impl Drop for Mask {
        fn drop(&mut self) {
            // SAFETY: the set is what the system filled in, and lives across the call.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
        }
    }
    // SAFETY: an all-zero set is a value that the system overwrites; both live across the call.
    let before = unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_UNBLOCK, signals, &raw mut before);
        Mask(before)
    };
    let result = call();
    drop(before);
    result
}

/// Bytes mapped at a time for `mincore`: bounds the vector to 256 KiB.
pub(crate) const MINCORE_WINDOW_BYTES: u64 = 1 << 30;

/// `cachestat(2)`, Linux 6.5; the same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of `range` that are in the page cache.
///
/// # Errors
/// As of [`cachestat`].
pub(crate) fn cached_pages(file: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<u64> {
    cachestat(file, range).map(|answer| answer.cached)
}

/// Pages of `range` that were in the page cache until others needed the room.
///
/// # Errors
/// As of [`cachestat`].
pub(crate) fn evicted_pages(file: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<u64> {
    cachestat(file, range).map(|answer| answer.evicted)
}

/// # Errors
/// `EPERM` if the caller neither owns the file nor may write it, `ENOSYS`
/// before Linux 6.5, `EOPNOTSUPP` on hugetlbfs.
fn cachestat(file: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<Cachestat> {
    let range = CachestatRange { offset: range.start, length: range.end - range.start };
    let mut answer = Cachestat::default();
    // SAFETY: the kernel reads one `CachestatRange` and writes one
    // `Cachestat`, both of which live across the call and have its layout.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut answer, 0)
    };
    if result == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

/// Room for the frames of [`look`], and for a debugger's.
const LOOK_STACK_BYTES: usize = 64 << 10;

/// What comes sooner may come from what the kernel remembers. Asking again takes no longer, then.
const REMEMBERED_WITHIN: Duration = Duration::from_millis(1);

/// Has a process of its own look at `path`, an absolute one, and not at what the kernel remembers
/// of it, and waits for that; any answer will do, also that there is no such file.
///
/// The process shares the memory of this one, so that it begins in a tenth of a millisecond, and
/// nothing else. Where it hangs it hangs alone, and only keeps that memory from being given back:
/// the calling thread waits for it in a way that does not keep a process from ending. That thread is
/// to be of no other use, as it takes no signals any more.
///
/// # Errors
/// The system's, where no process can be begun.
pub(crate) fn look_apart(path: CString, clock: Clock) -> io::Result<()> {
    let mut stack: Vec<u8> = Vec::with_capacity(LOOK_STACK_BYTES);
    let mut looked_at = Look { path: path.into_bytes_with_nul(), clock };
    let mut all = MaybeUninit::uninit();
    // SAFETY: The stack and what is looked at live until the child has ended: this thread goes on
    // only then (`CLONE_VFORK`), and it is the only one that uses them. The child runs no handler on
    // memory of ours, since all signals are blocked where it begins. The end of the stack is aligned
    // to 16.
    let child = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
        let end = stack.as_mut_ptr().add(LOOK_STACK_BYTES);
        let end = end.sub(end.addr() % 16);
        libc::clone(look, end.cast(), LOOK_FLAGS, (&raw mut looked_at).cast())
    };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a call without memory, for a child that nobody else waits for: it sends no signal.
    unsafe { libc::waitpid(child, ptr::null_mut(), libc::__WCLONE) };
    Ok(())
}

/// What a process that looks shares; without a signal when it ends, no other `wait` meets it. The
/// descriptors, at first: each that a copy closes would be flushed, on whatever mount it is.
const LOOK_FLAGS: c_int = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_VFORK;

/// What the process of [`look_apart`] does.
extern "C" fn look(looked_at: *mut c_void) -> c_int {
    // SAFETY: system calls alone; `looked_at` is the caller's, who waits.
    let looked_at = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // Who waits for the end of what the caller writes is not to wait for what hangs.
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE);
        &mut *looked_at.cast::<Look>()
    };
    let begun = looked_at.clock.now();
    // A name that has to be looked up is asked for by this already, which is a round trip.
    let _ = looked_at.ask(AtFlags::empty());
    if looked_at.clock.now().saturating_sub(begun) < REMEMBERED_WITHIN {
        // That there is no such file, or no way to it, is remembered in spite of the flag; of the
        // root of a mount it is not.
        let is_nowhere = [Errno::NOENT, Errno::NOTDIR, Errno::NAMETOOLONG, Errno::ACCESS];
        while looked_at.ask(AtFlags::STATX_FORCE_SYNC).is_err_and(|why| is_nowhere.contains(&why))
            && looked_at.climb()
        {}
    }
    0
}

/// What a process looks at, without a call that could allocate or panic.
struct Look {
    /// It ends with the first NUL.
    path: Vec<u8>,
    clock: Clock,
}

impl Look {
    fn ask(&self, sync: AtFlags) -> rustix::io::Result<()> {
        let path = CStr::from_bytes_until_nul(&self.path).unwrap_or_default();
        sysfs::statx(sysfs::CWD, path, sync, StatxFlags::SIZE).map(drop)
    }

    /// Goes to the folder above; whether there is one.
    fn climb(&mut self) -> bool {
        let slash = self.path.iter().rposition(|byte| *byte == b'/').filter(|at| *at > 0);
        let end = slash.and_then(|at| self.path.get_mut(at));
        end.is_some_and(|end| {
            *end = 0;
            true
        })
    }
}

/// A mapping that is asked about and never read through.
pub(crate) struct Window {
    start: *mut libc::c_void,
    bytes: usize,
    range: Range<u64>,
}

impl Window {
    /// Maps `range` of `file`, which starts on a page; at most [`MINCORE_WINDOW_BYTES`] of it.
    ///
    /// # Errors
    /// `ENODEV` where files cannot be mapped, such as FUSE with direct I/O.
    pub(crate) fn map(file: BorrowedFd<'_>, range: &Range<u64>) -> io::Result<Self> {
        let end = range.end.min(range.start + MINCORE_WINDOW_BYTES);
        let bytes = usize::try_from(end - range.start).expect("a window is at most 1 GiB");
        let offset = libc::off_t::try_from(range.start)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing is read through it.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start, bytes, range: range.start..end })
    }

    /// The bytes it covers.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Whether each page of `range`, which is within the window and starts on a page, is in memory.
    ///
    /// # Errors
    /// What `mincore` gives; `ENOMEM` if the mapping is gone.
    pub(crate) fn resident(&self, range: &Range<u64>, pages: &mut Vec<u8>) -> io::Result<()> {
        assert!(range.start >= self.range.start && range.end <= self.range.end);
        let skip = usize::try_from(range.start - self.range.start).expect("within the window");
        let bytes = usize::try_from(range.end - range.start).expect("within the window");
        let page = usize::try_from(page_bytes()).expect("a page is small");
        pages.clear();
        pages.resize(bytes.div_ceil(page), 0);
        // SAFETY: `start + skip` for `bytes` lies within the mapping, and the
        // kernel writes one byte per page, for which `pages` has room.
        let result = unsafe { libc::mincore(self.start.byte_add(skip), bytes, pages.as_mut_ptr()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, is unmapped once, and no reference into it exists.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Extents asked for at a time.
const FIEMAP_EXTENTS: usize = 128;
/// `FS_IOC_FIEMAP`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
const FIEMAP_EXTENT_LAST: u32 = 1;
/// The address is not known, not assigned yet, or not that of a block of its own.
const FIEMAP_EXTENT_NO_ADDRESS: u32 = 0x2 | 0x4 | 0x200 | 0x400;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; FIEMAP_EXTENTS],
}

impl Fiemap {
    fn of_range(range: &Range<u64>, extents_max: usize) -> Self {
        Self {
            start: range.start,
            length: range.end - range.start,
            flags: 0,
            mapped_extents: 0,
            extent_count: u32::try_from(extents_max.min(FIEMAP_EXTENTS)).expect("128"),
            reserved: 0,
            extents: [FiemapExtent::default(); FIEMAP_EXTENTS],
        }
    }

    /// Asks for the extents of the range.
    fn ask(&mut self, file: BorrowedFd<'_>) -> io::Result<&[FiemapExtent]> {
        // SAFETY: the kernel writes the header and at most `extent_count`
        // extents, for which `self` has room.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, ptr::from_mut(self)) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(&self.extents[..(self.mapped_extents as usize).min(FIEMAP_EXTENTS)])
    }
}

/// The ranges of the first `size` bytes that hold written data, in file order;
/// the rest are holes and preallocated space, which read as zeros.
///
/// # Errors
/// `EOPNOTSUPP` where the file system does not say.
pub(crate) fn data_ranges(file: &impl AsFd, size: u64) -> io::Result<Vec<Range<u64>>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut map = Fiemap::of_range(&(0..size), FIEMAP_EXTENTS);
    loop {
        let asked_from = map.start;
        let mut next = None;
        for extent in map.ask(file.as_fd())? {
            let end = extent.logical.saturating_add(extent.length);
            next = (extent.flags & FIEMAP_EXTENT_LAST == 0).then_some(end);
            let range = extent.logical.min(size)..end.min(size);
            if extent.flags & FIEMAP_EXTENT_UNWRITTEN != 0 || range.is_empty() {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end >= range.start => last.end = range.end.max(last.end),
                _ => ranges.push(range),
            }
        }
        match next {
            Some(end) if end < size && end > asked_from => {
                map.start = end;
                map.length = size - end;
            }
            _ => return Ok(ranges),
        }
    }
}

/// Where on its device the first extent of a file that has a place begins, in
/// bytes; `None` if no extent has one yet.
///
/// # Errors
/// `EOPNOTSUPP` where the file system does not say.
pub(crate) fn first_block(file: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    let mut map = Fiemap::of_range(&(0..u64::MAX), 1);
    let first = map.ask(file)?.first();
    let placed = first.filter(|extent| extent.flags & FIEMAP_EXTENT_NO_ADDRESS == 0);
    Ok(placed.map(|extent| extent.physical))
}

/// Whether this process has `CAP_FOWNER`: then it may ask about any file.
pub(crate) fn may_ask_about_any_file() -> bool {
    const CAP_FOWNER: u32 = 3;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_FOWNER & 1 == 1)
}
