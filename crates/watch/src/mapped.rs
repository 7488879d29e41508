//! What programs touch of the files that they have mapped: asked of the kernel now and then, while they
//! run.
//!
//! Around a part that a program touches of a mapped file the kernel reads much more than that. The page
//! cache shows all of it; the program's own page table shows what it came to. That is gone with the
//! program, and nothing tells of its end before: a call that ends a program must not be told, since a
//! signal could interrupt it, and the program go on.

use std::collections::HashMap;
use std::fs::File as Opened;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use store::Clock;

use crate::ranges::{joined, without};

/// Of a page in `/proc/PID/pagemap`: it is in memory, and the process came to it.
pub(crate) const PRESENT: u64 = 1 << 63;
const ENTRY_BYTES: usize = size_of::<u64>();
/// Pages that are asked about at a time.
const ENTRIES: usize = 1 << 13;

/// How often it is looked, at the most: a disk with a head brings one or two parts in this time, and
/// what a program touches after the last look is not known.
const LOOKS_EVERY: Duration = Duration::from_millis(10);
/// How many times as long as a look took none follows.
const RESTS: u32 = 20;
/// A look may come later than the one before by this share of the time since a program opened a file that
/// is of interest: programs touch most when they begin, and some never end.
const LATER: u32 = 100;
/// How long is looked at a time, at the most and but for the last process: what is fetched waits meanwhile.
const LOOK_MAX: Duration = Duration::from_millis(5);

/// Bytes of address space that are looked through of one process, which takes a millisecond: a program
/// may have mapped a small file over terabytes.
const LOOKED_BYTES_MAX: u64 = 1 << 30;
/// Mappings of one process that are looked at, for the same reason.
const MAPPINGS_MAX: usize = 4096;

/// Parts of one file beyond which those that touch are made one, since a thousand processes may come to
/// the same ones, and then so many of the nearest that half as many are left.
const PARTS_MAX: usize = 4096;
/// The smallest space between two parts.
const GAP_BYTES_MIN: u64 = 4096;

/// So much the kernel reads before and after a page that is touched, also of what is not mapped: half of
/// what it reads ahead on a disk with a head.
const READ_AROUND_BYTES: u64 = 1280 << 10;

/// Files that it is to be known of which parts of them programs touch.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    files: HashMap<Arc<[u8]>, Parts>,
    /// When one was added last.
    watched_at: Duration,
    /// When it was looked last, and how long that took.
    looked_at: Duration,
    look_took: Duration,
    /// The process that was looked at last: the next look begins after it.
    last: u32,
}

/// Of a file, what was mapped and what of that was touched.
#[derive(Debug, Default)]
struct Parts {
    /// How often it is to be known.
    watched: usize,
    mapped: Vec<Range<u64>>,
    touched: Vec<Range<u64>>,
}

impl Parts {
    fn bound(&mut self) {
        for parts in [&mut self.mapped, &mut self.touched] {
            if parts.len() <= PARTS_MAX {
                continue;
            }
            *parts = joined(std::mem::take(parts), 0);
            let mut gap = GAP_BYTES_MIN;
            while parts.len() > PARTS_MAX / 2 {
                *parts = joined(std::mem::take(parts), gap);
                gap = gap.saturating_mul(2);
            }
        }
    }
}

impl Mapped {
    /// From now on it is noted what of a file is touched, until it was asked as often.
    pub(crate) fn watch(&mut self, path: &Arc<[u8]>, now: Duration) {
        self.watched_at = now;
        self.files.entry(Arc::clone(path)).or_default().watched += 1;
    }

    /// No file is of interest any more.
    pub(crate) fn clear(&mut self) {
        self.files.clear();
    }

    /// In what time it should be looked next; `None`: there is nothing to look for.
    pub(crate) fn due(&self, now: Duration) -> Option<Duration> {
        let age = self.looked_at.saturating_sub(self.watched_at);
        let pause = LOOKS_EVERY.max(self.look_took * RESTS).max(age / LATER);
        (!self.files.is_empty()).then(|| (self.looked_at + pause).saturating_sub(now))
    }

    /// Looks, if it is time, at as many of these processes as there is time for.
    pub(crate) fn look_at(&mut self, processes: impl Iterator<Item = u32>, clock: &Clock) {
        let begun = clock.now();
        if self.due(begun) != Some(Duration::ZERO) {
            return;
        }
        let mut processes: Vec<_> = processes.collect();
        processes.sort_unstable();
        let first = processes.partition_point(|process| *process <= self.last);
        processes.rotate_left(first);
        (self.looked_at, self.look_took) = (begun, Duration::ZERO);
        for process in processes {
            self.look(process);
            self.last = process;
            self.look_took = clock.now().saturating_sub(begun);
            if self.look_took >= LOOK_MAX {
                break;
            }
        }
    }

