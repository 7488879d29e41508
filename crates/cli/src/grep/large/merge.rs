//! Joins the results of a file's chunks into the output of the file.
//!
//! Chunks come in any order. What a chunk cannot know is decided here: line
//! numbers, context that reaches over its edges, where groups of lines touch,
//! the first N matches, and where a NUL byte ends the output.

use std::io;
use std::ops::Range;

use grep::matcher::Matcher;
use grep::searcher::Searcher;
use nearfirst::fetch::Source;

use super::super::output::FileOutput;
use super::super::print::rendered::{Rendered, Resolved};
use super::super::print::tally::Tally;
use super::super::print::{Kind, Nul, open};
use super::edge::{Edge, EdgeLine, Tail, first_lines, lines};
use super::part::{Bench, Method, Part, UTF8_MARK, mark_of, seen};
use super::quoted;
use super::waiting::{Taken, Waiting};

/// What is known of the whole file, and what waits.
pub(super) struct Merge<'a, M: Matcher> {
    method: Method<'a>,
    source: Source<'a>,
    /// Holes that are known, in file order: lines to be printed may go on over them.
    holes: Vec<Range<u64>>,
    output: FileOutput<'a>,
    /// For lines of context, and for a chunk that is cut short.
    bench: Bench<M>,
    /// Makes the searcher for a chunk that is not searched as all others.
    searcher_for: &'a (dyn Fn(Want) -> Searcher + Sync),
    /// What came before its turn; `None` where parts are printed as they come.
    waiting: Option<Waiting>,
    /// Everything before this offset is merged.
    next: u64,
    lines_before: u64,
    /// Matching lines still wanted.
    wanted: Option<u64>,
    /// Lines after the last match that are still to be printed.
    owed: usize,
    /// Where the last printed line ends.
    shown_end: Option<u64>,
    tail: Tail,
    opened: bool,
    resolved: Vec<u8>,
    rendered: Rendered,
    /// What was found in what is merged.
    pub(super) tally: Tally,
    /// The rest of the file does not matter.
    pub(super) done: bool,
    /// The file cannot be searched in chunks; nothing was printed.
    pub(super) marked: bool,
}

/// What is wanted of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// As many matching lines as `--max-count` says, with their context.
    Usual,
    /// At most so many.
    AtMost(u64),
    /// Every line: those after the last match that is wanted.
    EveryLine,
}

/// What remains to be read of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    All,
    /// Nothing from this offset on.
    Before(u64),
    None,
}

