//! The thread that programs wait for: notes what a call asks for, and lets it go on.
//!
//! All that a call needs is read while its caller waits, since afterwards it may be gone; all that
//! can be found later is left to the observer.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use store::Clock;
use tree::is_on_a_device;

use super::filter::{self, Does};
use super::inbox::{Added, Call, Inbox, What};
use super::known::{Done, Known};
use super::memory::{self, Text};
use super::parents;
use super::sys::{self, Slot, Told};
use crate::status::words;

/// Errors of a listener in a row after which it is given up, and the guardian takes over.
const ERRORS_MAX: u32 = 1000;

/// Arguments that are kept of a command: what tells its uses apart is not beyond.
const ARGUMENTS_MAX: usize = 64;
/// Bytes of all of them together.
const ARGUMENT_BYTES_MAX: usize = 16 << 10;

/// About what the kernel tells of a process; some groups of a user are not that many.
const STATUS_BYTES: usize = 4096;

/// How long files are left alone after a program was let go on to unmount some: the kernel finds out at
/// once whether it can.
const ASIDE: Duration = Duration::from_millis(50);
/// How long it is waited, at the most, for what is being read there; others' calls wait as well.
const ASIDE_MAX: Duration = Duration::from_secs(1);
/// How often it is looked.
const ASIDE_PAUSE: Duration = Duration::from_millis(1);

