//! What a name that a program used stands for, found without asking any device.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{self as sysfs, AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use rustix::path::DecInt;
use tree::{File, Identity};

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
    known: HashMap<Box<[u8]>, (Duration, Option<File>)>,
    /// The folder of links to what we have open.
    links: Option<OwnedFd>,
}

impl Default for Names {
    fn default() -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let links = sysfs::open("/proc/self/fd", flags, Mode::empty()).ok();
        Self { known: HashMap::new(), links }
    }
}

impl Names {
    /// What a name stands for, as far as the kernel knows it already.
    pub(super) fn find(&mut self, whole: &[u8], now: Duration) -> Found {
        if let Some((at, found)) = self.known.get(whole) {
            let holds = if found.is_some() { HOLDS } else { HOLDS_NOTHING };
            if now.saturating_sub(*at) < holds {
                return found.clone().map_or(Found::NoFile, Found::File);
            }
        }
        let found = self.look(whole);
        let kept = match &found {
            Found::File(file) => Some(file.clone()),
            Found::NoFile => None,
            Found::NotYet => return found,
        };
        if self.known.len() >= NAMES_MAX {
            self.known.clear();
        }
        self.known.insert(whole.into(), (now, kept));
        found
    }

    /// As [`Names::find`], of a name that must stand for what it stands for by now: something is
    /// made or changed by it, or it is run.
    pub(super) fn find_anew(&mut self, whole: &[u8]) -> Found {
        self.known.remove(whole);
        self.look(whole)
    }

    fn look(&self, whole: &[u8]) -> Found {
        let path = OsStr::from_bytes(whole);
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let open = || sysfs::openat2(sysfs::CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
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
        let path = self
            .links
            .as_ref()
            .and_then(|links| sysfs::readlinkat(links, DecInt::from_fd(&handle), Vec::new()).ok());
        let Some(path) = path else { return Found::NoFile };
        let path: Arc<[u8]> = path.to_bytes().into();
        let device = sysfs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        let identity = Some(Identity { device, inode: stat.stx_ino });
        Found::File(File { path, identity, size: Some(stat.stx_size) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{Timespec, Timestamps};
    use testkit::{Facility, Tmpfs, skip_unless};

    use super::*;

    /// What a name stands for, once it was looked up. The kernel answers later where it must note
    /// when a link was read.
    fn find(path: &std::path::Path) -> Found {
        for _ in 0..1000 {
            match Names::default().find(path.as_os_str().as_bytes(), Duration::ZERO) {
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
    fn a_name_without_a_file_is_looked_up_again_after_a_moment_or_once_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let name = path.as_os_str().as_bytes();
        let second = Duration::from_secs(1);
        for (written_by_name, then) in [(false, second), (true, Duration::ZERO)] {
            let mut names = Names::default();
            drop(std::fs::remove_file(&path));
            assert_eq!(names.find(name, Duration::ZERO), Found::NoFile);
            std::fs::write(&path, "").expect("written");
            if written_by_name {
                assert!(matches!(names.find_anew(name), Found::File(_)));
            }
            assert!(matches!(names.find(name, then), Found::File(_)), "{written_by_name}");
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
            let mut names = Names::default();
            let mut look = || names.find_anew(file.as_os_str().as_bytes());
            let missed = (0..50_000).filter(|_| !matches!(look(), Found::File(_))).count();
            is_over.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0);
    }
}
