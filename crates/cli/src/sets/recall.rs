//! `--recall`: what lies on cold tiers is asked to be restored, and waited for if that is wished.

use std::time::Duration;

use clap::Args;
use futures::future::ready;
use futures::{StreamExt as _, TryStreamExt as _};
use nearfirst::{Entries, Entry, Error, Recall};

use super::looks::Looks;
use super::shown;
use crate::asking::seconds;
use crate::{human, messages};

/// Objects asked about, or asked to be restored, at a time.
pub(super) const ASKED_AT_ONCE: usize = 32;

/// When a restore is looked at first, then after twice as long each time: some servers are done at
/// once, tapes take hours.
const LOOK_FIRST: Duration = Duration::from_secs(1);

/// How long the last look may take: it begins when the time to wait is over.
const LOOK_LAST_MAX: Duration = Duration::from_secs(10);

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
    pub(super) fn recalls(&self, looks: Looks) -> Option<Recalls> {
        self.recall?;
        Some(Recalls { looks, wait: self.wait })
    }
}

/// Has cold objects restored.
#[derive(Debug, Clone)]
pub(crate) struct Recalls {
    looks: Looks,
    wait: Option<Limit>,
}

/// How far an object is.
enum State {
    /// It can be read, as far as is known.
    There(Entry),
    /// It has been asked for; worth a look after this time.
    Pending { entry: Entry, again: Duration, within: Option<Duration> },
}

/// In which order objects are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// As they are listed.
    Listed,
    /// As they can be read.
    Ready,
}

impl Recalls {
    /// The same objects; cold ones only once they can be read. One that is not waited for is an
    /// error that says when it will be there.
    pub(crate) fn for_reading(self, entries: Entries, turn: Turn) -> Entries {
        let Some(limit) = self.wait else {
            return self.asked(entries, turn).and_then(|state| ready(state.refused())).boxed();
        };
        let asked = self.clone().asked(entries, turn).map(move |state| {
            let recalls = self.clone();
            async move {
                match state? {
                    State::There(entry) => Ok(entry),
                    State::Pending { entry, again, within } => {
                        recalls.say(&entry, within);
                        recalls.restored(entry, again, limit).await
                    }
                }
            }
        });
        // Without a bound: one that is asked for after another is there would be hours later.
        match turn {
            Turn::Listed => asked.buffered(usize::MAX).boxed(),
            Turn::Ready => asked.buffer_unordered(usize::MAX).boxed(),
        }
    }

    /// The same objects as they are once cold ones have been asked for, or are there if that is
    /// waited for.
    pub(crate) fn for_telling(self, entries: Entries, turn: Turn) -> Entries {
        if self.wait.is_some() {
            return self.for_reading(entries, turn);
        }
        let asked = self.clone().asked(entries, turn).map(move |state| {
            let recalls = self.clone();
            async move {
                match state? {
                    State::There(entry) => Ok(entry),
                    State::Pending { entry, .. } => recalls.looks.entry(&entry.name).await,
                }
            }
        });
        asked.buffered(ASKED_AT_ONCE).boxed()
    }

    fn asked(
        self,
        entries: Entries,
        turn: Turn,
    ) -> futures::stream::BoxStream<'static, Result<State, Error>> {
        let asked = entries.map(move |entry| {
            let recalls = self.clone();
            async move { recalls.ask(entry?).await }
        });
        match turn {
            Turn::Listed => asked.buffered(ASKED_AT_ONCE).boxed(),
            Turn::Ready => asked.buffer_unordered(ASKED_AT_ONCE).boxed(),
        }
    }

    /// Asks for an object to be restored, if it is cold.
    async fn ask(&self, entry: Entry) -> Result<State, Error> {
        // A name that was only given may be of anything; a file of this machine has no such tier.
        let is_open = entry.size.is_none() && entry.name.path().is_none();
        let entry = if is_open { self.looks.entry(&entry.name).await? } else { entry };
        if !entry.tier.is_cold() {
            return Ok(State::There(entry));
        }
        let store = self.looks.stores().of(&entry.name)?;
        match self.looks.patiently(|| store.recall(&entry)).await? {
            Recall::Pending { again, within } => Ok(State::Pending { entry, again, within }),
            Recall::Ready => Ok(State::There(self.looks.entry(&entry.name).await?)),
        }
    }

    /// Looks until the object can be read.
    async fn restored(&self, entry: Entry, again: Duration, limit: Limit) -> Result<Entry, Error> {
        let clock = self.looks.stores().costs().clock();
        let limit = limit.0.unwrap_or(Duration::MAX);
        let until = clock.now().saturating_add(limit);
        let left = || until.saturating_sub(clock.now());
        let mut pause = LOOK_FIRST.min(again);
        while !left().is_zero() {
            tokio::time::sleep(pause.min(left())).await;
            pause = pause.saturating_mul(2).min(again);
            let look = self.looks.entry(&entry.name);
            let look = tokio::time::timeout(left().max(LOOK_LAST_MAX), look).await;
            match look {
                Ok(Ok(found)) if !found.tier.is_cold() => return Ok(found),
                Ok(Ok(found)) if matches!(found.tier, nearfirst::Tier::Cold { .. }) => {
                    let reason = "in cold storage: the store gave up restoring it";
                    return Err(Error::refused(entry.name, reason));
                }
                Ok(Err(error)) if !error.is_transient() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        let limit = human::seconds(limit.as_secs_f64());
        let reason = format!("in cold storage: not restored yet, after {limit}");
        Err(Error::refused(entry.name, reason))
    }

    fn say(&self, entry: &Entry, within: Option<Duration>) {
        let name = shown(&entry.name);
        let until = self.wait.and_then(|limit| limit.0).map_or_else(String::new, |limit| {
            format!("; waiting for {} at most", human::seconds(limit.as_secs_f64()))
        });
        messages::note(format_args!("{name}: {}{until}", pending(entry, within)));
    }
}

impl State {
    fn refused(self) -> Result<Entry, Error> {
        match self {
            Self::There(entry) => Ok(entry),
            Self::Pending { entry, within, .. } => {
                let reason = format!("{}: try again then, or --wait", pending(&entry, within));
                Err(Error::refused(entry.name, reason))
            }
        }
    }
}

/// What is said of an object that is being restored.
fn pending(entry: &Entry, within: Option<Duration>) -> String {
    use nearfirst::Tier::{Cold, Online, Recalled, Recalling};
    let (class, done) = match &entry.tier {
        Recalling { class } => (&**class, "its restore is under way"),
        Cold { class } | Recalled { class, .. } => (&**class, "its restore was asked for"),
        Online => ("archived", "its restore was asked for"),
    };
    let within = within.map_or_else(
        || "takes as long as the store needs".to_owned(),
        |within| format!("takes {} at most", human::seconds(within.as_secs_f64())),
    );
    format!("in cold storage ({class}): {done} and {within}")
}
