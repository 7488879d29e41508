//! Questions to files of this machine: how a file begins tells who can answer them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, stream};

use crate::local::blocking;
use crate::{Costs, Entries, Error};

/// Bytes of a file that are looked at.
const BEGINNING_BYTES: u64 = 512;

/// What `answer` gives for the file at `path` and how that begins.
///
/// It is looked at when the answer is waited for, in bounded time: its mount may not answer.
pub(crate) fn by_beginning(
    costs: &Arc<Costs>,
    path: &Path,
    answer: impl FnOnce(&Path, &[u8]) -> Entries + Send + 'static,
) -> Entries {
    let (costs, path) = (Arc::clone(costs), path.to_owned());
    let begins = blocking(move || Ok((beginning(&costs, &path)?, path)));
    let answers = begins.map(|begins| match begins {
        Ok((begins, path)) => answer(&path, &begins),
        Err(error) => stream::once(async { Err(error) }).boxed(),
    });
    answers.flatten_stream().boxed()
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
