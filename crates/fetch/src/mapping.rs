//! A mapped file that may be truncated under its reader.
//!
//! A load from a mapped page that the file no longer has raises SIGBUS. The
//! handler here puts zeros in the place of what is missing and marks the
//! mapping, so that the reader goes on and finds out afterwards that what it
//! computed is void. Faults of anybody else, and signals that were sent, go to who handled them
//! before; the handler here stays, unless they end the process, or who handled them is to handle one alone.

#![expect(unsafe_code, reason = "mapping files and handling SIGBUS")]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::ptr;

use store::{Backing, Status};

use crate::sync::{AtomicBool, AtomicUsize, OnceLock, Ordering};

/// Mappings that can be guarded at a time; further files are read instead of mapped.
const GUARDS_MAX: usize = 256;

/// Bytes that a thread unmaps at least at a time: 0.05 ms of work, and 0.3 ms where the page cache is
/// in single pages, as that of FUSE; all processors are interrupted after it.
const UNMAP_BYTES_MIN: usize = 8 << 20;
/// Steps in which a mapping is unmapped at most: of one of terabytes little may have been read.
const UNMAP_STEPS_MAX: usize = 32;

/// A slot that is being filled in: no address of a mapping.
const RESERVED: usize = 1;

/// Addresses at which the handler looks while other threads change them.
///
/// Who takes a slot writes `start`, `end`, `start`, and the handler loads the same, each `Release` and
/// `Acquire`: who loads an end finds no start from before it, and who loads a start no end from before
/// it. So the end between two loads of one start is that start's. Only one mapping after another at the
/// same address could be mixed up, and the faulting thread keeps the mapping that it looks for: what
/// lies at the addresses of one that ended was mapped after `start` had given them up, by the lock of
/// the kernel's that `munmap` and `mmap` take.
struct Guard {
    /// First address; 0 if the slot is free.
    start: AtomicUsize,
    end: AtomicUsize,
    faulted: AtomicBool,
}

static GUARDS: [Guard; GUARDS_MAX] = [const {
    Guard { start: AtomicUsize::new(0), end: AtomicUsize::new(0), faulted: AtomicBool::new(false) }
}; GUARDS_MAX];

/// The page size, asked once: the handler may not ask.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);

static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// The first bytes of a file, mapped read-only.
pub(crate) struct Mapping {
    start: *const u8,
    bytes: usize,
    guard: &'static Guard,
    /// Where the part begins that [`Mapping::help_unmap`] unmaps next.
    unmapped: AtomicUsize,
}

