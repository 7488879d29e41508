//! From an attribute of a page to the name of what it links to.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use url::Url;

use crate::exchange::{Hosts, Private};
use crate::{Error, Name};

/// What the links of a page are resolved against, and which of them may be followed.
#[derive(Debug)]
pub(super) struct Base {
    url: Url,
    is_given: bool,
    page: Page,
}

/// Where a page is.
#[derive(Debug)]
enum Page {
    Server {
        hosts: Arc<Hosts>,
        is_public: bool,
    },
    /// With the folder that its relative name was relative to.
    File {
        below: Option<PathBuf>,
    },
}

impl Base {
    /// Of a page that a server gave under this URL, redirects followed, when it was asked for
    /// another; what is relative to it has the user and password that its own server was given.
    pub(super) fn of_page(asked: &Url, mut url: Url, hosts: Arc<Hosts>) -> Self {
        if url.origin() == asked.origin() && url.username().is_empty() && url.password().is_none() {
            // An origin with a host can have them.
            let _has_user = url.set_username(asked.username()).is_ok();
            let _has_password = url.set_password(asked.password()).is_ok();
        }
        Self::of_url(url, hosts)
    }

    /// Of a page under this URL.
    pub(super) fn of_url(url: Url, hosts: Arc<Hosts>) -> Self {
        let is_public = !hosts.is_private(&url);
        Self { url, is_given: false, page: Page::Server { hosts, is_public } }
    }

    /// Of a page in a file. Links to other files are relative if its name is.
    ///
    /// # Errors
    /// Of the system, which is asked for the working folder.
    pub(super) fn of_file(path: &Path) -> std::io::Result<Self> {
        let absolute = std::path::absolute(path)?;
        let below = if path.is_absolute() { None } else { Some(std::path::absolute(".")?) };
        let url = Url::from_file_path(&absolute).expect("the path was made absolute");
        Ok(Self { url, is_given: false, page: Page::File { below } })
    }

    /// The page says itself, by `<base href>`, what its links are relative to; only once.
    pub(super) fn set(&mut self, href: &str) {
        if self.is_given {
            return;
        }
        let given = self.url.join(&decoded(href));
        if let Some(url) =
            given.ok().filter(|url| matches!(url.scheme(), "http" | "https" | "file"))
        {
            self.url = url;
            self.is_given = true;
        }
    }

    /// What this attribute's value links to: none if it is no object, as
    /// `mailto:` and places within the page are not.
    pub(super) fn link(&self, value: &str) -> Option<Result<Name, Error>> {
        let value = decoded(value);
        let value = value.trim_matches(|c: char| c <= ' ');
        if value.is_empty() || value.starts_with('#') {
            return None;
        }
        let mut url = self.url.join(value).ok()?;
        url.set_fragment(None);
        match url.scheme() {
            "http" | "https" => Some(self.object(&url)),
            "file" => self.file(&url),
            _ => None,
        }
    }

    fn object(&self, url: &Url) -> Result<Name, Error> {
        let name = Name::from(url.as_str());
        match &self.page {
            Page::Server { hosts, is_public: true } if !hosts.may_link(url) => {
                let host = url.host_str().unwrap_or_default().to_owned();
                Err(Error::refused(name, Private(host).to_string()))
            }
            _ => Ok(name),
        }
    }

    fn file(&self, url: &Url) -> Option<Result<Name, Error>> {
        let path = url.to_file_path();
        let below = match &self.page {
            Page::File { below } => below.as_deref(),
            // As a path it would be one of the server's.
            Page::Server { hosts, .. } if hosts.all_allowed() => {
                let name = [b"file://", path.ok()?.as_os_str().as_bytes()].concat();
                return Some(Ok(Name::new(name)));
            }
            Page::Server { .. } => {
                let reason = "a page of a server links to a file of this machine, which is not followed unless private links are allowed";
                return Some(Err(Error::refused(url.as_str(), reason)));
            }
        };
        let path = path.ok()?;
        let path = below.and_then(|folder| path.strip_prefix(folder).ok()).unwrap_or(&path);
        Some(Ok(Name::from(path)))
    }
}

/// Named characters that stand in URLs; all others are left as they are
/// written, as a browser leaves those that it does not know.
const NAMED: [(&str, char); 22] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("num", '#'),
    ("percnt", '%'),
    ("lpar", '('),
    ("rpar", ')'),
    ("ast", '*'),
    ("plus", '+'),
    ("comma", ','),
    ("period", '.'),
    ("sol", '/'),
    ("colon", ':'),
    ("semi", ';'),
    ("equals", '='),
    ("quest", '?'),
    ("commat", '@'),
    ("lowbar", '_'),
    ("excl", '!'),
];

