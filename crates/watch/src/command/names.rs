//! What a name that a program used stands for, found without waiting for any device but where the
//! kernel does not know it any more.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rustix::fs::{self as sysfs, AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use rustix::path::DecInt;
use rustix::process::Uid;
use rustix::thread::{CapabilitySet, capabilities};
use store::Clock;
use tree::{File, Identity};

use super::aside::Aside;

/// How long a name that was found is taken to stand for the same: a build opens the same headers
/// thousands of times. Who writes one is seen; who puts another in its place is told apart a few
/// seconds later.
const HOLDS: Duration = Duration::from_secs(5);
/// The same of one that stands for no file: a compiler looks for each header in every folder of its
/// path. What is put there by another name meanwhile was just written, and is near.
const HOLDS_NOTHING: Duration = Duration::from_secs(1);
/// How often the kernel is asked for one name: it also says that it has not looked it up where
/// anybody mounts something meanwhile, and a file of which that is believed is not learned.
const TRIES: usize = 8;
/// Names kept; about 300 bytes each.
const NAMES_MAX: usize = 1 << 15;
/// Names that are looked up at a time: each has a thread.
const ASKED_MAX: usize = 16;
/// How long what a program did last waits for names that are looked up. Its mount answered the
/// program a moment ago.
const HEARD_WITHIN: Duration = Duration::from_millis(250);

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A regular file.
    File(File),
    /// Nothing, or what is no regular file.
    NoFile,
    /// The kernel has not looked it up yet: that takes a device.
    NotYet,
}

/// Names that were looked up lately.
#[derive(Debug)]
pub(super) struct Names {
    clock: Clock,
    aside: Arc<Aside>,
    known: HashMap<Box<[u8]>, (Duration, Option<File>)>,
    /// Names that are being looked up as programs do.
    asked: HashMap<Box<[u8]>, Receiver<Found>>,
    /// Whether an answer was waited for in vain, and has not come yet.
    are_silent: bool,
    /// A folder that this process may not enter, and since when that is known: with it in a search
    /// path many names are looked for there.
    closed: Option<(Duration, Box<[u8]>)>,
    /// Who this process is to folders; `None` to whom all are open.
    user: Option<Uid>,
    /// The folder of links to what we have open.
    links: Option<Arc<OwnedFd>>,
}

