//! What is mounted, and what is known of that until it changes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{self as sysfs, AtFlags, StatxFlags};
use sled::Device;

use super::{Backing, Mount, Mounts, block};
use crate::sync::lock;

/// What is known of a file system, found once.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) device: Device,
    pub(super) backing: Backing,
    pub(super) mount: PathBuf,
}

/// What is mounted, with what was asked about it.
#[derive(Debug)]
pub(super) struct MountTable {
    pub(super) mounts: Mounts,
    /// Of mounts, by their numbers.
    devices: Mutex<HashMap<u64, Device>>,
    /// Of file systems, by the numbers of their devices.
    grounds: Mutex<HashMap<u64, Arc<Ground>>>,
    /// What the mounts were read from, which tells of changes since it was opened.
    source: Option<File>,
}

impl MountTable {
    /// As it is now; nothing where `/proc` is not there: files can be read all the same.
    pub(super) fn read() -> Self {
        let read =
            Mounts::open().and_then(|mut source| Ok((Mounts::read_from(&mut source)?, source)));
        let (mounts, source) = read
            .map_or_else(|_| (Mounts::default(), None), |(mounts, source)| (mounts, Some(source)));
        Self { mounts, devices: Mutex::default(), grounds: Mutex::default(), source }
    }

    /// Whether something may have been mounted or unmounted since it was read, which takes a fifth of a
    /// microsecond. Numbers of mounts and of devices are given anew once they are free.
    pub(super) fn is_outdated(&self) -> bool {
        self.source.as_ref().is_none_or(|source| {
            let mut asked = [PollFd::new(source, PollFlags::PRI)];
            poll(&mut asked, Some(&Timespec::default())) != Ok(0)
        })
    }

    /// The device of one of these mounts: asking the system for it takes as
    /// long as opening a file, so what it said is kept. Nobody waits for another's question, which may hang.
    pub(super) fn device_of(&self, mount: &Mount) -> Device {
        if let Some(device) = lock(&self.devices).get(&mount.id) {
            return device.clone();
        }
        let device = block::device_of(mount, &self.mounts);
        lock(&self.devices).entry(mount.id).or_insert(device).clone()
    }

    /// What is known already of the file system whose device has the number `st_dev`.
    pub(super) fn known_ground(&self, st_dev: u64) -> Option<Arc<Ground>> {
        lock(&self.grounds).get(&st_dev).cloned()
    }

    /// What is known of the file system of an open file, whose device has the number `st_dev`.
    pub(super) fn ground(&self, file: BorrowedFd<'_>, st_dev: u64) -> io::Result<Arc<Ground>> {
        if let Some(ground) = self.known_ground(st_dev) {
            return Ok(ground);
        }
        let ground = Arc::new(match self.mount_of(file)? {
            Some(mount) => Ground {
                device: self.device_of(mount),
                backing: mount.backing,
                mount: mount.point.clone(),
            },
            // A mount of another namespace, or a file that lies on none, such as a memfd.
            None => Ground {
                device: Device::new(format!(
                    "dev:{}:{}",
                    sysfs::major(st_dev),
                    sysfs::minor(st_dev)
                )),
                backing: Backing::Disk,
                mount: PathBuf::from("/"),
            },
        });
        Ok(Arc::clone(lock(&self.grounds).entry(st_dev).or_insert(ground)))
    }

    fn mount_of(&self, file: impl AsFd) -> io::Result<Option<&Mount>> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = sysfs::statx(file, "", flags, StatxFlags::MNT_ID)?;
        Ok(self.mounts.by_id(stat.stx_mnt_id))
    }
}
