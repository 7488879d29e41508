//! What one chunk of a large file holds, as far as the chunk alone can tell.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use grep::matcher::Matcher;
use grep::searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};
use nearfirst::fetch::{self, Source};

use super::super::input::{begins_with_mark, mark};
use super::super::print::found::{self, Found, line_end_len};
use super::super::print::rendered::Rendered;
use super::super::print::tally::Tally;
use super::super::print::{Format, Kind, Nul, Printing, Scope};
use super::edge::{Edge, LongLine, first_lines, last_lines};
use super::sparse::Stretched;
use super::upset;

/// Of UTF-8, which is searched as it is.
pub(super) const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";
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
    /// ripgrep would map the file, and look for a NUL byte in its head and in what it prints only.
    pub(super) mapped: bool,
    /// A byte-order mark at the start of the file counts.
    pub(super) sniff: bool,
    /// What is found is printed as it comes: of UTF-8 the mark is passed over.
    pub(super) at_once: bool,
    pub(super) separator: u8,
}

impl<'a> Method<'a> {
    /// Whether a NUL byte ends what is printed wherever it is, as where ripgrep reads a file block by block.
    pub(super) fn minds_every_nul(&self) -> bool {
        self.nul == Nul::Leave || (self.ends_lines_at_nul() && self.format.kind == Kind::Lines)
    }

    /// Whether a NUL byte ends a line, as ripgrep has it in a file that it reads and does not leave.
    fn ends_lines_at_nul(&self) -> bool {
        self.nul == Nul::Report && !self.mapped
    }

    /// With the ends of lines where NUL bytes are.
    fn in_lines(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|&byte| if byte == 0 { self.separator } else { byte }).collect()
    }

    /// Lines that are read again, parted as they were when they were searched.
    pub(super) fn as_searched<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.ends_lines_at_nul() && memchr::memchr(0, bytes).is_some() {
            Cow::Owned(self.in_lines(bytes))
        } else {
            Cow::Borrowed(bytes)
        }
    }

    /// The bytes of a chunk that begins at `offset`, parted where ripgrep would find a NUL byte.
    fn parted<'b>(&self, bytes: &'b [u8], offset: u64) -> Parted<'b> {
        let minds_some = self.nul == Nul::Leave || self.ends_lines_at_nul();
        match minds_some.then(|| memchr::memchr(0, bytes)).flatten() {
            None => Parted { shown: Cow::Borrowed(bytes), nul: None, hidden: &[] },
            Some(at) if self.minds_every_nul() => {
                let shown = before_block(bytes, offset, at, self.separator);
                let hidden = &bytes[shown.len()..];
                Parted { shown: Cow::Borrowed(shown), nul: Some(at), hidden }
            }
            Some(_) => Parted { shown: Cow::Owned(self.in_lines(bytes)), nul: None, hidden: &[] },
        }
    }

    /// What prints a part that begins at `offset`.
    pub(super) fn printing<'b, M: Matcher>(
        &self,
        matcher: &'b M,
        found: &'b mut Found<M>,
        out: &'b mut Rendered,
        offset: u64,
    ) -> Printing<'b, M>
    where
        'a: 'b,
    {
        Printing {
            format: self.format,
            matcher,
            found,
            path: self.path,
            out,
            nul: self.nul,
            scope: Scope::Part { offset },
            tally: Tally::default(),
            opened: false,
            shown: None,
            context_lines: 0,
            before_first: None,
        }
    }
}

/// A chunk, where a NUL byte is minded.
struct Parted<'b> {
    /// What is searched for lines to print.
    shown: Cow<'b, [u8]>,
    /// The NUL byte that hides the rest.
    nul: Option<usize>,
    hidden: &'b [u8],
}

/// The result of one chunk.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) rendered: Rendered,
    pub(super) tally: Tally,
    /// Lines of the chunk, if lines are numbered.
    pub(super) lines: u64,
    /// The first lines, as many as a match before them may need for context.
    pub(super) head: Edge,
    /// The last lines, as many as a match after them may need for context.
    pub(super) tail: Edge,
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
    /// It has NUL bytes, as UTF-16 has, and a match that would settle the search or be printed at once.
    pub(super) may_be_encoded: bool,
    /// A NUL byte in the head of the file.
    pub(super) head_nul: Option<u64>,
    /// Nothing after this chunk is to be searched.
    pub(super) last: bool,
}

