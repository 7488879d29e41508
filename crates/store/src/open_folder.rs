//! Folders opened, and made, so that nobody else decides where root writes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self as sysfs, FileType, Mode, OFlags};
use rustix::io::Errno;

/// A folder, without a right to list it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Links that are followed in one path, as the kernel has it.
const LINKS_MAX: usize = 40;

/// Opens a folder: what is in it is reached by its descriptor, wherever its path leads by then.
///
/// # Errors
/// The system's; [`io::ErrorKind::PermissionDenied`] for root, where a link leads to it that others
/// could change.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        return walk(path);
    }
    // Who is not root gains nothing for the owner of a link that it could not have by itself.
    Ok(sysfs::open(path, FOLDER, Mode::empty())?)
}

/// Opens a folder; makes it, and those that it lies in, where there is none, with these permissions.
/// Of each that it made, `made` hears, after the folder around it.
///
/// # Errors
/// As [`open_folder`].
pub(crate) fn make_folder(
    path: &Path,
    mode: Mode,
    made: &dyn Fn(&OwnedFd, &OwnedFd),
) -> io::Result<OwnedFd> {
    let missing = match open_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => error,
        opened => return opened,
    };
    let Some(name) = path.file_name() else { return Err(missing) };
    let around = match path.parent().filter(|around| !around.as_os_str().is_empty()) {
        Some(around) => make_folder(around, mode, made)?,
        None => open_folder(Path::new("."))?,
    };
    let is_new = match sysfs::mkdirat(&around, name, mode) {
        Ok(()) => true,
        // Another may have been faster.
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let folder = sysfs::openat(&around, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    if is_new {
        made(&around, &folder);
    }
    Ok(folder)
}

/// Opens a folder as root; of links, only those that nobody else could have put on the way are followed.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let begin = |path: &Path| {
        let begin = if path.is_absolute() { "/" } else { "." };
        sysfs::open(begin, FOLDER, Mode::empty())
    };
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT.into());
    }
    let mut at = begin(path)?;
    let mut rest = names_from_last(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        match sysfs::openat(&at, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => at = next,
            Err(Errno::NOTDIR | Errno::LOOP) if links < LINKS_MAX => {
                links += 1;
                let leads_to = roots_link(&at, &name)?;
                if leads_to.is_absolute() {
                    at = begin(&leads_to)?;
                }
                rest.extend(names_from_last(&leads_to));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(at)
}

fn names_from_last(path: &Path) -> Vec<OsString> {
    let is_name =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().rev().filter(is_name).map(|part| part.as_os_str().to_owned()).collect()
}

/// Where a link leads that is root's, in a folder that nobody but root can write.
fn roots_link(folder: &OwnedFd, name: &OsStr) -> io::Result<PathBuf> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = sysfs::openat(folder, name, flags, Mode::empty())?;
    let (of_link, of_folder) = (sysfs::fstat(&link)?, sysfs::fstat(folder)?);
    if !FileType::from_raw_mode(of_link.st_mode).is_symlink() {
        return Err(Errno::NOTDIR.into());
    }
    // Who can write the folder can bring a link of root's there.
    let is_shared = Mode::from_raw_mode(of_folder.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if of_link.st_uid != 0 || of_folder.st_uid != 0 || is_shared {
        let text = format!(
            "its folder lies behind `{}`, a link that others could change, which root does not follow",
            name.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let leads_to = sysfs::readlinkat(&link, "", Vec::new())?;
    Ok(OsString::from_vec(leads_to.into_bytes()).into())
}
