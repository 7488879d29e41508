//! The name of an object: a path of this machine or a URL, the same wherever it is used.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode;

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

    /// The path of a file of this machine, also of one that is named by a URL, `file:///`.
    #[must_use]
    pub fn file_path(&self) -> Option<&Path> {
        let Some(scheme) = self.scheme() else { return self.path() };
        let rest = &self.0[scheme.len() + "://".len()..];
        // RFC 8089, section 2.
        let path = rest.strip_prefix(b"localhost").unwrap_or(rest);
        let is_file = scheme.eq_ignore_ascii_case("file") && path.starts_with(b"/");
        is_file.then(|| Path::new(OsStr::from_bytes(path)))
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
    /// host or as a parameter, and without what signs it or stands for a login; also where URLs are
    /// alternatives in braces.
    ///
    /// What may be of a password is not shown, though that leaves out the host: `u:a@b/c@d` may be the
    /// object `/c@d` of `b`, or `d` with the password `a@b/c`.
    #[must_use]
    pub fn redacted(&self) -> Self {
        if self.scheme().is_some() {
            return Self::from(self.redacted_url());
        }
        let starts: Vec<usize> = urls_in_braces(&self.0).collect();
        let Some(&first) = starts.first() else { return self.clone() };
        // What stands before a URL is no part of the one before that.
        let ends = starts[1..].iter().map(|next| next - 1).chain([self.0.len()]);
        let mut shown = self.0[..first - 1].to_vec();
        for (&start, end) in starts.iter().zip(ends) {
            shown.push(self.0[start - 1]);
            shown.extend(Self::new(&self.0[start..end]).redacted_url());
        }
        Self::from(shown)
    }

    /// To be shown before what is said of it: as [`Name::redacted`], and `''` if it is empty.
    #[must_use]
    pub fn as_subject(&self) -> Self {
        if self.0.is_empty() { Self::from("''") } else { self.redacted() }
    }

    /// To be shown, of a word of a command: as [`Name::redacted`], wherever URLs and parameters that are
    /// passwords stand in it.
    pub(crate) fn redacted_word(&self) -> Self {
        // The password of one that is a URL may hold spaces.
        let shown = if self.scheme().is_some() { self.redacted() } else { self.clone() };
        let pieces = shown.0.split_inclusive(u8::is_ascii_whitespace);
        let pieces = pieces.flat_map(|piece| Self::new(piece).redacted().redacted_urls());
        Self::from(without_secrets(&pieces.collect::<Vec<_>>()))
    }

    /// Of what holds URLs, one behind the other.
    fn redacted_urls(&self) -> Vec<u8> {
        if urls(&self.0).next().is_none() {
            return self.0.to_vec();
        }
        // A password may hold what looks like the next one.
        let text = self.redacted_url();
        let ends = urls(&text).skip(1).chain([text.len()]);
        let (mut shown, mut begun) = (Vec::new(), 0);
        for end in ends {
            shown.extend(Self::new(&text[begun..end]).redacted_url());
            begun = end;
        }
        shown
    }

    /// Whether it is a pattern with URLs in its braces.
    pub fn holds_urls(&self) -> bool {
        self.scheme().is_none() && urls_in_braces(&self.0).next().is_some()
    }

    /// Of a URL, of which braces may have cut off the scheme.
    fn redacted_url(&self) -> Vec<u8> {
        let scheme = self.0.windows(3).position(|window| window == b"://");
        let (scheme, rest) = self.0.split_at(scheme.map_or(0, |at| at + 3));
        let Some((password, is_certain)) = self.password(rest) else {
            return without_secrets(&self.0);
        };
        let (user, behind) = (&rest[..password.start], &rest[password.end..]);
        let shown = if is_certain {
            [scheme, user, behind].concat()
        } else if is_in_secret(rest, password.end) {
            [scheme, user, b"@...", behind_value(behind)].concat()
        } else {
            [scheme, user, b"@...", behind].concat()
        };
        without_secrets(&shown)
    }

    /// Whether the host is left out of what is shown.
    #[cfg(any(feature = "object", feature = "web"))]
    pub(crate) fn hides_host(&self) -> bool {
        let rest = self.scheme().map(|scheme| &self.0[scheme.len() + 3..]);
        rest.and_then(|rest| self.password(rest)).is_some_and(|(_, is_certain)| !is_certain)
    }

    /// What may be of the password before the host, with the colon before it, and whether it must be.
    fn password(&self, rest: &[u8]) -> Option<(Range<usize>, bool)> {
        let is_at = |&byte: &u8| byte == b'@';
        let authority = &rest[..authority_bytes(rest)];
        let usual_end = authority.iter().rposition(is_at);
        if authority.contains(&b'{') {
            // One alternative may end in its path, and the next begin with its user.
            let colon = rest.iter().position(|&byte| byte == b':')?;
            let end = rest.iter().rposition(is_at).filter(|&end| colon < end)?;
            return Some((colon..end, usual_end == Some(end)));
        }
        let colon = authority.iter().position(|&byte| byte == b':')?;
        let (end, is_certain) = if self.has_broken_authority(authority) {
            let end = rest.iter().rposition(is_at)?;
            (end, usual_end == Some(end) || !is_in_secret(rest, end))
        } else {
            usual_end.filter(|&end| colon < end)?;
            let end = last_login_end(rest)?;
            (end, usual_end == Some(end))
        };
        (colon < end).then_some((colon..end, is_certain))
    }

    /// Whether a password ends the authority too early: by a `/`, `?` or `#` that should be encoded.
    #[cfg(feature = "object")]
    pub(crate) fn has_broken_login(&self) -> bool {
        let Some(scheme) = self.scheme() else { return false };
        let rest = &self.0[scheme.len() + 3..];
        let (authority, rest) = rest.split_at(authority_bytes(rest));
        rest.contains(&b'@') && self.has_broken_authority(authority)
    }

    /// Whether there is something else where a port should be: the begin of a password. Names of
    /// buckets may hold colons.
    fn has_broken_authority(&self, authority: &[u8]) -> bool {
        let hosts = authority.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
        let is_bucket = matches!(self.scheme(), Some("s3" | "s3a"));
        !is_bucket && !hosts.split(|&byte| byte == b',').all(has_port_or_none)
    }

    /// What follows the last `/`: the object's own file name; empty for a folder's name.
    pub fn file_name(&self) -> &[u8] {
        self.without_query().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    /// All of it, but of an object of a web server without what follows a `?` or `#`.
    pub fn without_query(&self) -> &[u8] {
        match self.0.iter().position(|byte| b"?#".contains(byte)) {
            Some(end) if self.is_of_web() => &self.0[..end],
            _ => &self.0,
        }
    }

    /// Whether it is an object of a web server.
    pub fn is_of_web(&self) -> bool {
        self.scheme().is_some_and(|scheme| {
            scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
        })
    }

    /// A component of this name, such as its [`Name::file_name`], as a copy in a folder has it: of a
    /// URL of the web what it stands for, unless that would be no component.
    ///
    /// ```
    /// use nearfirst_store::Name;
    ///
    /// let paper = Name::from("https://host/My%20Paper.pdf");
    /// assert_eq!(&*paper.on_disk(paper.file_name()), b"My Paper.pdf");
    /// ```
    pub fn on_disk<'a>(&self, component: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.is_of_web() {
            return component.into();
        }
        let decoded: Cow<'a, [u8]> = percent_decode(component).into();
        let is_none =
            matches!(&*decoded, b"." | b"..") || decoded.iter().any(|byte| b"/\0".contains(byte));
        if is_none { component.into() } else { decoded }
    }

    /// What a file with a copy of it is called in a folder of its own: its [`Name::file_name`] on disk, the end
    /// of it where that is too long, and `object` where it has none that a file can have.
    pub fn of_copy(&self) -> Cow<'_, [u8]> {
        let name = self.on_disk(self.file_name());
        if matches!(&*name, b"" | b"." | b"..") || name.contains(&0) {
            return NAMELESS.into();
        }
        // The ending says what it is: it is kept.
        let start = name.len().saturating_sub(NAME_BYTES_MAX);
        if start == 0 { name } else { name[start..].to_owned().into() }
    }
}

