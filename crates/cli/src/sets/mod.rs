//! What commands over sets share: flags, the engine behind them, progress, and how a run is broken off.
//!
//! An engine starts threads and opens stores, so a command makes one only when
//! an operand needs it: local paths and patterns have their own, shorter ways.

mod connections;
pub(crate) mod course;
pub(crate) mod decompress;
pub(crate) mod flags;
pub(crate) mod folder;
pub(crate) mod interrupt;
pub(crate) mod listing;
pub(crate) mod local;
pub(crate) mod order;
pub(crate) mod progress;
pub(crate) mod recall;
mod stats;
mod tally;

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nearfirst::{
    Costs, Engine, Entries, Error, Glob, ListSource, Local, Looks, MemberError, Name, Order,
    Recalls, Set, SetOptions, Spec, SpecError, Stores,
};

use crate::asking::AskFlags;
use crate::{human, messages};

use flags::{FetchFlags, SetFlags, StoreFlags};
use futures::StreamExt as _;
use interrupt::Prepared;
pub(crate) use stats::say as say_stats;
pub(crate) use tally::{Tallied, Tally};

/// The text of [`HELP`].
macro_rules! spec_help {
    () => {
        "\
A SPEC names objects of this machine, of an object store or of a web server:

  notes.txt  s3://bucket/key  https://host/file
      one object
  's3://logs/2026/**/*.gz'
      what matches: `*`, `?` and `[a-z]` within a name, `**` for any folders, `{a,b}` for either, \
      `{01..12}` for each number, `~` for a home folder
  'https://host/papers.html\\a[href$=\".pdf\"]\\'
  'staff.db\\select photo from staff\\'
      what a page or a database answers to a query between backslashes: a CSS selector, SQL
  '/src/%find . -name *.c%'
      the names that a program prints, if --allow-programs is given
  @FILE
      the names that a file lists, one a line or NUL-separated

A file that exists under the name as it stands is taken, whatever it looks like; in the names of \
objects, \\ quotes the character after it."
    };
}

/// What the long help of a command says of its operands, where any spec may stand.
pub(crate) const HELP: &str = spec_help!();

/// As [`HELP`], for commands to which `-` is a list of names.
pub(crate) const HELP_WITH_LIST: &str =
    concat!(spec_help!(), " A `-` is a list of names on stdin.");

/// An engine, as flags ask for it, for the sets of one run.
#[derive(Debug)]
pub(crate) struct Sets {
    engine: Engine,
    stall: Duration,
    looks: Looks,
    recalls: Option<Recalls>,
    _listings_ended: Prepared,
    _connections_ended: Prepared,
}

impl Sets {
    /// As [`Sets::open`], for a command that is about sets and nothing else.
    ///
    /// # Errors
    /// As [`Sets::open`].
    pub(crate) fn begin(flags: &SetFlags) -> anyhow::Result<Self> {
        let costs = Arc::new(flags.asking.costs());
        flags.fetching.check_spill(costs.local())?;
        Self::reading(&flags.stores, &flags.fetching, flags.budget.bytes, &costs)
    }

    /// As [`Sets::open`], for a command that reads what it lists.
    ///
    /// # Errors
    /// As [`Sets::open`].
    pub(crate) fn reading(
        stores: &StoreFlags,
        fetching: &FetchFlags,
        budget_bytes: Option<u64>,
        costs: &Arc<Costs>,
    ) -> anyhow::Result<Self> {
        let setup = fetching.setup(stores, budget_bytes)?;
        let stores = Arc::new(Stores::new(Arc::clone(costs), &setup.stores(costs.local())?));
        let options = setup.engine();
        let looks = Looks::new(&stores, &options.limits);
        let recalls = fetching.recall.recalls(&stores, &options.limits);
        let engine = Engine::new(stores, Arc::clone(costs), options);
        let engine = engine.context(crate::outcome::NO_THREADS)?;
        interrupt::watch(engine.handle());
        let stores = Arc::clone(engine.stores());
        // The last of what is undone: what reads would connect anew.
        let connections_ended = interrupt::prepare(connections::end);
        let listings_ended = interrupt::prepare(move || stores.end_listings());
        Ok(Self {
            engine,
            stall: setup.stall(),
            looks,
            recalls,
            _listings_ended: listings_ended,
            _connections_ended: connections_ended,
        })
    }

