//! Pages in files of this machine, whose links are sets as those of servers are.

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;

use super::link::Base;
use super::page::{Opened, links};
use crate::{Entries, Entry, Error, Name, Store};

/// How the names of pages end.
const ENDINGS: [&str; 3] = ["html", "htm", "xhtml"];

/// Whether a file that begins so is a page: by its ending, or by a `<`.
pub(crate) fn is_page(path: &Path, begins: &[u8]) -> bool {
    let ending = path.extension().unwrap_or_default();
    if ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)) {
        return true;
    }
    let text = begins.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begins);
    text.trim_ascii_start().starts_with(b"<")
}

/// The names that the page in a file links to where `selector` selects them; it is read from `files`.
pub(crate) fn links_of_file(files: Arc<dyn Store>, path: &Path, selector: &str) -> Entries {
    let (page, path) = (Name::from(path), path.to_owned());
    let entry = Entry::named(page.clone());
    let open = async move {
        let base = Base::of_file(&path).map_err(|source| Error::io(&path, source))?;
        let read = files.read(&entry, 0..u64::MAX).await?;
        Ok(Opened { base, written_in: None, body: read.bytes })
    };
    links(page, selector, open.boxed())
}
