//! `nearfirst cat`: the bytes of a set's members, one member after the other.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueHint;
use nearfirst::{Member, MemberError};

use crate::outcome;
use crate::sets::decompress::Decompressor;
use crate::sets::flags::SetFlags;
use crate::sets::order::ReadOrderFlags;
use crate::sets::{self, Sets, Tally, progress};
use crate::stdout::Unbuffered;

/// Bytes taken from a decompressing program at a time.
const BUFFER_BYTES: usize = 128 << 10;

const LONG_ABOUT: &str = "\
Write the bytes of objects to stdout, while the next are fetched

Each member comes whole and by itself, in the order of the operands unless another is asked for; one \
that is named twice comes once. \
What is waited for is written while the rest of it is on its way: if that breaks, what was written \
stays written; how much that is, is said on stderr, and the exit code is 1.

Unlike cat, `-` is a list of names on stdin, and not what stdin holds.

Examples:
  nearfirst cat 's3://logs/2026/**/*.gz' | zcat | sort
  nearfirst cat --unordered -z 's3://logs/2026/**/*.gz' | grep -c ERROR";

/// Write the bytes of objects to stdout, while the next are fetched
#[derive(clap::Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = outcome::EXIT_CODES)]
pub(crate) struct Args {
    /// What to write
    #[arg(
        required = true, value_name = "SPEC", long_help = sets::HELP_WITH_LIST,
        value_hint = ValueHint::AnyPath
    )]
    specs: Vec<OsString>,

    /// Decompress what its name says is compressed: .gz, .xz, .zst, .bz2, .lz4, .br, .Z
    ///
    /// By the programs that do it (`gzip`, `xz` and so on), as `grep -z`. What has no such program is
    /// written as it is.
    #[arg(short = 'z', long)]
    decompress: bool,

    #[command(flatten)]
    order: ReadOrderFlags,

    #[command(flatten)]
    set: SetFlags,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let sets = match Sets::begin(&args.set) {
        Ok(sets) => sets,
        Err(error) => return outcome::cannot_begin(&error),
    };
    let specs = sets.specs(&args.specs);
    let (options, mut record) = match args.order.begin(true, sets.engine().costs(), &specs) {
        Ok(begun) => begun,
        Err(error) => return outcome::cannot_begin(&error),
    };
    let set = Arc::new(sets.set_to_read(specs, options));
    let tally = Arc::new(Tally::default());
    let shown = progress::show(&set, &tally);
    let decompressor = args.decompress.then(Decompressor::default);
    let mut out = Unbuffered::lock();
    let (mut written, mut unrecorded) = (Ok(()), None);
    for member in &*set {
        let result = member.map_err(Trouble::Member).and_then(|member| {
            record.note(member.name()).map_err(Trouble::Record)?;
            write(member, decompressor.as_ref(), &mut out, &tally)
        });
        match result {
            Ok(()) => tally.done(),
            Err(Trouble::Member(error)) => {
                tally.failed();
                sets::complain(&error);
            }
            Err(Trouble::Broken { error, written }) => {
                tally.failed();
                let reason = sets::reason(&error.cause);
                let told = format_args!("{reason}; its first {written} bytes were written before");
                sets::say_of(&error.name, told);
            }
            Err(Trouble::Output(error)) => {
                written = Err(error);
                break;
            }
            Err(Trouble::Record(error)) => {
                unrecorded = Some(error);
                break;
            }
        }
    }
    drop(shown);
    if args.set.stats {
        sets::say_stats(sets.engine(), &tally);
    }
    let code = outcome::exit_code(written.and_then(|()| out.flush()));
    unrecorded.map_or(code, |error| outcome::cannot_begin(&error))
}

/// What ended a member's output: the member, or whoever reads it.
#[derive(Debug)]
enum Trouble {
    /// Nothing of it was written.
    Member(MemberError),
    /// Its beginning was.
    Broken {
        error: MemberError,
        /// How many bytes of it, or of its text if that was decompressed.
        written: u64,
    },
    Output(io::Error),
    /// The order cannot be written down any more.
    Record(anyhow::Error),
}

impl Trouble {
    fn after(written: u64, error: MemberError) -> Self {
        if written == 0 { Self::Member(error) } else { Self::Broken { error, written } }
    }
}

fn write(
    mut member: Member,
    decompressor: Option<&Decompressor>,
    out: &mut impl Write,
    tally: &Tally,
) -> Result<(), Trouble> {
    if let Some(decompressor) = decompressor.filter(|known| known.knows(member.name())) {
        return write_decompressed(member, decompressor, out, tally);
    }
    let mut written = 0;
    loop {
        let chunk = member.chunk().map_err(|error| Trouble::after(written, error))?;
        if chunk.is_empty() {
            return Ok(());
        }
        tally.read(chunk.len() as u64);
        out.write_all(&chunk).map_err(Trouble::Output)?;
        written += chunk.len() as u64;
    }
}

fn write_decompressed(
    member: Member,
    decompressor: &Decompressor,
    out: &mut impl Write,
    tally: &Tally,
) -> Result<(), Trouble> {
    let name = member.name().clone();
    let failed = |error: io::Error| Trouble::Member(MemberError::of(&name, error));
    let Some(mut text) = decompressor.read(&name, member).map_err(failed)? else { return Ok(()) };
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut written = 0;
    loop {
        let read = text.read(&mut buffer);
        let read = read.map_err(|error| Trouble::after(written, MemberError::of(&name, error)))?;
        if read == 0 {
            return Ok(());
        }
        tally.read(read as u64);
        out.write_all(&buffer[..read]).map_err(Trouble::Output)?;
        written += read as u64;
    }
}
