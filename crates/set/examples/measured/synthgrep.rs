//! Reads files whole, with a set amount of computation for each byte (the SETS paper, section 5).
//!
//! The names are on standard input, each ended by NUL. `sets` makes a set of them; `plain` reads them
//! in their order, in a loop of open, read and close.

use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use nearfirst_set::{Set, SetOptions, Spec};
use rustix::time::ClockId;
use store::Name;

use crate::Result;
use crate::usage::{self, Usage, cpu_time};

/// What grep reads at a time.
const BUFFER_BYTES: usize = 32 << 10;

pub(crate) fn run(words: &[String]) -> Result<Usage> {
    let [mode, us_per_byte] = words else {
        return Err("expected sets or plain, and microseconds for each byte".into());
    };
    let per_byte = Duration::from_secs_f64(us_per_byte.parse::<f64>()? * 1e-6);
    let mut text = Vec::new();
    io::stdin().lock().read_to_end(&mut text)?;
    let names: Vec<&[u8]> = text.split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
    let mut grep = Grep { usage: Usage::begin(), buffer: vec![0; BUFFER_BYTES], per_byte };
    match mode.as_str() {
        "sets" => grep.sets(&names)?,
        "plain" => grep.plain(&names)?,
        _ => return Err(format!("expected sets or plain, not {mode}").into()),
    }
    Ok(grep.usage)
}

struct Grep {
    usage: Usage,
    buffer: Vec<u8>,
    per_byte: Duration,
}

impl Grep {
    fn sets(&mut self, names: &[&[u8]]) -> io::Result<()> {
        let engine = usage::engine()?;
        let specs = [Spec::list(names.iter().map(|&name| Name::new(name)))];
        let set = Set::open(&engine, specs, SetOptions::default());
        while let Some(member) = self.usage.waiting(|| set.next()) {
            self.read(&mut member?)?;
        }
        Ok(())
    }

    fn plain(&mut self, names: &[&[u8]]) -> io::Result<()> {
        for name in names {
            let mut file = self.usage.waiting(|| File::open(OsStr::from_bytes(name)))?;
            self.read(&mut file)?;
        }
        Ok(())
    }

    fn read(&mut self, file: &mut impl Read) -> io::Result<()> {
        loop {
            let count = self.usage.waiting(|| file.read(&mut self.buffer))?;
            if count == 0 {
                break;
            }
            self.usage.read(count);
            compute(&self.buffer[..count], self.per_byte);
        }
        self.usage.member();
        Ok(())
    }
}

/// Works on the bytes until the processor was used for so long, whoever else wants it.
fn compute(bytes: &[u8], per_byte: Duration) {
    let time = per_byte.mul_f64(bytes.len() as f64);
    if time.is_zero() {
        return;
    }
    let until = cpu_time(ClockId::ThreadCPUTime) + time;
    while cpu_time(ClockId::ThreadCPUTime) < until {
        let some = &bytes[..bytes.len().min(512)];
        black_box(some.iter().fold(0_u32, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte)));
    }
}