impl Part {
    /// Bytes of text held in memory.
    pub(super) fn held_bytes(&self) -> u64 {
        self.rendered.held_bytes() + self.head.held_bytes() + self.tail.held_bytes()
    }
}

/// Shows a part of the file without a copy. What `look` searches may change under it.
///
/// # Errors
/// Those of reading, and a panic of `look`.
pub(super) fn seen<T>(
    source: &Source<'_>,
    range: &Range<u64>,
    look: impl FnOnce(&[u8]) -> T,
) -> io::Result<T> {
    seen_by_parts(source, range, |bytes, _| look(bytes))
}

/// As [`seen`], for a `look` that hands on what it has seen: it asks before whether that was the file's.
///
/// # Errors
/// As of [`seen`].
pub(super) fn seen_by_parts<T>(
    source: &Source<'_>,
    range: &Range<u64>,
    look: impl FnOnce(&[u8], &(dyn Fn() -> bool + Sync)) -> T,
) -> io::Result<T> {
    upset::caught(|| {
        let seen = fetch::view_by_parts(source, range, look);
        seen.map_err(|error| io::Error::other(error.reason()))
    })
}

impl<M: Matcher> Bench<M> {
    /// Searches one chunk.
    ///
    /// # Errors
    /// Those of the matcher.
    pub(super) fn search(
        &mut self,
        method: &Method<'_>,
        source: &Source<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<Part> {
        if offset == 0 && method.sniff && method.at_once && bytes.starts_with(UTF8_MARK) {
            let (_, text) = bytes.split_at(UTF8_MARK.len());
            let mut part = self.search(method, source, UTF8_MARK.len() as u64, text)?;
            look_at_start(&Method { sniff: false, ..*method }, source, bytes, &mut part)?;
            return Ok(part);
        }
        let mut part = Part::default();
        if offset == 0 {
            look_at_start(method, source, bytes, &mut part)?;
            if part.marked {
                return Ok(part);
            }
        }
        let given = bytes;
        let Parted { shown: bytes, nul, hidden } = method.parted(bytes, offset);
        let bytes = &*bytes;
        let out = &mut part.rendered;
        let mut printing = method.printing(&self.matcher, &mut self.found, out, offset);
        self.searcher.search_slice(&self.matcher, bytes, &mut printing)?;
        let (shown, before_first) = (printing.shown, printing.before_first);
        let since_match = printing.context_lines;
        part.tally = printing.tally;
        part.before_first = before_first;
        part.shown = shown.map(|shown| (shown.start, shown.end));
        let is_counted = method.format.kind == Kind::Count && self.searcher.max_matches().is_some();
        part.may_be_encoded = method.sniff
            && offset > 0
            && part.tally.events > 0
            && (method.at_once || is_counted || method.format.kind.stops_at_match())
            && memchr::memchr(0, given).is_some();
        // Of a search that ends before it, nobody learns of the byte.
        let is_full = self.searcher.max_matches().is_some_and(|most| part.tally.events >= most);
        let nul = nul.filter(|_| method.nul == Nul::Leave || !is_full);
        if let Some(at) = nul {
            part.tally.binary_offset = Some(offset + at as u64);
        }
        part.last = match nul {
            Some(_) if method.nul == Nul::Report => {
                self.ends_hidden(&method.in_lines(hidden), &mut part)?
            }
            Some(_) => true,
            None => method.format.kind == Kind::Lines && part.tally.binary_offset.is_some(),
        };
        if self.searcher.line_number() {
            // The searcher has counted up to the last line that it handed over.
            let (counted, from) = shown.map_or((0, 0), |shown| {
                (shown.last_number - 1, usize::try_from(shown.last_start - offset).expect("in it"))
            });
            let rest = bytecount::count(&bytes[from..], method.separator) as u64;
            part.lines = counted + rest;
        }
        let (before, after) = (self.searcher.before_context(), self.searcher.after_context());
        let limited = self.searcher.max_matches().is_some();
        if (method.format.kind.shows_lines() || limited) && (before > 0 || after > 0) {
            let head = first_lines(bytes, after, method.separator);
            part.head = Edge::of(offset, head, method.separator);
            let tail = last_lines(bytes, before, method.separator);
            let tail_start = offset + (bytes.len() - tail.len()) as u64;
            part.tail = Edge::of(tail_start, tail, method.separator);
            if let Some(before_first) = before_first {
                part.before_missing = before.saturating_sub(before_first);
                part.after_owed = after.saturating_sub(since_match);
            }
        }
        Ok(part)
    }

    /// Whether nothing follows what stands where a NUL byte hides all lines: the first that would be
    /// printed ends the search, and counts if it is a match.
    fn ends_hidden(&mut self, bytes: &[u8], part: &mut Part) -> io::Result<bool> {
        let first = self.first(bytes)?;
        if let Some(matches) = first.matches {
            part.tally.events += 1;
            part.tally.matched_lines += 1;
            part.tally.matches += matches;
        }
        Ok(first.matches.is_some() || first.is_context)
    }

    /// Searches up to the first line that would be printed.
    ///
    /// # Errors
    /// Those of the matcher.
    pub(super) fn first(&mut self, bytes: &[u8]) -> io::Result<First<'_, M>> {
        let mut first = First {
            matcher: &self.matcher,
            matches: None,
            is_at_start: false,
            is_context: false,
            bytes_searched: 0,
        };
        self.searcher.search_slice(&self.matcher, bytes, &mut first)?;
        Ok(first)
    }

