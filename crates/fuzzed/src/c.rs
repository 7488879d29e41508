//! The C entry points: any arguments that a C caller may pass are answered, by a result or by errno.

#![expect(unsafe_code, reason = "C calls are made")]

use std::ffi::{CString, c_int, c_long};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::ptr;

use nearfirst_c as c;

/// Room for sleds; more than a small file has.
const SLEDS_MAX: usize = 8;

/// The first bytes are arguments; the rest is a file, and the name of a device.
///
/// Pieces are the file, each byte once, whatever their size and separator.
pub fn c_calls(bytes: &[u8]) {
    let Some((&[size, separator, plan, capacity], rest)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let mut file = tempfile::tempfile().expect("a file can be made");
    file.write_all(rest).expect("it can be written");
    let fd = file.as_raw_fd();
    let separator = c_int::from(separator) - 1;
    let plan = c_int::from(plan % 3);

    name_device(rest, f64::from(size), f64::from(capacity));
    ask(fd, plan, usize::from(capacity) % (SLEDS_MAX + 1));
    pick(fd, u64::from(size), separator, plan, rest.len());
    pick_as_the_paper(fd, c_long::from(size), separator, rest.len());
}

fn name_device(name: &[u8], latency: f64, bandwidth: f64) {
    // Each name is remembered as long as the process lives: let there be few.
    let Ok(name) = CString::new(&name[..name.len().min(2)]) else { return };
    let mut estimate = MaybeUninit::uninit();
    // SAFETY: the name is a string and the estimate may be written.
    unsafe {
        c::nf_device_fill(name.as_ptr(), latency, bandwidth);
        c::nf_device_estimate(name.as_ptr(), 1 << 20, estimate.as_mut_ptr());
        assert_eq!(c::nf_device_fill(ptr::null(), latency, bandwidth), -1);
        assert_eq!(c::nf_sleds_get_path(ptr::null(), ptr::null_mut(), 0), -1);
    }
}

fn ask(fd: c_int, plan: c_int, capacity: usize) {
    let mut sleds = [const { MaybeUninit::<c::Sled>::uninit() }; SLEDS_MAX];
    let mut time = MaybeUninit::uninit();
    // SAFETY: the array has room for `capacity` sleds, and the time may be written.
    unsafe {
        assert!(c::nf_sleds_get(fd, sleds.as_mut_ptr().cast(), capacity) >= 0);
        let told = c::nf_delivery_time(fd, plan, time.as_mut_ptr());
        assert_eq!(told == 0, plan == c::NF_LINEAR || plan == c::NF_BEST);
        assert_eq!(c::nf_delivery_time(fd, plan, ptr::null_mut()), -1);
    }
}

fn pick(fd: c_int, size: u64, separator: c_int, plan: c_int, length: usize) {
    let pick = c::nf_pick_init(fd, size, separator, plan);
    if pick < 0 {
        assert!(plan > c::NF_BEST, "only an unknown plan is refused here");
        return;
    }
    let mut taken = 0;
    let mut piece = MaybeUninit::<c::Piece>::uninit();
    // SAFETY: the piece may be written, and is, where the answer is 1.
    while unsafe { c::nf_pick_next(pick, piece.as_mut_ptr()) } == 1 {
        // SAFETY: as said.
        taken += unsafe { piece.assume_init_ref() }.length;
        assert_eq!(c::nf_pick_refresh(pick), 0);
    }
    assert_eq!(taken, length as u64, "every byte once");
    assert_eq!(c::nf_pick_finish(pick), 0);
    assert_eq!(c::nf_pick_finish(pick), -1, "it is finished");
}

fn pick_as_the_paper(fd: c_int, size: c_long, separator: c_int, length: usize) {
    let with_records = c_int::from(separator % 2 == 0);
    if c::sleds_pick_init_records(fd, size, with_records, separator) < 0 {
        return;
    }
    let (mut offset, mut bytes, mut taken) = (0, 0, 0);
    // SAFETY: both may be written.
    while unsafe { c::sleds_pick_next_read(fd, &raw mut offset, &raw mut bytes) } == 1 {
        taken += bytes;
    }
    assert_eq!(usize::try_from(taken), Ok(length), "every byte once");
    assert_eq!(c::sleds_pick_finish(fd), 0);
}
