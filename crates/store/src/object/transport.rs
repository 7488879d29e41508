//! The HTTP of one operation of `OpenDAL`: over our own wire, and remembering what the server said.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use opendal::{Buffer, ErrorKind, HttpBody, HttpTransport};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue};

use super::error::Refusal;
use super::rounds::{Asked, GOES_ROUND};
use super::wire::{Wire, passes};
use crate::exchange::{content_range, fields, unanswered};
use crate::patience::{ATTEMPTS, pause, waits};
use crate::sync::lock;
use crate::{Error, Name};

/// Sends the requests of one operation about one object.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    wire: Wire,
    /// The server; what those say that hand out keys is not about the object.
    host: Arc<str>,
    name: Name,
    said: Arc<Mutex<Option<Said>>>,
    headers: Arc<Mutex<HeaderMap>>,
    is_patient: Arc<AtomicBool>,
    is_waiting: Arc<AtomicBool>,
    begun: Arc<AtomicU64>,
    pages: Arc<Mutex<Option<Asked>>>,
}

/// What stood in the way of the last request.
#[derive(Debug)]
pub(super) enum Said {
    /// The server's answer.
    Refused(Refusal),
    /// There was no answer.
    Failed(Error),
}

impl Transport {
    /// For requests to `host` about `name`.
    pub(super) fn new(wire: &Wire, host: &Arc<str>, name: &Name) -> Self {
        let host = Arc::clone(host);
        Self {
            wire: wire.clone(),
            host,
            name: name.clone(),
            said: Arc::default(),
            headers: Arc::default(),
            is_patient: Arc::default(),
            is_waiting: Arc::default(),
            begun: Arc::default(),
            pages: Arc::default(),
        }
    }

    /// The same, for a listing whose pages have addresses of their own, each with what the page before it
    /// said: one that comes again would be followed by the same pages for ever.
    pub(super) fn of_pages(self) -> Self {
        *lock(&self.pages) = Some(Asked::default());
        self
    }

    /// What stood in the way of the last request to the server, if anything did, or of its keys for now.
    pub(super) fn said(&self) -> Option<Said> {
        lock(&self.said).take()
    }

    /// The head of the last answer that was good.
    pub(super) fn headers(&self) -> Vec<(String, String)> {
        fields(&lock(&self.headers))
    }

    /// Bytes of the last good answer before `start`, from where on the object was asked for: all of them,
    /// of a server that takes no notice of ranges.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is of another part.
    pub(super) fn bytes_before(&self, start: u64) -> Result<u64, Error> {
        match content_range(&lock(&self.headers)) {
            Some((Some(sent), _)) if sent.start == start => Ok(0),
            Some((Some(_), _)) => {
                let reason = "the server sent another part of it than it was asked for";
                Err(Error::refused(self.name.clone(), reason))
            }
            Some((None, _)) | None => Ok(start),
        }
    }

    /// From now on requests that errors which pass keep from being answered are made again.
    pub(super) fn be_patient(&self) {
        self.is_patient.store(true, Ordering::Relaxed);
    }

    /// Whether the server is left alone for a while before it is asked again.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// How many requests were begun, each of which is answered in time or fails.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether a listing has come to a page where it has been.
    fn goes_round(&self, request: &http::Request<Buffer>) -> bool {
        let mut pages = lock(&self.pages);
        let Some(pages) = pages.as_mut().filter(|_| request.uri().host() == Some(&self.host))
        else {
            return false;
        };
        request.method() == http::Method::GET && pages.again(request.uri())
    }

    fn remember(&self, said: Said) {
        *lock(&self.said) = Some(said);
    }

    async fn answer(
        &self,
        request: http::Request<Buffer>,
    ) -> opendal::Result<http::Response<HttpBody>> {
        let uri = request.uri().clone();
        let is_head = request.method() == http::Method::HEAD;
        let is_ours = uri.host() == Some(&self.host);
        // `OpenDAL` makes the root of an HDFS that says it has none.
        if is_ours && matches!(request.method().as_str(), "PUT" | "POST" | "DELETE" | "MKCOL") {
            return Err(opendal::Error::new(ErrorKind::Unsupported, "nothing is written here"));
        }
        let mut request = reqwest::Request::try_from(request.map(|body| body.to_bytes()))
            .map_err(|error| opendal::Error::new(ErrorKind::Unexpected, error.to_string()))?;
        // The bytes of an object at Google's, who unpacks those that are kept packed for everybody
        // else, and then knows neither lengths nor ranges.
        if is_ours && uri.query().is_some_and(|query| query.split('&').any(|it| it == "alt=media"))
        {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        self.begun.fetch_add(1, Ordering::Relaxed);
        let answer = match self.wire.ask(&self.name, request).await {
            Ok(answer) => answer,
            Err(error) => {
                let failed = opendal::Error::new(ErrorKind::Unexpected, error.reason());
                // Keys that cannot be had for now are not keys that nobody has.
                if is_ours || error.is_transient() {
                    self.remember(Said::Failed(error));
                }
                return Err(failed);
            }
        };
        let mut plain = http::Response::builder().status(answer.status()).extension(uri);
        if let Some(headers) = plain.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let is_passing = passes(answer.status());
        let body = if answer.status().as_u16() >= 400 {
            let (refusal, text) = self.wire.refusal(answer).await;
            if is_ours || is_passing {
                self.remember(Said::Refused(refusal));
            }
            HttpBody::new(futures::stream::iter([Ok(Buffer::from(text))]), None)
        } else {
            if is_ours {
                drop(self.said());
            }
            *lock(&self.headers) = answer.headers().clone();
            let length = answer.headers().get(CONTENT_LENGTH).filter(|_| !is_head);
            let length = length.and_then(|text| text.to_str().ok()?.parse().ok());
            let name = self.name.clone();
            let bytes = answer.bytes_stream().map_ok(Buffer::from).map_err(move |error| {
                let error = unanswered(&name, error);
                let told = opendal::Error::new(ErrorKind::Unexpected, error.reason());
                told.set_temporary().set_source(error)
            });
            HttpBody::new(
                bytes.try_filter(|bytes| futures::future::ready(!bytes.is_empty())),
                length,
            )
        };
        plain
            .body(body)
            .map_err(|error| opendal::Error::new(ErrorKind::Unexpected, error.to_string()))
    }
}

impl HttpTransport for Transport {
    async fn fetch(
        &self,
        request: http::Request<Buffer>,
    ) -> opendal::Result<http::Response<HttpBody>> {
        if self.goes_round(&request) {
            self.remember(Said::Failed(Error::refused(self.name.clone(), GOES_ROUND)));
            return Err(opendal::Error::new(ErrorKind::Unexpected, GOES_ROUND));
        }
        for wait in waits(ATTEMPTS) {
            let answer = self.answer(request.clone()).await;
            let passes = answer.as_ref().map_or(true, |answer| passes(answer.status()));
            // It may have become patient since it was asked.
            if !passes || !self.is_patient.load(Ordering::Relaxed) {
                return answer;
            }
            let asked_for = answer.ok().and_then(|it| self.wire.retry_after(it.headers()));
            self.is_waiting.store(true, Ordering::Relaxed);
            tokio::time::sleep(pause(wait, asked_for)).await;
            self.is_waiting.store(false, Ordering::Relaxed);
        }
        self.answer(request).await
    }
}
