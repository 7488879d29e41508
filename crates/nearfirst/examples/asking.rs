//! What asking costs: seconds for each of the files named on standard input, each name ended by NUL.
//!
//! `find DIR -type f -print0 | cargo run --release -p nearfirst --example asking [PASSES]`
//!
//! Prints JSON with one number for each pass over the files, by way of asking: of files that are
//! open; with opening and closing; by path, which opens only where that does no harm. The
//! experiment "asking" of `bench/` makes the files and reads the numbers.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nearfirst::{Costs, Error};

/// Files open at once: below the usual limit of 1,024 descriptors.
const OPEN_MAX: usize = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let passes: usize = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let mut names = Vec::new();
    io::stdin().lock().read_to_end(&mut names)?;
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let paths: Vec<&Path> = names.map(|name| Path::new(OsStr::from_bytes(name))).collect();
    let costs = Costs::load();
    let (mut open_file, mut opened, mut path) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..passes {
        open_file.push(of_open_files(&costs, &paths)?);
        opened.push(timed(&costs, &paths, |path| {
            let file = File::open(path).map_err(|source| Error::io(path, source))?;
            costs.file_sleds(&file).map_err(|source| Error::io(path, source))
        })?);
        path.push(timed(&costs, &paths, |path| costs.path_sleds(path))?);
    }
    let all = format!(r#"{{"open_file": {open_file:?}, "opened": {opened:?}, "path": {path:?}}}"#);
    writeln!(io::stdout().lock(), "{all}")?;
    Ok(())
}

/// Seconds for each thing asked about.
fn timed<T, A>(
    costs: &Costs,
    things: &[T],
    ask: impl Fn(&T) -> Result<A, Error>,
) -> Result<f64, Error> {
    let start = costs.clock().now();
    for thing in things {
        std::hint::black_box(ask(thing)?);
    }
    Ok(costs.clock().now().saturating_sub(start).as_secs_f64() / things.len() as f64)
}

fn of_open_files(costs: &Costs, paths: &[&Path]) -> Result<f64, Error> {
    let mut seconds = 0.0;
    for some in paths.chunks(OPEN_MAX) {
        let open = |path: &&Path| File::open(path).map_err(|source| Error::io(path, source));
        let files: Vec<File> = some.iter().map(open).collect::<Result<_, _>>()?;
        let ask = |file: &File| costs.file_sleds(file).map_err(|source| Error::io("", source));
        seconds += timed(costs, &files, ask)? * files.len() as f64;
    }
    Ok(seconds / paths.len() as f64)
}
