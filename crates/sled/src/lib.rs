//! What will it cost? Sleds, delivery times, pick order and the device table.
//!
//! A *sled* (storage latency estimation descriptor; Van Meter & Gao, "Latency
//! Management in Storage Systems", OSDI 2000) is a byte range of a file with
//! one estimate: how long until its first byte, and how fast the rest comes.
//! This crate is pure: it does no I/O, reads no clock and starts no thread.
//!
//! ```
//! use nearfirst_sled::{self as sled, Device, DeviceTable, Extent, Observation, Picker, Place, Plan};
//!
//! let disk = Device::new("disk:sda");
//! let mut table = DeviceTable::default();
//! table.observe(&disk, Observation { bytes: 1 << 20, first_byte: Some(0.018), whole: 0.134 });
//!
//! let sleds = sled::describe(
//!     [
//!         Extent { offset: 0, length: 8192, device: disk, place: Place::Far },
//!         Extent { offset: 8192, length: 4096, device: Device::memory(), place: Place::Near },
//!     ],
//!     &table,
//! );
//! assert!(sled::delivery_time(&sleds, Plan::Best).p50 > 0.018);
//!
//! let mut picker = Picker::new(&sleds, 8192);
//! assert_eq!(picker.take().map(|piece| piece.range()), Some(8192..12288)); // near first
//! assert_eq!(picker.take().map(|piece| piece.range()), Some(0..8192));
//! assert!(picker.take().is_none());
//! ```

mod cost;
mod describe;
mod device;
mod estimate;
mod learned;
mod pick;
mod picking;
mod plan;
mod quantile;
mod record;
mod samples;
mod table;

pub use cost::Cost;
pub use describe::{Extent, Place, Sled, describe, describe_on};
pub use device::Device;
pub use estimate::{Estimate, Spread};
pub use learned::Learned;
pub use pick::{Picker, Piece};
pub use picking::{Pick, PickOptions, Picked};
pub use plan::{DeliveryTime, Plan, delivery_time};
pub use record::{first_record_end, pull_edges};
pub use samples::{Observation, SizeClass};
pub use table::{DeviceTable, TableError};
