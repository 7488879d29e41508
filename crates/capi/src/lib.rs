//! The C ABI of nearfirst: `nearfirst.h` (`nf_` calls) and `sleds.h` (the
//! calls of the SLEDs paper on top of the same parts).
//!
//! Calls convert, ask the library and convert its answer; what to read next is
//! decided in `sled`, where data is in `store`. Both headers are generated
//! from this source and committed under `include/`; `docs/c.md` explains the calls.
//!
//! The rules of the boundary: errors are an answer (-1 for most calls), `errno`
//! and [`nf_last_error`]; no panic crosses; a null pointer or a bad descriptor is an error;
//! a descriptor's file offset is never moved, and no descriptor is duplicated,
//! since closing a duplicate would drop the caller's POSIX locks.

mod costs;
mod descriptor;
mod device;
mod error;
mod memory;
mod paper;
mod pick;
mod picking;
mod sleds;

pub use costs::{nf_save, nf_version, nf_warnings};
pub use device::{Estimate, nf_device_estimate, nf_device_fill, nf_device_fill_fd, nf_device_of};
pub use error::nf_last_error;
pub use paper::{
    PaperSled, SLEDS_BEST, SLEDS_LINEAR, sleds_fill, sleds_get, sleds_pick_finish, sleds_pick_init,
    sleds_pick_init_records, sleds_pick_next_read, sleds_pick_next_read_as,
    sleds_total_delivery_time,
};
pub use picking::{
    NF_NO_RECORDS, PickId, Piece, nf_pick_finish, nf_pick_init, nf_pick_next, nf_pick_refresh,
};
pub use sleds::{
    DeliveryTime, NF_BEST, NF_COLD, NF_FAR, NF_LINEAR, NF_NEAR, NF_UNKNOWN, Sled, Spread,
    nf_delivery_time, nf_delivery_time_path, nf_sleds_get, nf_sleds_get_path,
};
