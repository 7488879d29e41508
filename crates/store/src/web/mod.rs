//! Objects and pages of web servers.
//!
//! [`Web`] reads objects by ranges over HTTP and takes pages for sets of
//! their links. `client.rs` says how they are connected to, `token.rs` what one of them is shown,
//! `answer.rs` what an answer means, `page.rs` and `link.rs` what a page links to.

mod answer;
mod client;
mod link;
mod local;
mod page;
mod token;

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) use self::local::{is_page, links_of_file};
pub(crate) use self::token::Token;

use encoding_rs::Encoding;
use futures::stream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue,
    RANGE,
};
use reqwest::{Client, Method, Response, StatusCode};
use sled::Device;
use url::Url;

use self::answer::{condition, content_length, described, failure, is_same};
use self::client::Bodies;
use self::link::Base;
use self::page::Opened;
use crate::exchange::{
    Cover, Hosts, Proxies, answered, content_range, covered, fields, text, unanswered,
};
use crate::patience::{patiently, unless_silent};
use crate::{Answer, Clock, Entries, Entry, Error, Name, Query, Reading, Store};

/// The servers of `http://` and `https://`.
///
/// Ranges are pinned to a version by a strong entity tag, else by modification
/// time and size. Up to ten redirects are followed, by proxies of the
/// environment where it names them. Behind a proxy names are resolved by the
/// proxy, which then decides whether they may be private.
#[derive(Debug, Clone)]
pub struct Web(Arc<Servers>);

#[derive(Debug)]
struct Servers {
    hosts: Arc<Hosts>,
    answer_max: Duration,
    token: Result<Option<Token>, String>,
    clock: Clock,
    /// Made by the first request: reading the system's certificates takes milliseconds.
    objects: Clients,
    pages: Clients,
}

type Clients = OnceLock<Result<(Client, Arc<Proxies>), String>>;

impl Web {
    /// With links of public pages into private networks followed or not, and
    /// the time that an answer may take to begin.
    pub fn new(private_links: bool, answer_max: Duration) -> Self {
        Self::with(Arc::new(Hosts::new(private_links)), answer_max, Ok(None))
    }

    /// The same, of what others know of hosts as well, and with a token for one of them.
    pub(crate) fn with(
        hosts: Arc<Hosts>,
        answer_max: Duration,
        token: Result<Option<Token>, String>,
    ) -> Self {
        Self(Arc::new(Servers {
            hosts,
            answer_max,
            token,
            clock: Clock::real(),
            objects: OnceLock::new(),
            pages: OnceLock::new(),
        }))
    }
}

impl Store for Web {
    fn device(&self, name: &Name) -> Device {
        let origin = url_of(name).ok().map(|url| url.origin().ascii_serialization());
        Device::new(origin.as_deref().unwrap_or("web"))
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        let name = name.clone();
        async move { self.0.stat(&name).await }.boxed()
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let entry = entry.clone();
        async move { self.0.read(&entry, range).await }.boxed()
    }

    fn list(&self, query: &Query) -> Entries {
        let listed = match query {
            Query::Glob(name, _) => self.0.itself(name),
            Query::Ask { prefix, text } => return self.links(prefix, text),
            Query::Run { folder, .. } => {
                Err(Error::unsupported(folder.clone(), "a web server runs no programs"))
            }
        };
        stream::once(async { listed }).boxed()
    }
}

impl Web {
    /// The links of a page, while it loads.
    fn links(&self, page: &Name, selector: &str) -> Entries {
        let (servers, name) = (Arc::clone(&self.0), page.clone());
        let open = async move { patiently(|| servers.page(&name)).await };
        page::links(page.clone(), selector, open.boxed())
    }
}

impl Servers {
    fn client(&self, bodies: Bodies, name: &Name) -> Result<&(Client, Arc<Proxies>), Error> {
        let place = match bodies {
            Bodies::Stored => &self.objects,
            Bodies::Decoded => &self.pages,
        };
        let client = place.get_or_init(|| client::client(bodies, &self.hosts));
        client.as_ref().map_err(|reason| Error::refused(name.clone(), reason))
    }

