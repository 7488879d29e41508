//! Names of files and programs as small numbers, so that trees are small and compared quickly.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

/// A name that was given a number; valid until a sweep that does not keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub(crate) u32);

/// What is kept with a name beside its bytes: slot, map entries and the counters of [`Arc`].
pub(crate) const OVERHEAD_BYTES: usize = 104;

/// Bytes of a file whose size is not told: about the mean of a source file.
const UNKNOWN_BYTES: u64 = 16 << 10;
/// What a file is taken to have at most: more than memory has. Sparse files may have exabytes, of which a
/// few make a sum that is no number any more.
pub(crate) const SIZE_MAX: u64 = 1 << 40;

#[derive(Debug, Clone)]
struct Slot {
    path: Arc<[u8]>,
    accessed: Option<Accesses>,
    /// Bytes of the file, where they were told.
    size: Option<u64>,
    inode: Option<u64>,
}

/// How much was accessed until a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accesses {
    /// Files, one as often as it was.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// The moment.
    pub(crate) at: Duration,
}

/// Names and their numbers, both ways.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    numbers: HashMap<Arc<[u8]>, Name>,
    /// Those in each folder.
    folders: HashMap<Box<[u8]>, Vec<Name>>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    bytes: usize,
}

impl Names {
    /// The number of a name, given to it if it has none.
    pub(crate) fn intern(&mut self, path: &Arc<[u8]>) -> Name {
        // Hashed once: where many are read back in, that is much of the work.
        let new = match self.numbers.entry(Arc::clone(path)) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(new) => new,
        };
        let slot = Some(Slot { path: Arc::clone(path), accessed: None, size: None, inode: None });
        let name = if let Some(number) = self.free.pop() {
            self.slots[number as usize] = slot;
            Name(number)
        } else {
            self.slots.push(slot);
            Name(u32::try_from(self.slots.len() - 1).expect("memory ends before u32 does"))
        };
        self.bytes += path.len() + OVERHEAD_BYTES;
        new.insert(name);
        let folder = folder_of(path);
        if let Some(others) = self.folders.get_mut(folder) {
            others.push(name);
        } else {
            self.bytes += folder.len() + OVERHEAD_BYTES;
            self.folders.insert(folder.into(), vec![name]);
        }
        name
    }

    /// Makes room for so many names.
    pub(crate) fn reserve(&mut self, names: usize) {
        self.numbers.reserve(names);
        self.slots.reserve(names);
    }

    /// The number of a name that has one.
    pub(crate) fn find(&self, path: &[u8]) -> Option<Name> {
        self.numbers.get(path).copied()
    }

    /// The names in a folder, which ends with a slash, and not below it.
    pub(crate) fn within(&self, folder: &[u8]) -> impl Iterator<Item = Name> {
        self.folders.get(folder).into_iter().flatten().copied()
    }

    /// The name of a number.
    pub(crate) fn path(&self, name: Name) -> &Arc<[u8]> {
        &self.slot(name).path
    }

    /// How much had been accessed when this file was last, if it was.
    pub(crate) fn accessed(&self, name: Name) -> Option<Accesses> {
        self.slot(name).accessed
    }

    /// Notes an access to a file, of this size, which brings it to so much in all.
    pub(crate) fn access(&mut self, name: Name, size: Option<u64>, accesses: Accesses) {
        if let Some(slot) = &mut self.slots[name.0 as usize] {
            slot.accessed = Some(accesses);
        }
        self.resize(name, size);
    }

    /// Notes a file's bytes, where they are told.
    pub(crate) fn resize(&mut self, name: Name, size: Option<u64>) {
        if let Some(slot) = &mut self.slots[name.0 as usize] {
            slot.size = size.or(slot.size);
        }
    }

    /// Bytes of a file, as they were told last; if nobody did, a guess.
    pub(crate) fn size(&self, name: Name) -> u64 {
        self.told_size(name).unwrap_or(UNKNOWN_BYTES).min(SIZE_MAX)
    }

    /// The same, if somebody told.
    pub(crate) fn told_size(&self, name: Name) -> Option<u64> {
        self.slot(name).size
    }

    /// Notes the number of a file's inode, where it is told.
    pub(crate) fn identify(&mut self, name: Name, inode: Option<u64>) {
        if let Some(slot) = &mut self.slots[name.0 as usize] {
            slot.inode = inode.or(slot.inode);
        }
    }

    /// The number of a file's inode, as it was told last.
    pub(crate) fn inode(&self, name: Name) -> Option<u64> {
        self.slot(name).inode
    }

    /// Numbers given so far, whether still in use or not: one more than the largest.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Memory of one name, about.
    pub(crate) fn bytes_of(&self, name: Name) -> usize {
        self.path(name).len() + OVERHEAD_BYTES
    }

    /// Forgets all names but those whose place in `kept` is true.
    pub(crate) fn sweep(&mut self, kept: &[bool]) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if kept.get(number).copied().unwrap_or(false) {
                continue;
            }
            if let Some(slot) = slot.take() {
                self.bytes -= slot.path.len() + OVERHEAD_BYTES;
                self.numbers.remove(&slot.path);
                self.free.push(u32::try_from(number).expect("numbers are given as u32"));
            }
        }
        self.folders.retain(|folder, names| {
            names.retain(|name| self.slots[name.0 as usize].is_some());
            if names.is_empty() {
                self.bytes -= folder.len() + OVERHEAD_BYTES;
            }
            !names.is_empty()
        });
    }

    fn slot(&self, name: Name) -> &Slot {
        self.slots[name.0 as usize].as_ref().expect("names in use are kept by every sweep")
    }
}

/// The folder of a path, with its slash; of what has none, nothing.
pub(crate) fn folder_of(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&byte| byte == b'/').map_or(0, |place| place + 1)]
}

/// What the name of a file ends with, from its last dot on; nothing if there is none.
pub(crate) fn ending_of(path: &[u8]) -> &[u8] {
    let file = &path[folder_of(path).len()..];
    file.iter().rposition(|&byte| byte == b'.').map_or(b"", |place| &file[place..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swept_number_is_given_again_and_kept_ones_stay() {
        let mut names = Names::default();
        let (a, b) = (names.intern(&Arc::from(&b"/a"[..])), names.intern(&Arc::from(&b"/b"[..])));
        names.sweep(&[false, true]);
        assert_eq!(names.find(b"/a"), None);
        assert_eq!(names.find(b"/b"), Some(b));
        assert_eq!(names.within(b"/").collect::<Vec<_>>(), [b]);
        assert_eq!(names.intern(&Arc::from(&b"/c"[..])), a);
        assert_eq!(names.within(b"/").collect::<Vec<_>>(), [b, a]);
        assert_eq!(names.within(b"/c/").count(), 0);
        assert_eq!(&**names.path(b), b"/b");
        names.sweep(&[]);
        assert_eq!((names.bytes(), names.find(b"/b")), (0, None));
    }
}
