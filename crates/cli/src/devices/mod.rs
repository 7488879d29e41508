//! `nearfirst devices`: every device, what is known of it and since when.

pub(crate) mod record;
mod row;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use nearfirst::{Clock, Costs, Local, TableFiles};

use crate::{human, json, messages, outcome};

pub(crate) use row::Row;

/// List the devices that files come from, and what is known of them
///
/// Every device behind a mount, and every other one that the device table knows: the latency of
/// its first byte, in the median and as nine times in ten; its bandwidth, in the median, for reads
/// of three sizes; since when that is known; and where it is mounted. No mount is touched but those
/// that the device tables lie on, and these are waited for no longer than 10 seconds, so a dead one does not
/// matter.
#[derive(clap::Args, Debug)]
#[command(after_long_help = outcome::EXIT_CODES)]
pub(crate) struct Args {
    /// One JSON object a line instead of text; see docs/json.md
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let costs = Costs::with(Local::default(), TableFiles::default(), Clock::real());
    for warning in costs.warnings() {
        messages::note(warning);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let written = match row::all(&costs) {
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

fn table(out: &mut impl Write, rows: &[Row], now_s: u64) -> io::Result<()> {
    let width = rows.iter().map(|row| row.device.name().chars().count()).max().unwrap_or(0).max(6);
    writeln!(
        out,
        "{:width$}  {:>8}  {:>8}  {:>11}  {:>11}  {:>11}  {:<20}  mounted on",
        "device", "latency", "9 in 10", "to 128 KiB", "to 4 MiB", "larger", "known",
    )?;
    for row in rows {
        let name = human::name(row.device.name()).to_string();
        write!(out, "{name:width$}")?;
        match &row.estimates {
            Some([small, medium, large]) => {
                let latency = small.latency;
                let (p50, p90) = (human::seconds(latency.p50), human::seconds(latency.p90));
                write!(out, "  {p50:>8}  {p90:>8}")?;
                for estimate in [small, medium, large] {
                    write!(out, "  {:>11}", human::rate(estimate.bandwidth.p50))?;
                }
            }
            None => write!(out, "  {:>8}  {:>8}  {:>11}  {:>11}  {:>11}", "?", "?", "?", "?", "?")?,
        }
        let points: Vec<_> =
            row.mount_points.iter().map(|point| human::name(point).to_string()).collect();
        writeln!(out, "  {:<20}  {}", known(row, now_s), points.join(" "))?;
    }
    Ok(())
}

/// Since when, or from where, the estimate is known.
fn known(row: &Row, now_s: u64) -> String {
    match row.source {
        row::Source::Unknown => "never measured".to_owned(),
        row::Source::Assumed => "assumed".to_owned(),
        row::Source::NfsStatistics => "from NFS statistics".to_owned(),
        row::Source::Given => "given".to_owned(),
        row::Source::Measured => match now_s.saturating_sub(row.updated_s) {
            ..60 => "measured just now".to_owned(),
            age => format!("measured {} ago", age_text(age)),
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