impl Names {
    /// That looks at nothing while it is to stand aside.
    pub(super) fn new(clock: Clock, aside: Arc<Aside>) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let links = sysfs::open("/proc/self/fd", flags, Mode::empty()).ok().map(Arc::new);
        let (known, asked) = (HashMap::new(), HashMap::new());
        let user = Some(rustix::process::geteuid()).filter(|user| !user.is_root() && !enters_all());
        Self { clock, aside, known, asked, are_silent: false, closed: None, user, links }
    }

    /// What a name stands for, as far as the kernel knows it already.
    pub(super) fn find(&mut self, whole: &[u8]) -> Found {
        if self.asked.contains_key(whole) {
            self.hear(Duration::ZERO);
        }
        if let Some((at, found)) = self.known.get(whole) {
            let holds = if found.is_some() { HOLDS } else { HOLDS_NOTHING };
            if self.clock.now().saturating_sub(*at) < holds {
                return found.clone().map_or(Found::NoFile, Found::File);
            }
        }
        let found = self.look(whole);
        self.keep(whole, &found);
        found
    }

    fn look(&mut self, whole: &[u8]) -> Found {
        if self.stands_aside() {
            return Found::NotYet;
        }
        let now = self.clock.now();
        if let Some((since, folder)) = &self.closed
            && now.saturating_sub(*since) < HOLDS_NOTHING
            && whole.strip_prefix(&**folder).is_some_and(|rest| rest.first() == Some(&b'/'))
        {
            return Found::NoFile;
        }
        let found = look(whole, ResolveFlags::CACHED, self.links.as_deref());
        if found == Found::NotYet
            && let Some(user) = self.user
            && let Some(folder) = closed_above(whole, user)
        {
            self.closed = Some((now, folder.into()));
            return Found::NoFile;
        }
        found
    }

    fn stands_aside(&self) -> bool {
        self.aside.holds(self.clock.now())
    }

    /// As [`Names::find`], of a name that must stand for what it stands for by now: something is
    /// made or changed by it, or it is run.
    pub(super) fn find_anew(&mut self, whole: &[u8]) -> Found {
        self.known.remove(whole);
        self.look(whole)
    }

    /// Has a name looked up that the kernel knew and does not know any more, as file systems may let
    /// names expire at once; [`Names::find`] finds what comes of that. Whether it is looked up.
    pub(super) fn ask(&mut self, whole: &[u8]) -> bool {
        self.hear(Duration::ZERO);
        if self.asked.contains_key(whole) {
            return true;
        }
        if self.asked.len() >= ASKED_MAX || self.stands_aside() {
            return false;
        }
        let (name, links) = (whole.to_vec(), self.links.clone());
        // Links of processes to what they have open would mean ours.
        let call = move || look(&name, ResolveFlags::NO_MAGICLINKS, links.as_deref());
        let asked = store::begun(call).map(|answer| self.asked.insert(whole.into(), answer));
        asked.is_ok()
    }

    /// As [`Names::find_anew`], also if the kernel does not know the name any more.
    pub(super) fn find_out(&mut self, whole: &[u8]) -> Found {
        let found = self.find_anew(whole);
        if found != Found::NotYet || !self.ask(whole) {
            return found;
        }
        self.wait();
        self.find(whole)
    }

    /// Waits a moment for all names that are looked up: who used them is about to be gone.
    pub(super) fn wait(&mut self) {
        self.hear(HEARD_WITHIN);
        self.are_silent = !self.asked.is_empty();
    }

    /// Takes answers that come within so long; whether any did.
    pub(super) fn hear(&mut self, within: Duration) -> bool {
        let asked = std::mem::take(&mut self.asked);
        let (count, end) = (asked.len(), self.clock.now() + within);
        for (name, answer) in asked {
            let left = end.saturating_sub(self.clock.now());
            let patience = if self.are_silent { Duration::ZERO } else { left };
            match answer.recv_timeout(patience) {
                Ok(found) => self.keep(&name, &found),
                Err(RecvTimeoutError::Timeout) => drop(self.asked.insert(name, answer)),
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        self.are_silent &= !self.asked.is_empty();
        self.asked.len() < count
    }

    fn keep(&mut self, whole: &[u8], found: &Found) {
        let kept = match found {
            Found::File(file) => Some(file.clone()),
            Found::NoFile => None,
            Found::NotYet => return,
        };
        if self.known.len() >= NAMES_MAX {
            self.known.clear();
        }
        self.known.insert(whole.into(), (self.clock.now(), kept));
    }
}

fn look(whole: &[u8], how: ResolveFlags, links: Option<&OwnedFd>) -> Found {
    let path = OsStr::from_bytes(whole);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open = || sysfs::openat2(sysfs::CWD, path, flags, Mode::empty(), how);
    let mut answers = std::iter::repeat_with(open).take(TRIES);
    let answer = answers.find(|answer| !matches!(answer, Err(Errno::AGAIN)));
    let Some(answer) = answer else { return Found::NotYet };
    let handle = match answer {
        Ok(handle) => handle,
        // Before Linux 5.12: then names are looked up as others look them up.
        Err(Errno::INVAL) => match sysfs::open(path, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(_) => return Found::NoFile,
        },
        Err(_) => return Found::NoFile,
    };
    let at = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let mask = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE;
    let Ok(stat) = sysfs::statx(&handle, "", at, mask) else { return Found::NoFile };
    if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::RegularFile {
        return Found::NoFile;
    }
    // The kernel's own name for it, without links and dots.
    let path =
        links.and_then(|links| sysfs::readlinkat(links, DecInt::from_fd(&handle), Vec::new()).ok());
    let Some(path) = path else { return Found::NoFile };
    let path: Arc<[u8]> = path.to_bytes().into();
    let device = sysfs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    let identity = Some(Identity { device, inode: stat.stx_ino });
    Found::File(File { path, identity, size: Some(stat.stx_size) })
}

/// The folder on the way to a name that nobody but its owner may enter, if that is not this user: the
/// kernel says of what is below only that it has not looked it up. Of folders of a disk, as servers may
/// let others in than the bits say.
fn closed_above(whole: &[u8], own: Uid) -> Option<&[u8]> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let slashes = whole.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
    for (at, _) in slashes {
        let path = OsStr::from_bytes(&whole[..at]);
        let how = ResolveFlags::CACHED;
        let folder = sysfs::openat2(sysfs::CWD, path, flags, Mode::empty(), how).ok()?;
        let at_once = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = sysfs::statx(&folder, "", at_once, StatxFlags::MODE | StatxFlags::UID).ok()?;
        let entered_by = Mode::from_raw_mode(stat.stx_mode.into());
        // What a list of rights grants to others is within the group's bits.
        if stat.stx_dev_major != 0
            && stat.stx_uid != own.as_raw()
            && !entered_by.intersects(Mode::XGRP | Mode::XOTH)
        {
            return Some(&whole[..at]);
        }
    }
    None
}

