//! Recorded work played again: `bench/run trees-replay` calls it.
//!
//! ```text
//! replay simulate PREDICTOR instant|disk|server files|bytes SIZE... <TRACE
//! replay files PREDICTOR DEVICE UNIT SIZE <TRACE
//! replay explain PREDICTOR DEVICE UNIT SIZE <TRACE
//! replay sizes <TRACE
//! ```
//!
//! `simulate` writes a line of JSON for each size; the predictors are those of [`predictor`]. `files`
//! tells of each file how often it was read, missed, late, fetched and used. `explain`
//! tells of each read that missed and of each wrong prediction at which event, why, which file, and
//! what its program was called with. `sizes` tells how many files and bytes a trace reads.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use nearfirst_tree::replay::{
    Capacity, Device, Fate, FileReport, LastSuccessor, NoPredictor, Options, Ppm, Predictor,
    ProgramSuccessor, Report, Trace, simulate, simulate_fates, simulate_files,
};
use nearfirst_tree::{Access, Event, Learner, Matching, Patterns};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "replay: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut input = Vec::new();
    let mut output = io::stdout().lock();
    io::stdin().lock().read_to_end(&mut input)?;
    match words {
        ["simulate", name, device, unit, sizes @ ..] => {
            let trace = Trace::parse(&input)?;
            for size in sizes {
                let options = options(device, unit, size.parse()?)?;
                let report = simulate(&trace, predictor(name)?.as_mut(), &options);
                writeln!(output, "{}", json(&report))?;
            }
        }
        ["files", name, device, unit, size] => {
            let trace = Trace::parse(&input)?;
            let options = options(device, unit, size.parse()?)?;
            let (_, files) = simulate_files(&trace, predictor(name)?.as_mut(), &options);
            for file in files {
                let FileReport { references, misses, late, fetched, used, .. } = file;
                write!(output, "{references}\t{misses}\t{late}\t{fetched}\t{used}\t")?;
                output.write_all(&file.path)?;
                writeln!(output)?;
            }
        }
        ["explain", name, device, unit, size] => {
            let trace = Trace::parse(&input)?;
            let options = options(device, unit, size.parse()?)?;
            let (_, fates) = simulate_fates(&trace, predictor(name)?.as_mut(), &options);
            for Fate { event, cause, path, command } in fates {
                write!(output, "{event}\t{cause:?}\t")?;
                output.write_all(&path)?;
                output.write_all(b"\t")?;
                output.write_all(&line(&command))?;
                writeln!(output)?;
            }
        }
        ["sizes"] => {
            let (files, bytes) = read_by(&Trace::parse(&input)?);
            writeln!(output, r#"{{"files": {files}, "bytes": {bytes}}}"#)?;
        }
        _ => {
            return Err(
                "usage: replay simulate PREDICTOR DEVICE UNIT SIZE... | files … | explain … | sizes"
                    .into(),
            );
        }
    }
    Ok(())
}

/// A command as one line.
fn line(command: &[u8]) -> Vec<u8> {
    command.iter().map(|&byte| if byte < b' ' { b' ' } else { byte }).collect()
}

fn predictor(name: &str) -> Result<Box<dyn Predictor>, Box<dyn Error>> {
    Ok(match name {
        "paper" => Box::new(learner(Matching::Paper)),
        "ours" => Box::new(learner(Matching::Ours)),
        "none" => Box::new(NoPredictor),
        "last-successor" => Box::new(LastSuccessor::default()),
        "program-successor" => Box::new(ProgramSuccessor::default()),
        "ppm-2" => Box::new(Ppm::new(2, Ppm::THRESHOLD)),
        "ppm-3" => Box::new(Ppm::new(3, Ppm::THRESHOLD)),
        _ => return Err(format!("no predictor {name}").into()),
    })
}

fn learner(matching: Matching) -> Learner {
    let options = nearfirst_tree::Options { matching, ..nearfirst_tree::Options::default() };
    Learner::new(options, Patterns::default())
}

fn options(device: &str, unit: &str, size: u64) -> Result<Options, Box<dyn Error>> {
    let device = match device {
        "instant" => Device::INSTANT,
        "disk" => Device::DISK,
        "server" => Device::SERVER,
        _ => return Err(format!("no device {device}").into()),
    };
    let cache = match unit {
        "files" => Capacity::Files(size),
        "bytes" => Capacity::Bytes(size),
        _ => return Err(format!("no unit {unit}").into()),
    };
    Ok(Options { cache, device, ..Options::default() })
}

fn json(report: &Report) -> String {
    format!(
        r#"{{"references": {}, "misses": {}, "late": {}, "new": {}, "missed_bytes": {}, "predicted": {}, "right": {}, "fetched": {}, "used": {}, "fetched_bytes": {}, "wasted_bytes": {}, "withdrawn": {}, "waited_s": {:.6}, "elapsed_s": {:.6}}}"#,
        report.references,
        report.misses,
        report.late,
        report.new,
        report.missed_bytes,
        report.predicted,
        report.right,
        report.fetched,
        report.used,
        report.fetched_bytes,
        report.wasted_bytes,
        report.withdrawn,
        report.waited.as_secs_f64(),
        report.elapsed.as_secs_f64(),
    )
}

fn read_by(trace: &Trace) -> (usize, u64) {
    let mut files: HashMap<Arc<[u8]>, u64> = HashMap::new();
    for (_, event) in &trace.events {
        if let Event::Executed { program: file, .. }
        | Event::Opened { file, access: Access::Read, .. } = event
        {
            files.insert(
                Arc::clone(&file.path),
                file.size.unwrap_or(Options::default().unknown_size),
            );
        }
    }
    (files.len(), files.values().sum())
}
