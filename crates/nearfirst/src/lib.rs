//! nearfirst reads what is near first, while it fetches the rest.
//!
//! A latency-aware file access layer for Linux: it knows which parts of a file
//! are in memory and which must come from a device, what that costs, and in
//! which order reading is cheapest. A [`Set`] is told what will be read, fetches
//! it near from wherever it is, and yields what is ready.
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
//!
//! A set has its members fetched by an engine, from the stores that it knows:
//!
//! ```
//! use std::sync::Arc;
//!
//! use nearfirst::{Costs, Engine, EngineOptions, Set, SetOptions, Spec, Stores, StoresOptions};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("a.txt"), "text of a")?;
//! std::fs::write(folder.path().join("b.txt"), "text of b")?;
//!
//! let costs = Arc::new(Costs::load());
//! let stores = Arc::new(Stores::new(Arc::clone(&costs), &StoresOptions::default()));
//! let engine = Engine::new(stores, costs, EngineOptions::default())?;
//! let texts = Spec::glob(folder.path().join("*.txt").as_os_str().as_encoded_bytes());
//! let set = Set::open(&engine, [texts], SetOptions::default());
//! let mut bytes = 0;
//! for member in &set {
//!     let member = member?; // whichever is ready
//!     println!("{} is near", member.name());
//!     bytes += member.read()?.len();
//! }
//! assert_eq!(bytes, 18);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use fetch;
pub use fetch::engine::{Engine, EngineOptions};
pub use fetch::scheduler::{DeviceId, DeviceSnapshot, Limits, Snapshot};
pub use set::{
    Cursor, Duplicates, Glob, Iter, ListSource, Looks, Member, MemberCopy, MemberError, Order,
    Rank, Recalls, Set, SetOptions, SetStats, Setup, Spec, SpecError, Start, Taken, Told, Turn,
};
pub use sled::{
    Cost, DeliveryTime, Device, DeviceTable, Estimate, Extent, Observation, Pick, PickOptions,
    Picked, Picker, Piece, Place, Plan, Sled, Spread, TableError, delivery_time, describe,
    pull_edges,
};
pub use store::{
    Algorithm, Answer, Backing, Bindings, ByteStream, Cause, Checksum, Clock, Costs, Entries,
    Entry, Error, FirstBytes, Fnmatch, Folder, Kind, Local, Located, Mount, Mounts, Name, Opener,
    PartLengths, Pattern, Permissions, Places, Probe, Process, Progress, Query, Reached, Reading,
    Reason, Recall, Sequence, SpillFolder, Status, StorageOptions, Store, Stores, StoresOptions,
    TableFiles, Tier, Version, Warning, above_standard, patiently, probe_first, probe_memory,
    system_number, unix_parts, unix_s, without_number,
};
// The answers of a [`Store`] are of their types.
pub use bytes;
pub use futures;
