//! The folders of users' patterns, by their numbers, in that of the service.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use tree::User;

use super::lent::Lent;
use crate::StoreWarning;

/// Folders of numbers lent to one user, who may have thousands: beyond it the one of these that was used
/// longest ago goes.
const LENT_FOLDERS_MAX: usize = 64;
/// Files of a folder that is removed: more than are ever made there.
const FILES_MAX: usize = 1024;

/// A user's folder, made where it can be, for which there is room; which numbers are lent, the file `lent` tells.
pub(crate) fn of(folder: &Path, user: User, lent: &Path) -> io::Result<PathBuf> {
    let own = folder.join(user.0.to_string());
    // Of one that cannot be made its attendant says why, and nothing has to go for it.
    if !own.exists() && make(&own, user).is_ok() {
        let lent = Lent::by(lent);
        if let Some(to) = lent.to(user) {
            make_room(folder, &own, &lent, to).inspect_err(|_| drop(fs::remove_dir(&own)))?;
        }
    }
    Ok(own)
}

/// Makes a user's folder, which nobody else can look into.
fn make(own: &Path, user: User) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(own) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    // The folder above is root's, so that nobody puts a link in the place of this one.
    if fs::symlink_metadata(own)?.uid() != user.0 {
        lchown(own, Some(user.0), None)?;
    }
    Ok(())
}

/// Makes a user's folder, and sees to it that it holds nothing of another who had the number before: whose it
/// is, by the name that the user database has for the number, is noted beside it, where only the service writes.
///
/// Who is not in the database, as while a server does not answer, leaves what is noted as it is. A folder
/// that nothing is noted of, as each was once, is of the first who has a name.
///
/// # Errors
/// The system's, as on a full disk: then the folder may hold what is another's.
pub(crate) fn claim(own: &Path, user: User, name: Option<&OsStr>) -> Result<(), StoreWarning> {
    let about_own = |error| StoreWarning::about(own)(error);
    make(own, user).map_err(about_own)?;
    let Some(name) = name else { return Ok(()) };
    let (note_path, noted) = (noted_in(own), noted(own));
    let noted = noted.map_err(StoreWarning::about(&note_path))?;
    if noted == name.as_bytes() {
        return Ok(());
    }
    if !noted.is_empty() {
        begin_anew(own, user).map_err(about_own)?;
    }
    note(own, name).map_err(StoreWarning::about(&note_path))
}

/// Empties a user's folder: what cannot be removed is nobody's.
fn begin_anew(own: &Path, user: User) -> io::Result<()> {
    if remove(own).is_err() {
        let aside = |number: u32| own.with_extension(format!("{number}.left"));
        let free = (0..u32::MAX).map(aside).find(|path| fs::symlink_metadata(path).is_err());
        fs::rename(own, free.expect("there are more numbers than files"))?;
    }
    make(own, user)
}

/// Where it is noted whose a folder is.
fn noted_in(own: &Path) -> PathBuf {
    own.with_extension("name")
}

/// Whose a folder is, as it is noted; nothing where it is not.
fn noted(own: &Path) -> io::Result<Vec<u8>> {
    match fs::read(noted_in(own)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

/// Notes whose a folder is: all of the name or nothing, as part of a name would be somebody else's.
fn note(own: &Path, name: &OsStr) -> io::Result<()> {
    let part = own.with_extension("name.part");
    let done = File::create(&part)
        .and_then(|mut file| file.write_all(name.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&part, noted_in(own)));
    if done.is_err() {
        drop(fs::remove_file(&part));
    }
    done
}

/// Removes folders of numbers that are lent to one user, until there is room for one of them, `own`.
fn make_room(folder: &Path, own: &Path, lent: &Lent, to: &str) -> io::Result<()> {
    let of_lent = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let is_theirs = lent.to(User(number)) == Some(to) && entry.path() != own;
        let changed = entry.metadata().ok().filter(|_| is_theirs)?;
        // When it was changed last its owner cannot choose.
        Some(((changed.ctime(), changed.ctime_nsec()), entry.path()))
    };
    let mut all: Vec<_> = fs::read_dir(folder)?.flatten().filter_map(of_lent).collect();
    all.sort_unstable();
    let mut excess = (all.len() + 1).saturating_sub(LENT_FOLDERS_MAX);
    for (_, path) in all {
        if excess == 0 {
            break;
        }
        if remove(&path).is_ok() {
            excess -= 1;
            drop(fs::remove_file(noted_in(&path)));
        }
    }
    if excess == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{LENT_FOLDERS_MAX} folders of numbers lent to {to} are kept, and too few can be removed"
        )))
    }
}

