//! A pattern over keys: which prefixes to list, and which of what they hold matches.
//!
//! Folder by folder where the pattern says which, several at once; everything
//! below a prefix only for `**`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures::stream::{BoxStream, FuturesUnordered, StreamFuture};
use futures::{FutureExt as _, StreamExt as _, stream};
use globset::{GlobBuilder, GlobMatcher};

use super::place::Root;
use crate::{Answer, Entries, Entry, Error, Name};

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

/// What one component of a key must be.
#[derive(Debug)]
enum Part {
    /// This text.
    Literal(String),
    /// A name that matches and begins with `head`; one with a leading dot only if `dot`.
    Matching { matcher: GlobMatcher, head: String, dot: bool },
    /// Any folders, also none, that have no leading dot.
    AnyFolders,
}

/// A pattern over the keys of a bucket.
#[derive(Debug)]
pub(super) struct Glob {
    root: Root,
    parts: Vec<Part>,
}

/// A listing under way, and what its folders and objects are held against.
struct Open {
    pages: Pages,
    /// The part that the component after the prefix is held against.
    part: usize,
    /// The prefix up to and with its last slash.
    folder: String,
}

/// What is still to be listed: `folder` and what matches `parts[part..]` below it.
struct Task {
    folder: String,
    part: usize,
}

impl Glob {
    /// The objects that match, as pages come; without a wildcard, the one object of that name.
    pub(super) fn entries(folders: Arc<dyn Folders>, root: Root, pattern: &Name) -> Entries {
        let glob = match Self::parse(root, pattern) {
            Ok(glob) => glob,
            Err(error) => return stream::once(async { Err(error) }).boxed(),
        };
        let walk = Walk {
            glob: Arc::new(glob),
            folders,
            tasks: vec![Task { folder: String::new(), part: 0 }],
            parked: Vec::new(),
            open: FuturesUnordered::new(),
            found: VecDeque::new(),
        };
        stream::unfold(walk, |mut walk| async move { Some((walk.next().await?, walk)) }).boxed()
    }

    fn parse(root: Root, pattern: &Name) -> Result<Self, Error> {
        let bad = |reason: &str| Error::refused(pattern.clone(), reason);
        let text =
            std::str::from_utf8(pattern.as_bytes()).map_err(|_| bad("a pattern must be UTF-8"))?;
        let text = text.get(root.text.len() + 1..).unwrap_or_default();
        let mut parts: Vec<Part> = Vec::new();
        for component in text.split('/') {
            let part = match component {
                "**" if matches!(parts.last(), Some(Part::AnyFolders)) => continue,
                "**" => Part::AnyFolders,
                _ if is_pattern(component) => matching(component).map_err(|reason| bad(&reason))?,
                _ => Part::Literal(unescaped(component)),
            };
            parts.push(part);
        }
        if matches!(parts.last(), Some(Part::AnyFolders)) {
            parts.push(matching("*").map_err(|reason| bad(&reason))?);
        }
        Ok(Self { root, parts })
    }
}

impl Part {
    fn is_match(&self, component: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == component,
            Self::Matching { matcher, dot, .. } => {
                !component.is_empty()
                    && (*dot || !component.starts_with('.'))
                    && matcher.is_match(component)
            }
            Self::AnyFolders => !component.starts_with('.'),
        }
    }
}

/// Whether a key, or the rest of one, matches the parts of a pattern, or the rest of them.
fn matches(parts: &[Part], key: &str) -> bool {
    let (component, below) = match key.split_once('/') {
        Some((component, below)) => (component, Some(below)),
        None => (key, None),
    };
    match (parts, below) {
        ([Part::AnyFolders, rest @ ..], _) if matches(rest, key) => true,
        ([folders @ Part::AnyFolders, ..], Some(below)) => {
            folders.is_match(component) && matches(parts, below)
        }
        ([part @ (Part::Literal(_) | Part::Matching { .. })], None) => part.is_match(component),
        ([part, rest @ ..], Some(below)) => part.is_match(component) && matches(rest, below),
        _ => false,
    }
}

/// The walk of one pattern.
struct Walk {
    glob: Arc<Glob>,
    folders: Arc<dyn Folders>,
    tasks: Vec<Task>,
    /// Listings of parents, stopped while too many folders wait.
    parked: Vec<Open>,
    open: FuturesUnordered<futures::future::BoxFuture<'static, Step>>,
    found: VecDeque<Result<Entry, Error>>,
}

