//! The parts of an object's name: the bucket or host, and the key.

use crate::{Error, Name};

/// What stands before an object's key: a scheme, and the bucket or host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    /// As it was given, up to the slash before the key: `s3://bucket`.
    pub(super) text: String,
    /// Bytes of the scheme.
    scheme_bytes: usize,
}

impl Root {
    /// The root and the key of a name; the key is what follows, byte by byte.
    ///
    /// # Errors
    /// [`Error::Refused`] of what is no URL.
    pub(super) fn split(name: &Name) -> Result<(Self, &str), Error> {
        let url = name.url().ok_or_else(|| Error::refused(name.clone(), "a URL must be UTF-8"))?;
        let scheme_bytes = name.scheme().map_or(0, str::len);
        let authority_at = scheme_bytes + "://".len();
        let end = url[authority_at..].find('/').map_or(url.len(), |slash| authority_at + slash);
        let root = Self { text: url[..end].to_owned(), scheme_bytes };
        Ok((root, url.get(end + 1..).unwrap_or_default()))
    }

    /// In lower case: schemes are alike in both.
    pub(super) fn scheme(&self) -> String {
        self.text[..self.scheme_bytes].to_ascii_lowercase()
    }

    /// What stands between `://` and the key.
    pub(super) fn authority(&self) -> &str {
        &self.text[self.scheme_bytes + "://".len()..]
    }

    /// The name of the object with this key.
    pub(super) fn name(&self, key: &str) -> Name {
        Name::from(format!("{}/{key}", self.text))
    }

    /// The key of a name that [`Root::name`] made.
    pub(super) fn key<'name>(&self, name: &'name Name) -> &'name str {
        let key = name.as_bytes().get(self.text.len() + 1..).unwrap_or_default();
        std::str::from_utf8(key).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_what_follows_the_bucket_as_it_is() {
        for (name, root, authority, key) in [
            ("s3://b/a//b?c#d%20+", "s3://b", "b", "a//b?c#d%20+"),
            ("s3://b//a", "s3://b", "b", "/a"),
            ("s3://b", "s3://b", "b", ""),
            ("file:///etc/x", "file://", "", "etc/x"),
            ("sftp://me@h:22/x", "sftp://me@h:22", "me@h:22", "x"),
        ] {
            let name = Name::from(name);
            let (found, rest) = Root::split(&name).unwrap();
            assert_eq!((found.text.as_str(), found.authority(), rest), (root, authority, key));
            if !rest.is_empty() {
                assert_eq!(found.name(rest), name);
                assert_eq!(found.key(&name), key);
            }
        }
    }
}
