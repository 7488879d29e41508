//! Where a user's own files are: the XDG base directories.

use std::path::PathBuf;

/// The folder that a variable names (`XDG_STATE_HOME`), by default one below the user's home
/// (`.local/state`). `None` without a home. A path that begins where somebody stands names none.
pub(crate) fn own_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set(variable).or_else(|| Some(set("HOME")?.join(below_home)))
}

/// The folder of what a user's runs teach: the one that `$NEARFIRST_STATE` names, by default
/// `$XDG_STATE_HOME/nearfirst`. `None` without a home.
pub fn state_folder() -> Option<PathBuf> {
    let own = || Some(own_folder("XDG_STATE_HOME", ".local/state")?.join("nearfirst"));
    named_state_folder().or_else(own)
}

/// The folder that `$NEARFIRST_STATE` names: whole, so that who leaves the folder it is in still finds it.
pub(crate) fn named_state_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("NEARFIRST_STATE").filter(|folder| !folder.is_empty())?;
    Some(std::path::absolute(&folder).unwrap_or_else(|_| PathBuf::from(folder)))
}
