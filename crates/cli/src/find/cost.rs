//! What files cost, for `-latency` and `-device`: asked once per file, however
//! many tests want to know, and not at all without such a test.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nearfirst::{Device, Name, Plan, Reason, Sled};
use rustix::fd::{AsFd as _, AsRawFd as _};
use rustix::fs::{Statx, StatxFlags};
use rustix::io::Errno;

use super::entry::Entry;
use super::quote::quoted;
use super::session::{Session, Stats};
use crate::messages;
use crate::shares::Answers;

/// What reading one regular file takes, and from where.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileLatency {
    /// Seconds to read it; `None` where nobody knows.
    latency: Option<f64>,
    /// The devices that its parts are on, each once, in file order.
    devices: Vec<String>,
}

impl FileLatency {
    /// Of what has these sleds.
    fn of(sleds: &[Sled], plan: Plan) -> Self {
        let mut devices = Vec::<String>::new();
        for sled in sleds {
            if devices.iter().all(|known| known != sled.device.name()) {
                devices.push(sled.device.to_string());
            }
        }
        let time = nearfirst::delivery_time(sleds, plan);
        Self { latency: time.known().map(|time| time.p50), devices }
    }
}

/// Asks for latencies.
#[derive(Debug)]
pub(crate) struct Latencies {
    known: Arc<nearfirst::Costs>,
    /// By which a time is told.
    plan: Plan,
    mounts: HashMap<u64, Option<OnMount>>,
    /// Devices of which it was said that their cost is unknown.
    told: HashSet<(String, String)>,
}

/// What all files of a mount have in common.
#[derive(Debug)]
struct OnMount {
    fs_type: Vec<u8>,
    device: String,
}

/// Seconds to read a regular file; `None` for others, and where nobody knows.
pub(crate) fn latency(entry: &mut Entry<'_>, session: &mut Session<'_>) -> Option<f64> {
    cost(entry, session)?.latency
}

/// The devices of a file's parts and of its mount, each once.
pub(crate) fn devices(entry: &mut Entry<'_>, session: &mut Session<'_>) -> Vec<String> {
    let mut devices = cost(entry, session).map(|cost| cost.devices).unwrap_or_default();
    if let Ok(meta) = entry.meta(session)
        && let Some(mount) = session.costs.mount(&meta)
        && !devices.contains(&mount.device)
    {
        devices.push(mount.device.clone());
    }
    devices
}

/// The cost of a regular file; `None` for other files, which have none.
fn cost(entry: &mut Entry<'_>, session: &mut Session<'_>) -> Option<FileLatency> {
    if entry.kind(session) != b'f' {
        return None;
    }
    if entry.known.cost.is_none() {
        entry.known.cost = Some(session.costs.ask(entry, &mut session.stats));
    }
    entry.known.cost.clone()
}

impl Latencies {
    pub(crate) fn new(known: Arc<nearfirst::Costs>, plan: Plan) -> Self {
        Self { known, plan, mounts: HashMap::new(), told: HashSet::new() }
    }

    /// The file system type of a file, as the kernel names it.
    pub(crate) fn fs_type(&mut self, meta: &Statx) -> Option<&[u8]> {
        self.mount(meta).map(|mount| mount.fs_type.as_slice())
    }

    /// By the number that came with the file's properties: no mount point is touched.
    fn mount(&mut self, meta: &Statx) -> Option<&OnMount> {
        if meta.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return None;
        }
        let id = meta.stx_mnt_id;
        if !self.mounts.contains_key(&id) {
            let local = self.known.local();
            let found = local.mounts().ok().and_then(|mounts| {
                let mount = mounts.by_id(id)?;
                let device = local.device_of(mount).to_string();
                Some(OnMount { fs_type: mount.fs_type.as_bytes().to_vec(), device })
            });
            self.mounts.insert(id, found);
        }
        self.mounts.get(&id)?.as_ref()
    }

    /// Says what files were asked for their cost, and where their bytes are.
    pub(crate) fn say(&self, asked: &Answers) {
        if asked.files > 0 {
            asked.say(self.known.clock());
        }
    }

    fn ask(&mut self, entry: &Entry<'_>, stats: &mut Stats) -> FileLatency {
        let costs = &self.known;
        let located = match costs.path_located(Path::new(OsStr::from_bytes(entry.path))) {
            Err(nearfirst::Error::Io { source, .. }) if is_too_long(&source) => {
                costs.path_located(&shortened(entry))
            }
            located => located,
        };
        let located = match located {
            Ok(located) => located,
            Err(error) => {
                messages::error(format_args!("{}: {}", quoted(entry.path), error.reason()));
                return FileLatency::default();
            }
        };
        let reason = located.reason.clone();
        let sleds = costs.describe(located);
        stats.asked.add(&sleds);
        if let Some(why) = reason.as_ref().filter(|reason| reason.is_untold_size()) {
            self.tell_untold(why, entry.path);
            return FileLatency::default();
        }
        let unknown = sleds.iter().find(|sled| sled.estimate.is_none());
        if let Some(sled) = unknown {
            self.tell_unknown(&sled.device, reason, entry.path);
        }
        FileLatency::of(&sleds, self.plan)
    }

    /// Of an object of a store, with a word where it is unknown.
    pub(crate) fn of_object(
        &mut self,
        object: &nearfirst::Entry,
        sleds: &[Sled],
        stats: &mut Stats,
    ) -> FileLatency {
        let name = object.name.redacted();
        let path = name.as_bytes();
        stats.asked.add(sleds);
        if object.size.is_none() {
            self.tell_untold(&Reason::SizeUntoldByServer, path);
            return FileLatency::default();
        }
        if let Some(sled) = sleds.iter().find(|sled| sled.estimate.is_none()) {
            self.tell_unknown(&sled.device, None, path);
        }
        FileLatency::of(sleds, self.plan)
    }

    /// Says once that nobody knows the cost of what does not tell its size.
    fn tell_untold(&mut self, why: &Reason, path: &[u8]) {
        if self.told.insert((String::new(), why.to_string())) {
            let path = quoted(path);
            messages::note(format_args!("{path}: its cost is unknown, as of its like: {why}"));
        }
    }

    /// Says once per device that a cost is unknown, and why.
    fn tell_unknown(&mut self, device: &Device, reason: Option<Reason>, path: &[u8]) {
        let why = reason.map_or_else(
            || match Name::from(device.name()).scheme() {
                _ if device.is_cold_tier() => "it must be recalled first".to_owned(),
                None => "it was never measured; `nearfirst calibrate` does".to_owned(),
                Some(_) => "its rate was never measured; the first large fetch does".to_owned(),
            },
            |reason| reason.to_string(),
        );
        let device = device.to_string();
        if self.told.insert((device.clone(), why.clone())) {
            messages::note(format_args!(
                "{}: the cost of files on {device} is unknown: {why}",
                quoted(path)
            ));
        }
    }
}

/// Whether a path, from the root on, is longer than the kernel takes.
fn is_too_long(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error())
}

/// The path from its directory's descriptor on.
fn shortened(entry: &Entry<'_>) -> PathBuf {
    let directory = format!("/proc/self/fd/{}", entry.directory.as_fd().as_raw_fd());
    Path::new(&directory).join(OsStr::from_bytes(entry.name.to_bytes()))
}
