//! Matching lines as text: path, line number, column, offset, line.

use bstr::ByteSlice as _;
use grep::matcher::{LineTerminator, Match};

use super::found::{Shown, line_end_len};
use super::rendered::{InFile, Mark, Rendered, push_decimal};
use super::style::Style;

/// How lines are printed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent choice of the user")]
pub(in crate::grep) struct LineFormat {
    pub(in crate::grep) style: Style,
    pub(in crate::grep) terminator: LineTerminator,
    /// Print the path: above the lines, or before each.
    pub(in crate::grep) path: bool,
    pub(in crate::grep) heading: bool,
    pub(in crate::grep) column: bool,
    pub(in crate::grep) byte_offset: bool,
    pub(in crate::grep) only_matching: bool,
    /// Print a line for each match in it.
    pub(in crate::grep) per_match: bool,
    pub(in crate::grep) trim: bool,
    pub(in crate::grep) max_columns: Option<u64>,
    pub(in crate::grep) max_columns_preview: bool,
    pub(in crate::grep) context_separator: Option<Vec<u8>>,
    pub(in crate::grep) match_separator: Vec<u8>,
    pub(in crate::grep) field_context_separator: Vec<u8>,
    /// Ends a path instead of a separator or a line end.
    pub(in crate::grep) path_terminator: Option<u8>,
}

/// One line, or with `--multiline` a group of lines, to print.
#[derive(Debug, Clone, Copy)]
pub(in crate::grep) struct Line<'a> {
    pub(in crate::grep) shown: Shown<'a>,
    pub(in crate::grep) offset: u64,
    pub(in crate::grep) number: Option<u64>,
    pub(in crate::grep) is_context: bool,
    /// `shown` may be several lines.
    pub(in crate::grep) is_group: bool,
    /// Where `shown` is in the file, if long text may be left there.
    pub(in crate::grep) in_file: Option<InFile<'a>>,
}

/// Prints the lines of one file.
#[derive(Debug)]
pub(in crate::grep) struct LinePrinter<'a> {
    pub(in crate::grep) format: &'a LineFormat,
    /// The file's name.
    pub(in crate::grep) path: &'a [u8],
    pub(in crate::grep) out: &'a mut Rendered,
    /// Leave places for line numbers.
    pub(in crate::grep) relative: bool,
}

