//! The proxies that the environment names. The client goes by them itself, as they are named when it is
//! made, but passes over what it does not understand, and never says by which it went.

use std::env;
use std::net::IpAddr;

use http::Uri;
use reqwest::Url;

/// What names the proxy of each scheme; the first that is set counts.
const VARIABLES: [(&str, [&str; 2]); 2] =
    [("http", ["HTTP_PROXY", "http_proxy"]), ("https", ["HTTPS_PROXY", "https_proxy"])];

/// What names that of a scheme which has none of its own.
const OF_ALL: [&str; 2] = ["ALL_PROXY", "all_proxy"];

/// What lists the hosts that are connected to directly.
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// A variable that names a proxy, and its value.
type Named = (&'static str, String);

/// Proxies, as the environment named them at one time: what is changed later does not concern clients that
/// were made before.
#[derive(Debug)]
pub(crate) struct Proxies {
    /// That of each scheme.
    named: [(&'static str, Option<Named>); 2],
    exceptions: String,
}

impl Proxies {
    /// To be read as a client is made.
    pub(crate) fn of_environment() -> Self {
        Self {
            named: VARIABLES.map(|(scheme, own)| (scheme, named(&own))),
            exceptions: first_set(&EXCEPTIONS).map_or(String::new(), |(_, list)| list),
        }
    }

    /// Refuses a request to `url` that the client would send past a proxy which it does not understand.
    ///
    /// # Errors
    /// Text that names the variable and what it may hold; not its value, which may hold a password.
    pub(crate) fn understood(&self, url: &Url) -> Result<(), String> {
        match self.named_for(url) {
            Some((variable, value)) if parsed(value).is_none() => Err(format!(
                "{variable} names no proxy that is understood: http://HOST:PORT, https://HOST:PORT, \
                 socks5h://HOST:PORT, or socks5, socks4a, socks4"
            )),
            _ => Ok(()),
        }
    }

    /// The host and the port of the proxy that a request to `url` goes by.
    pub(super) fn proxy_of(&self, url: &Url) -> Option<String> {
        let proxy = parsed(&self.named_for(url)?.1)?;
        let host = proxy.host()?;
        Some(proxy.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    }

    /// What names the proxy of requests to `url`, unless the host is an exception.
    fn named_for(&self, url: &Url) -> Option<&Named> {
        let (_, named) = self.named.iter().find(|(scheme, _)| *scheme == url.scheme())?;
        let named = named.as_ref()?;
        (!is_excepted(url.host_str()?, &self.exceptions)).then_some(named)
    }
}

/// The variable that names a proxy, and its value.
fn named(own: &[&'static str; 2]) -> Option<Named> {
    // What runs as a CGI program gets headers of a stranger as variables: `Proxy:` as `HTTP_PROXY`.
    if env::var_os("REQUEST_METHOD").is_some() {
        return None;
    }
    let is_some = |(_, value): &(_, String)| !value.is_empty();
    first_set(own).filter(is_some).or_else(|| first_set(&OF_ALL).filter(is_some))
}

fn first_set(names: &[&'static str; 2]) -> Option<Named> {
    let value = |&name| Some((name, env::var_os(name)?.to_string_lossy().into_owned()));
    names.iter().find_map(value)
}

/// A proxy that the client goes by.
fn parsed(value: &str) -> Option<Uri> {
    let proxy: Uri = value.parse().ok()?;
    let authority = proxy.authority()?;
    // A sign in a password that ends the host, or is one more `@`, is to be written as `%23` and so on.
    let signs = |text: &str| text.matches('@').count();
    if signs(value) > 1 || signs(value) != signs(authority.as_str()) {
        return None;
    }
    let host_and_port = authority.as_str().rsplit('@').next()?;
    if host_and_port != authority.host() && authority.port_u16().is_none() {
        return None;
    }
    let is_one = match proxy.scheme_str() {
        None | Some("http" | "https") => proxy.host().is_some(),
        // The client would take the port of HTTP.
        Some("socks4" | "socks4a" | "socks5" | "socks5h") => proxy.port().is_some(),
        Some(_) => false,
    };
    is_one.then_some(proxy)
}

/// Whether the list of exceptions holds this host, by the client's rules: addresses, networks, and
/// domains with all below them.
fn is_excepted(host: &str, list: &str) -> bool {
    let mut parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    match host.trim_matches(['[', ']']).parse() {
        Ok(address) => parts.any(|part| holds(part, address)),
        Err(_) => parts.any(|part| part == "*" || is_below(host, part)),
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    let domain = domain.strip_prefix('.').unwrap_or(domain).to_ascii_lowercase();
    let rest = host.strip_suffix(&*domain);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether an address is this one, or of this network (`10.0.0.0/8`).
fn holds(network: &str, address: IpAddr) -> bool {
    let Some((first, length)) = network.split_once('/') else {
        return network.parse() == Ok(address);
    };
    let Ok(length) = length.parse::<u32>() else { return false };
    match (first.parse(), address) {
        (Ok(IpAddr::V4(first)), IpAddr::V4(address)) => {
            length <= u32::BITS && (first.to_bits() ^ address.to_bits()).leading_zeros() >= length
        }
        (Ok(IpAddr::V6(first)), IpAddr::V6(address)) => {
            length <= u128::BITS && (first.to_bits() ^ address.to_bits()).leading_zeros() >= length
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_understood_as_the_client_does() {
        for good in [
            "http://h:3128",
            "http://h",
            "https://u:p@h:1/",
            "h:3128",
            "h",
            "socks5h://[::1]:1080",
            "HTTP://h",
            "socks4://h:1",
        ] {
            assert!(parsed(good).is_some(), "{good}");
        }
        for bad in [
            " http://h",
            "http://h ",
            "sock5://h:1",
            "socks5://h",
            "http://",
            "/h",
            "SOCKS5://h:1",
            "ü",
            "http://me:20#x@h:3128",
            "http://me:20/x@h:3128",
            "http://me:p@ss@h:3128",
            "http://h:31x28",
            "http://h:99999",
        ] {
            assert!(parsed(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn exceptions_are_addresses_networks_and_domains() {
        let list = "a.org, .b.org,10.0.0.0/8,::1,fd00::/8,192.168.1.1, C.org";
        for inside in [
            "a.org",
            "x.a.org",
            "b.org",
            "x.b.org",
            "c.org",
            "10.1.2.3",
            "[::1]",
            "[fd12::1]",
            "192.168.1.1",
        ] {
            assert!(is_excepted(inside, list), "{inside}");
        }
        for outside in ["xa.org", "org", "11.1.2.3", "[fe80::1]", "192.168.1.2", "*"] {
            assert!(!is_excepted(outside, list), "{outside}");
        }
        assert!(
            is_excepted("a.org", "*") && !is_excepted("a.org", "") && !is_excepted("10.0.0.1", "*")
        );
    }
}
