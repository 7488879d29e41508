//! Files that are holes for the most part: data is searched, and of each hole a few of its zeros.
//!
//! That finds the same where no match can have a zero in it or between two of them: a line matches
//! with fewer zeros if and only if it does with all. Where zeros would be printed, all are needed.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use grep::matcher::Matcher;
use grep::searcher::Searcher;
use nearfirst::{Costs, Place};

use super::super::print::{Kind, Nul};
use super::part::{BINARY_HEAD_BYTES, Method};

/// Holes that are passed over: shorter ones are read as fast as they are found.
const HOLE_BYTES_MIN: u64 = 1 << 20;

/// Holes that are worth one thread in place of several.
const HOLES_BYTES_MIN: u64 = 64 << 20;

/// Zeros in place of a hole: a match looks at one beside it at most.
const ZEROS: [u8; 64] = [0; 64];

/// Bytes read at a time.
const BLOCK_BYTES: u64 = 1 << 20;

/// A file and its holes.
#[derive(Debug)]
pub(super) struct Sparse<'a> {
    file: &'a File,
    size: u64,
    holes: Vec<Range<u64>>,
    /// Lines are handed over together with all others of the block in which they end.
    block_bytes: u64,
    /// Bytes in memory, holes included.
    pub(super) near_bytes: u64,
}

/// Some lines of the file. None has a hole in it but the last, which is then the only one, or what
/// precedes it ends in the same block.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    /// Where they are.
    pub(super) range: Range<u64>,
    /// What they are, with fewer zeros.
    pub(super) bytes: &'a [u8],
}

