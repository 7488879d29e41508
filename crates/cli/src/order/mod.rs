//! `nearfirst order`: names, nearest first.

mod queue;

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueHint;
use nearfirst::{Cost, Costs, Name, Plan, Spec, fetch};
use set::Names;
use store::uninterrupted;

use crate::asking::{AskFlags, AskJobs};
use crate::divide::divided;
use crate::flags::PlanFlag;
use crate::sets::flags::StoreFlags;
use crate::sets::{self, Sets, listing};
use crate::shares::{Answers, StatsFlag};
use crate::specs::{self, Specs};
use crate::{human, messages, outcome};

use queue::Queue;

/// Bytes of names that are asked about together.
const BATCH_BYTES: usize = 64 << 10;
/// Fewer names are not worth a second thread: starting one takes as long as asking about ten.
const NAMES_PER_THREAD_MIN: usize = 256;

const LONG_ABOUT: &str = "\
Print names of files, nearest first

Names of files that are wholly in memory are printed at once, in the order in which they come; \
the others once all have come, by the time that reading the whole file takes. After those of \
known cost come those of unknown cost, fewest unknown bytes first, and last those that are \
offline. So a program that is given the names does what it can do at once while, or before, \
anything has to be waited for:

  find . -type f -print0 | nearfirst order -0 | xargs -0 grep -l pattern

Names come from standard input, one a line, where no SPEC is given, or for `-`.

Objects of servers and buckets are ordered by what the device table knows of those; what must be \
restored first is offline.

What is not a regular file passes through as if it were in memory. A name that does not exist \
is reported and left out; one that cannot be asked about is reported and comes last.";

/// Print names of files, nearest first
#[derive(clap::Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = outcome::EXIT_CODES)]
pub(crate) struct Args {
    /// Files and objects; names on stdin where there is none, or for `-`
    #[arg(value_name = "SPEC", long_help = sets::HELP, value_hint = ValueHint::AnyPath)]
    specs: Vec<OsString>,

    /// Names end with NUL, not newline: on stdin and on stdout
    ///
    /// Only this is right for all names: a name may contain a newline, or end in a carriage return as
    /// lines of Windows do.
    #[arg(short = '0', long)]
    null: bool,

    /// Which time orders those that are not wholly in memory: to read a file near first, or in file order
    #[arg(long, value_enum, default_value_t = PlanFlag::Best, value_name = "PLAN")]
    plan: PlanFlag,

    #[command(flatten)]
    stores: StoreFlags,

    #[command(flatten)]
    ask: AskFlags,

    #[command(flatten)]
    jobs: AskJobs,

    #[command(flatten)]
    stats: StatsFlag,
}

pub(crate) fn run(args: Args) -> ExitCode {
    let costs = Arc::new(args.ask.costs());
    let end = if args.null { 0 } else { b'\n' };
    let stdout = io::stdout().lock();
    let escapes = stdout.is_terminal() && !args.null;
    let out = Out { end, escapes, to: BufWriter::new(stdout) };
    let Args { specs, plan, stores, ask, jobs, stats, .. } = args;
    let mut run = Run {
        costs: &costs,
        plan: plan.into(),
        threads: jobs.threads(),
        stores,
        asking: ask,
        sets: None,
        queue: Queue::default(),
        answers: Answers::default(),
        out,
    };
    let written = run.all(specs);
    if stats.stats {
        run.answers.say(costs.clock());
    }
    outcome::exit_code(written)
}

struct Run<'a, W: Write> {
    costs: &'a Arc<Costs>,
    plan: Plan,
    threads: usize,
    stores: StoreFlags,
    asking: AskFlags,
    /// Begun by the first name that needs it.
    sets: Option<Sets>,
    queue: Queue,
    answers: Answers,
    out: Out<W>,
}

/// Where names are printed.
struct Out<W: Write> {
    end: u8,
    /// A terminal would obey what is in a name.
    escapes: bool,
    to: BufWriter<W>,
}

impl<W: Write> Out<W> {
    fn name(&mut self, name: &[u8]) -> io::Result<()> {
        if self.escapes {
            write!(self.to, "{}", human::name(OsStr::from_bytes(name)))?;
        } else {
            self.to.write_all(name)?;
        }
        self.to.write_all(&[self.end])
    }
}