// SAFETY: the mapping is read-only memory that lives as long as the value;
// nothing about it belongs to one thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared reads of memory need no order.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `size` bytes; `None` where that cannot be done, and reading must do.
    pub(crate) fn of(file: &File, size: u64) -> Option<Self> {
        let bytes = usize::try_from(size).ok().filter(|bytes| *bytes > 0)?;
        install_handler()?;
        let guard = GUARDS.iter().find(|guard| {
            let (free, taken) = (Ordering::AcqRel, Ordering::Relaxed);
            guard.start.compare_exchange(0, RESERVED, free, taken).is_ok()
        })?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), bytes, read, shared, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            guard.start.store(0, Ordering::Release);
            return None;
        }
        guard.faulted.store(false, Ordering::Relaxed);
        guard.end.store(start.addr() + bytes, Ordering::Release);
        guard.start.store(start.addr(), Ordering::Release);
        Some(Self { start: start.cast(), bytes, guard, unmapped: AtomicUsize::new(0) })
    }

    /// As [`Mapping::of`]; `None` too where it would do harm: reading a mapped hole of a file system
    /// in memory fills it, and fails where that is full.
    pub(crate) fn harmless(file: &File, size: u64, status: &Status) -> Option<Self> {
        let has_holes = status.allocated < status.size;
        let fills = status.backing == Backing::Memory && has_holes;
        if fills { None } else { Self::of(file, size) }
    }

    /// The bytes of `range`. Valid only if [`Mapping::is_sound`] still holds after they were used.
    pub(crate) fn bytes(&self, range: &Range<u64>) -> &[u8] {
        let at = |offset: u64| usize::try_from(offset).expect("within the mapping");
        let (start, end) = (at(range.start), at(range.end));
        assert!(start <= end && end <= self.bytes, "{range:?} is not within the mapping");
        // SAFETY: the range lies within the mapping, which lives as long as
        // `self`. Pages that vanish are replaced by the handler. Another
        // process may write the file meanwhile; as with every mapped reader,
        // the bytes seen are then some of the old and some of the new.
        unsafe { std::slice::from_raw_parts(self.start.add(start), end - start) }
    }

    /// Loads from the pages of `range`, so that they are mapped before they are read: what is mapped
    /// does not leave memory for a while.
    pub(crate) fn hold(&self, range: &Range<u64>) {
        let bytes = self.bytes(range);
        let page = PAGE_BYTES.load(Ordering::Relaxed);
        let firsts = bytes.chunks(page).filter_map(<[u8]>::first);
        std::hint::black_box(firsts.fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
    }

    /// Keeps what is read from being taken for in use, and from being fetched with what lies
    /// around it.
    ///
    /// The kernel then evicts the pages of a file that is read again and again in the order in which
    /// they came, which is the file's, rather than a few here and a few there.
    pub(crate) fn leaves_no_trace(&self) {
        self.advise(&(0..self.bytes as u64), libc::MADV_RANDOM);
    }

    /// Lets the kernel read ahead of `range`, as it does by itself.
    pub(crate) fn is_read_in_order(&self, range: &Range<u64>) {
        self.advise(range, libc::MADV_NORMAL);
    }

    /// Unmaps the pages of `range`, which stay in the page cache: what is
    /// mapped counts as this process's memory, and is harder to evict.
    pub(crate) fn is_done_with(&self, range: &Range<u64>) {
        self.advise(range, libc::MADV_DONTNEED);
    }

    /// Unmaps a share of what is left of the mapping; threads that call this together unmap it all
    /// in the time that one would take for its share. Nobody may need the bytes for long.
    pub(crate) fn help_unmap(&self) {
        let step = UNMAP_BYTES_MIN.max(self.bytes / UNMAP_STEPS_MAX);
        loop {
            let start = self.unmapped.fetch_add(step, Ordering::Relaxed);
            if start >= self.bytes {
                return;
            }
            self.is_done_with(&(start as u64..start.saturating_add(step) as u64));
        }
    }

    fn advise(&self, range: &Range<u64>, advice: c_int) {
        let page = rustix::param::page_size();
        let start = usize::try_from(range.start).expect("within the mapping") / page * page;
        let end = usize::try_from(range.end).expect("within the mapping").min(self.bytes);
        // SAFETY: within the mapping. Neither mapping nor unmapping changes
        // content: a page that is read again is mapped again. A failure leaves
        // the pages to be mapped when they are read, or unmapped with all others.
        unsafe {
            let from = self.start.add(start).cast_mut().cast();
            libc::madvise(from, end - start, advice);
        }
    }

    /// Whether every byte handed out so far was the file's.
    pub(crate) fn is_sound(&self) -> bool {
        !self.guard.faulted.load(Ordering::Acquire)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Another mapping of this process may get the addresses as soon as they are free.
        self.guard.start.store(RESERVED, Ordering::Release);
        // SAFETY: made by `of`, unmapped once; `bytes` borrows from `self`, so no slice is left.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.bytes) };
        self.guard.start.store(0, Ordering::Release);
    }
}

fn install_handler() -> Option<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let install = || {
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
        let mut previous = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: an all-zero sigaction is a valid one, and the fields the
        // kernel reads are set; `previous` is written before it is read.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: InformedHandler = on_sigbus;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            if libc::sigaction(libc::SIGBUS, ptr::null(), previous.as_mut_ptr()) != 0 {
                return false;
            }
            PREVIOUS.get_or_init(|| previous.assume_init());
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) == 0
        }
    };
    INSTALLED.get_or_init(install).then_some(())
}

/// Only system calls and atomics: what a signal handler may use.
extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO.
    if unsafe { is_mended(&*info) } {
        return;
    }
    if let Some(previous) = PREVIOUS.get() {
        // SAFETY: `previous` is as the system gave it, the others are as it passed them.
        unsafe { pass_on(previous, signal, info, context) };
    }
}

