//! How sets are opened, from Python's arguments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nearfirst::{
    Bindings, Duplicates, EngineOptions, Limits, Local, Name, Order, Permissions, StorageOptions,
    StoresOptions,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What an engine is made with: equal options share one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) budget_bytes: Option<u64>,
    pub(crate) jobs: Option<u32>,
    pub(crate) spill_bytes: Option<u64>,
    pub(crate) spill_folder: Option<PathBuf>,
    pub(crate) allow_programs: bool,
    pub(crate) allow_private_links: bool,
    pub(crate) storage: StorageOptions,
    pub(crate) stall: Option<Duration>,
}

impl Options {
    pub(crate) fn engine(&self) -> EngineOptions {
        let within = self.budget_bytes.map(|bytes| Limits::default().within(bytes));
        let defaults = within.unwrap_or_else(|| EngineOptions::default().limits);
        let limits = Limits {
            spill_bytes: self.spill_bytes.unwrap_or(defaults.spill_bytes),
            window_max: self.jobs.unwrap_or(defaults.window_max),
            stall: self.stall(),
            ..defaults
        };
        EngineOptions { limits, spill_folder: self.spill_folder.clone() }
    }

    /// How long a request may bring nothing.
    pub(crate) fn stall(&self) -> Duration {
        self.stall.unwrap_or(Limits::default().stall)
    }

    /// How long an answer may take: who lists waits as long for a page as who reads does for bytes, if
    /// told how long.
    pub(crate) fn answer_max(&self) -> Duration {
        self.stall.unwrap_or(StoresOptions::default().answer_max)
    }

    /// # Errors
    /// A table of bindings that cannot be read or understood.
    pub(crate) fn stores(&self, local: &Local) -> Result<StoresOptions, nearfirst::Error> {
        let defaults = StoresOptions::default();
        Ok(StoresOptions {
            answer_max: self.answer_max(),
            permissions: Permissions {
                programs: self.allow_programs,
                private_links: self.allow_private_links,
            },
            storage: self.storage.clone(),
            bindings: Bindings::load(local)?,
            ..defaults
        })
    }
}

/// Options of object stores.
///
/// # Errors
/// A name that no store knows.
pub(crate) fn storage(given: BTreeMap<String, String>) -> PyResult<StorageOptions> {
    StorageOptions::new(given).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// What makes two members one, by its name.
///
/// # Errors
/// Another word.
pub(crate) fn duplicates(word: &str) -> PyResult<Duplicates> {
    match word {
        "name" => Ok(Duplicates::ByName),
        "content" => Ok(Duplicates::ByContent),
        other => {
            Err(PyValueError::new_err(format!("duplicates is 'name' or 'content', not {other:?}")))
        }
    }
}

/// An order by its name, or the names to come first.
///
/// # Errors
/// Another word.
pub(crate) fn order(word: &str, replay: Option<Vec<Vec<u8>>>) -> PyResult<Order> {
    if let Some(names) = replay {
        return Ok(Order::Replay(names.into_iter().map(Name::new).collect()));
    }
    match word {
        "ready" => Ok(Order::Ready),
        "listed" => Ok(Order::Listed),
        "name" => Ok(Order::Name),
        "rank" => Ok(Order::Rank),
        other => Err(PyValueError::new_err(format!(
            "order is 'ready', 'listed', 'name', 'rank' or a list of names, not {other:?}"
        ))),
    }
}