/// Where URLs begin.
fn urls(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let ends = (0..text.len()).filter(|&at| text[at..].starts_with(b"://"));
    ends.map(|end| {
        let scheme = text[..end].iter().rev().take_while(|&&byte| is_of_scheme(byte));
        end - scheme.count()
    })
}

/// Where the URLs begin that are alternatives in braces, or whose schemes are.
fn urls_in_braces(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    urls(text).filter(|&start| match text[..start] {
        [.., b'\\', _] | [] => false,
        [.., before] => b"{,}".contains(&before),
    })
}

/// How far user, password, host and port go at the begin of what follows a scheme.
fn authority_bytes(rest: &[u8]) -> usize {
    rest.iter().position(|&byte| is_behind_authority(byte)).unwrap_or(rest.len())
}

fn is_behind_authority(byte: u8) -> bool {
    b"/?#\\".contains(&byte)
}

fn has_port_or_none(host: &[u8]) -> bool {
    let Some(colon) = host.iter().position(|&byte| byte == b':') else { return true };
    let port = std::str::from_utf8(&host[colon + 1..]);
    host.starts_with(b"[") || port.is_ok_and(|port| port.is_empty() || port.parse::<u16>().is_ok())
}

/// The last `@` that a host may follow: a login ends there or before.
fn last_login_end(rest: &[u8]) -> Option<usize> {
    let of_host = |&byte: &u8| {
        byte.is_ascii_alphanumeric() || !byte.is_ascii() || b".-_~%:,[]{}".contains(&byte)
    };
    // No further than to the next `@`, which is of no host.
    let before_host = |at: &usize| {
        let mut host = rest[at + 1..].iter().take_while(|&&byte| !is_behind_authority(byte));
        host.all(of_host)
    };
    let ends = || (0..rest.len()).rev().filter(|&at| rest[at] == b'@');
    ends().find(before_host).or_else(|| ends().next())
}

