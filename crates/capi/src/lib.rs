//! The C ABI of nearfirst: `nearfirst.h` (`nf_` calls), and `sleds.h` and
//! `sets.h` (the calls of the SLEDs and SETS papers on top of the same parts).
//!
//! Calls convert, ask the library and convert its answer; what to read next is
//! decided in `sled`, where data is in `store`, what a set brings near in `set`
//! and `fetch`. The headers are generated
//! from this source and committed under `include/`; `docs/c.md` explains the calls.
//!
//! The rules of the boundary: errors are an answer (-1 for most calls), `errno`
//! and [`nf_last_error`]; no panic crosses; a null pointer or a bad descriptor is an error;
//! a descriptor's file offset is never moved, and no descriptor is duplicated,
//! since closing a duplicate would drop the caller's POSIX locks. No thread is
//! started before a set is opened, and sets are not used in a fork.

mod bell;
mod callback;
mod costs;
mod descriptor;
mod device;
mod digest;
mod engine;
mod error;
mod iterate;
mod joins;
mod memory;
mod open_sets;
mod options;
mod paper;
mod paper_sets;
mod pick;
mod picking;
mod sets;
mod sleds;
mod stats;
mod sync;

pub use callback::{Predicate, Properties, Rank, Release};
pub use costs::{nf_save, nf_version, nf_warnings};
pub use device::{Estimate, nf_device_estimate, nf_device_fill, nf_device_fill_fd, nf_device_of};
pub use digest::{nf_set_digest, nf_set_member, nf_set_size};
pub use error::nf_last_error;
pub use iterate::{
    Member, nf_set_descriptor, nf_set_iterate, nf_set_iterate_member, nf_set_iterate_timed,
};
pub use joins::{nf_set_difference, nf_set_intersect, nf_set_restrict, nf_set_union};
pub use options::{
    NF_ORDER_LISTED, NF_ORDER_NAME, NF_ORDER_RANK, NF_ORDER_READY, NF_ORDER_REPLAY,
    NF_SAME_CONTENT, NF_SAME_NAME, SetOptions,
};
pub use paper::{
    PaperSled, SLEDS_BEST, SLEDS_LINEAR, sleds_fill, sleds_get, sleds_pick_finish, sleds_pick_init,
    sleds_pick_init_records, sleds_pick_next_read, sleds_pick_next_read_as,
    sleds_total_delivery_time,
};
pub use paper_sets::{
    SetPredicate, sets_close, sets_digest, sets_intersect, sets_iterate, sets_member, sets_open,
    sets_restrict, sets_rewind, sets_size, sets_union,
};
pub use picking::{
    NF_NO_RECORDS, PickId, Piece, nf_pick_finish, nf_pick_init, nf_pick_next, nf_pick_refresh,
};
pub use sets::{
    SetId, nf_set_close, nf_set_headers, nf_set_member_name, nf_set_open, nf_set_open_with,
    nf_set_order_taken, nf_set_rewind,
};
pub use sleds::{
    DeliveryTime, NF_BEST, NF_COLD, NF_FAR, NF_LINEAR, NF_NEAR, NF_UNKNOWN, Sled, Spread,
    nf_delivery_time, nf_delivery_time_path, nf_sleds_get, nf_sleds_get_path,
};
pub use stats::{SetStats, nf_set_stats};
