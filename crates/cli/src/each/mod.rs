//! `nearfirst each`: runs a command on each member of a set as it becomes ready.
//!
//! [`words`] makes the command line of a member, [`crate::sets::local`] a file of it,
//! [`child`] runs the command, [`print`] writes what it wrote.

mod child;
mod print;
mod words;

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};

use clap::ValueHint;
use nearfirst::{Member, MemberError, Order, Set};
use store::lock;

use crate::sets::course::Course;
use crate::sets::flags::{JobFlags, SetFlags};
use crate::sets::local::Folder;
use crate::sets::order::{OrderRecord, ReadOrderFlags};
use crate::sets::{self, Sets, Tally, progress};
use crate::{descriptors, human, messages, outcome};

use child::{Children, Ended, Streams};
use print::Printer;
use words::Words;

const LONG_ABOUT: &str = "\
Run a command on each object as it becomes ready

In CMD's words, `{}` stands for a path of this machine with the object's own file name: that of \
the file itself, or of a copy in a private folder that is removed when CMD ends. `{name}` is the \
whole name, `{size}` the number of bytes. Where no word has `{}`, the path is added at the end. \
An object that is named twice has CMD run once. CMD's stdin is empty; NEARFIRST_NAME in its \
environment is the whole name. No shell sees the words: for one, run it, as in `sh -c 'zcat \"$1\" | wc -l' sh {}`. If `nearfirst each` itself is \
killed (SIGKILL), commands that run go on, and copies stay.

Examples:
  nearfirst each 's3://bucket/*.fits' -- fitsverify -q {}
  nearfirst each 'https://host/papers.html\\a[href$=\".pdf\"]\\' -- pdftotext {} -";

/// Run a command on each object as it becomes ready
#[derive(clap::Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The objects
    #[arg(
        required = true, value_name = "SPEC", long_help = sets::HELP_WITH_LIST,
        value_hint = ValueHint::AnyPath
    )]
    specs: Vec<OsString>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD", value_hint = ValueHint::CommandName)]
    command: Vec<OsString>,

    #[command(flatten)]
    jobs: JobFlags,

    /// Let the output of several commands mix, as it comes
    ///
    /// Otherwise what a command writes is kept until it ends, and then written in one piece. What is
    /// kept of commands that run is lost when a signal ends `nearfirst each`.
    #[arg(short = 'u', long)]
    no_group: bool,

    /// Begin nothing more once a command or an object has failed
    #[arg(long)]
    halt_on_error: bool,

    #[command(flatten)]
    order: ReadOrderFlags,

    #[command(flatten)]
    set: SetFlags,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  every command ended with 0
  1  an object could not be read, or a command ended otherwise
  2  wrong usage; or CMD cannot be run, or copies or the output not be written
  141  whoever reads the output has closed it, and no further command was begun; not with -u
  Ended by a signal, it ends by the same signal: shells say 130 of an interrupt, 143 of SIGTERM";

pub(crate) fn run(args: &Args) -> ExitCode {
    let sets = match Sets::begin(&args.set) {
        Ok(sets) => sets,
        Err(error) => return outcome::cannot_begin(&error),
    };
    let spill_folder = args.set.fetching.spill_folder();
    // What is begun later is ended before its files are removed.
    let folder = Folder::below(spill_folder.clone());
    let streams = if args.no_group { Streams::Shared } else { Streams::Kept };
    let children = match Children::new(spill_folder, streams) {
        Ok(children) => children,
        Err(error) => return outcome::cannot_begin(&error),
    };
    children.stop_with_us(sets.engine().handle());
    let specs = sets.specs(&args.specs);
    let (options, record) = match args.order.begin(false, sets.engine().costs(), &specs) {
        Ok(begun) => begun,
        Err(error) => return outcome::cannot_begin(&error),
    };
    let is_ordered = options.order != Order::Ready;
    let set = Arc::new(sets.set_to_read(specs, options));
    let tally = Arc::new(Tally::default());
    // Commands that write by themselves would write into the line.
    let shown = (!args.no_group).then(|| progress::show_beside_output(&set, &tally));
    let each = Each {
        words: Words::new(&args.command),
        halts: args.halt_on_error,
        folder,
        children,
        printer: Printer::new(is_ordered),
        tally: &tally,
        next: Mutex::new((0, record)),
        course: Course::of(&sets),
        cannot_go_on: AtomicBool::new(false),
        workers: AtomicUsize::new(1),
        workers_max: descriptors::shared_by(args.jobs.jobs()),
    };
    std::thread::scope(|scope| each.work(&set, scope));
    drop(shown);
    if args.set.stats {
        sets::say_stats(sets.engine(), &tally);
    }
    let (begun, _) = *lock(&each.next);
    let cannot_go_on = each.cannot_go_on.load(Ordering::Relaxed);
    let code = match each.printer.into_written() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => closed(&set, begun),
        written => outcome::exit_code(written),
    };
    if cannot_go_on { ExitCode::from(2) } else { code }
}

