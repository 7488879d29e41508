//! Where is it? Residency, devices and extents of the files of mounted file systems.
//!
//! [`Local`] says of a file which parts are in memory, which must come from a
//! device, and which device that is; `sled` says what that costs. Asking never
//! disturbs the page cache, never opens what it need not, and never waits
//! longer than [`Local::wait_max`] for a mount that does not answer.
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

mod block;
mod bounded;
mod canary;
pub mod clock;
mod costs;
mod error;
mod holes;
mod local;
mod mounts;
mod nfs;
mod probe;
mod residency;
mod sys;
mod table_file;

pub use clock::Clock;
pub use costs::Costs;
pub use error::Error;
pub use holes::holes;
pub use local::{Status, Kind, Local, Located, Reason};
pub use mounts::{Backing, Mount, Mounts};

pub use probe::{Probe, Progress, probe, probe_memory};
pub use residency::resident_ranges;
pub use table_file::{TableFiles, Warning};
