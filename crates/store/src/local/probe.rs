//! Measuring a device: random direct reads for latency, sequential ones for bandwidth.
//!
//! Existing files are read and never written. Direct reads leave the page
//! cache as it is; where a file system has none, only ranges that are not
//! cached are read, and dropped again. Only a folder without any file of use
//! gets an unlinked temporary one.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::Advice;
use sled::{Device, Observation};

use super::locate::data_ranges;
use super::reader::{Access, AlignedBuffer, BLOCK_BYTES, PIECE_BYTES, Random, Reader};
use super::sys::leave_signals_to_others;
use super::warm;
use crate::{Backing, Clock, Costs, Error, Kind, Mounts, memory_room};

/// The smallest file that is of use.
const FILE_BYTES_MIN: u64 = 1 << 20;
/// A file as large as this is not worth looking for a larger one.
const FILE_BYTES_ENOUGH: u64 = 256 << 20;
/// Folder entries looked at in search of a file.
const SEARCH_ENTRIES_MAX: usize = 20_000;
/// Size of the temporary file, and of the memory that is measured.
const OWN_FILE_BYTES: u64 = 32 << 20;
/// Others write, too: the temporary file takes no more than this share of what is free.
const FREE_SHARE: u64 = 8;

/// What a probe found.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The device that was measured.
    pub device: Device,
    /// The file that was read; `None` for an unlinked one of our own.
    pub file: Option<PathBuf>,
    /// What each read took.
    pub observations: Vec<Observation>,
    /// Bytes and seconds of reads of the same file from memory; none if none of it could be kept there.
    pub near: Vec<(u64, f64)>,
    /// Of FUSE mounts, whether a file keeps its cached pages when it is opened again.
    pub keeps_cache: Option<bool>,
}

/// How far a probe is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Looking for a file to read.
    Searching,
    /// So many bytes of so many, at the most, of a temporary file.
    Writing(u64, u64),
    /// So many reads of so many, at the most, for latency.
    Latency(usize, usize),
    /// So many reads of so many, at the most, for bandwidth.
    Bandwidth(usize, usize),
}

/// Measures the device under `path` (a file or a folder), taking about
/// `limit` at the most, but at least a few reads.
fn probe(
    costs: &Costs,
    path: &Path,
    limit: Duration,
    mut progress: impl FnMut(Progress),
) -> Result<Probe, Error> {
    let (local, clock) = (costs.local(), costs.clock());
    let status = costs.here(path)?;
    if status.backing == Backing::Memory && matches!(status.kind, Kind::File | Kind::Folder) {
        // Its files are memory, which reads of them past the page cache would not tell of.
        return probe_memory(clock);
    }
    let (sender, receiver) = mpsc::channel();
    let (target, device, backing, clock) =
        (path.to_owned(), status.device.clone(), status.backing, clock.clone());
    let work = move || {
        leave_signals_to_others();
        let say = |step| drop(sender.send(Ok(step)));
        say(Progress::Searching);
        let result = measure(&target, status.kind, device, backing, &clock, limit, say);
        drop(sender.send(Err(result)));
    };
    std::thread::Builder::new()
        .name("probe".into())
        .spawn(work)
        .map_err(|source| Error::io(path, source))?;
    loop {
        // A read of the largest piece may well take the whole limit.
        match receiver.recv_timeout(limit + local.wait_max()) {
            Ok(Ok(step)) => progress(step),
            Ok(Err(result)) => return result,
            Err(_) => {
                return Err(Error::Stalled {
                    path: path.to_owned(),
                    mount: status.mount,
                    limit: limit + local.wait_max(),
                });
            }
        }
    }
}

