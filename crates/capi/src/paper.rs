//! The calls of the SLEDs paper (OSDI 2000, section 4.2), by its names and arguments.

#![expect(unsafe_code, reason = "C symbols are exported, and caller's memory is filled")]

use std::ffi::{c_char, c_double, c_float, c_int, c_long, c_void};
use std::fmt::Display;

use nearfirst::Plan;

use crate::device::{device_named, fill};
use crate::error::{Failure, answer};
use crate::memory::{null, put, put_all};
use crate::pick::{Pick, Picks, how};
use crate::sleds::{plan_of, sleds_of_descriptor};

/// In file order (the paper's attack plan).
pub const SLEDS_LINEAR: c_int = 0;
/// Near first.
pub const SLEDS_BEST: c_int = 1;

/// A byte range of a file with one estimate (the paper's figure 2).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct PaperSled {
    /// Into the file.
    pub offset: c_long,
    /// Of the segment.
    pub length: c_long,
    /// In seconds, the median; NAN where nobody knows.
    pub latency: c_float,
    /// In bytes per second, the median; NAN where nobody knows, and 1e12
    /// where the latency is all that is known.
    pub bandwidth: c_float,
}

/// Picks by descriptor: at most one for each.
static PICKS: Picks = Picks::new();

/// Begins to pick from the file open at `fd`, near first, in pieces of at most
/// `preferred_size` bytes; 0 leaves the size to the library. A pick under way
/// on `fd` ends.
///
/// Returns the size of a piece, or -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE` (not a
/// regular file), `EINVAL` (a negative size).
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_init(fd: c_int, preferred_size: c_long) -> c_long {
    answer(-1, || begin(fd, preferred_size, None))
}

/// As `sleds_pick_init`; with a `record_flag` other than 0 every piece starts
/// at the start of a record and ends just after a `separator` or at the end of
/// the file. A record longer than `preferred_size` comes whole: then the
/// number of bytes is above that size.
///
/// Returns the size of a piece, or -1 with `errno`: as `sleds_pick_init`, `EINVAL`
/// too for a separator outside 0 to 255, `EREMOTEIO` if the file is offline and
/// reading would recall it, or what reading the file gave.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_init_records(
    fd: c_int,
    preferred_size: c_long,
    record_flag: c_int,
    separator: c_int,
) -> c_long {
    answer(-1, || {
        let separator = (record_flag != 0).then(|| u8::try_from(separator)).transpose();
        let separator =
            separator.map_err(|_| Failure::new(libc::EINVAL, "a separator is a byte, 0 to 255"))?;
        begin(fd, preferred_size, separator)
    })
}

/// Advises where to read next: each byte of the file once.
///
/// Returns 1 with a piece; 0, with no bytes, when nothing is left; -1 with
/// `errno`: `EINVAL` (no pick was begun on `fd`, or a pointer is null), `EBADF` (the
/// descriptor was closed, or is another file by now), `EOVERFLOW` (the offset or
/// the number of bytes does not fit: the piece is kept for the next call), or
/// what looking for the end of a record gave.
///
/// # Safety
/// `offset` and `nbytes` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_pick_next_read(
    fd: c_int,
    offset: *mut c_long,
    nbytes: *mut c_long,
) -> c_int {
    let size = size_of::<c_long>();
    // SAFETY: the C caller promises that both may be written.
    unsafe { sleds_pick_next_read_as(fd, offset.cast(), size, nbytes.cast(), size) }
}

/// As `sleds_pick_next_read`, which calls it with integers of any size:
/// `offset_size` and `nbytes_size` are theirs in bytes, 4 or 8.
///
/// # Safety
/// `offset` and `nbytes` may be written with integers of these sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_pick_next_read_as(
    fd: c_int,
    offset: *mut c_void,
    offset_size: usize,
    nbytes: *mut c_void,
    nbytes_size: usize,
) -> c_int {
    answer(-1, || {
        for (pointer, name) in [(offset, "offset"), (nbytes, "nbytes")] {
            if pointer.is_null() {
                return Err(null(name));
            }
        }
        let next = |pick: &mut Pick| {
            pick.next_if(|piece| {
                let Some(piece) = piece else { return Ok(None) };
                let offset = Integer::of(piece.offset, offset_size)?;
                Ok(Some((offset, Integer::of(piece.length, nbytes_size)?)))
            })
        };
        let next = PICKS.with(fd.into(), next).unwrap_or_else(|| Err(none_begun(fd)))?;
        let Some((at, length)) = next else {
            let _of_no_size = Integer::of(0, offset_size)?;
            // SAFETY: the C caller promises that it may be written at this size.
            unsafe { Integer::of(0, nbytes_size)?.put(nbytes, "nbytes") }?;
            return Ok(0);
        };
        // SAFETY: the C caller promises that it may be written at this size.
        unsafe { at.put(offset, "offset") }?;
        // SAFETY: as above.
        unsafe { length.put(nbytes, "nbytes") }?;
        Ok(1)
    })
}

/// Ends the pick on `fd`, which stays open.
///
/// Returns 0, or -1 with `errno` `EINVAL` if no pick was begun on it, or it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_finish(fd: c_int) -> c_int {
    answer(-1, || if PICKS.remove(fd.into()) { Ok(0) } else { Err(none_begun(fd)) })
}

