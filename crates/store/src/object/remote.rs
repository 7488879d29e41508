//! Servers that `OpenDAL` speaks to: Google and Azure, `WebDAV`, SFTP, HDFS, and files by URL.

use std::future::{poll_fn, ready};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream};
use opendal::options::{ListOptions, ReaderOptions};
use opendal::raw::normalize_path;
use opendal::{EntryMode, HttpTransporter, Lister, Metadata, OperationContext, Operator};
use sled::{Device, Extent};

use super::error::{from_opendal, is_broken_session};
use super::folder;
use super::glob::{self, Folders, Page, Pages};
use super::place::Root;
use super::s3::Environment;
use super::services::{self, Kind, Service};
use super::sums;
use super::transport::Transport;
use super::wire::{Redirects, Wire};
use crate::exchange::{Cover, Hosts, covered};
use crate::local::taking_ends;
use crate::patience::patiently;
use crate::store::whole;
use crate::{
    Answer, Checksum, Entries, Entry, Error, FirstBytes, Name, Query, Reading, Store,
    StoresOptions, Version, unix_parts,
};

/// Names that are handed on together, of those that a server has sent already.
const PAGE_NAMES_MAX: usize = 1000;

/// Links of a listing that are asked about at once.
const LINKS_MAX: usize = 16;

/// A bucket or server.
#[derive(Debug, Clone)]
pub(super) struct Remote(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: Root,
    service: Service,
    wire: Wire,
    device: Device,
    /// Who knows where those lie that are files of this machine.
    files: Arc<dyn Store>,
    answer_max: Duration,
    /// Whether a read can be told which version it is to be of.
    pins: bool,
}

impl Remote {
    /// Opens what a root names, or `None` of a scheme that stands for no service; asks nobody yet.
    pub(super) fn open(
        root: Root,
        options: &StoresOptions,
        environment: Environment<'_>,
        hosts: &Arc<Hosts>,
        files: &Arc<dyn Store>,
    ) -> Result<Option<Self>, Error> {
        let Some(service) = services::open(&root, &options.storage, environment)? else {
            return Ok(None);
        };
        let hosts = Arc::clone(hosts);
        let redirects = match service.kind {
            Kind::Cluster => Redirects::Anywhere(hosts),
            Kind::Web | Kind::Program | Kind::Local | Kind::Buckets | Kind::Other => {
                Redirects::Follow(hosts)
            }
        };
        Ok(Some(Self(Arc::new(Inner {
            // It is shown, and kept in a file.
            device: Device::new(root.name("").redacted().to_string()),
            files: Arc::clone(files),
            wire: Wire::new(options.answer_max, redirects)?,
            answer_max: options.answer_max,
            pins: service.operator.info().capability().read_with_if_match,
            service,
            root,
        }))))
    }
}

impl Store for Remote {
    fn device(&self, name: &Name) -> Device {
        match self.file(name) {
            Some(path) => self.0.files.device(&Name::from(path.as_path())),
            None => self.0.device.clone(),
        }
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        let name = name.clone();
        async move { self.0.stat(name).await }.boxed()
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let entry = entry.clone();
        async move { Arc::clone(&self.0).read(entry, range).await }.boxed()
    }

    fn list(&self, query: &Query) -> Entries {
        let Query::Glob(pattern, sequence) = query else {
            let error = Error::unsupported(query.prefix(), "this server answers patterns only");
            return stream::once(async { Err(error) }).boxed();
        };
        glob::entries(Arc::new(self.clone()), self.0.root.clone(), pattern, *sequence)
    }

    fn locate(&self, entry: &Entry) -> Answer<'_, Vec<Extent>> {
        match self.file(&entry.name) {
            Some(path) => {
                let name = Name::from(path.as_path());
                self.0.files.locate(&Entry { name, ..entry.clone() })
            }
            None => ready(Ok(whole(entry, self.0.device.clone()))).boxed(),
        }
    }

    fn checksum(&self, entry: &Entry) -> Answer<'_, Option<Checksum>> {
        let entry = entry.clone();
        async move { self.0.checksum(entry).await }.boxed()
    }

    fn file(&self, name: &Name) -> Option<PathBuf> {
        let is_local = self.0.service.kind == Kind::Local;
        is_local.then(|| folder::path(self.0.root.key(name)))
    }
}

impl Folders for Remote {
    fn is_flat(&self) -> bool {
        self.0.service.is_flat
    }

    fn pages(&self, prefix: &str, deep: bool) -> Pages {
        let store = Arc::clone(&self.0);
        let prefix = prefix.to_owned();
        if store.service.kind == Kind::Local {
            return folder::pages(store.root.clone(), prefix, store.answer_max);
        }
        async move { store.listing(prefix, deep).await }.try_flatten_stream().boxed()
    }

