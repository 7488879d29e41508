//! A run that reads whole folders, in an order in which nobody has read them before.

use std::collections::HashMap;
use std::time::Duration;

use super::Evidence;
use crate::names::{Name, Names, ending_of, folder_of};
use crate::numbered::{NumberMap, NumberSet};

/// Files that a run has read of a folder when the others are looked at first.
const READ_MIN: usize = 16;
/// With more left than this they are not expected: many would be gone again when they are read.
const LEFT_MAX: usize = 128;
/// Folders of one run that are counted.
const FOLDERS_MAX: usize = 1 << 10;
/// Files that one run is expected to read by this.
const AWAITED_MAX: usize = 1 << 14;

/// What a run has read of each folder, and what it should read besides.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    folders: HashMap<Box<[u8]>, Folder>,
    /// What has not come, whether it was predicted or not.
    awaited: NumberMap<Name, Evidence>,
}

#[derive(Debug)]
struct Folder {
    read: usize,
    since: Duration,
    /// How the names of all files that were read end.
    ending: Option<Box<[u8]>>,
}

impl Sweep {
    /// The run read a file for the first time: gives why that was to be expected, if it was.
    pub(crate) fn came(&mut self, file: Name) -> Option<Evidence> {
        self.awaited.remove(&file)
    }

    /// It read one that its patterns did not know: gives others of the folder, each with when it is
    /// needed, and why.
    ///
    /// Each time that twice as many were read: it is then surer that it will be all.
    pub(crate) fn others(
        &mut self,
        file: Name,
        names: &Names,
        at: Duration,
        opened: &NumberSet<Name>,
    ) -> Option<(Evidence, Vec<(Name, Duration)>)> {
        let path = names.path(file);
        let folder = folder_of(path);
        let ending = ending_of(path);
        if !self.folders.contains_key(folder) && self.folders.len() < FOLDERS_MAX {
            let new = Folder { read: 0, since: at, ending: Some(ending.into()) };
            self.folders.insert(folder.into(), new);
        }
        let known = self.folders.get_mut(folder)?;
        known.read += 1;
        known.ending.take_if(|known| **known != *ending);
        if known.read < READ_MIN || !known.read.is_power_of_two() {
            return None;
        }
        let left = names.within(folder).filter(|&other| {
            !opened.contains(&other)
                && names.accessed(other).is_some()
                && known.ending.as_deref().is_none_or(|known| known == ending_of(names.path(other)))
        });
        let mut left: Vec<Name> = left.take(LEFT_MAX + 1).collect();
        if left.len() > LEFT_MAX || self.awaited.len() + left.len() > AWAITED_MAX {
            return None;
        }
        left.sort_unstable();
        let evidence = Evidence::of_sweep(known.read / READ_MIN, known.ending.is_some());
        self.awaited.extend(left.iter().map(|&other| (other, evidence)));
        let reads = u32::try_from(known.read).unwrap_or(u32::MAX);
        let each = at.saturating_sub(known.since) / reads;
        let others = left.into_iter().zip((1..).map(|steps| at + each * steps)).collect();
        Some((evidence, others))
    }

    /// What has not come, and why it should have.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (Name, Evidence)> {
        self.awaited.iter().map(|(&file, &evidence)| (file, evidence))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::names::Accesses;

    const COUNT: usize = 40;

    fn file(names: &mut Names, path: &str) -> Name {
        let name = names.intern(&Arc::from(path.as_bytes()));
        names.access(name, None, Accesses::default());
        name
    }

    fn folder(names: &mut Names, count: usize) -> Vec<Name> {
        (0..count).map(|number| file(names, &format!("/d/{number}.c"))).collect()
    }

    /// Reads `files`, one each millisecond; what is expected after the last.
    fn reads(sweep: &mut Sweep, names: &Names, files: &[Name]) -> Vec<(Name, Duration)> {
        let mut opened = NumberSet::default();
        let mut others = Vec::new();
        for (&file, ms) in files.iter().zip(1..) {
            opened.insert(file);
            sweep.came(file);
            let found = sweep.others(file, names, Duration::from_millis(ms), &opened);
            others = found.map_or_else(Vec::new, |(_, others)| others);
        }
        others
    }

    #[test]
    fn after_some_files_of_a_folder_the_others_are_expected() {
        let mut names = Names::default();
        let files = folder(&mut names, COUNT);
        file(&mut names, "/d/below/x.c");
        file(&mut names, "/d/x.o");
        names.intern(&Arc::from(&b"/d/never-read.c"[..]));
        let mut sweep = Sweep::default();
        assert!(reads(&mut sweep, &names, &files[..READ_MIN - 1]).is_empty());
        let mut sweep = Sweep::default();
        let others = reads(&mut sweep, &names, &files[..READ_MIN]);
        let named: Vec<Name> = others.iter().map(|&(file, _)| file).collect();
        assert_eq!(named, files[READ_MIN..]);
        assert!(others.is_sorted_by_key(|&(_, at)| at), "{others:?}");
        assert!(others[0].1 > Duration::from_millis(READ_MIN as u64), "{others:?}");
        assert!(sweep.came(files[READ_MIN]).is_some() && sweep.came(files[0]).is_none());
        assert_eq!(sweep.awaited().count(), COUNT - READ_MIN - 1);
    }

    #[test]
    fn who_reads_files_of_all_kinds_reads_others_of_any() {
        let mut names = Names::default();
        let mut files = folder(&mut names, READ_MIN);
        files[0] = file(&mut names, "/d/Makefile");
        let other = file(&mut names, "/d/x.o");
        let others = reads(&mut Sweep::default(), &names, &files);
        assert!(others.iter().any(|&(file, _)| file == other), "{others:?}");
    }

    #[test]
    fn of_a_large_folder_the_last_part_is_expected() {
        let mut names = Names::default();
        let files = folder(&mut names, 2 * LEFT_MAX);
        let mut sweep = Sweep::default();
        assert!(reads(&mut sweep, &names, &files[..READ_MIN]).is_empty());
        let mut sweep = Sweep::default();
        assert_eq!(reads(&mut sweep, &names, &files[..LEFT_MAX]).len(), LEFT_MAX);
    }
}
