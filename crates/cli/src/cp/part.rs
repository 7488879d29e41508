//! A file that is not whole yet: its bytes, and of which version they are.
//!
//! Both lie beside the file that it becomes, which appears by a rename. The
//! version is written before the first byte, so bytes are never taken for
//! those of another version.
//!
//! In a folder that others may write to, they may have put something under
//! these names: a part of theirs would become the file, with bytes of their
//! choice, and stay open to them. So a part is gone on with, and a version
//! believed, if it is whose new files of this run are: not by the number of
//! the user, since file systems may give all files, or those of root, to
//! another. Any other part is refused, and left. A file of ours that has
//! further names loses this one, and is not written to. Where a file system
//! tells all files to be one user's, it mostly keeps nobody from any of them,
//! and neither does this. NFS 4 whose users the two sides cannot match tells
//! all files to be nobody's, though its server does keep users apart: there
//! this takes another's part for its own.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nearfirst::Version;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use store::uninterrupted;

use crate::human;

/// Bytes that most file systems allow in a name.
const NAME_BYTES_MAX: usize = 255;
const PART: &[u8] = b".nearfirst-part";
const VERSION: &[u8] = b".nearfirst-version";
/// Each time but the last another run has finished meanwhile: as many may be there at once.
const OPENS_MAX: usize = 32;
/// How often another run is waited for that writes it: one that was killed may still be tidying up.
const PAUSES_MAX: usize = 75;
/// How long each time; nothing tells when a lock is given back but having it.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of zeros that are worth a hole, where they lie on a multiple of it.
const HOLE_BYTES: usize = 64 << 10;
/// A longer version is none that a server has sent.
const VERSION_BYTES_MAX: u64 = 64 << 10;

/// Whether a file of this name would be taken for a part.
pub(super) fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b".") && (name.ends_with(PART) || name.ends_with(VERSION))
}

/// How much of a file is here from an earlier run, of the same version. A run that `is_dry` makes no
/// file to find out whose they are.
pub(super) fn resumable(dest: &Path, version: &Version, size: Option<u64>, is_dry: bool) -> u64 {
    let part = beside(dest, PART);
    let (Ok((known, noted)), Ok(about)) = (noted(dest), fs::symlink_metadata(&part)) else {
        return 0;
    };
    let is_of_use = str::from_utf8(&known).is_ok_and(|known| version.is_same(&Version::new(known)))
        && about.nlink() <= 1
        && size.is_none_or(|size| about.len() <= size);
    if !is_of_use {
        return 0;
    }
    let own = if is_dry { user() } else { own_beside(&part) };
    if [noted.uid(), about.uid()] == [own; 2] { about.len() } else { 0 }
}

/// The version that was noted of a part, and of what file.
fn noted(dest: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let mut options = OpenOptions::new();
    // Others may have put a FIFO there, of which opening for reading would never return.
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(beside(dest, VERSION))?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut version = Vec::new();
    file.take(VERSION_BYTES_MAX + 1).read_to_end(&mut version)?;
    Ok((version, about))
}

/// The part that an earlier run has left.
pub(super) fn left(dest: &Path) -> Option<PathBuf> {
    let part = beside(dest, PART);
    fs::symlink_metadata(&part).is_ok().then_some(part)
}

/// Removes what an earlier run of ours has left, unless another run writes it now.
pub(super) fn remove_left(dest: &Path) {
    let part = beside(dest, PART);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let Ok(file) = options.open(&part) else { return };
    let is_ours =
        file.metadata().is_ok_and(|about| about.is_file() && about.uid() == own_beside(&part));
    if is_ours && !is_locked(&file) && is_at(&file, &part).unwrap_or(false) {
        remove(dest);
    }
}

/// A part that is being written.
#[derive(Debug)]
pub(super) struct Part {
    file: File,
    dest: PathBuf,
    /// Permission bits of the file that it becomes, less those that the umask takes.
    mode: u32,
    /// The version that is noted, by which what is here is of use to the next run; of its bytes there
    /// must be some.
    version: Option<Version>,
    /// Whether zeros are left out as holes.
    has_holes: bool,
    is_finished: bool,
}

