//! Folders of this machine as pages of keys: names as they are, of which a client for all services
//! changes some.

use std::fs::{self, DirEntry, ReadDir};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use futures::{StreamExt as _, stream};

use super::glob::{Page, Pages};
use super::place::Root;
use crate::{Entry, Error, Version, blocking};

/// Names that are handed on together: each is asked about within the time of one page.
const PAGE_NAMES_MAX: usize = 32;

/// What lies in the folder of this key, each page within `limit`. That there is no such folder is an
/// empty listing, as at stores without folders.
pub(super) fn pages(root: Root, key: String, limit: Duration) -> Pages {
    let folder = Folder { root, key, names: None, failed: None };
    let pages = stream::try_unfold(folder, move |mut folder| async move {
        let name = folder.root.name(&folder.key);
        let page = blocking(move || Ok(folder.page()?.map(|page| (page, folder))));
        tokio::time::timeout(limit, page).await.unwrap_or_else(|_| {
            let reason = format!("no answer for {} s", limit.as_secs_f32());
            Err(Error::interrupted(name, reason))
        })
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
        let path = PathBuf::from(format!("/{}", self.key));
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
        if name.to_str().is_none() {
            return page.unnamed.push(key);
        }
        if is_folder {
            return page.folders.push(key);
        }
        let entry = Entry::named(self.root.name(&key));
        match fs::metadata(found.path()) {
            Ok(status) if status.is_dir() => page.links.push(key + "/"),
            Ok(status) if status.is_file() => {
                let modified = status.modified().ok().filter(|time| *time >= UNIX_EPOCH);
                let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                let version = since.map(|since| {
                    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
                    Version::of_file(seconds, since.subsec_nanos(), status.len())
                });
                page.entries.push(Entry { size: Some(status.len()), modified, version, ..entry });
            }
            Ok(_) => page.others.push(entry),
            // It was removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_link => {}
            // It leads nowhere, or where this user may not look: who reads it is told.
            Err(_) => page.entries.push(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Dir, Facility, SlowDir, skip_unless};

    use super::*;
    use crate::Name;

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
            slow.create(&at.to_string(), "");
        }
        slow.mount().set_rules(vec!["*: metadata=10ms".parse().expect("a rule")]);
        let Folder { root, key, .. } = folder(slow.path());
        let pages: Vec<_> = pages(root, key, Duration::from_secs(1)).collect().await;
        let names = pages.into_iter().map(|page| page.expect("in time").entries.len());
        assert_eq!(names.sum::<usize>(), 150);
    }
}
