//! `nearfirst ls`: the names of a set and what is known of them, as they become known.

mod kept;
mod record;
mod table;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgAction, ValueEnum, ValueHint};
use nearfirst::{Entry, Kind, Name, Set, Spec};

use self::kept::{Keeper, Kept};
use crate::sets::flags::{JobFlags, SetFlags};
use crate::sets::listing::{self, Item};
use crate::sets::order::OrderFlags;
use crate::sets::{self, Sets, progress};
use crate::{human, json, messages, outcome};

/// Sorted names that are printed together, in columns of the same width.
const SORTED_BATCH: usize = 1 << 16;
/// Of these, so many are looked up together.
const LOOKED_UP_BATCH: usize = 1 << 10;

const LONG_ABOUT: &str = "\
List the objects that specs name, as they become known

Prints one name a line. Nothing is read: what is not known from listing is asked for with -l, \
--json and --sort alone. Names given as they stand are looked up, so that one that is not there \
is an error; those of a list (@FILE, -) are printed as they are. A folder stands for itself: \
'folder/*' is what is in it, 'folder/**' all files below it.

Examples:
  nearfirst ls -l 's3://logs/2026/**/*.gz'
  nearfirst ls 'https://host/papers.html\\a[href$=\".pdf\"]\\'";

/// List the objects that specs name, as they become known
#[derive(clap::Args, Debug)]
#[command(
    long_about = LONG_ABOUT, after_long_help = outcome::EXIT_CODES, disable_help_flag = true
)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of the command")]
pub(crate) struct Args {
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    /// What to list
    #[arg(
        required = true, value_name = "SPEC", long_help = sets::HELP_WITH_LIST,
        value_hint = ValueHint::AnyPath
    )]
    specs: Vec<OsString>,

    /// Size, time of the last change, tier and version besides
    ///
    /// The tier is `-` for what can be read at once, else the storage class, or `offline` for a file that
    /// must be recalled; what is being restored, or was, says so. What nobody knows is `?`.
    #[arg(short, long)]
    long: bool,

    /// With -l, sizes in KiB, MiB and so on
    #[arg(short = 'h', long, requires = "long")]
    human_readable: bool,

    /// One JSON object a line instead of text; see docs/json.md
    #[arg(long, conflicts_with = "null")]
    json: bool,

    /// Names end with NUL, not newline
    #[arg(short = '0', long)]
    null: bool,

    /// Sort: then nothing is printed before all is known
    #[arg(
        long, value_enum, value_name = "KEY", conflicts_with_all = ["ordered", "unordered", "rank"]
    )]
    sort: Option<SortKey>,

    #[command(flatten)]
    order: OrderFlags,

    #[command(flatten)]
    jobs: JobFlags,

    #[command(flatten)]
    set: SetFlags,
}

/// `--sort`.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum SortKey {
    /// By name, byte by byte
    Name,
    /// The largest first, and those of unknown size last
    Size,
    /// What was changed last first, and what nobody knows the time of last
    Time,
}

impl Args {
    /// Whether more is needed than names.
    fn needs_properties(&self) -> bool {
        self.long || self.json || matches!(self.sort, Some(SortKey::Size | SortKey::Time))
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let sets = match Sets::begin(&args.set) {
        Ok(sets) => sets,
        Err(error) => return outcome::cannot_begin(&error),
    };
    let specs = sets.specs(&args.specs);
    let explicit = explicit_names(&specs);
    let set = Arc::new(sets.set_to_tell(specs, args.order.set_options(true)));
    let stdout = io::stdout().lock();
    let mut listing = Listing {
        args,
        sets: &sets,
        explicit,
        sums: Sums::default(),
        escapes: stdout.is_terminal(),
        folder: None,
        out: BufWriter::new(stdout),
    };
    let written = listing.all(&set).and_then(|()| listing.out.flush());
    listing.say_folder();
    if args.set.stats {
        let Sums { entries, bytes, unsized_entries } = listing.sums;
        let unknown = match unsized_entries {
            0 => String::new(),
            count => format!(" and {count} of unknown size"),
        };
        messages::note(format_args!(
            "{}, {}{unknown}, known after {}",
            human::counted(entries, "object"),
            human::bytes(bytes),
            human::seconds(sets.engine().costs().clock().now().as_secs_f64()),
        ));
    }
    outcome::exit_code(written)
}

/// Names that were given as they stand: whether they are there, no listing has said.
fn explicit_names(specs: &[Spec]) -> HashSet<Name> {
    let mut names = HashSet::new();
    for spec in specs {
        match spec {
            Spec::Glob(glob) => names.extend(glob.names().into_iter().flatten()),
            Spec::List(listed) => names.extend(listed.iter().cloned()),
            Spec::Query { .. } | Spec::Program { .. } | Spec::ListFile(_) => {}
        }
    }
    names
}

/// What `--stats` sums up.
#[derive(Debug, Default)]
struct Sums {
    entries: u64,
    bytes: u64,
    unsized_entries: u64,
}

struct Listing<'a> {
    args: &'a Args,
    sets: &'a Sets,
    explicit: HashSet<Name>,
    sums: Sums,
    /// Names go to a terminal: what would control it is escaped.
    escapes: bool,
    /// The first folder that was given as it stands.
    folder: Option<Name>,
    out: BufWriter<StdoutLock<'a>>,
}

