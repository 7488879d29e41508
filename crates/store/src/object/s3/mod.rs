//! Amazon S3, and the many servers that speak its language.
//!
//! Requests are our own, signed by the signer that `OpenDAL` uses: `OpenDAL`
//! changes some keys on the way (`a//b` becomes `a/b`), and reads neither storage
//! classes nor the state of restores.

mod answers;
mod checksum;
mod keys;
mod process;
mod requests;
mod restore;
mod settings;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{
    FutureExt as _, Stream, StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream,
};
use http::{HeaderMap, Method};
use sled::Device;

use self::answers::Listing;
use self::checksum::{MODE, Told, even_parts, length};
use self::requests::{Request, Requests};
use self::restore::{LOOK_AGAIN, Restore};
pub(crate) use self::settings::Environment;
use self::settings::Settings;
use super::glob::{self, Folders, Page, Pages};
use super::place::Root;
use super::rounds::{Asked, GOES_ROUND};
use super::wire::{Redirects, Wire};
use crate::exchange::{Cover, content_range, covered, fields, unanswered};
use crate::patience::patiently;
use crate::{
    Answer, Checksum, Entries, Entry, Error, Name, PartLengths, Query, Reading, Recall, Store,
    StoresOptions, Tier,
};

/// As many connections as a server expects of one client; a part is asked about in one round trip.
const PARTS_ASKED_AT_ONCE: usize = 16;

/// A bucket.
#[derive(Debug, Clone)]
pub(super) struct Bucket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: Root,
    requests: Requests,
    restore: Restore,
    device: Device,
}

impl Bucket {
    /// Opens the bucket of a root `s3://bucket`; asks nobody yet.
    pub(super) fn open(
        root: Root,
        options: &StoresOptions,
        environment: Environment<'_>,
    ) -> Result<Self, Error> {
        let settings = Settings::of(root.authority(), &options.storage, environment)
            .map_err(|reason| Error::refused(root.text.as_str(), reason))?;
        let wire = Wire::new(options.answer_max, Redirects::Refuse)?;
        Ok(Self(Arc::new(Inner {
            device: Device::new(root.text.as_str()),
            restore: Restore::of(&settings),
            requests: Requests::new(wire, settings),
            root,
        })))
    }
}

impl Store for Bucket {
    fn device(&self, _name: &Name) -> Device {
        self.0.device.clone()
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        let name = name.clone();
        async move { self.0.stat(name).await }.boxed()
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let entry = entry.clone();
        async move { self.0.read(entry, range).await }.boxed()
    }

    fn list(&self, query: &Query) -> Entries {
        let Query::Glob(pattern, sequence) = query else {
            let error = Error::unsupported(query.prefix(), "a bucket answers patterns only");
            return stream::once(async { Err(error) }).boxed();
        };
        glob::entries(Arc::new(self.clone()), self.0.root.clone(), pattern, *sequence)
    }

    fn checksum(&self, entry: &Entry) -> Answer<'_, Option<Checksum>> {
        let entry = entry.clone();
        async move { self.0.checksum(&entry).await }.boxed()
    }

    fn part_lengths(&self, entry: &Entry) -> PartLengths {
        Arc::clone(&self.0).part_lengths(entry.clone()).boxed()
    }

    fn recall(&self, entry: &Entry) -> Answer<'_, Recall> {
        let entry = entry.clone();
        async move { self.0.recall(entry).await }.boxed()
    }
}

impl Folders for Bucket {
    fn is_flat(&self) -> bool {
        true
    }

    fn pages(&self, prefix: &str, deep: bool) -> Pages {
        let start = Some((Arc::clone(&self.0), prefix.to_owned(), Asked::default(), Ok(None)));
        stream::try_unfold(start, move |state| async move {
            let Some((bucket, prefix, mut asked, after)) = state else { return Ok(None) };
            let after: Result<Option<String>, Error> = after;
            let after = after?;
            let listing = patiently(|| bucket.page(&prefix, deep, after.as_deref())).await?;
            let page = Page {
                entries: listing.entries(|key| bucket.root.name(key)).collect(),
                folders: listing.folders().collect(),
                ..Page::default()
            };
            let refused = |reason| Error::refused(bucket.root.name(&prefix), reason);
            let next = match listing.next() {
                Ok(None) => return Ok(Some((page, None))),
                Ok(token) if asked.again(token) => return Err(refused(GOES_ROUND)),
                Ok(token) => Ok(token.map(str::to_owned)),
                // What is here comes before it.
                Err(reason) => Err(refused(reason)),
            };
            Ok(Some((page, Some((bucket, prefix, asked, next)))))
        })
        .boxed()
    }

    fn find(&self, key: String) -> Answer<'static, Entry> {
        let bucket = Arc::clone(&self.0);
        async move { bucket.stat(bucket.root.name(&key)).await }.boxed()
    }
}

impl Inner {
    async fn stat(&self, name: Name) -> Result<Entry, Error> {
        self.is_object(&name)?;
        let request = Request { method: Method::HEAD, ..self.about(&name) };
        let answer = self.requests.send(&name, request).await?;
        Ok(answers::entry(name, answer.headers()))
    }