    /// Takes one line that goes on over holes, of which `short` is a form with fewer zeros: it is
    /// read only where it is printed.
    ///
    /// # Errors
    /// Those of the matcher and of reading.
    pub(super) fn search_stretched(
        &mut self,
        method: &Method<'_>,
        source: &Source<'_>,
        line: &Stretched<'_>,
    ) -> io::Result<Part> {
        let range = line.range.clone();
        let end = line_end_len(self.searcher.line_terminator(), line.short);
        let text = &line.short[..line.short.len() - end];
        let matches = self.matcher.is_match(text);
        let matches = matches.map_err(|error| io::Error::other(error.to_string()))?;
        let mut part = Part { lines: 1, ..Part::default() };
        if range.start == 0 {
            look_at_start(method, source, line.short, &mut part)?;
            if part.marked {
                return Ok(part);
            }
        }
        if method.nul == Nul::Report && method.minds_every_nul() {
            let zero = memchr::memchr(0, line.short).expect("it goes on over a hole");
            part.head_nul = Some(range.start + zero as u64);
        }
        let (before, after) = (self.searcher.before_context(), self.searcher.after_context());
        if before > 0 || after > 0 {
            let beside = seen(source, &range, |bytes| self.beside(method, line, bytes))??;
            (part.head, part.tail) = (Edge::Long(beside.clone()), Edge::Long(beside));
        }
        if matches != self.searcher.invert_match() {
            seen(source, &range, |bytes| self.print_stretched(method, line, bytes, &mut part))??;
            (part.before_missing, part.after_owed) = (before, after);
        }
        part.tally.bytes_searched = range.end - range.start;
        Ok(part)
    }

    /// Takes as many empty lines as `range` has bytes, none of which is selected.
    pub(super) fn empty_lines(&self, range: &Range<u64>) -> Part {
        let count = range.end - range.start;
        let near = |context: usize| (context as u64).min(count);
        let head = range.start..range.start + near(self.searcher.after_context());
        let tail = range.end - near(self.searcher.before_context())..range.end;
        let mut part = Part { lines: count, ..Part::default() };
        part.tally.bytes_searched = count;
        (part.head, part.tail) = (Edge::of_zeros(head), Edge::of_zeros(tail));
        part
    }

    fn print_stretched(
        &mut self,
        method: &Method<'_>,
        line: &Stretched<'_>,
        bytes: &[u8],
        part: &mut Part,
    ) -> io::Result<()> {
        let (out, offset) = (&mut part.rendered, line.range.start);
        let mut printing = method.printing(&self.matcher, &mut self.found, out, offset);
        printing.stretched_line(&self.searcher, line, bytes)?;
        part.before_first = printing.before_first;
        part.shown = printing.shown.map(|shown| (shown.start, shown.end));
        part.tally = printing.tally;
        part.last = method.format.kind == Kind::Lines && part.tally.binary_offset.is_some();
        Ok(())
    }

