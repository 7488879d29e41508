//! HTTP as the object stores use it: one request at a time, limits on connecting and on the first byte, none on the rest.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::redirect::Policy;

use super::cloud::{Cloud, is_of_cloud};
use super::error::Refusal;
use crate::exchange::{
    CONNECT_MAX, Hosts, IDLE_MAX, Proxies, Resolver, answered, anywhere, following, retry_after,
    text, unanswered, unanswered_directly,
};
use crate::sync::lock;
use crate::{Clock, Error, Name};

/// The most of an error's text that is read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// A page of a listing is some megabytes where its names are as long as they can be.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// A client of one server, which keeps its connections.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    client: reqwest::Client,
    /// Those that the client goes by.
    proxies: Arc<Proxies>,
    answer_max: Duration,
    clock: Clock,
    cloud: Arc<Mutex<Cloud>>,
}

/// Whether a client goes where an answer sends it.
#[derive(Debug)]
pub(super) enum Redirects {
    /// It does, without its credentials if that is another host, but from no public one into a
    /// private network.
    Follow(Arc<Hosts>),
    /// It does so there, too: the nodes that hold the data are where nobody else is to come.
    Anywhere(Arc<Hosts>),
    /// It does not: a signed request is for one host.
    Refuse,
}

impl Wire {
    /// Limited to `answer_max` until an answer begins.
    pub(super) fn new(answer_max: Duration, redirects: Redirects) -> Result<Self, Error> {
        let proxies = Arc::new(Proxies::of_environment());
        let client = client(answer_max);
        let client = match redirects {
            Redirects::Follow(hosts) => {
                let follow = following(Arc::clone(&hosts), Arc::clone(&proxies));
                client.dns_resolver(Resolver(hosts)).redirect(follow)
            }
            Redirects::Anywhere(hosts) => {
                client.dns_resolver(Resolver(hosts)).redirect(anywhere(Arc::clone(&proxies)))
            }
            Redirects::Refuse => {
                let anyone = Arc::new(Hosts::new(true));
                client.dns_resolver(Resolver(anyone)).redirect(Policy::none())
            }
        };
        let client = built(client)?;
        Ok(Self { client, proxies, answer_max, clock: Clock::real(), cloud: Arc::default() })
    }

    /// The answer, once it begins, whatever its status.
    pub(super) async fn ask(
        &self,
        name: &Name,
        request: reqwest::Request,
    ) -> Result<reqwest::Response, Error> {
        if !is_of_cloud(request.url()) {
            self.proxies
                .understood(request.url())
                .map_err(|reason| Error::refused(name.clone(), reason))?;
            return answered(name, self.answer_max, self.client.execute(request), unanswered).await;
        }
        let known = || lock(&self.cloud);
        let none = || Error::refused(name.clone(), "this machine is in no cloud");
        let limit = known().limit(self.clock.now(), self.answer_max).ok_or_else(none)?;
        // A proxy is elsewhere, and answers that it has not reached it. It is asked too rarely for its
        // connections to be kept.
        let direct = built(client(limit).no_proxy().redirect(Policy::none()))?;
        let answer = answered(name, limit, direct.execute(request), unanswered_directly).await;
        known().note(answer.is_ok(), self.clock.now());
        answer.map_err(|error| if *known() == Cloud::Answers { error } else { none() })
    }

    /// When a server asks to be asked again.
    pub(super) fn retry_after(&self, headers: &HeaderMap) -> Option<Duration> {
        retry_after(headers, &self.clock)
    }

    /// What the server says instead of what it was asked for, and its words.
    pub(super) async fn refusal(&self, answer: reqwest::Response) -> (Refusal, Vec<u8>) {
        let mut refusal = described(answer.status().as_u16(), answer.headers(), &self.clock);
        let mut text = Vec::new();
        let mut body = answer.bytes_stream();
        let read = async {
            while text.len() < REFUSAL_BYTES_MAX
                && let Some(Ok(bytes)) = body.next().await
            {
                text.extend_from_slice(&bytes);
            }
        };
        // What has come until then is enough to say.
        drop(tokio::time::timeout(self.answer_max, read).await);
        explain(&mut refusal, &text);
        (refusal, text)
    }

