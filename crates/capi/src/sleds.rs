//! Sleds and delivery times of a descriptor or a path.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;

use nearfirst::{Device, Place, Plan};

use crate::costs::costs;
use crate::descriptor::regular_file;
use crate::error::{Failure, answer};
use crate::memory::{put, put_all, string};
use crate::sync::lock;

/// In memory, or a hole: nothing has to be fetched.
pub const NF_NEAR: c_int = 0;
/// On its device.
pub const NF_FAR: c_int = 1;
/// The system does not say whether it is in memory or on its device.
pub const NF_UNKNOWN: c_int = 2;
/// On a tier that must first recall it, such as tape.
pub const NF_COLD: c_int = 3;

/// In file order: the latency of a device is paid each time it is entered.
pub const NF_LINEAR: c_int = 0;
/// Near first: the latency of each device is paid once.
pub const NF_BEST: c_int = 1;

/// A quantity by its median and by its bad case.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Spread {
    /// The median.
    pub p50: f64,
    /// The bad case: of times the 90th percentile, of bandwidths the 10th.
    pub p90: f64,
}

impl Spread {
    /// What is written where nobody knows.
    pub(crate) const UNKNOWN: Self = Self { p50: f64::NAN, p90: f64::NAN };
}

impl From<nearfirst::Spread> for Spread {
    fn from(spread: nearfirst::Spread) -> Self {
        Self { p50: spread.p50, p90: spread.p90 }
    }
}

/// A byte range of a file with one estimate.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Sled {
    /// First byte.
    pub offset: u64,
    /// Bytes; never 0.
    pub length: u64,
    /// Seconds to the first byte; NAN where nobody knows.
    pub latency: Spread,
    /// Bytes per second once flowing; NAN where nobody knows, and 1e12 where
    /// the latency is all that is known.
    pub bandwidth: Spread,
    /// The device it would be fetched from, such as "disk:sda"; valid until
    /// the process ends, not to be freed.
    pub device: *const c_char,
    /// `NF_NEAR`, `NF_FAR`, `NF_UNKNOWN` or `NF_COLD`.
    pub place: c_int,
}

impl Sled {
    fn of(sled: &nearfirst::Sled) -> Self {
        Self {
            offset: sled.offset,
            length: sled.length,
            latency: sled.estimate.map_or(Spread::UNKNOWN, |known| known.latency.into()),
            bandwidth: sled.estimate.map_or(Spread::UNKNOWN, |known| known.bandwidth.into()),
            device: lasting_name(&sled.device),
            place: place_number(sled.place),
        }
    }
}

/// The estimated time to read a whole file.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct DeliveryTime {
    /// Seconds for the part whose cost is known.
    pub seconds: Spread,
    /// Bytes whose cost nobody knows; they come on top.
    pub unknown_bytes: u64,
    /// Bytes that must be recalled first; those with an estimate are in the seconds too.
    pub cold_bytes: u64,
}

/// The sleds of the regular file open at `fd`, in file order.
///
/// Writes at most `capacity` of them to `array` and returns how many there
/// are, as snprintf does: a call with a capacity of 0 only counts. An empty
/// file has none; one that is offline is `NF_COLD`, and is not recalled. On
/// failure -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE` (not a regular file),
/// `EINVAL` (`array` is null).
///
/// # Safety
/// `array` has room for `capacity` sleds; with a capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_sleds_get(fd: c_int, array: *mut Sled, capacity: usize) -> i64 {
    answer(-1, || {
        let sleds = sleds_of_descriptor(fd)?;
        // SAFETY: the C caller promises the room.
        unsafe { put_all(array, "array", capacity, sleds.iter().map(Sled::of)) }
    })
}

