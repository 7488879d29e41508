//! Folders of this machine as pages of keys, and their files: names as they are, of which a client
//! for all services changes some.

use std::fs::{self, DirEntry, File, Metadata, ReadDir};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream};

use super::glob::{Page, Pages};
use super::place::Root;
use crate::exchange::{Cover, covered};
use crate::{ByteStream, Entry, Error, Name, Version, blocking, io_reason, unix_parts};

/// Names that are handed on together: each is asked about within the time of one page.
const PAGE_NAMES_MAX: usize = 32;

/// Bytes that are read at once.
const READ_BYTES: u64 = 256 << 10;

/// The file under this name, or a folder whose name ends in a slash.
pub(super) async fn stat(root: &Root, name: Name, limit: Duration) -> Result<Entry, Error> {
    let key = root.key(&name);
    let (is_of_folder, path, of) = (key.ends_with('/'), path(key), name.clone());
    answered(name, limit, move || match fs::metadata(&path) {
        Ok(status) if status.is_dir() && !is_of_folder => {
            Err(Error::refused(of, "this is a folder"))
        }
        Ok(status) => Ok(entry(of, &status)),
        Err(error) => Err(failed(of, path, error)),
    })
    .await
}

/// The bytes of a range of a file, which is opened within `limit`.
pub(super) async fn read(
    root: &Root,
    name: &Name,
    range: Range<u64>,
    limit: Duration,
) -> Result<ByteStream, Error> {
    let (at, of) = (path(root.key(name)), name.clone());
    let opened = move || File::open(&at).map_err(|error| failed(of, at, error));
    let file = answered(name.clone(), limit, opened).await?;
    let rest = (file, path(root.key(name)), range.clone());
    let bytes = stream::try_unfold(rest, |(file, path, range)| {
        blocking(move || {
            let wanted = (range.end - range.start).min(READ_BYTES);
            let mut bytes = vec![0; usize::try_from(wanted).expect("at most READ_BYTES")];
            let read = match file.read_at(&mut bytes, range.start) {
                Ok(read) => read,
                Err(error) => return Err(Error::io(path, error)),
            };
            bytes.truncate(read);
            let rest = range.start + read as u64..range.end;
            Ok((read > 0).then(|| (Bytes::from(bytes), (file, path, rest))))
        })
    });
    Ok(covered(name.clone(), bytes, Cover { skip: 0, range, is_exact: true }))
}

/// What there is of a file to say; of what is none, its name.
fn entry(name: Name, status: &Metadata) -> Entry {
    if !status.is_file() {
        return Entry::named(name);
    }
    let modified = status.modified().ok();
    let version = modified.map(|time| {
        let (seconds, nanoseconds) = unix_parts(time);
        Version::of_file(seconds, nanoseconds, status.len())
    });
    Entry { size: Some(status.len()), modified, version, ..Entry::named(name) }
}

/// The path that is meant by a key.
pub(super) fn path(key: &str) -> PathBuf {
    PathBuf::from(format!("/{key}"))
}

/// What the system said of a file.
fn failed(name: Name, path: PathBuf, error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NotFound { name },
        ErrorKind::PermissionDenied => Error::denied(name, io_reason(&error)).caused_by(error),
        _ => Error::io(path, error),
    }
}

/// What calls about `name` give, within `limit`.
async fn answered<T: Send + 'static>(
    name: Name,
    limit: Duration,
    calls: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::time::timeout(limit, blocking(calls)).await.unwrap_or_else(|_| {
        let reason = format!("no answer for {} s", limit.as_secs_f32());
        Err(Error::interrupted(name, reason))
    })
}

/// What lies in the folder of this key, each page within `limit`. That there is no such folder is an
/// empty listing, as at stores without folders.
pub(super) fn pages(root: Root, key: String, limit: Duration) -> Pages {
    let folder = Folder { root, key, names: None, failed: None };
    let pages = stream::try_unfold(folder, move |mut folder| {
        let name = folder.root.name(&folder.key);
        answered(name, limit, move || Ok(folder.page()?.map(|page| (page, folder))))
    });
    pages.boxed()
}

struct Folder {
    root: Root,
    key: String,
    /// What is left of them, once it is open.
    names: Option<ReadDir>,
    /// What comes after the names of the last page.
    failed: Option<Error>,
}

impl Folder {
    fn page(&mut self) -> Result<Option<Page>, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let path = path(&self.key);
        let mut names = match self.names.take().map_or_else(|| fs::read_dir(&path), Ok) {
            Ok(names) => names,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(Error::io(path, error)),
        };
        let (mut page, mut taken) = (Page::default(), 0);
        for found in names.by_ref().take(PAGE_NAMES_MAX) {
            match found {
                Ok(found) => self.add(&mut page, &found),
                Err(error) if taken == 0 => return Err(Error::io(path, error)),
                Err(error) => {
                    self.failed = Some(Error::io(path, error));
                    break;
                }
            }
            taken += 1;
        }
        self.names = Some(names);
        Ok((taken > 0).then_some(page))
    }

    fn add(&self, page: &mut Page, found: &DirEntry) {
        let kind = found.file_type().ok();
        let is_folder = kind.is_some_and(|kind| kind.is_dir());
        let is_link = kind.is_some_and(|kind| kind.is_symlink());
        let name = found.file_name();
        let slash = if is_folder { "/" } else { "" };
        let key = format!("{}{}{slash}", self.key, name.to_string_lossy());
        let status = || fs::metadata(found.path());
        if name.to_str().is_none() {
            if is_link && status().is_ok_and(|status| status.is_dir()) {
                return page.unnamed_links.push(key + "/");
            }
            return page.unnamed.push(key);
        }
        if is_folder {
            return page.folders.push(key);
        }
        let name = self.root.name(&key);
        match status() {
            Ok(status) if status.is_dir() => page.links.push(key + "/"),
            Ok(status) if status.is_file() => page.entries.push(entry(name, &status)),
            Ok(_) => page.others.push(Entry::named(name)),
            // It was removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_link => {}
            // It leads nowhere, or where this user may not look: who reads it is told.
            Err(_) => page.entries.push(Entry::named(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Dir, Facility, SlowDir, skip_unless};

    use super::*;

    fn folder(dir: &std::path::Path) -> Folder {
        let name = Name::from(format!("file://{}/", dir.display()));
        let (root, key) = Root::split(&name).expect("a URL");
        Folder { root, key: key.to_owned(), names: None, failed: None }
    }

    #[test]
    fn what_is_removed_while_it_is_listed_is_not_there() {
        let dir = Dir::new();
        let file = dir.create("file", "");
        let found = fs::read_dir(dir.path()).expect("a folder").next().expect("a file");
        let (found, mut page) = (found.expect("a name"), Page::default());
        fs::remove_file(file).expect("it is there");
        folder(dir.path()).add(&mut page, &found);
        assert_eq!((page.entries, page.others), (Vec::new(), Vec::new()));
    }

    #[tokio::test]
    async fn a_folder_may_take_longer_than_one_answer() {
        skip_unless!(Facility::Fuse);
        let slow = SlowDir::new(slowfs::Options::default());
        for at in 0..150 {
            slow.create(at.to_string(), "");
        }
        slow.mount().set_rules(vec!["*: metadata=10ms".parse().expect("a rule")]);
        let Folder { root, key, .. } = folder(slow.path());
        let pages: Vec<_> = pages(root, key, Duration::from_secs(1)).collect().await;
        let names = pages.into_iter().map(|page| page.expect("in time").entries.len());
        assert_eq!(names.sum::<usize>(), 150);
    }
}
