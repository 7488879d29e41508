//! What the names in an answer are relative to.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use store::{Error, Name};
use url::Url;

/// What relative names of an answer are resolved against; absolute paths and URLs stand as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Resolver {
    /// Nothing: who answers says whole names, as stores do that know where they are.
    Whole,
    /// A folder; empty for the current one.
    Folder(PathBuf),
    /// A page of the web: also a path with a leading slash is one of its server.
    Page(Url),
}

impl Resolver {
    /// Against a folder.
    pub(super) fn folder(folder: &Name) -> Self {
        Self::Folder(folder.path().map(Path::to_owned).unwrap_or_default())
    }

    /// For what was asked: a URL says of a page where it is, of a database in
    /// a file as well; a database behind a server has no folder and gets `base`.
    pub(super) fn of_prefix(prefix: &Name, base: &Path) -> Self {
        let bytes = prefix.as_bytes();
        let file = bytes.strip_prefix(b"sqlite://").or_else(|| bytes.strip_prefix(b"sqlite:"));
        if let Some(file) = file {
            let folder = Path::new(OsStr::from_bytes(file)).parent();
            return Self::Folder(folder.map(Path::to_owned).unwrap_or_default());
        }
        if prefix.path().is_some() {
            return Self::Whole;
        }
        let page = prefix.url().and_then(|url| Url::parse(url).ok());
        match page.filter(|url| matches!(url.scheme(), "http" | "https")) {
            Some(page) => Self::Page(page),
            None => Self::Folder(base.to_owned()),
        }
    }

    /// The whole name.
    pub(super) fn resolved(&self, name: &Name) -> Result<Name, Error> {
        match (self, name.path()) {
            (_, None) | (Self::Whole, _) => Ok(name.clone()),
            (Self::Folder(folder), Some(path)) if folder.as_os_str().is_empty() => {
                Ok(Name::from(path))
            }
            (Self::Folder(folder), Some(path)) => Ok(Name::from(folder.join(path).as_path())),
            (Self::Page(page), Some(_)) => {
                let joined = std::str::from_utf8(name.as_bytes())
                    .map_err(|error| error.to_string())
                    .and_then(|text| page.join(text).map_err(|error| error.to_string()));
                let url = joined.map_err(|reason| Error::refused(name.clone(), reason))?;
                Ok(Name::from(String::from(url)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_what_was_asked() {
        for (prefix, name, whole) in [
            ("d/data.db", "d/x", "d/x"),
            ("sqlite:///d/data.db", "x", "/d/x"),
            ("sqlite:d/data.db", "x", "d/x"),
            ("sqlite:d/data.db", "/x", "/x"),
            ("postgres://u@h/db", "x", "base/x"),
            ("postgres://u@h/db", "s3://b/x", "s3://b/x"),
            ("https://h/d/page.html", "x.pdf", "https://h/d/x.pdf"),
            ("https://h/d/page.html", "/x.pdf", "https://h/x.pdf"),
        ] {
            let resolver = Resolver::of_prefix(&Name::from(prefix), Path::new("base"));
            let found = resolver.resolved(&Name::from(name)).expect("resolved");
            assert_eq!(found, Name::from(whole), "{prefix} {name}");
        }
        let folder = Resolver::folder(&Name::from("/staff/"));
        let found = folder.resolved(&Name::from("david")).expect("resolved");
        assert_eq!(found, Name::from("/staff/david"));
    }
}
