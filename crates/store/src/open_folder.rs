//! Folders opened, and made, and files in them opened, so that nobody else decides what root reads and where
//! it writes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self as sysfs, AtFlags, FileType, Mode, OFlags};
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

/// Opens a file in a folder; root follows links to it as [`open_folder`] does.
///
/// # Errors
/// As [`open_folder`].
pub(crate) fn open_file(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        return Ok(sysfs::openat(folder, name, flags, Mode::empty())?);
    }
    let (mut at, mut name) = (folder.try_clone()?, name.to_owned());
    for _ in 0..LINKS_MAX {
        let there = sysfs::statat(&at, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !FileType::from_raw_mode(there.st_mode).is_symlink() {
            return Ok(sysfs::openat(&at, &name, flags | OFlags::NOFOLLOW, Mode::empty())?);
        }
        let leads_to = roots_link(&at, &name)?;
        leads_to.file_name().ok_or(Errno::ISDIR)?.clone_into(&mut name);
        at = walk_from(at, leads_to.parent().unwrap_or(Path::new("")))?;
    }
    Err(Errno::LOOP.into())
}

/// Opens a folder as root; of links, only those that nobody else could have put on the way are followed.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT.into());
    }
    let begin = if path.is_absolute() { "/" } else { "." };
    walk_from(sysfs::open(begin, FOLDER, Mode::empty())?, path)
}

/// The same from an open folder, which is where an empty path leads.
fn walk_from(mut at: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let begin = |at: OwnedFd, path: &Path| {
        if path.is_absolute() { sysfs::open("/", FOLDER, Mode::empty()) } else { Ok(at) }
    };
    at = begin(at, path)?;
    let mut rest = names_from_last(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        match sysfs::openat(&at, &name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => at = next,
            Err(Errno::NOTDIR | Errno::LOOP) if links < LINKS_MAX => {
                links += 1;
                let leads_to = roots_link(&at, &name)?;
                at = begin(at, &leads_to)?;
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
            "it lies behind `{}`, a link that others could change, which root does not follow",
            name.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let leads_to = sysfs::readlinkat(&link, "", Vec::new())?;
    Ok(OsString::from_vec(leads_to.into_bytes()).into())
}
