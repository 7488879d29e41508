//! A pattern over keys: which prefixes to list, and which of what they hold matches.
//!
//! Folder by folder where the pattern says which, several at once; everything
//! below a prefix only for `**`. Where names are to come in turn, that is the order of their keys,
//! whichever listing is answered first: what is known ahead of its turn waits, within a limit.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _, stream};

use super::place::Root;
use crate::patience::patiently;
use crate::pattern::Component;
use crate::{Answer, Entries, Entry, Error, Name, Pattern, Sequence};

/// Listings that are under way at once: enough to hide the latency of a server, few enough not to be throttled.
const LISTINGS_MAX: usize = 8;

/// Names and folders that are known ahead of their turn, some MiB; beyond this only what comes next is listed.
const AHEAD_MAX: usize = 1 << 14;

/// Names of a folder that are sorted together: its server gives them in an order of its own.
const BATCH: usize = 4096;

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
    /// What has no content to read: pipes, devices, sockets, and links to such.
    pub(super) others: Vec<Entry>,
    /// What cannot be asked for, since its name is no text; of folders up to and with a slash.
    pub(super) unnamed: Vec<String>,
    /// The same of links to folders.
    pub(super) unnamed_links: Vec<String>,
}

impl Page {
    fn len(&self) -> usize {
        let objects = self.entries.len() + self.others.len();
        let folders = self.folders.len() + self.links.len();
        objects + folders + self.unnamed.len() + self.unnamed_links.len()
    }

    fn add(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.folders.extend(other.folders);
        self.links.extend(other.links);
        self.others.extend(other.others);
        self.unnamed.extend(other.unnamed);
        self.unnamed_links.extend(other.unnamed_links);
    }
}

/// The objects below `root` that match `pattern`, as pages come; in turn, in the order of their keys as
/// far as the server's pages, or batches of a folder's names, follow each other in it. A name without
/// wildcards is looked up as it is, also one that no pattern could say (`a//b`).
pub(super) fn entries(
    folders: Arc<dyn Folders>,
    root: Root,
    pattern: &Name,
    sequence: Sequence,
) -> Entries {
    let text = pattern.as_bytes().get(root.text.len() + 1..).unwrap_or_default();
    if !Pattern::is_wild(text) {
        let found = stream::once(found(folders, plain(&Pattern::unquoted(text))));
        let is_there = |found: &_| !matches!(found, Err(Error::NotFound { .. }));
        return found.filter(move |found| futures::future::ready(is_there(found))).boxed();
    }
    let only_folders = "a pattern that ends in / finds folders, and here are only objects";
    // In folders `a//b` is `a/b`; a key it is apart.
    let read = if folders.is_flat() { Pattern::of_keys(text) } else { Pattern::new(text) };
    let parsed = match read {
        Ok(parsed) if !parsed.only_folders() => parsed,
        Ok(_) => return failed(Error::refused(pattern.clone(), only_folders)),
        Err(error) => return failed(Error::refused(pattern.clone(), error.reason())),
    };
    let begin = if folders.is_flat() && parsed.is_rooted() { "/" } else { "" };
    let whole = Source::Folder(Task { folder: begin.to_owned(), part: 0 });
    let walk = Walk {
        root,
        pattern: parsed,
        folders,
        sequence,
        ready: VecDeque::new(),
        stretches: [Stretch::before(whole, VecDeque::new()), Stretch::default()].into(),
        steps: FuturesUnordered::new(),
        begun: 0,
        known: 0,
    };
    stream::unfold(walk, |mut walk| async move { Some((walk.next().await?, walk)) }).boxed()
}

/// What is under a key.
async fn found(folders: Arc<dyn Folders>, key: String) -> Result<Entry, Error> {
    patiently(|| folders.find(key.clone())).await
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
    sequence: Sequence,
    /// Names that need not wait for others.
    ready: VecDeque<Result<Entry, Error>>,
    /// In the order of their names. The last has no source.
    stretches: VecDeque<Stretch>,
    steps: FuturesUnordered<BoxFuture<'static, (u64, Step)>>,
    /// Steps so far.
    begun: u64,
    /// Names that are ready, and those in all stretches.
    known: usize,
}

/// Names that are known, and where those come from that follow them, up to the next stretch.
#[derive(Default)]
struct Stretch {
    found: VecDeque<Result<Entry, Error>>,
    /// What waits to be listed.
    source: Option<Source>,
    /// The step that is under way instead.
    step: Option<u64>,
}

