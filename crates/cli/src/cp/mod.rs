//! `nearfirst cp`: the members of a set as files of this machine.
//!
//! [`place`] says under which names, purely; [`plan`] what is to be copied of
//! what is listed, and [`known`] what is a copy already; [`part`] keeps what is
//! not whole yet; [`copy`] moves the bytes.

mod checksum;
mod copy;
mod digest;
mod known;
mod part;
mod place;
mod plan;

use std::ffi::OsString;
use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueHint;
use nearfirst::{Kind, Local, Name, Order, Set, SetOptions, Spec};

use crate::divide::together;
use crate::flags::{THREADS_MAX, count, processors};
use crate::sets::flags::SetFlags;
use crate::sets::{self, Sets, Tally, progress};
use crate::{descriptors, messages, outcome};

use copy::{Copier, shown};
use place::Target;
use plan::{Existing, Plan};

/// Files written at a time where nothing else is said: disks take several as fast as one.
const JOBS_MIN: usize = 8;

const LONG_ABOUT: &str = "\
Copy objects to this machine, several at a time

A pattern keeps the folders below its first wildcard: 's3://logs/2026/**/*.gz' makes DIR/01/a.gz \
of s3://logs/2026/01/a.gz. Names that are given, listed or answered to a query become files of \
their own last component; names that a program prints keep the folders below its own. What a \
pattern or a program finds in DEST is left out, unless it looks nowhere else. An object that is \
named twice is copied once; of two objects that would become one file, the second is an error. With one \
SPEC that is a name, and a DEST that is no folder, DEST is the file.

A file appears whole, or not at all: until then its bytes are in .NAME.nearfirst-part beside it. \
The same command again goes on where that ends, if the object is still the same (what comes in one \
request, up to 8 MiB, is begun anew), and counts what is done as already there: files of the \
object's size and its time. What servers tell is compared to the second: what changes there within the \
second, and keeps its size, is not noticed. Of files of this machine the whole time is compared, and the \
bytes where that does not tell: a file that was written to as it was copied, or a copy on a file system \
that keeps times less exactly. Any other file that is there is an error, and nothing is replaced, unless \
--force or --update says so. Once the disk is full, nothing more is fetched. \
Lengths are checked, and sums where S3, Google or Azure keep them: MD5 in an ETag, \
x-amz-checksum-*, x-goog-hash, Content-MD5; where a sum could not be asked for, no copy is made, and \
those of which none is told are counted in --stats. A copy has the time of its object; of a file of this \
machine it has the permissions, too, else those of the file that it replaces, in both cases less \
those that the umask takes.

Examples:
  nearfirst cp 's3://logs/2026/**/*.gz' logs/
  nearfirst cp 'https://host/papers.html\\a[href$=\".pdf\"]\\' papers/";

const OPERANDS_HELP: &str = "\
What to copy, then the folder to copy to, made if it is not there; or a file, for one name

";

/// Copy objects to this machine, several at a time
#[derive(clap::Args, Debug)]
#[command(
    long_about = LONG_ABOUT,
    after_long_help = outcome::EXIT_CODES,
    override_usage = messages::called("cp") + " [OPTIONS] <SPEC>... <DEST>"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// What to copy, then the folder to copy to, made if it is not there; or a file, for one name
    // One list: of two the parser ends the first where a flag follows it.
    #[arg(
        required = true, value_name = "SPEC and DEST", value_hint = ValueHint::AnyPath,
        long_help = OPERANDS_HELP.to_owned() + sets::HELP_WITH_LIST
    )]
    operands: Vec<OsString>,

    /// Replace files that are there
    #[arg(short, long, conflicts_with_all = ["skip_existing", "update"])]
    force: bool,

    /// Leave files that are there as they are, without a word
    #[arg(long, conflicts_with = "update")]
    skip_existing: bool,

    /// Replace files that are older than the object, or as old and of another size; leave the others
    #[arg(short, long)]
    update: bool,

    /// Say what would be copied to where, and copy nothing
    #[arg(long)]
    dry_run: bool,

    /// The same as --dry-run; what GNU cp calls -n is --skip-existing
    #[arg(short = 'n')]
    short_dry_run: bool,

    /// Say what was copied to where
    #[arg(short, long)]
    verbose: bool,

    /// Files written at a time, of which more than 256 count as 256; by default one per processor, and
    /// at least 8, since they wait for the disk
    #[arg(short, long, value_name = "N", value_parser = count::<NonZeroUsize>)]
    jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    set: SetFlags,
}

impl Args {
    fn is_dry(&self) -> bool {
        self.dry_run || self.short_dry_run
    }

