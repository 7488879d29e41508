//! What the stores of servers share of HTTP: what an answer's head says, the part of its body that was
//! asked for, and why there is none; which hosts may be connected to, by which proxies, and how far
//! redirects are followed.
//!
//! Which requests are made, by which client and under which limits, is each store's own: an object
//! is asked for by a signed request that goes nowhere else, a page may send us on.

mod body;
mod network;
mod proxies;
mod redirects;
mod sent_on;
mod trouble;

use std::ops::Range;
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, HeaderMap, HeaderName, RETRY_AFTER};

pub(crate) use self::body::{Cover, covered};
#[cfg(feature = "web")]
pub(crate) use self::network::Private;
pub(crate) use self::network::{Hosts, Resolver};
pub(crate) use self::proxies::Proxies;
#[cfg(feature = "object")]
pub(crate) use self::redirects::anywhere;
pub(crate) use self::redirects::following;
use self::sent_on::naming_the_last;
#[cfg(feature = "web")]
pub(crate) use self::trouble::said;
pub(crate) use self::trouble::unanswered;
#[cfg(feature = "object")]
pub(crate) use self::trouble::unanswered_directly;
use crate::silence::{heard, waited};
use crate::{Clock, Error, Name};

/// How long a connection may take, at most: five lost packets of its handshake.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How long a connection is kept that nothing is asked on: requests to one server follow each other
/// closely, and those to thousands would use up the descriptors of a process.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(5);

/// The answer to a request, once it begins, whatever its status.
///
/// # Errors
/// [`Error::Interrupted`] if none begins within `limit`; what `failed` makes of the client's.
pub(crate) async fn answered(
    name: &Name,
    limit: Duration,
    request: impl Future<Output = reqwest::Result<reqwest::Response>>,
    failed: fn(&Name, reqwest::Error) -> Error,
) -> Result<reqwest::Response, Error> {
    let answer = tokio::time::timeout(limit, naming_the_last(request)).await;
    waited(answer.is_err());
    let Ok(answer) = answer else {
        let reason = format!("the server has not answered for {} s", limit.as_secs_f32());
        return Err(Error::interrupted(name.clone(), reason));
    };
    if answer.is_ok() {
        heard();
    }
    answer.map_err(|error| failed(name, error))
}

/// `bytes 0-99/1234`: the bytes sent and the whole size; either may be `*`.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<(Option<Range<u64>>, Option<u64>)> {
    let (range, size) =
        text(headers, &CONTENT_RANGE)?.trim().strip_prefix("bytes ")?.split_once('/')?;
    let range = match range.trim() {
        "*" => None,
        range => {
            let (first, last) = range.split_once('-')?;
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            Some(first..last.checked_add(1).filter(|&end| end > first)?)
        }
    };
    let size = match size.trim() {
        "*" => None,
        size => Some(size.parse().ok()?),
    };
    Some((range, size))
}

/// The headers as text, in the server's order; bytes beyond ASCII are taken as Latin-1.
pub(crate) fn fields(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect()
}

/// A field as text, if it is ASCII.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// What `Retry-After` says: seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = text(headers, &RETRY_AFTER)?.trim();
    let seconds = text.parse().ok().or_else(|| Some(date(text)?.saturating_sub(clock.unix_s())))?;
    Some(Duration::from_secs(seconds))
}

/// Seconds since 1970 of an HTTP date (RFC 9110, section 5.6.7); none before.
pub(crate) fn date(text: &str) -> Option<u64> {
    let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    u64::try_from(parser.parse_timestamp(text.trim()).ok()?.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn content_ranges_are_understood_or_refused() {
        let of = |value| content_range(&headers(&[(CONTENT_RANGE, value)]));
        assert_eq!(of("bytes 0-99/1234"), Some((Some(0..100), Some(1234))));
        assert_eq!(of("bytes 5-5/*"), Some((Some(5..6), None)));
        assert_eq!(of("bytes */0"), Some((None, Some(0))));
        for bad in ["bytes 5-4/9", "lines 0-1/2", "bytes 0-18446744073709551615/9", "bytes x/9"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_busy_server_says_when_to_come_back() {
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(784_111_767));
        let after = |value| retry_after(&headers(&[(RETRY_AFTER, value)]), &clock);
        assert_eq!(after("120"), Some(Duration::from_mins(2)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(after("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }
}
