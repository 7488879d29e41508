//! A lazily evaluated spec: hands out names as they become known.

mod list;
mod resolve;

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::ready;
use futures::stream::{self, Stream, StreamExt as _};
use store::{Entries, Entry, Error, Name, Pattern, Query, Sequence, Stores};

use crate::spec::is_wild;
use crate::{Glob, Spec, SpecError};
use resolve::Resolver;

/// Specs that are evaluated side by side: a slow server does not keep the
/// names of others back, and a thousand operands do not open a thousand connections.
const SPECS_OPEN_MAX: usize = 16;
/// Patterns of one spec that are listed side by side: alternatives in braces,
/// names that a query returned and that a suffix makes patterns of.
const PATTERNS_OPEN_MAX: usize = 8;
/// Names of each that are known ahead of their turn.
const AHEAD_NAMES: usize = 64;

/// The names that satisfy specs, as they become known (the SETS paper, sections 3.3 and 3.6).
///
/// Nothing is evaluated before the first name is asked for, and little more
/// while nobody asks. A name without wildcards is passed on without asking
/// whether it exists. An error concerns what it names and ends nothing else; a
/// pattern that gives neither a name nor an error is [`Error::NotFound`] under
/// the spec's text, a query or program [`Error::NamesNothing`]. The same name
/// may come more than once. Dropping a cursor cancels what it waits for.
///
/// Polled within a tokio runtime.
pub struct Cursor {
    entries: Entries,
}

impl Cursor {
    /// Of one spec; relative names are taken to be below `base`, or left as
    /// they are if it is empty.
    ///
    /// Names come in the order of the spec: of its alternatives in braces, of the answers to its
    /// query, and of each as its store lists it.
    pub fn open(stores: Arc<Stores>, spec: Spec, base: &Path) -> Self {
        let ground = Arc::new(Ground { stores, base: base.to_owned(), sequence: Sequence::InTurn });
        Self { entries: ground.entries(spec) }
    }

    /// Of several specs at once: names come as they become known, in no order.
    pub fn of_all<S>(stores: Arc<Stores>, specs: S, base: &Path) -> Self
    where
        S: IntoIterator<Item = Spec>,
        S::IntoIter: Send + 'static,
    {
        let ground =
            Arc::new(Ground { stores, base: base.to_owned(), sequence: Sequence::AsKnown });
        let specs = stream::iter(specs);
        let entries = specs.flat_map_unordered(SPECS_OPEN_MAX, move |spec| ground.entries(spec));
        Self { entries: entries.boxed() }
    }
}

impl Stream for Cursor {
    type Item = Result<Entry, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.entries.poll_next_unpin(context)
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}

/// What specs are evaluated against.
struct Ground {
    stores: Arc<Stores>,
    base: PathBuf,
    sequence: Sequence,
}

impl Ground {
    /// The names of listings, in the sequence of this ground.
    fn joined(&self, each: impl Stream<Item = Entries> + Send + 'static) -> Entries {
        match self.sequence {
            Sequence::AsKnown => each.flatten_unordered(PATTERNS_OPEN_MAX).boxed(),
            Sequence::InTurn => {
                let begun = each.map(|entries| entries.ready_chunks(AHEAD_NAMES).into_future());
                let names = begun
                    .buffered(PATTERNS_OPEN_MAX)
                    .flat_map(|(first, rest)| stream::iter(first).chain(rest));
                names.flat_map(stream::iter).boxed()
            }
        }
    }

    fn entries(self: &Arc<Self>, spec: Spec) -> Entries {
        let text = match &spec {
            // It may have millions of names, and is never said to be empty.
            Spec::List(_) => Name::from(""),
            spec => Name::from(spec.to_text()).redacted(),
        };
        match spec {
            Spec::Glob(glob) => or_error(self.matches(glob), Error::NotFound { name: text }),
            Spec::Query { prefix, text: question, suffix } => {
                let ground = Arc::clone(self);
                let answers = self.each_name(prefix, move |prefix| {
                    let (query, resolver) = ground.question(prefix, question.clone());
                    ground.answers(&query, resolver, suffix.clone())
                });
                or_error(answers, Error::NamesNothing { name: text })
            }
            Spec::Program { folder, words, suffix } => {
                let ground = Arc::clone(self);
                let printed = self.each_name(folder, move |folder| {
                    let query = Query::Run { folder: ground.based(folder), words: words.clone() };
                    ground.answers(&query, Resolver::Whole, suffix.clone())
                });
                or_error(printed, Error::NamesNothing { name: text })
            }
            Spec::List(names) => {
                let ground = Arc::clone(self);
                let names = stream::iter(names);
                names.map(move |name| Ok(Entry::named(ground.based(name)))).boxed()
            }
            Spec::ListFile(source) => {
                let ground = Arc::clone(self);
                let names = list::names(Arc::clone(&self.stores), source, self.base.clone());
                let entry = move |name: Result<Name, Error>| Ok(Entry::named(ground.based(name?)));
                names.map(entry).boxed()
            }
        }
    }