    /// The answer to one request, redirects followed; its status may be an error's.
    async fn send(
        &self,
        bodies: Bodies,
        method: Method,
        name: &Name,
        mut headers: HeaderMap,
    ) -> Result<Response, Error> {
        let url = url_of(name)?;
        let (client, proxies) = self.client(bodies, name)?;
        proxies.understood(&url).map_err(|reason| Error::refused(name.clone(), reason))?;
        let token = self.token.as_ref().map_err(|reason| Error::refused(name.clone(), reason))?;
        if let Some(field) = token.as_ref().and_then(|token| token.field(&url)) {
            // The client leaves it out where it is sent on to another server.
            headers.insert(AUTHORIZATION, field.clone());
        }
        let request = client.request(method, url).headers(headers);
        answered(name, self.answer_max, request.send(), unanswered).await
    }

    async fn stat(&self, name: &Name) -> Result<Entry, Error> {
        let response = self.send(Bodies::Stored, Method::HEAD, name, plain()).await?;
        // Some servers know no HEAD, or signed URLs of an object store allow GET alone.
        if matches!(response.status().as_u16(), 400 | 403 | 405 | 501) {
            return Ok(self.read(&Entry::named(name.clone()), 0..1).await?.entry);
        }
        let headers = response.headers();
        match failure(name, &response, &self.clock) {
            Some(error) => Err(error),
            None => Ok(described(name, headers, content_length(headers))),
        }
    }

    async fn read(&self, entry: &Entry, range: Range<u64>) -> Result<Reading, Error> {
        let name = &entry.name;
        if range.is_empty() {
            let now = entry.clone();
            return Ok(Reading::empty(now, range.start, Vec::new()));
        }
        let mut headers = plain();
        if range != (0..u64::MAX) {
            headers.insert(RANGE, asked(&range).parse().expect("digits"));
        }
        if let Some(version) = &entry.version {
            let (field, value) = condition(version);
            let value = value.parse().map_err(|_| {
                Error::refused(name.clone(), "its version is none that a web server gave")
            })?;
            headers.insert(field, value);
        }
        let mut response = self.send(Bodies::Stored, Method::GET, name, headers.clone()).await?;
        // Empty, probably; but a server that does not say so may only dislike the range.
        let is_empty =
            is_beyond(&response) && content_range(response.headers()).is_none() && range.start == 0;
        if is_empty || is_endless_part(entry, &response) {
            headers.remove(RANGE);
            response = self.send(Bodies::Stored, Method::GET, name, headers).await?;
        }
        self.reading(entry, range, response)
    }

    /// What an answer brings of the range.
    fn reading(
        &self,
        entry: &Entry,
        range: Range<u64>,
        response: Response,
    ) -> Result<Reading, Error> {
        let name = &entry.name;
        let (status, headers) = (response.status(), response.headers());
        if is_beyond(&response) {
            return beyond(entry, range.start, headers);
        }
        if let Some(error) = failure(name, &response, &self.clock) {
            return Err(error);
        }
        let (size, cover) = match status {
            StatusCode::PARTIAL_CONTENT => partial(entry, &range, headers)?,
            _ => whole(&range, headers),
        };
        let now = described(name, headers, size);
        if !is_same(entry, &now) {
            return Err(Error::Changed { name: name.clone() });
        }
        let headers = fields(headers);
        let range = cover.range.clone();
        let of = name.clone();
        let bytes = response.bytes_stream().map_err(move |error| unanswered(&of, error));
        let bytes = covered(name.clone(), bytes, cover);
        Ok(Reading { entry: now, range, headers, bytes })
    }

