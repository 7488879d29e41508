//! A FUSE pass-through file system with the latency, bandwidth and faults asked for.
//!
//! It stands in for a disk (as the backing file of a loop device), an NFS server, a CD-ROM or a
//! tape, and counts what was read *from the device*: what the kernel's page cache answers never
//! gets here. So a test asserts what was read instead of how long it took.
//!
//! A mounted slowfs has control files, by which other processes use it:
//! `.slowfs/stats` (JSON of [`Stats`]), `.slowfs/reset` (write anything) and `.slowfs/rules`.
//!
//! ```
//! let rules = slowfs::parse_rules("*.img: as=disk, jitter=10%\n*: latency=1ms")?;
//! assert_eq!(rules[0].profile.bandwidth, Some(9.0e6));
//! # Ok::<(), slowfs::RuleError>(())
//! ```

mod clock;
mod control;
mod device;
mod engine;
mod filesystem;
mod fuse;
mod inodes;
mod later;
mod mount;
mod rule;
mod source;
mod stats;
mod units;

pub use mount::{Error, Mount, Options};
pub use rule::{Fault, Opens, Preset, Profile, Rule, RuleError, parse_rules};
pub use stats::{Counts, Read, Stats};
