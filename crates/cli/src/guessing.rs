//! Flags of who guesses what programs will read, `run` and `watch`, and what both say of it.

use std::ffi::OsString;
use std::num::NonZeroU32;

use clap::ValueEnum as _;
use nearfirst::Limits;
use tree::{Matching, Options};
use watch::{CarrierOptions, PATTERN_BYTES_MAX};

use crate::flags::count;
use crate::human;
use crate::sets::flags::bytes;

/// How it is guessed, and when what is guessed is fetched.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct GuessFlags {
    /// Fetch also while the machine runs on its battery
    #[arg(long)]
    on_battery: bool,

    /// Requests to one device or server at a time, at most, 64 by default; `watch` has as many for each
    /// user
    ///
    /// Fewer are made where more do not raise the rate.
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU32>)]
    jobs: Option<NonZeroU32>,

    /// Memory for what is fetched and not read yet, 1M at least; `watch` has as much for each user
    ///
    /// By default what memory has room for.
    #[arg(long, value_name = "BYTES", value_parser = budget)]
    budget: Option<u64>,

    /// The rules by which runs are matched and predicted
    #[arg(long, value_enum, default_value_t = Rules::Ours, value_name = "RULES")]
    rules: Rules,

    /// Memory for what is learned of a user's programs, about, 128M at most; beyond it, what was of use
    /// longest ago is forgotten
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = memory)]
    memory: usize,
}

/// The rules to learn by.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum Rules {
    /// By how often files were read in the runs that resemble this one
    Ours,
    /// As Lei & Duchamp have them (USENIX '97)
    Paper,
}

/// One part of a file.
const BUDGET_MIN: u64 = 1 << 20;

fn budget(text: &str) -> Result<u64, String> {
    let budget = Some(bytes(text)?).filter(|&budget| budget >= BUDGET_MIN);
    budget.ok_or_else(|| "1M at least".to_owned())
}

/// Less knows next to nothing.
const MEMORY_MIN: usize = 1 << 20;

fn memory(text: &str) -> Result<usize, String> {
    let wanted = MEMORY_MIN..=PATTERN_BYTES_MAX;
    let memory = usize::try_from(bytes(text)?).ok().filter(|memory| wanted.contains(memory));
    memory.ok_or_else(|| "from 1M to 128M".to_owned())
}

impl GuessFlags {
    /// How to learn.
    pub(crate) fn learning(&self) -> Options {
        let matching = match self.rules {
            Rules::Ours => Matching::Ours,
            Rules::Paper => Matching::Paper,
        };
        Options { matching, pattern_bytes_max: self.memory, ..Options::default() }
    }

    /// What fetching may use.
    pub(crate) fn carrying(&self) -> CarrierOptions {
        let defaults = CarrierOptions::default();
        CarrierOptions {
            on_battery: self.on_battery,
            unread_bytes_max: self.budget,
            limits: Limits {
                window_max: self.jobs.map_or(defaults.limits.window_max, NonZeroU32::get),
                ..defaults.limits
            },
            ..defaults
        }
    }

    /// The words that say the same.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let rules = self.rules.to_possible_value().expect("none is skipped");
        let mut words = vec![
            format!("--rules={}", rules.get_name()).into(),
            format!("--memory={}", self.memory).into(),
        ];
        words.extend(self.jobs.map(|jobs| format!("--jobs={jobs}").into()));
        words.extend(self.budget.map(|budget| format!("--budget={budget}").into()));
        words.extend(self.on_battery.then(|| "--on-battery".into()));
        words
    }
}

/// Of reads that are in no other count, what ends the sentence.
pub(crate) fn uncounted(opens: u64) -> String {
    if opens == 0 {
        return String::new();
    }
    format!(
        ", and not counted {} beyond as many files as are recorded",
        human::counted(opens, "open")
    )
}
