//! Where files are that memory has no room for, and that nobody needs afterwards.

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access, statfs};

/// File systems that are kept in memory (`linux/magic.h`): tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The folder of what memory has no room for; clones share its path.
///
/// By default, and each time that it is asked for, the one that `TMPDIR` names; without it `/tmp`, or
/// `/var/tmp` where `/tmp` is kept in memory, as it is by default of several distributions.
#[derive(Debug, Clone, Default)]
pub struct SpillFolder(Option<Arc<Path>>);

impl SpillFolder {
    /// Where it is.
    pub fn path(&self) -> Cow<'_, Path> {
        let by_default = || scratch_folder(env::var_os("TMPDIR")).into();
        self.0.as_deref().map_or_else(by_default, Cow::Borrowed)
    }
}

impl From<Option<PathBuf>> for SpillFolder {
    /// The one that was told, if one was.
    fn from(told: Option<PathBuf>) -> Self {
        Self(told.map(Arc::from))
    }
}

/// The folder that `TMPDIR` names, if it names one: an empty one is the working folder for the system.
fn scratch_folder(told: Option<OsString>) -> PathBuf {
    match told.filter(|folder| !folder.is_empty()) {
        Some(folder) => folder.into(),
        None => on_disk(PathBuf::from("/tmp"), Path::new("/var/tmp")),
    }
}

/// A folder, or another in its place if it is in memory and the other is not.
fn on_disk(folder: PathBuf, other: &Path) -> PathBuf {
    let is_in_memory = |path: &Path| statfs(path).map(|about| IN_MEMORY.contains(&about.f_type));
    let is_usable = || access(other, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let is_moved = is_in_memory(&folder) == Ok(true) && is_in_memory(other) == Ok(false);
    if is_moved && is_usable() { other.to_owned() } else { folder }
}

#[cfg(test)]
mod tests {
    use testkit::{Dir, Facility, Tmpfs, skip_unless};

    use super::*;

    #[test]
    fn no_name_of_a_folder_is_none() {
        assert_eq!(scratch_folder(Some("".into())), scratch_folder(None));
        assert!(scratch_folder(None).is_absolute());
        assert_eq!(scratch_folder(Some("there".into())), Path::new("there"));
    }

    #[test]
    fn what_has_no_room_in_memory_does_not_go_there() {
        skip_unless!(Facility::Root);
        let (disk, memory, memory_too) = (Dir::new(), Tmpfs::new(1 << 20), Tmpfs::new(1 << 20));
        let disk = disk.path();
        let memory = memory.path();
        assert_eq!(on_disk(memory.to_owned(), disk), disk);
        assert_eq!(on_disk(disk.to_owned(), memory), disk);
        assert_eq!(on_disk(memory.to_owned(), memory_too.path()), memory);
        assert_eq!(on_disk(memory.to_owned(), &disk.join("none")), memory);
    }
}
