//! The clients of all requests of a process, and how they follow redirects.

use std::sync::Arc;

use reqwest::{Client, Url, redirect};

use super::network::{Hosts, Private, Resolver};
use crate::Name;
use crate::exchange::{CONNECT_MAX, IDLE_MAX, said, sent_on};

/// As browsers and curl follow fewer than 50, and nobody needs more than a few.
const REDIRECTS_MAX: usize = 10;

/// What servers see of us.
const USER_AGENT: &str =
    concat!("nearfirst/", env!("CARGO_PKG_VERSION"), " (+", env!("CARGO_PKG_REPOSITORY"), ")");

/// What becomes of a body on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bodies {
    /// They are as the server stores them: lengths and ranges count.
    Stored,
    /// They are decoded: pages shrink to a fifth on their way.
    Decoded,
}

/// A client with its pool of connections, by proxies of the environment.
///
/// # Errors
/// Text: no certificates of the system, or a proxy that is no URL.
pub(super) fn client(bodies: Bodies, hosts: &Arc<Hosts>) -> Result<Client, String> {
    let decode = bodies == Bodies::Decoded;
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_MAX)
        .pool_idle_timeout(IDLE_MAX)
        .redirect(following(Arc::clone(hosts)))
        .dns_resolver(Resolver(Arc::clone(hosts)))
        // A window of 64 KiB would hold a far server to 64 KiB a round trip.
        .http2_adaptive_window(true)
        .referer(false)
        .gzip(decode)
        .brotli(decode)
        .zstd(decode)
        .deflate(decode)
        .build()
        .map_err(|error| said(&error))
}

fn shown(url: &Url) -> Name {
    Name::from(url.as_str()).redacted()
}

/// Up to [`REDIRECTS_MAX`] hops, none from a public server into a private network.
fn following(hosts: Arc<Hosts>) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        let url = attempt.url();
        if attempt.previous().len() > REDIRECTS_MAX {
            let text =
                format!("redirected more than {REDIRECTS_MAX} times, lastly to {}", shown(url));
            return attempt.error(text);
        }
        if attempt.previous().contains(url) {
            let text = format!("redirected in a circle, back to {}", shown(url));
            return attempt.error(text);
        }
        let from_public = attempt.previous().last().is_some_and(|last| !hosts.is_private(last));
        if from_public && !hosts.may_link(url) {
            let host = url.host_str().unwrap_or_default().to_owned();
            return attempt.error(Private(host));
        }
        sent_on(url);
        attempt.follow()
    })
}
