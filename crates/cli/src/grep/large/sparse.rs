//! Files that are holes for the most part: data is searched, and of each hole a few of its zeros.
//!
//! That finds the same where no match can have a zero in it or between two of them: a line matches
//! with fewer zeros if and only if it does with all. Of a line that is printed, as a match or beside
//! one, the zeros are written without being read, but in base64. Where NUL bytes end lines, a hole is
//! as many empty ones.

use std::io;
use std::iter::Peekable;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::slice;

use grep::matcher::Matcher;
use grep::searcher::Searcher;
use nearfirst::fetch::{self, ScanReport, Source};
use nearfirst::{Backing, Place, Status};

use super::super::print::{Kind, Nul};
use super::part::{BINARY_HEAD_BYTES, Method, seen};

/// Holes that are passed over: shorter ones are read as fast as they are found.
const HOLE_BYTES_MIN: u64 = 1 << 20;

/// Holes that are worth one thread in place of several.
const HOLES_BYTES_MIN: u64 = 64 << 20;

/// Zeros in place of a hole: a match looks at one beside it at most.
const ZEROS: [u8; 64] = [0; 64];

/// Bytes read at a time.
const BLOCK_BYTES: u64 = 1 << 20;

/// A line with more data than this is not copied: it is searched where it is, zeros and all.
const SHORT_BYTES_MAX: u64 = 64 << 20;

/// A file and its holes.
#[derive(Debug)]
pub(super) struct Sparse<'a> {
    source: Source<'a>,
    status: Status,
    holes: Vec<Range<u64>>,
    /// Lines are handed over together with all others of the block in which they end.
    block_bytes: u64,
    /// Bytes in memory, holes included.
    near_bytes: u64,
}

/// A part of the file.
#[derive(Debug)]
pub(super) enum Stretch<'a> {
    /// Whole lines, without a large hole or with all its zeros.
    Lines { range: Range<u64>, bytes: &'a [u8] },
    /// A line with holes, and what precedes it in its block.
    WithHoles(Stretched<'a>),
    /// A hole where each byte ends an empty line.
    Empty(Range<u64>),
}

/// A line with holes.
#[derive(Debug)]
pub(in crate::grep) struct Stretched<'a> {
    /// Where it is.
    pub(in crate::grep) range: Range<u64>,
    /// What it is, with fewer zeros.
    pub(in crate::grep) short: &'a [u8],
    /// Where in it zeros are left out, and how many.
    gaps: &'a [(usize, u64)],
}

impl Stretched<'_> {
    /// Where in the whole line a place of the short form is that is not among zeros.
    pub(in crate::grep) fn place(&self, at: usize) -> usize {
        let gaps = self.gaps.iter().take_while(|(gap, _)| *gap <= at);
        at + usize::try_from(gaps.map(|(_, bytes)| bytes).sum::<u64>()).expect("within the file")
    }
}

