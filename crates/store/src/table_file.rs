//! The device table on disk: one for the system, one for the user.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sled::{Device, DeviceTable, Learned, TableError};

use crate::local::block;
use crate::own_folder::named_state_folder;
use crate::{Clock, Error, Local, Name, Readers, StateFolder, io_reason, state_folder};

/// The system's table; written by root's calibration.
const SYSTEM: &str = "/var/lib/nearfirst/devices.toml";
/// A table is small; more than this is not one.
const BYTES_MAX: u64 = 16 << 20;
/// Devices that a table keeps, beside those that somebody wrote by hand: a set of web pages may come
/// from any number of servers, and every run that asks what something costs reads them all, 70 in a
/// millisecond.
const DEVICES_MAX: usize = 128;
/// Broken tables that are kept.
const ASIDE_MAX: usize = 9;

/// How long a lock that another process has is waited for, where a table is written in milliseconds: no
/// run may hang at its end for that.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Something that a person should know and that stops nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A table that cannot be read as one was set aside; a new one begins.
    SetAside {
        /// The table.
        path: PathBuf,
        /// Where it is now; `None` if it could not be moved and is passed over.
        kept_as: Option<PathBuf>,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A table that a later version wrote is passed over, and stays.
    Later {
        /// The table.
        path: PathBuf,
        /// Which version it is of.
        source: TableError,
    },
    /// A table that could not be read or written.
    Io {
        /// The table.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetAside { path, kept_as: Some(kept_as), source } => {
                let kept_as = kept_as.display();
                write!(f, "{}: {source}; set aside as {kept_as}, starting anew", path.display())
            }
            Self::SetAside { path, kept_as: None, source } => {
                write!(f, "{}: {source}; passed over", path.display())
            }
            Self::Later { path, source } => write!(f, "{}: {source}; passed over", path.display()),
            Self::Io { path, source } => write!(f, "{}: {}", path.display(), io_reason(source)),
        }
    }
}

/// Where the tables are.
#[derive(Debug, Clone)]
pub struct TableFiles {
    system: PathBuf,
    user: Option<PathBuf>,
}

impl Default for TableFiles {
    /// `/var/lib/nearfirst/devices.toml`, and for users
    /// `$XDG_STATE_HOME/nearfirst/devices.toml` (by default under
    /// `~/.local/state`). `$NEARFIRST_STATE`, a folder, stands in for both.
    fn default() -> Self {
        if let Some(folder) = named_state_folder() {
            return Self::at(folder.join("devices.toml"));
        }
        let user = state_folder().filter(|_| !rustix::process::geteuid().is_root());
        Self { system: PathBuf::from(SYSTEM), user: user.map(|folder| folder.join("devices.toml")) }
    }
}

/// What is known by each of the tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    system: DeviceTable,
    user: DeviceTable,
}

impl Tables {
    /// The user's over the system's.
    pub(crate) fn merged(&self) -> DeviceTable {
        let mut table = self.system.clone();
        table.merge(self.user.clone());
        table
    }
}

impl TableFiles {
    /// One for all, with no user's over it.
    pub fn at(system: PathBuf) -> Self {
        Self { system, user: None }
    }

    /// The file that [`TableFiles::save`] writes: the user's, or root's the system's.
    pub fn own(&self) -> &Path {
        self.user.as_deref().unwrap_or(&self.system)
    }

    /// Reads the system's table, then the user's over it. A file that is not there is empty. A mount
    /// that does not answer is waited for as `local` does.
    pub fn load(&self, local: &Local) -> (DeviceTable, Vec<Warning>) {
        let mut tables = Tables::default();
        let warnings = self.load_anew(&mut tables, local);
        (tables.merged(), warnings)
    }

    /// As [`TableFiles::load`], each table in the place of what is `known` by it. What is known by one
    /// that cannot be read, or that was set aside, stays.
    pub(crate) fn load_anew(&self, known: &mut Tables, local: &Local) -> Vec<Warning> {
        let users = self.user.as_ref().map(|path| (path, &mut known.user));
        let mut warnings = Vec::new();
        for (path, known) in std::iter::once((&self.system, &mut known.system)).chain(users) {
            match load_within(path, local) {
                Ok(Some(table)) => *known = table,
                Ok(None) => {}
                Err(warning) => warnings.push(warning),
            }
        }
        warnings
    }

