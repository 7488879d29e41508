//! System calls that no crate wraps: seccomp's, another process's memory, and `fork`.

#![expect(unsafe_code, reason = "system calls, and memory that two processes share")]

use std::io::{self, Write as _};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Pid;
use store::uninterrupted;

use super::filter::Instruction;
use super::inherited;

/// Wakes the listener on the caller's processor (Linux 6.6), which spares waking another.
const SYNC_WAKE_UP: u64 = 1;
/// The kernel's `SECCOMP_IOCTL_NOTIF_SET_FLAGS`.
const SET_FLAGS: libc::Ioctl = libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS;

#[repr(C)]
struct Program {
    length: u16,
    filter: *const Instruction,
}

/// Puts a filter on the calling thread and what comes of it; who answers for it is the result.
///
/// Where the thread may not do that otherwise it gives up gaining privileges by what it runs.
///
/// # Errors
/// `EBUSY` if somebody listens already; `EINVAL` or `ENOSYS` where the kernel has no such thing.
pub(super) fn listen(filter: &[Instruction]) -> io::Result<OwnedFd> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // A received call is then not interrupted by signals, as an opening on a disk is not.
    let killable = flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let attempt = || match install(filter, killable) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(filter, flags),
        installed => installed,
    };
    let listener = match attempt() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            // SAFETY: takes numbers only.
            let given_up = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            if given_up != 0 {
                return Err(io::Error::last_os_error());
            }
            attempt()?
        }
        installed => installed?,
    };
    if !can_answer(&listener) {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the third argument of this ioctl is a number.
    // An older kernel does not know it, and is slower.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
    Ok(listener)
}

/// Whether calls that come by a listener can be answered: who lives in a sandbox of its own may be
/// refused that, and whom it listens to would wait for ever.
fn can_answer(listener: &OwnedFd) -> bool {
    let none = 0_u64;
    // SAFETY: the kernel reads one number, which lives across the call.
    let known = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const none)
    };
    known == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT)
}

fn install(filter: &[Instruction], flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let length = u16::try_from(filter.len()).expect("the filter is short");
    let program = Program { length, filter: filter.as_ptr() };
    // SAFETY: the kernel reads one `struct sock_fprog` and the instructions it points to, both of
    // which live across the call and have its layout.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    let fd = RawFd::try_from(result).ok().filter(|fd| *fd >= 0);
    let fd = fd.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made it, for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the kernel tells of a process: its `struct pidfd_info`, as long as it was at first.
#[repr(C)]
#[derive(Default)]
pub(super) struct Info {
    told: u64,
    group: u64,
    thread: u32,
    process: u32,
    /// The number of its parent.
    pub(super) parent: u32,
    others: [u32; 6],
    /// By whose rights it opens files.
    pub(super) file_user: u32,
    more: [u32; 2],
}

/// The kernel's `PIDFD_GET_INFO` (Linux 6.13).
const GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;
/// Its `PIDFD_INFO_PID` and `PIDFD_INFO_CREDS`: numbers of processes, and of users.
const NUMBERS: u64 = 1 | 2;

/// What is told of the process that a descriptor stands for; `None` where the kernel does not tell, or if
/// it has ended.
pub(super) fn info(process: &OwnedFd) -> Option<Info> {
    let mut info = Info { told: NUMBERS, ..Info::default() };
    // SAFETY: the kernel reads and writes one `struct pidfd_info` of the size that is part of the
    // request's number.
    let result = unsafe { libc::ioctl(process.as_raw_fd(), GET_INFO, &raw mut info) };
    (result == 0 && info.told & NUMBERS == NUMBERS).then_some(info)
}

/// Whether a process has a thread of this number.
pub(super) fn has_thread(process: u32, thread: u32) -> bool {
    let none = 0;
    // SAFETY: takes numbers only, and sends nothing.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, none) };
    // One that is not ours to signal is there.
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// A call that waits to go on.
pub(super) type Told = libc::seccomp_notif;

/// Where a call is received: memory that a guardian process shares, which so learns of the call
/// that its supervisor died with.
#[derive(Debug)]
pub(super) struct Slot(*mut Told);

// SAFETY: it is one owner's memory; the other process reads one aligned word of it, atomically.
unsafe impl Send for Slot {}

impl Slot {
    /// To be made before the processes part.
    ///
    /// # Errors
    /// The system's, without memory.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a new mapping, which overlaps nothing.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Told>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(page.cast()))
    }

    /// Waits for a call.
    ///
    /// # Errors
    /// `EINTR`; `ENOENT` if it was given up meanwhile, or if nobody is left who could call.
    pub(super) fn receive(&mut self, listener: BorrowedFd<'_>) -> io::Result<&Told> {
        // SAFETY: the mapping is as large as a `Told`, aligned, and ours; all zeros is one, which
        // the kernel asks for.
        unsafe { ptr::write_bytes(self.0, 0, 1) };
        let request = libc::SECCOMP_IOCTL_NOTIF_RECV;
        // SAFETY: the kernel writes one `struct seccomp_notif` to it.
        let result = unsafe { libc::ioctl(listener.as_raw_fd(), request, self.0) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: written by the kernel just now.
        Ok(unsafe { &*self.0 })
    }

    /// The number of the call that was received last, in either process; 0: none.
    pub(super) fn last(&self) -> u64 {
        // SAFETY: `id` is the first field, aligned, and lives as long as the mapping.
        let id = unsafe { AtomicU64::from_ptr((&raw mut (*self.0).id).cast()) };
        id.load(Ordering::Acquire)
    }
}

/// Lets a call go on as if nobody had listened.
///
/// # Errors
/// `ENOENT` if its caller is gone.
pub(super) fn let_go(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).expect("a bit");
    let answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    let request = libc::SECCOMP_IOCTL_NOTIF_SEND;
    // Without an answer the caller would wait for ever.
    uninterrupted(|| {
        // SAFETY: the kernel reads one `struct seccomp_notif_resp`.
        let result = unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw const answer) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    })
}