impl<'a, M: Matcher> Merge<'a, M> {
    pub(super) fn new(
        method: Method<'a>,
        source: Source<'a>,
        holes: Vec<Range<u64>>,
        output: FileOutput<'a>,
        bench: Bench<M>,
        searcher_for: &'a (dyn Fn(Want) -> Searcher + Sync),
        waiting: Option<Waiting>,
    ) -> Merge<'a, M> {
        let wanted = bench.searcher.max_matches();
        Merge {
            method,
            source,
            holes,
            output,
            bench,
            searcher_for,
            waiting,
            next: 0,
            lines_before: 0,
            wanted,
            owed: 0,
            shown_end: None,
            tail: Tail::default(),
            opened: false,
            resolved: Vec::new(),
            rendered: Rendered::default(),
            tally: Tally::default(),
            done: false,
            marked: false,
        }
    }

    /// Whether all lines that are wanted, and those around them, were found.
    fn has_all(&self) -> bool {
        self.wanted == Some(0) && self.owed == 0
    }

    /// Whether lines after the last match do not count as searched, as in ripgrep: it ends before it
    /// has gone beyond them. With -v it goes line by line.
    pub(super) fn ends_with_match(&self) -> bool {
        self.has_all() && !self.bench.searcher.invert_match()
    }

    pub(super) fn output(&self) -> &FileOutput<'a> {
        &self.output
    }

    /// Takes the result of a chunk, prints what is complete, and says what is still needed.
    ///
    /// # Errors
    /// Those of the output, of the temporary file, of the matcher, and of
    /// reading a chunk again.
    pub(super) fn put(&mut self, range: Range<u64>, part: Part) -> io::Result<Rest> {
        if self.done || self.marked {
            return Ok(Rest::None);
        }
        if part.marked {
            self.marked = true;
            return Ok(Rest::None);
        }
        // One match anywhere settles it, unless a NUL byte before it would unsettle it, or it is none in
        // the text that the bytes stand for.
        let settled = self.method.format.kind.stops_at_match()
            && !self.method.format.stats
            && self.method.nul != Nul::Leave
            && part.tally.events > 0;
        let counts_now = settled || self.waiting.is_none();
        if counts_now && part.may_be_encoded && self.is_encoded()? {
            self.marked = true;
            return Ok(Rest::None);
        }
        if settled {
            self.tally.events += part.tally.events;
            self.done = true;
            return Ok(Rest::None);
        }
        match &mut self.waiting {
            Some(waiting) if range.start != self.next => waiting.put(&range, part),
            _ => {
                self.next = range.end;
                self.merge(range.start, range.end, part)?;
            }
        }
        while !self.done
            && let Some(waiting) = &mut self.waiting
            && let Some(Taken { end, mut part, lacks_output }) = waiting.take(self.next)?
        {
            let start = std::mem::replace(&mut self.next, end);
            if lacks_output {
                part = self.again(start, end, Want::Usual)?;
            }
            self.merge(start, end, part)?;
        }
        if self.done {
            return Ok(Rest::None);
        }
        // Lines after the last wanted match may be in chunks after it.
        let enough = self
            .wanted
            .filter(|_| self.bench.searcher.after_context() == 0)
            .and_then(|wanted| self.waiting.as_ref()?.end_of_matches(wanted));
        if enough.is_some() && self.is_counted() {
            self.marked = self.may_be_encoded() && self.is_encoded()?;
            self.tally.events += self.wanted.replace(0).unwrap_or_default();
            self.done = true;
            return Ok(Rest::None);
        }
        Ok(enough.map_or(Rest::All, Rest::Before))
    }

    /// Whether nothing is told but how many lines match: `--max-count` of them, wherever they are.
    fn is_counted(&self) -> bool {
        self.method.format.kind == Kind::Count
            && !self.method.format.stats
            && self.method.nul != Nul::Leave
    }

    /// Whether what waits for its turn was searched without knowing how the file begins.
    fn may_be_encoded(&self) -> bool {
        self.waiting.as_ref().is_some_and(Waiting::may_be_encoded)
    }

    /// Whether the file begins with a mark by which it cannot be searched in chunks.
    fn is_encoded(&self) -> io::Result<bool> {
        let passes_over_utf8 = self.method.at_once;
        Ok(mark_of(&self.source)?.is_some_and(|mark| !passes_over_utf8 || mark != UTF8_MARK))
    }

    /// Prints the next part of the file.
    fn merge(&mut self, start: u64, end: u64, mut part: Part) -> io::Result<()> {
        if self.method.nul == Nul::Report && self.tally.binary_offset.is_none() {
            self.tally.binary_offset = part.head_nul;
        }
        if self.is_hidden() {
            return self.merge_hidden(start, end, &part);
        }
        // What follows the last match that is wanted does not count as searched.
        if let Some(wanted) = self.wanted.filter(|wanted| (1..=part.tally.events).contains(wanted))
        {
            part = self.again(start, end, Want::AtMost(wanted))?;
        }
        if self.wanted == Some(0) {
            self.after_last(start, &part)?;
            self.lines_before += part.lines;
            self.done |= self.owed == 0;
            return Ok(());
        }
        self.context_after(start, part.shown.map_or(end, |(first, _)| first), &part)?;
        self.context_before(&part)?;
        if self.done {
            return Ok(());
        }
        if let Some((first, last)) = part.shown {
            self.break_before(first)?;
            self.open()?;
            self.shown_end = Some(last);
        }
        if part.tally.events > 0 {
            self.owed = part.after_owed;
        }
        self.print(&part.rendered, self.lines_before)?;
        self.count(&part);
        self.lines_before += part.lines;
        if part.shown.is_some() {
            // What is before it is context of no line after it.
            self.tail = Tail::default();
        }
        self.tail.put(part.tail, self.bench.searcher.before_context());
        self.done |= part.last || self.has_all();
        if self.method.format.kind.stops_at_match() && !self.method.format.stats {
            self.done |= self.tally.events > 0;
        }
        Ok(())
    }

    fn is_hidden(&self) -> bool {
        self.method.format.kind == Kind::Lines
            && self.method.nul == Nul::Report
            && self.tally.binary_offset.is_some()
    }

    /// In a binary file no line is printed: the first that would be ends the
    /// search, and only a match counts.
    fn merge_hidden(&mut self, start: u64, end: u64, part: &Part) -> io::Result<()> {
        let (source, bench) = (self.source, &mut self.bench);
        let shows_before = bench.searcher.passthru() || bench.searcher.before_context() > 0;
        if part.tally.events == 0 && !bench.searcher.passthru() {
            self.done = part.last;
            self.tally.bytes_searched += part.tally.bytes_searched;
            return Ok(());
        }
        self.done = true;
        let method = self.method;
        let tally = &mut self.tally;
        seen(&source, &(start..end), |bytes| {
            let first = bench.first(&method.as_searched(bytes))?;
            // A line of context may be in an earlier part.
            if let Some(matches) =
                first.matches.filter(|_| !(shows_before && first.is_at_start && start > 0))
            {
                tally.events += 1;
                tally.matched_lines += 1;
                tally.matches += matches;
            }
            // Of context before a match, the searcher has not gone beyond anything yet.
            tally.bytes_searched = match first.bytes_searched {
                0 => 0,
                searched => tally.bytes_searched + searched,
            };
            Ok(())
        })?
    }

    fn count(&mut self, part: &Part) {
        self.tally.events += part.tally.events;
        self.tally.matches += part.tally.matches;
        self.tally.matched_lines += part.tally.matched_lines;
        self.tally.matches_end = self.tally.matches_end.max(part.tally.matches_end);
        self.tally.bytes_searched += part.tally.bytes_searched;
        if self.tally.binary_offset.is_none() {
            self.tally.binary_offset = part.tally.binary_offset;
        }
        if let Some(wanted) = &mut self.wanted {
            // Lines of context after the last one may match too.
            *wanted = wanted.saturating_sub(part.tally.events);
        }
    }

    /// Searches a chunk once more.
    fn again(&mut self, start: u64, end: u64, want: Want) -> io::Result<Part> {
        let source = self.source;
        seen(&source, &(start..end), |bytes| self.search_for(want, start, bytes))?
    }

    fn search_for(&mut self, want: Want, start: u64, bytes: &[u8]) -> io::Result<Part> {
        let usual = std::mem::replace(&mut self.bench.searcher, (self.searcher_for)(want));
        let part = self.bench.search(&self.method, &self.source, start, bytes);
        self.bench.searcher = usual;
        part
    }

    /// Lines at the start of a part that follow the last match that is wanted.
    /// Those that match are shown as matches, as in ripgrep.
    fn after_last(&mut self, start: u64, part: &Part) -> io::Result<()> {
        if self.owed == 0 || part.head.is_empty() {
            return Ok(());
        }
        let source = self.source;
        let context = match &part.head {
            // All of the part, which was searched.
            Edge::Long(line) => {
                self.owed -= 1;
                if part.tally.events == 0 && self.method.format.kind.shows_lines() {
                    self.context_line(EdgeLine::Long(line), start, self.lines_before + 1)?;
                }
                return self.follow(part);
            }
            Edge::Here { lines: head, .. } => self.search_head(start, head)?,
            Edge::There { range, .. } => {
                let method = self.method;
                seen(&source, range, |head| self.search_head(start, &method.as_searched(head)))??
            }
        };
        self.follow(&context)
    }

    /// Prints what was found in lines after the last match that is wanted.
    fn follow(&mut self, found: &Part) -> io::Result<()> {
        self.print(&found.rendered, self.lines_before)?;
        self.count(found);
        self.done |= found.last;
        Ok(())
    }

    /// Searches the lines that are owed of those at the start of a part.
    fn search_head(&mut self, start: u64, head: &[u8]) -> io::Result<Part> {
        let separator = self.method.separator;
        let needed = first_lines(head, self.owed, separator);
        let found = self.search_for(Want::EveryLine, start, needed)?;
        self.owed -= lines(needed, separator).count();
        Ok(found)
    }

    /// Lines at the start of a part that follow a match of an earlier one, up to `limit`.
    fn context_after(&mut self, start: u64, limit: u64, part: &Part) -> io::Result<()> {
        if !self.method.format.kind.shows_lines() || self.owed == 0 || start >= limit {
            return Ok(());
        }
        let (source, method) = (self.source, self.method);
        let mut number = self.lines_before;
        part.head.each_line(&source, &method, |line, offset| {
            if self.owed == 0 || offset >= limit || self.done {
                return Ok(false);
            }
            number += 1;
            self.owed -= 1;
            self.context_line(line, offset, number)?;
            Ok(true)
        })
    }

    /// Lines of earlier parts that precede the first match of `part`.
    fn context_before(&mut self, part: &Part) -> io::Result<()> {
        if part.before_missing == 0 || self.done || !self.method.format.kind.shows_lines() {
            return Ok(());
        }
        let tail = std::mem::take(&mut self.tail);
        let printed = self.last_of(&tail, part.before_missing);
        self.tail = tail;
        printed
    }

    /// The last `needed` lines of what is merged, but those that were printed.
    fn last_of(&mut self, tail: &Tail, needed: usize) -> io::Result<()> {
        let (source, method) = (self.source, self.method);
        for (edge, mut left) in tail.last(needed, self.shown_end) {
            edge.each_line(&source, &method, |line, offset| {
                // A file that was written anew may have more lines there.
                if left == 0 {
                    return Ok(false);
                }
                // Without line numbers none is counted, and none is printed.
                let number = (self.lines_before + 1).saturating_sub(left as u64);
                let is_needed = left <= needed;
                left -= 1;
                if is_needed && self.shown_end.is_none_or(|end| end <= offset) {
                    self.break_before(offset)?;
                    self.context_line(line, offset, number)?;
                }
                Ok(!self.done)
            })?;
            if self.done {
                break;
            }
        }
        Ok(())
    }

    fn context_line(&mut self, line: EdgeLine<'_>, offset: u64, number: u64) -> io::Result<()> {
        match line {
            EdgeLine::Long(line) => {
                self.open()?;
                self.note_context(line.nul, line.goes_on, line.range.end);
                self.print(&line.rendered, number.saturating_sub(1))
            }
            EdgeLine::Text(bytes) => self.context_text(bytes, offset, number),
        }
    }

    fn context_text(&mut self, bytes: &[u8], offset: u64, number: u64) -> io::Result<()> {
        self.open()?;
        self.rendered.clear();
        let number = self.bench.searcher.line_number().then_some(number);
        let (matcher, found) = (&self.bench.matcher, &mut self.bench.found);
        // A part that begins at the start of the file has absolute numbers.
        let mut printing = self.method.printing(matcher, found, &mut self.rendered, 0);
        let goes_on = printing.context_line(&self.bench.searcher, bytes, offset, number)?;
        let nul = printing.tally.binary_offset;
        self.note_context(nul, goes_on, offset + bytes.len() as u64);
        let rendered = std::mem::take(&mut self.rendered);
        let printed = self.print(&rendered, 0);
        self.rendered = rendered;
        printed
    }

    /// Notes what a line of context that ends at `end` says of the file.
    fn note_context(&mut self, nul: Option<u64>, goes_on: bool, end: u64) {
        if self.tally.binary_offset.is_none() {
            self.tally.binary_offset = nul;
        }
        self.done |= !goes_on;
        self.shown_end = Some(end);
    }

    /// What stands between groups of lines, if the line at `offset` begins one.
    fn break_before(&mut self, offset: u64) -> io::Result<()> {
        let searcher = &self.bench.searcher;
        let any_context = searcher.before_context() > 0 || searcher.after_context() > 0;
        let lines = &self.method.format.lines;
        match (&lines.context_separator, self.shown_end) {
            (Some(separator), Some(end))
                if any_context && end < offset && self.method.format.kind == Kind::Lines =>
            {
                self.output.write(&[separator, lines.terminator.as_bytes()].concat())
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.opened, true) {
            return Ok(());
        }
        self.rendered.clear();
        open(self.method.format, self.method.path, &mut self.rendered)?;
        self.output.write(&self.rendered.bytes)
    }

    fn print(&mut self, rendered: &Rendered, lines_before: u64) -> io::Result<()> {
        let (source, holes, output) = (&self.source, &self.holes, &self.output);
        rendered.resolve(lines_before, &mut self.resolved, |piece| match piece {
            Resolved::Bytes(bytes) => output.write(bytes),
            Resolved::Quote(quote) => quoted::write(source, holes, quote, output),
        })
    }
}
