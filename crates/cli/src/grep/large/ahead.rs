//! Looks for lines in windows that end with lines.

use std::cell::Cell;

use grep::matcher::{LineMatchKind, LineTerminator, Match, Matcher};
use memchr::memchr;

use crate::windows::bring;

/// A matcher of lines that finds what the one within finds, window by window. To be used over one
/// text only, from its start on.
pub(super) struct Ahead<'a, M> {
    within: &'a M,
    separator: u8,
    /// At least so many.
    window_bytes: usize,
    /// Address at which the window ends; what follows it has been brought.
    window_end: Cell<usize>,
}

impl<'a, M: Matcher> Ahead<'a, M> {
    pub(super) fn new(within: &'a M, separator: u8, window_bytes: usize) -> Self {
        Self { within, separator, window_bytes, window_end: Cell::new(0) }
    }

    /// Where the window that holds `at` ends: after a line.
    fn window_end(&self, text: &[u8], at: usize) -> usize {
        let start = text.as_ptr().addr();
        let known = self.window_end.get().saturating_sub(start);
        if known > at {
            return known.min(text.len());
        }
        let from = at.saturating_add(self.window_bytes).min(text.len());
        let end = memchr(self.separator, &text[from..]).map_or(text.len(), |line| from + line + 1);
        bring(&text[end..]);
        self.window_end.set(start + end);
        end
    }
}

impl<M: Matcher> Matcher for Ahead<'_, M> {
    type Captures = M::Captures;
    type Error = M::Error;

    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, M::Error> {
        self.within.find_at(text, at)
    }

    fn new_captures(&self) -> Result<M::Captures, M::Error> {
        self.within.new_captures()
    }

    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, M::Error> {
        self.within.shortest_match_at(text, at)
    }

    fn non_matching_bytes(&self) -> Option<&grep::matcher::ByteSet> {
        self.within.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.within.line_terminator()
    }

    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, M::Error> {
        let mut at = 0;
        loop {
            let end = self.window_end(text, at);
            let is_last = end == text.len();
            // What is found behind the last line of a window is the next window's to find.
            let is_within = |found: usize| is_last || found < end - at;
            match self.within.find_candidate_line(&text[at..end])? {
                Some(LineMatchKind::Confirmed(found)) if is_within(found) => {
                    return Ok(Some(LineMatchKind::Confirmed(at + found)));
                }
                Some(LineMatchKind::Candidate(found)) if is_within(found) => {
                    return Ok(Some(LineMatchKind::Candidate(at + found)));
                }
                _ if is_last => return Ok(None),
                _ => at = end,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use grep::regex::RegexMatcherBuilder;
    use grep::searcher::{SearcherBuilder, sinks::Bytes};

    use super::*;
    use crate::windows::WINDOW_BYTES;

    /// The lines that are found, by their numbers.
    fn found(matcher: impl Matcher, text: &[u8]) -> Vec<u64> {
        let mut numbers = Vec::new();
        let sink = Bytes(|number, _| {
            numbers.push(number);
            Ok(true)
        });
        SearcherBuilder::new().build().search_slice(matcher, text, sink).expect("searched");
        numbers
    }

    #[test]
    fn the_same_lines_are_found_in_windows() {
        let mut text = Vec::new();
        for number in 0..9000_u32 {
            // Empty lines, long ones, and now and then one longer than a window.
            let width = if number % 1000 == 7 { 3 * WINDOW_BYTES } else { number as usize % 23 };
            text.extend(format!("{number:0width$}").into_bytes().into_iter().take(width));
            text.push(b'\n');
        }
        let patterns =
            ["7", "^$", "$", "^", "", "^7", "7$", r"\b99\b", r"\z", r"\A7", "99|100", "0+"];
        for pattern in patterns {
            let matcher = RegexMatcherBuilder::new()
                .multi_line(true)
                .line_terminator(Some(b'\n'))
                .build(pattern)
                .expect("a pattern");
            for cut in [0, 1, WINDOW_BYTES] {
                let text = &text[..text.len() - cut];
                let plain = found(&matcher, text);
                for window in [WINDOW_BYTES, usize::MAX] {
                    let ahead = Ahead::new(&matcher, b'\n', window);
                    assert_eq!(found(ahead, text), plain, "{pattern}");
                }
            }
        }
    }
}