impl Part {
    /// Begins anew, or at the end of what is here of this version.
    ///
    /// # Errors
    /// The system's; that another process writes it.
    pub(super) fn open(
        dest: &Path,
        version: Option<&Version>,
        size: Option<u64>,
        mode: u32,
    ) -> io::Result<Self> {
        if let Some(folder) = dest.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| not_made(folder, error))?;
        }
        let (file, new_mode) = locked(&beside(dest, PART), mode)?;
        let mut part = Self {
            file,
            dest: dest.to_owned(),
            mode,
            version: version.cloned(),
            has_holes: false,
            is_finished: false,
        };
        if version.is_none_or(|version| resumable(dest, version, size, false) == 0) {
            part.begin_anew(version)?;
        }
        // Not before bytes of another version are gone, which fewer may have been allowed to read.
        if let Some(new_mode) = new_mode {
            part.set_mode(new_mode)?;
        }
        part.file.seek(SeekFrom::End(0))?;
        Ok(part)
    }

    /// The same, of an object that has holes.
    pub(super) fn with_holes(mut self, has_holes: bool) -> Self {
        self.has_holes = has_holes;
        self
    }

    /// Begins again at the first byte.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn begin_anew(&mut self, version: Option<&Version>) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.version = version.cloned();
        self.note()
    }

    fn note(&self) -> io::Result<()> {
        let path = beside(&self.dest, VERSION);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(not_ours(&path, error));
            }
            _ => {}
        }
        match &self.version {
            // Made anew: what others have linked there is not written through.
            Some(version) if version.as_str().len() as u64 <= VERSION_BYTES_MAX => {
                File::create_new(path)?.write_all(version.as_str().as_bytes())
            }
            _ => Ok(()),
        }
    }

    /// How many bytes are here.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Goes on from this byte on; `false` if not so many are here any more.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn cut(&mut self, at: u64) -> io::Result<bool> {
        if self.length()? < at {
            return Ok(false);
        }
        self.file.set_len(at)?;
        self.file.seek(SeekFrom::Start(at))?;
        Ok(true)
    }

    /// Hands what is here to `take`, in order.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn reread(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            match uninterrupted(|| self.file.read(&mut buffer))? {
                0 => return Ok(()),
                read => take(&buffer[..read]),
            }
        }
    }

    /// Appends. A hole at the end is there from [`Part::end`] on: if the power fails, the length of what
    /// is here must not have come to the disk before its bytes.
    ///
    /// # Errors
    /// The system's: a full disk.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.has_holes {
            return self.file.write_all(bytes);
        }
        let (mut at, mut rest) = (self.file.stream_position()?, bytes);
        while !rest.is_empty() {
            let up_to = HOLE_BYTES - usize::try_from(at % HOLE_BYTES as u64).unwrap_or(0);
            let (block, later) = rest.split_at(up_to.min(rest.len()));
            if is_zero(block) {
                self.file.seek_relative(block.len().cast_signed() as i64)?;
            } else {
                self.file.write_all(block)?;
            }
            at += block.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Ends what is here where the last was appended, once all of that came.
    ///
    /// # Errors
    /// The system's: a full disk.
    pub(super) fn end(&mut self) -> io::Result<()> {
        let end = self.file.stream_position()?;
        if self.length()? < end {
            self.file.sync_data()?;
            self.file.set_len(end)?;
        }
        Ok(())
    }

    /// Has all of it on disk, as the file is to be.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(&mut self, modified: Option<SystemTime>) -> io::Result<()> {
        self.narrow()?;
        if let Some(modified) = modified {
            // Not every file system keeps them.
            drop(self.file.set_modified(modified));
        }
        self.file.sync_all()
    }

    /// Makes it the file, once all of it is on disk; its name is, once its folder is ([`sync_folder`]).
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::AlreadyExists`] if a file is there and may not be replaced.
    pub(super) fn finish(&mut self, replaces: bool) -> io::Result<()> {
        // Before it has its name: from then on the note is that of another run.
        if self.version.is_some() {
            drop(fs::remove_file(beside(&self.dest, VERSION)));
        }
        let part = beside(&self.dest, PART);
        let named =
            if replaces { fs::rename(&part, &self.dest) } else { rename_new(&part, &self.dest) };
        match named {
            Ok(()) => self.is_finished = true,
            Err(_) => drop(self.note()),
        }
        named.map_err(|error| not_named(&self.dest, error))
    }

    /// Whether the file that it becomes is there: another run may have made it.
    pub(super) fn is_made(&self) -> bool {
        fs::symlink_metadata(&self.dest).is_ok()
    }

    /// Takes away what its writer needed and the file is not to have.
    fn narrow(&self) -> io::Result<()> {
        self.set_mode(self.file.metadata()?.mode() & self.mode)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        if self.file.metadata()?.mode() & 0o777 != mode & 0o777 {
            // Not every file system keeps them.
            drop(self.file.set_permissions(Permissions::from_mode(mode & 0o777)));
        }
        Ok(())
    }

    /// Removes what is here.
    pub(super) fn discard(mut self) {
        self.version = None;
    }
}

impl Drop for Part {
    /// What is here stays if the next run can use it.
    fn drop(&mut self) {
        let is_of_use = self.version.is_some() && self.length().is_ok_and(|length| length > 0);
        if !self.is_finished && !is_of_use {
            remove(&self.dest);
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    // Compared with itself one byte on, which takes a fraction of looking at each.
    bytes.first() == Some(&0) && bytes[1..] == bytes[..bytes.len() - 1]
}

/// Has the names in a folder on disk, where its file system does that and this user may read it; the files
/// themselves are.
///
/// # Errors
/// The system's: a disk that fails, or is full.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let opened = unless_short(&mut pauses(), || File::open(folder));
    let synced = opened.and_then(|folder| folder.sync_all());
    synced.or_else(|error| if is_not_to_be_synced(&error) { Ok(()) } else { Err(error) })
}

/// Whether a folder is one that nobody can sync, or not this user.
fn is_not_to_be_synced(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::INVAL | Errno::NOTSUP | Errno::NOSYS | Errno::BADF | Errno::ACCESS | Errno::PERM
        )
    )
}

/// Opens a part for one writer: a new one, or one of ours, with the permissions that a new one would have.
fn locked(path: &Path, mode: u32) -> io::Result<(File, Option<u32>)> {
    // The next run is to write it, too.
    let mode = mode | 0o600;
    let mut pauses = pauses();
    for _ in 0..OPENS_MAX {
        let opened = unless_short(&mut pauses, || new_or_old(path, mode));
        let (file, is_new) = opened.map_err(|error| in_the_way(path, error))?;
        if !file.metadata()?.is_file() {
            return Err(in_the_way(path, io::ErrorKind::InvalidInput.into()));
        }
        while is_locked(&file) {
            pauses.next().ok_or_else(|| io::Error::other("another run is writing it"))?;
        }
        // Between the two another run may have made it the file, which is not to be written to.
        if !is_at(&file, path)? {
            continue;
        }
        if is_new {
            return Ok((file, None));
        }
        if let Some(new_mode) = taken_over(&file, path, mode)? {
            return Ok((file, Some(new_mode)));
        }
    }
    Err(io::Error::other("another run is writing it"))
}

/// Short waits, as many as there may be for one part.
fn pauses() -> impl Iterator<Item = ()> {
    (0..PAUSES_MAX).map(|_| store::pause(PAUSE))
}

/// Opens something once there are descriptors: those who copy beside us close theirs.
fn unless_short<T>(
    pauses: &mut impl Iterator<Item = ()>,
    open: impl Fn() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match open() {
            Err(error) if store::is_short_of_descriptors(&error) => pauses.next().ok_or(error)?,
            opened => return opened,
        }
    }
}

/// Whether another run has locked a part; else this one has from then on. Where locks are not known, two
/// runs at once are the user's to avoid.
fn is_locked(file: &File) -> bool {
    let locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    locked == Err(Errno::WOULDBLOCK)
}

/// Makes a part, or opens the one that is there; whether it is new.
fn new_or_old(path: &Path, mode: u32) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).mode(mode);
    for _ in 0..OPENS_MAX {
        match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, true)),
        }
        match options.open(path) {
            // It became the file, or was given up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return Ok((opened?, false)),
        }
    }
    Err(io::Error::other("another run is writing it"))
}

/// Makes the part of an earlier run of ours that of this run. Another's is refused; if it is still there,
/// the permissions that a new one would have.
fn taken_over(file: &File, path: &Path, mode: u32) -> io::Result<Option<u32>> {
    let about = file.metadata()?;
    // One without a name would get more than the umask leaves, before Linux 6.0.
    let new = named_beside(path, mode)?;
    if about.uid() != new.uid() {
        return Err(of_another(path, &about));
    }
    if about.nlink() > 1 {
        fs::remove_file(path)?;
        return Ok(None);
    }
    Ok(Some(new.mode()))
}

/// Whose new files are that this run makes beside a path; where it cannot, the user's.
fn own_beside(path: &Path) -> u32 {
    let new = unnamed_beside(path).or_else(|_| named_beside(path, 0o600));
    new.map_or_else(|_| user(), |new| new.uid())
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What a new file beside a path is, of which nothing is left if this run is killed. Not every file
/// system has those.
fn unnamed_beside(path: &Path) -> io::Result<Metadata> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let new = rustix::fs::open(folder_of(path), flags, Mode::RUSR | Mode::WUSR)?;
    File::from(new).metadata()
}

/// The same of one whose name is that of a part, with the permissions that it gets.
fn named_beside(path: &Path, mode: u32) -> io::Result<Metadata> {
    let new = tempfile::Builder::new()
        .prefix(".")
        .suffix(OsStr::from_bytes(PART))
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder_of(path))?;
    new.as_file().metadata()
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// What a file is first written under may be there already, as what it cannot be.
fn in_the_way(path: &Path, error: io::Error) -> io::Error {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => io::Error::other(format!(
            "it is written as {} first, where something lies that is no file",
            human::name(path)
        )),
        _ => not_ours(path, error),
    }
}

/// What keeps a file from being used may be that it is another's.
fn not_ours(path: &Path, error: io::Error) -> io::Error {
    match fs::symlink_metadata(path) {
        Ok(there) if there.uid() != own_beside(path) => of_another(path, &there),
        _ => error,
    }
}

/// That somebody else has put something where a copy is kept until it is whole.
fn of_another(path: &Path, about: &Metadata) -> io::Error {
    io::Error::other(format!(
        "{} is of user {}, and a copy goes on by whose it is alone; remove it, or copy as that user",
        human::name(path),
        about.uid()
    ))
}

/// That a folder cannot be made: a file may lie where it would be.
fn not_made(folder: &Path, error: io::Error) -> io::Error {
    match folder.ancestors().find(|above| above.exists()) {
        Some(file) if !file.is_dir() => {
            io::Error::other(format!("{} is not a folder", human::name(file)))
        }
        _ => error,
    }
}

/// That a file cannot have its name: a folder may, for the copies of objects whose names go on from it.
fn not_named(dest: &Path, error: io::Error) -> io::Error {
    if dest.is_dir() {
        return io::Error::other("a folder of that name is there, and a file cannot have it, too");
    }
    error
}

/// Whether an open file is what lies at a path now.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let about = file.metadata()?;
    let there = fs::symlink_metadata(path);
    Ok(there.is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino())))
}

/// Removes a part, whoever has it open. As long as it is there, no other run makes a note.
pub(super) fn remove(dest: &Path) {
    drop(fs::remove_file(beside(dest, VERSION)));
    drop(fs::remove_file(beside(dest, PART)));
}

/// Renames without replacing.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Sandboxes refuse calls that they do not know.
        Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => {}
        renamed => return Ok(renamed?),
    }
    // A file system that cannot: a second name is refused where one is, as well.
    match rustix::fs::link(from, to) {
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::MLINK) => {
            rename_by_place(from, to)
        }
        linked => Ok(linked?).and_then(|()| fs::remove_file(from)),
    }
}

/// The same where files have one name only: an empty file keeps the place, which others may see.
fn rename_by_place(from: &Path, to: &Path) -> io::Result<()> {
    File::create_new(to)?;
    fs::rename(from, to).inspect_err(|_| drop(fs::remove_file(to)))
}

/// A hidden name beside `dest`.
fn beside(dest: &Path, ending: &[u8]) -> PathBuf {
    let name = dest.file_name().unwrap_or(OsStr::new("")).as_bytes();
    let mut hidden = b".".to_vec();
    if name.len() + 1 + ending.len() > NAME_BYTES_MAX {
        hidden.extend_from_slice(blake3::hash(name).to_hex().as_bytes());
    } else {
        hidden.extend_from_slice(name);
    }
    hidden.extend_from_slice(ending);
    let hidden: OsString = OsStr::from_bytes(&hidden).to_owned();
    dest.with_file_name(hidden)
}

#[cfg(test)]
mod tests {
    use rustix::fs::inotify;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> =
            names.map(|name| name.expect("a name").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    fn finished(mut part: Part, replaces: bool) -> io::Result<()> {
        part.settle(None)?;
        part.finish(replaces)
    }

    #[test]
    fn a_folder_that_has_the_name_of_a_file_meanwhile_is_said_to_be_there() {
        for replaces in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let dest = folder.path().join("a");
            let part = Part::open(&dest, None, None, 0o666).expect("opened");
            fs::create_dir_all(dest.join("b")).expect("made");
            let error = finished(part, replaces).expect_err("a folder is there");
            assert!(error.to_string().starts_with("a folder of that name is there"), "{error}");
        }
    }

    #[test]
    fn a_part_goes_on_where_it_ended_if_the_version_is_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("a");
        let (one, two) = (Version::new("1"), Version::new("2"));
        let mut part = Part::open(&dest, Some(&one), Some(8), 0o666).expect("opened");
        part.write(b"half").expect("written");
        assert!(Part::open(&dest, Some(&one), Some(8), 0o666).is_err(), "one writer at a time");
        drop(part);
        assert_eq!(resumable(&dest, &one, Some(8), false), 4);
        assert_eq!(resumable(&dest, &two, Some(8), false), 0);
        assert_eq!(resumable(&dest, &one, Some(3), false), 0, "longer than the object");
        let mut part = Part::open(&dest, Some(&one), Some(8), 0o666).expect("opened");
        part.write(b"half").expect("written");
        finished(part, false).expect("finished");
        assert_eq!(
            (names(folder.path()), fs::read(&dest).expect("there")),
            (vec!["a".into()], b"halfhalf".to_vec())
        );
    }

    #[test]
    fn whose_new_files_are_is_found_out_without_a_name_and_in_a_dry_run_without_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("a");
        let version = Version::new("1");
        let mut part = Part::open(&dest, Some(&version), None, 0o666).expect("opened");
        part.write(b"half").expect("written");
        drop(part);
        let looked = |is_dry| {
            renamed_and_removed(&dest, || assert_eq!(resumable(&dest, &version, None, is_dry), 4))
        };
        assert_eq!(looked(true), [""; 0]);
        assert_eq!(looked(false).is_empty(), unnamed_beside(&dest).is_ok());
        let gone = renamed_and_removed(&dest, || {
            assert_eq!(named_beside(&dest, 0o600).expect("made").uid(), own_beside(&dest));
        });
        assert!(!gone.is_empty() && gone.iter().all(|name| is_ours(name.as_bytes())), "{gone:?}");
    }

    #[test]
    fn a_hole_at_the_end_is_there_once_all_has_come() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("a");
        let part = Part::open(&dest, Some(&Version::new("1")), None, 0o666).expect("opened");
        let mut part = part.with_holes(true);
        let block = [vec![1; HOLE_BYTES], vec![0; HOLE_BYTES]].concat();
        for _ in 0..2 {
            part.write(&block).expect("written");
        }
        assert_eq!(part.length().expect("known"), 3 * HOLE_BYTES as u64);
        part.end().expect("ended");
        finished(part, false).expect("finished");
        assert!(fs::read(&dest).expect("there") == block.repeat(2));
    }

    #[test]
    fn a_folder_that_cannot_be_synced_is_told_of_unless_its_file_system_never_does_that() {
        let folder = tempfile::tempdir().expect("a folder");
        sync_folder(folder.path()).expect("synced");
        assert_eq!(
            File::open("/proc")
                .and_then(|proc| proc.sync_all())
                .expect_err("no disk")
                .raw_os_error(),
            Some(libc::EINVAL)
        );
        sync_folder(Path::new("/proc")).expect("left");
        sync_folder(&folder.path().join("gone")).expect_err("it is not there");
        for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ROFS] {
            assert!(!is_not_to_be_synced(&errno.into()), "{errno}");
        }
    }

    #[test]
    fn a_run_that_gives_a_part_up_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("a");
        let left = Part::open(&dest, None, None, 0o666).expect("opened");
        let next = std::thread::spawn({
            let dest = dest.clone();
            move || Part::open(&dest, None, None, 0o666).and_then(|part| finished(part, false))
        });
        drop(left);
        next.join().expect("no panic").expect("it is given up");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn what_another_run_has_finished_since_it_was_opened_is_no_part() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("a");
        let mut part = Part::open(&dest, None, None, 0o666).expect("opened");
        part.write(b"whole").expect("written");
        let late = File::open(beside(&dest, PART)).expect("opened before it was locked");
        assert!(is_at(&late, &beside(&dest, PART)).expect("known"));
        finished(part, false).expect("finished");
        assert!(!is_at(&late, &beside(&dest, PART)).expect("known"));
        let next = Part::open(&dest, None, None, 0o666).expect("opened");
        assert!(!is_at(&late, &beside(&dest, PART)).expect("another"));
        drop(next);
        assert_eq!(fs::read(&dest).expect("there"), b"whole");
    }

    /// What happens to names in the folder of `dest` while `end` runs, in order: gone ones, and new ones
    /// of files that had another.
    fn renamed_and_removed(dest: &Path, end: impl FnOnce()) -> Vec<String> {
        let folder = dest.parent().expect("a path below a folder");
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).expect("a queue");
        let flags = inotify::WatchFlags::DELETE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&events, folder, flags).expect("watched");
        end();
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
        let mut events = inotify::Reader::new(&events, &mut buffer);
        let mut names = Vec::new();
        while let Ok(event) = events.next() {
            names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        names
    }

    #[test]
    fn a_version_is_taken_away_while_the_part_is_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("a");
        let version = Version::new("1");
        let begun = || {
            let mut part = Part::open(&dest, Some(&version), None, 0o666).expect("opened");
            part.write(b"whole").expect("written");
            part
        };
        let part = begun();
        let ended = renamed_and_removed(&dest, || finished(part, false).expect("finished"));
        assert_eq!(ended, [".a.nearfirst-version", "a"]);
        let part = begun();
        let ended = renamed_and_removed(&dest, || part.discard());
        assert_eq!(ended, [".a.nearfirst-version", ".a.nearfirst-part"]);
        finished(begun(), false).expect_err("it is there");
        assert_eq!(resumable(&dest, &version, None, false), 5);
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("a");
        std::os::unix::fs::symlink("b", beside(&dest, PART)).expect("made");
        let error = Part::open(&dest, None, None, 0o666).expect_err("a link");
        assert!(error.to_string().contains(".a.nearfirst-part first, where"), "{error}");
        let fifo = beside(&folder.path().join("b"), PART);
        rustix::fs::mkfifoat(CWD, fifo, rustix::fs::Mode::RWXU).expect("made");
        let error = Part::open(&folder.path().join("b"), None, None, 0o666).expect_err("a FIFO");
        assert!(error.to_string().contains(".b.nearfirst-part first, where"), "{error}");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("written");
        let error = Part::open(&file.join("x/y"), None, None, 0o666).expect_err("no folder");
        assert!(error.to_string().ends_with("/file is not a folder"), "{error}");
    }

    #[test]
    fn where_files_have_one_name_nothing_is_replaced_either() {
        let folder = tempfile::tempdir().expect("a folder");
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::write(&from, "new").expect("written");
        rename_by_place(&from, &to).expect("renamed");
        assert_eq!(
            (names(folder.path()), fs::read(&to).expect("there")),
            (vec!["to".into()], b"new".to_vec())
        );
        fs::write(&from, "newer").expect("written");
        let error = rename_by_place(&from, &to).expect_err("it is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&to).expect("there"), b"new");
    }

    #[test]
    fn nothing_is_replaced_and_nothing_useless_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let dest = folder.path().join("n".repeat(250));
        fs::write(&dest, "old").expect("written");
        let mut part = Part::open(&dest, None, None, 0o666).expect("opened");
        part.write(b"new").expect("written");
        let error = finished(part, false).expect_err("it is there");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&dest).expect("there"), b"old");
        assert_eq!(names(folder.path()).len(), 1, "no version is known of the part");
        let part = Part::open(&dest, None, None, 0o666).expect("opened");
        drop(part);
        assert_eq!(names(folder.path()).len(), 1);
    }
}
