//! Flags that commands over sets share, each defined once.

use std::ffi::OsStr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use nearfirst::{Kind, Local, Permissions, Setup, SpillFolder, StorageOptions};
use rustix::fs::{Access, access};

use super::recall::RecallFlags;
use crate::asking::{AskFlags, seconds};
use crate::flags::{count, processors};
use crate::{human, messages};

/// Flags of commands that are about sets and nothing else.
#[derive(Args, Debug, Clone)]
pub(crate) struct SetFlags {
    /// Memory for what is fetched.
    #[command(flatten)]
    pub(crate) budget: BudgetFlag,

    /// Say on stderr what was read, from where, what was waited for, tried again and spilled
    #[arg(long, help_heading = "Fetching")]
    pub(crate) stats: bool,

    /// Where remote objects live.
    #[command(flatten)]
    pub(crate) stores: StoreFlags,

    /// How they are fetched.
    #[command(flatten)]
    pub(crate) fetching: FetchFlags,

    /// Where data is, and how long to wait for the answer.
    #[command(flatten)]
    pub(crate) asking: AskFlags,
}

impl SetFlags {
    /// As these, but nothing is spilled where neither `--spill` nor `--spill-max` is given: for who writes
    /// all that it takes to disk anyway, in threads of which none waits for another.
    pub(crate) fn spilling_nothing(&self) -> Self {
        let mut flags = self.clone();
        if flags.fetching.spill.is_none() {
            flags.fetching.spill_max.get_or_insert(0);
        }
        flags
    }
}

/// `--budget`.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct BudgetFlag {
    /// Memory for what is fetched and not read yet: 64M, 2G; 256M by default
    ///
    /// By default no more than a quarter of what this process and its memory group could still have.
    /// What does not fit goes to disk (--spill), or waits. Each object that is being read may have a
    /// piece beyond it: a ninth of it, 12M at most and 384K at least.
    #[arg(id = "budget", long, value_name = "BYTES", value_parser = bytes, help_heading = "Fetching")]
    pub(crate) bytes: Option<u64>,
}

/// Where objects that are not on this machine live, and what their stores may do.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct StoreFlags {
    /// Run the programs that specs name
    ///
    /// Without this a spec like '/src/%find . -name x%' is refused: who gives the operands would
    /// otherwise decide what runs here. No shell sees the words.
    #[arg(long, help_heading = "Stores")]
    allow_programs: bool,

    /// Follow links of public pages to private networks and to files of this machine
    #[arg(long, help_heading = "Stores")]
    allow_private_links: bool,

    /// An option of object stores, over those of the environment: endpoint=http://127.0.0.1:9000
    ///
    /// May be given several times: `region`, `endpoint`, `skip_signature`, `restore_tier` and what else
    /// the guide lists. Others see the command line: keys belong in the environment.
    #[arg(long, value_name = "NAME=VALUE", value_parser = StorageOption, help_heading = "Stores")]
    storage_option: Vec<(String, String)>,
}

/// How objects that are not on this machine are fetched.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct FetchFlags {
    /// Where what the budget has no room for goes; by default the folder for temporary files
    ///
    /// That is $TMPDIR, else /tmp, or /var/tmp where /tmp is kept in memory.
    #[arg(long, value_name = "DIR", help_heading = "Fetching")]
    spill: Option<PathBuf>,

    /// How much may go there: 64M, 2G; 0 for nothing; by default 4G, of cp without --spill nothing
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Fetching")]
    spill_max: Option<u64>,

    /// Seconds without a byte after which a request is cut and tried again
    ///
    /// By default 20 for data, and 30 for a page of a listing or the next row of a query. A program that
    /// prints names is ended, by default after 600.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Fetching")]
    stall: Option<Duration>,

    /// How often a part is tried without getting on before its object is given up; 5 by default
    ///
    /// A server that asks for patience (429, 503) is asked again beyond that, for minutes.
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU32>, help_heading = "Fetching")]
    attempts: Option<NonZeroU32>,

    /// Requests to one server or bucket at a time, at most; 256 by default
    ///
    /// Fewer are made where more do not raise the rate. Questions about names of which listing tells too
    /// little come on top, as many at a time at most.
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU32>, help_heading = "Fetching")]
    window_max: Option<NonZeroU32>,

    /// What lies on cold tiers.
    #[command(flatten)]
    pub(super) recall: RecallFlags,
}

impl FetchFlags {
    /// Those of a command that reads nothing: what lists waits as long for a page as who asks is to wait.
    pub(super) fn asking(asking: &AskFlags) -> Self {
        Self { stall: asking.wait_max, ..Self::default() }
    }