/// Estimates the seconds that reading all of the file open at `fd` takes by
/// `attack_plan`, `SLEDS_LINEAR` or `SLEDS_BEST`: the median.
///
/// Returns NAN with `errno` `ENODATA` where the cost of some part is not known;
/// -1 with `errno` otherwise: `EBADF`, `EISDIR`, `ESPIPE`, or `EINVAL` for another plan.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_total_delivery_time(fd: c_int, attack_plan: c_int) -> c_double {
    answer(-1.0, || {
        let plan = plan_of(attack_plan)?;
        let sleds = sleds_of_descriptor(fd)?;
        let time = nearfirst::delivery_time(&sleds, plan);
        if time.is_known() {
            return Ok(time.p50);
        }
        unknown(&sleds, time.unknown_bytes).tell();
        Ok(f64::NAN)
    })
}

/// The sleds of the file open at `fd` (the paper's `FSLEDS_GET`), in file order.
///
/// Writes at most `capacity` of them and returns how many there are, as
/// snprintf does; -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE`, `EINVAL` (`array` is
/// null), `EOVERFLOW` (an offset or a length does not fit a long).
///
/// # Safety
/// `array` has room for `capacity` sleds; with a capacity of 0 it may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_get(fd: c_int, array: *mut PaperSled, capacity: usize) -> c_long {
    answer(-1, || {
        let sleds = sleds_of_descriptor(fd)?;
        let sleds: Vec<PaperSled> = sleds.iter().map(PaperSled::of).collect::<Result<_, _>>()?;
        // SAFETY: the C caller promises the room.
        let count = unsafe { put_all(array, "array", capacity, sleds.into_iter()) }?;
        fitting(count)
    })
}

/// Sets what a device takes (the paper's `FSLEDS_FILL`), in seconds and bytes
/// per second, for this process; `device` is a name as `nf_device_of` gives it.
///
/// Returns 0, or -1 with `errno` `EINVAL`: `device` is null, empty or not UTF-8, or
/// a number is not between 1e-15 and 1e18.
///
/// # Safety
/// `device` ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_fill(
    device: *const c_char,
    latency: c_float,
    bandwidth: c_float,
) -> c_int {
    answer(-1, || {
        // SAFETY: the C caller promises a string.
        let device = unsafe { device_named(device) }?;
        fill(&device, latency.into(), bandwidth.into())
    })
}

impl PaperSled {
    #[expect(clippy::cast_possible_truncation, reason = "the paper's fields are floats")]
    fn of(sled: &nearfirst::Sled) -> Result<Self, Failure> {
        Ok(Self {
            offset: fitting(sled.offset)?,
            length: fitting(sled.length)?,
            latency: sled.estimate.map_or(c_float::NAN, |known| known.latency.p50 as c_float),
            bandwidth: sled.estimate.map_or(c_float::NAN, |known| known.bandwidth.p50 as c_float),
        })
    }
}

/// A number in one of the caller's integer types; those without a sign hold it too.
#[derive(Debug, Clone, Copy)]
enum Integer {
    Four(i32),
    Eight(i64),
}

impl Integer {
    fn of(value: u64, size: usize) -> Result<Self, Failure> {
        match size {
            4 => fitting(value).map(Self::Four),
            8 => fitting(value).map(Self::Eight),
            other => {
                let message = format!("integers have 4 or 8 bytes here, not {other}");
                Err(Failure::new(libc::EINVAL, message))
            }
        }
    }

    /// # Safety
    /// `out` is null or may be written with an integer of this size.
    unsafe fn put(self, out: *mut c_void, name: &str) -> Result<(), Failure> {
        match self {
            // SAFETY: as promised to this function.
            Self::Four(value) => unsafe { put(out.cast(), name, value) },
            // SAFETY: as promised to this function.
            Self::Eight(value) => unsafe { put(out.cast(), name, value) },
        }
    }
}

fn begin(fd: c_int, preferred_size: c_long, separator: Option<u8>) -> Result<c_long, Failure> {
    let piece_bytes = u64::try_from(preferred_size).map_err(|_| {
        Failure::new(libc::EINVAL, format!("a preferred size of {preferred_size} bytes"))
    })?;
    let how = how(piece_bytes, separator, Plan::Best);
    let pick = Pick::new(fd, how)?;
    let answer = fitting(how.piece_bytes)?;
    PICKS.insert(fd.into(), pick);
    Ok(answer)
}

pub(crate) fn fitting<T: Copy + Display, U: TryFrom<T>>(value: T) -> Result<U, Failure> {
    U::try_from(value).map_err(|_| {
        let bits = size_of::<U>() * 8;
        Failure::new(libc::EOVERFLOW, format!("{value} does not fit an integer of {bits} bits"))
    })
}

fn none_begun(fd: c_int) -> Failure {
    Failure::new(libc::EINVAL, format!("no pick is under way on descriptor {fd}"))
}

fn unknown(sleds: &[nearfirst::Sled], bytes: u64) -> Failure {
    let device = sleds.iter().find(|sled| sled.estimate.is_none()).map(|sled| &sled.device);
    let why = if device.is_some_and(nearfirst::Device::is_cold_tier) {
        "it must be recalled first"
    } else {
        "`nearfirst calibrate` measures it"
    };
    let device = device.map_or("its device", |device| device.name());
    let message = format!("the cost of {bytes} bytes on {device} is not known; {why}");
    Failure::new(libc::ENODATA, message)
}