    /// An error about the bucket itself: what a server answers for that is a listing.
    fn is_object(&self, name: &Name) -> Result<(), Error> {
        if self.root.key(name).is_empty() {
            let reason = format!("this is a bucket; its objects are {}/**", self.root.text);
            return Err(Error::refused(name.clone(), reason));
        }
        Ok(())
    }

    async fn read(&self, entry: Entry, range: Range<u64>) -> Result<Reading, Error> {
        let name = entry.name.clone();
        self.is_object(&name)?;
        if let Tier::Cold { class } | Tier::Recalling { class } = &entry.tier {
            return Err(Error::Cold { name, class: class.to_string() });
        }
        let range = range.start..range.end.min(entry.size.unwrap_or(u64::MAX));
        if range.is_empty() {
            return Ok(Reading::empty(entry, range.start, Vec::new()));
        }
        let mut headers = Vec::new();
        match range.end {
            u64::MAX if range.start == 0 => {}
            u64::MAX => headers.push(("range", format!("bytes={}-", range.start))),
            end => headers.push(("range", format!("bytes={}-{}", range.start, end - 1))),
        }
        headers.extend(condition(&entry));
        let request = Request { headers: &headers, ..self.about(&name) };
        let answer = self.requests.ask(&name, request).await?;
        let told = content_range(answer.headers()).and_then(|(_, size)| size);
        match answer.status().as_u16() {
            // The end of a part may be that of the object, or not.
            206 if entry.size.or(told).is_none() => reading(&self.now(entry).await?, answer, range),
            200 | 206 => reading(&entry, answer, range),
            416 => self.beyond(entry, range.start, told).await,
            _ => Err(match self.requests.wire().refusal(answer).await.0.about(&name) {
                Error::Cold { name, .. } => self.cold(name).await,
                error => error,
            }),
        }
    }

    /// Of an answer that there is nothing from `start` on. Amazon's, and those of others, do not
    /// say how long the object is then.
    async fn beyond(&self, entry: Entry, start: u64, told: Option<u64>) -> Result<Reading, Error> {
        let size = if told.is_some() { told } else { self.now(entry.clone()).await?.size };
        if size.is_none_or(|size| start < size) {
            let reason = format!("the server refuses the range from {start}");
            return Err(Error::refused(entry.name, reason));
        }
        let entry = Entry { size, ..entry };
        Ok(Reading::empty(entry, start, Vec::new()))
    }

    /// An object of which an answer does not tell the size, as it is now, if it is the same.
    async fn now(&self, entry: Entry) -> Result<Entry, Error> {
        let now = self.stat(entry.name.clone()).await?;
        entry.unchanged(&now)?;
        Ok(Entry { version: entry.version.or(now.version), ..now })
    }

    async fn checksum(&self, entry: &Entry) -> Result<Option<Checksum>, Error> {
        let head = self.head(entry, None).await?;
        let Some(told) = Told::of(&head) else { return Ok(None) };
        let Some(parts) = told.parts() else { return Ok(Some(told.over(None))) };
        let first = length(&self.head(entry, Some(1)).await?);
        let last = length(&self.head(entry, Some(parts)).await?);
        let (Some(size), Some(first), Some(last)) = (length(&head), first, last) else {
            return Err(no_parts(entry));
        };
        match even_parts(size, parts, first, last) {
            Some(lengths) => Ok(Some(told.over(Some(lengths)))),
            // The server gives the same answer about all parts, which is about none of them.
            None if first == size => Err(no_parts(entry)),
            None => Ok(Some(told.over(Some(Vec::new())))),
        }
    }

    fn part_lengths(
        self: Arc<Self>,
        entry: Entry,
    ) -> impl Stream<Item = Result<u64, Error>> + use<> {
        let lengths = async move {
            let head = self.head(&entry, None).await?;
            let parts = Told::of(&head).and_then(|told| told.parts()).unwrap_or(0);
            let whole = Arc::new((self, entry));
            let part = move |number| {
                let whole = Arc::clone(&whole);
                async move {
                    let (bucket, entry) = &*whole;
                    let head = patiently(|| bucket.head(entry, Some(number))).await?;
                    length(&head).ok_or_else(|| no_parts(entry))
                }
            };
            Ok(stream::iter((1..=parts).map(part)).buffered(PARTS_ASKED_AT_ONCE))
        };
        lengths.try_flatten_stream()
    }

    /// What is said of an object, or of a part of it, besides its bytes.
    async fn head(&self, entry: &Entry, part: Option<usize>) -> Result<HeaderMap, Error> {
        let mut headers = Vec::from([(MODE, "ENABLED".to_owned())]);
        headers.extend(condition(entry));
        let part = part.map(|number| number.to_string());
        let query: Vec<_> = part.iter().map(|number| ("partNumber", number.as_str())).collect();
        let request = Request {
            method: Method::HEAD,
            query: &query,
            headers: &headers,
            ..self.about(&entry.name)
        };
        Ok(self.requests.send(&entry.name, request).await?.headers().clone())
    }

