//! What a server's answer says of an object: its entry, or the error that it stands for.

use std::time::{Duration, UNIX_EPOCH};

use reqwest::Response;
use reqwest::header::{
    CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, LOCATION, TRANSFER_ENCODING,
};

use crate::exchange::{date, retry_after, text};
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

/// The length of the body that these headers announce; none where the body says itself where it
/// ends, which goes before (RFC 9112, 6.3).
pub(super) fn content_length(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    text(headers, &CONTENT_LENGTH)?.trim().parse().ok()
}

/// The error that a status stands for; `None` for those that bring something.
pub(super) fn failure(name: &Name, response: &Response, clock: &Clock) -> Option<Error> {
    let (status, headers, name) = (response.status(), response.headers(), name.clone());
    let reason = format!("the server answered {status}");
    match status.as_u16() {
        200 | 206 => None,
        401 | 403 | 407 => Some(Error::denied(name, reason)),
        404 | 410 => Some(Error::NotFound { name }),
        412 => Some(Error::Changed { name }),
        429 | 503 => Some(Error::busy(name, retry_after(headers, clock), reason)),
        408 | 425 | 500..600 => Some(Error::interrupted(name, reason)),
        // What can be followed has been.
        300..=399 => {
            let to = text(headers, &LOCATION);
            let whole =
                |to: &str| response.url().join(to).map_or_else(|_| to.to_owned(), Into::into);
            let to = to.map(|to| Name::from(whole(to)).redacted());
            let to = to.map(|to| format!(", and sends on to {to}, where it cannot be followed"));
            Some(Error::refused(name, reason + &to.unwrap_or_default()))
        }
        _ => Some(Error::refused(name, reason)),
    }
}

/// Whether an answer of this version is one of the version that was asked for.
pub(super) fn is_same(entry: &Entry, now: &Entry) -> bool {
    // One that told a version does not leave it out of an answer about the same bytes.
    entry.version.is_none() || (now.version.is_some() && entry.unchanged(now).is_ok())
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
}