enum Source {
    Folder(Task),
    Listing(Listing),
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

/// What came of waiting for a source.
enum Step {
    Page(Page, Listing),
    Ended,
    Failed(Error),
    Found(Box<Entry>),
}

/// What a page has.
enum Item {
    Name(Entry),
    Unnamed(String),
    Folder(Task),
}

impl Stretch {
    /// Names, and then what `source` will give.
    fn before(source: Source, found: VecDeque<Result<Entry, Error>>) -> Self {
        Self { found, source: Some(source), step: None }
    }

    /// What waits to be listed here, for the step of this number.
    fn begin(&mut self, number: u64) -> Option<Source> {
        let source = self.source.take()?;
        self.step = Some(number);
        Some(source)
    }
}

impl Walk {
    async fn next(&mut self) -> Option<Result<Entry, Error>> {
        loop {
            let found = match self.sequence {
                Sequence::InTurn => &mut self.stretches.front_mut()?.found,
                Sequence::AsKnown => &mut self.ready,
            };
            if let Some(found) = found.pop_front() {
                self.known -= 1;
                return Some(found);
            }
            self.start();
            let (number, step) = self.steps.next().await?;
            self.take(number, step);
        }
    }

    /// Begins as many steps as may be under way, those first whose names come first.
    fn start(&mut self) {
        while self.steps.len() < LISTINGS_MAX {
            let is_full = self.known + self.stretches.len() > AHEAD_MAX;
            let within = if is_full { 1 } else { self.stretches.len() };
            let number = self.begun;
            let begin = |stretch: &mut Stretch| stretch.begin(number);
            let Some(source) = self.stretches.iter_mut().take(within).find_map(begin) else {
                return;
            };
            self.begun += 1;
            let step = self.step(source).map(move |step| (number, step));
            self.steps.push(step.boxed());
        }
    }

    fn step(&self, source: Source) -> BoxFuture<'static, Step> {
        // Where keys come in their order, or none matters, the first page is enough to go on with.
        let is_sorted = self.folders.is_flat() || self.sequence == Sequence::AsKnown;
        let names_min = if is_sorted { 1 } else { BATCH };
        match source {
            Source::Folder(task) => self.begin(task, names_min),
            Source::Listing(listing) => listing.next(names_min).boxed(),
        }
    }

