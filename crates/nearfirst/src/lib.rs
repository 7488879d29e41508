//! nearfirst reads what is near first, while it fetches the rest.
//!
//! A latency-aware file access layer for Linux: it knows which parts of a file
//! are in memory and which must come from a device, what that costs, and in
//! which order reading is cheapest.
//!
//! ```
//! use nearfirst::{Costs, Plan};
//!
//! let costs = Costs::load();
//! let sleds = costs.path_sleds("/proc/self/exe".as_ref())?;
//! let time = nearfirst::delivery_time(&sleds, Plan::Best);
//! println!("{} pieces, {:.6} s", sleds.len(), time.p50);
//! # Ok::<(), nearfirst::Error>(())
//! ```

pub use fetch;
pub use sled::{
    DeliveryTime, Device, DeviceTable, Estimate, Extent, Observation, Picker, Piece, Place, Plan,
    Sled, Spread, TableError, delivery_time, pull_edges,
};
pub use store::{
    Backing, Clock, Costs, Error, Kind, Local, Located, Mount, Mounts, Probe, Progress, Reason,
    Status, TableFiles, Warning, probe, probe_memory,
};
