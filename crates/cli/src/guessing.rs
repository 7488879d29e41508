//! Flags of who guesses what programs will read, `run` and `watch`.

use std::ffi::OsString;

use watch::CarrierOptions;

/// How it is guessed, and when what is guessed is fetched.
#[derive(clap::Args, Debug, Clone)]
pub(crate) struct GuessFlags {
    /// Fetch also while the machine runs on its battery
    #[arg(long)]
    on_battery: bool,
}

impl GuessFlags {
    /// What fetching may use.
    pub(crate) fn carrying(&self) -> CarrierOptions {
        CarrierOptions { on_battery: self.on_battery, ..CarrierOptions::default() }
    }

    /// The words that say the same.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let on_battery = self.on_battery.then(|| "--on-battery".into());
        on_battery.into_iter().collect()
    }
}