impl LinePrinter<'_> {
    /// Prints one event of a search.
    pub(in crate::grep) fn print(&mut self, line: &Line<'_>) {
        match (line.shown.matches.is_empty(), line.is_group) {
            (true, false) => {
                self.fields(line, 0, 0, None);
                self.text(line, line.shown.bytes);
            }
            (true, true) => {
                for (index, range) in self.lines_of(line.shown.bytes) {
                    self.fields(line, range.start() as u64, index, None);
                    self.text(line, &line.shown.bytes[range]);
                }
            }
            (false, false) => self.matched_line(line),
            (false, true) if self.format.only_matching => self.group_only_matching(line),
            (false, true) if self.format.per_match => self.group_per_match(line),
            (false, true) => self.matched_group(line),
        }
    }

    /// The name of the file above its lines, if it is printed there.
    pub(in crate::grep) fn heading(&mut self) {
        if self.format.heading && self.format.path {
            let out = &mut self.out.bytes;
            self.format.style.path.write(self.path, out);
            match self.format.path_terminator {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(self.format.terminator.as_bytes()),
            }
        }
    }

    /// What stands between groups of lines that do not touch.
    pub(in crate::grep) fn context_break(&mut self) {
        if let Some(separator) = &self.format.context_separator {
            self.out.bytes.extend_from_slice(separator);
            self.line_end();
        }
    }

    fn matched_line(&mut self, line: &Line<'_>) {
        let Shown { bytes, matches, .. } = line.shown;
        if self.format.only_matching {
            for m in matches {
                self.fields(line, m.start() as u64, 0, Some(m.start()));
                let part = &bytes[*m];
                self.coloured_text(line, part, &[Match::new(0, part.len())]);
            }
        } else if self.format.per_match {
            for m in matches {
                self.fields(line, m.start() as u64, 0, Some(m.start()));
                self.coloured_text(line, bytes, std::slice::from_ref(m));
            }
        } else {
            self.fields(line, 0, 0, Some(matches[0].start()));
            self.coloured_text(line, bytes, matches);
        }
    }

    fn matched_group(&mut self, line: &Line<'_>) {
        let Shown { bytes, matches, .. } = line.shown;
        let mut next = 0;
        for (index, range) in self.lines_of(bytes) {
            self.fields(line, range.start() as u64, index, Some(matches[0].start()));
            let range = self.trimmed(bytes, range);
            if self.is_too_long(&bytes[range]) {
                self.too_long(line, range, matches, &mut next);
            } else {
                self.coloured(line, bytes, range, matches, &mut next);
                self.line_end();
            }
        }
    }

    fn group_only_matching(&mut self, line: &Line<'_>) {
        let Shown { bytes, matches, .. } = line.shown;
        let mut next = 0;
        for (index, range) in self.lines_of(bytes) {
            let mut rest = self.trimmed(bytes, self.without_end(bytes, range));
            while !rest.is_empty() {
                let m = matches[next];
                if m.end() <= rest.start() {
                    if next + 1 == matches.len() {
                        break;
                    }
                    next += 1;
                } else if rest.start() < m.start() {
                    rest = rest.with_start(rest.end().min(m.start()));
                } else {
                    let part = rest.with_end(rest.end().min(m.end()));
                    self.fields(line, m.start() as u64, index, Some(m.start()));
                    rest = rest.with_start(part.end());
                    if self.is_too_long(&bytes[part]) {
                        self.too_long(line, part, matches, &mut next);
                    } else {
                        self.format.style.matched.write(&bytes[part], &mut self.out.bytes);
                        self.line_end();
                    }
                }
            }
        }
    }

    fn group_per_match(&mut self, line: &Line<'_>) {
        let Shown { bytes, matches, .. } = line.shown;
        for m in matches {
            // Only the line on which the match starts, as ripgrep does.
            let Some((index, range)) =
                self.lines_of(bytes).find(|(_, range)| range.end() > m.start())
            else {
                continue;
            };
            if range.start() >= m.end() {
                continue;
            }
            self.fields(
                line,
                range.start() as u64,
                index,
                Some(m.start().saturating_sub(range.start())),
            );
            let range = self.trimmed(bytes, self.without_end(bytes, range));
            let m = std::slice::from_ref(m);
            if self.is_too_long(&bytes[range]) {
                self.too_long(line, range, m, &mut 0);
            } else {
                self.coloured(line, bytes, range, m, &mut 0);
                self.line_end();
            }
        }
    }

    /// Everything before the text; `offset` and `index` are those within the event.
    fn fields(&mut self, line: &Line<'_>, offset: u64, index: u64, column: Option<usize>) {
        let format = self.format;
        let separator: &[u8] =
            if line.is_context { &format.field_context_separator } else { &format.match_separator };
        let out = &mut *self.out;
        if format.path && !format.heading {
            format.style.path.write(self.path, &mut out.bytes);
            match format.path_terminator {
                Some(byte) => out.bytes.push(byte),
                None => out.bytes.extend_from_slice(separator),
            }
        }
        if let Some(number) = line.number {
            format.style.line.start(&mut out.bytes);
            let number = number + index;
            if self.relative {
                out.marks.push(Mark { at: out.bytes.len(), line: number });
            } else {
                push_decimal(&mut out.bytes, number);
            }
            format.style.line.end(&mut out.bytes);
            out.bytes.extend_from_slice(separator);
        }
        let column = column.filter(|_| format.column).map(|column| column as u64 + 1);
        let offset = Some(line.offset + offset).filter(|_| format.byte_offset);
        for number in [column, offset].into_iter().flatten() {
            format.style.column.start(&mut out.bytes);
            push_decimal(&mut out.bytes, number);
            format.style.column.end(&mut out.bytes);
            out.bytes.extend_from_slice(separator);
        }
    }

    /// A line without marks.
    fn text(&mut self, line: &Line<'_>, bytes: &[u8]) {
        let range = self.trimmed(bytes, Match::new(0, bytes.len()));
        let shown = &bytes[range];
        if self.is_too_long(shown) {
            let line = Line { shown: Shown { bytes: shown, ..line.shown }, ..*line };
            self.too_long(&line, Match::new(0, shown.len()), line.shown.matches, &mut 0);
        } else {
            let (text, end) =
                shown.split_at(shown.len() - line_end_len(self.format.terminator, shown));
            self.out.put(text, line.in_file);
            self.out.bytes.extend_from_slice(end);
            if end.is_empty() {
                self.line_end();
            }
        }
    }

    /// A line in which `matches` are marked by colour, where there is colour.
    fn coloured_text(&mut self, line: &Line<'_>, bytes: &[u8], matches: &[Match]) {
        if !self.format.style.marks_matches {
            return self.text(line, bytes);
        }
        let range = self.trimmed(bytes, Match::new(0, bytes.len()));
        if self.is_too_long(bytes) {
            let line = Line { shown: Shown { bytes, ..line.shown }, ..*line };
            self.too_long(&line, range, matches, &mut 0);
        } else {
            self.coloured(line, bytes, range, matches, &mut 0);
            self.line_end();
        }
    }

    /// `range` of `bytes` without its line end; `next` is the first match that may be in it.
    fn coloured(
        &mut self,
        line: &Line<'_>,
        bytes: &[u8],
        range: Match,
        matches: &[Match],
        next: &mut usize,
    ) {
        let mut rest = self.without_end(bytes, range);
        let style = &self.format.style;
        let out = &mut *self.out;
        if matches.is_empty() {
            out.put(&bytes[rest], line.in_file);
            return;
        }
        let highlight = style.highlight.as_ref().filter(|_| !line.is_context);
        let mut painting = false;
        let stop = |out: &mut Rendered, painting: &mut bool| {
            if std::mem::take(painting) {
                match highlight {
                    Some(paint) => paint.start(&mut out.bytes),
                    None => style.matched.end(&mut out.bytes),
                }
            }
        };
        if let Some(paint) = highlight {
            paint.start(&mut out.bytes);
        }
        while !rest.is_empty() {
            let m = matches[*next];
            if m.end() <= rest.start() {
                if *next + 1 < matches.len() {
                    *next += 1;
                    continue;
                }
                stop(out, &mut painting);
                out.put(&bytes[rest], line.in_file);
                break;
            }
            let (upto, inside) = if rest.start() < m.start() {
                (rest.end().min(m.start()), false)
            } else {
                (rest.end().min(m.end()), true)
            };
            if !inside {
                stop(out, &mut painting);
            } else if !std::mem::replace(&mut painting, true) {
                style.matched.start(&mut out.bytes);
            }
            out.put(&bytes[rest.with_end(upto)], line.in_file);
            rest = rest.with_start(upto);
        }
        stop(out, &mut painting);
        if let Some(paint) = highlight {
            paint.end(&mut out.bytes);
        }
    }

    /// What stands for a line longer than `--max-columns`.
    fn too_long(&mut self, line: &Line<'_>, range: Match, matches: &[Match], next: &mut usize) {
        let bytes = line.shown.bytes;
        if self.format.max_columns_preview {
            let columns = self.format.max_columns.and_then(|n| usize::try_from(n).ok());
            let end = bytes[range]
                .grapheme_indices()
                .take(columns.unwrap_or(usize::MAX))
                .last()
                .map_or(0, |(_, end, _)| end);
            let preview = range.with_end(range.start() + end);
            self.coloured(line, bytes, preview, matches, next);
            if matches.is_empty() {
                self.out.bytes.extend_from_slice(b" [... omitted end of long line]");
            } else {
                let hidden = preview.end()..range.end();
                let more = matches.iter().filter(|m| hidden.contains(&m.start())).count() as u64;
                self.out.bytes.extend_from_slice(b" [... ");
                push_decimal(&mut self.out.bytes, more);
                self.out.bytes.extend_from_slice(if more == 1 {
                    b" more match]"
                } else {
                    b" more matches]"
                });
            }
        } else if line.shown.originals == 0 || self.format.only_matching {
            self.out.bytes.extend_from_slice(if line.is_context {
                b"[Omitted long context line]"
            } else {
                b"[Omitted long matching line]"
            });
        } else {
            self.out.bytes.extend_from_slice(b"[Omitted long line with ");
            push_decimal(&mut self.out.bytes, line.shown.originals as u64);
            self.out.bytes.extend_from_slice(b" matches]");
        }
        self.line_end();
    }

    fn line_end(&mut self) {
        self.out.bytes.extend_from_slice(self.format.terminator.as_bytes());
    }

    fn is_too_long(&self, bytes: &[u8]) -> bool {
        self.format.max_columns.is_some_and(|max| bytes.len() as u64 > max)
    }

    fn without_end(&self, bytes: &[u8], range: Match) -> Match {
        range.with_end(range.end() - line_end_len(self.format.terminator, &bytes[range]))
    }

    /// `range` without white space at its start, if that is not to be printed.
    fn trimmed(&self, bytes: &[u8], range: Match) -> Match {
        if !self.format.trim {
            return range;
        }
        let ends = self.format.terminator.as_bytes();
        let blank = bytes[range]
            .iter()
            .take_while(|byte| {
                matches!(byte, b'\t' | b'\n' | 0x0B | 0x0C | b'\r' | b' ') && !ends.contains(byte)
            })
            .count();
        range.with_start(range.start() + blank)
    }

    /// Number and range of each line of a group.
    fn lines_of<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = (u64, Match)> + use<'b> {
        let terminator = self.format.terminator.as_byte();
        let mut start = 0;
        (0..).map_while(move |index| {
            let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
            let len = memchr::memchr(terminator, rest).map_or(rest.len(), |at| at + 1);
            let line = Match::new(start, start + len);
            start += len;
            Some((index, line))
        })
    }
}
