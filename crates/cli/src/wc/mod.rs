//! `nearfirst wc`: GNU wc's counts and output, with what is near read first.
//!
//! [`count`] is the pure kernel, [`masks`], [`utf8`], [`glyph`] and
//! [`columns`] its parts; [`files`] says
//! what to count, [`remote`] where that is objects of stores, [`near`] in which order, [`read`] counts one file, [`mod@run`] many; [`mod@print`] and [`quote`] write as GNU wc
//! does.

mod columns;
mod count;
mod files;
mod glyph;
mod locale;
mod masks;
mod near;
mod objects;
mod pieces;
mod print;
mod quote;
mod read;
mod remote;
mod run;
mod utf8;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use clap::{ValueEnum, ValueHint};
use nearfirst::fetch::ScanOptions;
use nearfirst::{Costs, Order};

use crate::flags::{PlanFlag, ReadFlags};
use crate::sets;
use crate::sets::flags::{BudgetFlag, FetchFlags, StoreFlags};
use crate::{messages, outcome};
use count::{Encoding, Wanted};
use files::{Input, Inputs, Size};
use print::Shown;
use read::{Reader, SCAN_BYTES_MIN, Task};
use remote::Remote;
use run::Report;

/// Inputs that are worth one more thread.
const INPUTS_PER_THREAD: usize = 32;

/// Bytes that are worth one more thread.
const BYTES_PER_THREAD: u64 = 256 << 10;

/// Count lines, words, characters and bytes
///
/// Prints newline, word and byte counts for each FILE, and a total line if more than one is named,
/// as GNU wc does. A word is what stands between white space, printable or not, as GNU wc has it
/// since 9.5. Without FILE, or when FILE is `-`, reads standard input. What is in memory is counted while the rest is fetched.
/// FILE may stand for objects of servers and buckets, too.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = EXIT_CODES,
    args_override_self = true,
    infer_long_args = true
)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of the command")]
pub(crate) struct Args {
    /// Print the byte counts
    ///
    /// Alone, it asks for the size and reads nothing where the size can be believed.
    // What GNU wc takes for them, and our own options would make ambiguous.
    #[arg(short = 'c', long, alias = "b")]
    bytes: bool,

    /// Print the character counts
    ///
    /// `LC_ALL`, `LC_CTYPE` and `LANG` decide what a character is: a byte in the C locale, and
    /// what is encoded in a UTF-8 locale. Bytes that encode nothing are not counted.
    #[arg(short = 'm', long)]
    chars: bool,

    /// Print the newline counts
    #[arg(short = 'l', long)]
    lines: bool,

    /// Print the maximum display width
    ///
    /// Tabs go to the next multiple of 8; carriage return and form feed start over at the left.
    #[arg(short = 'L', long)]
    max_line_length: bool,

    /// Print the word counts
    #[arg(short = 'w', long, alias = "w")]
    words: bool,

    /// Read the names of the files from F, each ended by a NUL byte
    ///
    /// If F is `-`, names are read from standard input. `find -print0` writes such a list. Names of
    /// objects (`s3://bucket/key`) may be patterns; those of files are taken as they stand.
    #[arg(long, value_name = "F")]
    files0_from: Option<OsString>,

    /// When to print a line with total counts
    #[arg(long, value_enum, default_value_t = Total::Auto, value_name = "WHEN")]
    total: Total,

    /// Print each line as soon as it is known, not in the order of the names
    ///
    /// Nothing waits for a file or an object that is slow, as long as fewer than `--jobs` are. What is no
    /// file, a pipe for instance, is read one after the other. The sizes of all that is named are
    /// asked for first.
    #[arg(long)]
    unordered: bool,

    /// Count every file in chunks of SIZE
    #[arg(long, value_name = "SIZE", value_parser = sets::flags::bytes, hide = true)]
    in_chunks: Option<u64>,

    #[command(flatten)]
    reading: ReadFlags,

    #[command(flatten)]
    budget: BudgetFlag,

    #[command(flatten)]
    fetching: FetchFlags,

    #[command(flatten)]
    stores: StoreFlags,

    /// Files and objects to count; `-` is standard input
    #[arg(value_name = "FILE", long_help = sets::HELP, value_hint = ValueHint::AnyPath)]
    files: Vec<OsString>,
}

/// `--total`.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Total {
    /// With more than one file.
    Auto,
    /// Always.
    Always,
    /// The total alone, without its name and without a line for each file.
    Only,
    /// Never.
    Never,
}

impl Args {
    fn shown(&self) -> Shown {
        let shown = Shown {
            lines: self.lines,
            words: self.words,
            characters: self.chars,
            bytes: self.bytes,
            columns: self.max_line_length,
        };
        if shown.len() == 0 {
            return Shown { lines: true, words: true, bytes: true, ..shown };
        }
        shown
    }

    fn inputs<'a>(&'a self, remote: &'a Remote<'a>) -> Result<Inputs<'a>, String> {
        let encoding = remote.encoding;
        let Some(list) = &self.files0_from else {
            if self.files.iter().any(|file| remote.is_of_objects(file)) {
                return Ok(files::from_mixed_operands(&self.files, remote));
            }
            return Ok(files::from_operands(self.files.clone(), encoding, remote.costs));
        };
        if let Some(operand) = self.files.first() {
            let operand = quote::always_quoted(&quote::redacted(operand), encoding);
            return Err(format!(
                "extra operand {operand}\nfile operands cannot be combined with --files0-from\n\
                 Try '{} --help' for more information.",
                messages::program()
            ));
        }
        files::from_list(list, remote)
    }
}

