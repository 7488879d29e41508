//! Traces, and the output of strace as one: what its names stand for is asked of this machine.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use tree::User;
use tree::replay::strace::{self, About, Interpreter};
use tree::replay::{Trace, TraceError};

use crate::{human, messages};

/// Devices that are worth predicting for take some milliseconds.
const GRAIN: Duration = Duration::from_millis(1);
/// What the kernel looks at to find out what interprets a script.
const FIRST_LINE_BYTES: u64 = 256;

/// Of a line: all arguments that a program can be called with, each byte written as four.
const LINE_BYTES_MAX: usize = 32 << 20;
/// Of all lines, which are kept in memory, and their events with them: some millions of calls.
const BYTES_MAX: usize = 1 << 30;

/// The words of `trees import`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder in which the work began, where strace was called without -y
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    folder: PathBuf,

    /// Output of `strace -f -ttt -y -s 4096`; by default stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<OsString>,
}

/// Writes a trace of what strace wrote.
pub(super) fn import(args: &Args) -> io::Result<()> {
    let name = args.file.as_deref().unwrap_or_else(|| OsStr::new("-"));
    let bytes = match bytes_of(name) {
        Ok(bytes) => bytes,
        Err(error) => {
            messages::error(format_args!("{}: {}", human::name(name), messages::reason(&error)));
            return Ok(());
        }
    };
    let trace = match translated(&bytes, &args.folder) {
        Ok(trace) => trace,
        Err(error) => {
            let reason = match error {
                TraceError::Version => "nothing in it is output of `strace -f -ttt -y`".to_owned(),
                error => error.to_string(),
            };
            messages::error(format_args!("{}: {reason}", human::name(name)));
            return Ok(());
        }
    };
    let mut out = io::stdout().lock();
    out.write_all(trace.text().as_bytes())?;
    out.flush()
}

/// What a file holds; `-` is stdin.
pub(super) fn bytes_of(name: &OsStr) -> io::Result<Vec<u8>> {
    let limits = (LINE_BYTES_MAX, BYTES_MAX);
    if name == "-" { lines(io::stdin().lock(), limits) } else { lines(File::open(name)?, limits) }
}

/// All lines, of which each and all together may be so long.
fn lines(from: impl Read, (line_max, all_max): (usize, usize)) -> io::Result<Vec<u8>> {
    let mut from = BufReader::new(from);
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        let length = from.by_ref().take(line_max as u64 + 1).read_until(b'\n', &mut bytes)?;
        let too_long = |what: &str, most: usize| {
            let most = human::bytes(most as u64);
            Err(io::Error::other(format!("{what} longer than {most}, the most that is read")))
        };
        if length == 0 {
            break;
        } else if length > line_max {
            return too_long(&format!("line {number} is"), line_max);
        } else if bytes.len() > all_max {
            return too_long("it is", all_max);
        }
    }
    Ok(bytes)
}

/// A trace, or what strace wrote as one.
pub(super) fn understood(bytes: &[u8], folder: &Path) -> Result<Trace, TraceError> {
    match Trace::parse(bytes) {
        Err(TraceError::Version) => translated(bytes, folder),
        trace => trace,
    }
}

fn translated(text: &[u8], folder: &Path) -> Result<Trace, TraceError> {
    let user = User(rustix::process::getuid().as_raw());
    let trace = strace::import(text, user, folder.as_os_str().as_bytes(), about, interpreter)?;
    match trace.events.is_empty() {
        false => Ok(trace.with_grain(GRAIN)),
        true if strace::lacks_times(text) => Err(TraceError::Untimed),
        true => Err(TraceError::Version),
    }
}

/// What a name stands for today.
fn about(path: &[u8]) -> About {
    let path = Path::new(OsStr::from_bytes(path));
    let Ok(metadata) = path.metadata() else { return About::default() };
    if !metadata.is_file() {
        return About { special: true, ..About::default() };
    }
    About {
        path: fs::canonicalize(path).ok().map(|path| path.into_os_string().into_vec().into()),
        size: Some(metadata.len()),
        special: false,
    }
}

/// What interprets a file that was executed.
///
/// The start is read only of what can be executed and has bytes on a disk: to read a file that was
/// moved to another tier brings it back.
fn interpreter(path: &[u8]) -> Interpreter {
    let path = Path::new(OsStr::from_bytes(path));
    let is_program = |metadata: &fs::Metadata| {
        metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 && metadata.blocks() > 0
    };
    if !path.metadata().is_ok_and(|metadata| is_program(&metadata)) {
        return Interpreter::new();
    }
    let mut start = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(FIRST_LINE_BYTES).read_to_end(&mut start));
    read.map(|_| words(&start)).unwrap_or_default()
}

/// As the kernel reads the first line: an interpreter and at most one word for it.
fn words(start: &[u8]) -> Interpreter {
    let Some(line) = start.strip_prefix(b"#!") else { return Interpreter::new() };
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    let words = line.splitn(2, u8::is_ascii_whitespace).map(<[u8]>::trim_ascii);
    words.filter(|word| !word.is_empty()).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_has_an_end() {
        let read = |text: &str| lines(text.as_bytes(), (4, 9)).map_err(|error| error.to_string());
        assert_eq!(read("abc\nab\n\nd"), Ok(b"abc\nab\n\nd".to_vec()));
        let error = |text: &str| read(text).unwrap_err();
        assert_eq!(error("a\nabcd\n"), "line 2 is longer than 4 B, the most that is read");
        assert_eq!(error("abc\nabc\nab"), "it is longer than 9 B, the most that is read");
        let endless = |byte| lines(io::repeat(byte), (1000, 10_000));
        assert!([b'x', b'\n'].map(endless).iter().all(Result::is_err));
    }
}