/// Measures one device by several places on it (files or folders): at the first where that works,
/// which it tells. All of them together take about `limit` at the most, but each at least a few reads.
///
/// # Errors
/// Of the first place: [`Error::NothingToRead`]; [`Error::Offline`]; [`Error::Io`], also where too
/// little of what was read came from the device to tell its latency and its bandwidth.
/// [`Error::Stalled`] of any where a read does not return, since a device's other mounts would not
/// answer either. [`Error::Refused`] without a place.
pub fn probe_first<'a>(
    costs: &Costs,
    places: &'a [PathBuf],
    limit: Duration,
    mut progress: impl FnMut(Progress),
) -> Result<(Probe, &'a Path), Error> {
    let deadline = costs.clock().now() + limit;
    let mut first_error = None;
    for place in places {
        let left = deadline.saturating_sub(costs.clock().now());
        match probe(costs, place, left, &mut progress) {
            Ok(found) => return Ok((found, place)),
            Err(error @ Error::Stalled { .. }) => return Err(error),
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    let nowhere = || Error::refused("no place", "a device is measured by at least one");
    Err(first_error.unwrap_or_else(nowhere))
}

/// Measures memory: reads of a file that is wholly in it.
///
/// # Errors
/// [`Error::Io`] if there is no memory for it.
pub fn probe_memory(clock: &Clock) -> Result<Probe, Error> {
    let failed = |source: io::Error| Error::io("memory", source);
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("nearfirst-probe", flags)
        .map(File::from)
        .map_err(|error| failed(error.into()))?;
    let room = memory_room().unwrap_or(u64::MAX);
    let size = room.clamp(FILE_BYTES_MIN, OWN_FILE_BYTES);
    fill(&file, size, &mut Random::default()).map_err(failed)?;
    let data = std::iter::once(0..size).collect();
    let mut reader = Reader::new(file, size, data, Access::Memory, clock);
    let observations = reader.observe(Duration::from_millis(300), |_| {}).map_err(failed)?;
    let device = Device::memory();
    Ok(Probe { device, file: None, observations, near: Vec::new(), keeps_cache: None })
}

fn measure(
    path: &Path,
    kind: Kind,
    device: Device,
    backing: Backing,
    clock: &Clock,
    limit: Duration,
    progress: impl Fn(Progress),
) -> Result<Probe, Error> {
    let failed = |source: io::Error| Error::io(path, source);
    let found = match kind {
        Kind::File => Some(path.to_owned()),
        Kind::Folder => largest_file(path, clock, limit),
        Kind::Link | Kind::Stream => {
            return Err(failed(io::Error::other("neither a file nor a folder")));
        }
    };
    let (file, size) = match &found {
        Some(path) => {
            let file = File::open(path).map_err(failed)?;
            let size = file.metadata().map_err(failed)?.len();
            (file, size)
        }
        None => own_file(path, clock, limit, &progress)?,
    };
    if size < BLOCK_BYTES as u64 {
        return Err(Error::NothingToRead { path: path.to_owned(), bytes_min: FILE_BYTES_MIN });
    }
    let keeps_cache = match (&found, backing) {
        (Some(path), Backing::Fuse) => keeps_cache(path).ok(),
        _ => None,
    };
    let direct = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    let direct = direct.ok().filter(|direct| direct.read_at(block.bytes(BLOCK_BYTES), 0).is_ok());
    let buffered = file.try_clone().map_err(failed)?;
    // Holes are read at the speed of memory.
    let data = data_ranges(&file, size, false);
    let mut reader = match direct {
        Some(direct) => Reader::new(direct, size, data, Access::Direct, clock),
        None => Reader::new(file, size, data, Access::Buffered, clock),
    };
    let observations = reader.observe(limit, progress).map_err(failed)?;
    if !tell_costs(&observations) {
        // Less than what is known already, which it must not replace.
        return Err(match size {
            ..FILE_BYTES_MIN => {
                Error::NothingToRead { path: path.to_owned(), bytes_min: FILE_BYTES_MIN }
            }
            _ => failed(io::Error::other(
                "too few reads came from the device: the rest are holes, or in memory",
            )),
        });
    }
    // A tenth of the time for bringing it in.
    let bytes = size.min(affordable_bytes(&observations, limit.as_secs_f64() / 10.0));
    // Overlayfs does not say what is in memory, so that it could not be left as it is.
    let near = if backing.is_overlay() {
        Vec::new()
    } else {
        // What the device takes is known, and that is what matters most.
        warm::reads(&buffered, bytes, clock).unwrap_or_default()
    };
    Ok(Probe { device, file: found, observations, near, keeps_cache })
}

/// Whether there is both a latency and a bandwidth in them: an estimate needs both.
fn tell_costs(observations: &[Observation]) -> bool {
    let starts = observations.iter().filter(|seen| seen.first_byte.is_some()).count();
    (1..observations.len()).contains(&starts)
}

/// Bytes that a device with these readings delivers in so many seconds.
fn affordable_bytes(observations: &[Observation], seconds: f64) -> u64 {
    let flowing = observations.iter().filter(|seen| seen.first_byte.is_none());
    let (bytes, took) =
        flowing.fold((0, 0.0), |(bytes, took), seen| (bytes + seen.bytes, took + seen.whole));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a saturating share"
    )]
    let affordable = (bytes as f64 / took.max(f64::MIN_POSITIVE) * seconds) as u64;
    affordable
}

/// Whether a file keeps its cached pages when it is opened again.
fn keeps_cache(path: &Path) -> io::Result<bool> {
    let first = File::open(path)?;
    first.read_at(&mut [0; BLOCK_BYTES], 0)?;
    let second = File::open(path)?;
    super::sys::cached_pages(second.as_fd(), &(0..BLOCK_BYTES as u64)).map(|pages| pages > 0)
}

/// The largest regular file that a bounded search below `folder` meets, on the same file system.
fn largest_file(folder: &Path, clock: &Clock, limit: Duration) -> Option<PathBuf> {
    let device = fs::symlink_metadata(folder).ok()?.dev();
    let deadline = clock.now() + limit / 2;
    // A dead mount must not be touched, not even to see that it is another device.
    let mounts = Mounts::read().unwrap_or_default();
    let points: HashSet<&Path> = mounts.all().iter().map(|mount| mount.point.as_path()).collect();
    let mut folders = vec![fs::canonicalize(folder).ok()?];
    let mut best: Option<(u64, PathBuf)> = None;
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            let enough = best.as_ref().is_some_and(|(size, _)| *size >= FILE_BYTES_ENOUGH);
            if seen > SEARCH_ENTRIES_MAX || enough || clock.now() > deadline {
                return best.map(|(_, path)| path);
            }
            if points.contains(entry.path().as_path()) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != device {
                continue;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file()
                && metadata.len() >= FILE_BYTES_MIN
                // Holes would be measured as memory.
                && metadata.blocks() * 512 >= metadata.len() / 2
                && best.as_ref().is_none_or(|(size, _)| metadata.len() > *size)
                // Opening it may empty its cache, or recall it.
                && rustix::fs::access(entry.path(), rustix::fs::Access::READ_OK).is_ok()
            {
                best = Some((metadata.len(), entry.path()));
            }
        }
    }
    best.map(|(_, path)| path)
}

