//! Turns what a search finds into output.
//!
//! [`Printing`] is the sink of every search: of a whole file, whose output is
//! then complete, or of a part of one, whose line numbers are filled in later
//! ([`Rendered`]). Opening and closing a file's output is separate
//! ([`open`], [`close`]), because the parts of one file share it.

pub(super) mod found;
pub(super) mod json;
pub(super) mod lines;
pub(super) mod rendered;
pub(super) mod style;
pub(super) mod tally;

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use grep::matcher::Matcher;
use grep::searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};

use self::found::Found;
use self::json::{JsonLine, JsonPrinter};
use self::lines::{Line, LineFormat, LinePrinter};
use self::rendered::{InFile, Rendered, push_decimal};
use self::tally::{Stats, Tally};
use super::large::Stretched;
use super::output::FileOutput;

/// What is printed about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Lines,
    Json,
    Count,
    CountMatches,
    PathWithMatch,
    PathWithoutMatch,
    QuietWithMatch,
    QuietWithoutMatch,
}

impl Kind {
    /// Whether lines are printed, as opposed to something about the file.
    pub(super) fn shows_lines(self) -> bool {
        matches!(self, Kind::Lines | Kind::Json)
    }

    /// Whether the first match settles the matter.
    pub(super) fn stops_at_match(self) -> bool {
        !self.shows_lines() && !matches!(self, Kind::Count | Kind::CountMatches)
    }

    pub(super) fn wants_no_match(self) -> bool {
        matches!(self, Kind::PathWithoutMatch | Kind::QuietWithoutMatch)
    }
}

/// How results are printed; the same for all files of a run.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) kind: Kind,
    pub(super) lines: LineFormat,
    pub(super) replacement: Option<Vec<u8>>,
    pub(super) include_zero: bool,
    /// Count everything that `--stats` shows.
    pub(super) stats: bool,
    /// Each match in a line must be known.
    pub(super) single_matches: bool,
}

/// What a file's NUL bytes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nul {
    /// They are text.
    Text,
    /// Lines of a file with one are not printed, only that it matches.
    Report,
    /// The file is left at the first.
    Leave,
}

/// A longer line at the start of a part is searched where it is: only of few patterns do the matches in it
/// depend on what is before it.
const LED_BYTES_MAX: usize = 1 << 20;

/// The sink of one search.
pub(super) struct Printing<'a, M: Matcher> {
    pub(super) format: &'a Format,
    pub(super) matcher: &'a M,
    pub(super) found: &'a mut Found<M>,
    /// The file's name as it is printed.
    pub(super) path: &'a [u8],
    pub(super) out: &'a mut Rendered,
    pub(super) nul: Nul,
    pub(super) scope: Scope<'a>,
    pub(super) tally: Tally,
    /// Whether something of the file was printed.
    pub(super) opened: bool,
    /// The lines printed of a part.
    pub(super) shown: Option<ShownLines>,
    /// Lines of context since the last match, or since the start.
    pub(super) context_lines: usize,
    /// Lines of context before the first match.
    pub(super) before_first: Option<usize>,
}

/// Which lines of a file were printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownLines {
    /// Where the first begins.
    pub(super) start: u64,
    /// Where the last ends.
    pub(super) end: u64,
    /// Where the last begins.
    pub(super) last_start: u64,
    /// The number of the last, from the start of the part; 1 if lines are not numbered.
    pub(super) last_number: u64,
}

/// What a search covers.
pub(super) enum Scope<'a> {
    /// A file, whose output leaves while the search runs.
    File(&'a FileOutput<'a>),
    /// A part of a file: line numbers are left out, the file is opened and
    /// closed by others, and NUL bytes are looked for here, not by the searcher.
    Part { offset: u64 },
}

/// A line to show.
struct Shown<'a> {
    bytes: &'a [u8],
    /// As `bytes`, or with fewer zeros.
    short: &'a [u8],
    offset: u64,
    number: Option<u64>,
    kind: LineKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Match,
    /// Several lines, with `--multiline`.
    Group,
    Context,
}

