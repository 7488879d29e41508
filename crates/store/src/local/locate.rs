//! Where the parts of an open file are, by the cheapest call that tells the truth.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::fs::{self as sysfs, AtFlags};
use sled::{Device, Extent, Place};

use super::attributes::{Attributes, is_dax};
use super::residency::{Method, ranges_by};
use super::{Backing, Kind, Located, Reason, Status, residency, sys};

/// Bytes of a large file that are asked about before the whole of it.
const SAMPLE_BYTES: u64 = 2 << 20;

/// All of a file at one place, and why that is all that is known.
pub(super) fn wholly(status: &Status, place: Place, reason: Reason) -> Located {
    let device = match place {
        Place::Cold => status.device.cold_tier(),
        Place::Near | Place::Far | Place::Unknown => status.device.clone(),
    };
    Located {
        extents: whole_extent(status.size, &device, place),
        device: Some(status.device.clone()),
        reason: Some(reason),
    }
}

/// Where the parts of an open file are, of which `status` is known.
pub(crate) fn locate_open(file: BorrowedFd<'_>, status: &Status, offline: bool) -> Located {
    if status.kind != Kind::File {
        return Located::default();
    }
    if offline {
        return wholly(status, Place::Cold, Reason::Offline);
    }
    locate_on(file, status.size, &status.device, status.backing)
}

fn whole_extent(size: u64, device: &Device, place: Place) -> Vec<Extent> {
    match size {
        0 => Vec::new(),
        length => vec![Extent { offset: 0, length, device: device.clone(), place }],
    }
}

fn locate_on(file: BorrowedFd<'_>, size: u64, device: &Device, backing: Backing) -> Located {
    let located = |extents, reason| Located { extents, device: Some(device.clone()), reason };
    let near = || located(whole_extent(size, &Device::memory(), Place::Near), None);
    if size == 0 && backing == Backing::Pseudo {
        return located(Vec::new(), Some(Reason::SizeUntold));
    }
    if size == 0 || matches!(backing, Backing::Memory | Backing::Pseudo) {
        return near();
    }
    let method = match how_to_ask(file, size, backing) {
        Ok(Answer::AllNear) => return near(),
        Ok(Answer::NoneNear) if is_dax(file) => return near(),
        Ok(Answer::NoneNear) => None,
        Ok(Answer::Ask(method)) => Some(method),
        Err(reason) => {
            let extents = whole_extent(size, device, Place::Unknown);
            return located(extents, Some(reason));
        }
    };
    let data = data_ranges(&file, size, backing.may_stall());
    let found = match method {
        None => Ok(data.into_iter().map(|range| (range, false)).collect()),
        Some(method) => ranges_by(file, &data, method),
    };
    match found {
        Ok(found) => located(fill_holes(found, size, device), None),
        // Files of FUSE with direct I/O cannot be mapped, and nothing of them is ever cached.
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            located(whole_extent(size, device, Place::Far), None)
        }
        Err(_) => located(whole_extent(size, device, Place::Unknown), Some(Reason::Refused)),
    }
}

/// The ranges of the first `size` bytes that hold written data, in file order: what is between them
/// reads as zeros. Who does not say where those are is taken to have none; who `may_stall` is not
/// asked.
pub fn data_ranges(file: &impl AsFd, size: u64, may_stall: bool) -> Vec<Range<u64>> {
    let told = if may_stall { None } else { sys::data_ranges(file, size).ok() };
    told.unwrap_or_else(|| std::iter::once(0..size).collect())
}

enum Answer {
    AllNear,
    NoneNear,
    Ask(Method),
}

/// The cheapest call that tells the truth about this file.
fn how_to_ask(file: BorrowedFd<'_>, size: u64, backing: Backing) -> Result<Answer, Reason> {
    if !backing.is_overlay() {
        match cached_share(file, size) {
            Ok(Some(false)) => return Ok(Answer::NoneNear),
            Ok(Some(true)) => return Ok(Answer::AllNear),
            Ok(None) => return Ok(Answer::Ask(Method::CachestatOfMixed)),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && cachestat_works() => {
                return Err(Reason::NotOwner);
            }
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return Err(Reason::Refused);
            }
            // An old kernel, or a sandbox that knows no cachestat.
            Err(_) => {}
        }
    }
    if mincore_tells_the_truth(file, backing) {
        Ok(Answer::Ask(Method::Mincore))
    } else {
        Err(Reason::NotOwner)
    }
}