    /// Starts the engine, of a command that asks and reads nothing; from now on an interrupt ends the
    /// run in good order.
    ///
    /// # Errors
    /// No threads; a storage option or a configuration that cannot be understood.
    pub(crate) fn open(
        stores: &StoreFlags,
        asking: &AskFlags,
        costs: &Arc<Costs>,
    ) -> anyhow::Result<Self> {
        let mut sets = Self::reading(stores, &FetchFlags::asking(asking), None, costs)?;
        sets.looks = sets.looks.answered_within(costs.local().wait_max());
        Ok(sets)
    }

    /// What the first who asks opens; `None`, and why is said, if it cannot be.
    pub(crate) fn once<'a>(
        sets: &'a mut Option<Self>,
        stores: &StoreFlags,
        asking: &AskFlags,
        costs: &Arc<Costs>,
    ) -> Option<&'a Self> {
        if sets.is_none() {
            *sets = Self::open(stores, asking, costs).map_err(messages::misuse).ok();
        }
        sets.as_ref()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How long a request for data may bring nothing.
    pub(crate) fn stall(&self) -> Duration {
        self.stall
    }

    /// Asks what listing left open.
    pub(crate) fn looks(&self) -> &Looks {
        &self.looks
    }

    /// The specs that operands stand for; what cannot be understood is said.
    pub(crate) fn specs(&self, operands: &[OsString]) -> Vec<Spec> {
        let specs = specs(self.engine.costs().local(), operands);
        connections::keep_for(&specs);
        specs
    }

    /// What `--recall` has done about cold objects, if it is given.
    pub(crate) fn recalls(&self) -> Option<&Recalls> {
        self.recalls.as_ref()
    }

    /// The set of these specs, as a command without wishes of its own opens it. Whatever the
    /// flags say, nothing is recalled.
    pub(crate) fn open_set(&self, specs: Vec<Spec>, options: SetOptions) -> Set {
        connections::keep_for(&specs);
        Set::open(&self.engine, specs, options)
    }

    /// As [`Sets::open_set`], as its names are listed.
    pub(crate) fn listed(&self, specs: Vec<Spec>) -> Arc<Set> {
        let options = SetOptions { order: Order::Listed, ..SetOptions::default() };
        Arc::new(self.open_set(specs, options))
    }

    /// As [`Sets::open_set`], of what is to be read.
    pub(crate) fn set_to_read(&self, specs: Vec<Spec>, options: SetOptions) -> Set {
        self.ranked(specs, SetOptions { recalls: self.recalls.clone(), ..options })
    }

    /// As [`Sets::open_set`], of what is to be told about.
    pub(crate) fn set_to_tell(&self, specs: Vec<Spec>, options: SetOptions) -> Set {
        let set = self.ranked(specs, options.clone());
        let Some(recalls) = self.recalls.clone() else { return set };
        let sequence = options.order.sequence();
        let source = move || recalls.asked_for(entries(&set), sequence);
        Set::from_source(&self.engine, Arc::new(source), options)
    }

    /// The set of these specs, with what a rank must know.
    fn ranked(&self, specs: Vec<Spec>, options: SetOptions) -> Set {
        let rank = options.rank.clone().filter(|_| options.order == Order::Rank);
        let Some(rank) = rank else { return self.open_set(specs, options) };
        let set = self.open_set(specs, SetOptions { recalls: None, ..options.clone() });
        let looks = self.looks.clone();
        let source = move || listing::known(looks.clone(), Arc::clone(&rank), entries(&set));
        Set::from_source(&self.engine, Arc::new(source), options)
    }
}

/// What a set lists, as the source of another.
pub(crate) fn entries(set: &Set) -> Entries {
    set.entries().map(|entry| entry.map_err(|error| error.again())).boxed()
}

/// The specs that operands stand for; what cannot be understood is said.
pub(crate) fn specs(local: &Local, operands: &[OsString]) -> Vec<Spec> {
    specs_or(local, operands, |error| say_of(&error.spec, error.reason))
}

/// As [`specs`], of which those that cannot be understood are told to `refused`.
pub(crate) fn specs_or(
    local: &Local,
    operands: &[OsString],
    refused: impl Fn(SpecError),
) -> Vec<Spec> {
    let parsed = operands.iter().map(|operand| Spec::operand(local, operand));
    parsed.filter_map(|spec| spec.map_err(&refused).ok()).collect()
}