impl<M: Matcher> Printing<'_, M> {
    /// Finds the matches in a line and what replaces them.
    fn look(&mut self, searcher: &Searcher, buffer: &[u8], range: &Range<usize>) -> io::Result<()> {
        if self.format.single_matches {
            self.found.find(searcher, self.matcher, buffer, range)?;
        }
        if let Some(replacement) = &self.format.replacement {
            self.found.replace(searcher, self.matcher, buffer, range, replacement)?;
        }
        Ok(())
    }

    /// The line at `range` of `buffer`, not at the beginning of what matches are looked for in if it is not
    /// at that of the file: at the start of a part, the end of the line before it is put before it.
    fn in_text<'b>(
        &self,
        searcher: &Searcher,
        buffer: &'b [u8],
        range: Range<usize>,
    ) -> (Cow<'b, [u8]>, Range<usize>) {
        let is_looked_at = self.format.single_matches || self.format.replacement.is_some();
        if !is_looked_at
            || range.start > 0
            || self.base_offset() == 0
            || range.len() > LED_BYTES_MAX
        {
            return (buffer.into(), range);
        }
        let end = [searcher.line_terminator().as_byte()];
        ([&end, &buffer[range.clone()]].concat().into(), 1..1 + range.len())
    }

    fn base_offset(&self) -> u64 {
        match self.scope {
            Scope::Part { offset } => offset,
            Scope::File(_) => 0,
        }
    }

    fn is_part(&self) -> bool {
        matches!(self.scope, Scope::Part { .. })
    }

    /// Notes the first NUL byte of a part.
    fn watch(&mut self, bytes: &[u8], offset: u64) {
        if self.is_part()
            && self.nul == Nul::Report
            && self.tally.binary_offset.is_none()
            && let Some(at) = memchr::memchr(0, bytes)
        {
            self.tally.binary_offset = Some(offset + at as u64);
        }
    }

    /// Whether no line is to be printed any more.
    fn is_hidden(&self) -> bool {
        self.format.kind == Kind::Lines
            && self.nul == Nul::Report
            && self.tally.binary_offset.is_some()
    }

    /// Notes how many lines of context were before a match. After the last that
    /// is wanted, lines that match are context too.
    fn note_place(&mut self, searcher: &Searcher) {
        self.before_first.get_or_insert(self.context_lines);
        if searcher.max_matches().is_some_and(|most| self.tally.events >= most) {
            self.context_lines += 1;
        } else {
            self.context_lines = 0;
        }
    }

    fn summarize(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let groups = searcher.multi_line_with_matcher(self.matcher);
        self.note_place(searcher);
        let matches = if self.format.stats || groups || self.format.kind == Kind::CountMatches {
            let (buffer, range) =
                self.in_text(searcher, found.buffer(), found.bytes_range_in_buffer());
            found::count(searcher, self.matcher, &buffer, &range)?.max(1)
        } else {
            1
        };
        self.tally.events += if groups { matches } else { 1 };
        self.tally.matches += matches;
        if self.format.stats {
            self.tally.matched_lines += found.lines().count() as u64;
            Ok(true)
        } else {
            Ok(!self.format.kind.stops_at_match())
        }
    }

    fn show(&mut self, line: &Shown<'_>) -> io::Result<bool> {
        if self.is_hidden() {
            return Ok(false);
        }
        let relative = self.is_part();
        if !relative && !std::mem::replace(&mut self.opened, true) {
            open(self.format, self.path, self.out)?;
        }
        if self.format.kind == Kind::Json {
            let kind = if line.kind == LineKind::Context { "context" } else { "match" };
            let json = JsonLine {
                kind,
                bytes: line.bytes,
                short: line.short,
                offset: line.offset,
                number: line.number,
            };
            JsonPrinter { path: self.path, out: self.out, relative }.line(&json, self.found)?;
        } else {
            let shown = self.found.shown(line.bytes);
            let is_as_in_file = shown.bytes.as_ptr() == line.bytes.as_ptr();
            let text = Line {
                shown,
                in_file: (relative && is_as_in_file)
                    .then_some(InFile { text: line.bytes, offset: line.offset }),
                offset: line.offset,
                number: line.number,
                is_context: line.kind == LineKind::Context,
                is_group: line.kind == LineKind::Group,
            };
            let format = &self.format.lines;
            LinePrinter { format, path: self.path, out: self.out, relative }.print(&text);
        }
        let end = line.offset + line.bytes.len() as u64;
        self.shown = Some(ShownLines {
            start: self.shown.map_or(line.offset, |shown| shown.start),
            end,
            last_start: line.offset,
            last_number: line.number.unwrap_or(1),
        });
        if let Scope::File(output) = self.scope
            && output.is_due(self.out.bytes.len())
        {
            output.write(&self.out.bytes)?;
            self.out.clear();
        }
        Ok(true)
    }

    /// Prints a line that is selected, of which a shorter form was searched.
    ///
    /// # Errors
    /// Those of the matcher and of the output.
    pub(super) fn stretched_line(
        &mut self,
        searcher: &Searcher,
        line: &Stretched<'_>,
        bytes: &[u8],
    ) -> io::Result<bool> {
        self.watch(bytes, line.range.start);
        self.note_place(searcher);
        self.tally.events += 1;
        self.tally.matches_end = line.range.end;
        self.look_stretched(searcher, line)?;
        if self.format.stats {
            self.tally.matches += self.found.matches().len() as u64;
            self.tally.matched_lines += 1;
        }
        self.show_stretched(searcher, line, bytes, LineKind::Match)
    }

    /// As [`Printing::stretched_line`], for a line of context.
    ///
    /// # Errors
    /// Those of the matcher and of the output.
    pub(super) fn stretched_context_line(
        &mut self,
        searcher: &Searcher,
        line: &Stretched<'_>,
        bytes: &[u8],
    ) -> io::Result<bool> {
        self.watch(bytes, line.range.start);
        self.found.clear();
        if searcher.invert_match() {
            self.look_stretched(searcher, line)?;
        }
        self.show_stretched(searcher, line, bytes, LineKind::Context)
    }

    /// Finds the matches in the short form of a line, and says where in all of it they are.
    fn look_stretched(&mut self, searcher: &Searcher, line: &Stretched<'_>) -> io::Result<()> {
        self.found.clear();
        if self.format.single_matches {
            self.found.find(searcher, self.matcher, line.short, &(0..line.short.len()))?;
            self.found.stretch(|at| line.place(at));
        }
        Ok(())
    }

    fn show_stretched(
        &mut self,
        searcher: &Searcher,
        line: &Stretched<'_>,
        bytes: &[u8],
        kind: LineKind,
    ) -> io::Result<bool> {
        let number = searcher.line_number().then_some(1);
        let (short, offset) = (line.short, line.range.start);
        self.show(&Shown { bytes, short, offset, number, kind })
    }

    /// Prints a line of context; also used for context of another part's match.
    ///
    /// # Errors
    /// Those of the matcher and of the output.
    pub(super) fn context_line(
        &mut self,
        searcher: &Searcher,
        bytes: &[u8],
        offset: u64,
        number: Option<u64>,
    ) -> io::Result<bool> {
        self.watch(bytes, offset);
        self.found.clear();
        // With -v, the lines around are those that match.
        if searcher.invert_match() {
            self.look(searcher, bytes, &(0..bytes.len()))?;
        }
        self.show(&Shown { bytes, short: bytes, offset, number, kind: LineKind::Context })
    }

    /// Prints what stands between groups of lines.
    pub(super) fn break_groups(&mut self) {
        if self.format.kind == Kind::Lines {
            let format = &self.format.lines;
            LinePrinter { format, path: self.path, out: self.out, relative: false }.context_break();
        }
    }
}

