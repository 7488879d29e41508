//! Opening many files one after the other.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self as sysfs, OFlags};

use super::attributes::Attributes;
use super::mount_table::{Ground, MountTable};
use super::reach::Point;
use super::{Local, Status};
use crate::Error;

/// Opens files one after the other: what the last one needed is kept for the next.
///
/// It holds the mount point of the last file, which cannot be unmounted
/// meanwhile: it is for a batch of files, and no longer.
#[derive(Debug)]
pub(crate) struct Opener<'a> {
    local: &'a Local,
    table: Arc<MountTable>,
    point: Option<Point>,
    ground: Option<(u64, Arc<Ground>)>,
}

impl Local {
    pub(crate) fn opener(&self) -> Opener<'_> {
        Opener { local: self, table: self.mount_table(), point: None, ground: None }
    }
}

impl Opener<'_> {
    /// Whether opening it may wait for a mount that does not answer, by the names of mounts alone.
    pub(crate) fn may_stall(&self, path: &Path) -> bool {
        let mount = super::mounts::absolute(path);
        let mount = mount.as_ref().ok().and_then(|path| self.table.mounts.by_path(path));
        mount.is_none_or(|mount| mount.backing.may_stall())
    }

    /// As [`Local::open_known`].
    ///
    /// # Errors
    /// As [`Local::open_known`].
    pub(crate) fn open_known(&mut self, path: &Path) -> Result<(File, Status), Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let Some(opened) = self.table.open_at_once(path, flags, &mut self.point) else {
            return self.local.open_known(path);
        };
        let file = opened?;
        let failed = |source: std::io::Error| Error::io(path, source);
        let known: Attributes = sysfs::fstat(&file).map_err(|error| failed(error.into()))?.into();
        let ground = match &self.ground {
            Some((device, ground)) if *device == known.device => Arc::clone(ground),
            _ => self.table.ground(file.as_fd(), known.device).map_err(failed)?,
        };
        let status = known.on(&ground);
        self.ground = Some((known.device, ground));
        Ok((File::from(file), status))
    }
}