/// Whether this was a fault within one of our mappings, which has zeros there from now on.
///
/// # Safety
/// The system passed this to a handler of SIGBUS.
unsafe fn is_mended(info: &libc::siginfo_t) -> bool {
    if was_sent(info) {
        // Its sender stands where a fault has its address.
        return false;
    }
    // SAFETY: a fault of SIGBUS has an address.
    let address = unsafe { info.si_addr() }.addr();
    for guard in &GUARDS {
        let start = guard.start.load(Ordering::Acquire);
        let end = guard.end.load(Ordering::Acquire);
        // The slot may have changed hands in between.
        let is_one = guard.start.load(Ordering::Acquire) == start;
        if start <= RESERVED || address < start || address >= end || !is_one {
            continue;
        }
        guard.faulted.store(true, Ordering::Release);
        let page = address & !(PAGE_BYTES.load(Ordering::Relaxed) - 1);
        // SAFETY: replaces the rest of a mapping of ours, which stays readable
        // and as large as it was; errno is put back for the interrupted code.
        let replaced = unsafe {
            let errno = *libc::__errno_location();
            let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = page as *mut c_void;
            let zeros = libc::mmap(at, end - page, libc::PROT_READ, flags, -1, 0);
            *libc::__errno_location() = errno;
            zeros != libc::MAP_FAILED
        };
        if replaced {
            return true;
        }
    }
    false
}

/// Whether nothing raises a signal again by itself: somebody sent it, or the kernel tells of memory
/// that is broken before anybody loads from it.
fn was_sent(info: &libc::siginfo_t) -> bool {
    info.si_code <= 0 || info.si_code == libc::BUS_MCEERR_AO
}

type Handler = extern "C" fn(c_int);
type InformedHandler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Leaves a signal to who handled it before.
///
/// # Safety
/// `previous` is what the system says was installed; the others are what it passes to a handler.
unsafe fn pass_on(
    previous: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: see above.
    let was_sent = was_sent(unsafe { &*info });
    let handler = previous.sa_sigaction;
    // It counts on the next fault to end the process.
    let handles_one = !was_sent && previous.sa_flags & libc::SA_RESETHAND != 0;
    // SAFETY: system calls that a handler may make. What is neither of the two constants is a
    // function, of the kind that the flags say.
    unsafe {
        if handler == libc::SIG_IGN && was_sent {
            return;
        }
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN || handles_one {
            // A fault is raised again by itself.
            libc::sigaction(signal, previous, ptr::null_mut());
        } else if previous.sa_flags & libc::SA_SIGINFO == 0 {
            block_as_for(previous, signal);
            std::mem::transmute::<*const (), Handler>(handler as *const ())(signal);
        } else {
            block_as_for(previous, signal);
            let handle = std::mem::transmute::<*const (), InformedHandler>(handler as *const ());
            handle(signal, info, context);
        }
        // The standard library's handler does so, too, and counts on a fault to be raised again.
        if was_sent && is_left_to_system(signal) {
            libc::raise(signal);
        }
    }
}

/// Blocks the signals that the system blocks while it runs a handler. It puts back what was blocked
/// before as soon as the handler here returns.
fn block_as_for(handler: &libc::sigaction, signal: c_int) {
    // SAFETY: a set of no signals, to which one is added, and one that the system gave.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const handler.sa_mask, ptr::null_mut());
        if handler.sa_flags & libc::SA_NODEFER != 0 {
            let mut itself = std::mem::zeroed();
            libc::sigemptyset(&raw mut itself);
            libc::sigaddset(&raw mut itself, signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const itself, ptr::null_mut());
        }
    }
}