/// An attribute's value with its character references resolved.
fn decoded(value: &str) -> Cow<'_, str> {
    if !value.contains('&') {
        return Cow::Borrowed(value);
    }
    let mut decoded = String::with_capacity(value.len());
    let mut parts = value.split('&');
    decoded.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let reference =
            part.split_once(';').and_then(|(name, rest)| Some((character(name)?, rest)));
        let (character, rest) = reference.unwrap_or(('&', part));
        decoded.push(character);
        decoded.push_str(rest);
    }
    Cow::Owned(decoded)
}

fn character(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED.iter().find(|(known, _)| *known == name).map(|&(_, character)| character);
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public() -> Base {
        Base::of_url(Url::parse("https://example.org/a/page.html").unwrap(), Arc::default())
    }

    fn name(base: &Base, value: &str) -> String {
        base.link(value).unwrap().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn links_are_resolved_as_a_browser_does() {
        let mut base = public();
        for (value, name_of) in [
            ("b.gz", "https://example.org/a/b.gz"),
            (" ../c d.gz\n", "https://example.org/c%20d.gz"),
            ("//h.example/x#part", "https://h.example/x"),
            ("?q=1&amp;r=2&copy=3", "https://example.org/a/page.html?q=1&r=2&copy=3"),
            ("&#x2F;&#112;&period;gz&#0x;", "https://example.org/p.gz&"),
            ("http:other", "http://other/"),
        ] {
            assert_eq!(name(&base, value), name_of, "{value}");
        }
        for none in ["", " # ", "#top", "mailto:a@b", "javascript:void(0)", "data:,x", "http://"] {
            assert!(base.link(none).is_none(), "{none}");
        }
        base.set("mailto:x");
        base.set("/deep/er/");
        base.set("/too-late/");
        assert_eq!(name(&base, "b"), "https://example.org/deep/er/b");
    }

    #[test]
    fn what_is_relative_to_a_page_has_its_user() {
        let asked = Url::parse("https://me:secret@example.org/a").unwrap();
        let given = |url: &str| Base::of_page(&asked, Url::parse(url).unwrap(), Arc::default());
        let same = given("https://example.org/b/");
        assert_eq!(name(&same, "c"), "https://me:secret@example.org/b/c");
        assert_eq!(name(&same, "https://example.org/d"), "https://example.org/d");
        let other = given("https://example.com/b/");
        assert_eq!(name(&other, "c"), "https://example.com/b/c");
    }

    #[test]
    fn a_public_page_does_not_lead_into_a_private_network() {
        let base = public();
        for inward in
            ["http://10.0.0.1/", "//localhost/x", "http://[::1]:8080/", "file:///etc/passwd"]
        {
            let refused = base.link(inward).unwrap().unwrap_err();
            assert!(matches!(&refused, Error::Refused { .. }), "{refused}");
        }
        let private = Base::of_url(Url::parse("http://127.0.0.1:8000/").unwrap(), Arc::default());
        assert_eq!(name(&private, "http://10.0.0.1/"), "http://10.0.0.1/");
        assert!(private.link("file:///etc/passwd").unwrap().is_err());
        let allowed = Arc::new(Hosts::new(true));
        let allowed = Base::of_url(Url::parse("https://example.org/").unwrap(), allowed);
        assert_eq!(name(&allowed, "file:///etc/a%20b"), "file:///etc/a b");
        assert_eq!(name(&allowed, "http://10.0.0.1/"), "http://10.0.0.1/");
    }

    #[test]
    fn links_of_a_file_are_named_as_the_file_is() {
        let relative = Base::of_file("docs/index.html".as_ref()).unwrap();
        for (value, name_of) in [
            ("a.txt", "docs/a.txt"),
            ("../b%20c.txt?x#y", "b c.txt"),
            ("/etc/passwd", "/etc/passwd"),
            ("http://10.0.0.1/x", "http://10.0.0.1/x"),
        ] {
            assert_eq!(name(&relative, value), name_of, "{value}");
        }
        let absolute = Base::of_file("/srv/docs/index.html".as_ref()).unwrap();
        assert_eq!(name(&absolute, "a.txt"), "/srv/docs/a.txt");
    }
}