impl<'a> Sparse<'a> {
    /// The holes of a file, if they are most of it, and nothing is lost if they are passed over.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of<M: Matcher>(
        file: &'a File,
        costs: &Costs,
        method: &Method<'_>,
        searcher: &Searcher,
        matcher: &M,
    ) -> io::Result<Option<Self>> {
        let status = costs.local().status(file)?;
        let is_sparse = status.allocated.saturating_add(HOLES_BYTES_MIN) <= status.size
            && status.allocated <= status.size / 2;
        if !is_sparse || status.backing.may_stall() || !is_blind(method, searcher, matcher) {
            return Ok(None);
        }
        // What is not known to be a hole is read.
        let holes = store::holes(file, status.size, HOLE_BYTES_MIN).unwrap_or_default();
        let bytes: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
        if bytes < HOLES_BYTES_MIN || bytes < status.size / 2 {
            return Ok(None);
        }
        let near = costs.file_sleds(file).unwrap_or_default();
        let near = near.iter().filter(|sled| sled.place == Place::Near);
        let near_bytes = near.map(|sled| sled.length).sum();
        // Of a binary file that is left, nothing is printed of the block that shows it.
        let block_bytes = if method.nul == Nul::Leave { BINARY_HEAD_BYTES as u64 } else { 1 };
        Ok(Some(Self { file, size: status.size, holes, block_bytes, near_bytes }))
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of its holes.
    pub(super) fn hole_bytes(&self) -> u64 {
        self.holes.iter().map(|hole| hole.end - hole.start).sum()
    }

    /// Hands the file's lines to `take`, in order, until it says `false`.
    ///
    /// # Errors
    /// Those of reading and of `take`; a file that became shorter meanwhile.
    pub(super) fn lines(
        &self,
        separator: u8,
        mut take: impl FnMut(Lines<'_>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut holes = self.holes.iter().peekable();
        let (mut start, mut at) = (0, 0);
        let mut bytes = Vec::new();
        let mut has_hole = false;
        while at < self.size {
            let data_end = holes.peek().map_or(self.size, |hole| hole.start);
            let known = bytes.len();
            at += self.read(at..data_end, &mut bytes)?;
            // A line with a hole is handed over by itself: its offsets are not those of what follows.
            let end = if has_hole {
                memchr::memchr(separator, &bytes[known..]).map(|end| known + end)
            } else {
                let blocks_end = (at - at % self.block_bytes).saturating_sub(start);
                let whole = usize::try_from(blocks_end).expect("at most what is here");
                memchr::memrchr(separator, &bytes[..whole])
            };
            if let Some(end) = end.map(|end| end + 1) {
                let upto = at - (bytes.len() - end) as u64;
                if !take(Lines { range: start..upto, bytes: &bytes[..end] })? {
                    return Ok(());
                }
                start = upto;
                if std::mem::take(&mut has_hole) {
                    // What follows is cut as if it were read for the first time.
                    at = upto;
                    bytes.clear();
                    continue;
                }
                bytes.drain(..end);
            }
            if at == data_end
                && let Some(hole) = holes.next()
            {
                bytes.extend_from_slice(&ZEROS);
                (at, has_hole) = (hole.end, true);
            }
        }
        if !bytes.is_empty() {
            take(Lines { range: start..at, bytes: &bytes })?;
        }
        Ok(())
    }

    /// Appends the beginning of `range`; how much that is.
    fn read(&self, range: Range<u64>, bytes: &mut Vec<u8>) -> io::Result<u64> {
        let length = (range.end - range.start).min(BLOCK_BYTES);
        let known = bytes.len();
        bytes.resize(known + usize::try_from(length).expect("at most a block"), 0);
        self.file.read_exact_at(&mut bytes[known..], range.start).map_err(|error| {
            match error.kind() {
                io::ErrorKind::UnexpectedEof => io::Error::other("truncated while being read"),
                _ => error,
            }
        })?;
        Ok(length)
    }
}

/// Whether it makes no difference to the search, or to what is printed of it, how many zeros there
/// are in a row.
fn is_blind<M: Matcher>(method: &Method<'_>, searcher: &Searcher, matcher: &M) -> bool {
    let shows_lines = method.format.kind.shows_lines();
    let shows_zeros = shows_lines && (method.nul == Nul::Text || method.format.kind == Kind::Json);
    // Of a line of context its offset is found from the length of what follows.
    let shows_context = shows_lines
        && (searcher.passthru() || searcher.before_context() > 0 || searcher.after_context() > 0);
    let never_zero = matcher.non_matching_bytes().is_some_and(|bytes| bytes.contains(0));
    // Nor may it be found between them, as what matches nothing at all is.
    let never_between = || matches!(matcher.is_match(&ZEROS), Ok(false));
    method.separator != 0 && !shows_zeros && !shows_context && never_zero && never_between()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is handed over of a file of these pieces; `None` is a hole of [`HOLE_BYTES_MIN`].
    fn lines(pieces: &[Option<&str>]) -> Vec<(Range<u64>, String)> {
        let file = tempfile::tempfile().expect("a file");
        let (mut at, mut holes) = (0, Vec::new());
        for piece in pieces {
            at += if let Some(text) = piece {
                file.write_all_at(text.as_bytes(), at).expect("written");
                text.len() as u64
            } else {
                holes.push(at..at + HOLE_BYTES_MIN);
                HOLE_BYTES_MIN
            };
        }
        file.set_len(at).expect("made long");
        let sparse = Sparse { file: &file, size: at, holes, block_bytes: 1, near_bytes: 0 };
        let mut found = Vec::new();
        sparse
            .lines(b'\n', |lines| {
                let text = String::from_utf8_lossy(lines.bytes).replace('\0', "");
                found.push((lines.range, text));
                Ok(true)
            })
            .expect("read");
        found
    }

    #[test]
    fn a_line_with_a_hole_comes_by_itself_and_all_know_where_they_are() {
        const HOLE: u64 = HOLE_BYTES_MIN;
        let found = lines(&[Some("a\nb\nc"), None, Some("d"), None, Some("e\nf\ng\n"), None]);
        let line = |range: Range<u64>, text: &str| (range, text.to_owned());
        let second = 4 + 2 * HOLE + 4;
        let expected = [
            line(0..4, "a\nb\n"),
            line(4..second, "cde\n"),
            line(second..second + 4, "f\ng\n"),
            line(second + 4..second + 4 + HOLE, ""),
        ];
        assert_eq!(found, expected);
        assert_eq!(lines(&[None]), [line(0..HOLE, "")]);
        assert_eq!(
            lines(&[None, Some("\nx")]),
            [line(0..HOLE + 1, "\n"), line(HOLE + 1..HOLE + 2, "x")]
        );
    }
}