    fn find(&self, key: String) -> Answer<'static, Entry> {
        let store = Arc::clone(&self.0);
        async move { store.stat(store.root.name(&key)).await }.boxed()
    }
}

impl Inner {
    /// The operator for one operation, and what remembers the answers to it.
    fn about(&self, name: &Name) -> (Operator, Transport) {
        self.through(&self.service.operator, name)
    }

    /// The same, of another operator.
    fn through(&self, operator: &Operator, name: &Name) -> (Operator, Transport) {
        let transport = Transport::new(&self.wire, &self.service.host, name);
        let operator = operator.clone();
        let executor = operator.context().executor().clone();
        let sender = HttpTransporter::new(transport.clone());
        (operator.with_context(OperationContext::from_parts(sender, executor)), transport)
    }

    /// What an operation gives, in time: the limit begins anew with each of its requests.
    async fn answered<T>(
        &self,
        name: &Name,
        transport: &Transport,
        operation: impl Future<Output = opendal::Result<T>>,
    ) -> Result<T, Error> {
        // Some services panic at what they do not expect, such as names that are no UTF-8.
        let mut operation = pin!(AssertUnwindSafe(operation).catch_unwind());
        let operation = poll_fn(|context| self.polled(|| operation.as_mut().poll(context)));
        let mut operation = pin!(operation);
        let answer = loop {
            let begun = transport.begun();
            match tokio::time::timeout(self.answer_max, &mut operation).await {
                Err(_) if transport.is_waiting() || transport.begun() > begun => {}
                answer => break answer,
            }
        };
        match answer {
            Ok(Ok(answer)) => answer.map_err(|error| from_opendal(name, &error, transport.said())),
            Ok(Err(_)) => Err(unreadable(name)),
            Err(_) => {
                let seconds = self.answer_max.as_secs_f32();
                Err(Error::interrupted(name.clone(), format!("no answer for {seconds} s")))
            }
        }
    }

    /// Polls what may come to need another connection.
    fn polled<T>(&self, poll: impl FnOnce() -> T) -> T {
        if self.service.kind == Kind::Program { taking_ends(poll) } else { poll() }
    }

