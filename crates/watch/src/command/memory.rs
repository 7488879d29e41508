//! Strings in the memory of a program that waits.
//!
//! What is not in memory yet is not read where a program may have to bring it: that program may wait
//! for us.

use std::fs::File as Opened;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;

use rustix::event::{PollFd, PollFlags, poll};
use store::{Mount, Mounts};

use super::sys;
use crate::mapped::{Mapping, PRESENT};

/// The longest name the kernel takes, with the NUL that ends it.
const NAME_MAX: usize = 4096;

/// Where a string is read to.
pub(super) struct Text {
    bytes: [u8; NAME_MAX],
    pages: Pages,
}

/// Page tables kept open: to open one costs as much as to answer a call, and two programs at work whose
/// numbers share a place would have it opened for each.
const TABLES: usize = 32;
/// Bytes read first: most names are shorter.
const FIRST_BYTES: usize = 256;
/// Memory comes and ends in pages of this size or of a multiple.
const PAGE: usize = 4096;

/// Mappings among which one is looked for: a program can have millions, and others wait meanwhile.
const MAPPINGS_MAX: usize = 1024;

/// Room for a string.
pub(super) fn text() -> Box<Text> {
    Box::new(Text { bytes: [0; NAME_MAX], pages: Pages::default() })
}

/// A string without the NUL that ends it; `None` if it is not there, or longer than a name can be.
pub(super) fn string(thread: u32, at: u64, text: &mut Text) -> Option<&[u8]> {
    let Text { bytes, pages } = text;
    let mut length = 0;
    while length < NAME_MAX {
        let from = at.checked_add(length as u64)?;
        // What lies beyond the page of a string's end may not be there.
        let page_left = PAGE - usize::try_from(from).ok()? % PAGE;
        let most = if length == 0 { page_left.min(FIRST_BYTES) } else { page_left };
        let end = NAME_MAX.min(length + most);
        if !pages.can_be_read(thread, from) {
            return None;
        }
        let read = sys::read_memory(thread, from, &mut bytes[length..end]).ok()?;
        if let Some(last) = bytes[length..length + read].iter().position(|&byte| byte == 0) {
            return Some(&bytes[..length + last]);
        }
        if read == 0 {
            return None;
        }
        length += read;
    }
    None
}

/// Words that follow one another.
pub(super) fn words<const N: usize>(thread: u32, at: u64) -> Option<[u64; N]> {
    let mut words = [[0; 8]; N];
    let bytes = words.as_flattened_mut();
    let last = at.checked_add(bytes.len() as u64 - 1)?;
    let mut pages = Pages::default();
    if ![at, last].into_iter().all(|at| pages.can_be_read(thread, at)) {
        return None;
    }
    let read = sys::read_memory(thread, at, bytes).ok()?;
    (read == bytes.len()).then(|| words.map(u64::from_ne_bytes))
}

/// Which pages a program has.
#[derive(Debug)]
struct Table {
    thread: u32,
    entries: Opened,
}

impl Table {
    fn open(thread: u32) -> io::Result<Self> {
        Ok(Self { thread, entries: Opened::open(format!("/proc/{thread}/pagemap"))? })
    }

    fn has(&self, at: u64) -> bool {
        let mut entry = [0; size_of::<u64>()];
        let entry_at = at / rustix::param::page_size() as u64 * entry.len() as u64;
        let is_told = self.entries.read_exact_at(&mut entry, entry_at).is_ok();
        is_told && u64::from_ne_bytes(entry) & PRESENT != 0
    }
}

/// What of programs' memory can be read without waiting for another program.
#[derive(Debug, Default)]
struct Pages {
    /// Each in the place of its thread's number.
    tables: [Option<Table>; TABLES],
    mounts: MountTable,
}

