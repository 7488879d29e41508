//! What there is to measure.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use nearfirst::{Backing, Costs, Device, Error};

use crate::human;

/// One thing to measure.
#[derive(Debug)]
pub(super) enum Target {
    /// Memory itself.
    Memory,
    /// A device, by places on it, the best first.
    Places {
        /// Files or folders; never empty.
        places: Vec<PathBuf>,
        /// Whether a person asked for it by name.
        asked_for: bool,
        /// Whether it may not answer.
        may_stall: bool,
    },
}

impl Target {
    /// How messages call it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Memory => "memory".to_owned(),
            Self::Places { places, .. } => human::name(&places[0]).to_string(),
        }
    }

    /// Whether failing to measure it is nothing that a person must hear of as an error: servers come and
    /// go, FUSE mounts of a user are closed even to root, and of some file systems little is to be had, as
    /// of a packed one that is empty.
    pub(super) fn may_be_passed_over(&self, error: &Error) -> bool {
        let Self::Places { asked_for: false, may_stall, .. } = self else { return false };
        match error {
            Error::NothingToRead { .. } => true,
            _ => match error.kind() {
                io::ErrorKind::StorageFull => true,
                io::ErrorKind::TimedOut | io::ErrorKind::PermissionDenied => *may_stall,
                _ => false,
            },
        }
    }
}

/// The given paths, and memory where it was never measured, since part of
/// every file may lie in it; or memory and every device behind a mount.
pub(super) fn all(costs: &Costs, paths: &[PathBuf]) -> io::Result<Vec<Target>> {
    if !paths.is_empty() {
        let target = |path: &PathBuf| Target::Places {
            places: vec![path.clone()],
            asked_for: true,
            may_stall: false,
        };
        let memory_is_known = costs.table().devices().any(Device::is_memory);
        let memory = (!memory_is_known).then_some(Target::Memory);
        return Ok(memory.into_iter().chain(paths.iter().map(target)).collect());
    }
    let mut devices: BTreeMap<Device, (Vec<PathBuf>, bool)> = BTreeMap::new();
    for mount in costs.local().mounts()?.all() {
        if !mount.has_device() || mount.backing == Backing::Memory {
            continue;
        }
        let device = costs.local().device_of(mount);
        let (places, may_stall) = devices.entry(device).or_default();
        places.push(mount.point.clone());
        *may_stall |= mount.backing.may_stall();
    }
    let target = |(places, may_stall)| Target::Places { places, asked_for: false, may_stall };
    Ok(std::iter::once(Target::Memory).chain(devices.into_values().map(target)).collect())
}
