//! A pattern over keys: which prefixes to list, and which of what they hold matches.
//!
//! Folder by folder where the pattern says which, several at once; everything
//! below a prefix only for `**`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _, stream};

use super::place::Root;
use crate::pattern::Component;
use crate::{Answer, Entries, Entry, Error, Name, Pattern};

/// Listings that are under way at once: enough to hide the latency of a server, few enough not to be throttled.
const LISTINGS_MAX: usize = 8;

/// Folders that wait to be listed; beyond this, those who list their parents wait.
const FOLDERS_MAX: usize = 4096;

/// What a store of keys can list.
pub(super) trait Folders: Send + Sync + fmt::Debug + 'static {
    /// Whether everything below a prefix can be listed at once; if not, prefixes are
    /// folders, and end in a slash or are empty.
    fn is_flat(&self) -> bool;

    /// The objects whose keys begin with `prefix`, and if not `deep` those only
    /// that have no further slash, and for the others the prefixes up to there.
    fn pages(&self, prefix: &str, deep: bool) -> Pages;

    /// The object with this key, or [`Error::NotFound`].
    fn find(&self, key: String) -> Answer<'static, Entry>;
}

/// Pages of a listing, in the server's order; an error is the last.
pub(super) type Pages = BoxStream<'static, Result<Page, Error>>;

/// A part of a listing.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Objects.
    pub(super) entries: Vec<Entry>,
    /// Keys up to and with a slash.
    pub(super) folders: Vec<String>,
}

impl Page {
    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.folders.is_empty()
    }
}

/// The objects below `root` that match `pattern`, as pages come. A name without
/// wildcards is looked up as it is, also one that no pattern could say (`a//b`).
pub(super) fn entries(folders: Arc<dyn Folders>, root: Root, pattern: &Name) -> Entries {
    let text = pattern.as_bytes().get(root.text.len() + 1..).unwrap_or_default();
    if !Pattern::is_wild(text) {
        let found = stream::once(folders.find(plain(&Pattern::unquoted(text))));
        let is_there = |found: &_| !matches!(found, Err(Error::NotFound { .. }));
        return found.filter(move |found| futures::future::ready(is_there(found))).boxed();
    }
    let only_folders = "a pattern that ends in / finds folders, and here are only objects";
    let parsed = match Pattern::new(text) {
        Ok(parsed) if !parsed.only_folders() => parsed,
        Ok(_) => return failed(Error::refused(pattern.clone(), only_folders)),
        Err(error) => return failed(Error::refused(pattern.clone(), error.reason())),
    };
    let walk = Walk {
        root,
        pattern: parsed,
        folders,
        tasks: vec![Task { folder: String::new(), part: 0 }],
        parked: Vec::new(),
        steps: FuturesUnordered::new(),
        found: VecDeque::new(),
    };
    stream::unfold(walk, |mut walk| async move { Some((walk.next().await?, walk)) }).boxed()
}

/// A listing that is only this error.
fn failed(error: Error) -> Entries {
    stream::once(async { Err(error) }).boxed()
}

/// Bytes of a name that is UTF-8.
fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The walk of one pattern.
struct Walk {
    root: Root,
    pattern: Pattern,
    folders: Arc<dyn Folders>,
    tasks: Vec<Task>,
    /// Listings of parents, stopped while too many folders wait.
    parked: Vec<Listing>,
    steps: FuturesUnordered<BoxFuture<'static, Step>>,
    found: VecDeque<Result<Entry, Error>>,
}

/// What is still to be listed: what of `folder` matches from this component of the pattern on.
struct Task {
    folder: String,
    part: usize,
}

/// A listing under way.
struct Listing {
    pages: Pages,
    /// The prefix up to and with its last slash.
    folder: String,
    /// The component that those are held against that follow `folder`.
    part: usize,
}

/// What came of waiting for a listing.
enum Step {
    Page(Page, Listing),
    Ended,
    Failed(Error),
    Found(Box<Entry>),
}

impl Walk {
    async fn next(&mut self) -> Option<Result<Entry, Error>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            self.start();
            match self.steps.next().await? {
                Step::Ended => {}
                Step::Found(entry) => self.found.push_back(Ok(*entry)),
                Step::Failed(error) => self.found.push_back(Err(error)),
                Step::Page(page, listing) => self.take(page, listing),
            }
        }
    }

    /// Begins as many listings as may be under way.
    fn start(&mut self) {
        while self.steps.len() < LISTINGS_MAX {
            if let Some(task) = self.tasks.pop() {
                self.steps.push(self.begin(task));
            } else if let Some(listing) = self.parked.pop() {
                self.steps.push(step(listing));
            } else {
                return;
            }
        }
    }

    /// Goes down the literal components of a task to the first that must be listed.
    fn begin(&self, task: Task) -> BoxFuture<'static, Step> {
        let Task { mut folder, mut part } = task;
        let components = self.pattern.components();
        while let Some(Component::Literal(literal)) = components.get(part) {
            folder.push_str(&plain(literal));
            part += 1;
            if part < components.len() {
                folder.push('/');
            }
        }
        let is_flat = self.folders.is_flat();
        let (head, deep) = match components.get(part) {
            None => return self.look(folder),
            Some(Component::Matching { head, .. }) if is_flat => (plain(head), false),
            Some(Component::AnyFolders) => (String::new(), is_flat),
            Some(_) => (String::new(), false),
        };
        let pages = self.folders.pages(&format!("{folder}{head}"), deep);
        step(Listing { pages, folder, part })
    }

    /// Looks for the one object that can match; that its name was put together
    /// does not say that it is there.
    fn look(&self, key: String) -> BoxFuture<'static, Step> {
        let found = self.folders.find(key).map(|found| match found {
            Ok(entry) => Step::Found(Box::new(entry)),
            Err(Error::NotFound { .. }) => Step::Ended,
            Err(error) => Step::Failed(error),
        });
        found.boxed()
    }

    /// Keeps what matches of a page, and goes on listing.
    fn take(&mut self, page: Page, listing: Listing) {
        let is_one = |entry: &Entry| self.pattern.matches(self.root.key(&entry.name).as_bytes());
        self.found.extend(page.entries.into_iter().filter(is_one).map(Ok));
        let components = self.pattern.components();
        let component = &components[listing.part];
        let stays = matches!(component, Component::AnyFolders);
        let below = if stays { listing.part } else { listing.part + 1 };
        for folder in page.folders {
            let name = folder.strip_prefix(listing.folder.as_str());
            let name = name.and_then(|name| name.strip_suffix('/'));
            let is_on_the_way = name.is_some_and(|name| component.matches(name.as_bytes()));
            if below < components.len() && is_on_the_way {
                self.tasks.push(Task { folder, part: below });
            }
        }
        if self.tasks.len() > FOLDERS_MAX {
            self.parked.push(listing);
        } else {
            self.steps.push(step(listing));
        }
    }
}

/// Waits for the next page of a listing.
fn step(listing: Listing) -> BoxFuture<'static, Step> {
    let Listing { pages, folder, part } = listing;
    let next = pages.into_future().map(move |(page, pages)| match page {
        None => Step::Ended,
        Some(Err(error)) => Step::Failed(error),
        Some(Ok(page)) => Step::Page(page, Listing { pages, folder, part }),
    });
    next.boxed()
}
