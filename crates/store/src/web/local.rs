//! Pages in files of this machine, whose links are sets as those of servers are.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use sled::{Device, Extent};

use super::link::Base;
use super::page::links;
use crate::{Answer, Entries, Entry, Error, Name, Query, Reading, Store};

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

/// The links of pages in files; everything else is left to the store of files.
#[derive(Debug)]
pub(crate) struct Pages {
    files: Arc<dyn Store>,
}

impl Pages {
    /// Read by `files`.
    pub(crate) fn new(files: Arc<dyn Store>) -> Self {
        Self { files }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Pages {
    fn device(&self, name: &Name) -> Device {
        self.files.device(name)
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        self.files.stat(name)
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        self.files.read(entry, range)
    }

    fn list(&self, query: &Query) -> Entries {
        let Query::Ask { prefix, text } = query else { return self.files.list(query) };
        let (files, page) = (Arc::clone(&self.files), prefix.clone());
        let open = async move {
            let path = page.path().ok_or_else(|| Error::refused(page.clone(), "not a file"))?;
            let base = Base::of_file(path).map_err(|source| Error::io(path, source))?;
            let read = files.read(&Entry::named(page.clone()), 0..u64::MAX).await?;
            Ok((base, read.bytes))
        };
        links(prefix.clone(), text, open.boxed())
    }

    fn locate(&self, entry: &Entry) -> Answer<'_, Vec<Extent>> {
        self.files.locate(entry)
    }

    fn checksum(&self, entry: &Entry) -> Answer<'_, Option<crate::Checksum>> {
        self.files.checksum(entry)
    }

    fn part_lengths(&self, entry: &Entry) -> crate::PartLengths {
        self.files.part_lengths(entry)
    }

    fn recall(&self, entry: &Entry) -> Answer<'_, crate::Recall> {
        self.files.recall(entry)
    }

    fn file(&self, name: &Name) -> Option<std::path::PathBuf> {
        self.files.file(name)
    }
}