    /// The key, if the service is asked for it as it is.
    fn key<'name>(&self, name: &'name Name) -> Result<&'name str, Error> {
        let key = self.root.key(name);
        if normalize_path(key) == key {
            return Ok(key);
        }
        let reason = "a key that is empty, begins or ends with a space, begins with / or holds // \
                      cannot be asked for at this kind of server";
        Err(Error::refused(name.clone(), reason))
    }

    async fn stat(&self, name: Name) -> Result<Entry, Error> {
        if self.service.kind == Kind::Local {
            return folder::stat(&self.root, name, self.answer_max).await;
        }
        let key = self.key(&name)?;
        let (operator, transport) = self.about(&name);
        let found = self.answered(&name, &transport, operator.stat(key)).await?;
        if found.is_dir() && !key.ends_with('/') {
            return Err(Error::refused(name, "this is a folder"));
        }
        Ok(self.entry(name, &found))
    }

    async fn read(self: Arc<Self>, entry: Entry, range: Range<u64>) -> Result<Reading, Error> {
        // Where a read cannot be pinned, and where its end is not known, the object is asked about first.
        let is_known = entry.size.is_some() || range.end == u64::MAX;
        let entry = if self.pins && is_known { entry } else { self.unchanged(&entry).await? };
        let range = range.start..range.end.min(entry.size.unwrap_or(u64::MAX));
        if range.is_empty() {
            return Ok(Reading::empty(entry, range.start, Vec::new()));
        }
        if self.pins {
            return self.fetch(entry, range).await;
        }
        let reading = self.fetch(entry.clone(), range).await?;
        Ok(self.watched(entry, reading))
    }

    /// Where a read cannot be pinned, the object is asked about again before the last bytes are
    /// handed on. What came whole and in one piece is no mixture.
    fn watched(self: Arc<Self>, known: Entry, reading: Reading) -> Reading {
        let Reading { entry, range, bytes, headers } = reading;
        let rest = (self, known, FirstBytes::default(), range.clone(), bytes);
        let bytes =
            stream::try_unfold(rest, |(store, known, mut first, rest, mut bytes)| async move {
                let Some(next) = bytes.try_next().await? else { return Ok(None) };
                let left = rest.start + next.len() as u64..rest.end;
                let is_whole = rest.start == 0 && known.size == Some(left.start);
                if !is_whole {
                    first.add(rest.start, &next);
                }
                if left.is_empty() && !is_whole {
                    store.still(&known, &first).await?;
                }
                Ok(Some((next, (store, known, first, left, bytes))))
            });
        Reading { entry, range, bytes: bytes.boxed(), headers }
    }

    /// That `known` is there still, or that with something added to its end: what is longer and does
    /// not begin with what was read `first` was written anew.
    async fn still(&self, known: &Entry, first: &FirstBytes) -> Result<(), Error> {
        let now = self.regular(known.name.clone()).await?;
        if now.size <= known.size {
            return known.unchanged(&now);
        }
        let again = self.fetch(known.clone(), first.range()).await?;
        let again: Vec<Bytes> = again.bytes.try_collect().await?;
        if first.are(&again.concat()) {
            return Ok(());
        }
        Err(Error::Changed { name: known.name.clone() })
    }

    /// What is told with the first byte. What is asked about without its bytes has fewer sums.
    async fn checksum(&self, entry: Entry) -> Result<Option<Checksum>, Error> {
        if self.service.kind != Kind::Buckets || entry.size == Some(0) {
            return Ok(None);
        }
        let first = self.fetch(entry, 0..1).await?;
        Ok(sums::told(&first.headers))
    }

    /// The object as it is now, if that is what `entry` knows.
    async fn unchanged(&self, entry: &Entry) -> Result<Entry, Error> {
        let now = self.regular(entry.name.clone()).await?;
        entry.unchanged(&now)?;
        Ok(now)
    }

    async fn regular(&self, name: Name) -> Result<Entry, Error> {
        let now = self.stat(name).await?;
        if now.size.is_none() {
            // A pipe waits for who writes to it, and a device may have no end.
            return Err(Error::refused(now.name, "not a regular file"));
        }
        Ok(now)
    }

    /// One request for a range that is not empty.
    async fn fetch(&self, entry: Entry, range: Range<u64>) -> Result<Reading, Error> {
        let name = entry.name.clone();
        if self.service.kind == Kind::Local {
            let bytes = folder::read(&self.root, &name, range.clone(), self.answer_max).await?;
            return Ok(Reading { entry, range, bytes, headers: Vec::new() });
        }
        let key = self.key(&name)?;
        let (operator, transport) = self.about(&name);
        let strong = entry.version.as_ref().filter(|version| !version.as_str().starts_with("W/"));
        let if_match = strong.filter(|_| self.pins).map(|version| version.as_str().to_owned());
        let options = ReaderOptions { if_match, ..ReaderOptions::default() };
        let opened = async {
            let reader = operator.reader_options(key, options).await?;
            let mut bytes = match range.end {
                u64::MAX => reader.into_stream(range.start..).await?,
                end => reader.into_stream(range.start..end).await?,
            };
            match bytes.metadata().await {
                Ok(metadata) => Ok((bytes, Some(metadata))),
                Err(error) if error.kind() == opendal::ErrorKind::Unsupported => Ok((bytes, None)),
                Err(error) => Err(error),
            }
        };
        let (bytes, metadata) = match self.answered(&name, &transport, opened).await {
            Err(Error::Refused { .. }) if range.start > 0 && entry.size.is_none() => {
                return self.beyond(entry, range).await;
            }
            opened => opened?,
        };
        let now = metadata.map_or_else(|| entry.clone(), |found| self.entry(name.clone(), &found));
        if self.pins {
            entry.unchanged(&now)?;
        }
        // Where it was asked for, an answer without it tells nothing of it.
        let asked_before = entry.version.filter(|_| !self.pins);
        let now = Entry {
            version: now.version.or(asked_before),
            modified: now.modified.or(entry.modified),
            ..now
        };
        let end = range.end.min(now.size.unwrap_or(u64::MAX));
        let range = range.start.min(end)..end;
        let about = name.clone();
        let bytes = bytes
            .map_err(move |error| from_opendal(&about, &error, None))
            .map_ok(|buffer| stream::iter(buffer).map(Ok))
            .try_flatten();
        let headers = transport.headers();
        let skip = match self.service.kind {
            Kind::Web => transport.bytes_before(range.start)?,
            Kind::Program | Kind::Local | Kind::Cluster | Kind::Buckets | Kind::Other => 0,
        };
        if end == u64::MAX && skip == 0 {
            return Ok(Reading { entry: now, range, bytes: bytes.boxed(), headers });
        }
        let cover = Cover { skip, range: range.clone(), is_exact: end < u64::MAX };
        let bytes = covered(name, bytes, cover);
        Ok(Reading { entry: now, range, bytes, headers })
    }

    /// What was refused because the object ends before the range begins is nothing.
    async fn beyond(&self, entry: Entry, range: Range<u64>) -> Result<Reading, Error> {
        let entry = self.unchanged(&entry).await?;
        if entry.size.is_some_and(|size| size <= range.start) {
            return Ok(Reading::empty(entry, range.start, Vec::new()));
        }
        Err(Error::refused(
            entry.name,
            format!("the server refuses the range from {}", range.start),
        ))
    }

    /// Lists a prefix. That there is no such folder is an empty listing, as at stores without folders.
    async fn listing(self: Arc<Self>, prefix: String, deep: bool) -> Result<Pages, Error> {
        let (first, names) = match patiently(|| Arc::clone(&self).begun(&prefix, deep)).await {
            Ok(begun) => begun,
            Err(Error::NotFound { .. }) => return Ok(stream::empty().boxed()),
            Err(error) => return Err(error),
        };
        let rest = stream::try_unfold(names, |mut names| async move {
            let page = names.page().await?;
            Ok(page.map(|page| (page, names)))
        });
        Ok(stream::once(async { Ok(first) }).chain(rest).boxed())
    }

    /// A listing and its first page.
    async fn begun(self: Arc<Self>, prefix: &str, deep: bool) -> Result<(Page, Names), Error> {
        let name = self.root.name(prefix);
        // Of a key that the service is not asked for as it is, it would list another; or, without the space
        // at its end, more.
        let asked = normalize_path(prefix);
        let is_begun = !prefix.ends_with('/') && prefix.starts_with(&asked);
        if !prefix.is_empty() && prefix != asked && !is_begun {
            self.key(&name)?;
        }
        let (lister, transport) = self.lister(&self.service.operator, &name, prefix, deep).await?;
        let mut names = Names {
            store: self,
            name,
            transport,
            lister,
            prefix: prefix.to_owned(),
            deep,
            unknown: Vec::new(),
            failed: None,
            taken: 0,
            last: String::new(),
            is_apart: false,
        };
        let first = names.page().await?;
        Ok((first.unwrap_or_default(), names))
    }

    /// What lists a prefix.
    async fn lister(
        &self,
        operator: &Operator,
        name: &Name,
        prefix: &str,
        deep: bool,
    ) -> Result<(Lister, Transport), Error> {
        let path = if prefix.is_empty() { "/" } else { prefix };
        let options = ListOptions { recursive: deep, ..ListOptions::default() };
        let (operator, transport) = self.through(operator, name);
        let transport = match self.service.kind {
            Kind::Buckets => transport.of_pages(),
            Kind::Web | Kind::Program | Kind::Local | Kind::Cluster | Kind::Other => transport,
        };
        let opened = operator.lister_options(path, options);
        Ok((self.answered(name, &transport, opened).await?, transport))
    }

    fn entry(&self, name: Name, found: &Metadata) -> Entry {
        let modified = found.last_modified().and_then(|time| time_of(time.into()));
        let size = found.is_file().then(|| found.content_length());
        let version = match found.etag() {
            Some(etag) if self.pins && self.service.kind == Kind::Web => {
                Some(Version::of_tag(etag))
            }
            Some(etag) if self.pins => Some(Version::new(etag)),
            // Nanoseconds, as far as the server has them.
            _ => modified.zip(size).map(|(time, size)| {
                let (seconds, nanoseconds) = unix_parts(time);
                Version::of_file(seconds, nanoseconds, size)
            }),
        };
        // A version that no read can be pinned to or compared with is none.
        let version = version.filter(|_| !self.pins || found.etag().is_some());
        Entry { size, version, modified, ..Entry::named(name) }
    }
}

