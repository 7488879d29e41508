//! The device table: filling it and looking things up in it.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_int};

use nearfirst::Device;

use crate::costs::costs;
use crate::descriptor::borrow;
use crate::error::{Failure, answer};
use crate::memory::{put, put_text, string};
use crate::sleds::Spread;

/// What a device takes to deliver.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Estimate {
    /// Seconds to the first byte.
    pub latency: Spread,
    /// Bytes per second once flowing.
    pub bandwidth: Spread,
}

/// Sets what a device takes (the paper's `FSLEDS_FILL`), in seconds and bytes
/// per second, for this process; `nf_save` writes it down.
///
/// Returns 0, or -1 with `errno` `EINVAL`: `device` is null, empty or not
/// UTF-8, or a number is not between 1e-15 and 1e18. More than 1e12 bytes per
/// second are taken for 1e12.
///
/// # Safety
/// `device` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_device_fill(
    device: *const c_char,
    latency: f64,
    bandwidth: f64,
) -> c_int {
    answer(-1, || {
        // SAFETY: the C caller promises a string.
        let device = unsafe { device_named(device) }?;
        fill(&device, latency, bandwidth)
    })
}

/// Sets what the device takes that the file open at `fd` lies on; as `nf_device_fill`.
///
/// Returns 0, or -1 with `errno`: `EBADF`, or `EINVAL` for the numbers.
#[unsafe(no_mangle)]
pub extern "C" fn nf_device_fill_fd(fd: c_int, latency: f64, bandwidth: f64) -> c_int {
    answer(-1, || fill(&device_of(fd)?, latency, bandwidth))
}

/// The name of the device that the file open at `fd` lies on, such as
/// "disk:sda" or "nfs:host:/export".
///
/// Writes at most `capacity` bytes, the NUL among them, and returns the length
/// of the whole name without the NUL, as snprintf does; or -1 with `errno`:
/// `EBADF`, or `EINVAL` (`buffer` is null).
///
/// # Safety
/// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_device_of(fd: c_int, buffer: *mut c_char, capacity: usize) -> i64 {
    answer(-1, || {
        let device = device_of(fd)?;
        // SAFETY: the C caller promises the room.
        unsafe { put_text(buffer, "buffer", capacity, device.name()) }
    })
}

/// What the device table says of fetching `bytes` from `device`.
///
/// Returns 1; 0 where nobody knows, with NAN for every number; or -1 with
/// `errno` `EINVAL` for a null pointer or a name that is empty or not UTF-8.
///
/// # Safety
/// `device` ends with a NUL; `estimate` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nf_device_estimate(
    device: *const c_char,
    bytes: u64,
    estimate: *mut Estimate,
) -> c_int {
    answer(-1, || {
        // SAFETY: the C caller promises a string.
        let device = unsafe { device_named(device) }?;
        let known = costs().table().estimate(&device, bytes);
        let written = known
            .map_or(Estimate { latency: Spread::UNKNOWN, bandwidth: Spread::UNKNOWN }, |known| {
                Estimate { latency: known.latency.into(), bandwidth: known.bandwidth.into() }
            });
        // SAFETY: the C caller promises that it may be written.
        unsafe { put(estimate, "estimate", written) }?;
        Ok(c_int::from(known.is_some()))
    })
}

/// # Safety
/// `name` is null or ends with a NUL.
pub(crate) unsafe fn device_named(name: *const c_char) -> Result<Device, Failure> {
    // SAFETY: as promised to this function.
    let name = unsafe { string(name, "device") }?;
    match name.to_str() {
        Ok(name) if !name.is_empty() => Ok(Device::new(name)),
        _ => Err(Failure::new(libc::EINVAL, "a device's name is UTF-8 and not empty")),
    }
}

pub(crate) fn fill(device: &Device, latency: f64, bandwidth: f64) -> Result<c_int, Failure> {
    if costs().fill(device, latency, bandwidth) {
        return Ok(0);
    }
    let message =
        format!("{latency}, {bandwidth}: latency and bandwidth are between 1e-15 and 1e18");
    Err(Failure::new(libc::EINVAL, message))
}

fn device_of(fd: c_int) -> Result<Device, Failure> {
    let status = costs().local().status(&borrow(fd)?);
    Ok(status.map_err(|error| Failure::of_descriptor(fd, error))?.device)
}