/// Removes a folder with the files in it; where its user made a folder in it, it stays.
fn remove(own: &Path) -> io::Result<()> {
    // The service may change nothing in a folder of another, who could not be stopped from adding to it.
    lchown(own, Some(0), Some(0))?;
    fs::set_permissions(own, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(own)?.flatten().take(FILES_MAX) {
        fs::remove_file(entry.path())?;
    }
    fs::remove_dir(own)
}

#[cfg(test)]
mod tests {
    use testkit::{Dir, Facility, skip_unless};

    use super::*;

    #[test]
    fn who_gets_the_number_of_another_has_nothing_of_theirs() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let folder = dir.create_dir("trees");
        let begins = |name: Option<&str>| {
            let own = of(&folder, User(1001), &dir.join("none")).expect("there is room");
            claim(&own, User(1001), name.map(OsStr::new)).expect("claimed");
            let metadata = own.metadata().expect("made");
            assert_eq!((metadata.uid(), metadata.permissions().mode() & 0o777), (1001, 0o700));
            own
        };
        let learned = begins(None).join("trees");
        fs::write(&learned, "of alice").expect("ours");
        let note = folder.join("1001.name");
        begins(None);
        assert!(learned.exists() && !note.exists());
        // As when the disk was full.
        for empty in [false, true] {
            if empty {
                fs::write(&note, "").expect("ours");
            }
            begins(Some("alice"));
            assert!(learned.exists(), "{empty}");
            assert_eq!(fs::read(&note).expect("noted"), b"alice");
            fs::remove_file(&note).expect("ours");
        }
        let in_the_way = dir.create_dir("trees/1001.name.part");
        let refused = claim(&folder.join("1001"), User(1001), Some("alice".as_ref()));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("/1001.name: "), "{refused}");
        assert!(learned.exists() && !note.exists(), "it cannot be noted");
        fs::remove_dir(in_the_way).expect("ours");
        begins(Some("alice"));
        let target = dir.create("target", "of somebody else");
        std::os::unix::fs::symlink(&target, folder.join("1001/link")).expect("ours");
        // A server that tells names may be away.
        for name in [Some("alice"), None] {
            begins(name);
            assert!(learned.exists(), "{name:?}");
        }
        begins(Some("bob"));
        assert!(!learned.exists() && !folder.join("1001/link").is_symlink() && target.exists());
        // What cannot be removed is nobody's but root's.
        dir.create("trees/1001/a/folder", "that it never makes");
        begins(Some("carol"));
        assert_eq!(fs::read_dir(folder.join("1001")).expect("ours").count(), 0);
        let left = folder.join("1001.0.left").metadata().expect("set aside");
        assert_eq!((left.uid(), left.permissions().mode() & 0o777), (0, 0o700));
    }

    #[test]
    fn why_there_is_no_room_is_that_folders_cannot_be_removed() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let lent = dir.create("subuid", "me:100000:65536\n");
        let folder = dir.create_dir("trees");
        for user in 100_000..100_000 + u32::try_from(LENT_FOLDERS_MAX).expect("small") {
            dir.create(format!("trees/{user}/a/folder"), "that it never makes");
        }
        let error = of(&folder, User(165_000), &lent).unwrap_err().to_string();
        assert!(error.ends_with("lent to me are kept, and too few can be removed"), "{error}");
        assert!(!folder.join("165000").exists());
    }

    #[test]
    fn of_numbers_lent_to_one_no_more_than_so_many_folders_are_kept() {
        skip_unless!(Facility::Root);
        let dir = Dir::new();
        let lent = dir.create("subuid", "me:100000:65536\nyou:200000:1\n");
        let folder = dir.create_dir("trees");
        let make = |user| {
            let own = of(&folder, User(user), &lent).expect("there is room");
            // Before its attendant does anything, as when many begin at once.
            assert!(own.exists());
            own
        };
        let others = [make(1000), make(200_000)];
        let odd = make(100_000);
        dir.create("trees/100000/a/folder", "that it never makes");
        let number = |number: usize| 100_000 + u32::try_from(number).expect("small");
        for user in 1..LENT_FOLDERS_MAX {
            let own = make(number(user));
            fs::write(own.join("trees"), "what was learned").expect("ours");
            claim(&own, User(number(user)), Some("inner".as_ref())).expect("claimed");
        }
        let kept = |are_notes: bool| {
            let all = fs::read_dir(&folder).expect("ours").flatten();
            all.filter(|entry| entry.path().extension().is_some() == are_notes).count()
        };
        assert_eq!([false, true].map(kept), [LENT_FOLDERS_MAX + 2, LENT_FOLDERS_MAX - 1]);
        let last = make(number(LENT_FOLDERS_MAX));
        make(number(1));
        assert_eq!(kept(false), LENT_FOLDERS_MAX + 2);
        assert!(kept(true) < LENT_FOLDERS_MAX - 1, "of folders that are gone nothing is noted");
        assert!(others.iter().all(|other| other.exists()) && odd.exists() && last.exists());
        claim(&odd, User(100_000), None).expect("claimed");
        assert_eq!(odd.metadata().expect("made").uid(), 100_000);
    }
}
