//! Where is it? Stores: what they list, which parts of it are near, and what the others take.
//!
//! A [`Store`] lists, describes and reads what a [`Name`] stands for: files of mounted file systems
//! ([`Files`]), objects of S3 and of other services, pages of the web, and what databases and programs
//! name. [`Stores`] chooses the one that a name belongs to. Each kind that brings much with it is a
//! feature: `object`, `sql`, `web`.
//!
//! [`Local`] says of a file of this machine which parts are in memory, which must come from a
//! device, and which device that is. Asking never disturbs the page cache, never opens what it need
//! not, and never waits longer than [`Local::wait_max`] for a mount that does not answer. [`Costs`]
//! keeps what devices were seen to take; `sled` says what that comes to.
//!
//! ```
//! use nearfirst_store as store;
//! use std::io::Write as _;
//!
//! let local = store::Local::default();
//! let mut file = tempfile::tempfile()?;
//! file.write_all(b"just written, so still in memory")?;
//! let located = local.locate(&file)?;
//! assert_eq!(located.extents[0].place, sled::Place::Near);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod asked;
mod bindings;
pub mod checksum;
mod clock;
mod costs;
mod cutter;
mod entry;
mod error;
#[cfg(any(feature = "object", feature = "web"))]
mod exchange;
mod first_bytes;
mod fnmatch;
mod local;
mod name;
#[cfg(feature = "object")]
mod object;
mod open_folder;
mod own_folder;
mod patience;
mod pattern;
mod power;
mod pressure;
mod process;
mod program;
mod scratch_folder;
mod silence;
#[cfg(feature = "sql")]
mod sql;
mod standard;
mod state_folder;
mod storage_options;
mod store;
mod stores;
mod sync;
mod table_file;
mod threads;
mod under_way;
mod uninterrupted;
#[cfg(feature = "web")]
mod web;
pub mod wrap;

pub use bindings::Bindings;
pub use checksum::{Algorithm, Checksum};
pub use clock::{Clock, pause, unix_parts, unix_s};
pub use costs::{Costs, Opener};
pub use cutter::{Cutter, NoList};
pub use entry::{Entry, Tier, Version};
pub use error::{
    Cause, Error, io_reason, is_short_of_descriptors, system_number, unwritten, without_number,
};
pub use first_bytes::FirstBytes;
pub use fnmatch::Fnmatch;
pub use local::{
    Backing, Files, Folder, Kind, Lingering, Local, Located, Mount, Mounts, Opened, Places, Probe,
    Progress, Reached, Reason, Status, Walk, begun, blocking, data_ranges, disk_position,
    does_anything_linger, holes, is_in_memory_in_part, leave_signals_to_others, probe_first,
    probe_memory, resident_ranges, was_evicted,
};
pub use name::Name;
pub use own_folder::state_folder;
pub use patience::{patiently, tried};
pub use pattern::Pattern;
pub use power::Power;
pub use pressure::{Pressure, memory_room};
pub use process::Process;
pub use program::Programs;
pub use scratch_folder::SpillFolder;
pub use silence::heard_within;
pub use standard::{Standard, above_standard};
pub use state_folder::{Readers, StateFolder};
pub use storage_options::StorageOptions;
pub use store::{
    Answer, ByteStream, Entries, PartLengths, Query, Reading, Recall, Sequence, Store,
};
pub use stores::{Permissions, Stores, StoresOptions};
pub use sync::lock;
pub use table_file::{TableFiles, Warning};
pub use threads::threads_given;
pub use uninterrupted::uninterrupted;
#[cfg(feature = "web")]
pub use web::Web;
