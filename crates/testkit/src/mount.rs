//! Mounts that tests make, and unmount on drop: loop disks, slow ones too, tmpfs, overlay, slowfs.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::cmd::tool;
use crate::dir::Dir;

const MIB: u64 = 1024 * 1024;

/// A file system of a [`LoopDisk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, without background initialisation.
    Ext4,
    /// XFS; at least 300 MiB.
    Xfs,
    /// btrfs; at least 120 MiB.
    Btrfs,
}

impl FileSystem {
    /// The kernel's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// The program that makes it.
    pub fn mkfs(self) -> &'static str {
        match self {
            Self::Ext4 => "mkfs.ext4",
            Self::Xfs => "mkfs.xfs",
            Self::Btrfs => "mkfs.btrfs",
        }
    }

    fn bytes_min(self) -> u64 {
        match self {
            Self::Ext4 => 8 * MIB,
            Self::Xfs => 320 * MIB,
            Self::Btrfs => 128 * MIB,
        }
    }

    fn make(self, image: &Path) {
        let options: &[&str] = match self {
            // Otherwise the kernel goes on initialising after the mount, and a slow disk counts that.
            Self::Ext4 => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            Self::Xfs | Self::Btrfs => &["-q", "-f"],
        };
        let args = options.iter().map(Into::into).chain([image.as_os_str().to_owned()]);
        tool(self.mkfs(), args);
    }
}

/// A file system on a loop device on an image file, with the page cache of a real disk.
///
/// The image itself stays out of the page cache (direct I/O), so nothing is cached twice.
#[derive(Debug)]
pub struct LoopDisk {
    // Fields drop in this order, after `drop` has unmounted and detached.
    slow: Option<slowfs::Mount>,
    device: PathBuf,
    mountpoint: PathBuf,
    dir: Dir,
}

impl LoopDisk {
    /// A disk of `bytes`, or of what the file system needs at least; as fast as the host's.
    #[track_caller]
    pub fn new(file_system: FileSystem, bytes: u64) -> Self {
        Self::with(file_system, bytes, None)
    }

    /// A disk whose image lies on a slowfs, so that it is as slow as `options` say: see
    /// [`LoopDisk::slow`].
    #[track_caller]
    pub fn on_slowfs(file_system: FileSystem, bytes: u64, options: slowfs::Options) -> Self {
        Self::with(file_system, bytes, Some(options))
    }

    #[track_caller]
    fn with(file_system: FileSystem, bytes: u64, options: Option<slowfs::Options>) -> Self {
        let dir = Dir::new();
        let bytes = bytes.max(file_system.bytes_min());
        let image = dir.create_sparse("image/disk.img", bytes);
        file_system.make(&image);
        Self::attach(dir, file_system.name(), MountFlags::NOATIME, options)
    }

    /// A disk with a copy of another's ext4, as a snapshot is: with the same UUID.
    #[track_caller]
    pub fn copy_of(other: &Self) -> Self {
        let mounted = fs::File::open(&other.mountpoint).unwrap_or_else(|e| panic!("{e}"));
        rustix::fs::syncfs(mounted).unwrap_or_else(|e| panic!("{e}"));
        let dir = Dir::new();
        let image = dir.create_dir("image").join("disk.img");
        fs::copy(other.dir.join("image/disk.img"), image).unwrap_or_else(|e| panic!("{e}"));
        Self::attach(dir, FileSystem::Ext4.name(), MountFlags::NOATIME, None)
    }

    /// A read-only squashfs with the content of `source`.
    #[track_caller]
    pub fn squashfs(source: impl AsRef<Path>) -> Self {
        let dir = Dir::new();
        let image = dir.create_dir("image").join("disk.img");
        let source = source.as_ref().as_os_str().to_owned();
        let options = ["-quiet", "-no-progress", "-noappend"].map(Into::into);
        tool("mksquashfs", [source, image.into()].into_iter().chain(options));
        Self::attach(dir, "squashfs", MountFlags::RDONLY, None)
    }

