//! What asking costs: microseconds for each file named on stdin, asked about by path and opened.
//!
//! `find DIR -type f | cargo run --release -p nearfirst --example asking [ROUNDS]`

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use nearfirst::Costs;

/// Asks about one file and counts the pieces.
type Question<'a> = &'a dyn Fn(&PathBuf) -> usize;

fn main() -> std::io::Result<()> {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let names: Vec<PathBuf> =
        std::io::stdin().lines().map(|line| line.map(PathBuf::from)).collect::<Result<_, _>>()?;
    let costs = Costs::load();
    let clock = costs.clock().clone();
    let mut out = std::io::stdout().lock();
    let timed = |what: Question<'_>| -> (Vec<f64>, usize) {
        let mut pieces = 0;
        let round = |_| {
            let start = clock.now();
            pieces = names.iter().map(what).sum();
            clock.now().saturating_sub(start).as_secs_f64() * 1e6 / names.len() as f64
        };
        let mut times: Vec<f64> = (0..rounds).map(round).collect();
        times.sort_by(f64::total_cmp);
        (times, pieces)
    };
    let by_path = |path: &PathBuf| costs.path_sleds(path).map_or(0, |sleds| sleds.len());
    let opened = |path: &PathBuf| {
        File::open(path).and_then(|file| costs.file_sleds(&file)).map_or(0, |sleds| sleds.len())
    };
    let only_opened = |path: &PathBuf| usize::from(File::open(path).is_ok());
    let cases: [(&str, Question<'_>); 3] = [
        ("path_sleds", &by_path),
        ("open, file_sleds, close", &opened),
        ("open, close", &only_opened),
    ];
    for (name, what) in cases {
        let (times, pieces) = timed(what);
        let (best, median) = (times[0], times[times.len() / 2]);
        writeln!(
            out,
            "{name:<24} best {best:8.2} µs, median {median:8.2} µs a file; {pieces} pieces"
        )?;
    }
    Ok(())
}