/// Reads memory of another process, as much as is there; bytes read.
///
/// # Errors
/// `EFAULT` if nothing is there, `ESRCH`, `EPERM`.
pub(super) fn read_memory(thread: u32, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let start = ptr::without_provenance_mut(usize::try_from(at).unwrap_or(0));
    let remote = libc::iovec { iov_base: start, iov_len: buffer.len() };
    let thread = libc::pid_t::try_from(thread).unwrap_or(-1);
    // SAFETY: the kernel writes into `buffer`, no more than its length; the other end is another
    // process's memory, which the kernel checks.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// What became of a child: its number, and `si_code` and `si_status` as the kernel has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Became {
    pub(super) process: libc::pid_t,
    pub(super) code: libc::c_int,
    pub(super) status: libc::c_int,
}

/// What became of a child that has ended, stopped or gone on, waited for by these options; it stays to be
/// waited for. `None`: there is none.
pub(super) fn changed(options: libc::c_int) -> Option<Became> {
    let options = options | libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED | libc::WNOWAIT;
    // SAFETY: all zeros is a value of this plain structure, which the kernel overwrites if there is
    // something to tell; the fields that are read are those of a child's signal, or zeros.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while libc::waitid(libc::P_ALL, 0, &raw mut info, options) != 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
        let became =
            Became { process: info.si_pid(), code: info.si_code, status: info.si_status() };
        (became.process != 0).then_some(became)
    }
}

/// Whose turn it is after a fork.
#[derive(Debug)]
pub(super) enum Forked {
    /// The one that forked, with the other's number.
    Parent(libc::pid_t),
    /// The new one.
    Child,
}

/// Makes a copy of this process, which must have one thread.
///
/// # Errors
/// The system's, without room for a process.
pub(super) fn fork() -> io::Result<Forked> {
    // SAFETY: the callers have one thread (see `run`), so the copy finds no lock held by another.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        child => Ok(Forked::Parent(child)),
    }
}

/// Signals that are kept until they are asked for.
#[derive(Debug)]
pub(super) struct Signals(OwnedFd);

