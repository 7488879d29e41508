//! Requests to S3, signed as AWS wants them.

use std::fmt::Write as _;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::{Context, HttpSend, OsEnv, Signer};
use reqsign_file_read_tokio::TokioFileRead;

use super::super::wire::Wire;
use super::settings::Settings;
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
    base: String,
    signer: Option<Signer<Credential>>,
}

impl Requests {
    /// Over `wire`.
    pub(super) fn new(wire: Wire, settings: &Settings) -> Self {
        let signer = settings.signed.then(|| {
            let context = Context::new()
                .with_env(OsEnv)
                .with_file_read(TokioFileRead)
                .with_http_send(CredentialServer(wire.clone()));
            let signer = RequestSigner::new("s3", &settings.region);
            Signer::new(context, settings.credentials(), signer)
        });
        Self { wire, base: settings.base.clone(), signer }
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

    /// The answer, whatever its status.
    pub(super) async fn ask(
        &self,
        name: &Name,
        request: Request<'_>,
    ) -> Result<reqwest::Response, Error> {
        let bad = |error: String| Error::refused(name.clone(), error);
        let mut built =
            http::Request::builder().method(&request.method).uri(self.url(name, &request)?);
        for (header, value) in request.headers {
            built = built.header(*header, value);
        }
        let built = built.body(request.body).map_err(|error| bad(error.to_string()))?;
        let (mut head, body) = built.into_parts();
        self.sign(name, &mut head).await?;
        let request = http::Request::from_parts(head, body);
        let request =
            reqwest::Request::try_from(request).map_err(|error| bad(error.to_string()))?;
        self.wire.ask(name, request).await
    }

    fn url(&self, name: &Name, request: &Request<'_>) -> Result<String, Error> {
        // URLs have no such parts: they would be taken out, and another object asked for.
        if request.key.split('/').any(|part| matches!(part, "." | "..")) {
            let reason = "a key with a part . or .. cannot be asked for by a URL";
            return Err(Error::refused(name.clone(), reason));
        }
        let mut url = format!("{}/{}", self.base, utf8_percent_encode(request.key, PATH));
        for (index, (field, value)) in request.query.iter().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            let value = utf8_percent_encode(value, QUERY);
            write!(url, "{mark}{field}={value}").expect("text takes all that is written");
        }
        Ok(url)
    }

    async fn sign(&self, name: &Name, head: &mut Parts) -> Result<(), Error> {
        let Some(signer) = &self.signer else { return Ok(()) };
        signer.sign(head, None).await.map_err(|error| match error.kind() {
            reqsign_core::ErrorKind::CredentialInvalid => {
                Error::Denied { name: name.clone(), reason: NO_CREDENTIALS.to_owned() }
            }
            _ => Error::refused(name.clone(), format!("the request cannot be signed: {error}")),
        })
    }
}

/// What to do where there are no keys.
const NO_CREDENTIALS: &str = "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
    or AWS_PROFILE and ~/.aws/credentials, or for a public bucket AWS_SKIP_SIGNATURE=true \
    (web identity, container and instance roles were tried too)";

/// Asks the servers that hand out keys.
#[derive(Debug)]
struct CredentialServer(Wire);

impl HttpSend for CredentialServer {
    async fn http_send(
        &self,
        request: http::Request<Bytes>,
    ) -> reqsign_core::Result<http::Response<Bytes>> {
        let failed = |error: String| reqsign_core::Error::unexpected(error);
        let name = Name::from("the server of credentials");
        let request =
            reqwest::Request::try_from(request).map_err(|error| failed(error.to_string()))?;
        let answer = self.0.ask(&name, request).await.map_err(|error| failed(error.to_string()))?;
        let mut plain = http::Response::builder().status(answer.status());
        if let Some(headers) = plain.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let text = self.0.text(&name, answer).await.map_err(|error| failed(error.to_string()))?;
        plain.body(text).map_err(|error| failed(error.to_string()))
    }
}
