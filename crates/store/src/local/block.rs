//! Which device a mount stands on, by a name that as a rule outlives a reboot: the kernel may give disks that it
//! finds at the same time each other's, so that what disks say of themselves is told, too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sled::Device;

use super::mounts::{Backing, Mount, Mounts};

/// How deep loop devices, device-mapper tables and overlays may be stacked.
const DEPTH_MAX: usize = 8;
/// Where block devices say which they are, whatever their names; the first that says something counts. So do
/// `nvme`, SCSI and SATA, virtio, memory cards, device-mapper tables and arrays.
const IDENTITIES: [&str; 6] =
    ["wwid", "device/wwid", "serial", "device/serial", "dm/uuid", "md/uuid"];

/// The device that the files of `mount` come from.
pub(crate) fn device_of(mount: &Mount, mounts: &Mounts) -> Device {
    device_within(mount, mounts, DEPTH_MAX)
}

fn device_within(mount: &Mount, mounts: &Mounts, depth: usize) -> Device {
    let source = mount.source.to_string_lossy();
    match mount.backing {
        Backing::Memory | Backing::Pseudo => Device::memory(),
        Backing::Network => {
            let family = if mount.fs_type == "nfs4" { "nfs" } else { &mount.fs_type };
            Device::new(format!("{family}:{source}"))
        }
        Backing::Overlay | Backing::FarOverlay => {
            let layers = layer_devices(mount, mounts, depth);
            match layers.len() {
                0 => Device::new(format!("overlay:{source}")),
                1 => Device::new(layers.into_iter().next().expect("it has one")),
                _ => Device::new(format!("overlay:{}", Vec::from_iter(layers).join("+"))),
            }
        }
        // What others give as its source is a name, and theirs to choose.
        Backing::Fuse if mount.major_minor.0 == 0 => {
            Device::new(format!("{}:{source}", mount.fs_type))
        }
        // Each dataset and snapshot is a mount; what they take is their pool's matter.
        Backing::Disk if mount.fs_type == "zfs" => {
            let pool = source.split(['/', '@']).next().unwrap_or_default();
            Device::new(format!("zfs:{pool}"))
        }
        Backing::Disk | Backing::FarDisk | Backing::Fuse => block_name(mount).map_or_else(
            || Device::new(format!("{}:{source}", mount.fs_type)),
            |name| Device::new(Blocks::of_this_machine().device(&name)),
        ),
    }
}

/// The devices that the layers of an overlay lie on, by name. Which of them a file comes from it does
/// not say, so that where there are several they count as one of their own; what lies in memory is never
/// far, and says nothing about the others.
fn layer_devices(mount: &Mount, mounts: &Mounts, depth: usize) -> BTreeSet<String> {
    if depth == 0 {
        return BTreeSet::new();
    }
    let beneath = mount.layers().filter_map(|folder| mounts.by_path(folder));
    let others = beneath.filter(|beneath| beneath.id != mount.id);
    let mut devices: BTreeSet<String> =
        others.map(|beneath| device_within(beneath, mounts, depth - 1).to_string()).collect();
    if devices.len() > 1 {
        devices.remove(Device::memory().name());
    }
    devices
}

/// What the disk that is a device says of itself: nothing, where it says nothing. `None` where the device is
/// none of this machine's disks.
pub(crate) fn identity(device: &Device) -> Option<String> {
    Blocks::of_this_machine().identity(device)
}

/// All disks of this machine, with what they say of themselves.
pub(crate) fn identities() -> BTreeMap<Device, String> {
    Blocks::of_this_machine().identities()
}

/// The files that the block device of a mount is made of.
pub(super) fn images(mount: &Mount) -> Vec<PathBuf> {
    let blocks = Blocks::of_this_machine();
    block_name(mount).map_or_else(Vec::new, |name| blocks.images(&name, DEPTH_MAX))
}

