//! In what order members come: as flags ask for it, and where it is written down.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Args, ValueEnum, ValueHint};
use nearfirst::{Costs, Entry, ListSource, Name, Order, Rank, SetOptions, Spec, fetch, unix_s};
use set::Names;

use crate::{human, messages};

/// Which members come first.
#[derive(Args, Debug, Clone)]
pub(crate) struct OrderFlags {
    /// In the order of the operands, and of each as it is listed
    ///
    /// What comes later is fetched meanwhile; one slow member holds up all behind it.
    #[arg(long, overrides_with = "unordered")]
    ordered: bool,

    /// What is ready first
    #[arg(long, overrides_with = "ordered")]
    unordered: bool,

    /// Of what is ready, which first: a hint, never a reason to wait
    ///
    /// Goes by what a listing tells. Listing local folders tells neither size nor time, so this has no
    /// effect on local files.
    #[arg(long, value_enum, value_name = "WHICH")]
    rank: Option<RankFlag>,
}

impl OrderFlags {
    pub(crate) fn set_options(&self, ordered_by_default: bool) -> SetOptions {
        let is_ordered = (ordered_by_default || self.ordered) && !self.unordered;
        let order = if is_ordered { Order::Listed } else { Order::Ready };
        SetOptions { order, rank: self.rank.map(RankFlag::rank), ..SetOptions::default() }
    }
}

/// What `--rank` is beside `--order`.
const RANK_HELP: &str =
    "Of what is ready, which first: a hint, a reason to wait only with --order rank";
const RANK_LONG_HELP: &str = "\
Of what is ready, which first: a hint, a reason to wait only with --order rank

Goes by what a listing tells. Listing local folders tells neither size nor time, so without --order rank \
this has no effect on local files.";

/// In what order members are read, and where it is written down.
#[derive(Args, Debug, Clone)]
#[command(mut_arg("rank", |rank| rank.help(RANK_HELP).long_help(RANK_LONG_HELP)))]
pub(crate) struct ReadOrderFlags {
    #[command(flatten)]
    flags: OrderFlags,

    /// In this order: what is ready first, as listed, by name, or by --rank
    #[arg(
        long, value_enum, value_name = "ORDER", requires_if("rank", "rank"),
        overrides_with_all = ["ordered", "unordered"]
    )]
    order: Option<OrderFlag>,

    /// Write the names in the order in which the objects came to FILE
    ///
    /// Each as it comes, before all of it is read, ended by NUL; what does not come is left out. With the
    /// first, what FILE held is lost.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record_order: Option<PathBuf>,

    /// In the order of the names in FILE, as --record-order wrote them; then others, as listed
    ///
    /// Nothing comes before all names are known. Names end with NUL, or are one a line. The two may name
    /// the same FILE.
    #[arg(
        long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["order", "ordered", "unordered", "rank"]
    )]
    replay_order: Option<PathBuf>,
}

impl ReadOrderFlags {
    /// How a set is opened, and where its order is written down.
    ///
    /// # Errors
    /// An order to be replayed that cannot be read, or a file for one that cannot be made, or that is one of
    /// the lists that `specs` are read from.
    pub(crate) fn begin(
        &self,
        ordered_by_default: bool,
        costs: &Costs,
        specs: &[Spec],
    ) -> anyhow::Result<(SetOptions, OrderRecord)> {
        let mut options = self.flags.set_options(ordered_by_default);
        if let Some(path) = &self.replay_order {
            let names =
                recorded(path, costs).map_err(|why| refused("--replay-order", path, &why))?;
            options.order = Order::Replay(names);
        } else if let Some(order) = self.order {
            options.order = order.order();
        }
        let Some(path) = &self.record_order else { return Ok((options, OrderRecord(None))) };
        let record = Record::open(path, costs, specs).map_err(|why| not_recorded(path, &why))?;
        Ok((options, OrderRecord(Some(record))))
    }
}

/// The names of an order that was written down.
fn recorded(path: &Path, costs: &Costs) -> Result<Vec<Name>, String> {
    let file = costs.open(path).map_err(|error| error.reason())?;
    let mut bytes = Vec::new();
    fetch::answering(file, costs)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| messages::reason(&error))?;
    let mut names = Names::default();
    let mut order = names.of(&bytes)?;
    order.extend(names.last());
    Ok(order)
}

/// The order in which members come, as it is written down.
#[derive(Debug)]
pub(crate) struct OrderRecord(Option<Record>);

