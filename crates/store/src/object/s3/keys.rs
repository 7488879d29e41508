//! Keys that servers hand out: whether there are none, or only none for now.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use reqsign_aws_v4::Credential;
use reqsign_core::{Context, Error, HttpSend, ProvideCredential, ProvideCredentialChain, Result};

use super::super::wire::{Wire, passes};
use crate::Name;
use crate::sync::lock;

/// Why a server gave none that may give some if it is asked again.
type Trouble = Arc<Mutex<Option<String>>>;

/// Where keys come from. What goes wrong in one place only makes the chain ask in the next.
#[derive(Debug)]
pub(super) struct Keys {
    chain: ProvideCredentialChain<Credential>,
    trouble: Trouble,
}

impl Keys {
    /// From this chain, whose servers are asked by the other.
    pub(super) fn of(chain: ProvideCredentialChain<Credential>, wire: Wire) -> (Self, KeyServers) {
        let trouble = Trouble::default();
        (Self { chain, trouble: Arc::clone(&trouble) }, KeyServers { wire, trouble })
    }

    fn trouble(&self) -> Option<String> {
        lock(&self.trouble).take()
    }
}

impl ProvideCredential for Keys {
    type Credential = Credential;

    /// The signer asks for keys once at a time. What only this makes an error that may be tried again
    /// is that there are none for now.
    async fn provide_credential(&self, context: &Context) -> Result<Option<Credential>> {
        drop(self.trouble());
        match self.chain.provide_credential(context).await? {
            None => self
                .trouble()
                .map_or(Ok(None), |why| Err(Error::unexpected(why).set_retryable(true))),
            found => Ok(found),
        }
    }
}

/// Asks the servers that hand out keys.
#[derive(Debug)]
pub(super) struct KeyServers {
    wire: Wire,
    trouble: Trouble,
}

impl KeyServers {
    fn note(&self, why: String) {
        *lock(&self.trouble) = Some(why);
    }
}

impl HttpSend for KeyServers {
    async fn http_send(&self, request: Request<Bytes>) -> Result<Response<Bytes>> {
        let failed = |error: String| Error::unexpected(error);
        let broken = |error: crate::Error| {
            if error.is_transient() {
                self.note(error.reason());
            }
            failed(error.reason())
        };
        let name = Name::from("the server of credentials");
        let request =
            reqwest::Request::try_from(request).map_err(|error| failed(error.to_string()))?;
        let answer = self.wire.ask(&name, request).await.map_err(broken)?;
        if passes(answer.status()) {
            self.note(format!("the server of credentials answered {}", answer.status()));
        }
        let mut plain = Response::builder().status(answer.status());
        if let Some(headers) = plain.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let text = self.wire.text(&name, answer).await.map_err(broken)?;
        plain.body(text).map_err(|error| failed(error.to_string()))
    }
}
