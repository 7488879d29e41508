//! Which addresses are private, and which hosts may be connected to there.
//!
//! Whoever writes a public page chooses its links, but the reader's machine
//! follows them: it can reach what the writer cannot. So a host that was only
//! named by a public page, and one that has had a public address before, is
//! not connected to at a private one, whatever its name resolves to then.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use reqwest::dns::{Addrs, Resolve, Resolving};
use url::{Host, Url};

use crate::sync::lock;
use crate::{Error, Name};

/// Hosts that are remembered. A page that never ends could name more, which
/// are then not followed.
const HOSTS_MAX: usize = 1 << 16;

/// Endings of names that no public server has (RFC 6761, 6762, 8375; `internal` by ICANN, 2024).
const PRIVATE_ENDINGS: [&str; 5] = ["localhost", "local", "internal", "home.arpa", "localdomain"];

/// What is known of the hosts that a process has heard of.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    known: Mutex<HashMap<Box<str>, Known>>,
    all_allowed: bool,
}

/// Schemes of names that have a host which is connected to.
const WITH_HOSTS: [&str; 10] =
    ["http", "https", "webdav", "webdavs", "dav", "davs", "sftp", "hdfs", "webhdfs", "swebhdfs"];

/// The server of a name, if that is a host which is connected to.
fn server(name: &Name) -> Option<Url> {
    let scheme = name.scheme()?.to_ascii_lowercase();
    let (_, rest) = name.url()?.split_once("://").filter(|_| WITH_HOSTS.contains(&&*scheme))?;
    // Of other schemes an address would be taken for a name.
    Url::parse(&format!("http://{rest}")).ok()
}

/// How a host was heard of, and what its name resolved to.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    by: By,
    was_public: bool,
    was_private: bool,
}

/// Who named a host; what the caller says outweighs a page.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    #[default]
    Nobody,
    Page,
    #[cfg(feature = "web")]
    Caller,
}

impl Known {
    fn may_be_private(self) -> bool {
        !self.was_public && self.by != By::Page
    }
}

impl Hosts {
    /// With private addresses allowed to every host, or to those that were told.
    pub(crate) fn new(all_allowed: bool) -> Self {
        Self { known: Mutex::default(), all_allowed }
    }

    /// The caller named this URL itself.
    #[cfg(feature = "web")]
    pub(crate) fn told(&self, url: &Url) {
        self.note(url, |known| known.by = By::Caller);
    }

    /// Whether what answers there is in a private network, as far as is known.
    pub(crate) fn is_private(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Ipv4(address)) => is_private(address.into()),
            Some(Host::Ipv6(address)) => is_private(address.into()),
            Some(Host::Domain(name)) => {
                let known = self.known(name);
                is_private_name(name) || known.was_private && !known.was_public
            }
            None => true,
        }
    }

    /// Whether a public page may name this URL; if so, it is watched when it is resolved.
    pub(crate) fn may_link(&self, url: &Url) -> bool {
        self.all_allowed
            || !self.is_private(url) && self.note(url, |known| known.by = known.by.max(By::Page))
    }

    /// Whether everything may be linked from everywhere.
    #[cfg(feature = "web")]
    pub(crate) fn all_allowed(&self) -> bool {
        self.all_allowed
    }

    /// Whether a list that a server gave may hold this name: by the same rule as a link of a page.
    ///
    /// # Errors
    /// [`Error::Refused`] if not.
    pub(crate) fn admits(&self, list: &Name, name: &Name) -> Result<(), Error> {
        let Some(server) = server(list).filter(|_| !self.all_allowed) else { return Ok(()) };
        if name.scheme().is_none_or(|scheme| scheme.eq_ignore_ascii_case("file")) {
            let reason = "a list of a server names a file of this machine, which is not read unless private links are allowed";
            return Err(Error::refused(name.clone(), reason));
        }
        match self::server(name) {
            Some(url) if !self.is_private(&server) && !self.may_link(&url) => {
                let host = url.host_str().unwrap_or_default().to_owned();
                Err(Error::refused(name.clone(), Private(host).to_string()))
            }
            _ => Ok(()),
        }
    }

    /// False if there is no room to note it.
    fn note(&self, url: &Url, change: impl FnOnce(&mut Known)) -> bool {
        let Some(Host::Domain(name)) = url.host() else { return true };
        self.change(name, change)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Known)) -> bool {
        let mut all = lock(&self.known);
        if let Some(known) = all.get_mut(name) {
            change(known);
            return true;
        }
        let room = all.len() < HOSTS_MAX;
        if room {
            change(all.entry(name.into()).or_default());
        }
        room
    }

    fn known(&self, name: &str) -> Known {
        let all = lock(&self.known);
        all.get(name).copied().unwrap_or_default()
    }

    /// Of the addresses of a name, those that may be connected to.
    fn allowed(&self, name: &str, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Private> {
        let before = self.known(name);
        let (private, public): (Vec<_>, Vec<_>) =
            addresses.iter().partition(|address| is_private(address.ip()));
        self.change(name, |known| {
            known.was_public |= !public.is_empty();
            known.was_private |= !private.is_empty();
        });
        if self.all_allowed || before.may_be_private() && public.is_empty() {
            return Ok(addresses);
        }
        if public.is_empty() && !private.is_empty() {
            return Err(Private(name.to_owned()));
        }
        Ok(public)
    }
}

/// A host that a public page named, or that was public, and now is in a private network.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} is in a private network, which links of public pages and lists are not followed to unless private links are allowed"
)]
pub(crate) struct Private(pub(crate) String);