    /// Asks for the class of an object that turned out to be cold.
    async fn cold(&self, name: Name) -> Error {
        let class = match self.stat(name.clone()).await.map(|entry| entry.tier) {
            Ok(Tier::Cold { class } | Tier::Recalling { class }) => class.to_string(),
            _ => "archived".to_owned(),
        };
        Error::Cold { name, class }
    }

    async fn recall(&self, entry: Entry) -> Result<Recall, Error> {
        let within = self.restore.within(&entry);
        let pending = Recall::Pending { again: LOOK_AGAIN, within };
        let name = entry.name;
        let body = Bytes::from(self.restore.body.clone());
        let request =
            Request { method: Method::POST, query: &[("restore", "")], body, ..self.about(&name) };
        let answer = self.requests.ask(&name, request).await?;
        // 200 is a copy that was there already, and stays for longer now.
        if answer.status().as_u16() == 200 {
            return Ok(Recall::Ready);
        }
        if answer.status().is_success() {
            return Ok(pending);
        }
        let (refusal, _) = self.requests.wire().refusal(answer).await;
        match refusal.code.as_str() {
            "RestoreAlreadyInProgress" => Ok(pending),
            // It is of a class that needs none.
            "InvalidObjectState" => Ok(Recall::Ready),
            _ => Err(refusal.about(&name)),
        }
    }

    async fn page(&self, prefix: &str, deep: bool, after: Option<&str>) -> Result<Listing, Error> {
        let name = self.root.name(prefix);
        let mut query =
            Vec::from([("encoding-type", "url"), ("list-type", "2"), ("prefix", prefix)]);
        query.extend((!deep).then_some(("delimiter", "/")));
        query.extend(after.map(|token| ("continuation-token", token)));
        let attributes = "x-amz-optional-object-attributes";
        let request = Request {
            method: Method::GET,
            key: "",
            query: &query,
            headers: &[(attributes, "RestoreStatus".to_owned())],
            body: Bytes::new(),
        };
        let answer = self.requests.send(&name, request).await;
        let answer = answer.map_err(|error| match error {
            // A prefix is always found: what is not is the bucket.
            Error::NotFound { name } => Error::refused(name, "there is no such bucket"),
            error => error,
        })?;
        let text = self.requests.wire().text(&name, answer).await?;
        Listing::parse(&text)
            .map_err(|error| Error::refused(name, format!("the listing cannot be read: {error}")))
    }

    /// A plain GET of an object.
    fn about<'name>(&self, name: &'name Name) -> Request<'name> {
        let key = self.root.key(name);
        Request { method: Method::GET, key, query: &[], headers: &[], body: Bytes::new() }
    }
}

/// Under which a server answers about this version only; a weak one matches none, and is none.
fn condition(entry: &Entry) -> Option<(&'static str, String)> {
    let strong = entry.version.as_ref().filter(|version| !version.as_str().starts_with("W/"))?;
    Some(("if-match", strong.as_str().to_owned()))
}

fn no_parts(entry: &Entry) -> Error {
    let reason = "the server has a sum of its parts, and does not tell how long they are";
    Error::refused(entry.name.clone(), reason)
}

/// The bytes of an answer.
fn reading(known: &Entry, answer: reqwest::Response, wanted: Range<u64>) -> Result<Reading, Error> {
    let name = known.name.clone();
    let entry = answers::entry(name.clone(), answer.headers());
    // Some servers do not know If-Match.
    known.unchanged(&entry)?;
    let part = content_range(answer.headers()).and_then(|(part, _)| part);
    let (held, size) = match (answer.status().as_u16(), part) {
        (206, Some(_)) if entry.size.or(known.size).is_none() => {
            return Err(Error::refused(
                name,
                "the server sends a part and not how long the whole is",
            ));
        }
        (206, Some(part)) => (part, entry.size.or(known.size)),
        (200, _) => (0..entry.size.unwrap_or(u64::MAX), entry.size),
        _ => return Err(Error::refused(name, "the server sends a part and not which")),
    };
    let entry = Entry { size, ..entry };
    let end = match size {
        Some(size) => wanted.end.min(size),
        // Nobody could tell the first part from the whole.
        None if wanted.start == 0 => held.end,
        None => wanted.end,
    };
    let range = wanted.start.min(end)..end;
    if held.start > range.start || held.end < range.end {
        let reason = format!("the server sends {held:?} of the range {range:?}");
        return Err(Error::interrupted(name, reason));
    }
    let headers = fields(answer.headers());
    let broken = name.clone();
    let bytes = answer.bytes_stream().map_err(move |error| unanswered(&broken, error));
    if range == (0..u64::MAX) {
        return Ok(Reading { entry, range, bytes: bytes.boxed(), headers });
    }
    let is_exact = range.end < u64::MAX;
    let cover = Cover { skip: range.start - held.start, range: range.clone(), is_exact };
    let bytes = covered(name, bytes, cover);
    Ok(Reading { entry, range, headers, bytes })
}
