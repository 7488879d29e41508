//! What lies on cold tiers is asked to be restored, and waited for if that is wished.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fetch::scheduler::Limits;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use store::{Entries, Entry, Error, Name, Recall, Sequence, Stores, Tier};
use tokio::task::coop;

use crate::Looks;

/// Objects asked about, or asked to be restored, at a time, unless fewer requests may be made.
const ASKED_AT_ONCE: u32 = 32;

/// When a restore is looked at first, then after twice as long each time: some servers are done at
/// once, tapes take hours.
const LOOK_FIRST: Duration = Duration::from_secs(1);

/// The most between two looks at a restore that its store says no more of.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// How long the last look may take: it begins when the time to wait is over.
const LOOK_LAST_MAX: Duration = Duration::from_secs(10);

/// Has members on cold tiers restored, which their store charges for.
///
/// Nothing is asked for before the first member is, and then for all that are to be delivered: for
/// nothing that a set made of others leaves out. Who asks for names asks for none of that. Of a file of
/// this machine that is offline nothing is asked: whoever reads it has it recalled.
#[derive(Clone)]
pub struct Recalls {
    /// How long each is waited for, at most; meanwhile the others come, as far as the order allows.
    /// Zero: not at all, and it is an [`Error::Recalling`].
    pub wait: Duration,
    /// Told of each member that is waited for, by the error that it would be otherwise.
    pub told: Option<Told>,
    looks: Looks,
}

/// Told of a member that is being restored.
pub type Told = Arc<dyn Fn(&Error) + Send + Sync>;

impl fmt::Debug for Recalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recalls").field("wait", &self.wait).finish_non_exhaustive()
    }
}

/// How far an object is.
enum State {
    /// It can be read, as far as is known.
    There(Entry),
    /// It has been asked for; worth a look after this time.
    Pending { entry: Entry, again: Duration, within: Option<Duration> },
}

/// Objects, each with what its asker knows it by.
pub(crate) type Tagged<T, E = Entry> = BoxStream<'static, (T, Result<E, Error>)>;

impl Recalls {
    /// By stores, with no more attempts and requests at a time than `limits` allow, each waited for so long.
    pub fn new(stores: &Arc<Stores>, limits: &Limits, wait: Duration) -> Self {
        let window_max = limits.window_max.min(ASKED_AT_ONCE);
        let looks = Looks::new(stores, &Limits { window_max, ..*limits });
        Self { wait, told: None, looks }
    }

    /// The same objects; cold ones only once they can be read.
    pub(crate) fn restored<T: Send + 'static>(
        &self,
        entries: Tagged<T>,
        sequence: Sequence,
    ) -> Tagged<T> {
        let recalls = self.clone();
        let restored = self.asked(entries, sequence).map(move |(tag, state)| {
            let recalls = recalls.clone();
            async move { (tag, recalls.there(state).await) }
        });
        // Without a bound: one that is asked for after another is there would be hours later.
        at_once(restored, usize::MAX, sequence)
    }

    /// The same objects as they are once cold ones have been asked for, or are there if that is
    /// waited for: to be told about, not to be read.
    pub fn asked_for(&self, entries: Entries, sequence: Sequence) -> Entries {
        let entries = entries.map(|entry| ((), entry)).boxed();
        if !self.wait.is_zero() {
            return self.restored(entries, sequence).map(|((), entry)| entry).boxed();
        }
        let recalls = self.clone();
        let asked = self.asked(entries, sequence).map(move |((), state)| {
            let recalls = recalls.clone();
            async move {
                match state? {
                    State::There(entry) => Ok(entry),
                    State::Pending { entry, .. } => recalls.looks.entry(&entry.name).await,
                }
            }
        });
        at_once(asked, ASKED_AT_ONCE as usize, sequence)
    }

    fn asked<T: Send + 'static>(&self, entries: Tagged<T>, sequence: Sequence) -> Tagged<T, State> {
        let recalls = self.clone();
        // Of names that are known already no more are taken at a time than go on from here.
        let entries = entries.then(async |entry| {
            coop::consume_budget().await;
            entry
        });
        let asked = entries.map(move |(tag, entry)| {
            let recalls = recalls.clone();
            async move {
                let state = async { recalls.ask(entry?).await };
                (tag, state.await)
            }
        });
        at_once(asked, ASKED_AT_ONCE as usize, sequence)
    }

    /// The object of this state, once it can be read.
    async fn there(&self, state: Result<State, Error>) -> Result<Entry, Error> {
        match state? {
            State::There(entry) => Ok(entry),
            State::Pending { entry, within, .. } if self.wait.is_zero() => {
                Err(recalling(&entry, within, Duration::ZERO))
            }
            State::Pending { entry, again, within } => self.wait_for(entry, again, within).await,
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
            Recall::Ready => self.ready(&entry.name).await,
        }
    }

    /// What a store takes to be there. Some say so of a restore that is under way, too.
    async fn ready(&self, name: &Name) -> Result<State, Error> {
        let entry = self.looks.entry(name).await?;
        Ok(match entry.tier {
            Tier::Recalling { .. } => State::Pending { entry, again: LOOK_AGAIN, within: None },
            _ => State::There(entry),
        })
    }

    /// Looks until the object can be read.
    async fn wait_for(
        &self,
        entry: Entry,
        again: Duration,
        within: Option<Duration>,
    ) -> Result<Entry, Error> {
        if let Some(told) = &self.told {
            told(&recalling(&entry, within, Duration::ZERO));
        }
        let clock = self.looks.stores().costs().clock();
        let until = clock.now().saturating_add(self.wait);
        let left = || until.saturating_sub(clock.now());
        let mut pause = LOOK_FIRST.min(again);
        while !left().is_zero() {
            tokio::time::sleep(pause.min(left())).await;
            pause = pause.saturating_mul(2).min(again);
            let look = self.looks.entry(&entry.name);
            let look = tokio::time::timeout(left().max(LOOK_LAST_MAX), look).await;
            match look {
                Ok(Ok(found)) if !found.tier.is_cold() => return Ok(found),
                Ok(Ok(found)) if matches!(found.tier, Tier::Cold { .. }) => {
                    let reason = "in cold storage: the store gave up restoring it";
                    return Err(Error::refused(entry.name, reason));
                }
                Ok(Err(error)) if !error.is_transient() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Err(recalling(&entry, within, self.wait))
    }
}

/// What these give, of so many at a time.
fn at_once<F>(
    asked: impl Stream<Item = F> + Send + 'static,
    count: usize,
    sequence: Sequence,
) -> BoxStream<'static, F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match sequence {
        Sequence::InTurn => asked.buffered(count).boxed(),
        Sequence::AsKnown => asked.buffer_unordered(count).boxed(),
    }
}

fn recalling(entry: &Entry, within: Option<Duration>, waited: Duration) -> Error {
    let class = match &entry.tier {
        Tier::Cold { class } | Tier::Recalling { class } | Tier::Recalled { class, .. } => &**class,
        Tier::Online => "archived",
    };
    Error::Recalling { name: entry.name.clone(), class: class.to_owned(), within, waited }
}
