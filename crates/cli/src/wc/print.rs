//! Lines of counts in GNU wc's columns.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;

use super::count::{Counts, Encoding};
use super::files::Size;
use super::quote;

/// Width of a column when some input says nothing of its size.
pub(super) const UNKNOWN_WIDTH: usize = 7;

/// Which columns are printed; their order is fixed.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of the command")]
pub(super) struct Shown {
    pub(super) lines: bool,
    pub(super) words: bool,
    pub(super) characters: bool,
    pub(super) bytes: bool,
    pub(super) columns: bool,
}

impl Shown {
    /// The number of columns.
    pub(super) fn len(self) -> usize {
        [self.lines, self.words, self.characters, self.bytes, self.columns]
            .into_iter()
            .filter(|shown| *shown)
            .count()
    }
}

/// The width of every column, from what is known of the inputs before they are read.
pub(super) fn width(inputs: &[Option<Size>]) -> usize {
    let mut bytes = 0_u64;
    let mut least = 1;
    for size in inputs.iter().flatten() {
        match size {
            Size::Bytes(size) => bytes = bytes.saturating_add(*size),
            Size::Unknown => least = UNKNOWN_WIDTH,
        }
    }
    least.max(bytes.checked_ilog10().unwrap_or(0) as usize + 1)
}

/// Writes one line of counts; no name for standard input that was not asked for.
pub(super) fn line(
    out: &mut impl Write,
    counts: &Counts,
    name: Option<&OsStr>,
    shown: Shown,
    width: usize,
    encoding: Encoding,
) -> io::Result<()> {
    let columns = [
        (shown.lines, counts.lines),
        (shown.words, counts.words),
        (shown.characters, counts.characters),
        (shown.bytes, counts.bytes),
        (shown.columns, counts.columns),
    ];
    let mut gap = "";
    for (_, count) in columns.into_iter().filter(|(shown, _)| *shown) {
        write!(out, "{gap}{count:width$}")?;
        gap = " ";
    }
    if let Some(name) = name {
        out.write_all(b" ")?;
        if name.as_bytes().contains(&b'\n') {
            out.write_all(quote::quoted(name, encoding).as_bytes())?;
        } else {
            out.write_all(name.as_bytes())?;
        }
    }
    out.write_all(b"\n")
}
