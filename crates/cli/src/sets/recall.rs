//! `--recall`: what lies on cold tiers is asked to be restored, and waited for if that is wished.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use nearfirst::{Error, Limits, Recalls, Stores};

use super::shown;
use crate::asking::seconds;
use crate::{human, messages};

/// A value that no word of a command line can have.
const UNSAID: &str = "\0";

/// Cold tiers: what is to be done about objects on them.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct RecallFlags {
    /// Ask for what lies in cold storage to be restored, for so many days; 1 by default
    ///
    /// The store charges for it, and it takes minutes to days: how long is said of each object,
    /// which is an error of this run unless --wait is given. `--storage-option restore_tier=Bulk`
    /// (or Expedited) asks for a slower and cheaper (or faster) one. Files of this machine that are
    /// offline are not asked for: another program that reads them has them recalled.
    #[arg(
        long, value_name = "DAYS", num_args = 0..=1, require_equals = true,
        default_missing_value = UNSAID, value_parser = days, help_heading = "Cold storage"
    )]
    recall: Option<Days>,

    /// Wait until it is restored, for so many seconds at most; as long as it takes by default
    #[arg(
        long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        default_missing_value = UNSAID, value_parser = limit, requires = "recall",
        help_heading = "Cold storage"
    )]
    wait: Option<Limit>,
}

/// Days that a restored copy is to stay; `None`: as the storage options say.
#[derive(Debug, Clone, Copy)]
struct Days(Option<u32>);

/// How long is waited at most; `None`: without end.
#[derive(Debug, Clone, Copy)]
struct Limit(Option<Duration>);

fn days(text: &str) -> Result<Days, String> {
    let wrong = || "a number of days above 0".to_owned();
    match text {
        UNSAID => Ok(Days(None)),
        _ => text
            .parse()
            .ok()
            .filter(|&days| days > 0)
            .map(|days| Days(Some(days)))
            .ok_or_else(wrong),
    }
}

fn limit(text: &str) -> Result<Limit, String> {
    if text == UNSAID { Ok(Limit(None)) } else { seconds(text).map(|limit| Limit(Some(limit))) }
}

impl RecallFlags {
    /// How long restored copies are to stay, if it was said.
    pub(super) fn days(&self) -> Option<u32> {
        self.recall?.0
    }

    /// What is to be done, if anything is.
    pub(super) fn recalls(&self, stores: &Arc<Stores>, limits: &Limits) -> Option<Recalls> {
        self.recall?;
        let wait = self.wait.map_or(Duration::ZERO, |limit| limit.0.unwrap_or(Duration::MAX));
        let mut recalls = Recalls::new(stores, limits, wait);
        recalls.told = Some(Arc::new(move |error| say(error, wait)));
        Some(recalls)
    }
}

fn say(error: &Error, wait: Duration) {
    let until = match wait {
        Duration::MAX => String::new(),
        wait => format!("; waiting for {} at most", human::seconds(wait.as_secs_f64())),
    };
    messages::note(format_args!("{}: {}{until}", shown(&error.name()), error.reason()));
}
