//! What was really read of files: asked of the page cache, where that costs little.
//!
//! A file that was far when a process opened it and is partly near when that process ends was read
//! there, readahead included; of what programs have mapped, what they touch may be known better.
//! Closing would be too early: programs map libraries, close them and read them then.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sled::{Device, Place};
use store::{Backing, Costs, Located, Reason};
use tree::{Access, Decision, Event, File, PARTS_BYTES_MIN, Process};

use crate::mapped::Mapped;
use crate::ranges::{bytes, joined};
use crate::recent::Recent;

/// What is touched of smaller files where they are mapped is not looked at: the page cache tells it
/// well enough, and every process that ends waits for the look.
const LARGE_BYTES: u64 = 4 << 20;
/// Above this the answer would take too long: it costs time for each page that is in memory.
const LARGEST_BYTES: u64 = 1 << 30;
/// Files remembered for all processes, and for one.
const FILES_MAX: usize = 1024;
const FILES_OF_ONE_MAX: usize = 16;
/// Names remembered of files that are fetched.
const FETCHED_MAX: usize = 1 << 16;
/// How long the answer holds how much of a large file is near: where that is mixed, asking takes a
/// millisecond, and a build runs the same compiler many times a second.
const ASKED_AGAIN: Duration = Duration::from_secs(1);
/// Parts nearer to each other than this are one: reading across is cheaper than another request.
const GAP_BYTES: u64 = 64 << 10;
/// A file of which more than this share is near at once was not far: of a large one, and of others, of
/// which more may be read already when it is asked.
const LARGE_NEAR_SHARE_MAX: u64 = 8;
const NEAR_SHARE_MAX: u64 = 2;

/// Files that are not small and were far when a process that still runs opened them.
#[derive(Debug)]
pub(crate) struct Parts {
    costs: Arc<Costs>,
    mapped: Mapped,
    files: HashMap<Process, Vec<File>>,
    count: usize,
    /// How many bytes are fetched of files that were not opened since; `None`: all.
    fetched: HashMap<Arc<[u8]>, Option<u64>>,
    /// Files that are not large and were near a moment ago: a build opens the same libraries many
    /// times a second.
    near: Recent,
    /// Of large ones, how many bytes were near, and when that was asked.
    near_bytes: HashMap<Arc<[u8]>, (Duration, u64)>,
    /// FUSE mounts of which it is not known whether they empty a file's cache when it is opened, and
    /// where nothing of a file that was read was in memory. It is asked about no other file there.
    seem_to_empty: HashSet<Device>,
}

impl Parts {
    /// Asks by `costs`, with the rights of this process, which must be those of who opens the files:
    /// no longer than a mount may take to answer, and nothing where opening a file would do harm.
    ///
    /// What programs touch of what they map is known as far as somebody looks ([`Parts::look_at`]).
    pub(crate) fn new(costs: Arc<Costs>) -> Self {
        costs.look_for_leases();
        Self {
            costs,
            mapped: Mapped::default(),
            files: HashMap::new(),
            count: 0,
            fetched: HashMap::new(),
            near: Recent::default(),
            near_bytes: HashMap::new(),
            seem_to_empty: HashSet::new(),
        }
    }

    /// What is to be told before this event, which comes to be known now.
    pub(crate) fn before(&mut self, event: &Event) -> Vec<Event> {
        match event {
            Event::Opened { process, file, access: Access::Read } => self.opened(*process, file),
            Event::Executed { process, program, .. } => self.opened(*process, program),
            Event::Exited { process } => return self.ended(*process),
            Event::Lost { process: None } => {
                self.files.clear();
                self.mapped.clear();
                self.count = 0;
            }
            _ => {}
        }
        Vec::new()
    }

    /// Within what time somebody should look who can; `None`: there is nothing to look for.
    pub(crate) fn look_within(&self) -> Option<Duration> {
        self.mapped.due(self.costs.clock().now())
    }

    /// Looks, if it is time, at what these processes touch of what they map.
    pub(crate) fn look_at(&mut self, processes: impl Iterator<Item = u32>) {
        self.mapped.look_at(processes, self.costs.clock());
    }

