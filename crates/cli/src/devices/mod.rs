//! `nearfirst devices`: every device, what is known of it and since when.

pub(crate) mod record;
mod row;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use nearfirst::{Clock, Costs, Local, TableFiles};

use crate::columns::{self, Side};
use crate::{human, json, locale, messages, outcome};

pub(crate) use row::Row;

/// List the devices that files come from, and what is known of them
///
/// Every device behind a mount, and every other one that the device table knows: the latency of
/// its first byte, in the median and as nine times in ten; its bandwidth, in the median, for reads
/// of three sizes; since when that is known, or "of another disk" where the table knows only one that had the
/// name at an earlier boot; and where it is mounted. No mount is touched but those
/// that the device tables lie on, and these are waited for no longer than 10 seconds, so a dead one does not
/// matter.
#[derive(clap::Args, Debug)]
#[command(after_long_help = outcome::EXIT_CODES)]
pub(crate) struct Args {
    /// One JSON object a line instead of text; see docs/json.md
    #[arg(long)]
    json: bool,

    /// Say on stderr how many devices there are, of how many costs are known, and how long it took
    #[arg(long)]
    stats: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let costs = Costs::with(Local::default(), TableFiles::default(), Clock::real());
    for warning in costs.warnings() {
        messages::note(warning);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let rows = row::all(&costs);
    if let Ok(rows) = &rows
        && args.stats
    {
        say_stats(rows, costs.clock());
    }
    let written = match rows {
        Ok(rows) if args.json => rows
            .iter()
            .try_for_each(|row| json::line(&mut out, &record::device(row)))
            .and_then(|()| out.flush()),
        Ok(rows) => table(&mut out, &rows, costs.clock().unix_s()).and_then(|()| out.flush()),
        Err(error) => {
            messages::error(format_args!("/proc/self/mountinfo: {}", messages::reason(&error)));
            Ok(())
        }
    };
    outcome::exit_code(written)
}

fn say_stats(rows: &[Row], clock: &Clock) {
    messages::note(format_args!(
        "{}, costs of {} known; listed after {}",
        human::counted(rows.len() as u64, "device"),
        rows.iter().filter(|row| row.latency.is_some()).count(),
        human::seconds(clock.now().as_secs_f64()),
    ));
}

fn table(out: &mut impl Write, rows: &[Row], now_s: u64) -> io::Result<()> {
    let [small, medium] =
        if locale::is_utf8() { ["≤128 KiB", "≤4 MiB"] } else { ["<=128 KiB", "<=4 MiB"] };
    let headings = [
        (Side::Left, "device"),
        (Side::Right, "latency"),
        (Side::Right, "9 in 10"),
        (Side::Right, small),
        (Side::Right, medium),
        (Side::Right, "larger"),
        (Side::Left, "measured"),
        (Side::Left, "mounted"),
    ];
    columns::table(out, headings, &rows.iter().map(|row| cells(row, now_s)).collect::<Vec<_>>())
}

fn cells(row: &Row, now_s: u64) -> [String; 8] {
    let unknown = || "?".to_owned();
    let latency = row.latency.map_or_else(unknown, |latency| human::seconds(latency.p50));
    let slow_latency = row.latency.map_or_else(unknown, |latency| human::seconds(latency.p90));
    let [small, medium, large] = match row.bandwidths {
        Some(bandwidths) => bandwidths.map(|bandwidth| human::rate(bandwidth.p50)),
        None => std::array::from_fn(|_| unknown()),
    };
    let device = human::name(row.device.name()).to_string();
    let points: Vec<_> =
        row.mount_points.iter().map(|point| human::name(point).to_string()).collect();
    [device, latency, slow_latency, small, medium, large, measured(row, now_s), points.join(" ")]
}

/// When the estimate was measured, or from where it comes.
fn measured(row: &Row, now_s: u64) -> String {
    match row.source {
        row::Source::Unknown => "never".to_owned(),
        row::Source::AnotherDisk => "of another disk".to_owned(),
        row::Source::Assumed => "assumed".to_owned(),
        row::Source::NfsStatistics => "by NFS".to_owned(),
        row::Source::Given => "given".to_owned(),
        row::Source::Measured => match row.updated_s.map(|updated| now_s.saturating_sub(updated)) {
            None => "?".to_owned(),
            Some(..60) => "just now".to_owned(),
            Some(age) => format!("{} ago", age_text(age)),
        },
    }
}

fn age_text(seconds: u64) -> String {
    match seconds {
        ..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
