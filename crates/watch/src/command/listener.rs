//! The thread that programs wait for: notes what a call asks for, and lets it go on.
//!
//! All that a call needs is read while its caller waits, since afterwards it may be gone; all that
//! can be found later is left to the observer.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use store::Clock;

use super::inbox::{Call, Inbox, What};
use super::memory;
use super::sys::{self, Slot, Told};

/// Errors of a listener in a row after which it is given up, and the guardian takes over.
const ERRORS_MAX: u32 = 1000;

/// Arguments that are kept of a command: what tells its uses apart is not beyond.
const ARGUMENTS_MAX: usize = 64;
/// Bytes of all of them together.
const ARGUMENT_BYTES_MAX: u64 = 16 << 10;

/// Folders whose files are no files of a device.
const NOT_FILES: [&[u8]; 3] = [b"/proc/", b"/dev/", b"/sys/"];

/// Answers calls until nobody is left who could make one.
pub(super) struct Listener {
    pub(super) calls: Arc<OwnedFd>,
    pub(super) slot: Slot,
    pub(super) inbox: Arc<Inbox>,
    pub(super) clock: Clock,
}

/// A thread that answers must not end alone: what waits for it would wait for ever.
struct NotAlone;

impl Drop for NotAlone {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Listener {
    pub(super) fn run(mut self) {
        let _not_alone = NotAlone;
        let listener = Arc::clone(&self.calls);
        let mut errors = 0;
        loop {
            let told = match self.slot.receive(listener.as_fd()) {
                Ok(told) => *told,
                Err(_) if is_over(&listener) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if errors < ERRORS_MAX => {
                    errors += 1;
                    continue;
                }
                Err(_) => std::process::abort(),
            };
            errors = 0;
            let watched = !self.inbox.is_closed();
            let since = self.clock.now();
            let calls = if watched { self.seen(&told) } else { [const { None }; 3] };
            // Before it is let go: else it could have ended before its call is known.
            let urgent = self.inbox.add(calls.into_iter().flatten());
            match sys::let_go(listener.as_fd(), told.id) {
                Ok(()) => self.inbox.ring(urgent),
                // Who is gone needs no answer, and what it was about to do it did not do.
                Err(_) => self.inbox.take_back(told.pid, since),
            }
        }
    }

    /// What comes to light with a call: its process, what that runs, and what it asks for.
    fn seen(&self, told: &Told) -> [Option<Call>; 3] {
        let thread = told.pid;
        let at = self.clock.now();
        let (process, met) = match self.inbox.process_of(thread) {
            Some(process) => (process, None),
            None => self.met(thread),
        };
        let call = |what| Call { at, thread, process, what };
        let ran = self.inbox.with(process, |known| std::mem::take(&mut known.executes));
        let ran = (ran == Some(true))
            .then(|| What::Runs { program: link(thread, "exe"), arguments: arguments(thread) });
        [met.map(call), ran.map(call), self.asked(told, process).map(call)]
    }

    /// Finds the process of a thread that was not seen before.
    fn met(&self, thread: u32) -> (u32, Option<What>) {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        let process = field(&status, "Tgid:").unwrap_or(thread);
        if !self.inbox.meet(thread, process) {
            return (process, None);
        }
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        (process, Some(What::Met { parent: field(&status, "PPid:").unwrap_or(0), end }))
    }