/// Signals by which the kernel tells a program of its own faults, which some of us have handlers for. (Two
/// more cannot be held.)
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Bytes of a word and a number.
const LINE_BYTES: usize = 64;

/// Signals that a process was started with as held.
#[derive(Clone, Copy)]
pub(super) struct Mask(libc::sigset_t);

impl Mask {
    /// This thread's.
    pub(super) fn current() -> Self {
        // SAFETY: an all-zero set is a value that the call overwrites; nothing is changed.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, ptr::null(), &raw mut set);
            Self(set)
        }
    }

    /// Has a command start with it and with what else was inherited, and say so itself, to each of
    /// these after its word, with its own number: then it cannot run unknown, whatever becomes of
    /// who starts it.
    pub(super) fn give<const N: usize>(
        self,
        command: &mut Command,
        told: [(&'static str, OwnedFd); N],
    ) {
        let start = move || {
            let mut line = Vec::with_capacity(LINE_BYTES);
            for (word, stream) in &told {
                line.clear();
                // A vector takes all.
                drop(writeln!(line, "{word} {}", std::process::id()));
                // Who does not listen is gone.
                let _ = rustix::io::write(stream, &line);
            }
            inherited::restore();
            // SAFETY: the set lives across the call.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
            Ok(())
        };
        // SAFETY: it makes system calls, and touches nothing of other threads; memory may be asked
        // for here, since the C library makes its allocator usable in the child of a fork.
        unsafe { command.pre_exec(start) };
    }
}

/// A signal, and whether a process sent it (and not the kernel).
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) signal: i32,
    pub(super) by_process: bool,
    /// What was queued with it.
    value: Option<u64>,
}

/// What is queued with the signals of those who observe: tells them from those that are for the command.
const BY_OBSERVERS: u64 = 0x6e65_6172;

impl Sent {
    /// One by which those who observe have the waiting process stop or go on as the command did.
    pub(super) fn by_observers(signal: i32) -> Self {
        Self { signal, by_process: true, value: Some(BY_OBSERVERS) }
    }

    /// Whether it is one of [`Sent::by_observers`].
    pub(super) fn is_by_observers(self) -> bool {
        self.value == Some(BY_OBSERVERS)
    }

    /// Sends it to another process, if that is still there.
    pub(super) fn send(self, process: Pid) {
        let process = process.as_raw_nonzero().get();
        // SAFETY: takes numbers only; what was queued is a number to us, whatever it is to others.
        unsafe {
            match self.value.and_then(|value| usize::try_from(value).ok()) {
                Some(value) => {
                    let value = libc::sigval { sival_ptr: ptr::without_provenance_mut(value) };
                    libc::sigqueue(process, self.signal, value)
                }
                None => libc::kill(process, self.signal),
            }
        };
    }
}