    /// A name, below the base if it is a relative path.
    fn based(&self, name: Name) -> Name {
        match name.path() {
            Some(path) if !self.base.as_os_str().is_empty() => {
                Name::from(self.base.join(path).as_path())
            }
            _ => name,
        }
    }

    /// As [`Ground::based`], also of a file that is named by a URL of `SQLite`'s without slashes.
    fn based_file(&self, name: Name) -> Name {
        match name.as_bytes().strip_prefix(b"sqlite:") {
            Some(file) if !file.starts_with(b"/") => {
                let file = self.based(Name::new(file));
                Name::from([b"sqlite:", file.as_bytes()].concat())
            }
            _ => self.based(name),
        }
    }

    /// What a pattern with braces and `~` matches.
    fn matches(self: &Arc<Self>, glob: Glob) -> Entries {
        let ground = Arc::clone(self);
        let listed = move |pattern| match pattern {
            Ok(pattern) => ground.listed(pattern),
            Err(error) => one(Err(refused(error))),
        };
        self.joined(alternatives(glob).map(listed))
    }

    /// What a plain pattern matches; if it has no wildcards, the name it is.
    fn listed(&self, pattern: Vec<u8>) -> Entries {
        if !is_wild(&pattern) {
            let name = Name::new(&*Pattern::unquoted(&pattern));
            return one(Ok(Entry::named(self.based(name))));
        }
        let is_relative = Name::new(&*pattern).scheme().is_none() && !pattern.starts_with(b"/");
        let pattern = if is_relative && !self.base.as_os_str().is_empty() {
            let base = Pattern::quoted(self.base.join("").as_os_str().as_encoded_bytes());
            [base, pattern].concat()
        } else {
            pattern
        };
        self.stores.list(&Query::Glob(Name::from(pattern), self.sequence))
    }

    /// The question to a prefix as the store that answers it knows it, and what
    /// the names in its answer are relative to.
    fn question(&self, prefix: Name, text: String) -> (Query, Resolver) {
        let prefix = self.based_file(prefix);
        if let Some(store) = self.stores.bindings().store_of(&prefix) {
            return (Query::Ask { prefix: store, text }, Resolver::folder(&prefix));
        }
        let resolver = Resolver::of_prefix(&prefix, &self.base);
        (Query::Ask { prefix, text }, resolver)
    }

    /// The names that a query returns, resolved, each with the suffix.
    fn answers(self: &Arc<Self>, query: &Query, resolver: Resolver, suffix: Glob) -> Entries {
        let resolved = self.stores.list(query).map(move |entry| {
            let entry = entry?;
            let name = resolver.resolved(&entry.name)?;
            Ok(Entry { name, ..entry })
        });
        if suffix.text().is_empty() {
            return resolved.boxed();
        }
        let ground = Arc::clone(self);
        let with_suffix = move |entry: Result<Entry, Error>| match entry {
            Ok(entry) => ground.matches(Glob::literal(entry.name.as_bytes()).followed_by(&suffix)),
            Err(error) => one(Err(error)),
        };
        self.joined(resolved.map(with_suffix))
    }

    /// What `answer` gives for each name that a prefix stands for.
    fn each_name<A>(&self, prefix: Glob, answer: A) -> Entries
    where
        A: Fn(Name) -> Entries + Send + 'static,
    {
        let answers = move |prefix| match prefix {
            Ok(prefix) => answer(Name::new(&*Pattern::unquoted(Vec::as_slice(&prefix)))),
            Err(error) => one(Err(refused(error))),
        };
        self.joined(alternatives(prefix).map(answers))
    }
}

/// The plain patterns that braces and `~` stand for, found when first asked for.
fn alternatives(glob: Glob) -> impl Stream<Item = Result<Vec<u8>, SpecError>> + Send + Unpin {
    stream::once(ready(glob)).flat_map(|glob| stream::iter(glob.alternatives()))
}

/// With an error in place of nothing at all.
fn or_error(entries: Entries, error: Error) -> Entries {
    let mut found_any = false;
    let ended = stream::once(ready(None));
    let told = entries.map(Some).chain(ended).filter_map(move |item| {
        let told = match item {
            Some(item) => {
                found_any = true;
                Some(item)
            }
            None => (!found_any).then(|| Err(error.again())),
        };
        ready(told)
    });
    told.boxed()
}

fn one(item: Result<Entry, Error>) -> Entries {
    stream::once(ready(item)).boxed()
}

fn refused(error: SpecError) -> Error {
    Error::refused(error.spec.clone(), error.reason.clone()).caused_by(error)
}

#[cfg(test)]
mod tests;