    /// Goes down the literal components of a task to the first that must be listed.
    fn begin(&self, task: Task, names_min: usize) -> BoxFuture<'static, Step> {
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
        Listing { pages, folder, part }.next(names_min).boxed()
    }

    /// Looks for the one object that can match; that its name was put together
    /// does not say that it is there.
    fn look(&self, key: String) -> BoxFuture<'static, Step> {
        let found = found(Arc::clone(&self.folders), key).map(|found| match found {
            Ok(entry) => Step::Found(Box::new(entry)),
            Err(Error::NotFound { .. }) => Step::Ended,
            Err(error) => Step::Failed(error),
        });
        found.boxed()
    }

    /// Puts what came of a step where its stretch was.
    fn take(&mut self, number: u64, step: Step) {
        let at = self.stretches.iter().position(|stretch| stretch.step == Some(number));
        let at = at.expect("a step is that of a stretch");
        let Stretch { mut found, .. } = self.stretches.remove(at).expect("it is there");
        let known = found.len();
        match step {
            Step::Ended => {}
            Step::Found(entry) => found.push_back(Ok(*entry)),
            Step::Failed(error) => found.push_back(Err(error)),
            Step::Page(page, listing) => return self.take_page(at, found, page, listing),
        }
        self.known += found.len() - known;
        self.keep_none_back(&mut found);
        let next = &mut self.stretches[at].found;
        found.append(next);
        *next = found;
    }

    /// Puts a page there, and what of its listing is still to come, behind the names before it.
    fn take_page(
        &mut self,
        at: usize,
        mut found: VecDeque<Result<Entry, Error>>,
        page: Page,
        listing: Listing,
    ) {
        let mut stretches = Vec::new();
        for item in self.matching(page, &listing) {
            match item {
                Item::Name(entry) => {
                    self.known += 1;
                    found.push_back(Ok(entry));
                }
                Item::Unnamed(key) => {
                    self.known += 1;
                    let reason = "its name is no UTF-8, as URLs are: name it by its path";
                    found.push_back(Err(Error::refused(self.root.name(&key), reason)));
                }
                Item::Folder(task) => {
                    self.keep_none_back(&mut found);
                    let before = std::mem::take(&mut found);
                    stretches.push(Stretch::before(Source::Folder(task), before));
                }
            }
        }
        self.keep_none_back(&mut found);
        stretches.push(Stretch::before(Source::Listing(listing), found));
        // Near the front, where one by one is cheap.
        for stretch in stretches.into_iter().rev() {
            self.stretches.insert(at, stretch);
        }
    }

    /// Where nothing is to come in turn, what was found is ready.
    fn keep_none_back(&mut self, found: &mut VecDeque<Result<Entry, Error>>) {
        if self.sequence == Sequence::AsKnown {
            self.ready.append(found);
        }
    }

    /// What of a page is a match, or on the way to some, in order.
    fn matching(&self, page: Page, listing: &Listing) -> Vec<Item> {
        let is_one = |entry: &Entry| self.pattern.matches(self.root.key(&entry.name).as_bytes());
        // Nobody named them who asks for all below a folder.
        let are_named = !self.pattern.is_all_below();
        let others = page.others.into_iter().filter(|_| are_named);
        let names = page.entries.into_iter().chain(others).filter(is_one).map(Item::Name);
        let components = self.pattern.components();
        let component = &components[listing.part];
        let stays = matches!(component, Component::AnyFolders { .. });
        let part = if stays { listing.part } else { listing.part + 1 };
        let is_on_the_way = |folder: &String| {
            let name = folder.strip_prefix(listing.folder.as_str());
            let name = name.and_then(|name| name.strip_suffix('/'));
            part < components.len() && name.is_some_and(|name| component.matches(name.as_bytes()))
        };
        let is_unnamed = |key: &String| is_on_the_way(key) || self.pattern.matches(key.as_bytes());
        // By `**` a link would be followed to what it lies in, without an end.
        let links = page.links.into_iter().filter(|_| !stays);
        let unnamed_links = page.unnamed_links.into_iter().filter(|_| !stays);
        let unnamed = page.unnamed.into_iter().chain(unnamed_links);
        let unnamed = unnamed.filter(is_unnamed).map(Item::Unnamed);
        let folders = page.folders.into_iter().chain(links).filter(is_on_the_way);
        let folders = folders.map(|folder| Item::Folder(Task { folder, part }));
        let mut items: Vec<Item> = names.chain(unnamed).chain(folders).collect();
        items.sort_by(|one, other| self.key(one).cmp(self.key(other)));
        items
    }

    fn key<'a>(&self, item: &'a Item) -> &'a str {
        match item {
            Item::Name(entry) => self.root.key(&entry.name),
            Item::Unnamed(key) => key,
            Item::Folder(task) => &task.folder,
        }
    }
}