/// Answers calls until nobody is left who could make one.
pub(super) struct Listener {
    calls: Arc<OwnedFd>,
    slot: Slot,
    inbox: Arc<Inbox>,
    clock: Clock,
    known: Known,
    text: Box<Text>,
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
    /// Over the calls that come by `calls`, of which the last is in `slot`.
    pub(super) fn new(calls: Arc<OwnedFd>, slot: Slot, inbox: Arc<Inbox>, clock: Clock) -> Self {
        Self { calls, slot, inbox, clock, known: Known::default(), text: memory::text() }
    }

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
            let at = self.clock.now();
            // Before it is let go: else it could have ended before its call is known.
            let added = if self.inbox.is_closed() { Added::Nothing } else { self.add(&told, at) };
            match sys::let_go(listener.as_fd(), told.id) {
                Ok(()) => self.inbox.ring(added),
                // Who is gone needs no answer, and what it was about to do it did not do.
                Err(_) => self.inbox.take_back(told.pid, at),
            }
        }
    }

    fn add(&mut self, told: &Told, at: Duration) -> Added {
        if self.inbox.has_forgotten() {
            self.known = Known::default();
        }
        for process in self.inbox.gone() {
            self.known.forget(process);
        }
        let calls = self.seen(told, at);
        if calls.iter().all(Option::is_none) {
            return Added::Nothing;
        }
        self.inbox.add(calls.into_iter().flatten())
    }

    /// What comes to light with a call: its process, what that runs, and what it asks for.
    fn seen(&mut self, told: &Told, at: Duration) -> [Option<Call>; 5] {
        let thread = told.pid;
        let (process, met) = match self.known.process_of(thread) {
            Some(process) => (process, None),
            None => self.met(thread),
        };
        let call = |what| Call { at, thread, process, what };
        let done = self.known.of(process).map(|known| known.calls(process, thread));
        let Done { ran, left } = done.unwrap_or_default();
        let left = (left && parents::is_elsewhere(thread)).then_some(What::ChangedRoot);
        let ran =
            ran.then(|| What::Runs { program: link(thread, "exe"), arguments: arguments(thread) });
        let asked = self.asked(told, process);
        // Who gives up rights runs a program next, or one that another's rights come with. To be told of
        // the giving up itself would have a signal interrupt it, which no program expects.
        let may_have_changed =
            met.is_none() && (ran.is_some() || matches!(asked, Some(What::Executes { .. })));
        let became =
            (may_have_changed && parents::is_anothers(thread)).then_some(What::BecameAnothers);
        [met, left, became, ran, asked].map(|what| what.map(call))
    }

    /// Finds the process of a thread that was not seen before.
    fn met(&mut self, thread: u32) -> (u32, Option<What>) {
        // Only the first thread of a process has a descriptor that stands for that.
        let own = parents::open(thread);
        let told = own.as_ref().and_then(sys::info).map(|info| (thread, info.parent));
        let (process, parent) = told.unwrap_or_else(|| {
            let status = status(thread);
            let process = field(&status, "Tgid:").unwrap_or(thread);
            (process, field(&status, "PPid:").unwrap_or(0))
        });
        if !self.known.meet(thread, process) {
            return (process, None);
        }
        let end = own.or_else(|| parents::open(process));
        let is_elsewhere = parents::is_elsewhere(thread) || parents::is_anothers(process);
        (process, Some(What::Met { parent, end, is_elsewhere }))
    }

    fn asked(&mut self, told: &Told, process: u32) -> Option<What> {
        let [first, second, third, _, _, _] = told.data.args;
        let thread = told.pid;
        // The kernel takes flags and descriptors as 32 bits.
        #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
        let low = |argument: u64| argument as u32;
        let here = libc::AT_FDCWD.cast_unsigned();
        match filter::does(told.data.arch, told.data.nr)? {
            Does::OpenAt => self.opens(thread, low(first), second, low(third), 0),
            Does::Open => self.opens(thread, here, first, low(second), 0),
            Does::Create => {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
                self.opens(thread, here, first, flags.cast_unsigned(), 0)
            }
            Does::OpenAt2 => {
                let [flags, _, how] = memory::words(thread, third)?;
                self.opens(thread, low(first), second, low(flags), how)
            }
            Does::Execute => self.executes(thread, process, here, first),
            Does::ExecuteAt => self.executes(thread, process, low(first), second),
            Does::Unmount => {
                self.stand_aside(thread, first);
                None
            }
            Does::ChangeRoot => self.leaves(thread, process),
            Does::Unshare if enters_mounts(low(first)) => self.leaves(thread, process),
            // Without a kind it is whatever the descriptor stands for.
            Does::Enter if low(second) == 0 || enters_mounts(low(second)) => {
                self.leaves(thread, process)
            }
            Does::Unshare | Does::Enter => None,
        }
    }

    /// Whether it could leave is asked when it calls again.
    fn leaves(&mut self, thread: u32, process: u32) -> Option<What> {
        self.known.of(process)?.leaves = Some(thread);
        None
    }

    /// With how its name is looked up, as `openat2` has it.
    fn opens(&mut self, thread: u32, at: u32, name: u64, flags: u32, how: u64) -> Option<What> {
        let name = memory::string(thread, name, &mut self.text)?;
        let name = if how & libc::RESOLVE_IN_ROOT == 0 { name } else { below_root(name)? };
        let whole = whole(thread, at, name)?;
        is_on_a_device(&whole).then_some(What::Opens { whole, flags })
    }

    /// Has what is below a name let go of before its file system is unmounted.
    fn stand_aside(&mut self, thread: u32, name: u64) {
        let here = libc::AT_FDCWD.cast_unsigned();
        let name = memory::string(thread, name, &mut self.text);
        let whole = name.and_then(|name| whole(thread, here, name));
        let Some(whole) = whole else { return };
        let (began, asked) = (self.clock.now(), self.inbox.aside().ask());
        loop {
            let now = self.clock.now();
            self.inbox.stand_aside(now + ASIDE);
            // What is being closed is open no more, and keeps its mount busy all the same.
            let is_done = self.inbox.aside().has_done(asked)
                && !store::does_anything_linger()
                && !has_open_below(&whole);
            if is_done || self.inbox.is_closed() || now.saturating_sub(began) >= ASIDE_MAX {
                return;
            }
            // Nothing tells when a descriptor is closed.
            store::pause(ASIDE_PAUSE);
        }
    }

    fn executes(&mut self, thread: u32, process: u32, at: u32, name: u64) -> Option<What> {
        let name = memory::string(thread, name, &mut self.text)?;
        if let Some(known) = self.known.of(process) {
            known.executes = Some(thread);
        }
        let whole = if name.is_empty() {
            link(thread, &format!("fd/{at}"))?
        } else {
            whole(thread, at, name)?
        };
        let folder = folder(thread).map_or_else(|| Arc::from(&b"/"[..]), Arc::from);
        Some(What::Executes { whole, folder })
    }
}

/// A name seen from the root: joined to the folder that it begins at.
fn whole(thread: u32, at: u32, name: &[u8]) -> Option<Vec<u8>> {
    if name.first()? == &b'/' {
        return Some(name.to_vec());
    }
    let folder = if at == libc::AT_FDCWD.cast_unsigned() {
        folder(thread)
    } else {
        link(thread, &format!("fd/{at}"))
    };
    let folder = folder.filter(|folder| folder.first() == Some(&b'/'))?;
    Some([&folder, &b"/"[..], name].concat())
}