    /// Adds what was learned to [`TableFiles::own`], which is written whole or not at all. What somebody
    /// wrote there meanwhile, or another process saved, is kept.
    ///
    /// # Errors
    /// The system's, on a read-only or full disk; that what is there cannot be read, and so is not
    /// replaced; that the mount does not answer, after as long as `local` waits for one.
    pub fn save(&self, learned: &Learned, local: &Local) -> io::Result<()> {
        self.save_over(&mut Tables::default(), learned, local)
    }

    /// As [`TableFiles::save`], with what is `known` in the place of a table that was set aside; and what is in
    /// the table then is what is known.
    pub(crate) fn save_over(
        &self,
        known: &mut Tables,
        learned: &Learned,
        local: &Local,
    ) -> io::Result<()> {
        // What is wrong with it was said when it was loaded.
        let below =
            self.user.as_ref().and_then(|_| load_within(&self.system, local).ok().flatten());
        let own = if self.user.is_some() { &mut known.user } else { &mut known.system };
        let (path, learned, known) = (self.own().to_owned(), learned.clone(), own.clone());
        let write = move || write(&path, known, learned, &below.unwrap_or_default());
        *own = local.bounded(self.own(), write).map_err(|error| silence(&error))??;
        Ok(())
    }
}

/// Loads a table, if its mount answers.
fn load_within(path: &Path, local: &Local) -> Result<Option<DeviceTable>, Warning> {
    let file = path.to_owned();
    let silent = |error| Warning::Io { path: path.to_owned(), source: silence(&error) };
    local.bounded(path, move || load(&file)).map_err(silent).flatten()
}

/// Why the mount of a table could not be asked, without its path.
fn silence(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, error.reason())
}

/// Adds what was learned to a table, which is returned; to what is `known` where that was set aside.
fn write(
    path: &Path,
    known: DeviceTable,
    learned: Learned,
    below: &DeviceTable,
) -> io::Result<DeviceTable> {
    let (around, name) = parts(path);
    let folder = StateFolder::make(around, readers(path))?;
    let Some(_lock) = folder.lock("devices.lock", LOCK_PATIENCE, &Clock::real())? else {
        let text = "another process keeps its devices.lock locked";
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    };
    let mut table = match read(&folder, path) {
        Ok(table) => table.unwrap_or(known),
        Err(Warning::SetAside { kept_as: Some(_), .. }) => known,
        // What is known of other devices may still be in it.
        Err(Warning::SetAside { source, .. }) => return Err(io::Error::other(source)),
        Err(Warning::Later { source, .. }) => return Err(io::Error::other(source)),
        Err(Warning::Io { source, .. }) => return Err(source),
    };
    let identities = identities(learned.devices());
    let now = Clock::real().unix_s();
    table.learn(learned, below, now);
    for (device, says) in identities {
        table.set_identity(&device, &says);
    }
    table.keep_latest(DEVICES_MAX);
    folder.write_whole(name, table.to_toml().as_bytes())?;
    Ok(table.known_by(now))
}

/// The system's table is for all users, whatever the umask of who writes it.
fn readers(path: &Path) -> Readers {
    if path == Path::new(SYSTEM) { Readers::Everybody } else { Readers::Umask }
}

/// The folder of a table, and its name there.
fn parts(path: &Path) -> (&Path, &OsStr) {
    (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default())
}