/// The kernel's name for the block device of a mount: by number, or, where
/// the file system has an anonymous one (btrfs), by its source.
fn block_name(mount: &Mount) -> Option<String> {
    let (major, minor) = match mount.major_minor {
        // Another source is a name, not a path.
        (0, _) if !mount.source.as_bytes().starts_with(b"/dev/") => return None,
        (0, _) => {
            let node = std::fs::metadata(&mount.source).ok()?;
            if !node.file_type().is_block_device() {
                return None;
            }
            (rustix::fs::major(node.rdev()), rustix::fs::minor(node.rdev()))
        }
        numbers => numbers,
    };
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// What the kernel says of block devices.
struct Blocks<'a> {
    /// Where sysfs is.
    sys: &'a Path,
}

impl Blocks<'static> {
    fn of_this_machine() -> Self {
        Self { sys: Path::new("/sys") }
    }
}

impl Blocks<'_> {
    /// The device that the block device `name` really is.
    fn device(&self, name: &str) -> String {
        self.called(&self.beneath(name, DEPTH_MAX))
    }

    /// The block device that one really is: through partitions, and device-mapper tables over a single disk.
    fn beneath(&self, name: &str, depth: usize) -> String {
        if depth == 0 {
            return name.to_owned();
        }
        if let Some(disk) = self.partitioned(name) {
            return self.beneath(&disk, depth - 1);
        }
        let slaves = self.slaves(name);
        let beneath: BTreeSet<String> =
            slaves.iter().map(|slave| self.beneath(slave, depth - 1)).collect();
        match beneath.len() {
            1 => beneath.into_iter().next().expect("it has one"),
            _ => name.to_owned(),
        }
    }

    /// The device that a block device is which lies on no other.
    fn called(&self, name: &str) -> String {
        if let Some(image) = self.image_of_loop(name) {
            return format!("loop:{}", image.display());
        }
        if self.slaves(name).is_empty() {
            return format!("disk:{name}");
        }
        match self.table_of(name) {
            Some(table) => format!("dm:{table}"),
            None => format!("md:{name}"),
        }
    }

    /// See [`identity`].
    fn identity(&self, device: &Device) -> Option<String> {
        let (family, name) = device.name().split_once(':')?;
        match family {
            "disk" | "md" => self.says_of_itself(name),
            "dm" => {
                let is_it = |block: &String| self.table_of(block).as_deref() == Some(name);
                self.says_of_itself(&self.names().find(is_it)?)
            }
            _ => None,
        }
    }

    /// See [`identities`].
    fn identities(&self) -> BTreeMap<Device, String> {
        let is_one = |name: &String| !self.is_path(name) && self.beneath(name, DEPTH_MAX) == *name;
        let disks = self.names().filter(is_one);
        let known = disks.filter_map(|name| {
            let device = Device::new(self.called(&name));
            (!device.is_of("loop")).then_some((device, self.says_of_itself(&name)?))
        });
        known.collect()
    }

    /// What a block device says of itself; `None` where there is none of this name.
    fn says_of_itself(&self, name: &str) -> Option<String> {
        let folder = self.folder(name);
        if name.contains('/') || !folder.exists() {
            return None;
        }
        let says = IDENTITIES.iter().find_map(|file| {
            let says = std::fs::read(folder.join(file)).ok()?;
            let says = String::from_utf8_lossy(&says).trim().to_owned();
            (!says.is_empty()).then_some(says)
        });
        Some(says.unwrap_or_default())
    }

    /// The files that a block device is made of.
    fn images(&self, name: &str, depth: usize) -> Vec<PathBuf> {
        if depth == 0 {
            return Vec::new();
        }
        if let Some(image) = self.image_of_loop(name) {
            return vec![image];
        }
        let beneath = self.partitioned(name).map_or_else(|| self.slaves(name), |disk| vec![disk]);
        beneath.iter().flat_map(|name| self.images(name, depth - 1)).collect()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.sys.join("class/block").join(name)
    }

    /// The disk that a partition is of.
    fn partitioned(&self, name: &str) -> Option<String> {
        let folder = self.folder(name);
        if !folder.join("partition").exists() {
            return None;
        }
        let link = std::fs::read_link(&folder).ok()?;
        Some(link.parent()?.file_name()?.to_str()?.to_owned())
    }

    /// Whether it is one of the paths to a disk of `nvme`, which has another name.
    fn is_path(&self, name: &str) -> bool {
        std::fs::read(self.folder(name).join("hidden")).is_ok_and(|says| says.starts_with(b"1"))
    }

    /// The name of a device-mapper table.
    fn table_of(&self, name: &str) -> Option<String> {
        let table = std::fs::read_to_string(self.folder(name).join("dm/name")).ok()?;
        Some(table.trim_end_matches('\n').to_owned())
    }

    /// All block devices.
    fn names(&self) -> impl Iterator<Item = String> {
        names_in(&self.sys.join("class/block"))
    }

    /// The file that a loop device shows.
    fn image_of_loop(&self, name: &str) -> Option<PathBuf> {
        let mut path = std::fs::read(self.folder(name).join("loop/backing_file")).ok()?;
        path.pop_if(|byte| *byte == b'\n');
        Some(PathBuf::from(OsString::from_vec(path)))
    }

    /// The block devices that one is made of by a table.
    fn slaves(&self, name: &str) -> Vec<String> {
        names_in(&self.folder(name).join("slaves")).collect()
    }
}