impl<W: Write> Run<'_, W> {
    fn all(&mut self, specs: Vec<OsString>) -> io::Result<()> {
        if specs.is_empty() {
            self.ask_about_stdin()?;
        }
        // Operands between two `-` are asked about together.
        let mut group = Vec::new();
        for spec in specs {
            if spec == "-" {
                self.ask_about(std::mem::take(&mut group))?;
                self.ask_about_stdin()?;
            } else {
                group.push(spec);
            }
        }
        self.ask_about(group)?;
        for name in std::mem::take(&mut self.queue).sorted().names() {
            self.out.name(name)?;
        }
        self.out.to.flush()
    }

    fn ask_about_stdin(&mut self) -> io::Result<()> {
        let own = io::stdin().as_fd().try_clone_to_owned();
        let stdin = own.and_then(|own| fetch::answering(own.into(), self.costs));
        let mut stdin = match stdin {
            Ok(stdin) => stdin,
            Err(error) => {
                messages::error(format_args!("stdin: {}", messages::reason(&error)));
                return Ok(());
            }
        };
        let mut names = Names::ended_by(self.out.end);
        let mut chunk = vec![0; BATCH_BYTES];
        loop {
            // As many as have come, so that nobody waits for more.
            let read = uninterrupted(|| stdin.read(&mut chunk));
            let found = match read.map_err(|error| messages::reason(&error)) {
                Ok(0) => return self.ask_about_names(names.last().as_slice()),
                Ok(count) => names.of(&chunk[..count]),
                Err(reason) => Err(reason),
            };
            match found {
                Ok(found) => self.ask_about_names(&found)?,
                Err(reason) => {
                    messages::error(format_args!("stdin: {reason}"));
                    return Ok(());
                }
            }
        }
    }

    fn ask_about_names(&mut self, names: &[Name]) -> io::Result<()> {
        let is_url = |name: &&Name| specs::is_remote(OsStr::from_bytes(name.as_bytes()));
        let (urls, paths): (Vec<_>, Vec<_>) = names.iter().partition(is_url);
        self.ask(&paths.into_iter().map(Name::as_bytes).collect::<Vec<_>>())?;
        if urls.is_empty() {
            return Ok(());
        }
        self.ask_about_objects(vec![Spec::list(urls.into_iter().cloned())])
    }

    fn ask_about(&mut self, specs: Vec<OsString>) -> io::Result<()> {
        let local = self.costs.local();
        let (specs, objects): (Vec<_>, Vec<_>) =
            specs.into_iter().partition(|spec| !sets::needs_engine(local, spec));
        self.ask_about_paths(specs)?;
        let objects = sets::specs(local, &objects);
        self.ask_about_objects(objects)
    }

    /// What specs stand for that are not patterns of files.
    fn ask_about_objects(&mut self, specs: Vec<Spec>) -> io::Result<()> {
        if specs.is_empty() {
            return Ok(());
        }
        let sets = Sets::once(&mut self.sets, &self.stores, &self.asking, self.costs);
        let Some(sets) = sets else { return Ok(()) };
        let (set, looks) = (sets.listed(specs), sets.looks().clone());
        listing::files_and_objects(&set, |files, objects| {
            self.ask(&files.iter().map(Name::as_bytes).collect::<Vec<_>>())?;
            for object in listing::described(set.engine(), &looks, objects) {
                match object {
                    Ok((entry, sleds)) => {
                        self.answers.add(&sleds);
                        self.queue.push(entry.cost(&sleds, self.plan), entry.name.as_bytes());
                    }
                    Err(error) => sets::say_of(&error.name(), sets::reason(&error)),
                }
            }
            Ok(())
        })
    }

    fn ask_about_paths(&mut self, specs: Vec<OsString>) -> io::Result<()> {
        let mut paths: Vec<OsString> = Vec::new();
        let mut bytes = 0;
        for item in Specs::new(self.costs.local(), specs) {
            match item {
                Ok(path) => {
                    bytes += path.as_os_str().len();
                    paths.push(path.into_os_string());
                }
                Err(error) => sets::say_of(&error.spec, error.reason),
            }
            if bytes >= BATCH_BYTES {
                self.ask(&paths.iter().map(|path| path.as_bytes()).collect::<Vec<_>>())?;
                paths.clear();
                bytes = 0;
            }
        }
        self.ask(&paths.iter().map(|path| path.as_bytes()).collect::<Vec<_>>())
    }

    /// Asks about names, prints those of what is near, and keeps the others.
    fn ask(&mut self, names: &[&[u8]]) -> io::Result<()> {
        let (costs, plan) = (self.costs, self.plan);
        let ask = |names: &[&[u8]]| {
            let mut answers = Answers::default();
            let found = names.iter().map(|name| cost(costs, name, plan, &mut answers));
            (found.collect::<Vec<_>>(), answers)
        };
        let (found, answers): (Vec<_>, Vec<_>) =
            divided(names, self.threads, NAMES_PER_THREAD_MIN, ask).into_iter().unzip();
        for answers in &answers {
            self.answers.merge(answers);
        }
        for (name, cost) in names.iter().zip(found.into_iter().flatten()) {
            match cost {
                None => {}
                Some(Cost::Nothing) => {
                    self.out.name(name)?;
                }
                Some(cost) => self.queue.push(cost, name),
            }
        }
        // Whoever reads on the other side can begin with what is near.
        self.out.to.flush()
    }
}

/// What reading all of a file costs; `None`, and a message, where there is no such file.
fn cost(costs: &Costs, name: &[u8], plan: Plan, answers: &mut Answers) -> Option<Cost> {
    if let Some(end) = memchr::memchr(0, name) {
        messages::error(format_args!(
            "{}: followed by a NUL, which is in no name; -0 takes names that end with it",
            human::name(OsStr::from_bytes(&name[..end]))
        ));
        return None;
    }
    let path = Path::new(OsStr::from_bytes(name));
    let sleds = match costs.path_sleds(path) {
        Ok(sleds) => sleds,
        Err(error) => {
            messages::error(format_args!("{}: {}", human::name(path), error.reason()));
            let is_missing =
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
            return (!is_missing).then_some(Cost::Unasked);
        }
    };
    answers.add(&sleds);
    Some(Cost::of(&sleds, plan))
}