/// An unlinked file in `folder`, as large as half of `limit` allows.
fn own_file(
    folder: &Path,
    clock: &Clock,
    limit: Duration,
    progress: impl Fn(Progress),
) -> Result<(File, u64), Error> {
    let failed = |source: io::Error| Error::io(folder, source);
    let room = rustix::fs::statvfs(folder).map_err(|error| failed(error.into()))?;
    let share = room.f_bavail.saturating_mul(room.f_frsize) / FREE_SHARE;
    let size = share.min(OWN_FILE_BYTES);
    let made = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    let Ok(file) = made else {
        return Err(Error::NothingToRead { path: folder.to_owned(), bytes_min: FILE_BYTES_MIN });
    };
    if size < FILE_BYTES_MIN {
        let text = "too little is free for a temporary file to read";
        return Err(failed(io::Error::new(io::ErrorKind::StorageFull, text)));
    }
    let deadline = clock.now() + limit / 2;
    let (mut random, mut written) = (Random::default(), 0);
    while written < size && (written < FILE_BYTES_MIN || clock.now() < deadline) {
        progress(Progress::Writing(written, size));
        let piece = (size - written).min(PIECE_BYTES as u64);
        // What was not handed to the device would be waited for at the end, however slow that is.
        fill(&file, piece, &mut random).and_then(|()| file.sync_data()).map_err(failed)?;
        written += piece;
    }
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    Ok((file, written))
}

/// Writes `size` bytes, rounded up to eight, that no file system compresses away.
fn fill(file: &File, size: u64, random: &mut Random) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(PIECE_BYTES, file);
    for _ in 0..size.div_ceil(8) {
        out.write_all(&random.next().to_le_bytes())?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Local, TableFiles};

    fn costs() -> Costs {
        Costs::with(Local::default(), TableFiles::default(), Clock::real())
    }

    #[test]
    fn memory_has_a_latency_and_a_bandwidth() {
        let probe = probe_memory(&Clock::real()).expect("there is memory");
        assert!(probe.observations.iter().any(|seen| seen.first_byte.is_some()));
        assert!(probe.observations.iter().any(|seen| seen.first_byte.is_none()));
    }

    #[test]
    fn no_more_is_brought_in_than_there_is_time_for() {
        let read = |bytes, whole| Observation { bytes, first_byte: None, whole };
        let latency = Observation { bytes: 4096, first_byte: Some(1.0), whole: 1.0 };
        assert_eq!(affordable_bytes(&[latency, read(1000, 1.0), read(3000, 1.0)], 0.5), 1000);
        assert_eq!(affordable_bytes(&[latency], 1.0), 0);
    }

    #[test]
    fn a_folder_without_files_is_measured_by_one_of_our_own_and_left_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let limit = Duration::from_millis(200);
        let found = probe(&costs(), folder.path(), limit, |_| {});
        let found = found.expect("the temporary folder can be written");
        assert_eq!(found.file, None);
        assert!(!found.observations.is_empty());
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn an_own_file_is_no_larger_than_there_is_time_for() {
        let folder = tempfile::tempdir().expect("a folder");
        for (limit_s, pieces) in [(0, 4), (20, 10)] {
            let clock = Clock::manual();
            let takes_a_second = |_| clock.advance(Duration::from_secs(1));
            let limit = Duration::from_secs(limit_s);
            let (_, size) = own_file(folder.path(), &clock, limit, takes_a_second).expect("made");
            assert_eq!(size, pieces * PIECE_BYTES as u64);
        }
    }

    #[test]
    fn a_device_without_a_place_is_refused() {
        let limit = Duration::from_millis(1);
        let found = probe_first(&costs(), &[], limit, |_| {});
        assert!(matches!(found, Err(Error::Refused { .. })), "{found:?}");
    }

    #[test]
    fn probing_a_cached_file_leaves_it_cached() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, vec![7; 2 << 20]).expect("written");
        File::open(&path).and_then(|file| file.sync_all()).expect("synced");
        let (costs, limit) = (costs(), Duration::from_millis(100));
        probe(&costs, &path, limit, |_| {}).expect("it can be read");
        let located =
            costs.local().locate(&File::open(&path).expect("it is there")).expect("located");
        let near: u64 = located
            .extents
            .iter()
            .filter(|extent| extent.place == sled::Place::Near)
            .map(|extent| extent.length)
            .sum();
        assert!(near >= 1 << 20, "{located:?}");
    }
}