    /// What an engine is to be made with.
    ///
    /// # Errors
    /// An option of object stores that cannot be understood.
    pub(super) fn setup(
        &self,
        stores: &StoreFlags,
        budget_bytes: Option<u64>,
    ) -> Result<Setup, nearfirst::Error> {
        let mut storage = StorageOptions::new(stores.storage_option.iter().cloned())?;
        if let Some(days) = self.recall.days() {
            // This spelling comes before all others.
            storage.insert("s3_restore_days", days.to_string())?;
        }
        Ok(Setup {
            budget_bytes,
            spill_bytes: self.spill_max,
            spill_folder: self.spill.clone(),
            window_max: self.window_max.map(NonZeroU32::get),
            attempts_max: self.attempts.map(NonZeroU32::get),
            stall: self.stall,
            permissions: Permissions {
                programs: stores.allow_programs,
                private_links: stores.allow_private_links,
            },
            storage,
        })
    }

    /// Looks whether the folder of `--spill` can be written to, before anything is fetched that may
    /// have to go there.
    ///
    /// # Errors
    /// It cannot, and why.
    pub(crate) fn check_spill(&self, local: &Local) -> anyhow::Result<()> {
        let Some(folder) = &self.spill else { return Ok(()) };
        let why = match local.stat(folder) {
            Err(error) => error.reason(),
            Ok(status) if status.kind != Kind::Folder => "not a folder".to_owned(),
            Ok(_) => match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => return Ok(()),
                Err(error) => messages::reason(&error.into()),
            },
        };
        bail!("--spill {}: {why}", human::name(folder))
    }

    /// The folder for what is fetched and has no place in memory.
    pub(crate) fn spill_folder(&self) -> PathBuf {
        SpillFolder::from(self.spill.clone()).path().into_owned()
    }
}

/// `--jobs`, for commands that work on several members at a time.
#[derive(Args, Debug, Clone)]
pub(crate) struct JobFlags {
    /// Members worked on at a time; by default one per processor
    #[arg(short, long, value_name = "N", value_parser = count::<NonZeroUsize>)]
    jobs: Option<NonZeroUsize>,
}

impl JobFlags {
    /// How many were asked for, if it was said.
    pub(crate) fn given(&self) -> Option<usize> {
        self.jobs.map(NonZeroUsize::get)
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs.map_or_else(processors, NonZeroUsize::get)
    }
}

/// Reads a byte count: `4096`, `64K`, `1.5G`, `2GiB`; powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    const WANTED: &str = "a number of bytes, such as 65536, 64K, 256M or 1.5G";
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let suffix = suffix.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let shift = match suffix {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(WANTED.to_owned()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(|| WANTED.to_owned());
    }
    let number: f64 = number.parse().map_err(|_| WANTED.to_owned())?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "digits and a point are not negative; a huge one saturates"
    )]
    Ok((number * (1_u64 << shift) as f64) as u64)
}

/// Reads `NAME=VALUE`, of a name that a store knows.
#[derive(Debug, Clone)]
struct StorageOption;

impl TypedValueParser for StorageOption {
    type Value = (String, String);

    /// What is wrong is told without the value, which may be a secret.
    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        given: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        option(given).map_err(|why| {
            let why = format!("--storage-option: {why}");
            clap::Error::raw(ErrorKind::ValueValidation, why).with_cmd(command)
        })
    }
}

/// What there is for flags of other programs.
const OF_OTHERS: &[(&str, &[&str], &str)] = &[
    (
        "ls cat cp each",
        &["-r", "-R", "--recursive"],
        "folders need no flag; 'FOLDER/**' is all files below one",
    ),
    ("ls", &["-a", "-A", "--all"], "'.*' matches the names that begin with a dot"),
    ("ls", &["-1"], "there is one name a line without it"),
    ("ls", &["-t"], "--sort=time"),
    ("ls", &["-S"], "--sort=size"),
    (
        "cp",
        &["-a", "-p", "--archive", "--preserve"],
        "times, and modes less the umask, are kept without it",
    ),
    ("cp", &["-t", "--target-directory"], "the folder comes last"),
    ("ls cat cp each", &["--endpoint", "--endpoint-url"], "--storage-option=endpoint=URL"),
    ("wc", &["-z"], "'nearfirst cat -z' decompresses what it writes"),
];

/// What `command` has for a flag of other programs.
pub(crate) fn instead_of(command: &str, flag: &str) -> Option<&'static str> {
    let is_it = |(commands, flags, _): &&(&str, &[&str], _)| {
        commands.split(' ').any(|one| one == command) && flags.contains(&flag)
    };
    OF_OTHERS.iter().find(is_it).map(|(_, _, tip)| *tip)
}

fn option(given: &OsStr) -> Result<(String, String), String> {
    let text = given.to_str().ok_or("the value is not UTF-8")?;
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("wanted is NAME=VALUE, such as region=eu-west-1")?;
    StorageOptions::new([(name, value)]).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_have_suffixes() {
        for (text, expected) in
            [("0", 0), ("4096", 4096), ("64K", 65_536), ("1.5M", 3 << 19), ("2GiB", 2 << 30)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "M", "-1", "1X", "1.2.3", "99999999999T"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
