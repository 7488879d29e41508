//! What files cost: where their parts are, and what the device table says of that.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock};

use sled::{Device, DeviceTable, Learned, Observation, Sled};

use crate::local::{self, Handle, Leases, has_stubs, is_stub, nfs, seems_offline};
use crate::sync::lock;
use crate::table_file::Tables;
use crate::{
    Backing, Clock, Entry, Error, Kind, Local, Located, Name, Probe, Status, TableFiles, Tier,
    Warning,
};

/// The costs of files of this machine, and what reading them teaches.
///
/// ```
/// let costs = nearfirst_store::Costs::load();
/// let sleds = costs.path_sleds("/proc/self/exe".as_ref())?;
/// assert_eq!(sleds[0].offset, 0);
/// # Ok::<(), nearfirst_store::Error>(())
/// ```
#[derive(Debug)]
pub struct Costs {
    local: Local,
    files: TableFiles,
    clock: Clock,
    loaded: OnceLock<Loaded>,
    /// Who hears what is wrong with the tables as soon as they are loaded.
    told: fn(&Warning),
    /// What is not saved yet.
    learned: Mutex<Learned>,
    leases: Leases,
}

/// The device tables, read.
#[derive(Debug)]
struct Loaded {
    table: Mutex<DeviceTable>,
    /// Each as it is on disk, as far as is known here.
    tables: Mutex<Tables>,
    warnings: Vec<Warning>,
}

impl Costs {
    /// With the device tables of this system and user; what is wrong with
    /// those stands in [`Costs::warnings`].
    pub fn load() -> Self {
        Self::with(Local::default(), TableFiles::default(), Clock::real())
    }

    /// With the given store, tables and clock.
    pub fn with(local: Local, files: TableFiles, clock: Clock) -> Self {
        let costs = Self::not_loaded(local, files, clock, |_| {});
        costs.loaded();
        costs
    }

    /// As [`Costs::with`], but the tables are loaded by the first question about a device, and what is
    /// wrong with them is `told` then: a run over small files asks none, and loading takes longer than one.
    pub fn not_loaded(local: Local, files: TableFiles, clock: Clock, told: fn(&Warning)) -> Self {
        let (loaded, learned) = (OnceLock::new(), Mutex::default());
        Self { local, files, clock, loaded, told, learned, leases: Leases::default() }
    }

    fn loaded(&self) -> &Loaded {
        self.loaded.get_or_init(|| {
            let mut tables = Tables::default();
            let (table, warnings) = self.read_tables(&mut tables);
            for warning in &warnings {
                (self.told)(warning);
            }
            Loaded { table: Mutex::new(table), tables: Mutex::new(tables), warnings }
        })
    }

    fn read_tables(&self, tables: &mut Tables) -> (DeviceTable, Vec<Warning>) {
        let warnings = self.files.load_anew(tables, &self.local);
        let mut table = tables.merged();
        let mounts = self.local.mounts().unwrap_or_default();
        if mounts.all().iter().any(|mount| mount.fs_type.starts_with("nfs"))
            && let Ok(mountstats) = std::fs::read_to_string("/proc/self/mountstats")
        {
            nfs::fill_in(&mut table, &mountstats);
        }
        (table, warnings)
    }

    /// Loads the device tables anew, for what others measured or wrote since. What was learned here and is
    /// not saved counts beside it. What is wrong with a table is returned; what was known by that one stays, until
    /// it can be read.
    pub fn reload(&self) -> Vec<Warning> {
        let (mut table, warnings) = self.read_tables(&mut lock(&self.loaded().tables));
        let mut known = self.table();
        let learned = lock(&self.learned).clone();
        table.learn(learned, &DeviceTable::default(), self.clock.unix_s());
        *known = table;
        warnings
    }

    /// What was wrong with the device tables, for a person to know.
    pub fn warnings(&self) -> &[Warning] {
        &self.loaded().warnings
    }

    /// The store that answers where data is.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// The clock that reads are timed by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where the device tables are.
    pub fn table_files(&self) -> &TableFiles {
        &self.files
    }

