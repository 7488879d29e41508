//! A mounted slowfs: what to mount, and the life of the mount.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::mount::UnmountFlags;

use crate::clock::Clock;
use crate::engine::Engine;
use crate::filesystem::SlowFs;
use crate::later::Later;
use crate::rule::Rule;
use crate::source::{Source, read_line};
use crate::stats::Stats;

/// How a source directory is mounted.
#[derive(Debug, Clone)]
pub struct Options {
    /// The first rule that matches a file's path applies; files without a rule are not slowed.
    pub rules: Vec<Rule>,
    /// Seed of the jitter; the rule with index n uses `seed + n`.
    pub seed: u64,
    /// Divides every time of every rule, also of rules set later.
    pub speed_up: f64,
    /// Whether the kernel keeps a file's pages when it is opened again, as it does on a disk. If
    /// not, every open drops them, which is FUSE's own default.
    pub keep_cache: bool,
    /// The readahead window; the kernel's default for FUSE is 128 KiB. A larger one needs root.
    pub readahead_bytes_max: Option<u32>,
    /// How long the kernel may believe names and attributes without asking again.
    pub time_to_live: Duration,
    /// How long it may believe that there is no file of a name.
    pub absence_time_to_live: Duration,
    /// Reads kept in the log of [`Stats`].
    pub log_reads_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            seed: 1,
            speed_up: 1.0,
            keep_cache: true,
            readahead_bytes_max: None,
            // What FUSE file systems usually take.
            time_to_live: Duration::from_secs(1),
            absence_time_to_live: Duration::ZERO,
            // 10 GB read in windows of 128 KiB, in a few MB of memory.
            log_reads_max: 65_536,
        }
    }
}

/// What kept a mount from being made or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source is no directory that can be read.
    #[error("{path}: {source}", path = path.display())]
    Source {
        /// The source directory.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The mount could not be made: usually no root, or no `/dev/fuse`.
    #[error("cannot mount on {path}: {source}", path = path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The readahead window could not be set.
    #[error("cannot set the readahead of {path}, which needs root: {source}", path = path.display())]
    Readahead {
        /// The mount point.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The mount could not be ended.
    #[error("cannot unmount {path}: {source}", path = path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
}

/// A source directory seen through slow devices, mounted while this lives.
///
/// ```no_run
/// use slowfs::{Mount, Options, Preset, Rule};
///
/// let options = Options {
///     rules: vec![Rule::all(Preset::Nfs.profile())],
///     speed_up: 50.0,
///     ..Options::default()
/// };
/// let mount = Mount::new("/data", "/mnt", options)?;
/// std::fs::read("/mnt/file")?;
/// let from_device = mount.stats().file("file").read_bytes;
/// std::fs::read("/mnt/file")?;
/// assert_eq!(mount.stats().file("file").read_bytes, from_device, "the page cache answered");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    engine: Arc<Engine>,
    life: Mutex<Life>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    ended: Arc<Ended>,
}

#[derive(Debug)]
enum Life {
    Mounted(SessionUnmounter),
    /// Unmounting has failed; fuser's own unmounter works once only.
    Stuck,
    Ended,
}

