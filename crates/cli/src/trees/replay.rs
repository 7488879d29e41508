//! `nearfirst trees replay`: what fetching on a guess would have been worth on recorded work.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{ValueEnum as _, ValueHint};
use serde::Serialize;
use tree::replay::{
    Capacity, Device, LastSuccessor, NoPredictor, Options, Ppm, Predictor, ProgramSuccessor,
    Report, Trace, simulate,
};
use tree::{Learner, Matching, Patterns};

use super::{Told, traces};
use crate::columns::{self, Side};
use crate::json::{self, Name};
use crate::{human, messages};

/// Longer contexts than this are hardly ever met again.
const CONTEXT: usize = 2;

/// The words of `trees replay`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// What learns and predicts; several, as in `--by paper,ours`, are compared
    #[arg(
        long = "by",
        value_enum,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "nothing,ours"
    )]
    by: Vec<By>,

    /// Memory for files, to begin with empty, such as 64MiB
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = crate::sets::flags::bytes)]
    cache: u64,

    /// Where the files lie
    #[arg(long, value_enum, value_name = "DEVICE", default_value_t = Where::Server)]
    device: Where,

    /// The folder in which recorded work began, for output of strace without -y
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    folder: PathBuf,

    #[command(flatten)]
    pub(super) told: Told,

    /// Traces (docs/traces.md), or output of `strace -f -ttt -y`; `-` is stdin
    ///
    /// They are played one after the other. What is saved of one is known in the next, but its files
    /// are not near any more: of two recordings of the same work the second shows what is gained.
    #[arg(required = true, value_name = "TRACE", value_hint = ValueHint::FilePath)]
    traces: Vec<OsString>,
}

/// What predicts.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Nothing: what memory alone is good for
    Nothing,
    /// The file that was opened after this one last time
    LastSuccessor,
    /// The same, of each program for itself
    ProgramSuccessor,
    /// Prediction by partial match, of the last two files
    Ppm,
    /// Access trees as Lei & Duchamp have them (USENIX '97)
    Paper,
    /// As `run` and `watch` do
    Ours,
}

/// Models of devices.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// A file server: 10 ms to the first byte, 100 MB/s, 32 requests at once
    Server,
    /// A disk with an arm: the same, one request at a time
    Disk,
    /// Takes no time: what is predicted is near at once
    Instant,
}

#[derive(Serialize)]
struct Record<'a> {
    r#type: &'static str,
    trace: Name<'a>,
    by: String,
    reads: u64,
    misses: u64,
    late: u64,
    new: u64,
    missed_bytes: u64,
    predicted: u64,
    right: u64,
    withdrawn: u64,
    fetched: u64,
    used: u64,
    fetched_bytes: u64,
    wasted_bytes: u64,
    waited_s: f64,
    elapsed_s: f64,
}

/// Plays traces and writes what each predictor came to.
pub(super) fn run(args: &Args) -> io::Result<()> {
    let Told { json: as_json, ref patterns } = args.told;
    let (known, learning) = match patterns.named() {
        Some(_) => (super::load(patterns), super::keeping()),
        None => (Some(Patterns::default()), tree::Options::default()),
    };
    let Some(known) = known else { return Ok(()) };
    let mut predictors: Vec<_> =
        args.by.iter().map(|&by| (by, by.predictor(known.clone(), &learning))).collect();
    let options = Options {
        cache: Capacity::Bytes(args.cache),
        device: args.device.model(),
        ..Options::default()
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut is_first = true;
    for name in &args.traces {
        let Some(trace) = read(name, args) else { continue };
        let mut reports = Vec::new();
        for (by, predictor) in &mut predictors {
            let report = simulate(&trace, predictor.as_mut(), &options);
            predictor.begin_anew();
            if as_json {
                json::line(&mut out, &record(name, *by, &report))?;
                out.flush()?;
            } else {
                reports.push((*by, report));
            }
        }
        if !as_json {
            if !std::mem::take(&mut is_first) {
                writeln!(out)?;
            }
            table(&mut out, name, &reports)?;
            out.flush()?;
        }
    }
    out.flush()
}

impl By {
    fn predictor(self, patterns: Patterns, learning: &tree::Options) -> Box<dyn Predictor> {
        let learner = |matching| {
            let options = tree::Options { matching, ..learning.clone() };
            Box::new(Learner::new(options, patterns))
        };
        match self {
            Self::Nothing => Box::new(NoPredictor),
            Self::LastSuccessor => Box::new(LastSuccessor::default()),
            Self::ProgramSuccessor => Box::new(ProgramSuccessor::default()),
            Self::Ppm => Box::new(Ppm::new(CONTEXT, Ppm::THRESHOLD)),
            Self::Paper => learner(Matching::Paper),
            Self::Ours => learner(Matching::Ours),
        }
    }

    fn word(self) -> String {
        self.to_possible_value().expect("none is left out").get_name().to_owned()
    }
}

impl Where {
    fn model(self) -> Device {
        match self {
            Self::Server => Device::SERVER,
            Self::Disk => Device::DISK,
            Self::Instant => Device::INSTANT,
        }
    }
}

fn read(name: &OsStr, args: &Args) -> Option<Trace> {
    let failed = |why: &dyn std::fmt::Display| {
        messages::error(format_args!("{}: {why}", human::name(name)));
    };
    let bytes =
        traces::bytes_of(name).inspect_err(|error| failed(&messages::reason(error))).ok()?;
    let trace = traces::understood(&bytes, &args.folder);
    trace.inspect_err(|error| failed(error)).ok()
}

/// A trace, and what each predictor came to on it.
fn table(out: &mut impl Write, name: &OsStr, reports: &[(By, Report)]) -> io::Result<()> {
    let reads = reports.first().map_or(0, |(_, report)| report.references);
    writeln!(out, "{}: {}", human::name(name), human::counted(reads, "read"))?;
    let headings = [
        (Side::Left, "by"),
        (Side::Right, "misses"),
        (Side::Right, "late"),
        (Side::Right, "predicted"),
        (Side::Right, "right"),
        (Side::Right, "fetched"),
        (Side::Right, "wasted"),
        (Side::Right, "waited"),
        (Side::Right, "took"),
    ];
    columns::table(out, headings, &reports.iter().map(row).collect::<Vec<_>>())
}

fn row((by, report): &(By, Report)) -> [String; 9] {
    let right = match report.predicted {
        0 => "-".to_owned(),
        predicted => human::percent(report.right, predicted),
    };
    [
        by.word(),
        report.misses.to_string(),
        report.late.to_string(),
        report.predicted.to_string(),
        right,
        human::bytes(report.fetched_bytes),
        human::bytes(report.wasted_bytes),
        human::seconds(report.waited.as_secs_f64()),
        human::seconds(report.elapsed.as_secs_f64()),
    ]
}

fn record<'a>(name: &'a OsStr, by: By, report: &Report) -> Record<'a> {
    Record {
        r#type: "replay",
        trace: Name::new(name),
        by: by.word(),
        reads: report.references,
        misses: report.misses,
        late: report.late,
        new: report.new,
        missed_bytes: report.missed_bytes,
        predicted: report.predicted,
        right: report.right,
        withdrawn: report.withdrawn,
        fetched: report.fetched,
        used: report.used,
        fetched_bytes: report.fetched_bytes,
        wasted_bytes: report.wasted_bytes,
        waited_s: report.waited.as_secs_f64(),
        elapsed_s: report.elapsed.as_secs_f64(),
    }
}