    #[track_caller]
    fn attach(dir: Dir, name: &str, flags: MountFlags, options: Option<slowfs::Options>) -> Self {
        let images = dir.join("image");
        let slow = options.map(|options| {
            let at = dir.create_dir("slow");
            slowfs::Mount::new(&images, at, options).unwrap_or_else(|e| panic!("{e}"))
        });
        let image = slow.as_ref().map_or(&*images, slowfs::Mount::path).join("disk.img");
        let attach = ["-f", "--show", "--direct-io=on"].map(OsString::from);
        let device = PathBuf::from(tool("losetup", attach.into_iter().chain([image.into()])));
        let mountpoint = dir.create_dir("mnt");
        let disk = Self { slow, device, mountpoint, dir };
        rustix::mount::mount(&disk.device, &disk.mountpoint, name, flags, None)
            .unwrap_or_else(|e| panic!("mount {} {name}: {e}", disk.device.display()));
        disk
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// The block device, such as `/dev/loop0`.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// The slowfs below it: its counts are the disk's; `None` on a disk that is not slow.
    pub fn slow(&self) -> Option<&slowfs::Mount> {
        self.slow.as_ref()
    }

    /// Sets the readahead window of the block device.
    #[track_caller]
    pub fn set_readahead(&self, bytes: u64) {
        let name = self.device.file_name().expect("a path below /dev").to_string_lossy();
        let setting = format!("/sys/block/{name}/queue/read_ahead_kb");
        fs::write(&setting, (bytes / 1024).to_string())
            .unwrap_or_else(|e| panic!("{setting}: {e}"));
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // Whatever hangs must answer, or unmounting hangs too.
        if let Some(slow) = &self.slow {
            slow.set_rules(Vec::new());
        }
        unmount(&self.mountpoint);
        std::process::Command::new("losetup").arg("-d").arg(&self.device).status().ok();
    }
}

impl AsRef<Path> for LoopDisk {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

/// A directory seen through a slowfs.
///
/// Prepare files in [`SlowDir::source`], at full speed; look at them below [`SlowDir::path`].
#[derive(Debug)]
pub struct SlowDir {
    mount: slowfs::Mount,
    source: PathBuf,
    _dir: Dir,
}

impl SlowDir {
    /// An empty directory, mounted with these options.
    #[track_caller]
    pub fn new(options: slowfs::Options) -> Self {
        let dir = Dir::new();
        let (source, at) = (dir.create_dir("source"), dir.create_dir("mnt"));
        let mount = slowfs::Mount::new(&source, at, options).unwrap_or_else(|e| panic!("{e}"));
        Self { mount, source, _dir: dir }
    }

