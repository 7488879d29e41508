//! The text of `sleds`, for people.

use std::io::{self, Write};
use std::path::Path;

use nearfirst::{DeliveryTime, Place, Plan, Sled, delivery_time};

use super::picture::Style;
use super::tree::Tree;
use super::{Args, Report};
use crate::flags::PlanFlag;
use crate::human;
use crate::shares::Shares;

/// Rows of a table that are shown unless all are asked for: the rest of a screen.
const ROWS_MAX: usize = 20;

/// The picture, the table and the times of a file.
pub(super) fn file(
    out: &mut impl Write,
    report: &Report<'_>,
    args: &Args,
    style: &Style,
) -> io::Result<()> {
    let shares = Shares::of(report.sleds);
    let size = shares.total();
    if size == 0 {
        let why = match &report.reason {
            Some(reason) if reason.is_untold_size() => reason.to_string(),
            Some(reason) => format!("empty, {reason}"),
            None => "empty".to_owned(),
        };
        return writeln!(out, "{}: {why}\n", human::name(report.path));
    }
    writeln!(out, "{}: {}", human::name(report.path), human::bytes(size))?;
    let parts = report.sleds.iter().map(|sled| (sled.place, sled.length));
    writeln!(out, "{}", style.bar(parts, size))?;
    writeln!(out, "{}", legend(&shares, style))?;
    if let Some(reason) = &report.reason {
        writeln!(out, "{reason}")?;
    }
    table(out, report.sleds, args.all)?;
    let times = [Plan::Linear, Plan::Best].map(|plan| delivery_time(report.sleds, plan));
    delivery(out, &times, args.plan)?;
    writeln!(out)
}

/// The same for all files below a folder.
pub(super) fn folder(
    out: &mut impl Write,
    path: &Path,
    tree: &Tree,
    args: &Args,
    style: &Style,
) -> io::Result<()> {
    let size = tree.shares.total();
    let files = human::counted(tree.files, "file");
    writeln!(out, "{}: {files}, {}", human::name(path), human::bytes(size))?;
    if size > 0 {
        writeln!(out, "{}", style.bar(tree.shares.by_place().into_iter(), size))?;
        writeln!(out, "{}", legend(&tree.shares, style))?;
    }
    for (reason, files) in &tree.reasons {
        writeln!(out, "{}: {reason}", human::counted(*files, "file"))?;
    }
    for (device, bytes) in &tree.devices {
        let device = human::name(device.name());
        writeln!(out, "{:>12}  {device}", human::bytes(*bytes))?;
    }
    if size > 0 {
        delivery(out, &[tree.linear, tree.best], args.plan)?;
    }
    writeln!(out)
}

/// What the columns of [`summary`] are.
pub(super) fn summary_head(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>9} {:>10} {:>12} {:>12}  name, and where it is",
        "in memory", "bytes", "time", "9 in 10"
    )
}

/// One line for a file or folder.
pub(super) fn summary(
    out: &mut impl Write,
    path: &Path,
    tree: &Tree,
    plan: Option<PlanFlag>,
) -> io::Result<()> {
    let size = tree.shares.total();
    let time = if plan == Some(PlanFlag::Linear) { tree.linear } else { tree.best };
    let is_untold = tree.reasons.iter().any(|(reason, _)| reason.is_untold_size());
    let (p50, p90) = match time.known().filter(|_| !is_untold) {
        Some(known) => (human::seconds(known.p50), human::seconds(known.p90)),
        None => ("not known".to_owned(), String::new()),
    };
    let near = match tree.shares {
        _ if size == 0 => "-".to_owned(),
        Shares { unknown: 0, near, .. } => human::percent(near, size),
        Shares { near: 0, .. } => "?".to_owned(),
        // What is not known may be in memory, too.
        Shares { near, .. } => format!(">= {}", human::percent(near, size)),
    };
    let devices: Vec<_> = tree
        .devices
        .iter()
        .map(|(device, bytes)| format!("{} {}", human::name(device.name()), human::bytes(*bytes)))
        .collect();
    let devices =
        if devices.is_empty() { String::new() } else { format!("  ({})", devices.join(", ")) };
    writeln!(
        out,
        "{near:>9} {:>10} {p50:>12} {p90:>12}  {}{devices}",
        human::bytes(size),
        human::name(path)
    )
}

/// What the marks of a bar mean, and how much of each there is.
fn legend(shares: &Shares, style: &Style) -> String {
    let total = shares.total();
    let part = |(place, bytes): (Place, u64)| {
        let what = match place {
            Place::Near => "in memory",
            Place::Far => "on its device",
            Place::Unknown => "not known",
            Place::Cold => "offline",
        };
        let (mark, percent) = (style.mark(place), human::percent(bytes, total));
        format!("{mark} {what} {percent} ({})", human::bytes(bytes))
    };
    let parts = shares.by_place().into_iter().filter(|(_, bytes)| *bytes > 0);
    parts.map(part).collect::<Vec<_>>().join("   ")
}

fn table(out: &mut impl Write, sleds: &[Sled], all: bool) -> io::Result<()> {
    let width = sleds.last().map_or(0, |sled| sled.range().end).to_string().len().max(6);
    writeln!(
        out,
        "  {:>width$}  {:>width$}  {:>8}  {:>11}  device",
        "offset", "length", "latency", "bandwidth"
    )?;
    let shown = if all { sleds.len() } else { ROWS_MAX };
    for sled in sleds.iter().take(shown) {
        let (latency, bandwidth) = match sled.estimate {
            Some(known) => (human::seconds(known.latency.p50), human::bandwidth(&known)),
            None => ("?".to_owned(), "?".to_owned()),
        };
        let note = match sled.place {
            Place::Near | Place::Far => "",
            Place::Unknown => " or memory",
            Place::Cold => " (offline)",
        };
        let (offset, length) = (sled.offset, sled.length);
        let device = human::name(sled.device.name());
        writeln!(
            out,
            "  {offset:>width$}  {length:>width$}  {latency:>8}  {bandwidth:>11}  {device}{note}"
        )?;
    }
    match sleds.len().saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "  ... and {more} more; --all shows them"),
    }
}

fn delivery(
    out: &mut impl Write,
    times: &[DeliveryTime; 2],
    only: Option<PlanFlag>,
) -> io::Result<()> {
    let plans = [(PlanFlag::Linear, "in file order"), (PlanFlag::Best, "near first")];
    for ((plan, name), time) in plans.into_iter().zip(times) {
        if only.is_some_and(|only| only != plan) {
            continue;
        }
        let (p50, p90) = (human::seconds(time.p50), human::seconds(time.p90));
        let times =
            if p50 == p90 { p50 } else { format!("{p50} (nine times in ten within {p90})") };
        let unknown = human::bytes(time.unknown_bytes);
        if time.is_known() {
            writeln!(out, "{name:>13}: {times}")?;
        } else if time.p50 > 0.0 {
            writeln!(out, "{name:>13}: {times}, and for {unknown} nobody knows")?;
        } else {
            writeln!(out, "{name:>13}: nobody knows for {unknown}")?;
        }
    }
    Ok(())
}
