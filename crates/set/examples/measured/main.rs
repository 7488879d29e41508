//! Programs that `bench/` measures, in one: each reads in its own way and prints what it took as JSON.
//!
//! - `measured objects SPEC...` reads every member of the sets that are named;
//! - `measured synthgrep sets|plain US_PER_BYTE` reads the files named on standard input, and computes;
//! - `measured replay sets|plain TRACE SERVER` reads objects as somebody did who thought in between.

mod objects;
mod replay;
mod synthgrep;
mod usage;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let program = words.next();
    let words: Vec<String> = words.collect();
    let usage = match program.as_deref() {
        Some("objects") => objects::run(&words)?,
        Some("synthgrep") => synthgrep::run(&words)?,
        Some("replay") => replay::run(&words)?,
        _ => return Err("expected objects, synthgrep or replay".into()),
    };
    Ok(usage.print()?)
}
