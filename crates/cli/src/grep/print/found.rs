//! Where in a matching line the matches are, and what replaces them.

use std::io;
use std::ops::Range;

use grep::matcher::{Captures as _, LineTerminator, Match, Matcher};
use grep::searcher::Searcher;

/// How far past a match of several lines the engine may look: enough for a
/// look-around that is not pathological, as in ripgrep.
const LOOK_AHEAD_BYTES_MAX: usize = 128;

/// The matches in one line or group of lines, and the text to print.
///
/// Kept from line to line, so that nothing is allocated for each.
pub(in crate::grep) struct Found<M: Matcher> {
    matches: Vec<Match>,
    replaced: Vec<u8>,
    replaced_matches: Vec<Match>,
    captures: Option<M::Captures>,
}

impl<M: Matcher> Default for Found<M> {
    fn default() -> Found<M> {
        Found {
            matches: Vec::new(),
            replaced: Vec::new(),
            replaced_matches: Vec::new(),
            captures: None,
        }
    }
}

/// What a line is printed from.
#[derive(Debug, Clone, Copy)]
pub(in crate::grep) struct Shown<'a> {
    pub(in crate::grep) bytes: &'a [u8],
    pub(in crate::grep) matches: &'a [Match],
    /// Matches in the text of the file.
    pub(in crate::grep) originals: usize,
}

impl<M: Matcher> Found<M> {
    pub(in crate::grep) fn clear(&mut self) {
        self.matches.clear();
        self.replaced.clear();
        self.replaced_matches.clear();
    }

    /// Matches, relative to the start of the line.
    pub(in crate::grep) fn matches(&self) -> &[Match] {
        &self.matches
    }

    /// The text that stands in for match `index`, if matches are replaced.
    pub(in crate::grep) fn replacement(&self, index: usize) -> Option<&[u8]> {
        self.replaced_matches.get(index).map(|m| &self.replaced[m.start()..m.end()])
    }

    /// `original`, or what replaces it.
    pub(in crate::grep) fn shown<'a>(&'a self, original: &'a [u8]) -> Shown<'a> {
        let originals = self.matches.len();
        if self.replaced_matches.is_empty() {
            Shown { bytes: original, matches: &self.matches, originals }
        } else {
            Shown { bytes: &self.replaced, matches: &self.replaced_matches, originals }
        }
    }

    /// Finds the matches that start in `range` of `buffer`.
    pub(in crate::grep) fn find(
        &mut self,
        searcher: &Searcher,
        matcher: &M,
        buffer: &[u8],
        range: &Range<usize>,
    ) -> io::Result<()> {
        self.matches.clear();
        let (haystack, _) = haystack(searcher, matcher, buffer, range);
        let matches = &mut self.matches;
        matcher
            .find_iter_at(haystack, range.start, |m| {
                if m.start() >= range.end {
                    return false;
                }
                matches.push(Match::new(m.start() - range.start, m.end() - range.start));
                true
            })
            .map_err(|error| io::Error::other(error.to_string()))?;
        // An empty match after the line end belongs to the next line.
        if matches.last().is_some_and(|m| m.is_empty() && m.start() >= range.end) {
            matches.pop();
        }
        Ok(())
    }

    /// Puts the matches where `place` says that their edges are.
    pub(in crate::grep) fn stretch(&mut self, place: impl Fn(usize) -> usize) {
        for m in &mut self.matches {
            *m = Match::new(place(m.start()), place(m.end()));
        }
    }

    /// Replaces the matches that start in `range` of `buffer`.
    pub(in crate::grep) fn replace(
        &mut self,
        searcher: &Searcher,
        matcher: &M,
        buffer: &[u8],
        range: &Range<usize>,
        replacement: &[u8],
    ) -> io::Result<()> {
        self.replaced.clear();
        self.replaced_matches.clear();
        let (haystack, line_end) = haystack(searcher, matcher, buffer, range);
        let failed = |error: M::Error| io::Error::other(error.to_string());
        let captures = match &mut self.captures {
            Some(captures) => captures,
            none => none.insert(matcher.new_captures().map_err(failed)?),
        };
        let (replaced, places) = (&mut self.replaced, &mut self.replaced_matches);
        let mut copied = range.start;
        matcher
            .captures_iter_at(haystack, range.start, captures, |captures| {
                let whole = captures.get(0).expect("group 0 takes part in every match");
                if whole.start() >= range.end {
                    return false;
                }
                replaced.extend_from_slice(&haystack[copied..whole.start()]);
                copied = whole.end();
                let start = replaced.len();
                captures.interpolate(
                    |name| matcher.capture_index(name),
                    haystack,
                    replacement,
                    replaced,
                );
                places.push(Match::new(start, replaced.len()));
                true
            })
            .map_err(failed)?;
        let end = if copied > range.end { haystack.len() } else { haystack.len().min(range.end) };
        replaced.extend_from_slice(&haystack[copied..end]);
        replaced.extend_from_slice(line_end);
        Ok(())
    }
}

/// Counts the matches that start in `range` of `buffer`.
pub(in crate::grep) fn count<M: Matcher>(
    searcher: &Searcher,
    matcher: &M,
    buffer: &[u8],
    range: &Range<usize>,
) -> io::Result<u64> {
    let (haystack, _) = haystack(searcher, matcher, buffer, range);
    let mut count = 0;
    matcher
        .find_iter_at(haystack, range.start, |m| {
            if m.start() >= range.end {
                return false;
            }
            count += 1;
            true
        })
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(count)
}

/// What the engine may look at for matches in `range`, and the line end that was cut off.
fn haystack<'b, M: Matcher>(
    searcher: &Searcher,
    matcher: &M,
    buffer: &'b [u8],
    range: &Range<usize>,
) -> (&'b [u8], &'b [u8]) {
    if searcher.multi_line_with_matcher(matcher) {
        let end = buffer.len().min(range.end + LOOK_AHEAD_BYTES_MAX);
        return (&buffer[..end], &[]);
    }
    let line = &buffer[..range.end];
    let end = line.len() - line_end_len(searcher.line_terminator(), line);
    (&line[..end], &line[end..])
}

/// Bytes of the line end that `line` ends with.
pub(in crate::grep) fn line_end_len(terminator: LineTerminator, line: &[u8]) -> usize {
    if !terminator.is_suffix(line) {
        0
    } else if terminator.is_crlf() && line.ends_with(b"\r\n") {
        2
    } else {
        1
    }
}