/// The sleds of the file at `path`; as `nf_sleds_get`.
///
/// The file is opened only where that does no harm: a file that is offline is
/// `NF_COLD` and is not recalled. What is not a regular file has no sleds. On
/// failure -1 with `errno` as open(2) sets it, or `ETIMEDOUT` where the mount
/// does not answer.
///
/// # Safety
/// `path` ends with a NUL; `array` has room for `capacity` sleds; with a
/// capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_sleds_get_path(
    path: *const c_char,
    array: *mut Sled,
    capacity: usize,
) -> i64 {
    answer(-1, || {
        // SAFETY: the C caller promises a string.
        let sleds = unsafe { sleds_of_path(path) }?;
        // SAFETY: the C caller promises the room.
        unsafe { put_all(array, "array", capacity, sleds.iter().map(Sled::of)) }
    })
}

/// Estimates the time to read all of the regular file open at `fd` by `plan`,
/// `NF_LINEAR` or `NF_BEST`.
///
/// Returns 0, or -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE`, or `EINVAL` for
/// another plan or a null `time`.
///
/// # Safety
/// `time` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_delivery_time(
    fd: c_int,
    plan: c_int,
    time: *mut DeliveryTime,
) -> c_int {
    answer(-1, || {
        let plan = plan_of(plan)?;
        let answer = delivery_time(&sleds_of_descriptor(fd)?, plan);
        // SAFETY: the C caller promises that it may be written.
        unsafe { put(time, "time", answer) }?;
        Ok(0)
    })
}

/// Estimates the time to read all of the file at `path`; as `nf_delivery_time`
/// and, for when the file is opened and for the errors, `nf_sleds_get_path`.
///
/// # Safety
/// `path` ends with a NUL; `time` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_delivery_time_path(
    path: *const c_char,
    plan: c_int,
    time: *mut DeliveryTime,
) -> c_int {
    answer(-1, || {
        let plan = plan_of(plan)?;
        // SAFETY: the C caller promises a string.
        let answer = delivery_time(&unsafe { sleds_of_path(path) }?, plan);
        // SAFETY: the C caller promises that it may be written.
        unsafe { put(time, "time", answer) }?;
        Ok(0)
    })
}

pub(crate) fn sleds_of_descriptor(fd: c_int) -> Result<Vec<nearfirst::Sled>, Failure> {
    let (file, _) = regular_file(fd)?;
    costs().file_sleds(&file).map_err(|error| Failure::of_descriptor(fd, error))
}

/// # Safety
/// `path` is null or ends with a NUL.
unsafe fn sleds_of_path(path: *const c_char) -> Result<Vec<nearfirst::Sled>, Failure> {
    // SAFETY: as promised to this function.
    let path = unsafe { string(path, "path") }?;
    Ok(costs().path_sleds(Path::new(OsStr::from_bytes(path.to_bytes())))?)
}

fn delivery_time(sleds: &[nearfirst::Sled], plan: Plan) -> DeliveryTime {
    let time = nearfirst::delivery_time(sleds, plan);
    DeliveryTime {
        seconds: Spread { p50: time.p50, p90: time.p90 },
        unknown_bytes: time.unknown_bytes,
        cold_bytes: time.cold_bytes,
    }
}

/// The plan of a number.
///
/// # Errors
/// `EINVAL`.
pub(crate) fn plan_of(plan: c_int) -> Result<Plan, Failure> {
    match plan {
        NF_LINEAR => Ok(Plan::Linear),
        NF_BEST => Ok(Plan::Best),
        other => {
            let message = format!("{other} is no plan: use NF_LINEAR (0) or NF_BEST (1)");
            Err(Failure::new(libc::EINVAL, message))
        }
    }
}

pub(crate) fn place_number(place: Place) -> c_int {
    match place {
        Place::Near => NF_NEAR,
        Place::Far => NF_FAR,
        Place::Unknown => NF_UNKNOWN,
        Place::Cold => NF_COLD,
    }
}

/// The name of a device, kept until the process ends: a machine has few.
pub(crate) fn lasting_name(device: &Device) -> *const c_char {
    static NAMES: Mutex<BTreeMap<Device, CString>> = Mutex::new(BTreeMap::new());
    let mut names = lock(&NAMES);
    let name = names.entry(device.clone()).or_insert_with(|| {
        // Names come from the kernel's tables and hold no NUL.
        CString::new(device.name()).unwrap_or_default()
    });
    name.as_ptr()
}
