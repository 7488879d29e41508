//! How far redirects are followed.

use std::sync::Arc;

use reqwest::{Url, redirect};

use super::network::{Hosts, Private};
use super::proxies::Proxies;
use super::sent_on::sent_on;
use crate::Name;

/// As browsers and curl follow fewer than 50, and nobody needs more than a few.
const REDIRECTS_MAX: usize = 10;

/// Up to [`REDIRECTS_MAX`] hops, none from a public server into a private network.
pub(crate) fn following(hosts: Arc<Hosts>, proxies: Arc<Proxies>) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        let from_public = attempt.previous().last().is_some_and(|last| !hosts.is_private(last));
        if from_public && !hosts.may_link(attempt.url()) {
            let host = attempt.url().host_str().unwrap_or_default().to_owned();
            return attempt.error(Private(host));
        }
        followed(attempt, &proxies)
    })
}

/// As many, wherever they lead.
#[cfg(feature = "object")]
pub(crate) fn anywhere(proxies: Arc<Proxies>) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| followed(attempt, &proxies))
}

fn followed(attempt: redirect::Attempt<'_>, proxies: &Proxies) -> redirect::Action {
    let url = attempt.url();
    if attempt.previous().len() > REDIRECTS_MAX {
        let text = format!("redirected more than {REDIRECTS_MAX} times, lastly to {}", shown(url));
        return attempt.error(text);
    }
    if attempt.previous().contains(url) {
        let text = format!("redirected in a circle, back to {}", shown(url));
        return attempt.error(text);
    }
    if let Err(text) = proxies.understood(url) {
        return attempt.error(text);
    }
    sent_on(url);
    attempt.follow()
}

/// A URL for people.
pub(super) fn shown(url: &Url) -> Name {
    Name::from(url.as_str()).redacted()
}