fn names_in(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(line: &str) -> String {
        let mounts = Mounts::parse(line.as_bytes());
        let last = mounts.all().last().expect("a line");
        device_of(last, &mounts).to_string()
    }

    #[test]
    fn mounts_without_a_block_device_are_named_by_their_source() {
        assert_eq!(device("1 0 0:9 / /x rw - fuse.sshfs u@h:/d rw"), "fuse.sshfs:u@h:/d");
        assert_eq!(device("1 0 0:9 / /x rw - nfs4 h:/e rw"), "nfs:h:/e");
        assert_eq!(device("1 0 0:9 / /x rw - cifs //h/s rw"), "cifs://h/s");
        assert_eq!(device("1 0 0:9 / /x rw - tmpfs tmpfs rw"), "memory");
        for dataset in ["pool", "pool/data", "pool/data/u1", "pool/data@monday", "pool@monday"] {
            assert_eq!(device(&format!("1 0 0:9 / /x rw - zfs {dataset} rw")), "zfs:pool");
        }
        assert_eq!(device("1 0 0:9 / /x rw - fuse.x /dev/vda rw"), "fuse.x:/dev/vda");
    }

    #[test]
    fn a_program_that_shows_a_disk_is_named_by_the_disk() {
        let Ok(disks) = std::fs::read_dir("/sys/dev/block") else { return };
        for disk in disks.flatten() {
            let numbers = disk.file_name().into_string().expect("numbers");
            let of = |kind| device(&format!("1 0 {numbers} / /x rw - {kind} /dev/x rw"));
            assert_eq!(of("fuseblk"), of("ext4"));
        }
    }

    #[test]
    fn an_overlay_is_what_its_layers_are() {
        let lines = "1 0 0:8 / / rw - nfs h:/e rw\n\
                     2 1 0:9 / /m rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/u,workdir=/w";
        assert_eq!(device(lines), "nfs:h:/e");
        let lines = "1 0 0:8 / / rw - nfs h:/e rw\n\
                     2 1 0:9 / /u rw - cifs //h/s rw\n\
                     3 1 0:9 / /m rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/u/d,workdir=/u/w";
        assert_eq!(device(lines), "overlay:cifs://h/s+nfs:h:/e");
        let lines = "1 0 0:8 / / rw - nfs h:/e rw\n\
                     2 1 0:9 / /u rw - tmpfs tmpfs rw\n\
                     3 1 0:9 / /m rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/u/d,workdir=/u/w";
        assert_eq!(device(lines), "nfs:h:/e");
        assert_eq!(device("2 1 0:9 / /m rw - overlay o rw,lowerdir=a"), "overlay:o");
    }

    /// As the kernel lays it out: two disks, one with a partition, tables over one and over both.
    fn blocks() -> testkit::Dir {
        let sys = testkit::Dir::new();
        let device = |name: &str, at: &str| {
            sys.create_dir(format!("devices/{at}"));
            sys.create_dir("class/block");
            let target = format!("../../devices/{at}");
            std::os::unix::fs::symlink(target, sys.join(format!("class/block/{name}")))
                .expect("linked");
        };
        device("sda", "pci/block/sda");
        device("sda1", "pci/block/sda/sda1");
        sys.create("devices/pci/block/sda/sda1/partition", "1\n");
        device("sdb", "pci/block/sdb");
        device("loop0", "virtual/block/loop0");
        sys.create("devices/virtual/block/loop0/loop/backing_file", "/a/disk.img\n");
        for (name, table, slaves) in [
            ("dm-0", Some("vault"), &["sda1"][..]),
            ("dm-1", Some("volumes-home"), &["dm-0", "sdb"]),
            ("dm-2", Some("of-a-file"), &["loop0"]),
            ("md0", None, &["sda1", "sdb"]),
        ] {
            let at = format!("virtual/block/{name}");
            device(name, &at);
            if let Some(table) = table {
                sys.create(format!("devices/{at}/dm/name"), format!("{table}\n"));
            }
            for slave in slaves {
                sys.create_dir(format!("devices/{at}/slaves/{slave}"));
            }
        }
        sys
    }

    #[test]
    fn a_block_device_is_the_disk_beneath_it() {
        let sys = blocks();
        let blocks = Blocks { sys: sys.path() };
        for (name, device) in [
            ("sda", "disk:sda"),
            ("sda1", "disk:sda"),
            ("loop0", "loop:/a/disk.img"),
            ("dm-0", "disk:sda"),
            ("dm-1", "dm:volumes-home"),
            ("dm-2", "loop:/a/disk.img"),
            ("md0", "md:md0"),
        ] {
            assert_eq!(blocks.device(name), device);
        }
        assert_eq!(blocks.images("dm-2", DEPTH_MAX), [Path::new("/a/disk.img")]);
        assert!(blocks.images("dm-1", DEPTH_MAX).is_empty());
    }

    #[test]
    fn disks_say_which_they_are_and_what_lies_on_them_says_nothing_of_itself() {
        let sys = blocks();
        for (file, says) in [
            ("pci/block/sda/device/wwid", "naa.5000\n"),
            ("pci/block/sda/serial", "not asked\n"),
            ("pci/block/sda/sda1/uuid", "a partition's\n"),
            ("pci/block/sdb/wwid", "\n"),
            ("pci/block/sdb/serial", " t10 a  b\t\n"),
            ("virtual/block/loop0/serial", "a loop device's\n"),
            ("virtual/block/dm-0/dm/uuid", "CRYPT-1\n"),
            ("virtual/block/dm-1/dm/uuid", "LVM-1\n"),
            ("virtual/block/md0/md/uuid", ""),
        ] {
            sys.create(format!("devices/{file}"), says);
        }
        let blocks = Blocks { sys: sys.path() };
        let known = [
            ("disk:sda", "naa.5000"),
            ("disk:sdb", "t10 a  b"),
            ("dm:volumes-home", "LVM-1"),
            ("md:md0", ""),
        ];
        let known = known.map(|(device, says)| (Device::new(device), says.to_owned()));
        for (device, says) in &known {
            assert_eq!(blocks.identity(device).as_ref(), Some(says), "{device}");
        }
        assert_eq!(blocks.identities(), BTreeMap::from(known));
        for none in ["disk:sdc", "dm:vaults", "loop:/a/disk.img", "memory", "disk:../block/sda"] {
            assert_eq!(blocks.identity(&Device::new(none)), None, "{none}");
        }
        sys.create("devices/pci/block/sda/hidden", "1\n");
        assert!(!blocks.identities().contains_key(&Device::new("disk:sda")), "it is a path");
    }
}
