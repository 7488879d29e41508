//! What this process was started with, is otherwise here, and the command has to start with.

#![expect(unsafe_code, reason = "dispositions of signals have no safe interface")]

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that are not handled here as they were by who started us.
const CHANGED: [libc::c_int; 1] = [libc::SIGCHLD];

/// Which of these were ignored.
static IGNORED: [AtomicBool; CHANGED.len()] = [const { AtomicBool::new(false) }; CHANGED.len()];

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
}

/// Has children be waited for: of those that are ignored nobody learns how they ended.
pub(super) fn mind_children() {
    // SAFETY: no handler is called.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Puts it back, in a process that is about to become the command.
pub(super) fn restore() {
    for (signal, ignored) in CHANGED.into_iter().zip(&IGNORED) {
        let is_ignored = ignored.load(Ordering::Relaxed);
        let disposition = if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: no handler is called.
        unsafe { libc::signal(signal, disposition) };
    }
}
