//! Which device a mount stands on, by a name that outlives a reboot.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use sled::Device;

use super::mounts::{Backing, Mount, Mounts};

/// How deep loop devices, device-mapper tables and overlays may be stacked.
const DEPTH_MAX: usize = 8;

/// The device that the files of `mount` come from.
pub(crate) fn device_of(mount: &Mount, mounts: &Mounts) -> Device {
    device_within(mount, mounts, DEPTH_MAX)
}

fn device_within(mount: &Mount, mounts: &Mounts, depth: usize) -> Device {
    let source = mount.source.to_string_lossy();
    match mount.backing {
        Backing::Memory | Backing::Pseudo => Device::memory(),
        Backing::Fuse => Device::new(format!("{}:{source}", mount.fs_type)),
        Backing::Network => {
            let family = if mount.fs_type == "nfs4" { "nfs" } else { &mount.fs_type };
            Device::new(format!("{family}:{source}"))
        }
        Backing::Overlay => {
            let beneath = lowest_folder(mount)
                .and_then(|folder| mounts.by_path(folder))
                .filter(|beneath| depth > 0 && beneath.id != mount.id);
            beneath.map_or_else(
                || Device::new(format!("overlay:{source}")),
                |beneath| device_within(beneath, mounts, depth - 1),
            )
        }
        Backing::Disk => block_name(mount).map_or_else(
            || Device::new(format!("{}:{source}", mount.fs_type)),
            |name| Device::new(name_of_block(&name, depth)),
        ),
    }
}

/// The last of the lower folders: where an image's own files are.
fn lowest_folder(mount: &Mount) -> Option<&Path> {
    let lower = mount.option("lowerdir")?.as_bytes();
    let last = lower.rsplit(|&byte| byte == b':').next()?;
    Some(Path::new(std::ffi::OsStr::from_bytes(last))).filter(|path| path.is_absolute())
}

/// The kernel's name for the block device of a mount: by number, or, where
/// the file system has an anonymous one (btrfs), by its source.
fn block_name(mount: &Mount) -> Option<String> {
    let (major, minor) = match mount.major_minor {
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

/// The device that the block device `name` really is: through partitions,
/// loop devices and device-mapper tables over a single disk.
fn name_of_block(name: &str, depth: usize) -> String {
    let folder = Path::new("/sys/class/block").join(name);
    let disk = || format!("disk:{name}");
    if depth == 0 {
        return disk();
    }
    if folder.join("partition").exists() {
        let link = std::fs::read_link(&folder).ok();
        let parent = link.as_deref().and_then(Path::parent).and_then(Path::file_name);
        return match parent.and_then(|parent| parent.to_str()) {
            Some(parent) => name_of_block(parent, depth - 1),
            None => disk(),
        };
    }
    if let Ok(backing) = std::fs::read_to_string(folder.join("loop/backing_file")) {
        return format!("loop:{}", backing.trim_end_matches('\n'));
    }
    let beneath: BTreeSet<String> = std::fs::read_dir(folder.join("slaves"))
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()))
        .map(|slave| name_of_block(&slave, depth - 1))
        .collect();
    match beneath.len() {
        0 => disk(),
        1 => beneath.into_iter().next().expect("it has one"),
        _ => match std::fs::read_to_string(folder.join("dm/name")) {
            Ok(table) => format!("dm:{}", table.trim_end_matches('\n')),
            Err(_) => format!("md:{name}"),
        },
    }
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
        assert_eq!(device("1 0 0:9 / /x rw - zfs pool/data rw"), "zfs:pool/data");
    }

    #[test]
    fn an_overlay_is_what_its_lowest_layer_is() {
        let lines = "1 0 0:8 / / rw - nfs h:/e rw\n\
                     2 1 0:9 / /m rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/u,workdir=/w";
        assert_eq!(device(lines), "nfs:h:/e");
        assert_eq!(device("2 1 0:9 / /m rw - overlay o rw,lowerdir=a"), "overlay:o");
    }
}
