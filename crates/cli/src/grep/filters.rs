//! Which files are searched of those that nobody named one by one: by globs, file types and sizes.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ignore::overrides::Override;
use ignore::types::Types;
use nearfirst::{Costs, Entry, Kind, Name};

use super::asked::Asked;
use super::settings::overrides;
use super::walk::types;
use crate::sets::folder::folders;

/// What `--glob`, `--type`, `--max-filesize` and their kin ask for.
#[derive(Debug, Clone)]
pub(super) struct Filters {
    pub(super) globs: Override,
    pub(super) types: Types,
    max_filesize: Option<u64>,
    /// In which operands are looked for: no glob leaves them out.
    folders: Vec<Name>,
}

impl Filters {
    /// As asked for of these operands, in this current folder.
    ///
    /// # Errors
    /// A glob that is none; a type that is not known.
    pub(super) fn new(asked: &Asked, folder: &Path, operands: &[OsString]) -> anyhow::Result<Self> {
        let globs = overrides(folder, &asked.globs, &asked.iglobs, asked.glob_case_insensitive)?;
        let types = if asked.types.is_empty() { Types::empty() } else { types(&asked.types)? };
        let operands = operands.iter().filter(|_| !globs.is_empty());
        let folders = operands.flat_map(|operand| folders(operand)).collect();
        Ok(Self { globs, types, max_filesize: asked.max_filesize, folders })
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.globs.is_empty() && self.types.is_empty() && self.max_filesize.is_none()
    }

    /// Whether a path is searched that a pattern stands for; a folder is walked, and they are asked again.
    pub(super) fn take_path(&self, path: &Path, costs: &Costs) -> bool {
        // What cannot be asked about is said to be so by who reads it.
        let status = costs.local().stat(path).ok();
        let is_folder = status.as_ref().is_some_and(|status| status.kind == Kind::Folder);
        let size = status.filter(|_| !is_folder).map(|status| status.size);
        self.take(&Name::new(path.as_os_str().as_bytes()), is_folder, size)
    }

    /// Whether an object is searched, whose name was listed unless it is one of `named`.
    pub(super) fn take_entry(&self, entry: &Entry, named: &HashSet<Name>, costs: &Costs) -> bool {
        if named.contains(&entry.name) {
            return true;
        }
        let size = self.max_filesize.and_then(|_| size(entry, costs));
        self.take(&entry.name, false, size)
    }

    /// As the walk of a folder decides, which does not enter what a glob leaves out: of globs that
    /// match, the last decides alone, but for the size.
    fn take(&self, name: &Name, is_folder: bool, size: Option<u64>) -> bool {
        let path = path_in_store(name);
        let is_large = self.max_filesize.zip(size).is_some_and(|(most, size)| size > most);
        let by_globs = self.globs.matched(path, is_folder);
        let by_types = || self.types.matched(path, is_folder).is_ignore();
        let is_out = if by_globs.is_none() { by_types() } else { by_globs.is_ignore() };
        !is_large && !is_out && !self.lies_in_what_is_out(name)
    }

    /// Whether a glob leaves out a folder above a name, below the one that it was looked for in.
    fn lies_in_what_is_out(&self, name: &Name) -> bool {
        let above =
            self.folders.iter().filter(|above| name.as_bytes().starts_with(above.as_bytes()));
        let nearest = above.max_by_key(|above| above.as_bytes().len());
        let nearest = nearest.map_or(Path::new(""), path_in_store);
        let folders = path_in_store(name).ancestors().skip(1).take_while(|&above| above != nearest);
        // Neither `.` nor `..` is the name of a folder.
        let mut named = folders.filter(|folder| folder.file_name().is_some());
        named.any(|folder| self.globs.matched(folder, true).is_ignore())
    }
}

/// How large an object is, as far as its listing or this machine tells.
fn size(entry: &Entry, costs: &Costs) -> Option<u64> {
    if entry.likely_size().is_some() || !Costs::is_to_be_asked(entry) {
        return entry.likely_size();
    }
    // Others take over a thread's work while a mount is asked.
    tokio::task::block_in_place(|| costs.known(entry)).size
}

/// What globs see of a name: of a URL what is behind its host or bucket, without a query.
fn path_in_store(name: &Name) -> &Path {
    let mut bytes = name.without_query();
    if let Some(scheme) = name.scheme() {
        let rest = &bytes[scheme.len() + 3..];
        let host = rest.iter().position(|&byte| byte == b'/').map_or(rest.len(), |at| at + 1);
        bytes = &rest[host..];
    }
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_see_what_is_behind_the_host() {
        for (name, path) in [
            ("logs/a.gz", "logs/a.gz"),
            ("s3://logs/2026/a?b.gz", "2026/a?b.gz"),
            ("http://host/a/b.log?c=d/e.gz#f", "a/b.log"),
            ("HTTPS://host/b.log?c=d/e.gz", "b.log"),
            ("http://host?c=d/e", ""),
            ("http://host", ""),
        ] {
            assert_eq!(path_in_store(&Name::from(name)), Path::new(path), "{name}");
        }
    }
}