    fn existing(&self) -> Existing {
        match (self.force, self.skip_existing, self.update) {
            (true, ..) => Existing::Replace,
            (_, true, _) => Existing::Leave,
            (.., true) => Existing::ReplaceOlder,
            _ => Existing::Refuse,
        }
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let (dest, specs) = args.operands.split_last().expect("the parser asks for one");
    if specs.is_empty() {
        let given = sets::shown(&Name::new(dest.as_encoded_bytes()));
        messages::error(format_args!("missing destination file operand after {given}"));
        return ExitCode::from(2);
    }
    let dest = Path::new(dest);
    let sets = match Sets::begin(&args.set.spilling_nothing()) {
        Ok(sets) => sets,
        Err(error) => return outcome::cannot_begin(&error),
    };
    let specs = sets.specs(specs);
    let local = sets.engine().costs().local();
    let target = match target(local, &specs, dest) {
        Ok(target) => target,
        Err(reason) => {
            messages::error(reason);
            return ExitCode::from(2);
        }
    };
    let plan = Plan::new(sets.looks().clone(), target, args.existing(), args.is_dry());
    let plan = Arc::new(plan);
    let written =
        if args.is_dry() { dry_run(&sets, &plan, specs) } else { copy(args, &sets, &plan, specs) };
    // Who has said what becomes of files that are there does not mean `cp -n` of GNU.
    if args.short_dry_run && args.existing() == Existing::Refuse {
        messages::note(
            "-n is --dry-run: nothing was copied (to leave existing files alone, as GNU cp -n does, \
             use --skip-existing)",
        );
    }
    outcome::exit_code(written)
}

/// Where copies go.
fn target(local: &Local, specs: &[Spec], dest: &Path) -> Result<Target, String> {
    if dest.as_os_str().is_empty() {
        return Err("'': the name of the destination is empty".to_owned());
    }
    // A folder that is called so can be named from `./` on.
    if Name::new(dest.as_os_str().as_encoded_bytes()).scheme().is_some() {
        let dest = shown(dest);
        return Err(format!(
            "{dest}: objects are copied to this machine; nothing is written to stores"
        ));
    }
    let last = dest.as_os_str().as_encoded_bytes().rsplit(|&byte| byte == b'/').next();
    // No file can be called any of these.
    let ends_as_folder = last.is_none_or(|last| matches!(last, b"" | b"." | b".."));
    let kind = match local.stat(dest) {
        Err(dead) if dead.kind() == io::ErrorKind::TimedOut => {
            return Err(format!("{}: {}", shown(dest), dead.reason()));
        }
        status => status.ok().map(|status| status.kind),
    };
    let is_folder = kind == Some(Kind::Folder);
    let is_file = kind.is_some() && !is_folder;
    let one_name = matches!(specs, [spec] if place::is_one_name(spec));
    if one_name && !is_folder && !ends_as_folder {
        return Ok(Target::File(dest.to_owned()));
    }
    if is_file {
        return Err(format!("{}: not a folder, and several objects may come", shown(dest)));
    }
    Ok(Target::Folder(dest.to_owned()))
}

fn dry_run(sets: &Sets, plan: &Arc<Plan>, specs: Vec<Spec>) -> io::Result<()> {
    let set = planned(sets, plan, specs);
    let mut out = BufWriter::new(io::stdout().lock());
    for entry in set.digest() {
        match entry {
            Ok(entry) => {
                if let Some(task) = plan.take(&entry.name) {
                    write!(out, "{} -> {}", sets::shown(&entry.name), shown(&task.dest))?;
                    match task.resume_at {
                        0 => writeln!(out)?,
                        from => writeln!(out, " (from byte {from})")?,
                    }
                }
            }
            Err(error) => sets::say_of(&error.name(), sets::reason(&error)),
        }
    }
    out.flush()?;
    Ok(())
}

fn copy(args: &Args, sets: &Sets, plan: &Arc<Plan>, specs: Vec<Spec>) -> io::Result<()> {
    let set = Arc::new(planned(sets, plan, specs));
    let tally = Arc::new(Tally::default());
    let shown = progress::show_beside_output(&set, &tally);
    let copier = Copier::new(sets.engine(), plan, &tally, args.verbose, sets.stall());
    let jobs = args.jobs.map_or_else(|| processors().max(JOBS_MIN), NonZeroUsize::get);
    together(descriptors::shared_by(jobs.min(THREADS_MAX)), || copier.work(&set));
    drop(shown);
    copier.say_if_full();
    if args.set.stats {
        sets::say_stats(sets.engine(), &tally);
        messages::note(format_args!(
            "{} already there, {} left as they were, {} gone on with, {} checked by their sums, \
             {} could not be",
            plan.copied(),
            plan.left(),
            copier.resumed(),
            copier.verified(),
            copier.unchecked(),
        ));
    }
    copier.end()
}

/// The set of what is to be fetched.
fn planned(sets: &Sets, plan: &Arc<Plan>, specs: Vec<Spec>) -> Set {
    let (starts, plan) = (Arc::clone(plan), Arc::clone(plan));
    let source = move || plan.entries(specs.clone());
    let options = SetOptions {
        order: Order::Ready,
        start: Some(Arc::new(move |entry| starts.start(&entry.name))),
        recalls: sets.recalls().cloned(),
        ..SetOptions::default()
    };
    Set::from_source(sets.engine(), Arc::new(source), options)
}
