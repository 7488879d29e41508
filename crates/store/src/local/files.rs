//! Files of this machine as a store like any other.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, stream};
use sled::{Device, Extent};

use super::listing;
use crate::{Answer, Costs, Entries, Entry, Error, FirstBytes, Name, Query, Reading, Store};

/// Bytes that one read of a file asks the system for.
const READ_BYTES: u64 = 256 << 10;

/// The files of this machine.
#[derive(Debug)]
pub struct Files {
    costs: Arc<Costs>,
}

impl Files {
    /// Located and opened by `costs`.
    pub fn new(costs: Arc<Costs>) -> Self {
        Self { costs }
    }
}

impl Store for Files {
    fn device(&self, name: &Name) -> Device {
        let place = name.path().and_then(|path| self.costs.local().place_by_name(path));
        place.map_or_else(|| Device::new("files"), |(device, _)| device)
    }

    fn stat(&self, name: &Name) -> Answer<'_, Entry> {
        let name = name.clone();
        let costs = Arc::clone(&self.costs);
        blocking(move || {
            let status = costs.local().stat(path_of(&name)?)?;
            Ok(Entry::of_file(name, &status))
        })
    }

    fn read(&self, entry: &Entry, range: Range<u64>) -> Answer<'_, Reading> {
        let entry = entry.clone();
        let costs = Arc::clone(&self.costs);
        blocking(move || {
            let path = path_of(&entry.name)?;
            let file = costs.open(path)?;
            let status = costs.local().status(&file).map_err(|source| Error::io(path, source))?;
            let now = Entry::of_file(entry.name.clone(), &status);
            entry.unchanged(&now)?;
            let range = range.start..range.end.min(status.size);
            let first = FirstBytes::default();
            let rest = Rest {
                file: Arc::new(file),
                costs,
                range: range.clone(),
                entry: now.clone(),
                first,
            };
            let bytes = stream::try_unfold(rest, |mut rest| async move {
                if rest.range.is_empty() {
                    return Ok(None);
                }
                blocking(move || {
                    let bytes = rest.piece()?;
                    let start = rest.range.start;
                    rest.range.start += bytes.len() as u64;
                    if !rest.range.is_empty() {
                        rest.first.add(start, &bytes);
                    }
                    Ok(Some((bytes, rest)))
                })
                .await
            });
            Ok(Reading { entry: now, range, headers: Vec::new(), bytes: bytes.boxed() })
        })
    }

    fn list(&self, query: &Query) -> Entries {
        if let Query::Glob(pattern, _) = query {
            return listing::entries(Arc::clone(&self.costs), pattern);
        }
        let (name, costs) = (query.prefix(), Arc::clone(&self.costs));
        let reason = "files answer to patterns only: no database is here, and none is bound to it";
        let error = Error::unsupported(name.clone(), reason);
        // What is not there is said first: most often its name is mistyped.
        let asked = blocking(move || costs.local().stat(path_of(&name)?));
        stream::once(async move { Err(asked.await.err().unwrap_or(error)) }).boxed()
    }

    fn locate(&self, entry: &Entry) -> Answer<'_, Vec<Extent>> {
        let name = entry.name.clone();
        let costs = Arc::clone(&self.costs);
        blocking(move || Ok(costs.path_located(path_of(&name)?)?.extents))
    }

    fn file(&self, name: &Name) -> Option<PathBuf> {
        name.path().map(Path::to_owned)
    }
}

/// What is left to read of a file.
struct Rest {
    file: Arc<File>,
    costs: Arc<Costs>,
    range: Range<u64>,
    entry: Entry,
    first: FirstBytes,
}

impl Rest {
    /// The next bytes of the file, which has neither become shorter since it was opened nor, once
    /// they are the last, been written over; in bounded time.
    fn piece(&self) -> Result<Bytes, Error> {
        let path = path_of(&self.entry.name)?;
        let wanted = (self.range.end - self.range.start).min(READ_BYTES);
        let wanted = usize::try_from(wanted).expect("at most READ_BYTES");
        let (file, Range { start, end }) = (Arc::clone(&self.file), self.range.clone());
        let read = move || {
            let mut buffer = vec![0; wanted];
            let read = file.read_at(&mut buffer, start)?;
            buffer.truncate(read);
            let is_last = start + read as u64 == end;
            Ok((buffer, if is_last { Some(file.metadata()?) } else { None }))
        };
        let read = self.costs.local().bounded(path, read)?;
        let (bytes, at_end) = read.map_err(|source: io::Error| Error::io(path, source))?;
        let is_still = match at_end {
            _ if bytes.is_empty() => false,
            Some(now) => self.entry.is_still(&now, || self.begins_so(path))?,
            None => true,
        };
        if !is_still {
            return Err(Error::Changed { name: self.entry.name.clone() });
        }
        Ok(bytes.into())
    }

    /// Whether what was read first of the file is there still.
    fn begins_so(&self, path: &Path) -> Result<bool, Error> {
        let (file, first) = (Arc::clone(&self.file), self.first.clone());
        let begins_so = self.costs.local().bounded(path, move || first.are_in(&file))?;
        begins_so.map_err(|source| Error::io(path, source))
    }
}

/// The path of a name that this store is asked about.
fn path_of(name: &Name) -> Result<&Path, Error> {
    name.path().ok_or_else(|| Error::unsupported(name.clone(), "not a file of this machine"))
}

/// Runs what may block on a thread of the runtime where it holds up nobody.
pub fn blocking<T, F>(work: F) -> Answer<'static, T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Error> + Send + 'static,
{
    async move {
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::refused("", "the runtime is shutting down")),
            },
        }
    }
    .boxed()
}