    /// A line as it is printed beside a match.
    fn beside(
        &mut self,
        method: &Method<'_>,
        line: &Stretched<'_>,
        bytes: &[u8],
    ) -> io::Result<LongLine> {
        let mut beside = LongLine::unprinted(line.range.clone());
        let (out, offset) = (&mut beside.rendered, line.range.start);
        let mut printing = method.printing(&self.matcher, &mut self.found, out, offset);
        beside.goes_on = printing.stretched_context_line(&self.searcher, line, bytes)?;
        beside.nul = printing.tally.binary_offset;
        Ok(beside)
    }
}

/// What the first line would be that is printed.
pub(super) struct First<'a, M> {
    matcher: &'a M,
    /// Those in it, if it is a line that matches.
    pub(super) matches: Option<u64>,
    /// It begins where the search began.
    pub(super) is_at_start: bool,
    pub(super) is_context: bool,
    pub(super) bytes_searched: u64,
}

impl<M: Matcher> Sink for First<'_, M> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let range = line.bytes_range_in_buffer();
        self.is_at_start = range.start == 0;
        self.matches = Some(found::count(searcher, self.matcher, line.buffer(), &range)?);
        Ok(false)
    }

    fn context(&mut self, _searcher: &Searcher, _line: &SinkContext<'_>) -> io::Result<bool> {
        self.is_context = true;
        Ok(false)
    }

    fn finish(&mut self, _searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.bytes_searched = finish.byte_count();
        Ok(())
    }
}

/// The whole lines before the block that holds the NUL byte at `nul` of `bytes`.
fn before_block(bytes: &[u8], offset: u64, nul: usize, separator: u8) -> &[u8] {
    let into_block = (offset + nul as u64) % BINARY_HEAD_BYTES as u64;
    let block = nul.saturating_sub(usize::try_from(into_block).expect("less than a block"));
    let lines = memchr::memrchr(separator, &bytes[..block]).map_or(0, |at| at + 1);
    &bytes[..lines]
}

/// The byte-order mark that the file begins with.
///
/// # Errors
/// Those of reading.
pub(super) fn mark_of(source: &Source<'_>) -> io::Result<Option<&'static [u8]>> {
    let size = source.costs.local().status(source.file)?.size;
    seen(source, &(0..size.min(UTF8_MARK.len() as u64)), mark)
}

/// Notes what the start of the file, of which `bytes` are at hand, says of all of it.
fn look_at_start(
    method: &Method<'_>,
    source: &Source<'_>,
    bytes: &[u8],
    part: &mut Part,
) -> io::Result<()> {
    part.marked = method.sniff && begins_with_mark(bytes);
    let matters = method.format.kind.shows_lines() || method.format.stats;
    if !part.marked && method.nul == Nul::Report && matters {
        part.head_nul = head_nul(source, bytes)?;
    }
    Ok(())
}

/// A NUL byte in the head of the file, of which `start` is at hand.
fn head_nul(source: &Source<'_>, start: &[u8]) -> io::Result<Option<u64>> {
    let at_hand = &start[..start.len().min(BINARY_HEAD_BYTES)];
    if let Some(at) = memchr::memchr(0, at_hand) {
        return Ok(Some(at as u64));
    }
    let size = source.costs.local().status(source.file)?.size;
    let rest = at_hand.len() as u64..size.min(BINARY_HEAD_BYTES as u64);
    if rest.is_empty() {
        return Ok(None);
    }
    let found = seen(source, &rest, |bytes| memchr::memchr(0, bytes))?;
    Ok(found.map(|at| rest.start + at as u64))
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
    fn a_look_at_what_changes_meanwhile_is_an_error_of_the_file() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1).expect("made long");
        let costs = nearfirst::Costs::load();
        let source = Source { file: &file, path: "x".as_ref(), costs: &costs };
        let error = seen(&source, &(0..1), |_| panic!("start <= end")).expect_err("caught");
        assert!(error.to_string().ends_with("written meanwhile: start <= end"), "{error}");
        assert_eq!(seen(&source, &(0..1), <[u8]>::len).expect("the next one is fine"), 1);
    }
}
