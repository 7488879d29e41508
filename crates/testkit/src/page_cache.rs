//! Putting parts of files into the page cache, out of it, and asking what is there.

#![expect(unsafe_code, reason = "mapping a file, and mincore, which has no safe form")]

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr::{self, NonNull};

use rustix::fs::Advice;
use rustix::mm::{MapFlags, ProtFlags};

/// The kernel's number of file systems that are kept in memory.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Read at once by [`make_near`]; a multiple of every page size.
const NEAR_STEP_BYTES: usize = 1 << 20;

/// Empties the page cache of a file: writes it out, then drops its pages.
///
/// Panics if pages stay, which happens only to those that someone has mapped or locked, and to all
/// that [lie in memory](lies_in_memory).
#[track_caller]
pub fn evict(path: impl AsRef<Path>) {
    let path = path.as_ref();
    assert!(
        !(residency_can_be_seen() && lies_in_memory(path)),
        "{} lies in memory and cannot leave it: set TMPDIR to a folder on a disk",
        path.display()
    );
    let file = open(path);
    match file.sync_all() {
        // A read-only file system such as squashfs has nothing to write out, and says so.
        Err(e) if e.kind() != std::io::ErrorKind::InvalidInput => panic!("{}: {e}", path.display()),
        _ => {}
    }
    // A page that somebody is at for a moment stays, and goes the next time.
    crate::wait::until(&format!("{} to leave memory: is it mapped?", path.display()), || {
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("a file takes advice");
        !residency_can_be_seen() || resident_bytes(path) == 0
    });
}

/// Whether a file or a folder is on a file system that is kept in memory (tmpfs).
#[track_caller]
pub fn lies_in_memory(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let told = rustix::fs::statfs(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    told.f_type == TMPFS_MAGIC
}

/// Brings exactly the pages of `range` into memory, without readahead beyond it.
#[track_caller]
pub fn make_near(path: impl AsRef<Path>, range: Range<u64>) {
    let path = path.as_ref();
    let file = open(path);
    let length = file.metadata().expect("an open file has metadata").len();
    let page = page_bytes() as u64;
    // With this advice a read brings the pages that it asks for and no more.
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("a file takes advice");
    let mut buffer = vec![0; NEAR_STEP_BYTES];
    let end = range.end.min(length).next_multiple_of(page);
    let mut at = range.start / page * page;
    while at < end {
        let step = usize::try_from(end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = file.read_at(&mut buffer[..step], at);
        read.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        at += step as u64;
    }
}

/// How many bytes of the file are in memory, counted in whole pages and cut at the file's end.
///
/// The kernel tells the truth only about files that one owns or may write, and to root.
#[track_caller]
pub fn resident_bytes(path: impl AsRef<Path>) -> u64 {
    let path = path.as_ref();
    let length =
        std::fs::metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).len();
    let page = page_bytes() as u64;
    let pages = resident_pages(path);
    let resident = pages.iter().zip(0_u64..).filter(|(resident, _)| **resident);
    resident.map(|(_, at)| (length - at * page).min(page)).sum()
}

/// Whether all pages of `range` are in memory.
#[track_caller]
pub fn is_resident(path: impl AsRef<Path>, range: Range<u64>) -> bool {
    let page = page_bytes() as u64;
    let pages = resident_pages(path.as_ref());
    let wanted = (range.start / page)..range.end.div_ceil(page);
    wanted.into_iter().all(|n| usize::try_from(n).is_ok_and(|n| pages.get(n) == Some(&true)))
}

/// Waits until each page of `ranges` has been in memory, not all at once: some hosts take pages of
/// their guests.
#[track_caller]
pub fn until_come(path: impl AsRef<Path>, ranges: impl IntoIterator<Item = Range<u64>>) {
    let path = path.as_ref();
    let page = page_bytes() as u64;
    let pages = |range: Range<u64>| range.start / page..range.end.div_ceil(page);
    let mut missing: Vec<_> = ranges.into_iter().flat_map(pages).collect();
    crate::wait::until(&format!("{} to come into memory", path.display()), || {
        let resident = resident_pages(path);
        missing.retain(|&n| usize::try_from(n).is_ok_and(|n| resident.get(n) != Some(&true)));
        missing.is_empty()
    });
}

/// For each page of the file, whether it is in memory.
#[track_caller]
fn resident_pages(path: &Path) -> Vec<bool> {
    let Some(map) = Mapping::new(path, MapFlags::SHARED) else { return Vec::new() };
    let mut pages = vec![0_u8; map.length.div_ceil(page_bytes())];
    // SAFETY: the range is one live mapping, and `pages` has a byte for each of its pages.
    let done = unsafe { libc::mincore(map.start.as_ptr(), map.length, pages.as_mut_ptr()) };
    assert_eq!(done, 0, "{}: {}", path.display(), std::io::Error::last_os_error());
    pages.into_iter().map(|flags| flags & 1 == 1).collect()
}

/// Keeps the resident pages of a file in memory while it lives.
///
/// Some hosts page out the unmapped page cache of their guests when it is idle; mapped pages stay.
#[derive(Debug)]
pub struct Hold {
    _mapping: Option<Mapping>,
}

/// Maps the file and touches `range`, so that its pages come and stay; see [`Hold`].
#[track_caller]
pub fn hold(path: impl AsRef<Path>, range: Range<u64>) -> Hold {
    let path = path.as_ref();
    make_near(path, range.clone());
    let mapping = Mapping::new(path, MapFlags::SHARED);
    if let Some(mapping) = &mapping {
        // Without it the fault of one page maps and fetches its neighbours.
        mapping.advise_random();
        let start = usize::try_from(range.start).expect("a range of a mapped file");
        let end = usize::try_from(range.end).map_or(mapping.length, |end| end.min(mapping.length));
        for at in (start..end).step_by(page_bytes()) {
            mapping.touch(at);
        }
    }
    Hold { _mapping: mapping }
}

/// A whole file mapped for reading.
#[derive(Debug)]
struct Mapping {
    start: NonNull<libc::c_void>,
    length: usize,
}

impl Mapping {
    /// `None`: the file is empty.
    #[track_caller]
    fn new(path: &Path, flags: MapFlags) -> Option<Self> {
        let file = open(path);
        let length = file.metadata().expect("an open file has metadata").len();
        let length = usize::try_from(length).expect("a file that fits into the address space");
        if length == 0 {
            return None;
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), length, ProtFlags::READ, flags, &file, 0) };
        let start = start.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Some(Self { start: NonNull::new(start).expect("mmap returns no null"), length })
    }

    fn advise_random(&self) {
        // SAFETY: the range is this live mapping, and the advice changes no content.
        let advised = unsafe {
            rustix::mm::madvise(self.start.as_ptr(), self.length, rustix::mm::Advice::Random)
        };
        advised.expect("a mapping takes advice");
    }

    fn touch(&self, at: usize) {
        assert!(at < self.length);
        // SAFETY: inside this live mapping; the file keeps its length while a test holds it, or the
        // test ends with SIGBUS, which is a failure all the same.
        unsafe { ptr::read_volatile(self.start.as_ptr().cast::<u8>().add(at)) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it.
        unsafe { rustix::mm::munmap(self.start.as_ptr(), self.length) }.ok();
    }
}

