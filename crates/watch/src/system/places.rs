//! Which file systems are listened to: those whose reads are worth waiting less for.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, makedev};
use sled::DeviceTable;
use store::{Backing, Costs, Mount, Mounts};

use super::Error;
use super::fanotify::What;
use super::opens::Ground;

/// Reads of a device that answers faster are not worth guessing: a local flash disk answers in less,
/// a network, a spinning disk and the disks of cloud machines take longer.
const WORTH_S: f64 = 200e-6;
/// Those of one that is listened to: its median moves a little with each measurement, and to choose others
/// makes all be passed over that is opened in that moment. A quarter is more than it moves by itself.
const STILL_WORTH_S: f64 = 150e-6;
/// What the cost of a small file is told by.
const SMALL_BYTES: u64 = 4096;

/// What to listen to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Files or folders: the file systems they lie on, whatever is mounted at the time. Empty: all that are
    /// worth it by the cost of their device, or whose cost nobody knows.
    pub on: Vec<PathBuf>,
    /// Nothing is told of what lies here, and file systems mounted here are left alone.
    pub excluded: Vec<PathBuf>,
}

/// A file system to listen to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The mount that its files are named by.
    pub(crate) ground: Ground,
    /// Whether a call to it may never return.
    pub(crate) may_stall: bool,
}

/// Where the file systems are mounted that the paths of a scope lie on.
///
/// # Errors
/// [`Error::NoPlace`], [`Error::NoData`] of the first path of which that cannot be told.
pub(crate) fn points(scope: &Scope, costs: &Costs) -> Result<Vec<PathBuf>, Error> {
    let point = |path: &PathBuf| match costs.local().stat(path) {
        Ok(status) if status.backing == Backing::Pseudo => {
            Err(Error::NoData { path: path.clone() })
        }
        Ok(status) => Ok(status.mount),
        Err(error) => Err(Error::NoPlace { path: path.clone(), source: error }),
    };
    scope.on.iter().map(point).collect()
}

/// Sets points to where the paths of a scope lie by now. What is mounted again when somebody asks for it is
/// waited for.
pub(crate) fn move_on(points: &mut [PathBuf], scope: &Scope, mounts: &Mounts) {
    for (point, path) in points.iter_mut().zip(&scope.on) {
        let found = mounts.by_path(path).filter(|mount| mount.has_device());
        if let Some(mount) = found.filter(|mount| mount.backing != Backing::Pseudo) {
            point.clone_from(&mount.point);
        }
    }
}

/// The name without links; on a mount that may not answer nobody asks for it.
pub(crate) fn real(path: &Path, costs: &Costs) -> Option<PathBuf> {
    let backing = costs.local().backing_by_name(path)?;
    if backing.may_stall() { None } else { path.canonicalize().ok() }
}

/// What a scope excludes, by the names it was given and by those that the kernel tells, without links; on
/// a mount that may not answer nobody asks for these.
pub(crate) fn excluded(scope: &Scope, costs: &Costs) -> Vec<PathBuf> {
    let real = scope.excluded.iter().filter_map(|path| real(path, costs));
    scope.excluded.iter().cloned().chain(real).collect()
}

/// The places of a scope: those mounted at `points`, or without any all that are worth it, or still are of
/// those that are `listened` to. Of all
/// other local disks, programs are told: what is read on a place is read by programs that lie elsewhere.
pub(crate) fn places(
    scope: &Scope,
    points: &[PathBuf],
    listened: &[Ground],
    (mounts, costs): (&Mounts, &Costs),
) -> Vec<Place> {
    let is_excluded =
        |mount: &&Mount| scope.excluded.iter().any(|excluded| mount.point.starts_with(excluded));
    let reached = reached(mounts);
    let chosen: Vec<&Mount> = if points.is_empty() {
        let table = costs.table();
        let is_worth = |mount: &&Mount| {
            let is_listened = listened.iter().any(|ground| ground.device == device(mount));
            let worth_s = if is_listened { STILL_WORTH_S } else { WORTH_S };
            is_worth(mount, (&costs.local().device_of(mount), worth_s), &table)
                && !is_excluded(mount)
        };
        reached.iter().copied().filter(is_worth).collect()
    } else {
        let at = |point: &PathBuf| reached.iter().copied().find(|mount| mount.point == *point);
        points.iter().filter_map(at).collect()
    };
    let has_programs = |mount: &&Mount| mount.backing == Backing::Disk && !is_excluded(mount);
    let others = reached.iter().copied().filter(has_programs).map(|mount| (mount, What::Programs));
    let all = chosen.into_iter().map(|mount| (mount, What::Opens)).chain(others);
    let mut seen = HashSet::new();
    let firsts = all.filter(|(mount, _)| seen.insert(mount.major_minor));
    firsts.map(|(mount, what)| place(mount, what, &reached)).collect()
}

