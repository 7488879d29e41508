//! Flags of who guesses what programs will read, `run` and `watch`.

use std::ffi::OsString;

use clap::ValueEnum as _;
use tree::{Matching, Options};
use watch::{CarrierOptions, PATTERN_BYTES_MAX};

use crate::sets::flags::bytes;

/// How it is guessed, and when what is guessed is fetched.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct GuessFlags {
    /// Fetch also while the machine runs on its battery
    #[arg(long)]
    on_battery: bool,

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
        CarrierOptions { on_battery: self.on_battery, ..CarrierOptions::default() }
    }

    /// The words that say the same.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let rules = self.rules.to_possible_value().expect("none is skipped");
        let mut words = vec![
            format!("--rules={}", rules.get_name()).into(),
            format!("--memory={}", self.memory).into(),
        ];
        words.extend(self.on_battery.then(|| "--on-battery".into()));
        words
    }
}
