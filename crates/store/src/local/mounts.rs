//! What is mounted where, and what kind of thing that is.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use super::block;
use crate::standard::above_standard;

/// Bytes that the table of mounts is expected to take.
const TABLE_BYTES: usize = 16 << 10;

/// What stands behind a file system, by how it must be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// Memory itself: reading never waits.
    Memory,
    /// A block device of this machine.
    Disk,
    /// A block device whose image lies at a server.
    FarDisk,
    /// Other file systems, seen through overlayfs: `cachestat` answers 0 there.
    Overlay,
    /// An overlay of which a layer may not answer.
    FarOverlay,
    /// A program of this machine: opening a file may empty its cache, and the program may hang.
    Fuse,
    /// A server: it may not answer.
    Network,
    /// No data at all: `/proc`, `/sys` and the like.
    Pseudo,
}

impl Backing {
    fn of(fs_type: &str) -> Self {
        match fs_type {
            "tmpfs" | "ramfs" | "hugetlbfs" | "devtmpfs" | "rootfs" => Self::Memory,
            "overlay" => Self::Overlay,
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "ceph" | "lustre" | "gpfs"
            | "afs" | "beegfs" | "virtiofs" | "ocfs2" | "gfs2" | "coda" | "wekafs" | "panfs"
            // OrangeFS.
            | "pvfs2"
            // Its folders are mounts that are not there yet.
            | "autofs" => {
                Self::Network
            }
            "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "debugfs" | "tracefs"
            | "securityfs" | "pstore" | "bpf" | "configfs" | "mqueue" | "fusectl"
            | "binfmt_misc" | "efivarfs" | "nsfs" | "selinuxfs" | "smackfs"
            | "rpc_pipefs" | "nfsd" | "resctrl" | "functionfs" | "xenfs" => {
                Self::Pseudo
            }
            "fuse" | "fuseblk" => Self::Fuse,
            _ if fs_type.starts_with("fuse.") || fs_type.starts_with("fuseblk.") => Self::Fuse,
            _ => Self::Disk,
        }
    }

    /// Whether a call to it may never return.
    pub fn may_stall(self) -> bool {
        matches!(self, Self::FarDisk | Self::FarOverlay | Self::Fuse | Self::Network)
    }

    /// Whether it shows files of other file systems.
    pub(crate) fn is_overlay(self) -> bool {
        matches!(self, Self::Overlay | Self::FarOverlay)
    }

    /// What it is where something beneath it may not answer.
    fn above_what_may_stall(self) -> Self {
        match self {
            Self::Disk => Self::FarDisk,
            Self::Overlay => Self::FarOverlay,
            other => other,
        }
    }
}

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// The kernel's number for it.
    pub id: u64,
    /// Device number of the file system, as `st_dev` gives it; major 0 where no block device stands behind it.
    pub major_minor: (u32, u32),
    /// What of its file system is mounted: `/`, or the folder that a bind mount shows.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type, with the subtype of FUSE: `ext4`, `fuse.sshfs`.
    pub fs_type: String,
    /// What is mounted: `/dev/vda`, `host:/export`, `overlay`.
    pub source: OsString,
    /// Options of the file system itself.
    pub options: OsString,
    /// How it must be treated.
    pub backing: Backing,
}