/// The grounds that are to be listened to.
pub(crate) fn chosen(places: &[Place]) -> impl Iterator<Item = &Ground> {
    places.iter().map(|place| &place.ground).filter(|ground| ground.what == What::Opens)
}

fn device(mount: &Mount) -> Dev {
    let (major, minor) = mount.major_minor;
    makedev(major, minor)
}

/// The mounts that their points lead to: of those at the same point the last covers the others.
fn reached(mounts: &Mounts) -> Vec<&Mount> {
    let last: HashMap<&Path, u64> =
        mounts.all().iter().map(|mount| (&*mount.point, mount.id)).collect();
    let is_last = |mount: &&Mount| last.get(&*mount.point) == Some(&mount.id);
    mounts.all().iter().filter(is_last).collect()
}

/// Names files by a mount that shows all of the file system, if there is one.
fn place(mount: &Mount, what: What, reached: &[&Mount]) -> Place {
    let is_whole = |mount: &&Mount| mount.root == Path::new("/");
    let is_same = |other: &&Mount| other.major_minor == mount.major_minor;
    let best = reached.iter().copied().filter(is_same).find(is_whole).unwrap_or(mount);
    let best = if is_whole(&mount) { mount } else { best };
    let ground = Ground {
        point: best.point.clone(),
        mount: best.id,
        device: device(best),
        is_whole: is_whole(&best),
        what,
    };
    Place { ground, may_stall: best.backing.may_stall() }
}

fn is_worth(mount: &Mount, (device, worth_s): (&sled::Device, f64), table: &DeviceTable) -> bool {
    let can_be = match mount.backing {
        _ if !mount.has_device() => false,
        Backing::Memory | Backing::Pseudo => false,
        // The layers' own file systems tell what containers open.
        Backing::Overlay | Backing::FarOverlay => mount.point == Path::new("/"),
        // To be told is to have the file opened.
        Backing::Fuse => table.keeps_cache(device) == Some(true),
        Backing::Disk | Backing::FarDisk | Backing::Network => true,
    };
    // A cost that nobody knows is not taken to be small.
    can_be
        && table
            .estimate(device, SMALL_BYTES)
            .is_none_or(|estimate| estimate.latency.p50 >= worth_s)
}

#[cfg(test)]
mod tests {
    use sled::Device;

    use super::*;

    fn mount(fs_type: &str) -> Mount {
        let line = format!("21 1 254:0 / / rw - {fs_type} /dev/vda rw\n");
        Mounts::parse(line.as_bytes()).all()[0].clone()
    }

    #[test]
    fn slow_and_unknown_devices_are_worth_it() {
        let mut table = DeviceTable::default();
        let (fast, slow) = (Device::new("disk:fast"), Device::new("disk:slow"));
        assert!(table.fill(&fast, 80e-6, 2e9));
        assert!(table.fill(&slow, 8e-3, 1e8));
        let disk = mount("ext4");
        assert!(!is_worth(&disk, (&fast, WORTH_S), &table));
        assert!(is_worth(&disk, (&slow, WORTH_S), &table));
        assert!(is_worth(&disk, (&Device::new("disk:new"), WORTH_S), &table));
        assert!(!is_worth(&mount("tmpfs"), (&slow, WORTH_S), &table));
        assert!(!is_worth(&mount("proc"), (&slow, WORTH_S), &table));
        assert!(!is_worth(&mount("autofs"), (&slow, WORTH_S), &table));
    }