    fn asked(&self, told: &Told, process: u32) -> Option<What> {
        let [first, second, third, _, _, _] = told.data.args;
        let thread = told.pid;
        // The kernel takes flags and descriptors as 32 bits.
        #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
        let low = |argument: u64| argument as u32;
        let here = libc::AT_FDCWD.cast_unsigned();
        match libc::c_long::from(told.data.nr) {
            libc::SYS_openat => self.opens(told, process, low(first), second, low(third)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.opens(told, process, here, first, low(second)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
                self.opens(told, process, here, first, flags.cast_unsigned())
            }
            libc::SYS_openat2 => {
                let flags = memory::word(thread, third)?;
                self.opens(told, process, low(first), second, low(flags))
            }
            libc::SYS_execve => self.executes(told, process, here, first),
            libc::SYS_execveat => self.executes(told, process, low(first), second),
            libc::SYS_chdir | libc::SYS_fchdir => {
                self.inbox.with(process, |known| known.folder = None);
                None
            }
            libc::SYS_chroot => Some(What::ChangesRoot),
            _ => None,
        }
    }

    fn opens(&self, told: &Told, process: u32, at: u32, name: u64, flags: u32) -> Option<What> {
        let name = memory::string(told.pid, name)?;
        let whole = self.whole(told.pid, process, at, name)?;
        let is_file = !NOT_FILES.iter().any(|folder| whole.starts_with(folder));
        is_file.then_some(What::Opens { whole, flags })
    }

    fn executes(&self, told: &Told, process: u32, at: u32, name: u64) -> Option<What> {
        let thread = told.pid;
        let name = memory::string(thread, name)?;
        self.inbox.with(process, |known| known.executes = true);
        let whole = if name.is_empty() {
            link(thread, &format!("fd/{at}"))?
        } else {
            self.whole(thread, process, at, name)?
        };
        let folder = self.folder(thread, process).unwrap_or_else(|| Arc::from(&b"/"[..]));
        Some(What::Executes { whole, folder })
    }

    /// A name seen from the root: joined to the folder that it begins at.
    fn whole(&self, thread: u32, process: u32, at: u32, name: Vec<u8>) -> Option<Vec<u8>> {
        if name.first() == Some(&b'/') || name.is_empty() {
            return (!name.is_empty()).then_some(name);
        }
        let joined = |folder: &[u8]| {
            let mut whole = Vec::with_capacity(folder.len() + 1 + name.len());
            whole.extend_from_slice(folder);
            whole.push(b'/');
            whole.extend_from_slice(&name);
            whole
        };
        if at == libc::AT_FDCWD.cast_unsigned() {
            return self.folder(thread, process).map(|folder| joined(&folder));
        }
        let folder = link(thread, &format!("fd/{at}"))?;
        (folder.first() == Some(&b'/')).then(|| joined(&folder))
    }

    fn folder(&self, thread: u32, process: u32) -> Option<Arc<[u8]>> {
        let known = self.inbox.with(process, |known| known.folder.clone()).flatten();
        known.or_else(|| {
            let folder: Arc<[u8]> = link(thread, "cwd")?.into();
            self.inbox.with(process, |known| known.folder = Some(Arc::clone(&folder)));
            Some(folder)
        })
    }
}

/// Where a link of `/proc` about a thread leads to.
pub(super) fn link(thread: u32, name: &str) -> Option<Vec<u8>> {
    let target = fs::read_link(format!("/proc/{thread}/{name}")).ok()?;
    Some(target.into_os_string().into_vec())
}

/// What the program that a thread runs was called with, as far as it is kept.
pub(super) fn arguments(thread: u32) -> Vec<Arc<[u8]>> {
    let mut text = Vec::new();
    let opened = fs::File::open(format!("/proc/{thread}/cmdline"));
    // Who ended meanwhile was called with nothing that matters.
    drop(opened.and_then(|file| file.take(ARGUMENT_BYTES_MAX).read_to_end(&mut text)));
    let whole = text.strip_suffix(b"\0").unwrap_or(&text);
    whole.split(|&byte| byte == 0).take(ARGUMENTS_MAX).map(Arc::from).collect()
}

/// A number in `/proc/PID/status`.
pub(super) fn field(status: &str, key: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

/// Whether nobody is left who could call.
pub(super) fn is_over(listener: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(listener, PollFlags::empty())];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut asked, Some(&now)) {
        Ok(_) => asked[0].revents().contains(PollFlags::HUP),
        Err(error) => error != Errno::INTR,
    }
}