impl<M: Matcher> Sink for Printing<'_, M> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let offset = self.base_offset() + found.absolute_byte_offset();
        self.tally.matches_end = offset + found.bytes().len() as u64;
        self.watch(found.bytes(), offset);
        if !self.format.kind.shows_lines() {
            return self.summarize(searcher, found);
        }
        self.note_place(searcher);
        self.tally.events += 1;
        self.found.clear();
        let (buffer, range) = self.in_text(searcher, found.buffer(), found.bytes_range_in_buffer());
        self.look(searcher, &buffer, &range)?;
        if self.format.stats {
            self.tally.matches += self.found.matches().len() as u64;
            self.tally.matched_lines += found.lines().count() as u64;
        }
        let group = searcher.multi_line_with_matcher(self.matcher);
        let kind = if group { LineKind::Group } else { LineKind::Match };
        let (bytes, number) = (found.bytes(), found.line_number());
        self.show(&Shown { bytes, short: bytes, offset, number, kind })
    }

    fn context(&mut self, searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        match context.kind() {
            // Lines before a later match say nothing about the edges of the part.
            SinkContextKind::Before | SinkContextKind::Other if self.before_first.is_some() => {}
            SinkContextKind::Before | SinkContextKind::Other | SinkContextKind::After => {
                self.context_lines += 1;
            }
        }
        if !self.format.kind.shows_lines() {
            return Ok(true);
        }
        let offset = self.base_offset() + context.absolute_byte_offset();
        self.context_line(searcher, context.bytes(), offset, context.line_number())
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.break_groups();
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, offset: u64) -> io::Result<bool> {
        self.tally.binary_offset.get_or_insert(offset);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.tally.bytes_searched = finish.byte_count();
        if self.tally.binary_offset.is_none() {
            self.tally.binary_offset = finish.binary_byte_offset();
        }
        Ok(())
    }
}