/// Resolves names by the system, and keeps those in that [`Hosts`] allows.
#[derive(Debug)]
pub(crate) struct Resolver(pub(crate) Arc<Hosts>);

impl Resolve for Resolver {
    fn resolve(&self, name: reqwest::dns::Name) -> Resolving {
        let hosts = Arc::clone(&self.0);
        Box::pin(async move {
            // Before a proxy of SOCKS the client asks for addresses, too, as they are in URLs.
            let name = name.as_str().trim_matches(['[', ']']);
            let found: io::Result<Vec<_>> =
                tokio::net::lookup_host((name, 0)).await.map(Iterator::collect);
            let allowed = hosts.allowed(name, found?)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn is_private_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    PRIVATE_ENDINGS.iter().any(|ending| {
        name.strip_suffix(ending).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Whether an address is of this machine, of a network that is not routed
/// publicly, or of no host at all (IANA's special-purpose registries).
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || a == 0
        || a == 100 && (64..128).contains(&b) // shared by a carrier's customers, RFC 6598
        || a == 192 && b == 0 && c == 0 // protocol assignments, RFC 6890
        || a == 198 && (b == 18 || b == 19) // benchmarks, RFC 2544
        || a >= 224
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // None and loopback; translated by a local prefix (RFC 8215).
        [0, 0, 0, 0, 0, 0, 0, _] | [0x64, 0xff9b, 1, ..] => true,
        // Addresses of the older protocol: mapped, compatible, translated (RFC 6052), 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            inner(high, low)
        }
        [0x2002, high, low, ..] => inner(high, low),
        // Unique local, link local, the old site local, multicast.
        [first, ..] => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80 || first >= 0xff00,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn at(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
    }

    #[test]
    fn addresses_that_only_this_side_can_reach_are_private() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "255.255.255.255",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn urls_hide_no_private_address() {
        let hosts = Hosts::default();
        for private in [
            "http://0x7f.1/",
            "http://2130706433/",
            "http://[::1]/",
            "http://printer.local/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://metadata.google.internal/",
            "http://[::ffff:192.168.1.1]/",
        ] {
            assert!(hosts.is_private(&url(private)) && !hosts.may_link(&url(private)), "{private}");
        }
        for public in ["http://8.8.8.8/", "http://nonlocal/", "https://example.org/"] {
            assert!(hosts.may_link(&url(public)), "{public}");
        }
        assert!(Hosts::new(true).may_link(&url("http://127.0.0.1/")));
    }

    #[test]
    fn a_list_of_a_server_leads_where_its_pages_do() {
        let admits = |hosts: &Hosts, list: &str, name: &str| {
            hosts.admits(&Name::from(list), &Name::from(name)).is_ok()
        };
        let hosts = Hosts::new(false);
        for [public, private] in [
            ["https://h.example/list", "http://10.0.0.1/list"],
            ["webdavs://h.example/list", "WebDAV://me@nas.local/list"],
        ] {
            for name in ["/etc/passwd", "a", "file:///a", "FILE:///a"] {
                assert!(!admits(&hosts, public, name) && !admits(&hosts, private, name), "{name}");
            }
            for name in ["http://127.0.0.1/", "sftp://me@10.0.0.2:22/a", "WebDAV://printer.local/a"]
            {
                assert!(!admits(&hosts, public, name) && admits(&hosts, private, name), "{name}");
            }
            for name in ["https://o.example/a", "sftp://o.example/a", "s3://local/a", "gs://b/a"] {
                assert!(admits(&hosts, public, name) && admits(&hosts, private, name), "{name}");
            }
        }
        for list in ["s3://bucket/list", "gs://bucket/list", "az://box/list", "list"] {
            assert!(
                admits(&hosts, list, "a") && admits(&hosts, list, "http://127.0.0.1/"),
                "{list}"
            );
        }
        let (all, list) = (Hosts::new(true), "https://h.example/list");
        assert!(admits(&all, list, "/etc/passwd") && admits(&all, list, "http://10.0.0.1/"));
    }

    #[test]
    fn a_linked_host_is_not_connected_to_at_a_private_address() {
        let hosts = Hosts::default();
        assert!(hosts.may_link(&url("http://trap.example/")));
        assert!(hosts.allowed("trap.example", at(&["10.0.0.1"])).is_err());
        assert!(!hosts.may_link(&url("http://trap.example/")), "known to be private");
        assert!(hosts.may_link(&url("http://mixed.example/")));
        let public = at(&["8.8.8.8"]);
        assert_eq!(hosts.allowed("mixed.example", at(&["10.0.0.1", "8.8.8.8"])).unwrap(), public);
    }

    #[test]
    fn a_told_host_is_connected_to_at_a_private_address_unless_it_was_public() {
        let hosts = Hosts::default();
        hosts.told(&url("http://intranet.example/"));
        assert!(hosts.may_link(&url("http://intranet.example/")));
        assert!(hosts.allowed("intranet.example", at(&["10.0.0.1"])).is_ok());
        hosts.told(&url("http://rebound.example/"));
        assert!(hosts.allowed("rebound.example", at(&["8.8.8.8"])).is_ok());
        assert!(hosts.allowed("rebound.example", at(&["127.0.0.1"])).is_err());
    }

    #[test]
    fn no_more_hosts_are_followed_than_are_watched() {
        let hosts = Hosts::default();
        for host in 0..HOSTS_MAX {
            assert!(hosts.may_link(&url(&format!("http://h{host}.example/"))));
        }
        assert!(!hosts.may_link(&url("http://one-more.example/")));
        assert!(hosts.may_link(&url("http://h1.example/")));
    }
}