/// A listing under way.
struct Names {
    store: Arc<Inner>,
    name: Name,
    transport: Transport,
    lister: Lister,
    prefix: String,
    deep: bool,
    /// Links, and what is neither a file nor a folder.
    unknown: Vec<(String, Metadata)>,
    /// What comes after the names of the last page.
    failed: Option<Error>,
    /// Names that came so far, and which was the last.
    taken: usize,
    last: String,
    /// Whether nothing else is listed over its connection.
    is_apart: bool,
}

impl Names {
    /// The next names, as many as are there: the first is waited for.
    async fn page(&mut self) -> Result<Option<Page>, Error> {
        let next = match self.failed.take() {
            Some(error) => Err(error),
            None => self.next().await,
        };
        let first = match next {
            Err(error) if is_broken_session(&error) => self.next_apart().await?,
            next => next?,
        };
        let Some(first) = first else { return Ok(None) };
        // The first page is asked for again with its listing, which ends with an error of another; the
        // second may come before all of the first is taken.
        self.transport.be_patient();
        let mut page = Page::default();
        self.take(&mut page, first);
        for _ in 1..PAGE_NAMES_MAX {
            let next = AssertUnwindSafe(self.lister.next()).catch_unwind();
            match self.store.polled(|| next.now_or_never()) {
                Some(Ok(Some(Ok(entry)))) => self.take(&mut page, entry),
                Some(Ok(Some(Err(error)))) => {
                    self.failed = Some(from_opendal(&self.name, &error, self.transport.said()));
                    break;
                }
                Some(Err(_)) => {
                    self.failed = Some(unreadable(&self.name));
                    break;
                }
                None | Some(Ok(None)) => break,
            }
        }
        self.follow_links(&mut page).await;
        Ok(Some(page))
    }