    /// Of what is `near` of a file, what was read of it: all but what came with what programs touched,
    /// where they had it mapped and around that. What nobody touched any of was read in another way.
    pub(crate) fn read(&mut self, path: &[u8], near: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let Some(parts) = self.files.get_mut(path) else { return near };
        let around = |part: &Range<u64>| {
            let start = part.start.saturating_sub(READ_AROUND_BYTES);
            start..part.end.saturating_add(READ_AROUND_BYTES)
        };
        let around = joined(parts.mapped.iter().map(around).collect(), 0);
        let touched = joined(parts.touched.clone(), 0);
        parts.watched -= 1;
        if parts.watched == 0 {
            self.files.remove(path);
        }
        let is_touched = |part: &Range<u64>| {
            let next = touched.partition_point(|touched| touched.end <= part.start);
            touched.get(next).is_some_and(|next| next.start < part.end)
        };
        let (came_with, mut read): (Vec<_>, Vec<_>) = near.into_iter().partition(is_touched);
        read.extend(without(came_with, &around));
        read.extend(touched);
        joined(read, 0)
    }

    /// Notes what a process has mapped and touched of the files.
    fn look(&mut self, process: u32) {
        // Where it cannot be asked, the page cache tells less exactly.
        let Ok(maps) = Opened::open(format!("/proc/{process}/maps")) else { return };
        let Ok(pages) = Opened::open(format!("/proc/{process}/pagemap")) else { return };
        let page = rustix::param::page_size() as u64;
        let mut left = LOOKED_BYTES_MAX;
        for line in BufReader::new(maps).split(b'\n').map_while(Result::ok).take(MAPPINGS_MAX) {
            let Some((path, mut mapping)) = Mapping::parse(&line) else { continue };
            let Some(parts) = self.files.get_mut(path) else { continue };
            mapping.end = mapping.end.min(mapping.start.saturating_add(left));
            left -= mapping.end - mapping.start;
            if mapping.start == mapping.end {
                break;
            }
            parts.mapped.push(mapping.offset..mapping.offset + (mapping.end - mapping.start));
            touched(&mapping, &pages, page, &mut parts.touched);
            parts.bound();
        }
    }
}

/// Where a part of a file is mapped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    offset: u64,
    /// Number of the device of the file, as its mount has it.
    pub(crate) device: (u32, u32),
}

impl Mapping {
    /// A line of `/proc/PID/maps`, if it is of a file: `START-END PERMISSIONS OFFSET DEVICE INODE PATH`.
    pub(crate) fn parse(line: &[u8]) -> Option<(&[u8], Self)> {
        let path_at = line.iter().position(|&byte| byte == b'/')?;
        let (numbers, path) = line.split_at(path_at);
        let mut words = str::from_utf8(numbers).ok()?.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(words.nth(1)?)?);
        let (major, minor) = words.next()?.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let device = (number(major)?, number(minor)?);
        (start < end).then_some((path, Self { start, end, offset, device }))
    }
}