    /// What is going to be fetched: of what is fetched whole it cannot be told what is read.
    pub(crate) fn decided(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            let Decision::Fetch(prediction) = decision else { continue };
            if self.fetched.len() >= FETCHED_MAX {
                self.fetched.clear();
            }
            self.fetched.extend(prediction.files.iter().map(|file| {
                let parts = Some(bytes(&file.extents)).filter(|_| !file.extents.is_empty());
                (Arc::clone(&file.path), parts)
            }));
        }
    }

    fn opened(&mut self, process: Process, file: &File) {
        let Some(size) = file.size.filter(|size| (PARTS_BYTES_MIN..LARGEST_BYTES).contains(size))
        else {
            return;
        };
        let files = self.files.get(&process).map_or(&[][..], Vec::as_slice);
        let is_known = files.iter().any(|known| known.path == file.path);
        if self.count >= FILES_MAX || is_known || files.len() >= FILES_OF_ONE_MAX {
            return;
        }
        let (is_large, now) = (size >= LARGE_BYTES, self.costs.clock().now());
        let fetched = self.fetched.remove(&file.path);
        if !is_large {
            if fetched == Some(None) {
                self.near.note(&file.path, now);
            }
            if self.near.is_near(&file.path, now) {
                return;
            }
        }
        if !self.was_far(file, size, fetched.flatten().unwrap_or(0), now) {
            if !is_large {
                self.near.note(&file.path, now);
            }
            return;
        }
        if is_large {
            self.mapped.watch(&file.path, now);
        }
        self.files.entry(process).or_default().push(file.clone());
        self.count += 1;
    }

    /// Whether much of a file has yet to come, beyond the bytes that are `fetched` of it.
    fn was_far(&mut self, file: &File, size: u64, fetched: u64, now: Duration) -> bool {
        let is_large = size >= LARGE_BYTES;
        let share_max = if is_large { LARGE_NEAR_SHARE_MAX } else { NEAR_SHARE_MAX };
        let enough = size.min(fetched + size / share_max);
        if let Some((at, bytes)) = self.near_bytes.get(&file.path)
            && now.saturating_sub(*at) < ASKED_AGAIN
            && *bytes >= enough
        {
            return false;
        }
        let Ok(located) = self.costs.path_located_unseen(path_of(file)) else { return false };
        if located.reason == Some(Reason::OpeningMayEvict) {
            // It is not asked while somebody may read it, but when who opened it has ended.
            return located.device.is_some_and(|device| !self.seem_to_empty.contains(&device));
        }
        let Some(near) = near(located, size) else { return false };
        let near = bytes(&near);
        if is_large {
            if self.near_bytes.len() >= FILES_MAX {
                self.near_bytes.clear();
            }
            self.near_bytes.insert(Arc::clone(&file.path), (now, near));
        }
        near < enough
    }

    fn ended(&mut self, process: Process) -> Vec<Event> {
        let files = self.files.remove(&process).unwrap_or_default();
        self.count -= files.len();
        let mut told = Vec::new();
        for file in files {
            let near = self.near_now(&file).unwrap_or_default();
            let extents = joined(self.mapped.read(&file.path, near), GAP_BYTES);
            if !extents.is_empty() {
                told.push(Event::Touched { process, file, extents });
            }
        }
        told
    }

    /// What of a file is in memory; `None` if nobody says, or if it is another file by now.
    fn near_now(&mut self, file: &File) -> Option<Vec<Range<u64>>> {
        let (opened, status) = self.costs.open_harmless(path_of(file)).ok()?;
        let near = near(self.costs.local().locate(&opened).ok()?, file.size?)?;
        if status.backing == Backing::Fuse {
            if near.is_empty() {
                self.seem_to_empty.insert(status.device);
            } else {
                self.costs.saw_cache_kept(&status.device);
            }
        }
        Some(near)
    }
}

fn path_of(file: &File) -> &Path {
    Path::new(OsStr::from_bytes(&file.path))
}