    /// A page on its way, decoded.
    async fn page(&self, name: &Name) -> Result<Opened, Error> {
        let asked = url_of(name)?;
        self.hosts.told(&asked);
        let response = self.send(Bodies::Decoded, Method::GET, name, accepting()).await?;
        let headers = response.headers();
        if let Some(error) = failure(name, &response, &self.clock) {
            return Err(error);
        }
        let kind = text(headers, &CONTENT_TYPE).unwrap_or("text/html");
        if !is_hypertext(kind) {
            let reason = format!("only a page of text has links, and this is {kind}");
            return Err(Error::refused(name.clone(), reason));
        }
        // What the client has decoded is not said any more.
        if let Some(coding) = text(headers, &CONTENT_ENCODING).filter(|coding| is_packed(coding)) {
            let reason = format!("the page came encoded as {coding}, which is not understood");
            return Err(Error::refused(name.clone(), reason));
        }
        let written_in = charset(kind).and_then(Encoding::for_label_no_replacement);
        let base = Base::of_page(&asked, response.url().clone(), Arc::clone(&self.hosts));
        let of = name.clone();
        let bytes = response.bytes_stream().map_err(move |error| unanswered(&of, error));
        let body = unless_silent(name.clone(), self.answer_max, bytes);
        Ok(Opened { base, written_in, body })
    }

    /// A name that was told lists itself.
    fn itself(&self, name: &Name) -> Result<Entry, Error> {
        let plain = unquoted(name).ok_or_else(|| {
            let page = "`https://host/dir/\\a[href$=\".gz\"]\\`";
            let reason = format!("a web server cannot be asked which names match a pattern; name a page and which of its links: {page}");
            Error::unsupported(name.clone(), reason)
        })?;
        self.hosts.told(&url_of(&plain)?);
        Ok(Entry::named(plain))
    }
}

/// Bytes as they are stored, whichever encodings the server could make of them.
fn plain() -> HeaderMap {
    let identity = HeaderValue::from_static("identity");
    HeaderMap::from_iter([(ACCEPT_ENCODING, identity)])
}

/// What a page may be.
fn accepting() -> HeaderMap {
    let kinds = HeaderValue::from_static("text/html, application/xhtml+xml, */*;q=0.5");
    HeaderMap::from_iter([(ACCEPT, kinds)])
}

/// Whether text would be taken from what is none. Of other words, such as `utf-8`, servers mean no encoding.
fn is_packed(coding: &str) -> bool {
    let coding = coding.to_ascii_lowercase();
    ["gzip", "compress", "deflate", "br", "zstd"].iter().any(|known| coding.contains(known))
}

fn is_hypertext(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind.starts_with("text/") || kind.contains("html") || kind.contains("xml")
}

/// The label of the encoding in `text/html; charset=utf-8`.
fn charset(kind: &str) -> Option<&[u8]> {
    let mut parameters = kind.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let (_, label) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(label.trim().trim_matches('"').as_bytes())
}

/// A range as servers understand it: some take numbers for signed ones.
fn asked(range: &Range<u64>) -> String {
    match i64::try_from(range.end - 1) {
        Ok(last) => format!("bytes={}-{last}", range.start),
        Err(_) => format!("bytes={}-", range.start),
    }
}

/// Whether nothing of the range is within the object.
fn is_beyond(response: &Response) -> bool {
    response.status() == StatusCode::RANGE_NOT_SATISFIABLE
}

/// Whether a part is sent of what nobody has said the end of: it might be taken for the whole.
fn is_endless_part(entry: &Entry, response: &Response) -> bool {
    let told = content_range(response.headers()).and_then(|(_, size)| size);
    response.status() == StatusCode::PARTIAL_CONTENT && told.or(entry.size).is_none()
}

/// Of an answer that there is nothing from `start` on.
fn beyond(entry: &Entry, start: u64, headers: &HeaderMap) -> Result<Reading, Error> {
    let name = &entry.name;
    let told = content_range(headers).and_then(|(_, size)| size);
    match (told.or(entry.size), &entry.version) {
        (Some(size), _) if start >= size => {
            Ok(Reading::empty(described(name, headers, Some(size)), size, fields(headers)))
        }
        (Some(_), Some(_)) => Err(Error::Changed { name: name.clone() }),
        // Taken for the end, it would be bytes lost without a word.
        _ => {
            let reason = format!(
                "the server has nothing from byte {start} on, and does not say how long it is"
            );
            Err(Error::refused(name.clone(), reason))
        }
    }
}

