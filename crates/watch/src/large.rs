//! What was really read of large files: asked of the page cache, where that costs little.
//!
//! A file that was far when a process opened it and is partly near when that process ends was read
//! there, readahead included; of what programs have mapped, what they touch may be known better. Closing would be too early: programs map libraries, close them and read them then.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use sled::Place;
use store::Costs;
use tree::{Access, Event, File, Process};

use crate::mapped::Mapped;
use crate::ranges::{bytes, joined};

/// Smaller files are brought near whole.
const LARGE_BYTES: u64 = 4 << 20;
/// Above this the answer would take too long: it costs time for each page that is in memory.
const LARGEST_BYTES: u64 = 1 << 30;
/// Files remembered for all processes, and for one.
const FILES_MAX: usize = 1024;
const FILES_OF_ONE_MAX: usize = 16;
/// Parts nearer to each other than this are one: reading across is cheaper than another request.
const GAP_BYTES: u64 = 64 << 10;
/// A file of which more than this share is near at once was not far.
const NEAR_SHARE_MAX: u64 = 8;

/// Large files that were far when a process that still runs opened them.
#[derive(Debug)]
pub(crate) struct Large {
    costs: Arc<Costs>,
    mapped: Arc<Mapped>,
    files: HashMap<Process, Vec<File>>,
    count: usize,
}

impl Large {
    /// Asks by `costs`, with the rights of this process, which must be those of who opens the files:
    /// no longer than a mount may take to answer, and nothing where opening a file would do harm.
    ///
    /// What programs touch of what they map is in `mapped`, as far as somebody looks.
    pub(crate) fn new(costs: Arc<Costs>, mapped: Arc<Mapped>) -> Self {
        Self { costs, mapped, files: HashMap::new(), count: 0 }
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

    fn opened(&mut self, process: Process, file: &File) {
        let Some(size) = file.size.filter(|size| (LARGE_BYTES..LARGEST_BYTES).contains(size))
        else {
            return;
        };
        let files = self.files.get(&process).map_or(&[][..], Vec::as_slice);
        let is_known = files.iter().any(|known| known.path == file.path);
        if self.count >= FILES_MAX || is_known || files.len() >= FILES_OF_ONE_MAX {
            return;
        }
        let near = self.near(file, size).map(|ranges| bytes(&ranges));
        if near.is_some_and(|near| near < size / NEAR_SHARE_MAX) {
            self.mapped.watch(&file.path);
            self.files.entry(process).or_default().push(file.clone());
            self.count += 1;
        }
    }

    fn ended(&mut self, process: Process) -> Vec<Event> {
        let files = self.files.remove(&process).unwrap_or_default();
        self.count -= files.len();
        let touched = |file: File| {
            let near = self.near(&file, file.size?).unwrap_or_default();
            let extents = joined(self.mapped.read(&file.path, near), GAP_BYTES);
            (!extents.is_empty()).then_some(Event::Touched { process, file, extents })
        };
        files.into_iter().filter_map(touched).collect()
    }

    /// What of a file is in memory; `None` if nobody says, or if it is another file by now.
    fn near(&self, file: &File, size: u64) -> Option<Vec<Range<u64>>> {
        let path = Path::new(OsStr::from_bytes(&file.path));
        let extents = self.costs.path_located(path).ok()?.extents;
        let is_known = |place| matches!(place, Place::Near | Place::Far);
        let is_told = extents.iter().all(|extent| is_known(extent.place))
            && extents.last().is_some_and(|last| last.offset + last.length == size);
        let near = extents.into_iter().filter(|extent| extent.place == Place::Near);
        is_told.then(|| near.map(|part| part.offset..part.offset + part.length).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::{Dir, evict, make_near, noise};

    use super::*;

    fn file(path: &Path) -> File {
        let size = fs::metadata(path).expect("it is there").len();
        File { path: path.as_os_str().as_bytes().into(), identity: None, size: Some(size) }
    }

    fn opens(process: Process, file: &File) -> Event {
        Event::Opened { process, file: file.clone(), access: Access::Read }
    }

    #[test]
    fn of_what_was_far_the_parts_that_came_are_told_when_their_reader_ends() {
        let dir = Dir::new();
        let (large, near) =
            (dir.create("large", noise(8 << 20, 1)), dir.create("near", noise(8 << 20, 2)));
        evict(&large);
        let mut files = Large::new(Arc::new(Costs::load()), Arc::default());
        let (reader, other) = (Process(1), Process(2));
        assert!(files.before(&opens(reader, &file(&large))).is_empty());
        assert!(files.before(&opens(reader, &file(&near))).is_empty());
        make_near(&large, 1 << 20..2 << 20);
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
    fn what_is_read_of_a_large_program_itself_is_told_when_it_ends() {
        let dir = Dir::new();
        let program = dir.create("program", noise(8 << 20, 1));
        evict(&program);
        let mut files = Large::new(Arc::new(Costs::load()), Arc::default());
        let process = Process(1);
        let executed = Event::Executed {
            process,
            program: file(&program),
            arguments: Vec::new(),
            folder: Arc::from(&b"/"[..]),
        };
        assert!(files.before(&executed).is_empty());
        make_near(&program, 0..1 << 20);
        let extents = vec![Range { start: 0, end: 1 << 20 }];
        let expected = Event::Touched { process, file: file(&program), extents };
        assert_eq!(files.before(&Event::Exited { process }), [expected]);
    }

    #[test]
    fn a_file_that_became_another_is_not_told() {
        let dir = Dir::new();
        let large = dir.create("large", noise(8 << 20, 1));
        evict(&large);
        let mut files = Large::new(Arc::new(Costs::load()), Arc::default());
        assert!(files.before(&opens(Process(1), &file(&large))).is_empty());
        dir.create("large", noise(5 << 20, 1));
        assert!(files.before(&Event::Exited { process: Process(1) }).is_empty());
    }
}
