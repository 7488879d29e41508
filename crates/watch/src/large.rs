//! What was really read of large files: asked of the page cache, where that costs little.
//!
//! A file that was far when a process opened it and is partly near when that process ends was read
//! there, readahead included. Closing would be too early: programs map libraries, close them and read them then.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;

use super::connector::Pid;
use super::opens::{Open, open_known};

/// Smaller files are brought near whole.
const LARGE_BYTES: u64 = 4 << 20;
/// Above this the answer would cost milliseconds (about 50 ns for each page that is in memory).
const LARGEST_BYTES: u64 = 1 << 30;
/// Files remembered for all processes, and for one.
const FILES_MAX: usize = 1024;
const FILES_OF_ONE_MAX: usize = 16;
/// Parts nearer to each other than this are one: reading across is cheaper than another request.
const GAP_BYTES: u64 = 256 << 10;
/// A file of which more than this share is near at once was not far.
const NEAR_SHARE_MAX: u64 = 8;

/// Large files that were far when a process that still runs opened them.
#[derive(Debug, Default)]
pub(crate) struct Large {
    files: HashMap<Pid, Vec<tree::File>>,
    count: usize,
}

/// What was read of a file.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) file: tree::File,
    pub(crate) extents: Vec<Range<u64>>,
}

impl Large {
    /// A file was opened to be read, on a mount that answers.
    pub(crate) fn opened(&mut self, open: &Open) {
        let Some(size) = open.file.size.filter(|size| (LARGE_BYTES..LARGEST_BYTES).contains(size))
        else {
            return;
        };
        if self.count >= FILES_MAX {
            return;
        }
        let files = self.files.entry(open.pid).or_default();
        let is_known = files.iter().any(|file| file.path == open.file.path);
        if is_known || files.len() >= FILES_OF_ONE_MAX {
            return;
        }
        let near = open_known(&open.file).map(|file| bytes(&resident(&file, size)));
        if near.is_some_and(|near| near < size / NEAR_SHARE_MAX) {
            files.push(open.file.clone());
            self.count += 1;
        }
    }

    /// A process ended: what it read of its large files.
    pub(crate) fn ended(&mut self, pid: Pid) -> Vec<Touched> {
        let files = self.files.remove(&pid).unwrap_or_default();
        self.count -= files.len();
        files.into_iter().filter_map(touched).collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn touched(file: tree::File) -> Option<Touched> {
    let open = open_known(&file)?;
    let extents = joined(resident(&open, file.size?));
    (!extents.is_empty()).then_some(Touched { file, extents })
}

fn resident(file: &File, size: u64) -> Vec<Range<u64>> {
    let whole = 0..size;
    let found = store::resident_ranges(file, std::slice::from_ref(&whole)).unwrap_or_default();
    found.into_iter().filter(|(_, near)| *near).map(|(range, _)| range).collect()
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start - last.end < GAP_BYTES => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_almost_touch_are_one() {
        let parts = vec![0..10, 20..30, GAP_BYTES + 30..GAP_BYTES + 40];
        assert_eq!(joined(parts), [0..30, GAP_BYTES + 30..GAP_BYTES + 40]);
    }
}