impl Listing {
    /// Waits for as many names at least, unless it ends before.
    async fn next(mut self, names_min: usize) -> Step {
        let mut names = Page::default();
        while names.len() < names_min {
            match self.pages.next().await {
                Some(Ok(page)) => names.add(page),
                None if names.len() == 0 => return Step::Ended,
                Some(Err(error)) if names.len() == 0 => return Step::Failed(error),
                end => {
                    self.pages = stream::iter(end).boxed();
                    break;
                }
            }
        }
        Step::Page(names, self)
    }
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
        /// A prefix that is never answered for.
        silent: Option<&'static str>,
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
            // Those that come first take longest, and a server of folders has them in no order.
            let waits = 8_usize.saturating_sub(self.listed.lock().unwrap().len()) * 4;
            if !self.is_flat {
                pages.reverse();
            }
            let is_silent = self.silent == Some(prefix);
            let pages = stream::iter(pages).then(move |page| {
                let _during = &counted;
                async move {
                    if is_silent {
                        futures::future::pending::<()>().await;
                    }
                    for _ in 0..=waits {
                        tokio::task::yield_now().await;
                    }
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

    fn listing(keys: &Arc<Keys>, pattern: &str, sequence: Sequence) -> Entries {
        let name = Name::from(format!("x://y/{pattern}"));
        let (root, _) = Root::split(&name).unwrap();
        entries(Arc::clone(keys) as _, root, &name, sequence)
    }

    /// What a pattern finds, as keys.
    fn found(keys: &Arc<Keys>, pattern: &str) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let all: Vec<_> = runtime.block_on(listing(keys, pattern, Sequence::InTurn).collect());
        let key = |entry: Result<Entry, Error>| {
            entry.unwrap().name.to_string_lossy()["x://y/".len()..].to_owned()
        };
        all.into_iter().map(key).collect()
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
    fn names_come_in_the_order_of_their_keys_whichever_listing_is_quick() {
        let all = ["a/x/1", "a/x/2", "a/x.y/1", "a-/x/1", "a0/x", "b/x/3", "c/x/1", "z"];
        for is_flat in [true, false] {
            let keys = keys(is_flat, all.map(str::to_owned));
            for (pattern, expected) in [
                ("*/*/?", &["a-/x/1", "a/x.y/1", "a/x/1", "a/x/2", "b/x/3", "c/x/1"][..]),
                ("*/x/1", &["a-/x/1", "a/x/1", "c/x/1"]),
                ("**/1", &["a-/x/1", "a/x.y/1", "a/x/1", "c/x/1"]),
                ("a*/**", &["a-/x/1", "a/x.y/1", "a/x/1", "a/x/2", "a0/x"]),
                ("*/**", &all_in_order(all)[..7]),
            ] {
                keys.listed.lock().unwrap().clear();
                assert_eq!(found(&keys, pattern), expected, "{pattern} {is_flat}");
            }
        }
    }

    #[test]
    fn keys_with_empty_components_are_found_by_such_patterns_and_by_all_below() {
        let all = ["/abs", "a", "d//e", "d/e", "lead//", "x/y//z"];
        let flat = keys(true, all.map(str::to_owned));
        for (pattern, expected) in [
            ("***", &all[..]),
            ("/*", &["/abs"]),
            ("/a*s", &["/abs"]),
            ("d//*", &["d//e"]),
            ("d/*", &["d/e"]),
            ("d/***", &["d//e", "d/e"]),
            ("d//***", &["d//e"]),
            ("*//[e]", &["d//e"]),
            ("x/**/z", &["x/y//z"]),
        ] {
            assert_eq!(found(&flat, pattern), expected, "{pattern}");
        }
        let folders = keys(false, ["d/e".to_owned()]);
        assert_eq!(found(&folders, "d//*"), ["d/e"]);
    }

    fn all_in_order<const N: usize>(mut all: [&str; N]) -> [&str; N] {
        all.sort_unstable();
        all
    }

    #[test]
    fn the_first_name_needs_few_listings_and_what_is_silent_few_names_ahead() {
        let wide = || (0..2 * AHEAD_MAX).map(|n| format!("{n:06}/1"));
        let answered = keys(true, wide());
        let mut names = listing(&answered, "*/?", Sequence::InTurn);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let first = runtime.block_on(names.next()).unwrap().unwrap();
        assert_eq!(first.name, Name::from("x://y/000000/1"));
        let listed = answered.listed.lock().unwrap().len();
        assert!(listed <= 1 + LISTINGS_MAX, "{listed}");
        let all = wide().collect();
        let keys = Keys { all, is_flat: true, silent: Some("000000/"), ..Keys::default() };
        let keys = Arc::new(keys);
        let mut names = listing(&keys, "*/?", Sequence::InTurn);
        runtime.block_on(async {
            let (mut listed, mut quiet) = (0, 0);
            while quiet < 100 {
                assert!(names.next().now_or_never().is_none(), "it comes after what is silent");
                tokio::task::yield_now().await;
                let before = std::mem::replace(&mut listed, keys.listed.lock().unwrap().len());
                quiet = if listed > before { 0 } else { quiet + 1 };
            }
            let limits = AHEAD_MAX / 2..AHEAD_MAX + LISTINGS_MAX;
            assert!(limits.contains(&listed), "{listed}");
        });
    }

    #[test]
    fn where_nothing_comes_in_turn_what_is_silent_keeps_none_back() {
        let all = (0..100).map(|n| format!("{n:02}/1")).collect();
        let keys = Keys { all, is_flat: true, silent: Some("00/"), ..Keys::default() };
        let names = listing(&Arc::new(keys), "*/?", Sequence::AsKnown);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found: Vec<_> = runtime.block_on(names.take(99).collect());
        assert!(found.iter().all(Result::is_ok), "{found:?}");
    }

    #[test]
    fn a_wide_tree_is_listed_by_few_at_a_time_and_each_name_comes_once() {
        let wide = (0..3 * BATCH).flat_map(|n| [format!("{n}/p/1"), format!("{n}/q/2")]);
        let keys = keys(false, wide);
        let found = found(&keys, "*/*/*");
        assert_eq!(found.len(), 6 * BATCH);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
        // Those who wait for the folders that they found already are still open.
        assert!(keys.open_max.load(Ordering::Relaxed) <= LISTINGS_MAX + 2, "{keys:?}");
        assert_eq!(keys.open.load(Ordering::Relaxed), 0);
    }
}
