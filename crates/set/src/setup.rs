//! What an engine is made with, as who opens sets is asked for it.

use std::path::PathBuf;
use std::time::Duration;

use fetch::engine::EngineOptions;
use fetch::scheduler::Limits;
use store::{Bindings, Error, Local, Permissions, StorageOptions, StoresOptions};

/// What an engine is made with; what is not said is as by default. Sets of equal setups may share one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setup {
    /// Memory for what is fetched and not read yet; see [`Limits::within`].
    pub budget_bytes: Option<u64>,
    /// Bytes that may lie on disk because the budget was full; 0: none.
    pub spill_bytes: Option<u64>,
    /// Where they lie.
    pub spill_folder: Option<PathBuf>,
    /// Requests in flight to one device at most.
    pub window_max: Option<u32>,
    /// How often a part is tried without getting on, at most.
    pub attempts_max: Option<u32>,
    /// How long a request, or a program that prints names, may bring nothing.
    pub stall: Option<Duration>,
    /// What stores may do.
    pub permissions: Permissions,
    /// Options of object stores.
    pub storage: StorageOptions,
}

impl Setup {
    /// How the engine is set up.
    pub fn engine(&self) -> EngineOptions {
        let within = self.budget_bytes.map(|bytes| Limits::default().within(bytes));
        let defaults = within.unwrap_or_else(|| EngineOptions::default().limits);
        let limits = Limits {
            spill_bytes: self.spill_bytes.unwrap_or(defaults.spill_bytes),
            window_max: self.window_max.unwrap_or(defaults.window_max),
            attempts_max: self.attempts_max.unwrap_or(defaults.attempts_max),
            stall: self.stall(),
            ..defaults
        };
        EngineOptions { limits, spill_folder: self.spill_folder.clone() }
    }

    /// How long a request for data may bring nothing.
    pub fn stall(&self) -> Duration {
        self.stall.unwrap_or(Limits::default().stall)
    }

    /// How long an answer may take: who lists waits as long for a page as who reads does for bytes, if
    /// told how long.
    pub fn answer_max(&self) -> Duration {
        self.stall.unwrap_or(StoresOptions::default().answer_max)
    }

    /// How long a program that prints names may print nothing: as long as an answer may take, if told how
    /// long.
    fn program_silence_max(&self) -> Duration {
        self.stall.unwrap_or(StoresOptions::default().program_silence_max)
    }

    /// How its stores are opened.
    ///
    /// # Errors
    /// A table of bindings that cannot be read or understood.
    pub fn stores(&self, local: &Local) -> Result<StoresOptions, Error> {
        let defaults = StoresOptions::default();
        Ok(StoresOptions {
            answer_max: self.answer_max(),
            program_silence_max: self.program_silence_max(),
            permissions: self.permissions,
            storage: self.storage.clone(),
            bindings: Bindings::load(local)?,
            ..defaults
        })
    }
}
