//! What this process was started with, is otherwise here, and the command has to start with.
//!
//! The language's start-up opens the standard streams that are closed, and ignores `SIGPIPE`; so it
//! is noted before that.

#![expect(unsafe_code, reason = "dispositions of signals, and descriptors that nothing owns")]

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that are not handled here as they were by who started us.
const CHANGED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGCHLD];

/// Which of these were ignored.
static IGNORED: [AtomicBool; CHANGED.len()] = [const { AtomicBool::new(false) }; CHANGED.len()];

/// Which of stdin, stdout and stderr were closed.
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Has the C library call [`note`] before anything else.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for (signal, ignored) in CHANGED.into_iter().zip(&IGNORED) {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros is a `sigaction`, which lives across the call; nothing is changed.
        let action = unsafe {
            libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        ignored.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    }
    for (fd, closed) in (0..).zip(&CLOSED) {
        // SAFETY: takes numbers, and changes nothing.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0, Ordering::Relaxed);
    }
}

/// Whether this process was started without its standard input; what stands there now is nothing.
pub fn lacks_stdin() -> bool {
    CLOSED[0].load(Ordering::Relaxed)
}

/// Whether this process was started without its standard output; what stands there now is nothing.
pub fn lacks_stdout() -> bool {
    CLOSED[1].load(Ordering::Relaxed)
}

/// Has children be waited for: of those that are ignored nobody learns how they ended.
pub fn mind_children() {
    // SAFETY: no handler is called.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Has what is written beyond the limit on files (`ulimit -f`) be an error, not the end: a device
/// table that cannot be saved keeps nobody from reading. What is executed has the signal as it was.
pub fn survive_file_limits() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, and whoever ignored the signal still does.
    unsafe {
        if libc::signal(libc::SIGXFSZ, nothing as extern "C" fn(_) as libc::sighandler_t)
            == libc::SIG_IGN
        {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
    }
}

/// Puts it back, in a process that is about to become the command.
pub(super) fn restore() {
    for (signal, ignored) in CHANGED.into_iter().zip(&IGNORED) {
        let is_ignored = ignored.load(Ordering::Relaxed);
        let disposition = if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: no handler is called.
        unsafe { libc::signal(signal, disposition) };
    }
    for (fd, closed) in (0..).zip(&CLOSED) {
        if closed.load(Ordering::Relaxed) {
            // SAFETY: what stands there was put there by the language's start-up, to be nothing.
            unsafe { libc::close(fd) };
        }
    }
}
