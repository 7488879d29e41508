//! Which files and programs the last runs under one circumstance had.

use std::borrow::Cow;
use std::cmp::Reverse;

use crate::event::Access;
use crate::names::Name;

/// Runs that a pattern remembers: a name that none of them had is forgotten.
pub(crate) const RUNS_MAX: u8 = 16;
/// Files and programs of one pattern.
const ENTRIES_MAX: usize = 1 << 17;

/// A file in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileEntry {
    /// A path, or a template of one.
    pub(crate) name: Name,
    /// One bit for each of the last runs, the latest lowest: whether it had the file.
    pub(crate) history: u16,
    pub(crate) access: Access,
    /// When the latest of these runs opened it first, in milliseconds from the start.
    pub(crate) at: u32,
    /// As which of its files.
    pub(crate) order: u32,
}

/// A program in a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChildEntry {
    /// The exact circumstance of its invocation.
    pub(crate) invocation: u64,
    pub(crate) history: u16,
    /// When the latest of these runs invoked it first, in milliseconds from the start.
    pub(crate) at: u32,
}

/// What runs under one circumstance had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The program whose runs they were.
    pub(crate) program: Option<Name>,
    /// Runs remembered.
    pub(crate) runs: u8,
    /// When it was learned or used last.
    pub(crate) used: u64,
    /// By name.
    pub(crate) files: Vec<FileEntry>,
    /// By invocation.
    pub(crate) children: Vec<ChildEntry>,
}

trait Entry: Copy {
    type Key: Ord;
    fn key(&self) -> Self::Key;
    fn history(&mut self) -> &mut u16;
}

impl Entry for FileEntry {
    type Key = Name;
    fn key(&self) -> Name {
        self.name
    }
    fn history(&mut self) -> &mut u16 {
        &mut self.history
    }
}

impl Entry for ChildEntry {
    type Key = u64;
    fn key(&self) -> u64 {
        self.invocation
    }
    fn history(&mut self) -> &mut u16 {
        &mut self.history
    }
}

impl Pattern {
    /// Takes in a run: files by name, programs by invocation, each once and with only the latest
    /// bit of history.
    pub(crate) fn learn(&mut self, files: &[FileEntry], children: &[ChildEntry]) {
        self.runs = (self.runs + 1).min(RUNS_MAX);
        self.files = merge(&self.files, files);
        self.children = merge(&self.children, children);
    }

    /// The entry of a file.
    pub(crate) fn file(&self, name: Name) -> Option<&FileEntry> {
        let place = self.files.binary_search_by_key(&name, |entry| entry.name).ok()?;
        Some(&self.files[place])
    }

    /// So many of its files at most, by name: those that the most runs had, of these the first.
    pub(crate) fn fullest(&self, most: usize) -> Cow<'_, [FileEntry]> {
        if self.files.len() <= most {
            return Cow::Borrowed(&self.files);
        }
        let mut files = self.files.clone();
        let rank = |file: &FileEntry| (Reverse(file.history.count_ones()), file.order, file.name);
        files.select_nth_unstable_by_key(most, rank);
        files.truncate(most);
        files.sort_unstable_by_key(|file| file.name);
        Cow::Owned(files)
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.files.len() * size_of::<FileEntry>()
            + self.children.len() * size_of::<ChildEntry>()
    }
}

fn merge<E: Entry>(old: &[E], new: &[E]) -> Vec<E> {
    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let mut new = new.iter().copied().peekable();
    for &entry in old {
        while let Some(first) = new.next_if(|first| first.key() < entry.key()) {
            merged.push(first);
        }
        let mut entry = entry;
        let history = *entry.history() << 1;
        if let Some(again) = new.next_if(|first| first.key() == entry.key()) {
            entry = again;
            *entry.history() = history | 1;
        } else {
            *entry.history() = history;
        }
        if *entry.history() != 0 {
            merged.push(entry);
        }
    }
    merged.extend(new);
    if merged.len() > ENTRIES_MAX {
        merged.retain(|entry| *entry.clone().history() & 1 == 1);
        merged.truncate(ENTRIES_MAX);
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(name: u32) -> FileEntry {
        FileEntry { name: Name(name), history: 1, access: Access::Read, at: 10 * name, order: 0 }
    }

    proptest! {
        #[test]
        fn a_history_says_which_of_the_last_runs_had_a_file(
            runs in prop::collection::vec(prop::collection::btree_set(0_u32..12, 0..8), 0..40)
        ) {
            let mut pattern = Pattern::default();
            let mut model: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
            for (number, run) in runs.iter().enumerate() {
                let files: Vec<FileEntry> = run.iter().map(|&name| entry(name)).collect();
                pattern.learn(&files, &[]);
                for name in 0..12 {
                    model.entry(name).or_insert_with(|| vec![false; number]).push(run.contains(&name));
                }
            }
            prop_assert_eq!(usize::from(pattern.runs), runs.len().min(16));
            for (name, had) in model {
                let history = had.iter().rev().take(16).enumerate();
                let history = history.fold(0, |bits, (place, &had)| bits | u16::from(had) << place);
                prop_assert_eq!(pattern.file(Name(name)).map_or(0, |entry| entry.history), history);
            }
        }
    }

    #[test]
    fn of_too_many_files_those_are_looked_at_that_most_runs_had() {
        let mut pattern = Pattern::default();
        pattern.learn(&[1, 2, 3, 4].map(entry), &[]);
        pattern.learn(&[2, 4, 5].map(entry), &[]);
        let names = |most| pattern.fullest(most).iter().map(|file| file.name.0).collect::<Vec<_>>();
        assert_eq!(names(9), [1, 2, 3, 4, 5]);
        assert_eq!(names(3), [1, 2, 4]);
        assert_eq!(names(1), [2]);
        assert!(names(0).is_empty());
    }
}
