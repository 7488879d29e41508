//! A store that fails as it is told to.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures::{FutureExt as _, StreamExt as _, future, stream};
use sled::{Device, Extent};

use super::Call;
use crate::sync::lock;
use crate::{
    Answer, ByteStream, Checksum, Entries, Entry, Error, Name, PartLengths, Query, Reading, Recall,
    Store, Version,
};

/// What happens instead of, or to, an answer. What is to come after more than
/// there is comes at the end.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Fault {
    /// The answer is this error, of the name that was asked for.
    Fails(fn(Name) -> Error),
    /// There is no answer, ever.
    Hangs,
    /// After so many bytes of a read, or names of a listing, comes this error.
    FailsAfter(u64, fn(Name) -> Error),
    /// After so many bytes of a read, or names of a listing, nothing comes any more.
    HangsAfter(u64),
    /// After so many bytes of a read, or names of a listing, it ends as if
    /// that were all: what no store may do, and a broken one does.
    EndsAfter(u64),
    /// The entry of a stat or a read says this size, and not the true one.
    SaysSize(u64),
    /// The entry of a stat or a read says another version.
    SaysOtherVersion,
}

/// A store that answers as another does, but for the calls it is told to spoil.
#[derive(Debug, Clone)]
pub struct Faulty(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    script: Mutex<Script>,
}

#[derive(Debug, Default)]
struct Script {
    calls: HashMap<Call, u64>,
    at: HashMap<(Call, u64), Fault>,
    every: HashMap<Call, (u64, Fault)>,
}

impl Script {
    fn next(&mut self, call: Call) -> Option<Fault> {
        let number = self.calls.entry(call).or_default();
        *number += 1;
        let often = self.every.get(&call).filter(|(n, _)| number.is_multiple_of(*n));
        self.at.get(&(call, *number)).copied().or(often.map(|&(_, fault)| fault))
    }
}

impl Faulty {
    /// Around a store, with no fault yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(Arc::new(Inner { store, script: Mutex::default() }))
    }

    /// Spoils the `number`-th call of this kind, from 1.
    pub fn at(&self, call: Call, number: u64, fault: Fault) {
        self.script(|script| script.at.insert((call, number), fault));
    }

    /// Spoils every `number`-th call of this kind, where [`Faulty::at`] does not.
    ///
    /// # Panics
    /// If `number` is 0.
    pub fn every(&self, call: Call, number: u64, fault: Fault) {
        assert!(number > 0, "every 0th call is none");
        self.script(|script| script.every.insert(call, (number, fault)));
    }

    fn script<T>(&self, work: impl FnOnce(&mut Script) -> T) -> T {
        work(&mut lock(&self.0.script))
    }

    /// The answer of `call`, if this call is not to have one of the store's.
    fn spoiled<T: Send + 'static>(&self, call: Call, name: &Name) -> Spoiled<T> {
        match self.script(|script| script.next(call)) {
            Some(Fault::Fails(error)) => {
                Spoiled::Whole(future::ready(Err(error(name.clone()))).boxed())
            }
            Some(Fault::Hangs) => Spoiled::Whole(future::pending().boxed()),
            fault => Spoiled::Partly(fault),
        }
    }
}

/// How a call is spoiled.
enum Spoiled<T> {
    /// It is not passed on.
    Whole(Answer<'static, T>),
    /// What comes back is changed.
    Partly(Option<Fault>),
}

#[deny(clippy::missing_trait_methods)]
impl Store for Faulty {
    fn device(&self, name: &Name) -> Device {
        self.0.store.device(name)
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        match self.spoiled(Call::Stat, name) {
            Spoiled::Whole(answer) => answer,
            Spoiled::Partly(fault) => {
                let answer = self.0.store.stat(name);
                answer.map(move |entry| entry.map(|entry| misdescribed(entry, fault))).boxed()
            }
        }
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let fault = match self.spoiled(Call::Read, &entry.name) {
            Spoiled::Whole(answer) => return answer,
            Spoiled::Partly(fault) => fault,
        };
        let name = entry.name.clone();
        let spoil = move |reading: Reading| Reading {
            entry: misdescribed(reading.entry, fault),
            bytes: broken_bytes(reading.bytes, name, fault),
            ..reading
        };
        self.0.store.read(entry, range).map(|reading| reading.map(spoil)).boxed()
    }

    fn list(&self, query: &Query) -> Entries {
        let name = query.prefix();
        match self.spoiled::<Entry>(Call::List, &name) {
            Spoiled::Whole(answer) => answer.into_stream().boxed(),
            Spoiled::Partly(fault) => broken_names(self.0.store.list(query), name, fault),
        }
    }

    fn locate(&self, entry: &Entry) -> Answer<'_, Vec<Extent>> {
        self.0.store.locate(entry)
    }

    fn checksum(&self, entry: &Entry) -> Answer<'_, Option<Checksum>> {
        self.0.store.checksum(entry)
    }

    fn part_lengths(&self, entry: &Entry) -> PartLengths {
        self.0.store.part_lengths(entry)
    }

    fn recall(&self, entry: &Entry) -> Answer<'_, Recall> {
        self.0.store.recall(entry)
    }

    fn file(&self, _name: &Name) -> Option<PathBuf> {
        None
    }
}

fn misdescribed(entry: Entry, fault: Option<Fault>) -> Entry {
    match fault {
        Some(Fault::SaysSize(size)) => Entry { size: Some(size), ..entry },
        Some(Fault::SaysOtherVersion) => {
            let version = entry.version.as_ref().map_or("", Version::as_str);
            Entry { version: Some(Version::new(format!("another than {version}"))), ..entry }
        }
        _ => entry,
    }
}

/// How much comes before the fault, and what comes then: an error, nothing ever, the end.
fn cut(fault: Option<Fault>, name: Name) -> Option<(u64, Cut)> {
    match fault? {
        Fault::FailsAfter(after, error) => Some((after, Cut::Fails(error, name))),
        Fault::HangsAfter(after) => Some((after, Cut::Hangs)),
        Fault::EndsAfter(after) => Some((after, Cut::Ends)),
        _ => None,
    }
}

enum Cut {
    Fails(fn(Name) -> Error, Name),
    Hangs,
    Ends,
}

impl Cut {
    fn stream<T: Send + 'static>(self) -> stream::BoxStream<'static, Result<T, Error>> {
        match self {
            Self::Fails(error, name) => stream::once(async move { Err(error(name)) }).boxed(),
            Self::Hangs => stream::pending().boxed(),
            Self::Ends => stream::empty().boxed(),
        }
    }
}

fn broken_bytes(bytes: ByteStream, name: Name, fault: Option<Fault>) -> ByteStream {
    let Some((after, cut)) = cut(fault, name) else { return bytes };
    let kept = bytes.scan(after, |left, piece| {
        let is_over = *left == 0;
        let piece = piece.map(|mut piece| {
            piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= piece.len() as u64;
            piece
        });
        future::ready((!is_over).then_some(piece))
    });
    kept.chain(cut.stream()).boxed()
}

fn broken_names(names: Entries, name: Name, fault: Option<Fault>) -> Entries {
    let Some((after, cut)) = cut(fault, name) else { return names };
    let after = usize::try_from(after).unwrap_or(usize::MAX);
    names.take(after).chain(cut.stream()).boxed()
}