/// What is mounted, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// Asks the kernel. No mount point is touched.
    ///
    /// # Errors
    /// If `/proc` is not there.
    pub fn read() -> io::Result<Self> {
        Self::read_from(&mut Self::open()?)
    }

    /// Opens what [`Mounts::read`] reads, under a number that is not standard input's, output's or
    /// error's: it stays open, and a program that has closed those opens other files there.
    pub(super) fn open() -> io::Result<File> {
        let table = File::open("/proc/self/mountinfo")?;
        Ok(above_standard(table.into())?.into())
    }

    /// As [`Mounts::read`], from what [`Mounts::open`] opened.
    pub(super) fn read_from(table: &mut File) -> io::Result<Self> {
        // Its size is not known before; most tables need no more room.
        let mut text = Vec::with_capacity(TABLE_BYTES);
        table.read_to_end(&mut text)?;
        Ok(Self::parse_with(&text, block::images))
    }

    /// Reads the text of a `mountinfo` file; lines it does not understand are passed over. Of block
    /// devices it does not say where their images lie.
    pub fn parse(text: &[u8]) -> Self {
        Self::parse_with(text, |_| Vec::new())
    }

    /// As [`Mounts::parse`]; `images` says which files a block device is made of.
    fn parse_with(text: &[u8], images: impl Fn(&Mount) -> Vec<PathBuf>) -> Self {
        let lines = text.split(|&byte| byte == b'\n');
        let mut mounts = Self(lines.filter_map(Mount::parse).collect());
        // What is mounted among what has no data, or would be, has none either, unless it is known to: so
        // it is with `binfmt_misc` in `/proc`, on every machine with systemd.
        let no_data = mounts.0.iter().filter(|mount| mount.backing == Backing::Pseudo);
        let no_data: Vec<PathBuf> = no_data.map(|mount| mount.point.clone()).collect();
        let may_be_among =
            mounts.0.iter_mut().filter(|mount| mount.is_trigger() || mount.is_nameless());
        for mount in may_be_among {
            if no_data.iter().any(|point| mount.point.starts_with(point)) {
                mount.backing = Backing::Pseudo;
            }
        }
        // What lies beneath a mount was mounted before it, and most machines have nothing far.
        if mounts.0.iter().any(|mount| mount.backing.may_stall()) {
            for at in 0..mounts.0.len() {
                if mounts.lies_on_what_may_stall(&mounts.0[at], &images) {
                    mounts.0[at].backing = mounts.0[at].backing.above_what_may_stall();
                }
            }
        }
        mounts
    }

    fn lies_on_what_may_stall(
        &self,
        mount: &Mount,
        images: impl Fn(&Mount) -> Vec<PathBuf>,
    ) -> bool {
        let beneath = |path: &Path| {
            let beneath = self.by_path(path).filter(|beneath| beneath.id != mount.id);
            beneath.map(|beneath| beneath.backing).filter(|backing| backing.may_stall())
        };
        match mount.backing {
            Backing::Overlay => mount.layers().any(|layer| beneath(layer).is_some()),
            // A program of this machine that serves an image is trusted as the kernel's own drivers are.
            Backing::Disk => images(mount)
                .iter()
                .filter_map(|image| beneath(image))
                .any(|backing| backing != Backing::Fuse),
            _ => false,
        }
    }

    /// All, in the order in which they were mounted.
    pub fn all(&self) -> &[Mount] {
        &self.0
    }

    /// The mount of this number.
    pub fn by_id(&self, id: u64) -> Option<&Mount> {
        self.0.iter().find(|mount| mount.id == id)
    }

    /// The mount that an absolute path without `.` and `..` lies on, if no
    /// component of it is a symbolic link. The path itself is not touched.
    pub fn by_path(&self, path: &Path) -> Option<&Mount> {
        // Of mounts at the same point the last covers the others.
        // Both are plain, so bytes will do; comparing components takes ten times as long.
        let path = path.as_os_str().as_bytes();
        let covers = self.0.iter().filter(|mount| {
            let point = mount.point.as_os_str().as_bytes();
            let rest = path.strip_prefix(point);
            rest.is_some_and(|rest| point == b"/" || rest.is_empty() || rest[0] == b'/')
        });
        covers.max_by_key(|mount| mount.point.as_os_str().len())
    }
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = ascii(fields.next()?)?.parse().ok()?;
        let _parent = fields.next()?;
        let (major, minor) = ascii(fields.next()?)?.split_once(':')?;
        let major_minor = (major.parse().ok()?, minor.parse().ok()?);
        let root = PathBuf::from(unescape(fields.next()?));
        let point = PathBuf::from(unescape(fields.next()?));
        fields.find(|field| *field == b"-")?;
        let fs_type = ascii(fields.next()?)?.to_owned();
        let source = unescape(fields.next()?);
        let options = unescape(fields.next().unwrap_or_default());
        let backing = Backing::of(&fs_type);
        Some(Self { id, major_minor, root, point, fs_type, source, options, backing })
    }

    /// Whether it has no files of its own, but waits for somebody to look at it: then what has them is
    /// mounted over it.
    fn is_trigger(&self) -> bool {
        self.fs_type == "autofs"
    }

    /// Whether its kind is not known, and its source is neither a device nor, as one of ZFS, a path.
    fn is_nameless(&self) -> bool {
        let names_nothing = self.major_minor.0 == 0 && !self.source.as_bytes().contains(&b'/');
        self.backing == Backing::Disk && names_nothing
    }

    /// Whether a device is behind it, memory included.
    pub fn has_device(&self) -> bool {
        self.backing != Backing::Pseudo && !self.is_trigger()
    }

    /// The folders that an overlay shows together, as its mounter named them, the relative left out.
    pub(super) fn layers(&self) -> impl Iterator<Item = &Path> {
        let options = self.options.as_bytes().split(|&byte| byte == b',');
        let lists = options.filter_map(|option| {
            let (name, value) = option.split_at(option.iter().position(|&byte| byte == b'=')?);
            matches!(name, b"lowerdir" | b"lowerdir+" | b"datadir+" | b"upperdir")
                .then_some(&value[1..])
        });
        let folders = lists.flat_map(|folders| folders.split(|&byte| byte == b':'));
        folders.map(|folder| Path::new(OsStr::from_bytes(folder))).filter(|path| path.is_absolute())
    }
}