impl Signals {
    /// Keeps all signals but those of faults, in this thread and what is made of it, instead of acting
    /// on them. Those by which a terminal stops a process are among them: we stop when the command
    /// has stopped, not before, since whoever waits for us then takes the terminal, from which the
    /// command may still be reading. Who is beside us holds them, too, so that to write more than a
    /// file may have is an error there.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn hold_all() -> io::Result<Self> {
        // SAFETY: an all-zero set is a value that `sigfillset` overwrites, and lives across the calls.
        Self::hold(unsafe {
            let mut set = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            for signal in FAULTS {
                libc::sigdelset(&raw mut set, signal);
            }
            set
        })
    }

    /// Keeps those of faults as well, which a process may send, too. A fault of its own ends who holds them.
    pub(super) fn and_faults(self) -> Self {
        // SAFETY: an all-zero set is a value that `sigfillset` overwrites, and lives across the calls; the
        // descriptor is of signals, and the old mask is not asked for.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            libc::signalfd(self.0.as_raw_fd(), &raw const set, 0);
        }
        self
    }

    /// Keeps what tells of children, likewise.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn hold_those_of_children() -> io::Result<Self> {
        // SAFETY: an all-zero set is a value that `sigemptyset` overwrites, and lives across the calls.
        Self::hold(unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGCHLD);
            set
        })
    }

    fn hold(set: libc::sigset_t) -> io::Result<Self> {
        // SAFETY: `set` is a set that lives across the calls; the old mask is not asked for.
        let fd = unsafe {
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, for us alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next one that came; `None`: none is there.
    pub(super) fn next(&self) -> Option<Sent> {
        // SAFETY: all zeros is a value of this plain structure.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let bytes = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes no more than `bytes` into it.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), bytes) };
        let signal = i32::try_from(info.ssi_signo).ok()?;
        let value = (info.ssi_code == libc::SI_QUEUE).then_some(info.ssi_ptr);
        (usize::try_from(read) == Ok(bytes)).then_some(Sent {
            signal,
            by_process: info.ssi_code <= 0,
            value,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Ends this process by a signal, as its command was, without leaving a core of its own.
pub fn die_by(signal: i32) {
    // SAFETY: plain calls with numbers and a set and a limit that live across them.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::raise(signal);
    }
}

/// Stops this process by a signal that is held, as its command was stopped; returns once somebody
/// has continued it. Does not, which is the result, if there `is_news`: whoever says that the command
/// goes on continues us afterwards, and what is raised by then is taken back by that.
pub(super) fn stop_by(signal: i32, is_news: impl FnOnce() -> bool) -> bool {
    // SAFETY: plain calls with numbers, and a set and a time that live across them.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        if is_news() {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const now);
            return false;
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
    true
}

/// Stops this process as a signal does that is neither handled nor held, whatever it is here; returns
/// once somebody has continued it, or at once where the kernel lets nobody stop that no shell waits for.
pub fn stop_as(signal: i32) {
    // SAFETY: plain calls with numbers, and sets and an action that live across them; the signal is
    // this thread's, and taken before the last is made.
    unsafe {
        let (mut set, mut mask, mut handled) = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        let stops: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const stops, &raw mut handled);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, &raw mut mask);
        libc::raise(signal);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut());
        libc::sigaction(signal, &raw const handled, ptr::null_mut());
    }
}

/// Undoes what holding signals changed, for a program that takes this process over.
pub(super) fn release_signals(mask: Mask) {
    // SAFETY: a set that lives across the call.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const mask.0, ptr::null_mut()) };
}

/// Sends a signal to the group that `process` is in, if that is not ours.
pub(super) fn send_to_other_group_of(process: Pid, signal: i32) {
    let own = rustix::process::getpgrp();
    if let Some(group) = rustix::process::getpgid(Some(process)).ok().filter(|group| *group != own)
    {
        // SAFETY: takes numbers, and changes nothing here.
        unsafe { libc::killpg(group.as_raw_nonzero().get(), signal) };
    }
}

/// Whether a descriptor is open, and stays so where another program is run: all that this one opens
/// does not.
pub(super) fn is_inherited(fd: RawFd) -> bool {
    // SAFETY: takes numbers, and changes nothing.
    unsafe { libc::fcntl(fd, libc::F_GETFD) == 0 }
}

/// Closes descriptors that this process was started with.
pub(super) fn close_inherited(descriptors: impl IntoIterator<Item = RawFd>) {
    for fd in descriptors {
        // SAFETY: they were open before this program opened anything, and nothing here owns them.
        unsafe { libc::close(fd) };
    }
}

/// Whether a process has a lock (`fcntl`, POSIX) on the file of a descriptor: this one's would be gone with
/// the first that is closed. Of several the kernel tells one, and this process's may be another.
pub(super) fn is_locked(fd: RawFd) -> bool {
    // SAFETY: all zeros is a `flock`: of the whole file.
    let mut asked: libc::flock = unsafe { std::mem::zeroed() };
    asked.l_type = libc::c_short::try_from(libc::F_WRLCK).expect("it is small");
    // A lock of a description is in the way of those of processes, ours included.
    // SAFETY: the kernel writes the `flock`, which lives across the call.
    let known = unsafe { libc::fcntl(fd, libc::F_OFD_GETLK, &raw mut asked) };
    known == 0 && libc::c_int::from(asked.l_type) != libc::F_UNLCK
}

/// Gives memory back that was let go of, which the C library keeps otherwise.
pub(super) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes nothing but what nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}