impl Drop for Sets {
    fn drop(&mut self) {
        // A runtime that is dropped waits for nobody, and the process may end next.
        self.engine.stores().end_listings();
        connections::end();
        // What fetches taught is worth keeping, but not worth failing for.
        drop(self.engine.costs().save());
    }
}

/// Whether an operand needs an engine: it is remote, a query, a program or a list in a file.
///
/// What exists under the name as it stands is a path, whatever it looks like; `-` is the command's.
pub(crate) fn needs_engine(local: &Local, operand: &OsStr) -> bool {
    let text = operand.as_bytes();
    // Paths by the million must not be parsed to find that they are paths.
    let may_be = text.starts_with(b"@") || text.iter().any(|byte| b":\\%".contains(byte));
    if !may_be || text == b"-" {
        return false;
    }
    match Spec::parse(text) {
        Ok(Spec::Glob(glob)) => is_remote(&glob) && !exists(local, operand),
        // Names may begin with an `@`: one that is not there is no list, either.
        Ok(Spec::ListFile(ListSource::Object(list))) => {
            list.path().is_none_or(|list| local.stat(list).is_ok()) && !exists(local, operand)
        }
        Ok(_) => !exists(local, operand),
        // The path of a file may look like a broken spec.
        Err(_) => is_remote(&Glob::new(text)) && !exists(local, operand),
    }
}

/// Whether an operand is the name of one object as it stands.
pub(crate) fn is_one_name(operand: &OsStr) -> bool {
    names(operand).len() == 1
}

/// The names that an operand is as it stands; none of a pattern, a list or a query.
pub(crate) fn names(operand: &OsStr) -> Vec<Name> {
    match Spec::parse(operand.as_bytes()) {
        Ok(Spec::Glob(glob)) => glob.names().unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn exists(local: &Local, operand: &OsStr) -> bool {
    local.stat(Path::new(operand)).is_ok()
}

fn is_remote(glob: &Glob) -> bool {
    glob.alternatives().iter().any(|pattern| match pattern {
        Ok(pattern) => Name::new(pattern.as_slice()).scheme().is_some(),
        Err(error) => error.spec.holds_urls(),
    })
}

/// Says why a member could not be read; the run goes on.
pub(crate) fn complain(error: &MemberError) {
    say_of(&error.name, reason(&error.cause));
}

/// Why an object could not be read, and what there is to do about it.
pub(crate) fn reason(cause: &Error) -> String {
    match cause {
        Error::NotAllowed { .. } => format!("{} (--allow-programs)", cause.reason()),
        Error::Cold { .. } => format!("{}: --recall asks for that", cause.reason()),
        Error::Recalling { waited: Duration::ZERO, .. } => {
            format!("{}: try again then, or --wait", cause.reason())
        }
        Error::NotFound { name } if may_be_folder(name) => {
            let below = shown(name);
            let below = below.trim_end_matches('/');
            format!("{}; if it is a folder, what is below it is {below}/**", cause.reason())
        }
        _ if cause.kind() == ErrorKind::IsADirectory => {
            format!("{}; 'FOLDER/**' is all files below one", cause.reason())
        }
        _ => cause.reason(),
    }
}

/// Whether a name of a bucket's object, which is not there, may have been meant for a folder.
fn may_be_folder(name: &Name) -> bool {
    let text = name.as_bytes();
    let text = text.strip_suffix(b"/").unwrap_or(text);
    name.scheme().is_some_and(|scheme| ["s3", "gs", "az"].contains(&scheme))
        && !text.iter().any(|byte| b"*?[{\\".contains(byte))
        && !text.rsplit(|&byte| byte == b'/').next().is_some_and(|last| last.contains(&b'.'))
}

/// Says what is wrong with an object; the exit code remembers it.
pub(crate) fn say_of(name: &Name, reason: impl std::fmt::Display) {
    messages::error(format_args!("{}: {reason}", shown(name)));
}

/// A name for people, on one line and without a password.
pub(crate) fn shown(name: &Name) -> String {
    human::name(OsStr::from_bytes(name.redacted().as_bytes())).to_string()
}
