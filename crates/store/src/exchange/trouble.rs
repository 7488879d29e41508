//! Requests that got no answer, and answers that broke off, as the store's errors.

use std::error::Error as StdError;
use std::io;

use super::IDLE_MAX;
use super::network::Private;
use super::proxies::Proxies;
use super::redirects::shown;
use crate::{Error, Name, is_short_of_descriptors, without_number};

/// The error that a request without an answer stands for, or an answer that broke off.
pub(crate) fn unanswered(name: &Name, error: reqwest::Error) -> Error {
    let proxy = error.url().and_then(|url| Proxies::of_environment().proxy_of(url));
    described(name, &error, proxy).caused_by(error.without_url())
}

/// The same of a client that goes by no proxy.
#[cfg(feature = "object")]
pub(crate) fn unanswered_directly(name: &Name, error: reqwest::Error) -> Error {
    described(name, &error, None).caused_by(error.without_url())
}

fn described(name: &Name, error: &reqwest::Error, proxy: Option<String>) -> Error {
    let name = name.clone();
    let reason = said(error);
    let url = error.url();
    let host = match url.and_then(|url| url.host_str()) {
        // It may be of the password.
        Some(_) if name.hides_host() => "...",
        Some(host) => host,
        None => "the server",
    };
    let by = proxy.as_ref().map_or(String::new(), |proxy| format!(" by the proxy {proxy}"));
    if let Some(private) = causes(error).find_map(|cause| cause.downcast_ref::<Private>()) {
        Error::refused(name, private.to_string())
    } else if error.is_redirect() || error.is_builder() {
        Error::refused(name, reason)
    } else if is_out_of_descriptors(error) {
        Error::busy(name, Some(IDLE_MAX), reason)
    } else if is_no_host(error, &reason) {
        let what = match proxy {
            Some(proxy) => format!(
                "there is no host {host}, or none of the proxy {proxy} ({reason}): check both names"
            ),
            None => format!("there is no host {host} ({reason}): check the name and the endpoint"),
        };
        Error::refused(name, what)
    } else if is_nonsense(error, &reason) {
        let what = format!(
            "{host}{by} is not understood ({reason}): check https or http, and its certificate"
        );
        Error::refused(name, what)
    } else if error.is_timeout() {
        Error::interrupted(name, format!("no connection to {host}{by} in time"))
    } else if error.is_connect() {
        Error::interrupted(name, format!("no connection to {host}{by} ({reason})"))
    } else {
        Error::interrupted(name, format!("the connection to {host}{by} broke ({reason})"))
    }
}

/// Whether it was this process, or this machine, that had no place for a connection: one that rests
/// gives it up by itself.
fn is_out_of_descriptors(error: &reqwest::Error) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref()).any(is_short_of_descriptors)
}

/// Whether a name stands for no host; a name server that is out of reach says nothing about that.
fn is_no_host(error: &reqwest::Error, reason: &str) -> bool {
    // Only a resolver of our own marks its errors.
    let words = ["Name or service not known", "No address associated", "nodename nor servname"];
    !reason.contains("Temporary failure")
        && (error.is_dns() || words.iter().any(|words| reason.contains(words)))
}

/// Whether the server speaks something else, or shows a certificate that is not to be trusted.
fn is_nonsense(error: &reqwest::Error, reason: &str) -> bool {
    let mut kinds = causes(error).filter_map(|cause| cause.downcast_ref()).map(io::Error::kind);
    let words = [
        "certificate",
        "InvalidContentType",
        "tls handshake",
        "HandshakeFailure",
        "ProtocolVersion",
    ];
    kinds.any(|kind| kind == io::ErrorKind::InvalidData)
        || words.iter().any(|words| reason.contains(words))
}

/// The innermost reason of an error of the client, which wraps it in what it was doing.
pub(crate) fn said(error: &reqwest::Error) -> String {
    let own = || match error.url() {
        Some(url) => error.to_string().replace(url.as_str(), &shown(url).to_string()),
        None => error.to_string(),
    };
    causes(error).last().map_or_else(own, without_number)
}

/// What an error comes from, outermost first.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&error| inner(error))
}

/// What an error wraps; the system's type passes over its own in `source`.
fn inner<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
        None => error.source(),
    }
}