/// Of an answer with the range: the whole size, and how its body covers what was asked for.
fn partial(
    entry: &Entry,
    range: &Range<u64>,
    headers: &HeaderMap,
) -> Result<(Option<u64>, Cover), Error> {
    let refused = |text: &str| Error::refused(entry.name.clone(), text);
    let (sent, size) = match content_range(headers) {
        Some((Some(sent), size)) => (sent, size.or(entry.size)),
        _ => return Err(refused("the server sent a part of it without saying which")),
    };
    if sent.start != range.start {
        return Err(refused("the server sent another part of it than it was asked for"));
    }
    let Some(size) = size else {
        return Err(refused("the server sent a part of it without saying how long it is"));
    };
    // A server may send less than was asked for: what is missing is then an
    // interruption, after which reading goes on from there.
    let end = range.end.min(size);
    Ok((Some(size), Cover { skip: 0, range: range.start..end, is_exact: true }))
}

/// Of an answer with the whole object, asked for or not.
fn whole(range: &Range<u64>, headers: &HeaderMap) -> (Option<u64>, Cover) {
    let size = content_length(headers);
    let end = match size {
        Some(size) if range.start == 0 => size,
        Some(size) => range.end.min(size),
        None if range.start == 0 => u64::MAX,
        None => range.end,
    };
    let kept = range.start.min(end)..end;
    (size, Cover { skip: kept.start, range: kept, is_exact: size.is_some() })
}

/// The URL of a name that this store is asked about.
fn url_of(name: &Name) -> Result<Url, Error> {
    let text = name.url().ok_or_else(|| Error::refused(name.clone(), "not a URL in UTF-8"))?;
    let url = Url::parse(text)
        .map_err(|error| Error::refused(name.clone(), format!("not a URL: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(Error::unsupported(name.clone(), "not an object of a web server")),
    }
}

/// A pattern without wildcards as the name that it stands for. In a URL `?`
/// begins the query, and what follows is the server's; brackets before the
/// path hold an address.
fn unquoted(pattern: &Name) -> Option<Name> {
    let bytes = pattern.as_bytes();
    let path = bytes.windows(3).position(|window| window == b"://").map_or(0, |at| at + 3);
    let path = path + bytes[path..].iter().position(|&byte| byte == b'/').unwrap_or(0);
    let mut plain = bytes[..path].to_vec();
    let mut rest = bytes[path..].iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'*' | b'[' => return None,
            b'\\' => plain.extend(rest.next()),
            b'?' => {
                plain.push(byte);
                plain.extend(rest.by_ref());
            }
            _ => plain.push(byte),
        }
    }
    Some(Name::new(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_wildcards_stands_for_itself() {
        for (pattern, plain) in [
            ("http://h/a.gz", Some("http://h/a.gz")),
            ("http://h/search?q=[a*]", Some("http://h/search?q=[a*]")),
            ("http://[::1]:80/a", Some("http://[::1]:80/a")),
            ("http://h/a\\*b", Some("http://h/a*b")),
            ("http://h", Some("http://h")),
            ("http://h/*.gz", None),
            ("http://h/[ab]", None),
        ] {
            assert_eq!(unquoted(&Name::from(pattern)), plain.map(Name::from), "{pattern}");
        }
    }

    #[test]
    fn a_device_is_a_server() {
        let web = Web::new(false, Duration::from_secs(1));
        for (name, device) in
            [("http://Host:80/a/b", "http://host"), ("https://host:8443/a?b", "https://host:8443")]
        {
            assert_eq!(web.device(&Name::from(name)), Device::new(device));
        }
    }
}