impl<'a> Sparse<'a> {
    /// The holes of a file, if they are most of it, and nothing is lost if they are passed over.
    /// `avoids_nul`: no match can have a NUL byte in it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn of<M: Matcher>(
        source: Source<'a>,
        method: &Method<'_>,
        searcher: &Searcher,
        matcher: &M,
        avoids_nul: bool,
    ) -> io::Result<Option<Self>> {
        let status = source.costs.local().status(source.file)?;
        let is_sparse = status.allocated.saturating_add(HOLES_BYTES_MIN) <= status.size
            && status.allocated <= status.size / 2;
        if !is_sparse
            || status.backing.may_stall()
            || !may_pass_over(method, searcher, matcher, avoids_nul)
            // There a hole that is looked at is filled.
            || (status.backing == Backing::Memory && method.format.kind.shows_lines())
        {
            return Ok(None);
        }
        // What is not known to be a hole is read.
        let holes = store::holes(source.file, status.size, HOLE_BYTES_MIN).unwrap_or_default();
        let bytes: u64 = holes.iter().map(|hole| hole.end - hole.start).sum();
        if bytes < HOLES_BYTES_MIN || bytes < status.size / 2 {
            return Ok(None);
        }
        let near = source.costs.file_sleds(source.file).unwrap_or_default();
        let near = near.iter().filter(|sled| sled.place == Place::Near);
        let near_bytes = near.map(|sled| sled.length).sum::<u64>().clamp(bytes, status.size);
        // Of a binary file that is left, nothing is printed of the block that shows it.
        let block_bytes = if method.nul == Nul::Leave { BINARY_HEAD_BYTES as u64 } else { 1 };
        Ok(Some(Self { source, status, holes, block_bytes, near_bytes }))
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.status.size
    }

    /// Its holes, in file order.
    pub(super) fn holes(&self) -> &[Range<u64>] {
        &self.holes
    }

    /// Bytes of its holes.
    fn hole_bytes(&self) -> u64 {
        self.holes.iter().map(|hole| hole.end - hole.start).sum()
    }

    /// How its bytes came, once they are all searched.
    pub(super) fn report(&self, estimates: bool) -> ScanReport {
        let (size, near_bytes, hole_bytes) = (self.size(), self.near_bytes, self.hole_bytes());
        let near = near_bytes - hole_bytes;
        let (saved_bytes, saved_s) = fetch::saved(&self.source, &self.status, near, estimates);
        let mut report = ScanReport::default();
        report.size = size;
        report.near_bytes = near_bytes;
        report.hole_bytes = hole_bytes;
        report.far_bytes = size - near_bytes;
        report.saved_bytes = saved_bytes;
        report.saved_s = saved_s;
        report
    }

    /// Hands the file's lines to `take`, in order, until it says `false`.
    ///
    /// # Errors
    /// Those of reading and of `take`; a file that became shorter meanwhile.
    pub(super) fn lines(
        &self,
        separator: u8,
        take: impl FnMut(Stretch<'_>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let holes = self.holes.iter().peekable();
        Pass { sparse: self, separator, take, holes, block: Vec::new() }.lines()
    }
}

/// One way through the file.
struct Pass<'a, F> {
    sparse: &'a Sparse<'a>,
    separator: u8,
    /// Takes what was found; says whether to go on.
    take: F,
    /// Those that are still ahead.
    holes: Peekable<slice::Iter<'a, Range<u64>>>,
    /// What was read last.
    block: Vec<u8>,
}