/// Whether all of the file is in memory or none; `None` if it is mixed.
///
/// A call takes 30 ns for each folio, and a file that is in memory in small
/// pieces has many: so the first piece of a large one is asked first.
fn cached_share(file: BorrowedFd<'_>, size: u64) -> io::Result<Option<bool>> {
    let share = |bytes: u64, cached| match cached {
        0 => Some(false),
        cached if cached >= bytes.div_ceil(sys::page_bytes()) => Some(true),
        _ => None,
    };
    if size > SAMPLE_BYTES {
        match share(SAMPLE_BYTES, sys::cached_pages(file, &(0..SAMPLE_BYTES))?) {
            None => return Ok(None),
            // Of what is not in memory a single call says so at once.
            Some(false) => {
                return sys::cached_pages(file, &(0..size)).map(|pages| share(size, pages));
            }
            Some(true) => {}
        }
    }
    residency::cached_pages(file, size).map(|pages| share(size, pages))
}

/// Whether `cachestat` is there at all: a sandbox may answer EPERM to any call it does not know.
fn cachestat_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let flags = sysfs::MemfdFlags::CLOEXEC;
        sysfs::memfd_create("nearfirst", flags)
            .is_ok_and(|file| sys::cached_pages(file.as_fd(), &(0..1)).is_ok())
    })
}

/// Since Linux 5.2 `mincore` says "all in memory" to callers who neither own
/// the file nor may write it, without an error. Whether they may write it, a mount that may not
/// answer is not asked.
fn mincore_tells_the_truth(file: BorrowedFd<'_>, backing: Backing) -> bool {
    static ANY_FILE: OnceLock<bool> = OnceLock::new();
    if *ANY_FILE.get_or_init(sys::may_ask_about_any_file) {
        return true;
    }
    let user = rustix::process::geteuid().as_raw();
    let is_owner = Attributes::known(file).is_ok_and(|known| known.owner == user);
    let may_write = || {
        let flags = AtFlags::EMPTY_PATH | AtFlags::EACCESS;
        sysfs::accessat(file, OsStr::new(""), sysfs::Access::WRITE_OK, flags).is_ok()
    };
    is_owner || (!backing.may_stall() && may_write())
}

/// Extents of all of the file: what is between `found` is a hole, and near.
fn fill_holes(found: Vec<(Range<u64>, bool)>, size: u64, device: &Device) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::with_capacity(found.len());
    let mut push = |range: Range<u64>, near: bool| {
        if range.is_empty() {
            return;
        }
        let length = range.end - range.start;
        match extents.last_mut() {
            Some(last) if (last.place == Place::Near) == near => last.length += length,
            _ => extents.push(Extent {
                offset: range.start,
                length,
                device: if near { Device::memory() } else { device.clone() },
                place: if near { Place::Near } else { Place::Far },
            }),
        }
    };
    let mut at = 0;
    for (range, resident) in found {
        push(at..range.start, true);
        at = range.end;
        push(range, resident);
    }
    push(at..size, true);
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_answer_is_not_asked_for_its_holes() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("a hole");
        let place = |backing| {
            let located = locate_on(file.as_fd(), 1 << 20, &Device::new("d"), backing);
            located.extents.first().map(|first| first.place)
        };
        // A file system may tell of none.
        if place(Backing::Disk) == Some(Place::Near) {
            assert_eq!(place(Backing::Network), Some(Place::Far));
        }
    }

    #[test]
    fn what_lies_between_data_is_a_hole_and_near() {
        let extents = fill_holes(vec![(10..20, false), (20..30, true)], 50, &Device::new("d"));
        let parts: Vec<_> =
            extents.iter().map(|extent| (extent.offset, extent.length, extent.place)).collect();
        assert_eq!(parts, [(0, 10, Place::Near), (10, 10, Place::Far), (20, 30, Place::Near)]);
    }
}
