//! Where a user's own files are: the XDG base directories.

use std::path::PathBuf;

/// The folder that a variable names (`XDG_STATE_HOME`), by default one below the user's home
/// (`.local/state`). `None` without a home. A path that begins where somebody stands names none.
pub fn own_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set(variable).or_else(|| Some(set("HOME")?.join(below_home)))
}
