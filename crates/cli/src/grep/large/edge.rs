//! Lines at the edges of parts: context of matches beyond them.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use nearfirst::fetch::Source;

use super::super::print::rendered::{QUOTED_BYTES_MIN, Rendered};
use super::part::{Method, seen_by_parts};

/// Copies of lines that wait for a match after them, at most.
const TAIL_BYTES_MAX: u64 = 4 << 20;

/// Lines at an edge of a part.
#[derive(Debug, Clone)]
pub(super) enum Edge {
    /// A copy.
    Here { start: u64, lines: Vec<u8>, count: usize },
    /// Where in the file they are, which are too much to keep.
    There { range: Range<u64>, count: usize },
    /// One that goes on over holes.
    Long(LongLine),
}

/// A line that goes on over holes, as it is printed beside a match.
#[derive(Debug, Clone)]
pub(super) struct LongLine {
    pub(super) range: Range<u64>,
    pub(super) rendered: Rendered,
    /// The first NUL byte in it, if that matters.
    pub(super) nul: Option<u64>,
    /// Lines after it may be printed.
    pub(super) goes_on: bool,
}

/// A line of an edge.
#[derive(Debug, Clone, Copy)]
pub(super) enum EdgeLine<'a> {
    Text(&'a [u8]),
    Long(&'a LongLine),
}

impl Default for Edge {
    fn default() -> Self {
        Self::Here { start: 0, lines: Vec::new(), count: 0 }
    }
}

impl LongLine {
    /// One of which nothing is printed.
    pub(super) fn unprinted(range: Range<u64>) -> Self {
        Self { range, rendered: Rendered::default(), nul: None, goes_on: true }
    }
}

impl Edge {
    pub(super) fn of(start: u64, bytes: &[u8], separator: u8) -> Self {
        let open = bytes.last().is_some_and(|last| *last != separator);
        let count = bytecount::count(bytes, separator) + usize::from(open);
        if bytes.len() < QUOTED_BYTES_MIN {
            Self::Here { start, lines: bytes.to_vec(), count }
        } else {
            Self::There { range: start..start + bytes.len() as u64, count }
        }
    }

    /// Lines of zeros alone.
    pub(super) fn of_zeros(range: Range<u64>) -> Self {
        let count = usize::try_from(range.end - range.start).expect("no more than is shown");
        if count < QUOTED_BYTES_MIN {
            Self::Here { start: range.start, lines: vec![0; count], count }
        } else {
            Self::There { range, count }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many lines it is.
    fn count(&self) -> usize {
        match self {
            Self::Here { count, .. } | Self::There { count, .. } => *count,
            Self::Long(_) => 1,
        }
    }

    /// Where the last line ends.
    fn end(&self) -> u64 {
        match self {
            Self::Here { start, lines, .. } => start + lines.len() as u64,
            Self::There { range, .. } => range.end,
            Self::Long(line) => line.range.end,
        }
    }

    /// Bytes held in memory.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Self::Here { lines, .. } => lines.len() as u64,
            Self::There { .. } => 0,
            Self::Long(line) => line.rendered.held_bytes(),
        }
    }

    /// Keeps no copy: the lines are read again where they are needed.
    pub(super) fn let_go(&mut self) {
        if let Self::Here { start, count, .. } = *self
            && count > 0
        {
            *self = Self::There { range: start..self.end(), count };
        }
    }

    /// Hands over the lines, with where each begins, until `take` says `false`.
    ///
    /// # Errors
    /// Those of reading and of `take`.
    pub(super) fn each_line(
        &self,
        source: &Source<'_>,
        method: &Method<'_>,
        mut take: impl FnMut(EdgeLine<'_>, u64) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut hand_over = |mut offset, bytes: &[u8], is_sound: &dyn Fn() -> bool| {
            for line in lines(bytes, method.separator) {
                if !is_sound() || !take(EdgeLine::Text(line), offset)? {
                    break;
                }
                offset += line.len() as u64;
            }
            Ok(())
        };
        match self {
            Self::Here { start, lines, .. } => hand_over(*start, lines, &|| true),
            Self::There { range, .. } => seen_by_parts(source, range, |bytes, is_sound| {
                hand_over(range.start, &method.as_searched(bytes), is_sound)
            })?,
            Self::Long(line) => take(EdgeLine::Long(line), line.range.start).map(drop),
        }
    }
}

/// The last lines of what is merged, for context before a match.
#[derive(Debug, Default)]
pub(super) struct Tail {
    edges: VecDeque<Edge>,
    lines: usize,
    held_bytes: u64,
}

impl Tail {
    /// Adds lines, and drops what is not among the last `needed` ones.
    pub(super) fn put(&mut self, mut edge: Edge, needed: usize) {
        if needed == 0 || edge.is_empty() {
            return;
        }
        if self.held_bytes + edge.held_bytes() > TAIL_BYTES_MAX {
            edge.let_go();
        }
        self.lines += edge.count();
        self.held_bytes += edge.held_bytes();
        self.edges.push_back(edge);
        while let Some(first) = self.edges.front()
            && self.lines - first.count() >= needed
        {
            self.lines -= first.count();
            self.held_bytes -= first.held_bytes();
            self.edges.pop_front();
        }
    }

    /// The edges that hold any of the last `needed` lines and go on after `shown_end`, each with the
    /// number of lines from its first one to the end.
    pub(super) fn last(
        &self,
        needed: usize,
        shown_end: Option<u64>,
    ) -> impl Iterator<Item = (&Edge, usize)> {
        let mut after = self.lines;
        self.edges.iter().filter_map(move |edge| {
            let left = after;
            after -= edge.count();
            let is_needed = after < needed && shown_end.is_none_or(|end| end < edge.end());
            is_needed.then_some((edge, left))
        })
    }
}

/// The lines of `bytes`.
pub(super) fn lines(bytes: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(move |byte| *byte == separator)
}

/// The first `count` lines of `bytes`.
pub(super) fn first_lines(bytes: &[u8], count: usize, separator: u8) -> &[u8] {
    match count.checked_sub(1) {
        None => &[],
        Some(last) => match memchr::memchr_iter(separator, bytes).nth(last) {
            Some(at) => &bytes[..=at],
            None => bytes,
        },
    }
}

/// The last `count` lines of `bytes`.
pub(super) fn last_lines(bytes: &[u8], count: usize, separator: u8) -> &[u8] {
    if count == 0 {
        return &[];
    }
    // The separator at the very end closes the last line; it does not open another.
    let body = bytes.strip_suffix(&[separator]).unwrap_or(bytes);
    match memchr::memrchr_iter(separator, body).nth(count - 1) {
        Some(at) => &bytes[at + 1..],
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_tail_is_dropped_in_edges_and_not_copied() {
        let bytes = b"a line\n".repeat(50_000);
        let mut tail = Tail::default();
        for at in 0..50 {
            tail.put(Edge::of(at * bytes.len() as u64, &bytes, b'\n'), usize::MAX);
        }
        assert!(tail.held_bytes <= TAIL_BYTES_MAX);
        assert_eq!((tail.edges.len(), tail.lines), (50, 50 * bytes.len() / 7));
        let of_last = tail.last(1, None).map(|(edge, left)| (edge.end(), left)).collect::<Vec<_>>();
        assert_eq!(of_last, [(50 * bytes.len() as u64, bytes.len() / 7)]);
        assert_eq!(tail.last(usize::MAX, Some(40 * bytes.len() as u64)).count(), 10);
        tail.put(Edge::of(50 * bytes.len() as u64, b"one\nmore\n", b'\n'), 3);
        assert_eq!((tail.edges.len(), tail.lines), (2, bytes.len() / 7 + 2));
        tail.put(Edge::of(0, b"and\none\nmore\n", b'\n'), 3);
        assert_eq!((tail.edges.len(), tail.lines, tail.held_bytes), (1, 3, 13));
    }

    #[test]
    fn lines_at_both_ends() {
        let text = b"a\nbb\nccc\n";
        assert_eq!(first_lines(text, 0, b'\n'), b"");
        assert_eq!(first_lines(text, 2, b'\n'), b"a\nbb\n");
        assert_eq!(first_lines(text, 9, b'\n'), text);
        assert_eq!(last_lines(text, 0, b'\n'), b"");
        assert_eq!(last_lines(text, 1, b'\n'), b"ccc\n");
        assert_eq!(last_lines(text, 3, b'\n'), text);
        assert_eq!(last_lines(b"a\nb", 1, b'\n'), b"b");
        assert_eq!(last_lines(b"\n\n", 1, b'\n'), b"\n");
    }
}