    /// The whole of a short answer, of which bytes must keep coming.
    pub(super) async fn text(
        &self,
        name: &Name,
        answer: reqwest::Response,
    ) -> Result<Bytes, Error> {
        let mut text = BytesMut::new();
        let mut body = answer.bytes_stream();
        let stalled = |_| Error::interrupted(name.clone(), "the answer stalled");
        while let Some(bytes) =
            tokio::time::timeout(self.answer_max, body.next()).await.map_err(stalled)?
        {
            text.extend_from_slice(&bytes.map_err(|error| unanswered(name, error))?);
            if text.len() > TEXT_BYTES_MAX {
                let reason = format!("an answer of more than {TEXT_BYTES_MAX} bytes");
                return Err(Error::refused(name.clone(), reason));
            }
        }
        Ok(text.freeze())
    }
}

fn client(answer_max: Duration) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(CONNECT_MAX.min(answer_max))
        .pool_idle_timeout(IDLE_MAX)
        // HTTP/2 would put all transfers into one connection, and so into one congestion window.
        .http1_only()
        // Objects are what was stored: nothing is unpacked on the way.
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .user_agent(concat!("nearfirst/", env!("CARGO_PKG_VERSION")))
}

fn built(client: reqwest::ClientBuilder) -> Result<reqwest::Client, Error> {
    client.build().map_err(|error| Error::refused("", format!("no HTTP client: {error}")))
}

/// Whether what this status stands for may be over when it is asked again.
pub(super) fn passes(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
}

/// What the head of an answer says of the reasons.
pub(super) fn described(status: u16, headers: &HeaderMap, clock: &Clock) -> Refusal {
    let text = |name| text(headers, &HeaderName::from_static(name));
    Refusal {
        status,
        retry_after: retry_after(headers, clock),
        region: text("x-amz-bucket-region").map(str::to_owned),
        code: text("x-ms-error-code").unwrap_or_default().to_owned(),
        message: String::new(),
    }
}

/// Reads the error documents of S3 and Azure (XML), Google and HDFS (JSON);
/// of any other the first line of its text.
pub(super) fn explain(refusal: &mut Refusal, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let between = |start: &str, end: &str| {
        let from = text.find(start)? + start.len();
        let to = from + text[from..].find(end)?;
        Some(text[from..to].trim().to_owned())
    };
    let json = serde_json::from_str(&text).ok();
    let field = |xml: &str, json_name: &str| {
        between(&format!("<{xml}>"), &format!("</{xml}>"))
            .or_else(|| json_text(json.as_ref()?, json_name).map(str::to_owned))
    };
    if let Some(code) = field("Code", "exception") {
        refusal.code = code;
    }
    if refusal.region.is_none() {
        refusal.region = between("<Region>", "</Region>");
    }
    let is_markup = text.trim_start().starts_with('<');
    refusal.message = field("Message", "message")
        .or_else(|| between("<title>", "</title>"))
        .or_else(|| text.lines().next().filter(|_| !is_markup).map(str::to_owned))
        .unwrap_or_default();
    if refusal.message.starts_with(&refusal.code) && !refusal.code.is_empty() {
        refusal.message =
            refusal.message[refusal.code.len()..].trim_start_matches([':', ' ']).to_owned();
    }
    refusal.message.truncate(refusal.message.floor_char_boundary(MESSAGE_BYTES_MAX));
}

/// A text in an answer, or in one of the objects that it is about: all is within `error` with Google, and
/// within `RemoteException` with HDFS.
fn json_text<'a>(json: &'a serde_json::Value, name: &str) -> Option<&'a str> {
    let fields = json.as_object()?;
    let own = fields.get(name).and_then(serde_json::Value::as_str);
    own.or_else(|| fields.values().find_map(|within| json_text(within, name)))
}

/// The most of a server's message that an error repeats: a line or two.
const MESSAGE_BYTES_MAX: usize = 300;
