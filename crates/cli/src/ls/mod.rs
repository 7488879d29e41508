//! `nearfirst ls`: the names of a set and what is known of them, as they become known.

mod record;
mod table;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use clap::ValueEnum;
use futures::{StreamExt as _, stream};
use nearfirst::{Engine, Entry, Error, Name, Spec};

use crate::sets::flags::{JobFlags, OrderFlags, SetFlags};
use crate::sets::{self, Sets};
use crate::{human, json, messages, outcome};

/// Names that are looked at and aligned together, if so many are known.
const BATCH: usize = 256;
/// Names asked about at a time when nothing else is said: a server answers many at once.
const ASKED_AT_ONCE: usize = 32;

/// List the objects that specs name, as they become known
///
/// Prints one name a line. Nothing is read: what is not known from listing is asked for with -l,
/// --json and --sort alone. Names given as they stand are looked up, so that one that is not there
/// is an error.
///
/// Examples:
///   nearfirst ls -l 's3://logs/2026/**/*.gz'
///   nearfirst ls 'https://host/papers.html\a[href$=".pdf"]\'
#[derive(clap::Args, Debug)]
#[command(after_long_help = outcome::EXIT_CODES, verbatim_doc_comment)]
pub(crate) struct Args {
    /// What to list
    #[arg(required = true, value_name = "SPEC", long_help = sets::HELP)]
    specs: Vec<OsString>,

    /// Size, time of the last change, tier and version besides
    ///
    /// The tier is `-` for what can be read at once, else the storage class; what is being
    /// restored, or was, says so. What nobody knows is `?`.
    #[arg(short, long)]
    long: bool,

    /// One JSON object a line instead of text; see docs/json.md
    #[arg(long, conflicts_with = "null")]
    json: bool,

    /// Names end with NUL, not newline
    #[arg(short = '0', long)]
    null: bool,

    /// Sort: then nothing is printed before all is known
    #[arg(long, value_enum, value_name = "KEY")]
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
}

impl Args {
    /// Whether more is printed than names.
    fn shows_properties(&self) -> bool {
        self.long || self.json
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let sets = match Sets::open(&args.set.far, args.set.budget, &args.set.asking) {
        Ok(sets) => sets,
        Err(error) => return outcome::cannot_begin(&error),
    };
    let specs = sets.specs(&args.specs);
    let explicit = explicit_names(&specs);
    let set = sets.open_set(specs, args.order.set_options(true));
    let stdout = io::stdout().lock();
    let mut listing = Listing {
        args,
        engine: sets.engine(),
        explicit,
        sums: Sums::default(),
        escapes: stdout.is_terminal(),
        out: BufWriter::new(stdout),
    };
    let digest = set.digest();
    let written = listing.all(digest).and_then(|()| listing.out.flush());
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

type Item = Result<Entry, Arc<Error>>;

/// What `--stats` sums up.
#[derive(Debug, Default)]
struct Sums {
    entries: u64,
    bytes: u64,
    unsized_entries: u64,
}

struct Listing<'a> {
    args: &'a Args,
    engine: &'a Engine,
    explicit: HashSet<Name>,
    sums: Sums,
    /// Names go to a terminal: what would control it is escaped.
    escapes: bool,
    out: BufWriter<StdoutLock<'a>>,
}

impl Listing<'_> {
    fn all(&mut self, digest: impl Iterator<Item = Item> + Send) -> io::Result<()> {
        let (to, from) = mpsc::sync_channel(BATCH);
        std::thread::scope(|scope| {
            // Listed here, printed there: a batch is what has become known meanwhile.
            scope.spawn(move || {
                for item in digest {
                    if to.send(item).is_err() {
                        return;
                    }
                }
            });
            match self.args.sort {
                None => self.streamed(from),
                Some(SortKey::Name) => {
                    let mut items: Vec<Item> = from.into_iter().collect();
                    items.sort_by_cached_key(|item| match item {
                        Ok(entry) => entry.name.clone(),
                        Err(error) => error.name(),
                    });
                    let mut items = items.into_iter().peekable();
                    while items.peek().is_some() {
                        let batch = items.by_ref().take(BATCH).collect();
                        self.batch(batch)?;
                    }
                    Ok(())
                }
            }
        })
    }

    fn streamed(&mut self, from: Receiver<Item>) -> io::Result<()> {
        while let Ok(first) = from.recv() {
            let batch: Vec<Item> =
                std::iter::once(first).chain(from.try_iter().take(BATCH - 1)).collect();
            self.batch(batch)?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn batch(&mut self, batch: Vec<Item>) -> io::Result<()> {
        let mut entries = Vec::with_capacity(batch.len());
        for item in self.looked_up(batch) {
            match item {
                Ok(entry) => entries.push(entry),
                Err(error) => sets::say_of(&error.name(), error.reason()),
            }
        }
        for entry in &entries {
            self.sums.entries += 1;
            self.sums.bytes += entry.size.unwrap_or(0);
            self.sums.unsized_entries += u64::from(entry.size.is_none());
        }
        if self.args.json {
            return entries
                .iter()
                .try_for_each(|entry| json::line(&mut self.out, &record::entry(entry)));
        }
        let end = if self.args.null { 0 } else { b'\n' };
        let rows = self.args.long.then(|| table::rows(&entries));
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

    /// The same with what listing left open, where it is to be shown or in doubt.
    fn looked_up(&self, batch: Vec<Item>) -> Vec<Item> {
        let shows = self.args.shows_properties();
        let is_open = |item: &Item| {
            item.as_ref().is_ok_and(|entry| {
                entry.size.is_none() && (shows || self.explicit.contains(&entry.name))
            })
        };
        if !batch.iter().any(is_open) {
            return batch;
        }
        let at_once = self.args.jobs.given().unwrap_or(ASKED_AT_ONCE);
        let asked = batch.into_iter().map(|item| {
            let open = is_open(&item);
            async move {
                match item {
                    Ok(entry) if open => stat(self.engine, entry).await.map_err(Arc::new),
                    item => item,
                }
            }
        });
        let asked: Vec<_> = asked.collect();
        let all = stream::iter(asked).buffered(at_once).collect();
        let _entered = self.engine.handle().enter();
        futures::executor::block_on(all)
    }
}

async fn stat(engine: &Engine, entry: Entry) -> Result<Entry, Error> {
    let store = engine.stores().of(&entry.name)?;
    store.stat(&entry.name).await
}