    /// The slow side: the mount point.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The fast side.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// Writes a file on the fast side; returns its path on the slow side, of which nothing is cached.
    #[track_caller]
    pub fn create(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let source = self.source.join(&name);
        let parent = source.parent().expect("a joined path has a parent");
        fs::create_dir_all(parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        fs::write(&source, bytes).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
        self.path().join(name)
    }

    /// The file system: its counts and rules.
    pub fn mount(&self) -> &slowfs::Mount {
        &self.mount
    }

    /// What was read since the mount or the last reset.
    pub fn stats(&self) -> slowfs::Stats {
        self.mount.stats()
    }

    /// See [`slowfs::Mount::reset`].
    pub fn reset(&self) {
        self.mount.reset();
    }
}

impl AsRef<Path> for SlowDir {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

/// A tmpfs.
#[derive(Debug)]
pub struct Tmpfs {
    dir: Dir,
}

impl Tmpfs {
    /// An empty one that holds up to `bytes`.
    #[track_caller]
    pub fn new(bytes: u64) -> Self {
        let dir = Dir::new();
        mount("tmpfs", dir.path(), "tmpfs", format!("size={bytes}").into_bytes());
        Self { dir }
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl AsRef<Path> for Tmpfs {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(self.dir.path());
    }
}

/// An overlayfs of a given lower directory and an empty upper one.
#[derive(Debug)]
pub struct Overlay {
    mountpoint: PathBuf,
    // overlayfs refuses an upper directory that is itself on an overlay, as `/tmp` is in a container.
    _upper: Tmpfs,
    _dir: Dir,
}

impl Overlay {
    /// Shows `lower`; what is written goes to a tmpfs of at most 256 MiB.
    #[track_caller]
    pub fn new(lower: impl AsRef<Path>) -> Self {
        let dir = Dir::new();
        let upper = Tmpfs::new(256 * MIB);
        for name in ["upper", "work"] {
            fs::create_dir(upper.path().join(name)).expect("a new tmpfs can be written");
        }
        let mountpoint = dir.create_dir("mnt");
        let mut options = b"lowerdir=".to_vec();
        options.extend(lower.as_ref().as_os_str().as_bytes());
        for (key, name) in [(",upperdir=", "upper"), (",workdir=", "work")] {
            options.extend(key.bytes());
            options.extend(upper.path().join(name).as_os_str().as_bytes());
        }
        mount("overlay", &mountpoint, "overlay", options);
        Self { mountpoint, _upper: upper, _dir: dir }
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }
}

impl AsRef<Path> for Overlay {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        unmount(&self.mountpoint);
    }
}

#[track_caller]
fn mount(source: &str, at: &Path, file_system: &str, options: Vec<u8>) {
    let options = CString::new(options).expect("paths hold no NUL");
    rustix::mount::mount(source, at, file_system, MountFlags::empty(), Some(options.as_c_str()))
        .unwrap_or_else(|e| panic!("mount {file_system} on {}: {e}", at.display()));
}

/// Unmounts at once, or as soon as nobody uses it any more.
fn unmount(at: &Path) {
    rustix::mount::unmount(at, UnmountFlags::empty())
        .or_else(|_| rustix::mount::unmount(at, UnmountFlags::DETACH))
        .ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Facility, evict, noise, resident_bytes, skip_unless};

    #[test]
    fn disks_of_every_file_system_keep_their_cache_and_lose_it_when_told() {
        skip_unless!(Facility::Root, Facility::Loop);
        for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
            skip_unless!(
                Facility::Tool(file_system.mkfs()),
                Facility::FileSystem(file_system.name())
            );
            let disk = LoopDisk::new(file_system, 0);
            let path = disk.path().join("a");
            fs::write(&path, noise(300_000, 1)).unwrap();
            evict(&path);
            assert!(fs::read(&path).unwrap() == noise(300_000, 1), "{}", file_system.name());
            assert_eq!(resident_bytes(&path), 300_000, "{}", file_system.name());
        }
    }

    #[test]
    fn squashfs_shows_what_it_was_made_of() {
        skip_unless!(
            Facility::Root,
            Facility::Loop,
            Facility::Tool("mksquashfs"),
            Facility::FileSystem("squashfs")
        );
        let dir = Dir::new();
        dir.create("b/a", "text");
        let disk = LoopDisk::squashfs(&dir);
        assert_eq!(fs::read(disk.path().join("b/a")).unwrap(), b"text");
    }

    #[test]
    fn an_overlay_shows_below_and_keeps_it_as_it_is() {
        skip_unless!(Facility::Root, Facility::FileSystem("overlay"));
        let lower = Tmpfs::new(MIB);
        fs::write(lower.path().join("a"), "old").unwrap();
        let overlay = Overlay::new(&lower);
        assert_eq!(fs::read(overlay.path().join("a")).unwrap(), b"old");
        fs::write(overlay.path().join("a"), "new").unwrap();
        assert_eq!(fs::read(lower.path().join("a")).unwrap(), b"old");
    }

    #[test]
    fn mounts_are_gone_after_drop() {
        skip_unless!(Facility::Root, Facility::Loop, Facility::Fuse);
        let disk = LoopDisk::on_slowfs(FileSystem::Ext4, 0, slowfs::Options::default());
        let (path, slow) = (disk.path().to_owned(), disk.slow().unwrap().path().to_owned());
        let mounted = |path: &Path| {
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            mounts.contains(&format!(" {} ", path.display()))
        };
        assert!(mounted(&path) && mounted(&slow));
        drop(disk);
        assert!(!mounted(&path) && !mounted(&slow));
    }
}
