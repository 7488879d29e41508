//! Questions to files of this machine: how a file begins tells who can answer them.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, stream};
use sled::Device;

use crate::local::blocking;
use crate::{Answer, Costs, Entries, Entry, Error, Name, Query, Reading, Store};

/// Bytes of a file that are looked at.
const BEGINNING_BYTES: u64 = 512;

/// Whether the file of this name that begins so is one of a kind.
pub(crate) type Knows = fn(&Path, &[u8]) -> bool;

/// Leaves a question to the first store that knows the file, or to that of files.
///
/// Which one that is, is found when the answer is waited for: the file is read for it, and its mount
/// may not answer.
#[derive(Debug)]
pub(crate) struct Asked {
    costs: Arc<Costs>,
    files: Arc<dyn Store>,
    kinds: Arc<[(Knows, Arc<dyn Store>)]>,
}

impl Asked {
    /// Of these kinds of files, or others.
    pub(crate) fn new(
        costs: Arc<Costs>,
        files: Arc<dyn Store>,
        kinds: Vec<(Knows, Arc<dyn Store>)>,
    ) -> Self {
        Self { costs, files, kinds: kinds.into() }
    }
}

impl Store for Asked {
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
        let Some(path) = query.prefix().path().map(Path::to_owned) else {
            return self.files.list(query);
        };
        let (costs, kinds) = (Arc::clone(&self.costs), Arc::clone(&self.kinds));
        let found = blocking(move || {
            let begins = beginning(&costs, &path)?;
            let kind = kinds.iter().find(|(knows, _)| knows(&path, &begins));
            Ok(kind.map(|(_, store)| Arc::clone(store)))
        });
        let (files, query) = (Arc::clone(&self.files), query.clone());
        let answers = move |found: Result<Option<Arc<dyn Store>>, Error>| match found {
            Ok(store) => store.unwrap_or(files).list(&query),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        };
        found.map(answers).flatten_stream().boxed()
    }
}

/// How a file begins; of what is no file, or cannot be read, nothing.
fn beginning(costs: &Costs, path: &Path) -> Result<Vec<u8>, Error> {
    // With a slash at its end a file is not found.
    let file: PathBuf = path.components().collect();
    if file.as_os_str().is_empty() {
        return Ok(Vec::new());
    }
    let read = costs.local().bounded(path, move || {
        let mut begins = Vec::new();
        // Opening a pipe would wait for its writer.
        if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            File::open(file)?.take(BEGINNING_BYTES).read_to_end(&mut begins)?;
        }
        Ok::<_, std::io::Error>(begins)
    })?;
    Ok(read.unwrap_or_default())
}