#[derive(Debug)]
struct Record {
    path: PathBuf,
    file: File,
    /// Whether it holds what it held before.
    is_old: bool,
}

impl Record {
    fn open(path: &Path, costs: &Costs, specs: &[Spec]) -> io::Result<Self> {
        let (local, at) = (costs.local(), path.to_owned());
        let open = move || {
            // Names may hold passwords and tokens: a new file is its owner's alone.
            let mut options = File::options();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(at)?;
            Ok::<_, io::Error>((file.metadata()?, file))
        };
        let opened = local.while_answered(path, open);
        let (metadata, file) = opened.map_err(|dead| io::Error::other(dead.reason())).flatten()?;
        let is_list =
            |list: &Metadata| (list.dev(), list.ino()) == (metadata.dev(), metadata.ino());
        let is_read = specs.iter().any(|spec| match spec {
            Spec::ListFile(ListSource::Object(list)) => list.path().is_some_and(|list| {
                let of = list.to_owned();
                let list = local.while_answered(list, move || fs::metadata(of));
                // What is wrong with a list is told when it is read.
                matches!(list, Ok(Ok(list)) if is_list(&list))
            }),
            Spec::ListFile(ListSource::Stdin) => stdin(costs).is_ok_and(|list| is_list(&list)),
            _ => false,
        });
        if metadata.is_file() && is_read {
            return Err(io::Error::other("names are read from this file"));
        }
        Ok(Self { path: path.to_owned(), file, is_old: metadata.is_file() })
    }

    fn write(&mut self, name: &Name) -> io::Result<()> {
        if std::mem::take(&mut self.is_old) {
            self.file.set_len(0)?;
        }
        // In one write: who breaks the run off finds whole names.
        self.file.write_all(&[name.as_bytes(), b"\0"].concat())
    }
}

impl OrderRecord {
    /// A member came.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(crate) fn note(&mut self, name: &Name) -> anyhow::Result<()> {
        let Some(record) = &mut self.0 else { return Ok(()) };
        record.write(name).map_err(|error| not_recorded(&record.path, &error))
    }
}

/// What standard input is.
fn stdin(costs: &Costs) -> io::Result<Metadata> {
    fetch::metadata(io::stdin().as_fd().try_clone_to_owned()?.into(), costs)
}

fn not_recorded(path: &Path, error: &io::Error) -> anyhow::Error {
    refused("--record-order", path, &messages::reason(error))
}

fn refused(flag: &str, path: &Path, why: &str) -> anyhow::Error {
    anyhow!("{flag} {}: {why}", human::name(path))
}

/// `--order`.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum OrderFlag {
    /// What is ready first, as --unordered
    Ready,
    /// As listed, as --ordered
    Listed,
    /// By name, byte by byte: nothing comes before all names are known
    Name,
    /// By --rank, then by name: nothing comes before all sizes and times are known
    Rank,
}

impl OrderFlag {
    fn order(self) -> Order {
        match self {
            Self::Ready => Order::Ready,
            Self::Listed => Order::Listed,
            Self::Name => Order::Name,
            Self::Rank => Order::Rank,
        }
    }
}

/// `--rank`.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum RankFlag {
    /// The smallest
    Smallest,
    /// The largest
    Largest,
    /// The one changed last
    Newest,
    /// The one not changed for longest
    Oldest,
}

impl RankFlag {
    /// What is not known is no number.
    fn rank(self) -> Rank {
        let size = |entry: &Entry| entry.likely_size().map_or(f64::NAN, |bytes| bytes as f64);
        let time = |entry: &Entry| entry.modified.map_or(f64::NAN, unix_s);
        match self {
            Self::Smallest => Arc::new(move |entry| -size(entry)),
            Self::Largest => Arc::new(size),
            Self::Newest => Arc::new(time),
            Self::Oldest => Arc::new(move |entry| -time(entry)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_newest_of_what_is_older_than_1970_is_the_newest() {
        let before = |seconds| Entry {
            modified: Some(SystemTime::UNIX_EPOCH - Duration::from_secs(seconds)),
            ..Entry::named("a".into())
        };
        let [newest, oldest] = [RankFlag::Newest, RankFlag::Oldest].map(RankFlag::rank);
        assert!(newest(&before(1)) > newest(&before(2)));
        assert!(oldest(&before(2)) > oldest(&before(1)));
    }
}
