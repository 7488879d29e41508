//! `nearfirst sleds`: where each part of a file is, and how long it will take.

mod picture;
mod record;
mod report;
mod tree;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueHint;
use nearfirst::{Costs, Device, Kind, Name, Place, Reason, Sled};

use crate::asking::{AskFlags, AskJobs};
use crate::flags::PlanFlag;
use crate::sets::flags::StoreFlags;
use crate::sets::{self, Sets, listing};
use crate::shares::{Answers, StatsFlag};
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
/// Objects of servers are shown by what the device table knows of their server or bucket.
#[derive(clap::Args, Debug)]
#[command(after_long_help = outcome::EXIT_CODES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Files, folders and objects
    #[arg(
        required = true, value_name = "SPEC", long_help = sets::HELP,
        value_hint = ValueHint::AnyPath
    )]
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
    stores: StoreFlags,

    #[command(flatten)]
    ask: AskFlags,

    #[command(flatten)]
    jobs: AskJobs,

    #[command(flatten)]
    stats: StatsFlag,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let costs = Arc::new(args.ask.costs());
    let stdout = io::stdout().lock();
    let style = Style::of(&stdout);
    // Who watches sees each file as soon as it is known.
    let line_by_line = stdout.is_terminal();
    let out = BufWriter::new(stdout);
    let mut run = Run {
        args,
        costs: &costs,
        sets: None,
        style,
        line_by_line,
        has_head: false,
        out,
        unmeasured: BTreeSet::new(),
        answers: Answers::default(),
    };
    let written = run.all().and_then(|()| run.out.flush());
    if args.stats.stats {
        run.answers.say(costs.clock());
    }
    if !args.json {
        say_unmeasured(&run.unmeasured);
    }
    outcome::exit_code(written)
}

/// Says of which devices the table knows too little, and what teaches it: of what must be recalled, nothing does.
fn say_unmeasured(devices: &BTreeSet<Device>) {
    let is_remote = |device: &&Device| Name::from(device.name()).scheme().is_some();
    let measurable = devices.iter().filter(|device| !device.is_cold_tier());
    let (remote, local): (Vec<_>, Vec<_>) = measurable.partition(is_remote);
    // Of a server that sent little the latency is known.
    let ways = [
        (local, "", "`nearfirst calibrate` does it"),
        (remote, "the rate of ", "the first large fetch does it"),
    ];
    for (devices, what, way) in ways {
        let names: Vec<_> =
            devices.iter().map(|device| human::name(device.name()).to_string()).collect();
        if !names.is_empty() {
            let was = if names.len() == 1 || !what.is_empty() { "was" } else { "were" };
            let names = names.join(", ");
            messages::note(format_args!("{what}{names} {was} never measured: {way}"));
        }
    }
}

/// A file and all that is known of its parts.
struct Report<'a> {
    path: &'a Path,
    sleds: &'a [Sled],
    reason: Option<Reason>,
}

struct Run<'a, W: Write> {
    args: &'a Args,
    costs: &'a Arc<Costs>,
    /// Begun by the first operand that needs it.
    sets: Option<Sets>,
    style: Style,
    line_by_line: bool,
    /// Whether the columns of summaries are named.
    has_head: bool,
    out: BufWriter<W>,
    /// Devices met of which the table knows nothing.
    unmeasured: BTreeSet<Device>,
    answers: Answers,
}

impl<W: Write> Run<'_, W> {
    fn all(&mut self) -> io::Result<()> {
        let mut specs = self.args.specs.iter().peekable();
        while let Some(spec) = specs.next() {
            let is_of_a_set = |spec: &&OsString| sets::needs_engine(self.costs.local(), spec);
            if is_of_a_set(&spec) {
                let mut together = vec![spec.clone()];
                while let Some(next) = specs.next_if(is_of_a_set) {
                    together.push(next.clone());
                }
                self.objects(&together)?;
                continue;
            }
            for item in Specs::new(self.costs.local(), vec![spec.clone()]) {
                match item {
                    Ok(path) => self.one(&path)?,
                    Err(error) => sets::say_of(&error.spec, error.reason),
                }
                self.let_see()?;
            }
        }
        Ok(())
    }

    fn let_see(&mut self) -> io::Result<()> {
        if self.line_by_line { self.out.flush() } else { Ok(()) }
    }

    /// What specs stand for that are not patterns of files.
    fn objects(&mut self, specs: &[OsString]) -> io::Result<()> {
        let sets = Sets::once(&mut self.sets, &self.args.stores, &self.args.ask, self.costs);
        let Some(sets) = sets else { return Ok(()) };
        let (set, looks) = (sets.listed(sets.specs(specs)), sets.looks().clone());
        listing::files_and_objects(&set, |files, objects| {
            for file in &files {
                self.one(file.path().expect("it has one"))?;
            }
            for object in listing::described(set.engine(), &looks, objects) {
                match object {
                    Ok((entry, sleds)) => {
                        let reason = entry.reason();
                        let name = entry.name;
                        let name = if self.args.json { name } else { name.redacted() };
                        let path = Path::new(OsStr::from_bytes(name.as_bytes()));
                        self.described(path, &sleds, reason)?;
                    }
                    Err(error) => sets::say_of(&error.name(), sets::reason(&error)),
                }
            }
            self.let_see()
        })
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
        let reason = located.reason.clone();
        let sleds = self.costs.describe(located);
        self.described(path, &sleds, reason)
    }

    fn described(&mut self, path: &Path, sleds: &[Sled], reason: Option<Reason>) -> io::Result<()> {
        let unmeasured = |sled: &&Sled| sled.estimate.is_none() && sled.place != Place::Unknown;
        self.unmeasured.extend(sleds.iter().filter(unmeasured).map(|sled| sled.device.clone()));
        self.answers.add(sleds);
        let report = Report { path, sleds, reason };
        match (self.args.json, self.args.summary) {
            (true, false) => json::line(&mut self.out, &record::file(&report, self.args.plan)),
            (false, false) => report::file(&mut self.out, &report, self.args, &self.style),
            (is_json, true) => {
                let mut tree = Tree::default();
                tree.add(sleds, report.reason);
                if is_json {
                    json::line(
                        &mut self.out,
                        &record::tree("file_summary", path, &tree, self.args.plan),
                    )
                } else {
                    self.summary(path, &tree)
                }
            }
        }
    }

    fn summary(&mut self, path: &Path, tree: &Tree) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_head, true) {
            report::summary_head(&mut self.out)?;
        }
        report::summary(&mut self.out, path, tree, self.args.plan)
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut line = progress::Line::new(self.costs.clock());
        let Args { other_mounts, jobs, .. } = self.args;
        let tree = tree::sum_up(self.costs, path, *other_mounts, jobs.threads(), &mut line);
        progress::wipe();
        if tree.left_out > 0 {
            messages::note(format_args!(
                "{}: {} below it left out; --other-mounts goes into them",
                human::name(path),
                human::counted(tree.left_out as u64, "mount")
            ));
        }
        self.unmeasured.extend(tree.unmeasured.iter().cloned());
        self.answers.merge(&Answers { files: tree.files, shares: tree.shares });
        if self.args.json {
            json::line(&mut self.out, &record::tree("folder", path, &tree, self.args.plan))
        } else if self.args.summary {
            self.summary(path, &tree)
        } else {
            report::folder(&mut self.out, path, &tree, self.args, &self.style)
        }
    }
}
