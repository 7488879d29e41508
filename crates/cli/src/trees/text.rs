//! Programs, trees and sums as text.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;

use tree::{Account, Branch, Listed, What};

use crate::columns::{self, Side};
use crate::human;
use crate::locale;

/// Shares of runs below this are said.
const EVERY: f32 = 0.995;

/// What stands before a branch and before the lines below it, then the same of the last one of several.
type Lines = [(&'static str, &'static str); 2];
const LINES: Lines = [("├─ ", "│  "), ("└─ ", "   ")];
const ASCII_LINES: Lines = [("|- ", "|  "), ("`- ", "   ")];

/// A name on one line.
pub(super) fn shown(name: &[u8]) -> String {
    human::name(OsStr::from_bytes(name)).to_string()
}

pub(super) fn table(out: &mut impl Write, programs: &[Listed]) -> io::Result<()> {
    let headings = [
        (Side::Right, "runs"),
        (Side::Right, "predicted"),
        (Side::Right, "in time"),
        (Side::Right, "late"),
        (Side::Right, "missed"),
        (Side::Right, "unused"),
        (Side::Right, "wasted"),
        (Side::Right, "saved"),
        (Side::Left, "program"),
    ];
    let row = |Listed { name, account, .. }: &Listed| {
        [
            account.runs.to_string(),
            account.predicted.to_string(),
            account.in_time.to_string(),
            account.late.to_string(),
            account.missed.to_string(),
            account.unused.to_string(),
            human::bytes(account.wasted_bytes),
            human::seconds(account.saved.as_secs_f64()),
            shown(name),
        ]
    };
    columns::table(out, headings, &programs.iter().map(row).collect::<Vec<_>>())
}

pub(super) fn account(out: &mut impl Write, programs: usize, sum: &Account) -> io::Result<()> {
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "?".to_owned(), |share| format!("{:.1} %", share * 100.0))
    };
    writeln!(out, "programs   {programs}")?;
    writeln!(out, "runs       {}", sum.runs)?;
    writeln!(out, "predicted  {}", human::counted(sum.predicted, "file"))?;
    writeln!(out, "in time    {}", sum.in_time)?;
    writeln!(out, "late       {}, with what was in memory and not looked at before", sum.late)?;
    writeln!(out, "unused     {}", sum.unused)?;
    writeln!(out, "missed     {}", sum.missed)?;
    writeln!(out, "accuracy   {} of the predicted files were read", percent(sum.accuracy()))?;
    writeln!(
        out,
        "coverage   {} of the files read were known to be near",
        percent(sum.coverage())
    )?;
    let (fetched, wasted) = (human::bytes(sum.fetched_bytes), human::bytes(sum.wasted_bytes));
    writeln!(out, "fetched    {fetched}, of which {wasted} were not read")?;
    writeln!(out, "saved      about {}", human::seconds(sum.saved.as_secs_f64()))
}

pub(super) fn tree(out: &mut impl Write, root: &Listed, branches: &[Branch]) -> io::Result<()> {
    writeln!(out, "{}", shown(&root.name))?;
    draw(out, branches, if locale::is_utf8() { LINES } else { ASCII_LINES }, "")
}

fn draw(out: &mut impl Write, branches: &[Branch], lines: Lines, indent: &str) -> io::Result<()> {
    for (at, branch) in branches.iter().enumerate() {
        let (knot, more) = lines[usize::from(at + 1 == branches.len())];
        writeln!(out, "{indent}{knot}{}", said(branch))?;
        draw(out, &branch.below, lines, &format!("{indent}{more}"))?;
    }
    Ok(())
}

/// A branch on one line.
pub(super) fn said(branch: &Branch) -> String {
    let mut text = shown(&branch.name);
    match branch.what {
        What::Read => {}
        What::Written => text.push_str(" (written)"),
        What::Run => text.push_str(" (run)"),
    }
    let _ = write!(text, "  +{}", human::seconds(branch.at.as_secs_f64()));
    if branch.share < EVERY {
        let _ = write!(text, ", in {:.0} % of runs", branch.share * 100.0);
    }
    text
}