impl<F: FnMut(Stretch<'_>) -> io::Result<bool>> Pass<'_, F> {
    fn lines(&mut self) -> io::Result<()> {
        let size = self.sparse.size();
        let mut start = 0;
        while start < size {
            let data_end = self.data_end();
            let (upto, goes_on) = match self.end_of_lines(start..data_end)? {
                Some(end) => (end, self.hand_over(start..end)?),
                None if data_end == size => (data_end, self.hand_over(start..data_end)?),
                None if self.separator == 0 => self.empty_lines(start)?,
                None => self.line_with_holes(start)?,
            };
            if !goes_on {
                return Ok(());
            }
            start = upto;
        }
        Ok(())
    }

    /// Where the next hole begins, or the file ends.
    fn data_end(&mut self) -> u64 {
        self.holes.peek().map_or(self.sparse.size(), |hole| hole.start)
    }

    /// Where whole lines end that begin where `data` does: as many as one read shows, or the first.
    /// `None` if none ends in it. What was read stays in the block, if it begins with the lines.
    fn end_of_lines(&mut self, data: Range<u64>) -> io::Result<Option<u64>> {
        let mut at = data.start;
        loop {
            let end = data.end.min(at + BLOCK_BYTES);
            self.read(at..end)?;
            let whole = (end - end % self.sparse.block_bytes).max(at);
            let looked_at = usize::try_from(whole - at).expect("at most a block");
            if let Some(found) = memchr::memrchr(self.separator, &self.block[..looked_at]) {
                if at > data.start {
                    self.block.clear();
                }
                return Ok(Some(at + found as u64 + 1));
            }
            if end == data.end {
                self.block.clear();
                return Ok(None);
            }
            at = if whole > at { whole } else { end };
        }
    }

    /// Hands over lines as they are; the block begins with them, or is empty.
    fn hand_over(&mut self, range: Range<u64>) -> io::Result<bool> {
        let length = range.end - range.start;
        if length > SHORT_BYTES_MAX {
            return self.hand_over_mapped(range);
        }
        if self.block.is_empty() {
            self.read(range.clone())?;
        }
        let length = usize::try_from(length).expect("fits in memory");
        (self.take)(Stretch::Lines { range, bytes: &self.block[..length] })
    }

    /// As [`Pass::hand_over`], without a copy.
    fn hand_over_mapped(&mut self, range: Range<u64>) -> io::Result<bool> {
        let all = range.clone();
        let take = &mut self.take;
        seen(&self.sparse.source, &all, |bytes| take(Stretch::Lines { range, bytes }))?
    }

    /// Hands over a last line that the next hole ends, and the hole as empty lines; where that ends.
    fn empty_lines(&mut self, start: u64) -> io::Result<(u64, bool)> {
        let hole = self.holes.next().expect("what ends before the file ends at a hole");
        let begins = if start < hole.start { hole.start + 1 } else { start };
        if start < begins {
            self.block.clear();
            if !self.hand_over(start..begins)? {
                return Ok((begins, false));
            }
        }
        Ok((hole.end, (self.take)(Stretch::Empty(begins..hole.end))?))
    }

    /// Hands over what begins at `start` and goes on over the next hole; where it ends.
    fn line_with_holes(&mut self, start: u64) -> io::Result<(u64, bool)> {
        let mut data = Vec::new();
        let mut at = start;
        let end = loop {
            let data_end = self.data_end();
            // The first hole is known to belong to it.
            let ends = if data.is_empty() { None } else { self.first_end(at..data_end)? };
            let piece_end = ends.unwrap_or(data_end);
            data.push(at..piece_end);
            match self.holes.next_if(|_| ends.is_none()) {
                Some(hole) => at = hole.end,
                None => break piece_end,
            }
        };
        let range = start..end;
        if data.iter().map(|piece| piece.end - piece.start).sum::<u64>() > SHORT_BYTES_MAX {
            return Ok((end, self.hand_over_mapped(range)?));
        }
        let (mut short, mut gaps) = (Vec::new(), Vec::new());
        for (index, piece) in data.iter().enumerate() {
            if index > 0 {
                let hole = piece.start - data[index - 1].end;
                short.extend_from_slice(&ZEROS);
                gaps.push((short.len(), hole - ZEROS.len() as u64));
            }
            self.read(piece.clone())?;
            short.extend_from_slice(&self.block);
        }
        let line = Stretched { range, short: &short, gaps: &gaps };
        Ok((end, (self.take)(Stretch::WithHoles(line))?))
    }

    /// Where the first separator of `data` ends.
    fn first_end(&mut self, data: Range<u64>) -> io::Result<Option<u64>> {
        let mut at = data.start;
        while at < data.end {
            let end = data.end.min(at + BLOCK_BYTES);
            self.read(at..end)?;
            if let Some(found) = memchr::memchr(self.separator, &self.block) {
                return Ok(Some(at + found as u64 + 1));
            }
            at = end;
        }
        Ok(None)
    }

    /// Reads `range` in place of what the block held.
    fn read(&mut self, range: Range<u64>) -> io::Result<()> {
        self.block.clear();
        self.block.resize(usize::try_from(range.end - range.start).expect("fits in memory"), 0);
        let file = self.sparse.source.file;
        file.read_exact_at(&mut self.block, range.start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("truncated while being read"),
            _ => error,
        })
    }
}