/// Adds the parts of a file whose pages a mapping has.
fn touched(mapping: &Mapping, pages: &Opened, page: u64, parts: &mut Vec<Range<u64>>) {
    let mut entries = vec![0_u8; ENTRIES * ENTRY_BYTES];
    let mut at = mapping.start;
    while at < mapping.end {
        let wanted = usize::try_from((mapping.end - at) / page).map_or(ENTRIES, |n| n.min(ENTRIES));
        let room = &mut entries[..wanted.max(1) * ENTRY_BYTES];
        let Ok(read) = pages.read_at(room, at / page * ENTRY_BYTES as u64) else { return };
        if read < ENTRY_BYTES {
            return;
        }
        for entry in room[..read].chunks_exact(ENTRY_BYTES) {
            let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of this size"));
            let from = mapping.offset + (at - mapping.start);
            at += page;
            if entry & PRESENT == 0 {
                continue;
            }
            match parts.last_mut() {
                Some(last) if last.end == from => last.end += page,
                _ => parts.push(from..from + page),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    use testkit::{Dir, hold, noise};

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A file of so many bytes, and its name as the kernel tells it.
    fn large(dir: &Dir, bytes: usize) -> (PathBuf, Arc<[u8]>) {
        let path = dir.create("large", noise(bytes, 1)).canonicalize().expect("there");
        let name = path.as_os_str().as_bytes().into();
        (path, name)
    }

    #[test]
    fn what_a_process_touched_is_told_apart_from_what_is_near() {
        let dir = Dir::new();
        let (path, name) = large(&dir, 16 << 20);
        let mut mapped = Mapped::default();
        let (around, apart, beyond) = (0..12 * MIB, 14 * MIB..15 * MIB, 17 * MIB..18 * MIB);
        let near = vec![around, apart.clone(), beyond.clone()];
        assert_eq!(mapped.read(&name, near.clone()), near, "nothing is known of it");
        for _ in 0..3 {
            mapped.watch(&name, Duration::ZERO);
        }
        let touched = [MIB..MIB + 1, 9 * MIB..10 * MIB];
        let holds = touched.clone().map(|range| hold(&path, range));
        mapped.look(std::process::id());
        drop(holds);
        let read = mapped.read(&name, near.clone());
        let is_read =
            |from: u64, to: u64| read.iter().any(|part| part.start < to && part.end > from);
        assert!(touched.iter().all(|range| is_read(range.start, range.end)), "{read:?}");
        // A touch may bring the huge page that it is in.
        assert!(!is_read(4 * MIB, 8 * MIB), "{read:?}");
        assert!(read.ends_with(&[apart, beyond]), "in another way: {read:?}");
        assert_eq!(mapped.read(&name, near.clone()), read, "as often as it is watched");
        let (past, end) = (9 * MIB..20 * MIB, 16 * MIB + READ_AROUND_BYTES);
        let read = mapped.read(&name, iter::once(past).collect());
        assert_eq!(read.last(), Some(&(end..20 * MIB)), "of what is not mapped: {read:?}");
        assert!(!read.iter().any(|part| part.start < end && part.end > 14 * MIB), "{read:?}");
        assert_eq!(mapped.read(&name, near.clone()), near);
    }

    #[test]
    fn it_is_looked_when_it_is_time_and_at_one_process_after_the_other() {
        let dir = Dir::new();
        let (path, name) = large(&dir, 1 << 20);
        let (clock, mut mapped) = (Clock::manual(), Mapped::default());
        let own = std::process::id();
        let others = [own - 1, own + 1];
        assert_eq!(mapped.due(clock.now()), None);
        clock.advance(LOOKS_EVERY);
        mapped.watch(&name, clock.now());
        let _held = hold(&path, 0..4096);
        let looks = |mapped: &mut Mapped| {
            mapped.look_at(others.into_iter().chain([own]), &clock);
            std::mem::take(&mut mapped.files.get_mut(&name).expect("watched").touched).len()
        };
        assert_eq!((looks(&mut mapped), mapped.last), (1, own + 1));
        assert_eq!(mapped.due(clock.now()), Some(LOOKS_EVERY));
        assert_eq!(looks(&mut mapped), 0, "it is too soon");
        clock.advance(LOOKS_EVERY);
        assert_eq!(looks(&mut mapped), 1);
        clock.advance(100 * LOOKS_EVERY * LATER);
        assert_eq!(looks(&mut mapped), 1);
        assert_eq!(mapped.due(clock.now()), Some(100 * LOOKS_EVERY + LOOKS_EVERY / LATER));
        mapped.watch(&name, clock.now());
        assert_eq!(mapped.due(clock.now()), Some(LOOKS_EVERY));
        mapped.clear();
        assert_eq!(mapped.due(clock.now()), None);
    }

    #[test]
    fn of_scattered_parts_the_nearest_are_made_one() {
        let mut parts = Parts::default();
        for at in 0..3 * PARTS_MAX as u64 {
            parts.touched.push(at * MIB..at * MIB + 4096);
            parts.bound();
            assert!(parts.touched.len() <= PARTS_MAX);
        }
        let all = joined(parts.touched, 0);
        assert!(all.len() >= PARTS_MAX / 4, "{}", all.len());
        assert!(
            (0..3 * PARTS_MAX as u64).all(|at| all.iter().any(|part| part.contains(&(at * MIB))))
        );
    }

    #[test]
    fn what_many_processes_touched_is_kept_once() {
        let dir = Dir::new();
        let (path, name) = large(&dir, 1 << 20);
        let mut mapped = Mapped::default();
        mapped.watch(&name, Duration::ZERO);
        let _held = hold(&path, 0..MIB);
        for _ in 0..=PARTS_MAX {
            mapped.look(std::process::id());
        }
        let parts = &mapped.files[&name];
        assert!(parts.mapped.len() <= PARTS_MAX && parts.touched.len() <= PARTS_MAX);
    }

    #[test]
    fn lines_of_files_are_understood_and_others_are_not() {
        let line = b"7f01a000-7f01c000 r-xp 00003000 fd:01 1234      /usr/lib/a b.so";
        let (start, end, offset, device) = (0x7f01_a000, 0x7f01_c000, 0x3000, (0xfd, 1));
        let mapping = Mapping { start, end, offset, device };
        assert_eq!(Mapping::parse(line), Some((&b"/usr/lib/a b.so"[..], mapping)));
        for line in [&b"7f01a000-7f01c000 rw-p 00000000 00:00 0 [heap]"[..], b"", b"x/y", b"1-/y"] {
            assert_eq!(Mapping::parse(line), None);
        }
    }
}
