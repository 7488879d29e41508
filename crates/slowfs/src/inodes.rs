//! The inodes the kernel holds references to, and their paths below the source directory.
//!
//! Paths rather than descriptors, so that a directory of a million files costs memory and no
//! descriptors. A file keeps the inode number of its source.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The kernel's number for the root of a FUSE file system.
pub(crate) const ROOT: u64 = 1;

/// First of the numbers given to files whose own is taken: by the root or by another device's file.
const SPARE: u64 = 1 << 62;

/// What a file is in the source: device, inode number and time of birth (a number is used again
/// after its file is deleted).
pub(crate) type Identity = (u64, u64, i128);

#[derive(Debug)]
pub(crate) struct Inodes {
    by_number: HashMap<u64, Inode>,
    by_identity: HashMap<Identity, u64>,
    next_spare: u64,
}

#[derive(Debug)]
struct Inode {
    identity: Identity,
    lookups: u64,
    /// The file's known names, the latest last; hard links have several.
    names: Vec<Name>,
}

#[derive(Debug, PartialEq)]
struct Name {
    parent: u64,
    name: OsString,
}

impl Inodes {
    pub(crate) fn new(root: Identity) -> Self {
        let inode = Inode { identity: root, lookups: 1, names: Vec::new() };
        Self {
            by_number: HashMap::from([(ROOT, inode)]),
            by_identity: HashMap::from([(root, ROOT)]),
            next_spare: SPARE,
        }
    }

    /// Counts a reference of the kernel to the file found under `name`, and returns its number.
    pub(crate) fn refer(&mut self, parent: u64, name: &OsStr, identity: Identity) -> u64 {
        let number = self.number(identity);
        let inode = self.by_number.entry(number).or_insert_with(|| Inode {
            identity,
            lookups: 0,
            names: Vec::new(),
        });
        inode.lookups += 1;
        inode.add_name(parent, name);
        number
    }

    /// The number of a file, held or to be given.
    fn number(&mut self, identity: Identity) -> u64 {
        if let Some(&number) = self.by_identity.get(&identity) {
            return number;
        }
        let own = identity.1;
        let number = if own == ROOT || own >= SPARE || self.by_number.contains_key(&own) {
            self.next_spare += 1;
            self.next_spare
        } else {
            own
        };
        self.by_identity.insert(identity, number);
        number
    }

    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        if number == ROOT {
            return;
        }
        let Some(inode) = self.by_number.get_mut(&number) else { return };
        inode.lookups = inode.lookups.saturating_sub(lookups);
        if inode.lookups == 0 {
            self.by_identity.remove(&inode.identity);
            self.by_number.remove(&number);
        }
    }

    /// The path relative to the source directory; the root's is empty. `None`: no name is left.
    pub(crate) fn path(&self, number: u64) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = number;
        while at != ROOT {
            let name = self.by_number.get(&at)?.names.last()?;
            names.push(&name.name);
            at = name.parent;
        }
        Some(names.into_iter().rev().collect())
    }

    /// The name `name` in `parent` is gone.
    pub(crate) fn unlinked(&mut self, identity: Identity, parent: u64, name: &OsStr) {
        if let Some(inode) = self.held(identity) {
            inode.drop_name(parent, name);
        }
    }

    /// The file has the name `to` instead of `from`.
    pub(crate) fn renamed(&mut self, identity: Identity, from: (u64, &OsStr), to: (u64, &OsStr)) {
        if let Some(inode) = self.held(identity) {
            inode.drop_name(from.0, from.1);
            inode.add_name(to.0, to.1);
        }
    }

    fn held(&mut self, identity: Identity) -> Option<&mut Inode> {
        self.by_number.get_mut(self.by_identity.get(&identity)?)
    }
}

impl Inode {
    fn add_name(&mut self, parent: u64, name: &OsStr) {
        self.drop_name(parent, name);
        self.names.push(Name { parent, name: name.to_owned() });
    }

    fn drop_name(&mut self, parent: u64, name: &OsStr) {
        self.names.retain(|known| known.parent != parent || known.name != name);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const DEVICE: u64 = 5;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn a_path_follows_renames_of_the_file_and_of_its_folder() {
        let mut inodes = Inodes::new((DEVICE, 100, 0));
        let folder = inodes.refer(ROOT, name("a"), (DEVICE, 101, 0));
        let file = inodes.refer(folder, name("x"), (DEVICE, 102, 0));
        assert_eq!((folder, file), (101, 102));
        inodes.renamed((DEVICE, 101, 0), (ROOT, name("a")), (ROOT, name("b")));
        inodes.renamed((DEVICE, 102, 0), (folder, name("x")), (folder, name("y")));
        assert_eq!(inodes.path(file).as_deref(), Some(Path::new("b/y")));
        assert_eq!(inodes.path(ROOT).as_deref(), Some(Path::new("")));
    }

    #[test]
    fn a_hard_link_outlives_its_other_name() {
        let mut inodes = Inodes::new((DEVICE, 100, 0));
        let file = inodes.refer(ROOT, name("one"), (DEVICE, 102, 0));
        assert_eq!(inodes.refer(ROOT, name("two"), (DEVICE, 102, 0)), file);
        inodes.unlinked((DEVICE, 102, 0), ROOT, name("two"));
        assert_eq!(inodes.path(file).as_deref(), Some(Path::new("one")));
        inodes.unlinked((DEVICE, 102, 0), ROOT, name("one"));
        assert_eq!(inodes.path(file), None);
    }

    #[test]
    fn numbers_never_collide_and_are_free_after_the_last_forget() {
        let mut inodes = Inodes::new((DEVICE, 100, 0));
        let a = inodes.refer(ROOT, name("a"), (DEVICE, 7, 0));
        let other_device = inodes.refer(ROOT, name("b"), (DEVICE + 1, 7, 0));
        let one = inodes.refer(ROOT, name("c"), (DEVICE + 1, ROOT, 0));
        assert_eq!(a, 7);
        assert!(other_device != a && one != ROOT && one != other_device);
        inodes.refer(ROOT, name("a"), (DEVICE, 7, 0));
        inodes.forget(a, 1);
        assert!(inodes.path(a).is_some());
        inodes.forget(a, 1);
        assert!(inodes.path(a).is_none());
        assert_eq!(inodes.refer(ROOT, name("z"), (DEVICE + 1, 7, 0)), other_device);
    }
}