/// Writes what comes before the first line of a file.
///
/// # Errors
/// None in practice: the output is memory.
pub(super) fn open(format: &Format, path: &[u8], out: &mut Rendered) -> io::Result<()> {
    match format.kind {
        Kind::Json => JsonPrinter { path, out, relative: false }.begin(),
        Kind::Lines => {
            LinePrinter { format: &format.lines, path, out, relative: false }.heading();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The result of searching a whole file.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) is_match: bool,
    pub(super) stats: Stats,
    /// Nothing is shown but a word on a binary file.
    pub(super) is_word_only: bool,
    /// What kept the rest of it away; what came before is searched.
    pub(super) failed: Option<io::Error>,
}

/// Writes what comes after the last line of a file, and sums it up.
///
/// `printed` is how many bytes left before; `elapsed` is filled in by the caller
/// through `stats`.
///
/// # Errors
/// None in practice: the output is memory.
pub(super) fn close(
    format: &Format,
    path: &[u8],
    nul: Nul,
    tally: &Tally,
    mut stats: Stats,
    printed: u64,
    out: &mut Rendered,
) -> io::Result<Outcome> {
    let mut events = tally.events;
    let is_word_only = format.kind == Kind::Lines && printed == 0 && out.bytes.is_empty();
    stats.searches = 1;
    stats.searches_with_match = u64::from(events > 0);
    stats.bytes_searched = tally.bytes_searched;
    stats.bytes_printed = printed + out.bytes.len() as u64;
    stats.matched_lines = tally.matched_lines;
    stats.matches = tally.matches;
    match format.kind {
        Kind::Json => {
            if events > 0 || stats.bytes_printed > 0 {
                JsonPrinter { path, out, relative: false }.end(tally.binary_offset, &stats)?;
            }
        }
        Kind::Lines => {
            if let Some(offset) = tally.binary_offset.filter(|_| events > 0) {
                binary_message(format, path, nul, offset, out);
                stats.bytes_printed = printed + out.bytes.len() as u64;
            }
        }
        kind => {
            if tally.binary_offset.is_some() && nul == Nul::Leave {
                events = 0;
            } else {
                summary(format, kind, path, events, tally.matches, out);
            }
        }
    }
    let is_match = (events > 0) != format.kind.wants_no_match();
    Ok(Outcome { is_match, stats, is_word_only, failed: None })
}

fn binary_message(format: &Format, path: &[u8], nul: Nul, offset: u64, out: &mut Rendered) {
    if format.lines.path {
        format.lines.style.path.write(path, &mut out.bytes);
        out.bytes.extend_from_slice(b": ");
    }
    out.bytes.extend_from_slice(match nul {
        Nul::Leave => {
            b"WARNING: stopped searching binary file after match (found \"\\0\" byte around offset "
                .as_slice()
        }
        Nul::Report | Nul::Text => b"binary file matches (found \"\\0\" byte around offset ",
    });
    push_decimal(&mut out.bytes, offset);
    out.bytes.extend_from_slice(b")\n");
}

fn summary(
    format: &Format,
    kind: Kind,
    path: &[u8],
    events: u64,
    matches: u64,
    out: &mut Rendered,
) {
    let lines = &format.lines;
    let count = match kind {
        Kind::Count => Some(events),
        Kind::CountMatches => Some(matches),
        _ => None,
    };
    let with_path = match kind {
        Kind::Count | Kind::CountMatches => lines.path,
        Kind::PathWithMatch | Kind::PathWithoutMatch => true,
        _ => return,
    };
    let shown = match kind {
        Kind::PathWithoutMatch => events == 0,
        Kind::Count | Kind::CountMatches => events > 0 || format.include_zero,
        _ => events > 0,
    };
    if !shown {
        return;
    }
    let terminator = lines.terminator.as_bytes();
    let out = &mut out.bytes;
    if with_path {
        lines.style.path.write(path, out);
        match (lines.path_terminator, count) {
            (Some(byte), _) => out.push(byte),
            (None, Some(_)) => out.push(b':'),
            (None, None) => out.extend_from_slice(terminator),
        }
    }
    if let Some(count) = count {
        push_decimal(out, count);
        out.extend_from_slice(terminator);
    }
}
