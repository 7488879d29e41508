//! Requests to S3, signed as AWS wants them.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Method;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::{Context, ErrorKind, OsEnv, Signer};
use reqsign_file_read_tokio::TokioFileRead;

use super::super::wire::Wire;
use super::keys::Keys;
use super::process::Programs;
use super::settings::Settings;
use crate::silence::meanwhile;
use crate::sync::lock;
use crate::{Error, Name};

/// All but what RFC 3986 leaves unreserved: what AWS signs by.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// As [`QUERY`], between the slashes.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// What a request is besides its signature.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// What is done.
    pub(super) method: Method,
    /// To which object, as it is; empty for the bucket.
    pub(super) key: &'a str,
    /// Names and values, as they are.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Names in lower case, and values.
    pub(super) headers: &'a [(&'static str, String)],
    /// What is sent along.
    pub(super) body: Bytes,
}

/// Signs and sends the requests to one bucket.
#[derive(Debug)]
pub(super) struct Requests {
    wire: Wire,
    settings: Settings,
    /// Where the bucket is, as far as is known.
    place: Mutex<Arc<Place>>,
}

/// A region, and what follows from it.
#[derive(Debug)]
struct Place {
    region: String,
    base: String,
    signer: Option<Signer<Credential>>,
}

impl Place {
    fn new(region: &str, wire: &Wire, settings: &Settings) -> Self {
        let signer = settings.signed.then(|| {
            let (keys, servers) = Keys::of(settings.credentials(), wire.clone());
            let context = Context::new()
                .with_env(OsEnv)
                .with_file_read(TokioFileRead)
                .with_command_execute(Programs)
                .with_http_send(servers);
            Signer::new(context, keys, RequestSigner::new("s3", region))
        });
        Self { region: region.to_owned(), base: settings.base(region), signer }
    }
}

impl Requests {
    /// Over `wire`.
    pub(super) fn new(wire: Wire, settings: Settings) -> Self {
        let place = Mutex::new(Arc::new(Place::new(&settings.region, &wire, &settings)));
        Self { wire, settings, place }
    }

    /// What is good of the answers to a request.
    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The answer, if it is one of success; otherwise why it is none.
    pub(super) async fn send(
        &self,
        name: &Name,
        request: Request<'_>,
    ) -> Result<reqwest::Response, Error> {
        let answer = self.ask(name, request).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(self.wire.refusal(answer).await.0.about(name))
    }

    /// The answer, whatever its status. Where it says that the bucket is in another region, the
    /// request is made there once more, and so are all that follow.
    pub(super) async fn ask(
        &self,
        name: &Name,
        request: Request<'_>,
    ) -> Result<reqwest::Response, Error> {
        let place = Arc::clone(&lock(&self.place));
        let answer = self.ask_at(&place, name, &request).await?;
        let (answer, region) = self.region_told(answer).await;
        match region.and_then(|region| self.moved(&place, &region)) {
            Some(place) => self.ask_at(&place, name, &request).await,
            None => Ok(answer),
        }
    }

    async fn ask_at(
        &self,
        place: &Place,
        name: &Name,
        request: &Request<'_>,
    ) -> Result<reqwest::Response, Error> {
        let bad = |error: String| Error::refused(name.clone(), error);
        let url = url(place, name, request)?;
        let mut built = http::Request::builder().method(&request.method).uri(url);
        for (header, value) in request.headers {
            built = built.header(*header, value);
        }
        if self.settings.pays {
            built = built.header("x-amz-request-payer", "requester");
        }
        let built = built.body(request.body.clone()).map_err(|error| bad(error.to_string()))?;
        let (mut head, body) = built.into_parts();
        sign(place, name, &mut head).await?;
        let request = http::Request::from_parts(head, body);
        let request =
            reqwest::Request::try_from(request).map_err(|error| bad(error.to_string()))?;
        self.wire.ask(name, request).await
    }

    /// The same answer, and the region that it sends us to.
    async fn region_told(&self, answer: reqwest::Response) -> (reqwest::Response, Option<String>) {
        let status = answer.status();
        let told = answer.headers().get("x-amz-bucket-region");
        let told = told.and_then(|region| Some(region.to_str().ok()?.to_owned()));
        match status.as_u16() {
            // Of a wrong region a HEAD knows no more than this.
            301 | 307 | 308 | 400 | 403 if told.is_some() => (answer, told),
            301 | 307 | 308 | 400 => {
                let headers = answer.headers().clone();
                let (refusal, text) = self.wire.refusal(answer).await;
                let mut again = http::Response::new(text);
                *again.status_mut() = status;
                *again.headers_mut() = headers;
                // What of the text was read, which may not be all.
                again.headers_mut().remove(CONTENT_LENGTH);
                (again.into(), refusal.region)
            }
            _ => (answer, None),
        }
    }

    /// Where to ask instead of at `asked`, if that is elsewhere.
    fn moved(&self, asked: &Place, region: &str) -> Option<Arc<Place>> {
        // It becomes part of a host's name.
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region == asked.region || region.is_empty() || !region.bytes().all(is_name) {
            return None;
        }
        let mut place = lock(&self.place);
        if place.region != region {
            *place = Arc::new(Place::new(region, &self.wire, &self.settings));
        }
        Some(Arc::clone(&place))
    }
}

fn url(place: &Place, name: &Name, request: &Request<'_>) -> Result<String, Error> {
    // URLs have no such parts: they would be taken out, and another object asked for.
    if request.key.split('/').any(|part| matches!(part, "." | "..")) {
        let reason = "a key with a part . or .. cannot be asked for by a URL";
        return Err(Error::refused(name.clone(), reason));
    }
    let mut url = format!("{}/{}", place.base, utf8_percent_encode(request.key, PATH));
    for (index, (field, value)) in request.query.iter().enumerate() {
        let mark = if index == 0 { '?' } else { '&' };
        let value = utf8_percent_encode(value, QUERY);
        write!(url, "{mark}{field}={value}").expect("text takes all that is written");
    }
    Ok(url)
}

async fn sign(place: &Place, name: &Name, head: &mut Parts) -> Result<(), Error> {
    let Some(signer) = &place.signer else { return Ok(()) };
    meanwhile(signer.sign(head, None)).await.map_err(|error| unsigned(name, error))
}

fn unsigned(name: &Name, error: reqsign_core::Error) -> Error {
    let unsigned = match error.kind() {
        ErrorKind::CredentialInvalid => Error::denied(name.clone(), NO_CREDENTIALS),
        _ if error.is_retryable() => {
            Error::interrupted(name.clone(), format!("no credentials for now: {error}"))
        }
        _ => Error::refused(name.clone(), format!("the request cannot be signed: {error}")),
    };
    unsigned.caused_by(error)
}

/// What to do where there are no keys.
const NO_CREDENTIALS: &str = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
    or AWS_PROFILE and ~/.aws/credentials, or for a public bucket AWS_SKIP_SIGNATURE=true \
    (a profile's credential_process, web identity, container and instance roles were tried too)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_signed_is_not_tried_again_unless_keys_may_come() {
        let name = Name::from("s3://bucket/a");
        let error = || reqsign_core::Error::unexpected("a header");
        assert!(matches!(unsigned(&name, error()), Error::Refused { .. }));
        let passing = unsigned(&name, error().set_retryable(true));
        assert!(matches!(passing, Error::Interrupted { .. }));
    }
}
