//! What lasts as long as one run: outputs, looked-up names, gathered
//! commands, counts.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::fd::AsFd as _;

use super::cost::Latencies;
use super::exec::Gathered;
use super::expr::Expr;
use super::parse::{Parsed, STDERR, STDOUT};
use super::print::ListWidths;
use super::quote::quoted;
use super::time::Calendar;
use crate::messages;
use crate::reach::Reach;
use crate::shares::Answers;

/// The state of a run.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the run")]
pub(crate) struct Session<'a> {
    pub(crate) parsed: &'a Parsed,
    outputs: Vec<Output>,
    /// Which output stands behind each path of the expression: two paths may be one file.
    routes: Vec<usize>,
    pub(crate) calendar: Calendar,
    /// When the run began, in nanoseconds since the epoch.
    pub(crate) now: i128,
    end_of_day: OnceCell<i128>,
    pub(crate) owners: Owners,
    pub(crate) reach: Reach,
    pub(crate) costs: Latencies,
    pub(crate) gathered: Vec<Gathered>,
    pub(crate) widths: ListWidths,
    /// How many sectors of 512 bytes are a block of `-ls`: as POSIX has it, one.
    pub(crate) list_block_sectors: u64,
    pub(crate) stats: Stats,
    /// Start points come from stdin, of which commands are to take nothing.
    pub(crate) list_is_stdin: bool,
    /// `-prune` was met: do not enter this directory.
    pub(crate) prunes: bool,
    /// `-quit` was met, or nobody reads the output any more.
    pub(crate) quits: bool,
    /// Whoever read an output has closed it.
    pub(crate) is_closed: bool,
    /// Something failed that no message of ours told of: a gathered command.
    pub(crate) failed: bool,
}

/// What `--stats` counts.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Stats {
    pub(crate) entries: u64,
    /// Calls that look at a file's properties.
    pub(crate) looks: u64,
    /// Directories opened.
    pub(crate) opens: u64,
    /// What was found out of files whose cost was asked for.
    pub(crate) asked: Answers,
}

/// Somewhere to print to.
#[derive(Debug)]
struct Output {
    writer: BufWriter<File>,
    terminal: bool,
    name: String,
    failed: bool,
}

/// Output is gathered to this size before it is written: a pipe's capacity.
const OUTPUT_BYTES: usize = 64 << 10;

impl<'a> Session<'a> {
    /// Opens the outputs of an expression, whether or not anything will be written to them.
    pub(crate) fn new(
        parsed: &'a Parsed,
        calendar: Calendar,
        now: i128,
        reach: Reach,
        costs: Latencies,
    ) -> io::Result<Self> {
        let mut outputs: Vec<Output> = Vec::new();
        let mut routes = Vec::new();
        let mut identities = Vec::new();
        for (index, path) in parsed.outputs.iter().enumerate() {
            let file = match index {
                STDOUT => File::from(io::stdout().as_fd().try_clone_to_owned()?),
                STDERR => File::from(io::stderr().as_fd().try_clone_to_owned()?),
                _ => created(path, &reach)?,
            };
            let name = match index {
                STDOUT => quoted(b"standard output"),
                STDERR => quoted(b"standard error"),
                _ => quoted(path.as_encoded_bytes()),
            };
            // Two buffers over one file would write over each other. The standard streams are left
            // alone: they share one position where they are one file.
            let meta = file.metadata()?;
            let identity = (index > STDERR).then_some((meta.dev(), meta.ino()));
            let known =
                identities.iter().position(|known| identity.is_some() && *known == identity);
            if let Some(known) = known {
                routes.push(known);
                continue;
            }
            identities.push(identity);
            routes.push(outputs.len());
            let terminal = file.is_terminal();
            let writer = BufWriter::with_capacity(OUTPUT_BYTES, file);
            outputs.push(Output { writer, terminal, name, failed: false });
        }
        Ok(Self {
            parsed,
            outputs,
            routes,
            end_of_day: OnceCell::new(),
            calendar,
            now,
            owners: Owners::default(),
            reach,
            costs,
            gathered: (0..parsed.gathering).map(|_| Gathered::default()).collect(),
            widths: ListWidths::default(),
            list_block_sectors: if std::env::var_os("POSIXLY_CORRECT").is_some() { 1 } else { 2 },
            stats: Stats::default(),
            list_is_stdin: false,
            prunes: false,
            quits: false,
            is_closed: false,
            failed: false,
        })
    }

    /// The end of the day on which the run began, in nanoseconds since the epoch.
    pub(crate) fn end_of_day(&self) -> i128 {
        *self.end_of_day.get_or_init(|| self.calendar.end_of_day(self.now))
    }

    pub(crate) fn expr(&self) -> &'a Expr {
        &self.parsed.expr
    }

    /// Whether what is written to the expression's output of this index is read by a person.
    pub(crate) fn at_terminal(&self, index: usize) -> bool {
        self.outputs[self.routes[index]].terminal
    }

    /// Writes to the expression's output of this index. Where nobody reads any more the walk ends without a word.
    pub(crate) fn write(&mut self, index: usize, text: &[u8]) {
        let index = self.routes[index];
        let output = &mut self.outputs[index];
        let mut written = output.writer.write_all(text);
        if written.is_ok() && (output.terminal || index == STDERR) {
            written = output.writer.flush();
        }
        self.judge(index, &written);
    }

    /// Hands over what was written, so that it stands before what a command or a message says.
    pub(crate) fn flush(&mut self) {
        for index in 0..self.outputs.len() {
            let written = self.outputs[index].writer.flush();
            self.judge(index, &written);
        }
    }

    fn judge(&mut self, index: usize, written: &io::Result<()>) {
        let Err(error) = written else { return };
        let output = &mut self.outputs[index];
        if std::mem::replace(&mut output.failed, true) {
            return;
        }
        let is_closed = error.kind() == io::ErrorKind::BrokenPipe;
        self.is_closed |= is_closed;
        self.quits |= is_closed || index == STDOUT;
        if !is_closed {
            messages::error(format_args!("{}: {}", output.name, messages::reason(error)));
        }
    }
}

/// Opens an output, in bounded time where its mount may not answer.
fn created(path: &OsStr, reach: &Reach) -> io::Result<File> {
    let name = quoted(path.as_bytes());
    let of = path.to_owned();
    let created = reach
        .bounded(path.as_bytes(), move || File::create(of))
        .map_err(|error| io::Error::other(format!("{name}: {}", error.reason())))?;
    created.map_err(|error| {
        io::Error::new(error.kind(), format!("{name}: {}", messages::reason(&error)))
    })
}

/// Names of users and groups, each looked up once.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    users: HashMap<u32, Option<Vec<u8>>>,
    groups: HashMap<u32, Option<Vec<u8>>>,
}

impl Owners {
    pub(crate) fn user(&mut self, id: u32) -> Option<&[u8]> {
        self.users
            .entry(id)
            .or_insert_with(|| {
                uzers::get_user_by_uid(id).map(|user| user.name().as_encoded_bytes().to_vec())
            })
            .as_deref()
    }

    pub(crate) fn group(&mut self, id: u32) -> Option<&[u8]> {
        self.groups
            .entry(id)
            .or_insert_with(|| {
                uzers::get_group_by_gid(id).map(|group| group.name().as_encoded_bytes().to_vec())
            })
            .as_deref()
    }
}

/// The present, in nanoseconds since the epoch: file times are compared with it.
pub(crate) fn now() -> i128 {
    let now = nearfirst::Clock::real().unix();
    i128::try_from(now.as_nanos()).expect("the present is within centuries of 1970")
}