/// Of a run whose output has nobody who reads it any more: commands are run for what they do, so that those
/// which were not are told of. What failed before has its exit code.
fn closed(set: &Set, begun: usize) -> ExitCode {
    let has_failed = messages::any() || messages::any_misuse();
    let left = set.known().saturating_sub(begun as u64);
    let objects = human::counted(left, "object");
    if !set.is_complete() {
        messages::note(format_args!(
            "the output is closed: {objects} known so far, and what is not listed yet, had no command"
        ));
    } else if left > 0 {
        messages::note(format_args!("the output is closed: {objects} had no command"));
    }
    if has_failed { outcome::exit_code(Ok(())) } else { ExitCode::from(outcome::CLOSED_PIPE_EXIT) }
}

struct Each<'a> {
    words: Words,
    halts: bool,
    folder: Folder,
    children: Children,
    printer: Printer,
    tally: &'a Tally,
    /// The number of the next member, and where the order is written down: held while it is waited for, so
    /// that numbers are in order.
    next: Mutex<(usize, OrderRecord)>,
    course: Course,
    /// The command itself cannot be run, or there is no place for copies.
    cannot_go_on: AtomicBool,
    /// Threads that have begun to work, and as many as may.
    workers: AtomicUsize,
    workers_max: usize,
}

impl Each<'_> {
    fn work<'scope>(&'scope self, set: &'scope Set, scope: &'scope Scope<'scope, '_>) {
        while !self.course.is_stopped() {
            let Some((number, member)) = self.take(set) else { return };
            self.begin_another(set, scope);
            let output = match member {
                Ok(member) => self.one(member),
                Err(error) => {
                    self.failed();
                    sets::complain(&error);
                    None
                }
            };
            if !self.printer.write(number, output) {
                self.stop();
            }
        }
    }

    /// Has another take the next member meanwhile: no more than members, however many may be asked for.
    fn begin_another<'scope>(&'scope self, set: &'scope Set, scope: &'scope Scope<'scope, '_>) {
        let more = |workers| (workers < self.workers_max).then_some(workers + 1);
        if self.workers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            let work = move || self.work(set, scope);
            // Where no thread can be had, fewer do the same work.
            drop(thread::Builder::new().name("each".into()).spawn_scoped(scope, work));
        }
    }

    fn take(&self, set: &Set) -> Option<(usize, Result<Member, MemberError>)> {
        let mut next = lock(&self.next);
        let member = self.course.next(set)?;
        let (number, record) = &mut *next;
        if let Ok(member) = &member
            && let Err(error) = record.note(member.name())
        {
            self.ends(error);
            return None;
        }
        *number += 1;
        Some((*number - 1, member))
    }

    /// Runs the command on a member; returns what it wrote, where that is kept.
    fn one(&self, member: Member) -> Option<child::Output> {
        let name = member.name().clone();
        let size = member.size();
        let file = match self.folder.file(member, self.tally) {
            Ok(file) => file,
            Err(error) => {
                if let Some(why) = self.folder.failure() {
                    self.ends(format_args!("{}: {}", sets::shown(&why.name()), why.reason()));
                } else {
                    self.failed();
                    sets::complain(&error);
                }
                return None;
            }
        };
        let words = self.words.of(file.path(), &name, size.unwrap_or(file.bytes()));
        match self.children.run(&words, &name) {
            Ok((ended, output)) => {
                self.note(&name, &words[0], ended);
                output
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.stop();
                None
            }
            Err(error) if may_pass(&error) => {
                self.failed();
                sets::say_of(&name, messages::reason(&error));
                None
            }
            Err(error) if child::is_passing(&error) => {
                self.failed();
                let (program, reason) = (human::name(&words[0]), messages::reason(&error));
                sets::say_of(&name, format_args!("{program} cannot be begun: {reason}"));
                None
            }
            Err(error) => {
                let program = human::name(&words[0]);
                self.ends(format_args!("{program}: {}", messages::reason(&error)));
                None
            }
        }
    }

    fn note(&self, name: &nearfirst::Name, program: &OsString, ended: Ended) {
        let program = human::name(program);
        match ended {
            Ended::Well => self.tally.done(),
            Ended::With(code) => {
                self.failed();
                sets::say_of(name, format_args!("{program} ended with {code}"));
            }
            Ended::AtTerminal => {
                self.failed();
                let what = format_args!(
                    "{program} was ended: it waited for the terminal, which commands of each have not"
                );
                sets::say_of(name, what);
            }
            Ended::BySignal(signal) => {
                self.failed();
                sets::say_of(name, format_args!("{program} was ended by signal {signal}"));
            }
        }
    }

    fn failed(&self) {
        self.tally.failed();
        if self.halts {
            self.stop();
        }
    }

    fn stop(&self) {
        self.course.stop();
    }

    /// It would fail for every member alike: said once.
    fn ends(&self, why: impl Display) {
        self.stop();
        if !self.cannot_go_on.swap(true, Ordering::Relaxed) {
            messages::error(why);
        }
    }
}

/// Whether the next member may do: the name has a NUL byte or is too long, or its output cannot be kept.
fn may_pass(error: &io::Error) -> bool {
    use io::ErrorKind::{ArgumentListTooLong, InvalidInput, Other};
    matches!(error.kind(), ArgumentListTooLong | InvalidInput | Other)
}
