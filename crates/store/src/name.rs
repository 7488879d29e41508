//! The name of an object: a path of this machine or a URL, the same wherever it is used.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// The name of an object: a path of this machine, or a URL.
///
/// Bytes, since paths are. A URL is what begins with a scheme and `://`; its
/// bytes are UTF-8. Everything else is a path. Two names are the same object's
/// if they are equal byte by byte: `a//b` is not taken for `a/b`.
///
/// ```
/// use nearfirst_store::Name;
///
/// let object = Name::from("s3://logs/2026/a.gz");
/// assert_eq!((object.scheme(), object.path()), (Some("s3"), None));
/// assert_eq!(Name::from("notes.txt").path(), Some("notes.txt".as_ref()));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Of these bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// As it was given.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For display: bytes that are no UTF-8 are replaced.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// The path, if it is one of this machine.
    pub fn path(&self) -> Option<&Path> {
        self.scheme().is_none().then(|| Path::new(OsStr::from_bytes(&self.0)))
    }

    /// The URL, if it is one.
    pub fn url(&self) -> Option<&str> {
        self.scheme()?;
        std::str::from_utf8(&self.0).ok()
    }

    /// What stands before `://` in a URL: a letter, then letters, digits, `+`, `.`, `-`.
    pub fn scheme(&self) -> Option<&str> {
        scheme(&self.0)
    }

    /// To be shown: without the password that a URL may hold, in front of its
    /// host or as a parameter.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let Some(scheme) = self.scheme() else { return self.clone() };
        let (scheme, rest) = self.0.split_at(scheme.len() + 3);
        let host = self.host_behind_login().unwrap_or(0);
        let (authority, rest) = rest.split_at(host + authority_bytes(&rest[host..]));
        let is_at = |&byte: &u8| byte == b'@';
        let user = authority.iter().rposition(is_at);
        let secret = user.and_then(|at| authority[..at].iter().position(|&byte| byte == b':'));
        let (user, host, rest) = match (secret, user, rest.iter().rposition(is_at)) {
            // What is before the last one may be of a password with a `/`, `?` or `#`.
            (Some(secret), Some(_), Some(last)) => {
                (&authority[..secret], "@…".as_bytes(), &rest[last..])
            }
            (Some(secret), Some(at), None) => (&authority[..secret], &authority[at..], rest),
            _ => (authority, &[][..], rest),
        };
        let mut shown = [scheme, user, host].concat();
        let parameters = rest.iter().position(|&byte| byte == b'?').unwrap_or(rest.len());
        shown.extend_from_slice(&rest[..parameters]);
        for parameter in rest[parameters..].split_inclusive(|&byte| b"?&".contains(&byte)) {
            let is_secret = parameter.to_ascii_lowercase().starts_with(b"password=");
            shown.extend_from_slice(if is_secret { b"password=&" } else { parameter });
        }
        Self::from(shown)
    }

    /// Whether a password ends the authority too early: by a `/`, `?` or `#` that should be encoded.
    #[cfg(feature = "object")]
    pub(crate) fn has_broken_login(&self) -> bool {
        self.host_behind_login().is_some()
    }

    /// Where the host of a URL would begin behind such a password: with the last `@`. A password it is
    /// taken for where a port should be, but for buckets, whose names may hold colons.
    fn host_behind_login(&self) -> Option<usize> {
        let scheme = self.scheme().filter(|scheme| !matches!(*scheme, "s3" | "s3a"))?;
        let rest = &self.0[scheme.len() + 3..];
        let authority = &rest[..authority_bytes(rest)];
        let colon = authority.iter().position(|&byte| byte == b':')?;
        let port = std::str::from_utf8(&authority[colon + 1..]);
        let is_port = port.is_ok_and(|port| port.is_empty() || port.parse::<u16>().is_ok());
        let is_whole = is_port || authority.starts_with(b"[") || authority.contains(&b'@');
        if is_whole { None } else { rest.iter().rposition(|&byte| byte == b'@') }
    }

    /// What follows the last `/`: the object's own file name; empty for a folder's name.
    pub fn file_name(&self) -> &[u8] {
        let bytes = match self.0.iter().position(|byte| b"?#".contains(byte)) {
            Some(end) if matches!(self.scheme(), Some("http" | "https")) => &self.0[..end],
            _ => &self.0,
        };
        bytes.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
}