/// Whether a signal has no handler any more.
fn is_left_to_system(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a `sigaction`, which lives across the call; nothing is changed.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_DFL
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_mapped_file_that_shrinks_is_noticed_and_does_not_crash() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&vec![1; 1 << 16]).expect("written");
        let mapping = Mapping::of(&file, 1 << 16).expect("mapped");
        let sum = |range| mapping.bytes(&range).iter().map(|&byte| u64::from(byte)).sum::<u64>();
        assert_eq!(sum(0..1 << 16), 1 << 16);
        assert!(mapping.is_sound());
        file.set_len(1 << 12).expect("shortened");
        assert_eq!(sum(0..1 << 16), 1 << 12);
        assert!(!mapping.is_sound());
    }

    static HANDLED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn handled(_signal: c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    extern "C" fn handled_informed(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
        HANDLED.fetch_add(10, Ordering::Relaxed);
    }

    #[test]
    fn what_others_handle_does_not_end_the_guard() {
        install_handler().expect("it can be installed");
        let informed: InformedHandler = handled_informed;
        let plain: Handler = handled;
        let previous = [
            (informed as libc::sighandler_t, libc::SA_SIGINFO),
            (plain as libc::sighandler_t, 0),
            (libc::SIG_IGN, 0),
        ];
        for (handler, flags) in previous {
            // SAFETY: all zeros are a `sigaction` and a `siginfo_t`, of a signal that was sent.
            unsafe {
                let mut previous: libc::sigaction = std::mem::zeroed();
                (previous.sa_sigaction, previous.sa_flags) = (handler, flags);
                let mut info: libc::siginfo_t = std::mem::zeroed();
                pass_on(&previous, libc::SIGBUS, &raw mut info, ptr::null_mut());
            }
        }
        assert_eq!(HANDLED.load(Ordering::Relaxed), 11);
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[1; 1 << 13]).expect("written");
        let mapping = Mapping::of(&file, 1 << 13).expect("mapped");
        file.set_len(1 << 12).expect("shortened");
        assert_eq!(mapping.bytes(&(0..1 << 13))[1 << 12], 0);
        assert!(!mapping.is_sound());
    }

    /// What a handler is told of a SIGBUS.
    fn sigbus(code: c_int, address: usize) -> libc::siginfo_t {
        #[repr(C)]
        struct Fault {
            numbers: [c_int; 3],
            address: usize,
        }
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let fault = Fault { numbers: [libc::SIGBUS, 0, code], address };
        // SAFETY: what `si_addr` reads is laid out so; all else is zeros.
        unsafe {
            info.as_mut_ptr().cast::<Fault>().write(fault);
            info.assume_init()
        }
    }

    #[test]
    fn a_signal_that_was_sent_is_no_fault_whoever_sent_it() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"x").expect("written");
        let mapping = Mapping::of(&file, 1).expect("mapped");
        let is_mended = |code| {
            // SAFETY: as the system makes it.
            unsafe { is_mended(&sigbus(code, mapping.start.addr())) }
        };
        for code in [libc::SI_USER, libc::SI_QUEUE, libc::BUS_MCEERR_AO] {
            assert!(!is_mended(code) && mapping.is_sound(), "{code}");
        }
        assert!(is_mended(libc::BUS_ADRERR) && !mapping.is_sound());
    }

    #[test]
    fn who_is_to_handle_one_fault_handles_it_alone() {
        let handler: InformedHandler = handled_informed;
        let handler = handler as libc::sighandler_t;
        // SAFETY: the child makes system calls alone, and ends without returning.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (mut info, mut left) = (sigbus(libc::BUS_ADRERR, 0), MaybeUninit::zeroed());
            // SAFETY: all zeros are a `sigaction`.
            unsafe {
                let mut previous: libc::sigaction = std::mem::zeroed();
                previous.sa_sigaction = handler;
                previous.sa_flags = libc::SA_SIGINFO | libc::SA_RESETHAND;
                pass_on(&previous, libc::SIGBUS, &raw mut info, ptr::null_mut());
                libc::sigaction(libc::SIGBUS, ptr::null(), left.as_mut_ptr());
                libc::_exit(c_int::from(left.assume_init().sa_sigaction != handler));
            }
        }
        let mut status = -1;
        // SAFETY: the status lives across the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the next fault is its own, and the one after that the system's");
    }

    static BLOCKED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn notes_what_is_blocked(_signal: c_int) {
        let blocked = [libc::SIGBUS, libc::SIGUSR1].map(is_blocked);
        BLOCKED.store(blocked.iter().filter(|is| **is).count(), Ordering::Relaxed);
    }

    fn is_blocked(signal: c_int) -> bool {
        let mut blocked = MaybeUninit::zeroed();
        // SAFETY: all zeros are a set of signals, which lives across the calls.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr());
            libc::sigismember(blocked.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn a_handler_runs_with_what_it_wants_blocked() {
        let handler: Handler = notes_what_is_blocked;
        let pass_on_with = move |flags| {
            // SAFETY: all zeros are a `sigaction`, and a set of no signals.
            unsafe {
                let mut previous: libc::sigaction = std::mem::zeroed();
                (previous.sa_sigaction, previous.sa_flags) = (handler as _, flags);
                libc::sigaddset(&raw mut previous.sa_mask, libc::SIGBUS);
                libc::sigaddset(&raw mut previous.sa_mask, libc::SIGUSR1);
                let mut info = sigbus(libc::SI_USER, 0);
                pass_on(&previous, libc::SIGBUS, &raw mut info, ptr::null_mut());
            }
            BLOCKED.load(Ordering::Relaxed)
        };
        // What is blocked is a thread's own, and stays with this one.
        let seen = std::thread::spawn(move || [0, libc::SA_NODEFER].map(pass_on_with));
        assert_eq!(seen.join().expect("it did not panic"), [2, 1]);
    }

    #[test]
    fn a_guard_is_free_again_after_its_mapping() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"x").expect("written");
        for _ in 0..2 * GUARDS_MAX {
            assert_eq!(Mapping::of(&file, 1).expect("mapped").bytes(&(0..1)), b"x");
        }
    }
}
