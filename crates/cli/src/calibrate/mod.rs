//! `nearfirst calibrate`: measures devices and writes down what they take.

mod target;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nearfirst::{Costs, Error, Name, Probe, Progress, probe_first, probe_memory};

use crate::asking::{AskFlags, seconds};
use crate::devices::{self, Row};
use crate::{human, json, messages, outcome, progress};

use target::Target;

const EXIT_CODES: &str = "\
Exit codes:
  0  everything was measured; what nobody named and there is nothing to read of was passed over
  1  something could not be measured, stderr says what and why; the rest was
  2  wrong usage, or what was found could not be saved or written";

/// Measure what devices take, so that times can be told
///
/// Reads a little at random places for the latency and in sequence for the bandwidth, past the
/// page cache, from files that are there; none of them is changed. Only a folder in which there
/// is no file of a megabyte gets a temporary one, which has no name and is gone when it is closed.
///
/// Without a PATH, memory and every device behind a mount are measured; a mount that does not
/// answer is passed over, and what autofs would mount is not called for. With one, memory is measured
/// too if it never was. What is found replaces what was known of a device (where few reads are made,
/// as in a short time, it is added to that), is saved in the device table (root's for all users,
/// others' for themselves) as soon as that device is measured, and is corrected by what later reads take.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Folders, or files of a megabyte or more, on the devices to measure; without any, all devices
    paths: Vec<PathBuf>,

    /// Seconds to spend on a device, at the most; a few reads are made in any case
    #[arg(long, value_name = "N", default_value = "3", value_parser = seconds)]
    seconds: Duration,

    /// Do not write the device table
    #[arg(long)]
    no_save: bool,

    /// One JSON object a line instead of text; see docs/json.md
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    ask: AskFlags,

    /// Say on stderr how much was read of each device, and how long measuring it took
    #[arg(long, help_heading = "Asking")]
    stats: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let costs = args.ask.costs();
    let targets = match target::all(&costs, &args.paths) {
        Ok(targets) => targets,
        Err(error) => {
            messages::error(format_args!("/proc/self/mountinfo: {}", messages::reason(&error)));
            Vec::new()
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let written = measure_all(&costs, &targets, args, &mut out).and_then(|()| out.flush());
    outcome::exit_code(written)
}

fn measure_all(
    costs: &Costs,
    targets: &[Target],
    args: &Args,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut measured = BTreeSet::new();
    let mut saved = Ok(());
    for (at, target) in targets.iter().enumerate() {
        let mut line = progress::Line::at_once(costs.clock());
        let of = format!("{} of {}", at + 1, targets.len());
        let begun = costs.clock().now();
        let found = measure(costs, target, args.seconds, |step| {
            line.show(|| format!("{of}, {}: {}", target.name(), step_text(step)));
        });
        progress::wipe();
        match found {
            Ok((probe, path)) => {
                let device = probe.device.clone();
                if args.stats {
                    say_stats(&probe, costs.clock().now().saturating_sub(begun));
                }
                if measured.contains(&device) {
                    continue;
                }
                if !costs.calibrate(probe) {
                    messages::note(format_args!(
                        "{}: too few reads to forget the earlier ones, which count too; more time (--seconds) or a larger file gives more",
                        target.name()
                    ));
                }
                measured.insert(device.clone());
                if !args.no_save {
                    // At once: many devices take minutes, and who is ended meanwhile loses nothing.
                    saved = costs.save();
                }
                let row = Row::new(&costs.table(), &device, path.into_iter().collect());
                if args.json {
                    json::line(out, &devices::record::device(&row))?;
                } else {
                    result(out, &row)?;
                }
                out.flush()?;
            }
            Err(error) if target.may_be_passed_over(&error) => {
                messages::note(format_args!("{}: passed over: {}", target.name(), error.reason()));
            }
            Err(error) => messages::error(format_args!("{}: {}", target.name(), error.reason())),
        }
    }
    if !measured.is_empty() && !args.no_save {
        say_saved(costs, &saved, args.json, out)?;
    }
    Ok(())
}

/// Measures one device, at the first of its places where that works.
fn measure(
    costs: &Costs,
    target: &Target,
    limit: Duration,
    progress: impl FnMut(Progress),
) -> Result<(Probe, Option<PathBuf>), Error> {
    let Target::Places { places, .. } = target else {
        return Ok((probe_memory(costs.clock())?, None));
    };
    let (probe, place) = probe_first(costs, places, limit, progress).map_err(|error| {
        let is_server = |path: &PathBuf| Name::from(path.as_path()).scheme().is_some();
        match places.first().filter(|path| is_server(path)) {
            Some(server) => Error::refused(server.as_path(), "reading from a server measures it"),
            None => error,
        }
    })?;
    Ok((probe, Some(place.to_owned())))
}

fn say_stats(probe: &Probe, took: Duration) {
    let from_device = probe.observations.iter().map(|seen| seen.bytes);
    let from_memory = probe.near.iter().map(|(bytes, _)| *bytes);
    messages::note(format_args!(
        "{}: {}, {} in all; then {} of what was in memory by then, {} in all; in {}",
        human::name(probe.device.name()),
        human::counted(from_device.len() as u64, "read"),
        human::bytes(from_device.sum()),
        from_memory.len(),
        human::bytes(from_memory.sum()),
        human::seconds(took.as_secs_f64()),
    ));
}

fn result(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let name = human::name(row.device.name());
    let Some((latency, [small, medium, large])) = row.latency.zip(row.bandwidths) else {
        return writeln!(out, "{name}: too few reads to tell");
    };
    writeln!(
        out,
        "{name}: latency {}, nine times in ten within {}",
        human::seconds(latency.p50),
        human::seconds(latency.p90)
    )?;
    for (size, bandwidth) in [("to 128 KiB", small), ("to 4 MiB", medium), ("larger", large)] {
        let (p50, p90) = (human::rate(bandwidth.p50), human::rate(bandwidth.p90));
        writeln!(out, "  reads {size:<10} {p50:>11}, nine times in ten at least {p90}")?;
    }
    match row.keeps_cache {
        Some(true) => writeln!(out, "  files stay in memory when they are opened again"),
        Some(false) => writeln!(out, "  files lose what is in memory when they are opened again"),
        None => Ok(()),
    }
}

fn say_saved(
    costs: &Costs,
    saved: &io::Result<()>,
    is_json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let path = costs.table_files().own();
    match saved {
        Ok(()) if is_json => Ok(()),
        Ok(()) => writeln!(out, "saved in {}", human::name(path)),
        Err(error) => {
            let reason = messages::reason(error);
            messages::misuse(format_args!("{}: not saved: {reason}", human::name(path)));
            Ok(())
        }
    }
}

fn step_text(step: Progress) -> String {
    match step {
        Progress::Searching => "looking for a file to read".to_owned(),
        Progress::Writing(done, of) => {
            format!("writing, {} of {}", human::bytes(done), human::bytes(of))
        }
        Progress::Latency(done, of) => format!("latency, read {} of {of}", done + 1),
        Progress::Bandwidth(done, of) => format!("bandwidth, read {} of {of}", done + 1),
    }
}