/// How far user, password, host and port go at the begin of what follows a scheme.
fn authority_bytes(rest: &[u8]) -> usize {
    rest.iter().position(|byte| b"/?#\\".contains(byte)).unwrap_or(rest.len())
}

/// The scheme of what looks like a URL.
fn scheme(name: &[u8]) -> Option<&str> {
    let at = name.windows(3).take(SCHEME_BYTES_MAX).position(|window| window == b"://")?;
    let (first, rest) = name[..at].split_first()?;
    let follows = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    if !first.is_ascii_alphabetic() || !rest.iter().all(follows) {
        return None;
    }
    std::str::from_utf8(&name[..at]).ok()
}

/// No scheme in use is longer; a path is not searched to its end for one.
const SCHEME_BYTES_MAX: usize = 32;

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(name.as_bytes().into())
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self(name.into_bytes().into())
    }
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().into())
    }
}

impl From<Vec<u8>> for Name {
    fn from(name: Vec<u8>) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_string_lossy())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string_lossy(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_scheme_is_a_url_and_all_else_a_path() {
        for (name, scheme) in [
            ("s3://b/k", Some("s3")),
            ("webdav+tls://h/", Some("webdav+tls")),
            ("/a/b", None),
            ("./s3://b", None),
            ("3s://b", None),
            ("://b", None),
            ("C:/x", None),
        ] {
            assert_eq!(Name::from(name).scheme(), scheme, "{name}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (name, shown) in [
            ("postgres://u:secret@h:5/db", "postgres://u@h:5/db"),
            ("postgres://u:a@b:c@h/db", "postgres://u@h/db"),
            (
                "postgres://u@h/db?host=x&PASSWORD=secret&a=b",
                "postgres://u@h/db?host=x&password=&a=b",
            ),
            ("mysql://u:secret@h", "mysql://u@h"),
            ("mysql://u:sec/ret@h/db?a=b", "mysql://u@h/db?a=b"),
            ("webdav://u:se?c#r@e/t@h:80/a", "webdav://u@h:80/a"),
            ("webdav://u:a@b/c@h/d", "webdav://u@…@h/d"),
            ("webdav://u:a@b?c@d#e@h/d", "webdav://u@…@h/d"),
            ("webdav://u@h/c@d", "webdav://u@h/c@d"),
            ("https://h:80/a@b", "https://h:80/a@b"),
            ("https://h:/a@b", "https://h:/a@b"),
            ("https://[::1]:80/a@b", "https://[::1]:80/a@b"),
            ("https://h/a:b/c@d", "https://h/a:b/c@d"),
            ("s3://arn:aws:s3:r:1:accesspoint/a/b@c", "s3://arn:aws:s3:r:1:accesspoint/a/b@c"),
            ("https://h/a:b@c", "https://h/a:b@c"),
            ("https://h:80/?q=a&b", "https://h:80/?q=a&b"),
            ("a:b@c", "a:b@c"),
        ] {
            assert_eq!(Name::from(name).redacted(), Name::from(shown), "{name}");
        }
    }

    #[test]
    fn the_file_name_of_a_url_has_no_query() {
        for (name, file) in [
            ("https://h/a/b.pdf?x=/y", "b.pdf"),
            ("s3://b/a/", ""),
            ("s3://b/report#3?.pdf", "report#3?.pdf"),
            ("what?/b?c", "b?c"),
            ("plain", "plain"),
        ] {
            assert_eq!(Name::from(name).file_name(), file.as_bytes(), "{name}");
        }
    }
}