fn wanted(shown: Shown, encoding: Encoding) -> Wanted {
    Wanted {
        lines: shown.lines,
        words: shown.words,
        // Where each byte is a character, their number is known with the size.
        characters: shown.characters && matches!(encoding, Encoding::Utf8(_)),
        columns: shown.columns,
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  everything was counted
  1  something could not be, or wrong usage";

/// Exit code of a command line that cannot be understood: GNU wc's.
pub(crate) const USAGE_EXIT: u8 = 1;

pub(crate) fn run(args: &Args) -> ExitCode {
    let encoding = locale::adopt();
    match report(args, encoding) {
        Ok(()) => {}
        // Whoever read the output has had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::from(outcome::CLOSED_PIPE_EXIT);
        }
        Err(error) => messages::error(format_args!("write error: {}", messages::reason(&error))),
    }
    if messages::any() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn report(args: &Args, encoding: Encoding) -> io::Result<()> {
    let costs = Arc::new(args.reading.asking.costs());
    let wanted = wanted(args.shown(), encoding);
    let remote = Remote {
        stores: &args.stores,
        fetching: &args.fetching,
        budget_bytes: args.budget.bytes,
        costs: &costs,
        encoding,
        only_sizes: wanted == Wanted::default(),
        order: if args.unordered { Order::Ready } else { Order::Listed },
        sets: OnceLock::new(),
        tally: Arc::default(),
    };
    if let Err(why) = args.fetching.check_spill(costs.local()) {
        messages::error(why);
        return Ok(());
    }
    let inputs = match args.inputs(&remote) {
        Ok(inputs) => inputs,
        Err(message) => {
            messages::error(message);
            return Ok(());
        }
    };
    let shown = args.shown();
    let threads = args.reading.threads();
    let plan = args.reading.plan.into();
    let estimates = args.reading.stats;
    let mut options = ScanOptions { plan, estimates, ..ScanOptions::with_jobs(threads) };
    let mut scan_bytes_min = SCAN_BYTES_MIN;
    if let Some(chunk) = args.in_chunks.and_then(|chunk| usize::try_from(chunk).ok()) {
        options.chunk_bytes = chunk.max(1);
        scan_bytes_min = 1;
    }
    let task = Task { wanted, encoding, costs: &costs, options, scan_bytes_min };
    let reader = Reader::new(task, Arc::clone(&remote.tally));
    let only_total = args.total == Total::Only;
    let mut report = Report::new(shown, 1, encoding, !only_total);
    report.unordered = args.unordered;
    match inputs {
        Inputs::Listed(inputs) => {
            let layout = Layout::of(&inputs, shown, &costs);
            if !only_total {
                report.width = layout.width;
            }
            // Without an order, none that is slow keeps another from being counted.
            let worthwhile = if args.unordered { inputs.len() } else { layout.threads };
            let threads = threads.min(worthwhile);
            if args.reading.plan == PlanFlag::Best && !remote.only_sizes {
                let sizes = layout.sizes;
                let inputs = near::near_first(inputs, sizes, scan_bytes_min, threads, &costs);
                run::all(inputs, threads, &reader, &mut report)?;
            } else {
                run::all(run::in_order(inputs), threads, &reader, &mut report)?;
            }
        }
        Inputs::Streamed(inputs) => run::all(run::in_order(inputs), threads, &reader, &mut report)?,
        Inputs::Mixed(inputs) => {
            // Names as they stand, and one count: nothing is to be aligned.
            let is_one = matches!(args.files.as_slice(), [file] if sets::is_one_name(file));
            if !(only_total || is_one && shown.len() == 1) {
                report.width = print::UNKNOWN_WIDTH;
            }
            run::all(run::in_order(inputs), threads, &reader, &mut report)?;
        }
    }
    match args.total {
        Total::Only => report.total(None)?,
        Total::Always => report.total(Some("total"))?,
        Total::Auto if report.inputs() > 1 => report.total(Some("total"))?,
        Total::Auto | Total::Never => {}
    }
    report.flush()?;
    if args.reading.stats {
        let (reading, sets) = (reader.reading(), remote.used());
        if sets.is_none() || !reading.is_empty() {
            reading.say();
        }
        if let Some(sets) = sets {
            sets::say_stats(sets.engine(), &remote.tally);
        }
    }
    // A home that cannot be written to costs the next run what this one learned, no more.
    drop(costs.save());
    Ok(())
}

/// What is decided from the inputs' sizes before they are read.
struct Layout {
    width: usize,
    /// Threads that have enough to do.
    threads: usize,
    /// Those of all inputs, where there are several.
    sizes: Vec<Option<Size>>,
}

impl Layout {
    fn of(inputs: &[Input], shown: Shown, costs: &Costs) -> Layout {
        if let [_] = inputs
            && shown.len() == 1
        {
            return Layout { width: 1, threads: 1, sizes: vec![None] };
        }
        let sizes: Vec<Option<Size>> = inputs.iter().map(|input| input.size(costs)).collect();
        let bytes = sizes.iter().flatten().fold(0_u64, |sum, size| match size {
            Size::Bytes(bytes) => sum.saturating_add(*bytes),
            Size::Unknown => sum,
        });
        let by_bytes = usize::try_from(bytes / BYTES_PER_THREAD).unwrap_or(usize::MAX);
        let by_inputs = inputs.len() / INPUTS_PER_THREAD;
        Layout {
            width: print::width(&sizes),
            threads: by_bytes.max(by_inputs).saturating_add(1).min(inputs.len()),
            sizes,
        }
    }
}