    /// The device table as it is now; held, it keeps others waiting.
    pub fn table(&self) -> MutexGuard<'_, DeviceTable> {
        lock(&self.loaded().table)
    }

    /// An entry with what the system knows of a file that was only named: its size, its time, and whether
    /// it seems to be offline. It is as it was where listing told of it, or the system does not.
    ///
    /// Listing folders asks for names alone. This asks for one as [`Local::stat`] does, and waits as long.
    pub fn known(&self, entry: &Entry) -> Entry {
        let path = entry.name.path().filter(|_| Self::is_to_be_asked(entry));
        let Some(status) = path.and_then(|path| self.local.stat(path).ok()) else {
            return entry.clone();
        };
        let known = self.entry(entry.name.clone(), &status);
        let tier = if known.tier.is_cold() { known.tier } else { entry.tier.clone() };
        Entry { size_said: entry.size_said, tier, ..known }
    }

    /// The entry of a file of which the system said this, cold where it seems to be offline.
    pub fn entry(&self, name: Name, status: &Status) -> Entry {
        let is_offline = self.seems_offline(status);
        let tier = if is_offline { Tier::Cold { class: "offline".into() } } else { Tier::Online };
        Entry { tier, ..Entry::of_file(name, status) }
    }

    /// Whether [`Costs::known`] has to ask the system about an entry, which may take its time.
    pub fn is_to_be_asked(entry: &Entry) -> bool {
        let Entry { name, size, version, modified, .. } = entry;
        name.path().is_some() && (size.is_none() || version.is_none() || modified.is_none())
    }

    /// The sleds of an open file; nothing of it is read.
    ///
    /// # Errors
    /// The system's, if the descriptor cannot be asked about at all.
    pub fn file_sleds(&self, file: &impl AsFd) -> io::Result<Vec<Sled>> {
        let status = self.local.status(file)?;
        let offline = self.seems_offline(&status);
        Ok(self.describe(local::locate_open(file.as_fd(), &status, offline)))
    }

    /// The sleds of the file at `path`; it is opened only where that does no harm.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`].
    pub fn path_sleds(&self, path: &Path) -> Result<Vec<Sled>, Error> {
        Ok(self.describe(self.path_located(path)?))
    }

    /// Where the parts of the file at `path` are, and why some are not known.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Stalled`].
    pub fn path_located(&self, path: &Path) -> Result<Located, Error> {
        let (status, handle) = self.local.look(path)?;
        self.located(path, &status, &handle)
    }

    /// As [`Costs::path_located`], of a file that nobody asked about.
    ///
    /// # Errors
    /// [`Error::Refused`] of one that somebody holds a lease on; [`Error::Io`]; [`Error::Stalled`].
    pub fn path_located_unseen(&self, path: &Path) -> Result<Located, Error> {
        let (status, handle) = self.local.look(path)?;
        self.is_free(path, &handle)?;
        self.located(path, &status, &handle)
    }

    /// Has it be found out who holds leases, so that the first file that nobody asked for need not wait.
    pub fn look_for_leases(&self) {
        drop(self.leases.ask(self.clock.now()));
    }

    /// That nobody holds a lease on a file.
    fn is_free(&self, path: &Path, handle: &Handle) -> Result<(), Error> {
        if self.leases.is_leased(handle.inode(), self.clock.now()) {
            return Err(Error::refused(path, "somebody holds a lease on it"));
        }
        Ok(())
    }

    fn located(&self, path: &Path, status: &Status, handle: &Handle) -> Result<Located, Error> {
        let (offline, opening_evicts) = {
            let table = self.table();
            let keeps_cache = table.keeps_cache(&status.device) == Some(true);
            (seems_offline(status, &table), status.backing == Backing::Fuse && !keeps_cache)
        };
        self.local.locate_status(path, status, handle, offline, opening_evicts)
    }

    /// What located extents cost.
    pub fn describe(&self, located: Located) -> Vec<Sled> {
        let table = self.table();
        match &located.device {
            Some(device) => sled::describe_on(device, located.extents, &table),
            None => sled::describe(located.extents, &table),
        }
    }

    /// Opens a file to read it, unless that would recall it from a cold tier.
    ///
    /// # Errors
    /// [`Error::Offline`]; [`Error::Io`]; [`Error::Stalled`].
    pub fn open(&self, path: &Path) -> Result<File, Error> {
        let status = self.here(path)?;
        if status.kind == Kind::Stream || status.backing == Backing::Pseudo {
            // Who asks for a FIFO waits for its writer, and who asks for the kernel's log for a line.
            return File::open(path).map_err(|source| Error::io(path, source));
        }
        self.local.open(path)
    }

    /// That reading the file at `path` recalls nothing from a cold tier, as far as can be told.
    ///
    /// # Errors
    /// [`Error::Offline`]; [`Error::Io`]; [`Error::Stalled`].
    pub fn is_here(&self, path: &Path) -> Result<(), Error> {
        self.here(path).map(drop)
    }

    pub(crate) fn here(&self, path: &Path) -> Result<Status, Error> {
        let status = self.local.stat(path)?;
        if self.seems_offline(&status) {
            return Err(Error::Offline { path: path.to_owned(), size: status.size });
        }
        Ok(status)
    }

    /// Opens a regular file as [`Costs::open`] does, and says what it is.
    ///
    /// # Errors
    /// [`Error::Refused`] of what is no regular file, unread; [`Error::Offline`]; [`Error::Io`]; [`Error::Stalled`].
    pub fn open_regular(&self, path: &Path) -> Result<(File, Status), Error> {
        let may_be_offline = self.local.backing_by_name(path).is_none_or(Backing::may_stall);
        if may_be_offline {
            // Opening alone may recall it.
            drop(self.regular(path, self.local.stat(path)?)?);
        }
        let (file, status) = self.local.open_known(path)?;
        Ok((file, self.regular(path, status)?))
    }

    /// Opens regular files one after the other, as [`Costs::open_regular`] does.
    pub fn opener(&self) -> Opener<'_> {
        Opener { costs: self, local: self.local.opener() }
    }

    /// Opens a regular file that nobody asked for, once it is known that this does no harm: what a
    /// name stands for is looked at first, so that no FIFO and no device is ever opened, no lease is
    /// taken from its holder that he has had for seconds, and reading it passes for nobody's.
    ///
    /// # Errors
    /// [`Error::Refused`] of what is no regular file, unopened, of one that somebody holds a lease on,
    /// of another user's that was not read since it was written, and of a file on a FUSE mount that
    /// is known to empty a file's cache at every open; [`Error::Offline`], also of what may be a stub where
    /// none are known of; [`Error::Io`]; [`Error::Stalled`].
    pub fn open_harmless(&self, path: &Path) -> Result<(File, Status), Error> {
        let (status, handle) = self.local.look(path)?;
        let status = self.regular(path, status)?;
        if status.backing == Backing::Pseudo {
            return Err(Error::refused(path, "not a file of a device"));
        }
        if status.backing == Backing::Fuse
            && self.table().keeps_cache(&status.device) == Some(false)
        {
            return Err(Error::refused(path, "opening it would empty its cache"));
        }
        if self.may_be_stub(&status) {
            return Err(Error::Offline { path: path.to_owned(), size: status.size });
        }
        self.is_free(path, &handle)?;
        let file = self.local.reopen_unseen(path, &status, &handle)?;
        Ok((file, status))
    }

    /// Whether there may be files at `path` that opening recalls from a cold tier, by the names of
    /// mounts alone. On a disk of this machine it is reading that does.
    pub fn may_have_stubs(&self, path: &Path) -> bool {
        self.local.place_by_name(path).is_none_or(|(device, backing)| {
            backing.may_stall() && has_stubs(&device, &self.table())
        })
    }

    /// Whether reading an open file would recall it from a cold tier, as far as can be told.
    pub fn is_offline(&self, file: &impl AsFd) -> bool {
        let status = self.local.status(file);
        status.is_ok_and(|status| self.seems_offline(&status))
    }

    fn seems_offline(&self, status: &Status) -> bool {
        is_stub(status) && seems_offline(status, &self.table())
    }

    /// Whether a file may be a stub also where none are known of. One that is none has nothing on its device: it is
    /// a hole, or so small that it lies with its attributes. Many programs behind FUSE tell of no blocks at all.
    fn may_be_stub(&self, status: &Status) -> bool {
        is_stub(status)
            && !matches!(status.backing, Backing::Memory | Backing::Fuse)
            && self.table().has_stubs(&status.device) != Some(false)
    }

    /// A status, if it is a regular file's whose data is here.
    fn regular(&self, path: &Path, status: Status) -> Result<Status, Error> {
        match status.kind {
            Kind::File if self.seems_offline(&status) => {
                Err(Error::Offline { path: path.to_owned(), size: status.size })
            }
            Kind::File => Ok(status),
            Kind::Folder => Err(Error::io(path, io::Error::from_raw_os_error(libc::EISDIR))),
            Kind::Link | Kind::Stream => Err(Error::refused(path, "not a regular file")),
        }
    }

    /// Learns from a read what its device takes.
    pub fn observe(&self, device: &Device, seen: Observation) {
        let now = self.clock.unix_s();
        let mut table = self.table();
        table.observe(device, seen);
        table.set_updated(device, now);
        lock(&self.learned).observe(device, seen, now);
    }

    /// Sets what `device` takes, in seconds and bytes per second (the paper's
    /// `FSLEDS_FILL`, section 4.1); [`Costs::save`] writes it down. Whether that can be: see
    /// [`DeviceTable::fill`].
    #[must_use]
    pub fn fill(&self, device: &Device, latency_s: f64, bandwidth: f64) -> bool {
        let now = self.clock.unix_s();
        let mut table = self.table();
        if !table.fill(device, latency_s, bandwidth) {
            return false;
        }
        table.set_updated(device, now);
        lock(&self.learned).fill(device, latency_s, bandwidth, now);
        true
    }

    /// Notes that opening a file of `device` anew was seen to leave in memory what was there of it;
    /// [`Costs::save`] writes it down.
    pub fn saw_cache_kept(&self, device: &Device) {
        let mut table = self.table();
        if table.keeps_cache(device) != Some(true) {
            table.set_keeps_cache(device, true);
            lock(&self.learned).saw_cache_kept(device);
        }
    }

    /// Puts what measuring a device found in the place of what was known of it, or beside that where
    /// it is much less ([`DeviceTable::renew`]); [`Costs::save`] writes it down. Whether what was known
    /// counts no more.
    pub fn calibrate(&self, probe: Probe) -> bool {
        let (device, found) = found_by(probe);
        let stands_alone = self.renew(&device, found.clone());
        lock(&self.learned).renew(&device, &found, stands_alone, self.clock.unix_s());
        stands_alone
    }

    /// As [`Costs::calibrate`], for this process alone: it is not written down.
    pub fn calibrate_unsaved(&self, probe: Probe) -> bool {
        let (device, found) = found_by(probe);
        self.renew(&device, found)
    }

    fn renew(&self, device: &Device, found: DeviceTable) -> bool {
        let mut table = self.table();
        let stands_alone = table.renew(device, found);
        table.set_updated(device, self.clock.unix_s());
        stands_alone
    }

    /// Writes down what reads taught, if they taught anything, beside what is written there by then.
    ///
    /// # Errors
    /// The system's, on a read-only or full disk: then it is written down by the next call that can, or the
    /// next run learns it again.
    pub fn save(&self) -> io::Result<()> {
        let learned = std::mem::take(&mut *lock(&self.learned));
        if learned.is_empty() {
            return Ok(());
        }
        let mut tables = lock(&self.loaded().tables);
        self.files.save_over(&mut tables, &learned, &self.local).inspect_err(|_| {
            let mut unsaved = lock(&self.learned);
            let later = std::mem::replace(&mut *unsaved, learned);
            unsaved.add(later);
        })
    }
}

/// A device, and a table of what a probe found of it.
fn found_by(probe: Probe) -> (Device, DeviceTable) {
    let mut found = DeviceTable::default();
    for seen in probe.observations {
        found.observe(&probe.device, seen);
    }
    for (bytes, seconds) in probe.near {
        found.observe_near(&probe.device, bytes, seconds);
    }
    if let Some(keeps) = probe.keeps_cache {
        found.set_keeps_cache(&probe.device, keeps);
    }
    (probe.device, found)
}

/// Opens regular files one after the other: cheaper for each than [`Costs::open_regular`].
///
/// It is for a batch: the mount of the last file cannot be unmounted while it lives.
#[derive(Debug)]
pub struct Opener<'a> {
    costs: &'a Costs,
    local: local::Opener<'a>,
}

impl Opener<'_> {
    /// As [`Costs::open_regular`].
    ///
    /// # Errors
    /// As [`Costs::open_regular`].
    pub fn open_regular(&mut self, path: &Path) -> Result<(File, Status), Error> {
        if self.local.may_stall(path) {
            return self.costs.open_regular(path);
        }
        let (file, status) = self.local.open_known(path)?;
        Ok((file, self.costs.regular(path, status)?))
    }
}
