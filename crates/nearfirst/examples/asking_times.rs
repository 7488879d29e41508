//! How long it takes to ask where files are: the experiment "asking" of `bench/`.
//!
//! Takes the number of passes as its argument and paths, each ended by NUL, on its standard input;
//! prints JSON with the seconds per file of each pass, for files that are open and by path.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use nearfirst::Costs;

/// Files open at once: below the usual limit of 1,024 descriptors.
const OPEN_MAX: usize = 512;

#[expect(clippy::disallowed_methods, reason = "what the clock costs is no part of what is timed")]
fn now() -> Instant {
    Instant::now()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let passes: u32 = std::env::args().nth(1).ok_or("expected the number of passes")?.parse()?;
    let mut names = Vec::new();
    io::stdin().lock().read_to_end(&mut names)?;
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let paths: Vec<&Path> = names.map(|name| Path::new(OsStr::from_bytes(name))).collect();
    let costs = Costs::load();
    let (mut open_file, mut path) = (Vec::new(), Vec::new());
    for _ in 0..passes {
        open_file.push(pass_over_open_files(&costs, &paths)?);
        path.push(pass_by_path(&costs, &paths)?);
    }
    writeln!(io::stdout().lock(), r#"{{"open_file": {open_file:?}, "path": {path:?}}}"#)?;
    Ok(())
}

fn pass_over_open_files(costs: &Costs, paths: &[&Path]) -> io::Result<f64> {
    let mut seconds = 0.0;
    for some in paths.chunks(OPEN_MAX) {
        let files = some.iter().map(File::open).collect::<io::Result<Vec<_>>>()?;
        let start = now();
        for file in &files {
            std::hint::black_box(costs.file_sleds(file)?);
        }
        seconds += start.elapsed().as_secs_f64();
    }
    Ok(seconds / paths.len() as f64)
}

fn pass_by_path(costs: &Costs, paths: &[&Path]) -> Result<f64, nearfirst::Error> {
    let start = now();
    for path in paths {
        std::hint::black_box(costs.path_sleds(path)?);
    }
    Ok(start.elapsed().as_secs_f64() / paths.len() as f64)
}