/// Whether this process may enter folders whatever they say.
fn enters_all() -> bool {
    let rights = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    capabilities(None).is_ok_and(|has| has.effective.intersects(rights))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{Timespec, Timestamps};
    use rustix::thread::set_thread_res_uid;
    use testkit::{Facility, Tmpfs, skip_unless};

    use super::*;

    /// What a name stands for, once it was looked up. The kernel answers later where it must note
    /// when a link was read.
    fn find(path: &std::path::Path) -> Found {
        for _ in 0..1000 {
            match Names::new(Clock::real(), Arc::default()).find(path.as_os_str().as_bytes()) {
                Found::NotYet => drop(std::fs::metadata(path)),
                found => return found,
            }
        }
        Found::NotYet
    }

    #[test]
    fn a_file_is_found_by_any_name_and_nothing_else_is_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        std::fs::write(&file, "12345").expect("written");
        std::os::unix::fs::symlink(&file, folder.path().join("link")).expect("linked");
        // Never read since it was made: who follows it has that noted.
        let [read, made] = [1, 2].map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
        let times = Timestamps { last_access: read, last_modification: made };
        let link = folder.path().join("link");
        sysfs::utimensat(sysfs::CWD, &link, &times, AtFlags::SYMLINK_NOFOLLOW).expect("set");
        let name = folder.path().file_name().expect("a name");
        let detour = folder.path().join("..").join(name).join("link");
        let Found::File(found) = find(&detour) else { panic!("not found") };
        let real = file.canonicalize().expect("there");
        assert_eq!(&*found.path, real.as_os_str().as_bytes());
        assert_eq!(found.size, Some(5));
        assert_eq!(find(folder.path()), Found::NoFile);
        assert_ne!(find(&folder.path().join("none")), Found::File(found));
    }

    #[test]
    fn below_a_folder_that_others_may_not_enter_there_is_no_file() {
        skip_unless!(Facility::Root);
        let folder = tempfile::tempdir().expect("a folder");
        let device = std::fs::metadata(folder.path()).expect("there").dev();
        let is_on_disk = sysfs::major(device) != 0;
        for (mode, is_closed) in [(0o711, false), (0o700, is_on_disk)] {
            std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("ours");
            let name = folder.path().join("none");
            let other = std::thread::spawn(move || {
                // Of this thread alone.
                set_thread_res_uid(Uid::ROOT, Uid::from_raw(65534), Uid::ROOT).expect("root may");
                let mut names = Names::new(Clock::real(), Arc::default());
                drop(std::fs::metadata(&name));
                let found = names.find(name.as_os_str().as_bytes());
                (found, names.closed.is_some())
            });
            let (found, has_closed) = other.join().expect("found");
            assert_eq!(has_closed, is_closed);
            assert!(found == Found::NoFile || !is_on_disk);
        }
    }

    #[test]
    fn a_name_without_a_file_is_looked_up_again_after_a_moment_or_once_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let name = path.as_os_str().as_bytes();
        let second = Duration::from_secs(1);
        for (written_by_name, passes) in [(false, second), (true, Duration::ZERO)] {
            let clock = Clock::manual();
            let mut names = Names::new(clock.clone(), Arc::default());
            drop(std::fs::remove_file(&path));
            assert_eq!(names.find(name), Found::NoFile);
            std::fs::write(&path, "").expect("written");
            if written_by_name {
                assert!(matches!(names.find_anew(name), Found::File(_)));
            }
            clock.advance(passes);
            assert!(matches!(names.find(name), Found::File(_)), "{written_by_name}");
        }
    }

    #[test]
    fn a_name_that_was_looked_up_is_found_while_others_mount() {
        skip_unless!(Facility::Root);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a");
        std::fs::write(&file, "").expect("written");
        let is_over = AtomicBool::new(false);
        let missed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(Tmpfs::new(1 << 20));
                }
            });
            let mut names = Names::new(Clock::real(), Arc::default());
            let mut look = || names.find_anew(file.as_os_str().as_bytes());
            let missed = (0..50_000).filter(|_| !matches!(look(), Found::File(_))).count();
            is_over.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0);
    }
}
