//! Tables as text: columns as wide as what stands in them, up to a limit but for the first and the last.

use std::fmt::Write as _;
use std::io::{self, Write};

/// On which side of its column a cell stands.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Columns but the first are no wider; a longer cell moves what stands behind it in its line.
const CELL_MAX: usize = 17;

/// Writes headings and rows; no line ends in blanks.
pub(crate) fn table<const N: usize>(
    out: &mut impl Write,
    headings: [(Side, &str); N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let titles = headings.map(|(_, title)| title);
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].as_str());
        let lengths = cells.chain([titles[column]]).map(|cell| cell.chars().count());
        lengths.filter(|&length| column == 0 || length <= CELL_MAX).max().unwrap_or_default()
    });
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for ((cell, width), (side, _)) in cells.into_iter().zip(widths).zip(headings) {
            let _ = match side {
                Side::Left => write!(text, "{cell:<width$}  "),
                Side::Right => write!(text, "{cell:>width$}  "),
            };
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(titles)?;
    rows.iter().try_for_each(|row| line(row.each_ref().map(String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be_and_no_line_ends_in_blanks() {
        let mut out = Vec::new();
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let rows = [row(["a", "10 µs", "/x /y"]), row(["disk:vda", "?", ""])];
        let headings = [(Side::Left, "device"), (Side::Right, "took"), (Side::Left, "on")];
        table(&mut out, headings, &rows).expect("memory takes it");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "device     took  on\na         10 µs  /x /y\ndisk:vda      ?\n");
        let mut out = Vec::new();
        let rows = [
            row(["nfs:server:/a/long/path", "a text of many words", "/x"]),
            row(["a", "10 µs", "/y"]),
        ];
        table(&mut out, headings, &rows).expect("memory takes it");
        let text = String::from_utf8(out).expect("text");
        let long = "nfs:server:/a/long/path  a text of many words  /x";
        let [head, short] =
            ["device                    took  on", "a                        10 µs  /y"];
        assert_eq!(text, format!("{head}\n{long}\n{short}\n"));
    }
}