/// A name to which the folder that it begins at is the root, as one that begins there; `None` of one that
/// may mean what is above.
fn below_root(name: &[u8]) -> Option<&[u8]> {
    let leads_up = name.split(|&byte| byte == b'/').any(|part| part == b"..");
    let start = name.iter().position(|&byte| byte != b'/')?;
    (!leads_up).then_some(&name[start..])
}

/// The working folder of a thread. Changes of it are not told, so that it is asked for each time.
fn folder(thread: u32) -> Option<Vec<u8>> {
    link(thread, "cwd")
}

/// Whether this process has a file of a device open in a folder or below; not in all there is, which nobody
/// unmounts but in a place of its own.
fn has_open_below(folder: &[u8]) -> bool {
    let folder = Path::new(OsStr::from_bytes(folder));
    let Ok(listed) = fs::read_dir("/proc/self/fd") else { return false };
    let mut open = listed.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    folder.parent().is_some()
        && open.any(|open| open.starts_with(folder) && is_on_a_device(open.as_os_str().as_bytes()))
}

/// Whether a call with these flags leads to other mounts than ours.
fn enters_mounts(flags: u32) -> bool {
    flags & libc::CLONE_NEWNS.cast_unsigned() != 0
}

/// Where a link of `/proc` about a thread leads to.
pub(super) fn link(thread: u32, name: &str) -> Option<Vec<u8>> {
    let target = fs::read_link(format!("/proc/{thread}/{name}")).ok()?;
    Some(target.into_os_string().into_vec())
}

/// What the program that a thread runs was called with, as far as it is kept.
pub(super) fn arguments(thread: u32) -> Vec<Arc<[u8]>> {
    let text = text(thread, "cmdline", ARGUMENT_BYTES_MAX);
    let whole = text.strip_suffix(b"\0").unwrap_or(&text);
    whole.split(|&byte| byte == 0).take(ARGUMENTS_MAX).map(Arc::from).collect()
}

/// What the kernel tells of a process. Its name need not be text.
pub(super) fn status(thread: u32) -> String {
    String::from_utf8_lossy(&text(thread, "status", STATUS_BYTES)).into_owned()
}

/// What a file of `/proc` about a thread says, up to so many bytes: it says them all at once.
fn text(thread: u32, name: &str, bytes_max: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes_max);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(format!("/proc/{thread}/{name}"), flags, Mode::empty()) {
        // Who ended meanwhile says nothing that matters.
        let _ = rustix::io::read(file, spare_capacity(&mut text));
    }
    text
}

/// A number in `/proc/PID/status`.
pub(super) fn field(status: &str, key: &str) -> Option<u32> {
    words(status, key).next()?.parse().ok()
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::parent_id;

    use super::*;

    #[test]
    fn a_process_whose_name_is_no_text_has_a_parent() {
        let named = std::thread::spawn(|| {
            rustix::thread::set_name(c"\xff").expect("named");
            let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            assert_eq!(field(&status(thread), "PPid:"), Some(parent_id()));
        });
        named.join().expect("it has");
    }

    #[test]
    fn what_this_process_has_open_of_devices_is_below_its_folder_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let has = |path: &Path| has_open_below(path.as_os_str().as_bytes());
        assert!(!has(folder.path()));
        let _file = fs::File::create(folder.path().join("a")).expect("made");
        let _table = fs::File::open("/proc/self/pagemap").expect("there");
        assert!(has(folder.path()) && has(&folder.path().join("a")));
        assert!(!has(&folder.path().join("b")) && !has(Path::new("/proc")) && !has(Path::new("/")));
    }

    #[test]
    fn a_name_below_a_root_of_its_own_leads_to_nothing_above() {
        assert_eq!(below_root(b"//a/..b"), Some(&b"a/..b"[..]));
        assert_eq!(
            (below_root(b"/"), below_root(b"a/../b"), below_root(b"..")),
            (None, None, None)
        );
    }

    #[test]
    fn a_parent_is_the_same_by_a_descriptor_where_that_tells() {
        let own = parents::open(std::process::id()).expect("opened");
        assert!(sys::info(&own).is_none_or(|info| info.parent == parent_id()));
    }
}