#[derive(Debug, Default)]
struct Ended {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Mount {
    /// Mounts `source_dir` on the directory `mountpoint`; when it returns, the mount is usable.
    pub fn new(
        source_dir: impl AsRef<Path>,
        mountpoint: impl AsRef<Path>,
        mut options: Options,
    ) -> Result<Self, Error> {
        let source_dir = source_dir.as_ref();
        let in_source = |source: io::Error| Error::Source { path: source_dir.to_owned(), source };
        let source = Source::open(source_dir).map_err(|error| in_source(error.into()))?;
        let path = mountpoint.as_ref().to_owned();
        let in_mount = |source| Error::Mount { path: path.clone(), source };
        let path = path.canonicalize().map_err(in_mount)?;
        let in_mount = |source| Error::Mount { path: path.clone(), source };

        let clock = Clock::start();
        let (later, giver) = Later::start(clock).map_err(in_mount)?;
        let engine = Arc::new(Engine::new(&mut options, clock, later));
        let session = SlowFs::new(source, Arc::clone(&engine), &options)
            .map_err(|error| in_source(io::Error::from_raw_os_error(error.code())))
            .and_then(|filesystem| {
                Session::new(filesystem, &path, &config(source_dir)).map_err(in_mount)
            });
        let mut session = match session {
            Ok(session) => session,
            Err(error) => {
                engine.later.close();
                giver.join().ok();
                return Err(error);
            }
        };
        let life = Mutex::new(Life::Mounted(session.unmount_callable()));
        let ended = Arc::new(Ended::default());
        let tell = Arc::clone(&ended);
        let server = thread::Builder::new()
            .name("slowfs".into())
            .spawn(move || {
                // It ends well by unmounting and badly by losing its connection: either way it is over.
                session.run().ok();
                *tell.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
                tell.changed.notify_all();
            })
            .map_err(in_mount)?;
        let threads = Mutex::new(vec![giver, server]);
        let mount = Self { path, engine, life, threads, ended };
        if let Some(bytes) = options.readahead_bytes_max {
            mount.set_readahead(bytes)?;
        }
        Ok(mount)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What reached the device since mount or reset.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Sets all counts to zero, and lets every device begin anew: no stream known, no request
    /// queued, reads numbered from 1.
    pub fn reset(&self) {
        self.engine.reset();
    }

    /// Replaces the rules; their devices are fresh, and requests that hang are answered.
    pub fn set_rules(&self, rules: Vec<Rule>) {
        self.engine.set_rules(rules);
    }

    /// Runs `prepare` without any rule, then brings the rules back and resets the counts.
    pub fn at_full_speed<T>(&self, prepare: impl FnOnce() -> T) -> T {
        let rules = self.engine.rules();
        self.set_rules(Vec::new());
        let made = prepare();
        self.set_rules(rules);
        self.reset();
        made
    }

    /// Waits until the file system is unmounted, by anyone.
    pub fn wait(&self) {
        let mut ended = self.ended.flag.lock().unwrap_or_else(PoisonError::into_inner);
        while !*ended {
            ended = self.ended.changed.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Unmounts and waits for the end; later calls do nothing.
    ///
    /// Answers that wait or hang are given first. If files are still open, whoever has them open
    /// gets errors from here on, as when a disk is pulled out.
    pub fn unmount(&self) -> Result<(), Error> {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *life, Life::Ended);
        self.engine.later.close();
        // Busy: MNT_FORCE ends the connection, which lets readers and our threads go.
        let force =
            || rustix::mount::unmount(&self.path, UnmountFlags::FORCE | UnmountFlags::DETACH);
        let unmounted = match before {
            Life::Mounted(mut session) => session.unmount().or_else(|_| force()),
            Life::Stuck => force(),
            Life::Ended => return Ok(()),
        };
        if let Err(error) = unmounted {
            *life = Life::Stuck;
            return Err(Error::Unmount { path: self.path.clone(), source: error.into() });
        }
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            thread.join().ok();
        }
        Ok(())
    }

    fn set_readahead(&self, bytes: u32) -> Result<(), Error> {
        let fail = |source| Error::Readahead { path: self.path.clone(), source };
        let root = std::fs::File::open(&self.path).map_err(fail)?;
        let stat = crate::source::stat_open(root.as_fd()).map_err(|error| fail(error.into()))?;
        let (major, minor) = (stat.stx_dev_major, stat.stx_dev_minor);
        let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let wanted = (bytes / 1024).to_string();
        if read_line(&setting).map_err(fail)? == wanted {
            return Ok(());
        }
        std::fs::write(&setting, wanted).map_err(fail)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // There is nobody to tell, and the kernel keeps what could not be unmounted visible.
        self.unmount().ok();
    }
}

fn config(source_dir: &Path) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        // A comma would end the option.
        MountOption::FSName(source_dir.to_string_lossy().replace(',', "_")),
        MountOption::Subtype("slowfs".into()),
        MountOption::DefaultPermissions,
    ];
    // Others than root need a line in fuse.conf for that.
    if rustix::process::geteuid().is_root() {
        config.acl = SessionACL::All;
        config.mount_options.extend([MountOption::Dev, MountOption::Suid]);
    }
    // One thread takes requests in the order in which the kernel sends them, so that the log and
    // the numbers of reads mean something; answers wait elsewhere.
    config.n_threads = Some(1);
    config
}