/// What is near of a file; `None` if that is not told of all of it, or if its size is another one.
fn near(located: Located, size: u64) -> Option<Vec<Range<u64>>> {
    let extents = located.extents;
    let is_known = |place| matches!(place, Place::Near | Place::Far);
    let is_told = extents.iter().all(|extent| is_known(extent.place))
        && extents.last().is_some_and(|last| last.offset + last.length == size);
    let near = extents.into_iter().filter(|extent| extent.place == Place::Near);
    is_told.then(|| near.map(|part| part.offset..part.offset + part.length).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use testkit::{Dir, evict, hold, noise};
    use tree::{Predicted, Prediction, PredictionId, User};

    use super::*;

    fn file(path: &Path) -> File {
        let size = fs::metadata(path).expect("it is there").len();
        File { path: path.as_os_str().as_bytes().into(), identity: None, size: Some(size) }
    }

    fn opens(process: Process, file: &File) -> Event {
        Event::Opened { process, file: file.clone(), access: Access::Read }
    }

    fn fetch(path: &Path, extents: Vec<Range<u64>>) -> Decision {
        let (path, needed_in) = (file(path).path, Duration::ZERO);
        let predicted = Predicted { path, extents, needed_in, chance: 1.0, inode: None };
        let (id, process, user) = (PredictionId(1), Process(1), User(0));
        Decision::Fetch(Prediction { id, process, user, files: vec![predicted] })
    }

    #[test]
    fn of_what_was_far_the_parts_that_came_are_told_when_their_reader_ends() {
        let dir = Dir::new();
        let (large, near) =
            (dir.create("large", noise(8 << 20, 1)), dir.create("near", noise(8 << 20, 2)));
        evict(&large);
        let _near = hold(&near, 0..8 << 20);
        let mut files = Parts::new(Arc::new(Costs::load()));
        let (reader, other) = (Process(1), Process(2));
        assert!(files.before(&opens(reader, &file(&large))).is_empty());
        assert!(files.before(&opens(reader, &file(&near))).is_empty());
        let _read = hold(&large, 1 << 20..2 << 20);
        assert!(files.before(&Event::Exited { process: other }).is_empty());
        let told = files.before(&Event::Exited { process: reader });
        let expected = Event::Touched {
            process: reader,
            file: file(&large),
            extents: vec![Range { start: 1 << 20, end: 2 << 20 }],
        };
        assert_eq!(told, [expected], "what was near before is not told");
        assert!(files.before(&Event::Exited { process: reader }).is_empty());
        assert_eq!(files.count, 0);
    }

    #[test]
    fn of_smaller_files_parts_are_told_too_but_not_of_small_ones_or_of_what_was_fetched_whole() {
        let dir = Dir::new();
        let mut files = Parts::new(Arc::new(Costs::load()));
        let mut told_of = |name: &str, size: u64, fetched: Option<&[Range<u64>]>| {
            let path = dir.create(name, noise(usize::try_from(size).expect("small"), 1));
            evict(&path);
            if let Some(extents) = fetched {
                files.decided(&[fetch(&path, extents.to_vec())]);
            }
            assert!(files.before(&opens(Process(1), &file(&path))).is_empty());
            let _read = hold(&path, 0..4096);
            files.before(&Event::Exited { process: Process(1) }).len()
        };
        assert_eq!(told_of("middling", PARTS_BYTES_MIN, None), 1);
        assert_eq!(told_of("small", PARTS_BYTES_MIN - 1, None), 0);
        assert_eq!(told_of("fetched", 1 << 20, Some(&[])), 0);
        let part = [Range { start: 0, end: 1 << 17 }];
        assert_eq!(told_of("fetched in part", 1 << 20, Some(&part)), 1);
    }

    #[test]
    fn what_is_read_beyond_the_parts_that_were_fetched_is_told() {
        let dir = Dir::new();
        let mut files = Parts::new(Arc::new(Costs::load()));
        for (name, size) in [("middling", 1 << 20), ("large", 8 << 20)] {
            let path = dir.create(name, noise(usize::try_from(size).expect("small"), 1));
            evict(&path);
            let part = Range { start: 0, end: size / 4 * 3 };
            files.decided(&[fetch(&path, vec![part.clone()])]);
            let _fetched = hold(&path, part);
            let process = Process(1);
            assert!(files.before(&opens(process, &file(&path))).is_empty());
            let _read = hold(&path, 0..size);
            let extents = vec![Range { start: 0, end: size }];
            let expected = Event::Touched { process, file: file(&path), extents };
            assert_eq!(files.before(&Event::Exited { process }), [expected], "{name}");
        }
    }

    #[test]
    fn what_is_read_of_a_large_program_itself_is_told_when_it_ends() {
        let dir = Dir::new();
        let program = dir.create("program", noise(8 << 20, 1));
        evict(&program);
        let mut files = Parts::new(Arc::new(Costs::load()));
        let process = Process(1);
        let executed = Event::Executed {
            process,
            program: file(&program),
            arguments: Vec::new(),
            folder: Arc::from(&b"/"[..]),
        };
        assert!(files.before(&executed).is_empty());
        let _read = hold(&program, 0..1 << 20);
        let extents = vec![Range { start: 0, end: 1 << 20 }];
        let expected = Event::Touched { process, file: file(&program), extents };
        assert_eq!(files.before(&Event::Exited { process }), [expected]);
    }

    #[test]
    fn a_file_that_became_another_is_not_told() {
        let dir = Dir::new();
        let large = dir.create("large", noise(8 << 20, 1));
        evict(&large);
        let mut files = Parts::new(Arc::new(Costs::load()));
        assert!(files.before(&opens(Process(1), &file(&large))).is_empty());
        dir.create("large", noise(5 << 20, 1));
        assert!(files.before(&Event::Exited { process: Process(1) }).is_empty());
    }
}