/// What came of waiting for a listing.
enum Step {
    Page(Page, Open),
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
            match self.open.next().await? {
                Step::Ended => {}
                Step::Found(entry) => self.found.push_back(Ok(*entry)),
                Step::Failed(error) => self.found.push_back(Err(error)),
                Step::Page(page, open) => self.take(page, open),
            }
        }
    }

    /// Begins as many listings as may be under way.
    fn start(&mut self) {
        while self.open.len() < LISTINGS_MAX {
            if let Some(task) = self.tasks.pop() {
                self.begin(task);
            } else if let Some(open) = self.parked.pop() {
                self.open.push(step(open));
            } else {
                return;
            }
        }
    }

    /// Goes down the literal components of a task to the first that must be listed.
    fn begin(&mut self, task: Task) {
        let Task { mut folder, mut part } = task;
        let is_whole =
            part == 0 && self.glob.parts.iter().all(|part| matches!(part, Part::Literal(_)));
        while let Some(Part::Literal(literal)) = self.glob.parts.get(part) {
            folder.push_str(literal);
            part += 1;
            if part < self.glob.parts.len() {
                folder.push('/');
            }
        }
        let (prefix, deep) = match self.glob.parts.get(part) {
            // All of it is known: a name that is missing is an error only if
            // it was given, not if it was put together.
            None => {
                let found = self.folders.find(folder).map(move |found| match found {
                    Ok(entry) => Step::Found(Box::new(entry)),
                    Err(Error::NotFound { .. }) if !is_whole => Step::Ended,
                    Err(error) => Step::Failed(error),
                });
                self.open.push(found.boxed());
                return;
            }
            Some(Part::Matching { head, .. }) if self.folders.is_flat() => {
                (format!("{folder}{head}"), false)
            }
            Some(Part::AnyFolders) => (folder.clone(), self.folders.is_flat()),
            Some(_) => (folder.clone(), false),
        };
        let pages = self.folders.pages(&prefix, deep);
        self.open.push(step(Open { pages, part, folder }));
    }

    /// Keeps what matches of a page, and goes on listing.
    fn take(&mut self, page: Page, open: Open) {
        let glob = Arc::clone(&self.glob);
        let is_one = |entry: &Entry| matches(&glob.parts, glob.root.key(&entry.name));
        self.found.extend(page.entries.into_iter().filter(is_one).map(Ok));
        let below = match glob.parts[open.part] {
            Part::AnyFolders => open.part,
            _ => open.part + 1,
        };
        for folder in page.folders {
            let name =
                folder.strip_prefix(open.folder.as_str()).and_then(|name| name.strip_suffix('/'));
            let is_on_the_way = name.is_some_and(|name| glob.parts[open.part].is_match(name));
            if below < glob.parts.len() && is_on_the_way {
                self.tasks.push(Task { folder, part: below });
            }
        }
        if self.tasks.len() > FOLDERS_MAX {
            self.parked.push(open);
        } else {
            self.open.push(step(open));
        }
    }
}

/// Waits for the next page of a listing.
fn step(open: Open) -> futures::future::BoxFuture<'static, Step> {
    let Open { pages, part, folder } = open;
    let next: StreamFuture<Pages> = pages.into_future();
    next.map(move |(page, pages)| match page {
        None => Step::Ended,
        Some(Err(error)) => Step::Failed(error),
        Some(Ok(page)) => Step::Page(page, Open { pages, part, folder }),
    })
    .boxed()
}

/// Whether something in it is a wildcard.
fn is_pattern(text: &str) -> bool {
    wildcard_at(text).is_some()
}

/// Where the first wildcard is.
fn wildcard_at(text: &str) -> Option<usize> {
    let mut quoted = false;
    text.bytes().position(|byte| {
        let wild = !quoted && b"*?[".contains(&byte);
        quoted = !quoted && byte == b'\\';
        wild
    })
}

/// The text that an escaped one stands for.
fn unescaped(text: &str) -> String {
    let mut quoted = false;
    text.chars()
        .filter(|&character| {
            quoted = !quoted && character == '\\';
            !quoted
        })
        .collect()
}

/// Reads a component with a wildcard.
fn matching(component: &str) -> Result<Part, String> {
    let mut pattern = String::with_capacity(component.len());
    let mut quoted = false;
    for character in component.chars() {
        // Braces that are left stand for themselves.
        if !quoted && matches!(character, '{' | '}') {
            pattern.push('\\');
        }
        quoted = !quoted && character == '\\';
        pattern.push(character);
    }
    let glob = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
    let matcher = glob.map_err(|error| error.kind().to_string())?.compile_matcher();
    let head = unescaped(&component[..wildcard_at(component).unwrap_or(component.len())]);
    Ok(Part::Matching { matcher, dot: head.starts_with('.'), head })
}
