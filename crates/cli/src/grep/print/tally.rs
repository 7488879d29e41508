//! What a search counted.

use std::io::{self, Write};
use std::ops::AddAssign;
use std::time::Duration;

/// Counts over one file or a whole run.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::grep) struct Stats {
    pub(in crate::grep) elapsed: Duration,
    pub(in crate::grep) searches: u64,
    pub(in crate::grep) searches_with_match: u64,
    pub(in crate::grep) bytes_searched: u64,
    pub(in crate::grep) bytes_printed: u64,
    pub(in crate::grep) matched_lines: u64,
    pub(in crate::grep) matches: u64,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.elapsed += other.elapsed;
        self.searches += other.searches;
        self.searches_with_match += other.searches_with_match;
        self.bytes_searched += other.bytes_searched;
        self.bytes_printed += other.bytes_printed;
        self.matched_lines += other.matched_lines;
        self.matches += other.matches;
    }
}

impl Stats {
    /// The counts as ripgrep's JSON messages hold them.
    pub(in crate::grep) fn write_json(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(b"{\"elapsed\":");
        write_json_duration(self.elapsed, out)?;
        write!(
            out,
            ",\"searches\":{},\"searches_with_match\":{},\"bytes_searched\":{},\
             \"bytes_printed\":{},\"matched_lines\":{},\"matches\":{}}}",
            self.searches,
            self.searches_with_match,
            self.bytes_searched,
            self.bytes_printed,
            self.matched_lines,
            self.matches
        )
    }

    /// The lines that end a run with `--stats`.
    pub(in crate::grep) fn write_text(&self, total: Duration, out: &mut Vec<u8>) -> io::Result<()> {
        write!(
            out,
            "\n{} matches\n{} matched lines\n{} files contained matches\n{} files searched\n\
             {} bytes printed\n{} bytes searched\n{:.6} seconds spent searching\n\
             {:.6} seconds total\n",
            self.matches,
            self.matched_lines,
            self.searches_with_match,
            self.searches,
            self.bytes_printed,
            self.bytes_searched,
            self.elapsed.as_secs_f64(),
            total.as_secs_f64()
        )
    }
}

/// A duration as ripgrep's JSON messages hold it.
pub(in crate::grep) fn write_json_duration(time: Duration, out: &mut Vec<u8>) -> io::Result<()> {
    write!(
        out,
        "{{\"secs\":{},\"nanos\":{},\"human\":\"{:.6}s\"}}",
        time.as_secs(),
        time.subsec_nanos(),
        time.as_secs_f64()
    )
}

/// What the search of one file, or of one part of it, found.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::grep) struct Tally {
    /// Matching lines; with `--multiline`, groups of lines or matches.
    pub(in crate::grep) events: u64,
    /// Single matches, counted only if something asks for them.
    pub(in crate::grep) matches: u64,
    pub(in crate::grep) matched_lines: u64,
    /// Where the last of the events ends in the file.
    pub(in crate::grep) matches_end: u64,
    /// Offset of the first NUL byte met, where those matter.
    pub(in crate::grep) binary_offset: Option<u64>,
    pub(in crate::grep) bytes_searched: u64,
}
