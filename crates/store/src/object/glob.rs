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
    /// The same of links to folders.
    pub(super) links: Vec<String>,
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
            Some(Component::AnyFolders { .. }) => (String::new(), is_flat),
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
        let stays = matches!(component, Component::AnyFolders { .. });
        let below = if stays { listing.part } else { listing.part + 1 };
        // By `**` a link would be followed to what it lies in, without an end.
        let links = page.links.into_iter().filter(|_| !stays);
        for folder in page.folders.into_iter().chain(links) {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Keys that are listed one by one, as slowly as it can be, and what was asked for.
    #[derive(Debug, Default)]
    struct Keys {
        all: BTreeSet<String>,
        is_flat: bool,
        listed: std::sync::Mutex<Vec<String>>,
        open: Arc<AtomicUsize>,
        open_max: AtomicUsize,
    }

    /// Counts a listing while it lasts.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    impl Folders for Keys {
        fn is_flat(&self) -> bool {
            self.is_flat
        }

        fn pages(&self, prefix: &str, deep: bool) -> Pages {
            self.listed
                .lock()
                .unwrap()
                .push(format!("{prefix}{}", if deep { " deep" } else { "" }));
            let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
            self.open_max.fetch_max(open, Ordering::Relaxed);
            let counted = Counted(Arc::clone(&self.open));
            let mut pages = Vec::new();
            let mut folders = BTreeSet::new();
            for key in self.all.range(prefix.to_owned()..).take_while(|key| key.starts_with(prefix))
            {
                match key[prefix.len()..].find('/').filter(|_| !deep) {
                    None => pages.push(Page {
                        entries: vec![Entry::named(format!("x://y/{key}").into())],
                        ..Page::default()
                    }),
                    Some(slash) => {
                        let folder = key[..=prefix.len() + slash].to_owned();
                        if folders.insert(folder.clone()) {
                            pages.push(Page { folders: vec![folder], ..Page::default() });
                        }
                    }
                }
            }
            let pages = stream::iter(pages).then(move |page| {
                let _during = &counted;
                async {
                    tokio::task::yield_now().await;
                    Ok(page)
                }
            });
            pages.boxed()
        }

        fn find(&self, key: String) -> Answer<'static, Entry> {
            let name = Name::from(format!("x://y/{key}"));
            let is_there = self.all.contains(&key);
            let found =
                is_there.then(|| Entry::named(name.clone())).ok_or(Error::NotFound { name });
            futures::future::ready(found).boxed()
        }
    }

    /// What a pattern finds, sorted, as keys.
    fn found(keys: &Arc<Keys>, pattern: &str) -> Vec<String> {
        let name = Name::from(format!("x://y/{pattern}"));
        let (root, _) = Root::split(&name).unwrap();
        let folders: Arc<dyn Folders> = Arc::clone(keys) as _;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let all: Vec<_> = runtime.block_on(entries(folders, root, &name).collect());
        let key = |entry: Result<Entry, Error>| {
            entry.unwrap().name.to_string_lossy()["x://y/".len()..].to_owned()
        };
        let mut all: Vec<_> = all.into_iter().map(key).collect();
        all.sort();
        all
    }

    fn keys(is_flat: bool, keys: impl IntoIterator<Item = String>) -> Arc<Keys> {
        Arc::new(Keys { all: keys.into_iter().collect(), is_flat, ..Keys::default() })
    }

    #[test]
    fn only_what_a_pattern_leads_to_is_listed() {
        let all = ["a/x/1", "a/y/1", "b/x/1", "b/.x/1", "c"].map(str::to_owned);
        let listed = |is_flat, pattern| {
            let keys = keys(is_flat, all.clone());
            let found = found(&keys, pattern);
            let mut listed = std::mem::take(&mut *keys.listed.lock().unwrap());
            listed.sort();
            (found.join(" "), listed.join(","))
        };
        let pair = |found: &str, listed: &str| (found.to_owned(), listed.to_owned());
        assert_eq!(listed(true, "?/x*/?"), pair("a/x/1 b/x/1", ",a/x,a/x/,b/x,b/x/"));
        assert_eq!(listed(false, "?/x*/?"), pair("a/x/1 b/x/1", ",a/,a/x/,b/,b/x/"));
        assert_eq!(listed(true, "b/**/1"), pair("b/x/1", "b/ deep"));
        assert_eq!(listed(false, "b/**/1"), pair("b/x/1", "b/,b/x/"));
        assert_eq!(listed(true, "*/x/1"), pair("a/x/1 b/x/1", ""));
        assert_eq!(listed(true, "a//b"), pair("", ""));
    }

    #[test]
    fn a_wide_tree_is_listed_by_few_at_a_time_and_each_name_comes_once() {
        let wide = (0..3 * FOLDERS_MAX).flat_map(|n| [format!("{n}/p/1"), format!("{n}/q/2")]);
        let keys = keys(false, wide);
        let found = found(&keys, "*/*/*");
        assert_eq!(found.len(), 6 * FOLDERS_MAX);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
        // Those who wait for the folders that they found already are still open.
        assert!(keys.open_max.load(Ordering::Relaxed) <= LISTINGS_MAX + 2, "{keys:?}");
        assert_eq!(keys.open.load(Ordering::Relaxed), 0);
    }
}