/// Without the values of parameters that are passwords, wherever they stand, and of those of a query
/// that let in whoever has them.
fn without_secrets(mut url: &[u8]) -> Vec<u8> {
    let mut shown = Vec::new();
    while let Some(value) = secret_value(url) {
        shown.extend_from_slice(&url[..value]);
        url = behind_value(&url[value..]);
    }
    shown.extend_from_slice(url);
    shown
}

fn is_in_secret(url: &[u8], at: usize) -> bool {
    let parameter = url[..at].rsplit(|&byte| byte == b'&').next();
    parameter.and_then(secret_value).is_some()
}

fn behind_value(value: &[u8]) -> &[u8] {
    &value[value.iter().position(|&byte| byte == b'&').unwrap_or(value.len())..]
}

/// Where the value of the first such parameter begins.
fn secret_value(url: &[u8]) -> Option<usize> {
    let (mut begin, mut is_of_key) = (0, false);
    for (at, byte) in url.iter().enumerate() {
        match byte {
            b'/' | b'?' | b'#' | b'&' => (begin, is_of_key) = (at + 1, *byte == b'/'),
            b'=' if is_password(&url[..at]) || !is_of_key && is_signature(&url[begin..at]) => {
                return Some(at + 1);
            }
            _ => {}
        }
    }
    None
}

fn is_password(name: &[u8]) -> bool {
    [&b"password"[..], b"passwd", b"pwd"].iter().any(|end| ends_with(name, end))
}

/// Whether this is the name of a parameter of a query, as `X-Amz-Signature`, `sig` and
/// `access_token` are: elsewhere it may be of a key, as of a partition.
fn is_signature(name: &[u8]) -> bool {
    const ENDS: [&[u8]; 5] = [b"signature", b"credential", b"token", b"secret", b"api_key"];
    name.eq_ignore_ascii_case(b"sig") || ENDS.iter().any(|end| ends_with(name, end))
}

