//! `nearfirst sleds`: where each part of a file is, and how long it will take.

mod picture;
mod record;
mod report;
mod shares;
mod tree;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::process::ExitCode;

use nearfirst::{Costs, Device, Kind, Place, Reason, Sled};

use crate::asking::AskFlags;
use crate::flags::PlanFlag;
use crate::specs::Specs;
use crate::{human, json, messages, outcome, progress};

use picture::Style;
use tree::Tree;

/// Show where each part of a file is, and how long it will take to read
///
/// For each file: a picture of its parts, from its first byte to its last; a table of them, each
/// with its latency, bandwidth and device; and the time to read all of it, in file order and near
/// first. For each folder: how much of the files below it is in memory, and how long they take,
/// one after the other. Nothing is read, and nothing is brought into memory or driven from it.
#[derive(clap::Args, Debug)]
#[command(after_long_help = outcome::EXIT_CODES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Files, folders and patterns
    #[arg(required = true, value_name = "SPEC", long_help = crate::specs::HELP)]
    specs: Vec<OsString>,

    /// One line for each file or folder
    ///
    /// How much of it is in memory, its size, the time to read it (near first, unless `--plan`
    /// says otherwise) and where its bytes are. Links in folders are not followed; a file with
    /// several names counts once for each.
    #[arg(short, long)]
    summary: bool,

    /// Every row of the table, not only the first 20
    #[arg(short, long)]
    all: bool,

    /// The time by one plan only
    ///
    /// `linear` is file order: the latency of a device counts each time it is entered. `best` is
    /// near first: the latency of each device counts once. Without this both are shown.
    #[arg(long, value_enum, value_name = "PLAN")]
    plan: Option<PlanFlag>,

    /// One JSON object a line instead of text; see docs/json.md
    #[arg(long)]
    json: bool,

    /// Go into other mounts below a folder, too
    ///
    /// Otherwise what is mounted below a folder is left alone, and not even touched.
    #[arg(long)]
    other_mounts: bool,

    #[command(flatten)]
    ask: AskFlags,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let costs = args.ask.costs();
    let stdout = io::stdout().lock();
    let style = Style::of(&stdout);
    // Who watches sees each file as soon as it is known.
    let line_by_line = stdout.is_terminal();
    let out = BufWriter::new(stdout);
    let mut run =
        Run { args, costs: &costs, style, line_by_line, out, unmeasured: BTreeSet::new() };
    let written = run.all().and_then(|()| run.out.flush());
    if !run.unmeasured.is_empty() && !args.json {
        let names: Vec<_> = run.unmeasured.iter().map(Device::name).collect();
        messages::note(format_args!(
            "{} {} never measured: `nearfirst calibrate` does it",
            names.join(", "),
            if names.len() == 1 { "was" } else { "were" },
        ));
    }
    outcome::exit_code(written)
}

/// A file and all that is known of its parts.
struct Report<'a> {
    path: &'a Path,
    sleds: &'a [Sled],
    reason: Option<Reason>,
}

struct Run<'a, W: Write> {
    args: &'a Args,
    costs: &'a Costs,
    style: Style,
    line_by_line: bool,
    out: BufWriter<W>,
    /// Devices met of which the table knows nothing.
    unmeasured: BTreeSet<Device>,
}

impl<W: Write> Run<'_, W> {
    fn all(&mut self) -> io::Result<()> {
        if self.args.summary && !self.args.json {
            report::summary_head(&mut self.out)?;
        }
        for item in Specs::new(self.costs.local(), self.args.specs.clone()) {
            match item {
                Ok(path) => self.one(&path)?,
                Err(error) => {
                    messages::error(format_args!("{}: {}", human::name(&error.spec), error.reason));
                }
            }
            if self.line_by_line {
                self.out.flush()?;
            }
        }
        Ok(())
    }

    fn one(&mut self, path: &Path) -> io::Result<()> {
        match self.costs.local().stat(path).map(|entry| entry.kind) {
            Ok(Kind::File) => self.file(path),
            Ok(Kind::Folder) => self.folder(path),
            Ok(Kind::Stream | Kind::Link) => {
                messages::error(format_args!(
                    "{}: neither a file nor a folder, so it has no parts",
                    human::name(path)
                ));
                Ok(())
            }
            Err(error) => {
                messages::error(format_args!("{}: {}", human::name(path), error.reason()));
                Ok(())
            }
        }
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let located = match self.costs.path_located(path) {
            Ok(located) => located,
            Err(error) => {
                messages::error(format_args!("{}: {}", human::name(path), error.reason()));
                return Ok(());
            }
        };
        let reason = located.reason;
        let sleds = self.costs.describe(located);
        let unmeasured = |sled: &&Sled| sled.estimate.is_none() && sled.place != Place::Unknown;
        self.unmeasured.extend(sleds.iter().filter(unmeasured).map(|sled| sled.device.clone()));
        let report = Report { path, sleds: &sleds, reason };
        match (self.args.json, self.args.summary) {
            (true, false) => json::line(&mut self.out, &record::file(&report)),
            (false, false) => report::file(&mut self.out, &report, self.args, &self.style),
            (is_json, true) => {
                let mut tree = Tree::default();
                tree.add(&sleds, reason);
                if is_json {
                    json::line(&mut self.out, &record::tree("file_summary", path, &tree))
                } else {
                    report::summary(&mut self.out, path, &tree, self.args.plan)
                }
            }
        }
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut line = progress::Line::new(self.costs.clock());
        let tree = tree::sum_up(self.costs, path, self.args.other_mounts, &mut line);
        line.clear();
        self.unmeasured.extend(tree.unmeasured.iter().cloned());
        if self.args.json {
            json::line(&mut self.out, &record::tree("folder", path, &tree))
        } else if self.args.summary {
            report::summary(&mut self.out, path, &tree, self.args.plan)
        } else {
            report::folder(&mut self.out, path, &tree, self.args, &self.style)
        }
    }
}
