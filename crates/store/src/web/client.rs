//! The clients of all requests of a process.

use std::sync::Arc;

use reqwest::Client;

use crate::exchange::{CONNECT_MAX, Hosts, IDLE_MAX, Proxies, Resolver, following, said};

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

/// A client with its pool of connections, and the proxies of the environment that it goes by.
///
/// # Errors
/// Text: no certificates of the system.
pub(super) fn client(bodies: Bodies, hosts: &Arc<Hosts>) -> Result<(Client, Arc<Proxies>), String> {
    let proxies = Arc::new(Proxies::of_environment());
    let decode = bodies == Bodies::Decoded;
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_MAX)
        .pool_idle_timeout(IDLE_MAX)
        .redirect(following(Arc::clone(hosts), Arc::clone(&proxies)))
        .dns_resolver(Resolver(Arc::clone(hosts)))
        // A window of 64 KiB would hold a far server to 64 KiB a round trip.
        .http2_adaptive_window(true)
        .referer(false)
        .gzip(decode)
        .brotli(decode)
        .zstd(decode)
        .deflate(decode)
        .build()
        .map(|client| (client, proxies))
        .map_err(|error| said(&error))
}
