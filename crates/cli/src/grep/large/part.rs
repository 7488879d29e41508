//! What one chunk of a large file holds, as far as the chunk alone can tell.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use grep::matcher::Matcher;
use grep::searcher::Searcher;

use super::super::print::found::Found;
use super::super::print::rendered::Rendered;
use super::super::print::tally::Tally;
use super::super::print::{Format, Kind, Nul, Printing, Scope};
use super::super::search::begins_with_mark;

/// ripgrep reads this much at a time, and looks for a NUL byte in it before it
/// looks for matches.
pub(super) const BINARY_HEAD_BYTES: usize = 64 * 1024;

/// A matcher and a searcher with their working memory: what a thread needs.
pub(super) struct Bench<M: Matcher> {
    pub(super) matcher: M,
    pub(super) searcher: Searcher,
    pub(super) found: Found<M>,
}

/// How every chunk of a file is searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method<'a> {
    pub(super) format: &'a Format,
    pub(super) path: &'a [u8],
    pub(super) nul: Nul,
    /// A byte-order mark at the start of the file counts.
    pub(super) sniff: bool,
    pub(super) separator: u8,
}

/// The result of one chunk.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) rendered: Rendered,
    pub(super) tally: Tally,
    /// Lines of the chunk, if lines are numbered.
    pub(super) lines: u64,
    /// The first lines, as many as a match before them may need for context.
    pub(super) head: Vec<u8>,
    /// The last lines, as many as a match after them may need for context.
    pub(super) tail: Vec<u8>,
    /// Where the lines in `rendered` begin and end in the file.
    pub(super) shown: Option<(u64, u64)>,
    /// Lines of the chunk that would be printed before its first match.
    pub(super) before_first: Option<usize>,
    /// Lines before the first match that the chunk would need and does not hold.
    pub(super) before_missing: usize,
    /// Lines after the last match that the chunk would need and does not hold.
    pub(super) after_owed: usize,
    /// The file begins with a byte-order mark: it cannot be searched in chunks.
    pub(super) marked: bool,
    /// A NUL byte in the head of the file.
    pub(super) head_nul: Option<u64>,
    /// Nothing after this chunk is to be searched.
    pub(super) last: bool,
}

impl<M: Matcher> Bench<M> {
    /// Searches one chunk.
    ///
    /// # Errors
    /// Those of the matcher.
    pub(super) fn search(
        &mut self,
        method: &Method<'_>,
        file: &File,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<Part> {
        let mut part = Part::default();
        if offset == 0 {
            if method.sniff && begins_with_mark(bytes) {
                return Ok(Part { marked: true, ..part });
            }
            if method.nul == Nul::Report && method.format.kind.shows_lines() {
                part.head_nul = head_nul(file, bytes)?;
            }
        }
        let nul = (method.nul == Nul::Leave).then(|| memchr::memchr(0, bytes)).flatten();
        let bytes = nul.map_or(bytes, |at| before_block(bytes, offset, at, method.separator));
        let mut printing = Printing {
            format: method.format,
            matcher: &self.matcher,
            found: &mut self.found,
            path: method.path,
            out: &mut part.rendered,
            nul: method.nul,
            scope: Scope::Part { offset },
            tally: Tally::default(),
            opened: false,
            shown: None,
            context_lines: 0,
            before_first: None,
        };
        self.searcher.search_slice(&self.matcher, bytes, &mut printing)?;
        let (shown, before_first) = (printing.shown, printing.before_first);
        let since_match = printing.context_lines;
        part.tally = printing.tally;
        part.before_first = before_first;
        part.shown = shown.map(|shown| (shown.start, shown.end));
        if let Some(at) = nul {
            part.tally.binary_offset = Some(offset + at as u64);
        }
        part.last = nul.is_some()
            || (method.format.kind == Kind::Lines && part.tally.binary_offset.is_some());
        if self.searcher.line_number() {
            // The searcher has counted up to the last line that it handed over.
            let (counted, from) = shown.map_or((0, 0), |shown| {
                (shown.last_number - 1, usize::try_from(shown.last_start - offset).expect("in it"))
            });
            let rest = memchr::memchr_iter(method.separator, &bytes[from..]).count() as u64;
            part.lines = counted + rest;
        }
        let (before, after) = (self.searcher.before_context(), self.searcher.after_context());
        let limited = self.searcher.max_matches().is_some();
        if (method.format.kind.shows_lines() || limited) && (before > 0 || after > 0) {
            part.head = first_lines(bytes, after, method.separator).to_vec();
            part.tail = last_lines(bytes, before, method.separator).to_vec();
            if let Some(before_first) = before_first {
                part.before_missing = before.saturating_sub(before_first);
                part.after_owed = after.saturating_sub(since_match);
            }
        }
        Ok(part)
    }
}

/// The whole lines before the block that holds the NUL byte at `nul` of `bytes`.
fn before_block(bytes: &[u8], offset: u64, nul: usize, separator: u8) -> &[u8] {
    let into_block = (offset + nul as u64) % BINARY_HEAD_BYTES as u64;
    let block = nul.saturating_sub(usize::try_from(into_block).expect("less than a block"));
    let lines = memchr::memrchr(separator, &bytes[..block]).map_or(0, |at| at + 1);
    &bytes[..lines]
}

/// A NUL byte in the head of the file, of which `start` is at hand.
fn head_nul(file: &File, start: &[u8]) -> io::Result<Option<u64>> {
    let at_hand = &start[..start.len().min(BINARY_HEAD_BYTES)];
    if let Some(at) = memchr::memchr(0, at_hand) {
        return Ok(Some(at as u64));
    }
    let mut rest = vec![0; BINARY_HEAD_BYTES - at_hand.len()];
    let mut filled = 0;
    while filled < rest.len() {
        match file.read_at(&mut rest[filled..], (at_hand.len() + filled) as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(memchr::memchr(0, &rest[..filled]).map(|at| (at_hand.len() + at) as u64))
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
    fn a_nul_byte_hides_its_block() {
        let mut text = "line\n".repeat(BINARY_HEAD_BYTES / 2).into_bytes();
        assert_eq!(before_block(&text, 0, 100, b'\n'), b"");
        let nul = 2 * BINARY_HEAD_BYTES + 9;
        text[nul] = 0;
        let shown = before_block(&text, 0, nul, b'\n');
        assert!(shown.ends_with(b"line\n"));
        assert_eq!(shown.len(), 2 * BINARY_HEAD_BYTES / 5 * 5);
        let chunk = &text[nul - 20..];
        assert_eq!(before_block(chunk, (nul - 20) as u64, 20, b'\n'), b"ine\nline\n");
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
