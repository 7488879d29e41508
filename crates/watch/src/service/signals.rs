//! Signals as something to read: they come between events, never in the middle of one.

#![expect(unsafe_code, reason = "signal masks and signalfd have no safe form")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

/// What a signal asks of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To save and end (SIGTERM, SIGINT; SIGHUP of a terminal).
    End,
    /// To save (SIGHUP).
    Save,
    /// To say what was seen and what came of it (SIGUSR1).
    Report,
    /// To see to a child that may have ended (SIGCHLD).
    Reap,
}

/// `struct signalfd_siginfo`; its first word is the signal's number.
const RECORD_BYTES: usize = 128;

const WANTED: [libc::c_int; 5] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD];

/// The signals of this process; they no longer interrupt it.
#[derive(Debug)]
pub(crate) struct Signals {
    pending: OwnedFd,
    /// What SIGHUP asks.
    hangup: Asked,
}

impl Signals {
    /// To be made before any thread is started, which would be interrupted otherwise.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn new(hangup: Asked) -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` makes the set whole before anything else sees it.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in WANTED {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        };
        // SAFETY: both sets live across the calls; the descriptor is new and nobody else's.
        unsafe {
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(Self { pending: OwnedFd::from_raw_fd(descriptor), hangup }),
            }
        }
    }

    /// Becomes readable with the next signal.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn bell(&self) -> io::Result<OwnedFd> {
        self.pending.try_clone()
    }

    /// The next signal that came.
    pub(crate) fn take(&self) -> Option<Asked> {
        let mut record = [0; RECORD_BYTES];
        rustix::io::read(&self.pending, &mut record).ok()?;
        let number = i32::from_ne_bytes(*record.first_chunk().expect("a record is longer"));
        match number {
            libc::SIGTERM | libc::SIGINT => Some(Asked::End),
            libc::SIGHUP => Some(self.hangup),
            libc::SIGUSR1 => Some(Asked::Report),
            libc::SIGCHLD => Some(Asked::Reap),
            _ => None,
        }
    }
}