/// `path` as an absolute path without `.` and `..`, without asking any file system but for the working folder.
pub(crate) fn absolute(path: &Path) -> io::Result<Cow<'_, Path>> {
    if path.as_os_str().is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    if is_plain(path.as_os_str().as_bytes()) {
        return Ok(Cow::Borrowed(path));
    }
    let mut result = PathBuf::from("/");
    let from = if path.is_absolute() { PathBuf::new() } else { std::env::current_dir()? };
    for component in from.components().chain(path.components()) {
        match component {
            Component::ParentDir => drop(result.pop()),
            Component::Normal(name) => result.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(Cow::Owned(result))
}

/// Whether a path is absolute, and each name of it is one: most are, and need not be made anew.
fn is_plain(path: &[u8]) -> bool {
    path.strip_prefix(b"/").is_some_and(|names| {
        let mut names = names.split(|&byte| byte == b'/');
        names.all(|name| !matches!(name, b"" | b"." | b".."))
    })
}

fn ascii(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

/// Undoes the octal escapes of `/proc` files: `\040` is a space.
fn unescape(field: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| {
            byte == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        });
        if let Some(digits) = octal {
            let value = digits.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
            plain.push(u8::try_from(value & 0xFF).expect("masked"));
            rest = &after[3..];
        } else {
            plain.push(byte);
            rest = after;
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::Backing::{Disk, FarDisk, FarOverlay, Fuse, Memory, Network, Overlay, Pseudo};
    use super::*;

    const TEXT: &[u8] = b"\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
22 21 0:5 / /proc rw - proc proc rw
nonsense
30 21 0:44 / /mnt/a\\040b rw,relatime master:2 - fuse.sshfs user@host:/d rw,user_id=0
31 21 0:45 / /merged rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u
32 21 0:46 / /srv rw - nfs4 host:/export rw,vers=4.2
33 21 0:47 / /srv rw - tmpfs tmpfs rw
34 21 8:1 / /windows rw - fuseblk /dev/sda1 rw,user_id=0
";

    #[test]
    fn the_longest_and_last_mount_that_covers_a_path_is_its() {
        let mounts = Mounts::parse(TEXT);
        let kind = |path: &str| mounts.by_path(Path::new(path)).map(|mount| mount.fs_type.as_str());
        assert_eq!(kind("/etc/passwd"), Some("ext4"));
        assert_eq!(kind("/mnt/a b/x"), Some("fuse.sshfs"));
        assert_eq!(kind("/mnt/a"), Some("ext4"));
        assert_eq!(kind("/procfs"), Some("ext4"));
        assert_eq!(kind("/srv/x"), Some("tmpfs"));
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        assert_eq!(Mounts::parse(TEXT).all().len(), 7);
        assert_eq!(Mounts::parse(b"\xff\xff\n1 2 3\n").all().len(), 0);
    }

    #[test]
    fn a_program_that_shows_a_disk_is_a_program() {
        let mounts = Mounts::parse(TEXT);
        assert_eq!(mounts.by_id(34).expect("it is there").backing, Fuse);
    }

    #[test]
    fn the_layers_of_an_overlay_are_found() {
        let mounts = Mounts::parse(TEXT);
        let overlay = mounts.by_id(31).expect("it is there");
        assert_eq!(overlay.backing, Overlay);
        let layers: Vec<_> = overlay.layers().collect();
        assert_eq!(layers, [Path::new("/l1"), Path::new("/l2"), Path::new("/u")]);
    }

    #[test]
    fn what_lies_on_a_mount_that_may_not_answer_may_not_either() {
        let text = b"\
1 0 254:0 / / rw - ext4 /dev/vda rw
2 1 0:40 / /srv rw - nfs4 host:/export rw
3 1 7:0 / /image rw - ext4 /dev/loop0 rw
4 1 0:41 / /near rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u
5 1 0:42 / /far rw - overlay overlay rw,lowerdir+=/l1,lowerdir+=/image/l2,upperdir=/u
6 1 0:43 / /above rw - overlay overlay rw,lowerdir=/l1,upperdir=/far/u
";
        let images = |mount: &Mount| match mount.major_minor {
            (7, 0) => vec![PathBuf::from("/srv/disk.img")],
            _ => vec![PathBuf::from("/var/disk.img")],
        };
        let mounts = Mounts::parse_with(text, images);
        let backings: Vec<_> = mounts.all().iter().map(|mount| mount.backing).collect();
        assert_eq!(backings, [Disk, Network, FarDisk, Overlay, FarOverlay, FarOverlay]);
    }

    #[test]
    fn what_waits_to_be_mounted_may_not_answer_unless_it_is_among_what_has_no_data() {
        let text = b"\
1 0 254:0 / / rw - ext4 /dev/vda rw
2 1 0:5 / /proc rw - proc proc rw
3 2 0:6 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw,fd=29,direct
4 1 0:7 / /home rw - autofs auto.home rw,fd=30,indirect
";
        let mounts = Mounts::parse(text);
        let backings: Vec<_> = mounts.all().iter().map(|mount| mount.backing).collect();
        assert_eq!(backings, [Disk, Pseudo, Pseudo, Network]);
    }

    #[test]
    fn what_is_mounted_among_what_has_no_data_has_none_unless_it_is_known_to() {
        let text = b"\
1 0 0:9 / / rw - zfs tank rw
2 1 0:5 / /proc rw - proc proc rw
3 2 0:6 / /proc/fs/new rw - newfs new rw
4 2 0:7 / /proc/acpi rw - tmpfs tmpfs rw
5 2 254:0 /version /proc/version rw - ext4 /dev/vda rw
6 2 0:8 /version /proc/cpuinfo rw - btrfs /dev/vdb rw
7 2 0:9 /version /proc/uptime rw - zfs tank/root rw
8 2 0:10 /uptime /proc/meminfo rw - fuse.lxcfs lxcfs rw
9 1 0:11 / /processes rw - newfs new rw
";
        let mounts = Mounts::parse(text);
        let backings: Vec<_> = mounts.all().iter().map(|mount| mount.backing).collect();
        assert_eq!(backings, [Disk, Pseudo, Pseudo, Memory, Disk, Disk, Disk, Fuse, Disk]);
    }

    #[test]
    fn kinds_of_mounts_are_known_by_what_the_kernel_calls_them() {
        let of = |kinds: &[&str]| kinds.iter().map(|kind| Backing::of(kind)).collect::<Vec<_>>();
        assert_eq!(of(&["pvfs2", "wekafs", "panfs"]), [Network; 3]);
        assert_eq!(of(&["nfsd", "resctrl", "functionfs", "xenfs", "smackfs"]), [Pseudo; 5]);
    }

    #[test]
    fn paths_become_absolute_without_asking() {
        assert_eq!(absolute(Path::new("/a/./b/../c")).expect("plain"), Path::new("/a/c"));
        assert_eq!(absolute(Path::new("/../..")).expect("plain"), Path::new("/"));
        assert_eq!(absolute(Path::new("/a//b/")).expect("plain"), Path::new("/a/b"));
        let plain = Path::new("/.a/b..");
        assert!(matches!(absolute(plain), Ok(Cow::Borrowed(same)) if same == plain));
    }

    #[test]
    fn an_empty_path_names_no_file() {
        let error = absolute(Path::new("")).expect_err("it is not the working folder");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