fn residency_can_be_seen() -> bool {
    rustix::process::geteuid().is_root()
}

fn page_bytes() -> usize {
    rustix::param::page_size()
}

#[track_caller]
fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dir, Facility, Tmpfs, noise, skip_unless};

    #[test]
    fn pages_come_and_go_as_told() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let page = page_bytes() as u64;
        let length = 64 * page + 100;
        let path = dir.create("a", noise(usize::try_from(length).unwrap(), 1));
        evict(&path);
        assert_eq!(resident_bytes(&path), 0);
        make_near(&path, 10 * page + 1..12 * page);
        assert_eq!(resident_bytes(&path), 2 * page);
        assert!(is_resident(&path, 10 * page..12 * page));
        assert!(!is_resident(&path, 9 * page..12 * page));
        make_near(&path, 64 * page..length);
        assert_eq!(resident_bytes(&path), 2 * page + 100);
    }

    #[test]
    fn what_is_held_stays_when_dropped_from_the_cache() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let page = page_bytes() as u64;
        let path = dir.create("a", noise(32 * page_bytes(), 1));
        evict(&path);
        let held = hold(&path, 0..4 * page);
        let file = open(&path);
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(resident_bytes(&path), 4 * page);
        drop(held);
        evict(&path);
    }

    #[test]
    fn what_lies_in_memory_is_not_waited_for() {
        skip_unless!(Facility::Root);
        let memory = Tmpfs::new(1 << 20);
        let path = memory.path().join("a");
        std::fs::write(&path, "a").unwrap();
        let panic = std::panic::catch_unwind(|| evict(&path)).unwrap_err();
        let said = panic.downcast_ref::<String>().unwrap();
        assert!(said.contains("lies in memory"), "{said}");
        let folder = Facility::Disk(memory.path());
        assert!(crate::missing([folder]).is_some_and(|why| why.ends_with(" lies in memory")));
        assert_eq!(crate::missing([Facility::Disk("/proc".as_ref())]), None);
    }
}