    /// The next name, waited for.
    async fn next(&mut self) -> Result<Option<opendal::Entry>, Error> {
        let next = self.lister.next().map(Option::transpose);
        self.store.answered(&self.name, &self.transport, next).await
    }

    /// As [`Names::next`], after the connection broke. At a name that is no UTF-8 an SFTP client breaks
    /// its own, and with it all that is listed over it: what breaks one that is not shared is to blame.
    async fn next_apart(&mut self) -> Result<Option<opendal::Entry>, Error> {
        let next = if std::mem::replace(&mut self.is_apart, true) {
            Err(unreadable(&self.name))
        } else {
            self.begin_apart().await
        };
        match next {
            Err(error) if is_broken_session(&error) => Err(unreadable(&self.name)),
            next => next,
        }
    }

    /// Begins anew over a connection of its own; the first name behind those that were taken.
    async fn begin_apart(&mut self) -> Result<Option<opendal::Entry>, Error> {
        let apart = self.store.service.apart();
        let apart = apart.map_err(|error| from_opendal(&self.name, &error, None))?;
        let Self { store, name, prefix, deep, .. } = &*self;
        (self.lister, self.transport) = store.lister(&apart, name, prefix, *deep).await?;
        for at in 1..=self.taken {
            let known = self.next().await?;
            if at == self.taken && known.is_none_or(|known| known.path() != self.last) {
                return Err(Error::Changed { name: self.name.clone() });
            }
        }
        self.next().await
    }

    /// Asks what the links of a page lead to.
    async fn follow_links(&mut self, page: &mut Page) {
        let store = &self.store;
        let asked = std::mem::take(&mut self.unknown).into_iter().map(|(path, link)| async move {
            let name = store.root.name(&path);
            let (operator, transport) = store.about(&name);
            let found = patiently(|| store.answered(&name, &transport, operator.stat(&path))).await;
            (path, link, found)
        });
        let mut asked = stream::iter(asked).buffered(LINKS_MAX);
        while let Some((path, link, found)) = asked.next().await {
            match found {
                Ok(found) if found.is_dir() => page.links.push(format!("{path}/")),
                Ok(found) => {
                    let kept = if found.is_file() { &mut page.entries } else { &mut page.others };
                    kept.push(store.entry(store.root.name(&path), &found));
                }
                Err(error) if error.is_transient() => self.failed = Some(error),
                // It leads nowhere, or where this user may not look: who reads it is told.
                Err(_) => page.entries.push(store.entry(store.root.name(&path), &link)),
            }
        }
    }

    fn take(&mut self, page: &mut Page, entry: opendal::Entry) {
        let (path, metadata) = entry.into_parts();
        self.taken += 1;
        self.last.clone_from(&path);
        let is_web = self.store.service.kind == Kind::Web;
        let key = behind_host(&path).filter(|_| is_web).map(str::to_owned);
        let path = key.unwrap_or(path);
        if metadata.mode() == EntryMode::Unknown {
            self.unknown.push((path, metadata));
        } else if !metadata.is_dir() {
            let name = self.store.root.name(&path);
            page.entries.push(self.store.entry(name, &metadata));
        } else if !self.deep && path != self.prefix && path != "/" {
            page.folders.push(path);
        }
    }
}

/// The key in a whole URL, which servers of `WebDAV` may list instead of a path (RFC 4918, 8.3).
fn behind_host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    Some(rest.split_once('/').map_or("", |(_, key)| key))
}

/// What the service panicked at.
fn unreadable(name: &Name) -> Error {
    Error::refused(name.clone(), "the answer cannot be read; a name in it may be no UTF-8")
}

fn time_of(time: SystemTime) -> Option<SystemTime> {
    (time >= UNIX_EPOCH).then_some(time)
}