    #[test]
    fn where_programs_lie_is_told_of_every_disk_but_those_left_alone() {
        let text = b"21 1 254:0 / / rw - ext4 /dev/vda rw\n22 1 254:1 / /slow rw - ext4 /dev/vdb rw\n\
                     23 1 254:2 / /apart rw - ext4 /dev/vdc rw\n24 1 0:9 / /run rw - tmpfs tmpfs rw\n";
        let mounts = Mounts::parse(text);
        let scope = Scope { on: vec!["/slow/x".into()], excluded: vec!["/apart".into()] };
        let found = places(&scope, &["/slow".into()], &[], (&mounts, &Costs::load()));
        let found: Vec<_> =
            found.iter().map(|place| (place.ground.point.to_str(), place.ground.what)).collect();
        assert_eq!(found, [(Some("/slow"), What::Opens), (Some("/"), What::Programs)]);
    }

    #[test]
    fn the_place_of_a_path_is_where_it_lies_and_what_is_mounted_on_demand_is_waited_for() {
        let root = "21 1 254:0 / / rw - ext4 /dev/vda rw\n";
        let trigger = "22 21 0:30 / /home rw - autofs systemd-1 rw\n";
        let home = "23 22 0:31 / /home rw - nfs4 server:/home rw\n";
        let scope = Scope { on: vec!["/home/a".into()], excluded: Vec::new() };
        let mut points = [PathBuf::from("/")];
        let mut after = |lines: &[&str]| {
            move_on(&mut points, &scope, &Mounts::parse(lines.concat().as_bytes()));
            points[0].display().to_string()
        };
        assert_eq!(after(&[root, trigger]), "/");
        assert_eq!(after(&[root, trigger, home]), "/home");
        assert_eq!(after(&[root, trigger]), "/home");
        assert_eq!(after(&[root]), "/");
        assert_eq!(after(&[root, home]), "/home");
    }

    #[test]
    fn a_file_system_is_listened_to_where_nothing_covers_it() {
        let text =
            b"21 1 254:1 / /a rw - ext4 /dev/vdb rw\n22 1 254:1 / /b rw - ext4 /dev/vdb rw\n\
                     23 1 254:2 / /a rw - ext4 /dev/vdc rw\n";
        let found = places(&Scope::default(), &[], &[], (&Mounts::parse(text), &Costs::load()));
        let found: Vec<_> =
            found.iter().map(|place| (place.ground.point.to_str(), place.ground.device)).collect();
        assert_eq!(found, [(Some("/b"), makedev(254, 1)), (Some("/a"), makedev(254, 2))]);
    }

    #[test]
    fn fuse_is_worth_it_where_opening_keeps_what_is_near() {
        let mut table = DeviceTable::default();
        let device = Device::new("fuse.sshfs:host");
        assert!(!is_worth(&mount("fuse.sshfs"), (&device, WORTH_S), &table));
        table.set_keeps_cache(&device, true);
        assert!(is_worth(&mount("fuse.sshfs"), (&device, WORTH_S), &table));
    }

    #[test]
    fn files_are_named_by_the_mount_that_shows_them_all() {
        let text = b"21 1 254:0 /home /srv rw - ext4 /dev/vda rw\n22 1 254:0 / /all rw - ext4 /dev/vda rw\n\
                     23 1 254:1 /x /part rw - ext4 /dev/vdb rw\n";
        let mounts = Mounts::parse(text);
        let point = |at: usize| place(&mounts.all()[at], What::Opens, &reached(&mounts)).ground;
        assert_eq!((&*point(0).point, point(0).is_whole), (Path::new("/all"), true));
        assert_eq!((&*point(2).point, point(2).is_whole), (Path::new("/part"), false));
    }
}