/// Whether it makes no difference to the search, or to what is printed of it, how many zeros there
/// are in a row, or can be made good.
fn may_pass_over<M: Matcher>(
    method: &Method<'_>,
    searcher: &Searcher,
    matcher: &M,
    avoids_nul: bool,
) -> bool {
    let shows_lines = method.format.kind.shows_lines();
    if shows_lines && searcher.passthru() {
        return false;
    }
    if method.separator == 0 {
        // Of empty lines none may be selected: there would be too many.
        return matches!(matcher.is_match(b""), Ok(is_match) if is_match == searcher.invert_match());
    }
    // What replaces matches is put into a copy of the line.
    let shows_zeros = shows_lines && (method.nul == Nul::Text || method.format.kind == Kind::Json);
    let copies_zeros = shows_zeros && method.format.replacement.is_some();
    // Nor may it be found between them, as what matches nothing at all is.
    let never_between = || matches!(matcher.is_match(&ZEROS), Ok(false));
    avoids_nul && !copies_zeros && never_between()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is handed over of a file of these pieces; `None` is a hole of [`HOLE_BYTES_MIN`].
    fn lines(separator: u8, pieces: &[Option<&str>]) -> Vec<(Range<u64>, String)> {
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
        let costs = nearfirst::Costs::load();
        let source = Source { file: &file, path: "x".as_ref(), costs: &costs };
        let status = costs.local().status(&file).expect("it is open");
        let sparse = Sparse { source, status, holes, block_bytes: 1, near_bytes: 0 };
        let mut found = Vec::new();
        sparse
            .lines(separator, |stretch| {
                let text = |bytes| String::from_utf8_lossy(bytes).replace('\0', "");
                found.push(match stretch {
                    Stretch::Lines { range, bytes } => (range, text(bytes)),
                    Stretch::WithHoles(line) => {
                        let places = line.short.iter().enumerate().filter(|(_, byte)| **byte > 0);
                        for (at, byte) in places {
                            let mut there = [0];
                            let place = line.range.start + line.place(at) as u64;
                            file.read_exact_at(&mut there, place).expect("read");
                            assert_eq!(there, [*byte]);
                        }
                        (line.range, text(line.short))
                    }
                    Stretch::Empty(range) => (range, "empty".to_owned()),
                });
                Ok(true)
            })
            .expect("read");
        found
    }

    #[test]
    fn a_line_with_a_hole_comes_by_itself_and_all_know_where_they_are() {
        const HOLE: u64 = HOLE_BYTES_MIN;
        let found =
            lines(b'\n', &[Some("a\nb\nc"), None, Some("d"), None, Some("e\nf\ng\n"), None]);
        let line = |range: Range<u64>, text: &str| (range, text.to_owned());
        let second = 4 + 2 * HOLE + 4;
        let expected = [
            line(0..4, "a\nb\n"),
            line(4..second, "cde\n"),
            line(second..second + 4, "f\ng\n"),
            line(second + 4..second + 4 + HOLE, ""),
        ];
        assert_eq!(found, expected);
        assert_eq!(lines(b'\n', &[None]), [line(0..HOLE, "")]);
        assert_eq!(
            lines(b'\n', &[None, Some("\nx")]),
            [line(0..HOLE + 1, "\n"), line(HOLE + 1..HOLE + 2, "x")]
        );
    }

    #[test]
    fn where_zeros_end_lines_a_hole_is_empty_ones() {
        const HOLE: u64 = HOLE_BYTES_MIN;
        let found = lines(0, &[Some("a\0b"), None, Some("\0c"), None]);
        let line = |range: Range<u64>, text: &str| (range, text.to_owned());
        let second = 3 + HOLE;
        let expected = [
            line(0..2, "a"),
            line(2..4, "b"),
            line(4..second, "empty"),
            line(second..second + 1, ""),
            line(second + 1..second + 3, "c"),
            line(second + 3..second + 2 + HOLE, "empty"),
        ];
        assert_eq!(found, expected);
    }
}