impl Pages {
    /// Whether what a program has at `at` is in memory, or comes from a disk.
    fn can_be_read(&mut self, thread: u32, at: u64) -> bool {
        let kept = &mut self.tables[thread as usize % TABLES];
        if kept.as_ref().is_some_and(|table| table.thread == thread && table.has(at)) {
            return true;
        }
        // A table is that of the program which the thread ran when it was opened.
        let table = match Table::open(thread) {
            Ok(table) => table,
            // A kernel without such tables, or a program that is gone.
            Err(error) => return error.kind() == io::ErrorKind::NotFound,
        };
        let has = table.has(at);
        *kept = Some(table);
        has || self.is_on_disk(thread, at)
    }

    /// Whether a file is mapped there whose mount answers: names that are part of a program are read from
    /// it when they are first used. Of other mounts, and where programs handle page faults, another
    /// program may have to bring it, which waits for us or never answers.
    fn is_on_disk(&mut self, thread: u32, at: u64) -> bool {
        let Ok(maps) = Opened::open(format!("/proc/{thread}/maps")) else { return false };
        let mut lines = BufReader::new(maps).split(b'\n').map_while(Result::ok).take(MAPPINGS_MAX);
        let device_at = |line: Vec<u8>| {
            let (_, mapping) = Mapping::parse(&line)?;
            (mapping.start..mapping.end).contains(&at).then_some(mapping.device)
        };
        match lines.find_map(device_at) {
            None => false,
            // Some file systems tell another number than their mount has: they are on disks.
            Some(device) => self.mounts.now().is_ok_and(|mounts| {
                let stalls =
                    |mount: &Mount| mount.major_minor == device && mount.backing.may_stall();
                !mounts.all().iter().any(stalls)
            }),
        }
    }
}

/// What is mounted, read again when that has changed: most programs begin with a name that is not in
/// memory.
#[derive(Debug, Default)]
struct MountTable {
    /// Tells of changes since it was opened.
    changes: Option<Opened>,
    mounts: Mounts,
}

impl MountTable {
    fn now(&mut self) -> io::Result<&Mounts> {
        let is_known = self.changes.as_ref().is_some_and(|changes| !has_changed(changes));
        if !is_known {
            self.changes = None;
            let changes = Opened::open("/proc/self/mountinfo")?;
            self.mounts = Mounts::read()?;
            self.changes = Some(changes);
        }
        Ok(&self.mounts)
    }
}

fn has_changed(mounts: &Opened) -> bool {
    let mut asked = [PollFd::new(mounts, PollFlags::PRI)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)) != Ok(0)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use testkit::{Facility, Tmpfs, skip_unless};

    use super::*;

    fn own() -> u32 {
        std::process::id()
    }

    #[test]
    fn strings_of_any_length_are_read() {
        for length in [0, 1, 255, 256, 257, 4000, 4095] {
            let text = CString::new(vec![b'x'; length]).expect("no NUL");
            let mut room = super::text();
            let read = string(own(), text.as_ptr().addr() as u64, &mut room);
            assert!(read == Some(text.as_bytes()), "{length}");
        }
        let mut room = text();
        for length in [4096, 5000] {
            let long = CString::new(vec![b'x'; length]).expect("no NUL");
            assert!(string(own(), long.as_ptr().addr() as u64, &mut room).is_none(), "{length}");
        }
        assert_eq!(string(own(), 8, &mut room), None, "nothing is there");
    }

    #[test]
    fn words_are_read_in_order() {
        let there = [1_u64, 2, u64::MAX];
        assert_eq!(words(own(), there.as_ptr().addr() as u64), Some(there));
    }

    #[test]
    fn what_is_mounted_meanwhile_is_known() {
        skip_unless!(Facility::Root);
        let mut table = MountTable::default();
        table.now().expect("read");
        let tmpfs = Tmpfs::new(1 << 20);
        let is_it = |mount: &Mount| mount.point == tmpfs.path();
        assert!(table.now().expect("read").all().iter().any(is_it));
    }

    #[test]
    fn what_is_not_in_memory_is_not_waited_for() {
        // So much comes from the system, and nobody touches its middle.
        let untouched = Vec::<u8>::with_capacity(64 << 20);
        let at = untouched.as_ptr().addr() as u64 + (32 << 20);
        assert_eq!(string(own(), at, &mut text()), None);
        assert_eq!(words::<1>(own(), at), None);
    }
}