fn load(path: &Path) -> Result<Option<DeviceTable>, Warning> {
    match StateFolder::open(parts(path).0, readers(path)) {
        // Dates stay as they are where it is only read to be written.
        Ok(folder) => Ok(read(&folder, path)?.map(|table| table.known_by(Clock::real().unix_s()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(DeviceTable::default())),
        Err(source) => Err(Warning::Io { path: path.to_owned(), source }),
    }
}

/// Reads the table that is in a folder, and has this path; `None` where it was set aside, by whoever.
fn read(folder: &StateFolder, path: &Path) -> Result<Option<DeviceTable>, Warning> {
    let broken = |source| {
        let kept_as = set_aside(folder, path).ok();
        Warning::SetAside { path: path.to_owned(), kept_as, source }
    };
    let bytes = match folder.read(parts(path).1, BYTES_MAX) {
        Ok((bytes, _)) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_aside = folder.metadata(first_aside(Path::new(parts(path).1))).is_ok();
            return Ok((!is_aside).then(DeviceTable::default));
        }
        // The system's errors, and a link that is not followed, say nothing about what is in it.
        Err(source)
            if source.raw_os_error().is_some()
                || source.kind() == io::ErrorKind::PermissionDenied =>
        {
            return Err(Warning::Io { path: path.to_owned(), source });
        }
        Err(source) => return Err(broken(source.into())),
    };
    // What is not text is not TOML: let the parser say so.
    let table = DeviceTable::from_toml(&String::from_utf8_lossy(&bytes));
    let table = table.map_err(|source| {
        if source.is_of_later() {
            return Warning::Later { path: path.to_owned(), source };
        }
        broken(source.into())
    })?;
    Ok(Some(with_disks_found(without_secrets(table))))
}

/// Gives a broken table another name, which is returned.
fn set_aside(folder: &StateFolder, path: &Path) -> io::Result<PathBuf> {
    let name = parts(path).1;
    let aside = free_name(folder, Path::new(name));
    folder.rename(name, &aside)?;
    Ok(path.with_file_name(aside))
}

fn first_aside(name: &Path) -> PathBuf {
    name.with_extension("toml.broken")
}

/// Where a broken table is kept: what was set aside before is not lost, if it was not often.
fn free_name(folder: &StateFolder, name: &Path) -> PathBuf {
    let first = || first_aside(name);
    let later = (2..=ASIDE_MAX).map(|number| name.with_extension(format!("toml.broken-{number}")));
    let is_free = |name: &PathBuf| {
        folder.metadata(name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    std::iter::once(first()).chain(later).find(is_free).unwrap_or_else(first)
}

/// Without devices whose names hold a password, as those of some servers once did.
fn without_secrets(mut table: DeviceTable) -> DeviceTable {
    let has_secret = |device: &&Device| {
        let name = Name::from(device.name());
        name.redacted() != name
    };
    let secret: Vec<Device> = table.devices().filter(has_secret).cloned().collect();
    for device in &secret {
        table.forget(device);
    }
    table
}

/// With what is known of disks under the names that they have now. All disks are asked only where one of these
/// has another name, or is not here.
fn with_disks_found(mut table: DeviceTable) -> DeviceTable {
    let has_moved =
        |(device, noted): (&Device, &str)| block::identity(device).is_none_or(|says| says != noted);
    if table.identities().any(has_moved) {
        table.find_disks(&block::identities());
    }
    table
}

/// What disks say of themselves, of those among these devices.
fn identities<'a>(devices: impl Iterator<Item = &'a Device>) -> Vec<(Device, String)> {
    devices.filter_map(|device| Some((device.clone(), block::identity(device)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use sled::Observation;
    use testkit::{Facility, SlowDir, cmd, skip_unless};

    use super::*;
    use crate::{Costs, Probe};

    /// What somebody sets at a time, of devices of these names.
    fn given<'a>(devices: impl IntoIterator<Item = &'a str>, latency_s: f64, at: u64) -> Learned {
        let mut learned = Learned::default();
        for name in devices {
            learned.fill(&Device::new(name), latency_s, 1e6, at);
        }
        learned
    }

    fn latency(table: &DeviceTable, device: &str) -> f64 {
        table.estimate(&Device::new(device), 1).expect("known").latency.p50
    }

    fn files(folder: &Path) -> TableFiles {
        TableFiles {
            system: folder.join("system/devices.toml"),
            user: Some(folder.join("user/devices.toml")),
        }
    }

    /// A system's table, and a user's over it, in a folder of their own.
    struct Ground {
        folder: testkit::Dir,
        files: TableFiles,
    }

    impl Ground {
        fn new() -> Self {
            let folder = testkit::Dir::new();
            let files = files(folder.path());
            Self { folder, files }
        }

        fn own(&self) -> &Path {
            self.files.own()
        }

        fn own_has(&self, text: impl AsRef<[u8]>) {
            self.folder.create("user/devices.toml", text);
        }

        fn system_has(&self, text: impl AsRef<[u8]>) {
            self.folder.create("system/devices.toml", text);
        }

        fn load(&self) -> (DeviceTable, Vec<Warning>) {
            self.files.load(&Local::default())
        }

        fn save(&self, learned: &Learned) -> io::Result<()> {
            self.files.save(learned, &Local::default())
        }

        fn save_systems(&self, learned: &Learned) {
            let system = TableFiles::at(self.files.system.clone());
            system.save(learned, &Local::default()).expect("saved");
        }

        fn costs(&self) -> Costs {
            Costs::with(Local::default(), self.files.clone(), Clock::real())
        }
    }

    #[test]
    fn a_password_that_was_kept_once_is_not_kept_on() {
        let ground = Ground::new();
        let mut table = DeviceTable::default();
        for server in ["webdav://me@host", "webdav://me:secret@host", "nfs:host:/a@b"] {
            assert!(table.fill(&Device::new(server), 0.01, 1e6));
        }
        ground.own_has(table.to_toml());
        assert_eq!(ground.load().0.devices().count(), 2);
        ground.save(&Learned::default()).expect("saved");
        assert!(!fs::read_to_string(ground.own()).expect("there").contains("secret"));
    }

    #[test]
    fn the_users_table_lies_over_the_systems() {
        let ground = Ground::new();
        ground.save_systems(&given(["disk:a"], 1.0, 10));
        ground.save(&given(["disk:a"], 2.0, 20)).expect("saved");
        let (loaded, warnings) = ground.load();
        assert!(warnings.is_empty(), "{warnings:?}");
        assert!((latency(&loaded, "disk:a") - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_broken_table_is_named_and_set_aside_and_the_other_is_used() {
        let ground = Ground::new();
        ground.own_has(b"version = 1\n[device");
        let (_, warnings) = ground.load();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].to_string().contains("devices.toml.broken"), "{}", warnings[0]);
        assert!(!ground.own().exists());
        assert!(ground.load().1.is_empty());
        ground.own_has(b"version = 2\n[device");
        let again = ground.load().1[0].to_string();
        assert!(again.contains("devices.toml.broken-2"), "{again}");
        let first = fs::read(ground.own().with_extension("toml.broken")).expect("kept");
        assert_eq!(first, b"version = 1\n[device");
    }

    #[test]
    fn a_broken_table_leaves_what_was_known_by_it_and_the_other_counts_anew() {
        let ground = Ground::new();
        ground.save_systems(&given(["disk:a"], 1.0, 10));
        ground.save(&given(["disk:b"], 2.0, 10)).expect("saved");
        let costs = ground.costs();
        assert!(costs.fill(&Device::new("disk:c"), 3.0, 1e6));
        costs.save().expect("saved");
        let known = || ["disk:a", "disk:b", "disk:c"].map(|disk| latency(&costs.table(), disk));
        let is_known = |expected: [f64; 3]| {
            let known = known();
            let is_it = known.iter().zip(expected).all(|(known, it)| (known - it).abs() < 1e-9);
            assert!(is_it, "{known:?}, not {expected:?}");
        };
        let written = fs::read(ground.own()).expect("there");
        ground.own_has("no table [");
        ground.save_systems(&given(["disk:a"], 4.0, 20));
        assert_eq!(costs.reload().len(), 1, "it is set aside");
        is_known([4.0, 2.0, 3.0]);
        assert!(costs.reload().is_empty(), "it was said");
        is_known([4.0, 2.0, 3.0]);
        assert!(costs.fill(&Device::new("disk:c"), 6.0, 1e6));
        costs.save().expect("saved");
        assert!(costs.reload().is_empty());
        is_known([4.0, 2.0, 6.0]);
        ground.system_has("version = 2");
        assert_eq!([costs.reload().len(), costs.reload().len()], [1, 1], "it is still there");
        is_known([4.0, 2.0, 6.0]);
        ground.system_has("no table [");
        assert_eq!(ground.load().1.len(), 1, "another process sets it aside");
        assert!(costs.reload().is_empty());
        is_known([4.0, 2.0, 6.0]);
        ground.own_has(written);
        ground.save(&given(["disk:b"], 5.0, 30)).expect("saved");
        assert!(costs.reload().is_empty());
        is_known([4.0, 5.0, 3.0]);
    }

    #[test]
    fn a_table_that_is_taken_away_is_known_no_more() {
        let ground = Ground::new();
        ground.save(&given(["disk:a"], 1.0, 10)).expect("saved");
        let costs = ground.costs();
        fs::remove_file(ground.own()).expect("it is there");
        assert!(costs.reload().is_empty());
        assert_eq!(costs.table().devices().count(), 0);
    }

    #[test]
    fn tables_on_a_mount_that_does_not_answer_are_given_up() {
        skip_unless!(Facility::Root, Facility::Fuse);
        let slow = SlowDir::new(slowfs::Options::default());
        let hang = slowfs::Profile { hang: true, ..slowfs::Profile::default() };
        slow.mount().set_rules(vec![slowfs::Rule::all(hang)]);
        let (files, local) = (files(slow.path()), Local::new(Duration::from_millis(50)));
        let (_, warnings) = files.load(&local);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[1].to_string().contains("has not answered for 0.05 s"), "{}", warnings[1]);
        let error = files.save(&Learned::default(), &local).expect_err("it hangs");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        slow.mount().set_rules(Vec::new());
    }

    #[test]
    fn a_table_keeps_the_devices_here_and_the_latest_of_others() {
        let ground = Ground::new();
        let mut learned = given(["disk:a"], 1.0, 1);
        for server in 0..1000 {
            learned.add(given([&*format!("https://server-{server}")], 1.0, 2 + server % 500));
        }
        ground.save(&learned).expect("saved");
        let (kept, _) = ground.load();
        assert_eq!(kept.devices().count(), DEVICES_MAX);
        let is_kept = |name: &str| kept.is_learned(&Device::new(name));
        assert!(is_kept("disk:a") && is_kept("https://server-999"));
        assert!(is_kept("https://server-499") && !is_kept("https://server-500"));
    }

    #[test]
    fn what_was_written_into_a_table_by_hand_stays_however_much_else_is_learned() {
        let ground = Ground::new();
        let by_hand = "version = 1\n[device.\"s3://tape\"]\nlatency_s = [60.0]\n\
                       [device.\"nfs:host:/a\"]\nupdated = 1\nhas_stubs = true\n";
        ground.own_has(by_hand);
        let servers: Vec<_> = (0..1000).map(|server| format!("https://server-{server}")).collect();
        let learned = given(servers.iter().map(String::as_str), 1.0, 2);
        ground.save(&learned).expect("saved");
        let (kept, _) = ground.load();
        assert_eq!(kept.devices().count(), DEVICES_MAX + 2, "it takes no other's place");
        let names: Vec<_> = kept.devices().map(Device::name).collect();
        assert!(names.contains(&"s3://tape"), "{names:?}");
        assert_eq!(kept.has_stubs(&Device::new("nfs:host:/a")), Some(true));
    }

    #[test]
    fn a_lock_that_is_kept_and_a_table_that_is_no_file_are_not_waited_for() {
        let ground = Ground::new();
        let own = ground.folder.join("user");
        ground.folder.create_dir("user");
        let lock = File::create(own.join("devices.lock")).expect("made");
        lock.lock_shared().expect("locked");
        let error = ground.save(&Learned::default()).expect_err("locked");
        assert!(error.to_string().contains("devices.lock locked"), "{error}");
        drop(lock);
        ground.save(&Learned::default()).expect("no longer locked");
        fs::remove_file(ground.own()).expect("it is there");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, ground.own(), mode).expect("made");
        assert!(ground.load().1[0].to_string().contains("no regular file"));
    }

    #[test]
    fn root_writes_no_table_behind_a_link_of_another_user() {
        skip_unless!(Facility::Root);
        let (folder, local) = (tempfile::tempdir().expect("a folder"), Local::default());
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        fs::create_dir(&target).expect("made");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        std::os::unix::fs::lchown(&link, Some(65534), None).expect("given away");
        let files = TableFiles { system: link.join("state/devices.toml"), user: None };
        let error = files.save(&Learned::default(), &local).expect_err("refused");
        assert!(error.to_string().contains("a link that others could change"), "{error}");
        assert!(fs::read_dir(&target).expect("there").next().is_none(), "nothing is written");
        std::os::unix::fs::lchown(&link, Some(0), None).expect("taken back");
        files.save(&Learned::default(), &local).expect("root's own link is followed");
        assert!(target.join("state/devices.toml").exists());
    }

    #[test]
    fn what_root_writes_for_a_user_stays_the_users() {
        skip_unless!(Facility::Root);
        let home = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).expect("given away");
        let state = home.path().join("state/ours");
        let files = TableFiles { system: state.join("devices.toml"), user: None };
        files.save(&Learned::default(), &Local::default()).expect("saved");
        for path in
            [state.parent().expect("made"), &state, files.own(), &state.join("devices.lock")]
        {
            let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(path).expect("made"));
            assert_eq!(owner, 65534, "{}", path.display());
        }
    }

    #[test]
    fn root_reads_a_table_behind_its_own_links_and_behind_no_users_link() {
        skip_unless!(Facility::Root);
        let ground = Ground::new();
        let learned = given(["disk:a"], 1.0, 10);
        ground.save(&learned).expect("saved");
        let around = ground.folder.join("user");
        fs::create_dir(around.join("first")).expect("made");
        fs::rename(ground.own(), around.join("first/table")).expect("there");
        let link = |to: &str, at: &Path| std::os::unix::fs::symlink(to, at).expect("linked");
        link("first", &around.join("latest"));
        link("latest/table", ground.own());
        let (read, warnings) = ground.load();
        assert!(read.devices().count() == 1 && warnings.is_empty(), "{warnings:?}");
        for a_users in [ground.own(), &around.join("latest")] {
            let give = |user| std::os::unix::fs::lchown(a_users, Some(user), None).expect("ours");
            give(65534);
            let (read, warnings) = ground.load();
            let said = warnings[0].to_string();
            assert!(said.contains("a link that others could change"), "{said}");
            let error = ground.save(&learned).expect_err("it may be whole");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(read.devices().count() == 0 && ground.own().is_symlink());
            give(0);
        }
    }

    #[test]
    fn a_table_is_saved_where_there_is_no_proc() {
        skip_unless!(Facility::Root, Facility::Tool("unshare"));
        let this = std::env::current_exe().expect("it runs");
        let test = "table_file::tests::saving_keeps_what_others_saved";
        let text = format!("mount -t tmpfs none /proc && exec \"$0\" --exact {test}");
        let output = cmd("unshare", ["-m", "sh", "-c", &text]).arg(this).run();
        assert!(output.text().contains("1 passed"), "{}{}", output.text(), output.stderr());
    }

    #[test]
    fn what_is_learned_stands_in_for_what_a_wrong_clock_dated_later() {
        let ground = Ground::new();
        let later = "version = 1\n[device.\"disk:a\"]\nupdated = 18446744073709551615\n\
                     latency_s = [1.0]\nbandwidth_small = [1e6]\n";
        ground.own_has(later);
        let now = Clock::real().unix_s();
        ground.save(&given(["disk:a"], 2.0, now)).expect("saved");
        let (loaded, _) = ground.load();
        assert!((latency(&loaded, "disk:a") - 2.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_table_is_set_aside_and_a_new_one_begins() {
        let ground = Ground::new();
        ground.save(&Learned::default()).expect("saved");
        let table = File::options().write(true).open(ground.own()).expect("there");
        table.set_len(BYTES_MAX + 1).expect("made long");
        ground.save(&Learned::default()).expect("a new one");
        let aside = ground.own().with_extension("toml.broken");
        assert_eq!(fs::metadata(aside).expect("kept").len(), BYTES_MAX + 1);
        fs::remove_file(ground.own()).expect("it is there");
        std::os::unix::fs::symlink("/dev/null", ground.own()).expect("linked");
        let warnings = ground.load().1;
        assert!(warnings[0].to_string().contains("set aside"), "{warnings:?}");
        assert!(ground.load().1.is_empty());
    }

    #[test]
    fn saving_keeps_what_others_saved() {
        let ground = Ground::new();
        for name in ["disk:a", "disk:b"] {
            ground.save(&given([name], 1.0, 10)).expect("saved");
        }
        assert_eq!(ground.load().0.devices().count(), 2);
    }

    #[test]
    fn what_somebody_writes_while_a_run_goes_on_stays() {
        let ground = Ground::new();
        let own = |says: bool| {
            let text = format!(
                "version = 1\n[device.\"disk:a\"]\nupdated = 5\nkeeps_cache = {says}\nhas_stubs = {says}\n\
                 latency_s = [1.0]\nbandwidth_small = [1e6]\n"
            );
            ground.own_has(text);
        };
        let disk = Device::new("disk:a");
        own(true);
        let costs = ground.costs();
        let seen = Observation { bytes: 1 << 16, first_byte: Some(2.0), whole: 3.0 };
        costs.observe(&disk, seen);
        costs.saw_cache_kept(&disk);
        own(false);
        costs.save().expect("saved");
        let (table, _) = ground.load();
        assert_eq!((table.has_stubs(&disk), table.keeps_cache(&disk)), (Some(false), Some(false)));
        assert!(
            fs::read_to_string(ground.own()).expect("there").contains("1.0, 2.0"),
            "it learned"
        );
    }

    #[test]
    fn a_users_table_says_of_a_device_what_the_user_learned_and_not_what_root_wrote() {
        let ground = Ground::new();
        let roots = |says: bool| {
            let text = format!(
                "version = 1\n[device.\"disk:a\"]\nupdated = 5\nkeeps_cache = {says}\nhas_stubs = {says}\n\
                 latency_s = [1.0, 1.0, 1.0]\nbandwidth_small = [1e6]\n"
            );
            ground.system_has(text);
        };
        let disk = Device::new("disk:a");
        roots(true);
        let costs = ground.costs();
        let seen = Observation { bytes: 1 << 16, first_byte: Some(2.0), whole: 3.0 };
        costs.observe(&disk, seen);
        costs.saw_cache_kept(&disk);
        costs.save().expect("saved");
        let own = fs::read_to_string(ground.own()).expect("there");
        assert!(own.contains("[1.0, 1.0, 1.0, 2.0]") && !own.contains("= true"), "{own}");
        roots(false);
        let (table, _) = ground.load();
        assert_eq!((table.has_stubs(&disk), table.keeps_cache(&disk)), (Some(false), Some(false)));
    }

    #[test]
    fn what_is_seen_beside_costs_hides_no_costs_that_root_wrote() {
        let ground = Ground::new();
        let by_hand = "version = 1\n[device.\"fuse:a\"]\nlatency_s = [60.0]\n";
        ground.system_has(by_hand);
        let costs = ground.costs();
        costs.saw_cache_kept(&Device::new("fuse:a"));
        costs.save().expect("saved");
        let (table, _) = ground.load();
        assert_eq!(table.keeps_cache(&Device::new("fuse:a")), Some(true));
        assert!((latency(&table, "fuse:a") - 60.0).abs() < 1e-9);
    }

    #[test]
    fn what_root_wrote_of_a_cache_stands_against_what_a_run_saw_before() {
        let ground = Ground::new();
        let disk = Device::new("fuse:a");
        let costs = ground.costs();
        costs.saw_cache_kept(&disk);
        let roots = "version = 1\n[device.\"fuse:a\"]\nkeeps_cache = false\n";
        ground.system_has(roots);
        costs.save().expect("saved");
        let (table, _) = ground.load();
        assert_eq!(table.keeps_cache(&disk), Some(false));
    }

    #[test]
    fn a_calibration_that_is_not_to_be_saved_is_not_saved_with_what_is() {
        let ground = Ground::new();
        let costs = ground.costs();
        let probe = |name| Probe {
            device: Device::new(name),
            file: None,
            observations: vec![Observation { bytes: 1 << 20, first_byte: Some(1.0), whole: 2.0 }],
            near: Vec::new(),
            keeps_cache: Some(true),
        };
        assert!(costs.calibrate(probe("disk:a")) && costs.calibrate_unsaved(probe("disk:b")));
        assert_eq!(costs.table().devices().count(), 2);
        costs.save().expect("saved");
        let (saved, _) = ground.load();
        assert_eq!(saved.devices().collect::<Vec<_>>(), [&Device::new("disk:a")]);
        assert_eq!(saved.keeps_cache(&Device::new("disk:a")), Some(true));
    }

    #[test]
    fn what_could_not_be_saved_is_saved_by_the_next_call() {
        let ground = Ground::new();
        let costs = Costs::with(Local::default(), ground.files.clone(), Clock::manual());
        assert!(costs.fill(&Device::new("disk:a"), 1.0, 1.0));
        let in_the_way = ground.folder.join("user");
        fs::write(&in_the_way, "no folder").expect("ours");
        costs.save().expect_err("there is no folder");
        fs::remove_file(in_the_way).expect("ours");
        costs.save().expect("there may be one");
        assert_eq!(ground.load().0.devices().count(), 1);
    }
}