impl Listing<'_> {
    fn all(&mut self, set: &Arc<Set>) -> io::Result<()> {
        match self.args.sort {
            None => listing::in_batches(set, |batch| {
                self.batch(batch)?;
                self.out.flush()
            }),
            Some(SortKey::Name) => {
                let shown = progress::show_names_beside_output(set);
                let mut items = set.digest_by_name().peekable();
                drop(shown);
                while items.peek().is_some() {
                    let mut entries = Vec::new();
                    while entries.len() < SORTED_BATCH && items.peek().is_some() {
                        entries.extend(self.found(items.by_ref().take(LOOKED_UP_BATCH).collect()));
                    }
                    self.print(&entries)?;
                }
                Ok(())
            }
            Some(SortKey::Size) => self.sorted(set, |kept| Reverse(kept.size)),
            Some(SortKey::Time) => self.sorted(set, |kept| Reverse(kept.modified)),
        }
    }

    /// By what may have to be asked for; what is alike by name.
    fn sorted<K: Ord>(&mut self, set: &Arc<Set>, key: impl Fn(&Kept) -> K) -> io::Result<()> {
        let shown = progress::show_names_beside_output(set);
        let in_detail = self.args.long || self.args.json;
        let mut keeper = Keeper::new(in_detail);
        let mut kept = Vec::new();
        let gathered = listing::in_batches(set, |batch| {
            kept.extend(self.found(batch).into_iter().map(|entry| keeper.keep(entry)));
            Ok(())
        });
        drop(shown);
        gathered?;
        kept.sort_unstable_by(|one, two| {
            key(one).cmp(&key(two)).then_with(|| one.name().cmp(two.name()))
        });
        kept.chunks(SORTED_BATCH)
            .try_for_each(|kept| self.print(&kept.iter().map(Kept::entry).collect::<Vec<_>>()))
    }

    fn batch(&mut self, batch: Vec<Item>) -> io::Result<()> {
        let entries = self.found(batch);
        self.print(&entries)
    }

    /// What there is; what is not is said.
    fn found(&self, batch: Vec<Item>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(batch.len());
        for item in self.looked_up(batch) {
            match item {
                Ok(entry) => entries.push(entry),
                Err(error) => sets::say_of(&error.name(), sets::reason(&error)),
            }
        }
        entries
    }

    fn print(&mut self, entries: &[Entry]) -> io::Result<()> {
        self.folder = self.folder.take().or_else(|| self.given_folder(entries));
        for entry in entries {
            self.sums.entries += 1;
            self.sums.bytes += entry.likely_size().unwrap_or(0);
            self.sums.unsized_entries += u64::from(entry.likely_size().is_none());
        }
        if self.args.json {
            return entries
                .iter()
                .try_for_each(|entry| json::line(&mut self.out, &record::entry(entry)));
        }
        let end = if self.args.null { 0 } else { b'\n' };
        let rows = self.args.long.then(|| table::rows(entries, self.args.human_readable));
        for (at, entry) in entries.iter().enumerate() {
            if let Some(rows) = &rows {
                self.out.write_all(rows[at].as_bytes())?;
            }
            if self.escapes && !self.args.null {
                self.out.write_all(sets::shown(&entry.name).as_bytes())?;
            } else {
                self.out.write_all(entry.name.as_bytes())?;
            }
            self.out.write_all(&[end])?;
        }
        Ok(())
    }

    /// A folder that a person named, who may have meant what is in it.
    fn given_folder(&self, entries: &[Entry]) -> Option<Name> {
        let local = self.sets.engine().costs().local();
        let is_folder = |name: &Name| {
            let status = name.path().and_then(|path| local.stat(path).ok());
            status.is_some_and(|status| status.kind == Kind::Folder)
        };
        let given = |name: &&Name| self.explicit.contains(*name);
        let names = entries.iter().map(|entry| &entry.name);
        names.filter(|_| self.escapes).filter(given).find(|name| is_folder(name)).cloned()
    }

    /// As `ls` of a shell is used, a folder stands for what is in it; a spec stands for itself.
    fn say_folder(&self) {
        if let Some(folder) = &self.folder {
            let name = sets::shown(folder);
            let inside = name.trim_end_matches('/');
            messages::note(format_args!("{name} is a folder: '{inside}/*' lists what is in it"));
        }
    }

    /// The same with what listing left open, where it is to be shown or in doubt.
    fn looked_up(&self, batch: Vec<Item>) -> Vec<Item> {
        let needs = self.args.needs_properties();
        let by_time = matches!(self.args.sort, Some(SortKey::Time));
        let is_open = |entry: &Entry| {
            let is_sizeless = entry.likely_size().is_none();
            is_sizeless && (needs || self.explicit.contains(&entry.name))
                || by_time && entry.modified.is_none()
        };
        listing::looked_up(self.sets, batch, is_open, self.args.jobs.given())
    }
}