fn ends_with(name: &[u8], end: &[u8]) -> bool {
    let begin = name.len().checked_sub(end.len());
    begin.is_some_and(|begin| name[begin..].eq_ignore_ascii_case(end))
}

/// The scheme of what looks like a URL.
fn scheme(name: &[u8]) -> Option<&str> {
    let at = name.windows(3).take(SCHEME_BYTES_MAX).position(|window| window == b"://")?;
    let (first, rest) = name[..at].split_first()?;
    if !first.is_ascii_alphabetic() || !rest.iter().all(|&byte| is_of_scheme(byte)) {
        return None;
    }
    std::str::from_utf8(&name[..at]).ok()
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+.-".contains(&byte)
}

/// What a copy of an object without a file name of its own is called.
const NAMELESS: &[u8] = b"object";
/// Bytes that most file systems allow in a name.
const NAME_BYTES_MAX: usize = 255;

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

impl From<PathBuf> for Name {
    fn from(path: PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<&OsStr> for Name {
    fn from(name: &OsStr) -> Self {
        Self(name.as_bytes().into())
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
    fn a_copy_of_everything_has_a_name_that_a_file_can_have() {
        let long = format!("s3://b/{}.fits", "x".repeat(300));
        for (name, copy) in [
            ("https://host/My%20Paper.pdf?v=1", "My Paper.pdf"),
            ("s3://b/a.fits", "a.fits"),
            ("s3://b/", "object"),
            ("s3://b/.", "object"),
            ("http://host/..", "object"),
            ("http://host/%2e%2e", "%2e%2e"),
            ("s3://b/a\0b", "object"),
            (&long, &long[long.len() - 255..]),
        ] {
            assert_eq!(&*Name::from(name).of_copy(), copy.as_bytes(), "{name}");
        }
    }

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
    fn a_path_is_a_name_of_its_bytes() {
        for name in [Name::from(PathBuf::from("a/b")), Name::from(OsStr::new("a/b"))] {
            assert_eq!(name.as_bytes(), b"a/b");
        }
    }

    #[test]
    fn files_of_this_machine_have_a_path_under_their_urls_too() {
        for (name, path) in [
            ("a/b", Some("a/b")),
            ("file:///a b%20c?#", Some("/a b%20c?#")),
            ("FILE://localhost/a", Some("/a")),
            ("file:////a", Some("//a")),
            ("file://host/a", None),
            ("file://localhosts/a", None),
            ("file://", None),
            ("s3:///a", None),
        ] {
            assert_eq!(Name::from(name).file_path(), path.map(Path::new), "{name}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (name, shown) in [
            ("postgres://u:secret@h:5/db", "postgres://u@h:5/db"),
            ("postgres://u:a@b:c@h/db", "postgres://u@h/db"),
            (
                "postgres://u@h/db?host=x&PASSWORD=secret&a=b",
                "postgres://u@h/db?host=x&PASSWORD=&a=b",
            ),
            ("mysql://u:secret@h", "mysql://u@h"),
            ("mysql://u:sec/ret@h/db?a=b", "mysql://u@h/db?a=b"),
            ("webdav://u:se?c#r@e/t@h:80/a", "webdav://u@h:80/a"),
            ("webdav://u:a@b/c@h/d", "webdav://u@...@h/d"),
            ("webdav://u:a@b?c@d#e@h/d", "webdav://u@...@h/d"),
            ("webdav://u@h/c@d", "webdav://u@h/c@d"),
            ("https://h:80/a@b", "https://h:80/a@b"),
            ("https://h:/a@b", "https://h:/a@b"),
            ("https://[::1]:80/a@b", "https://[::1]:80/a@b"),
            ("https://h/a:b/c@d", "https://h/a:b/c@d"),
            ("s3://arn:aws:s3:r:1:accesspoint/a/b@c", "s3://arn:aws:s3:r:1:accesspoint/a/b@c"),
            ("https://h/a:b@c", "https://h/a:b@c"),
            ("https://h:80/?q=a&b", "https://h:80/?q=a&b"),
            ("a:b@c", "a:b@c"),
            ("http://u:p@h/a?user=x@y&password=SECRET", "http://u@h/a?user=x@y&password="),
            ("webdav://u:a@b/c@h", "webdav://u@...@h"),
            ("webdav://u:a@b/@h", "webdav://u@...@h"),
            ("postgres://u:a@b/c@/db", "postgres://u@...@/db"),
            ("postgres://u:a/b@h1:5432,h2:5432/db", "postgres://u@h1:5432,h2:5432/db"),
            ("postgres://h1:5432,h2:5432/db@x", "postgres://h1:5432,h2:5432/db@x"),
            ("https://u@h:x/a", "https://u@h:x/a"),
            ("https://u:p@h:x/a", "https://u@h:x/a"),
            ("https://u:a@b:x/c@h&d", "https://u@h&d"),
            ("webdav://a@b.org:p/w@h/c", "webdav://a@b.org@h/c"),
            // The password may be `p@h/npm/`, and the host `scope`.
            ("https://u:p@h/npm/@scope/pkg", "https://u@...@scope/pkg"),
            ("https://u@h/npm/@scope/pkg", "https://u@h/npm/@scope/pkg"),
            ("https://u:p@h/npm/%40scope/pkg", "https://u@h/npm/%40scope/pkg"),
            ("https://u:p@h/~a/b,c/d?e=f#g", "https://u@h/~a/b,c/d?e=f#g"),
            ("https://u:p@h/a?to=x@y&z", "https://u@h/a?to=x@y&z"),
            ("https://u:p@h/a@b c", "https://u@h/a@b c"),
            ("mysql://h:x&password=S@y z", "mysql://h@y z"),
            ("mysql://h/db?password=a?b#c;d/e@f", "mysql://h/db?password="),
            ("mysql://h/db;password=a&b", "mysql://h/db;password=&b"),
            ("mysql://h/db#password=a&b", "mysql://h/db#password=&b"),
            ("mysql://h/db?sslPassword=a&PWD=b&passwd=c", "mysql://h/db?sslPassword=&PWD=&passwd="),
            ("mysql://u:p@h/?x=a@b&password=c@d&y", "mysql://u@h/?x=a@b&password=&y"),
            ("mysql://u:p@h/?password=c@d", "mysql://u@..."),
            ("mysql://u:p@h/?password=c@d/e&y", "mysql://u@...&y"),
            ("mysql://u:p?pwd=c@d", "mysql://u@..."),
            ("mysql://u:pwd=c@h/db", "mysql://u@h/db"),
            ("{s3://b/*,webdav://u:p@h/a/*}/x", "{s3://b/*,webdav://u@h/a/*}/x"),
            ("{webdav://u:p@h/a,webdav://v:q@h/b}", "{webdav://u@h/a,webdav://v@h/b}"),
            ("{webdav://u:a@b/c@h,d/*}", "{webdav://u@...@h,d/*}"),
            ("{webdav://u:a@b/c@h}", "{webdav://u@...@h}"),
            ("{webdav://u:a\\,b://c@h/d", "{webdav://u@h/d"),
            ("{webdav,ftp}://u:p@h/a", "{webdav,ftp}://u@h/a"),
            ("{a,webdav{,s}://u:p@h}/b", "{a,webdav{,s}://u@h}/b"),
            ("webdav://{u:p@h/a,v:q@h/b}", "webdav://{u@...@h/b}"),
            ("webdav://{h/a,u:p@h/b}", "webdav://{h/a,u@...@h/b}"),
            ("webdav://u:p@{h,i}/a", "webdav://u@{h,i}/a"),
            ("{http://h/?pwd=p,http://h/?pwd=q&a}", "{http://h/?pwd=,http://h/?pwd=&a}"),
            ("a/{b:c@d,e}", "a/{b:c@d,e}"),
            (
                "https://b.s3.amazonaws.com/k?X-Amz-Credential=A%2F1&X-Amz-Date=2&x-amz-signature=f0",
                "https://b.s3.amazonaws.com/k?X-Amz-Credential=&X-Amz-Date=2&x-amz-signature=",
            ),
            ("https://h/k?X-Amz-Security-Token=a=&b=c", "https://h/k?X-Amz-Security-Token=&b=c"),
            ("https://a.net/c/b?sv=1&sig=a%3D&se=2", "https://a.net/c/b?sv=1&sig=&se=2"),
            ("http://h/a?access_token=x@y#token=z", "http://h/a?access_token="),
            ("http://u:p@h/a?b=c&access_token=x@y", "http://u@..."),
            ("https://h/a?design=b&orig=c", "https://h/a?design=b&orig=c"),
            ("s3://b/token=a/sig=b/c", "s3://b/token=a/sig=b/c"),
            ("{http://h/?sig=p,http://h/?sig=q&a}", "{http://h/?sig=,http://h/?sig=&a}"),
        ] {
            let redacted = Name::from(name).redacted();
            assert_eq!(redacted, Name::from(shown), "{name}");
            assert_eq!(redacted.redacted(), redacted, "{name}");
        }
    }

    #[test]
    fn passwords_are_not_shown_of_words_of_commands() {
        for (word, shown) in [
            ("https://u:secret@h/a", "https://u@h/a"),
            ("--url=https://u:secret@h/a", "--url=https://u@h/a"),
            ("-uhttps://u:secret@h/a", "-uhttps://u@h/a"),
            (
                "curl 'https://h/a' https://u:secret@h/a | head",
                "curl 'https://h/a' https://u@h/a | head",
            ),
            ("{https://u:secret@h/,https://v:secret@h/}", "{https://u@h/,https://v@h/}"),
            ("[https://u:secret@h/a,https://h/b]", "[https://u@h/a,https://h/b]"),
            (r#"["https://h/a","https://u:secret@h/b"]"#, r#"["https://h/a","https://u@h/b"]"#),
            ("a=https://h/x&b=https://u:secret@h/", "a=https://h/x&b=https://u@h/"),
            ("https://mirror/https://u:secret@h/", "https://mirror/https://u@h/"),
            ("https://h/a https://u:secret@h/b", "https://h/a https://u@h/b"),
            ("https://u:my secret@h/x", "https://u@h/x"),
            ("--url=https://u:a://b@h/", "--url=https://u@h/"),
            ("--url=https://h:80/a@b", "--url=https://h:80/a@b"),
            ("--password=secret", "--password="),
            ("--token=my secret", "--token="),
            ("a:b@c", "a:b@c"),
            ("*.c", "*.c"),
        ] {
            assert_eq!(Name::from(word).redacted_word(), Name::from(shown), "{word}");
        }
    }

    #[test]
    fn names_of_any_length_are_shown_soon() {
        // A server may send such; the square of their length would be minutes.
        let many = |text: &str| text.repeat(1 << 20);
        for name in [
            format!("http://h/{}", many("=")),
            format!("http://h/?{}", many("sig=&")),
            format!("http://u:p{}!", many("@")),
            format!("http://u:p@h/{}", many("a@b c=")),
            many("http://u:p@h/"),
        ] {
            let redacted = Name::from(name.as_str()).redacted();
            assert!(!redacted.as_bytes().is_empty());
        }
    }

    #[test]
    fn a_component_on_disk_is_what_a_url_of_the_web_stands_for() {
        for (name, on_disk) in [
            ("https://h/My%20Paper%FF.pdf?a=%20", &b"My Paper\xff.pdf"[..]),
            ("HTTP://h/a%20b", b"a b"),
            ("https://h/%2e%2e", b"%2e%2e"),
            ("https://h/a%2fb", b"a%2fb"),
            ("https://h/a%00", b"a%00"),
            ("s3://b/a%20b", b"a%20b"),
            ("a%20b", b"a%20b"),
        ] {
            let name = Name::from(name);
            assert_eq!(&*name.on_disk(name.file_name()), on_disk, "{name:?}");
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
