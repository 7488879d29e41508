//! What a server's answer says of an object: its entry, or the error that it stands for.

use std::io;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use reqwest::StatusCode;
use reqwest::header::{
    CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER,
};

use super::client::{causes, said};
use super::network::Private;
use crate::{Clock, Entry, Error, Name, Version};

/// The object as these headers describe it; `size` is that of the whole.
pub(super) fn described(name: &Name, headers: &HeaderMap, size: Option<u64>) -> Entry {
    let modified = text(headers, &LAST_MODIFIED).and_then(date);
    Entry {
        size,
        version: version(headers, size),
        modified: modified.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds))),
        ..Entry::named(name.clone())
    }
}

/// A strong entity tag; else modification time and size, as a weak tag does
/// not promise equal bytes.
fn version(headers: &HeaderMap, size: Option<u64>) -> Option<Version> {
    if let Some(tag) = text(headers, &ETAG).filter(|tag| is_strong(tag)) {
        return Some(Version::new(tag));
    }
    let modified = text(headers, &LAST_MODIFIED).filter(|text| date(text).is_some())?;
    Some(Version::new(format!("{modified}; {}", size?)))
}

fn is_strong(tag: &str) -> bool {
    tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')
}

/// The precondition under which a server sends this version only.
pub(super) fn condition(version: &Version) -> (HeaderName, &str) {
    let text = version.as_str();
    match text.split_once("; ") {
        Some((modified, _)) if !is_strong(text) => (reqwest::header::IF_UNMODIFIED_SINCE, modified),
        _ => (reqwest::header::IF_MATCH, text),
    }
}

/// The length of the body that these headers announce.
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    text(headers, &CONTENT_LENGTH)?.trim().parse().ok()
}

/// `bytes 0-99/1234`: the bytes sent and the whole size; either may be `*`.
pub(super) fn content_range(headers: &HeaderMap) -> Option<(Option<Range<u64>>, Option<u64>)> {
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
pub(super) fn all(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect()
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The error that a status stands for; `None` for those that bring something.
pub(super) fn failure(
    name: &Name,
    status: StatusCode,
    headers: &HeaderMap,
    clock: &Clock,
) -> Option<Error> {
    let name = name.clone();
    let reason = format!("the server answered {status}");
    match status.as_u16() {
        200 | 206 => None,
        401 | 403 | 407 => Some(Error::Denied { name, reason }),
        404 | 410 => Some(Error::NotFound { name }),
        412 => Some(Error::Changed { name }),
        429 | 503 => Some(Error::Busy { name, retry_after: retry_after(headers, clock), reason }),
        408 | 425 | 500..600 => Some(Error::Interrupted { name, reason }),
        _ => Some(Error::Refused { name, reason }),
    }
}

/// Seconds, or until a date.
fn retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = text(headers, &RETRY_AFTER)?.trim();
    let seconds = text.parse().ok().or_else(|| Some(date(text)?.saturating_sub(clock.unix_s())))?;
    Some(Duration::from_secs(seconds))
}

/// Seconds since 1970 of an HTTP date (RFC 9110, section 5.6.7); none before.
fn date(text: &str) -> Option<u64> {
    let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    u64::try_from(parser.parse_timestamp(text.trim()).ok()?.as_second()).ok()
}

/// The error that a failed request stands for.
pub(super) fn broken(name: &Name, error: &reqwest::Error) -> Error {
    let name = name.clone();
    let reason = said(error);
    if let Some(private) = causes(error).find_map(|cause| cause.downcast_ref::<Private>()) {
        return Error::refused(name, private.to_string());
    }
    let for_good = error.is_redirect()
        || error.is_builder()
        || error.is_dns() && !reason.contains("Temporary failure")
        || is_nonsense(error);
    match for_good {
        true if error.is_dns() => Error::refused(name, format!("no such host: {reason}")),
        true => Error::refused(name, reason),
        false if error.is_connect() => Error::interrupted(name, format!("no connection: {reason}")),
        false => Error::interrupted(name, reason),
    }
}

/// Whether the server speaks something else, or shows a certificate that is not to be trusted.
fn is_nonsense(error: &reqwest::Error) -> bool {
    let mut kinds = causes(error).filter_map(|cause| cause.downcast_ref()).map(io::Error::kind);
    kinds.any(|kind| kind == io::ErrorKind::InvalidData)
}

/// Whether an answer of this version is one of the version that was asked for.
pub(super) fn is_same(entry: &Entry, now: &Entry) -> bool {
    entry.version.is_none() || entry.version == now.version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_version_is_a_strong_tag_or_time_and_size() {
        let date = (LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:37 GMT");
        let name = Name::from("http://h/a");
        let strong = described(&name, &headers(&[date.clone(), (ETAG, "\"a; b\"")]), Some(7));
        assert_eq!(strong.version, Some(Version::new("\"a; b\"")));
        assert_eq!(condition(&strong.version.unwrap()).0, reqwest::header::IF_MATCH);
        let weak = described(&name, &headers(&[date.clone(), (ETAG, "W/\"ab\"")]), Some(7));
        let version = weak.version.unwrap();
        assert_eq!(version.as_str(), "Sun, 06 Nov 1994 08:49:37 GMT; 7");
        assert_eq!(condition(&version), (reqwest::header::IF_UNMODIFIED_SINCE, date.1));
        assert_eq!(weak.modified, Some(UNIX_EPOCH + Duration::from_secs(784_111_777)));
        assert_eq!(described(&name, &headers(&[date]), None).version, None);
        assert_eq!(described(&name, &headers(&[(ETAG, "bare")]), Some(1)).version, None);
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
