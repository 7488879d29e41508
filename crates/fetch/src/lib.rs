//! Bring it near: of one file the near parts are read while the far ones are fetched; of many
//! objects what is ready comes first.
//!
//! [`scheduler`] decides what of which set is in flight, and does no I/O; [`engine`] does what it
//! decides, and hands out members as they arrive.
//!
//! [`scan`] hands out the pieces of one file to several threads. What is in
//! memory comes first, mapped and without a copy; what is not is read by one
//! thread at a time, in file order, so that a device sees one sequential
//! stream while the others compute.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use nearfirst_fetch::{ScanOptions, Source, scan};
//!
//! let costs = store::Costs::load();
//! let path = "/proc/self/exe".as_ref();
//! let file = costs.open(path)?;
//! let zeros = AtomicU64::new(0);
//! let count = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == 0).count() as u64;
//! let report = scan(
//!     &Source { file: &file, path, costs: &costs },
//!     &ScanOptions::default(),
//!     |chunk, _| count(chunk.bytes),
//!     |_, found, _| drop(zeros.fetch_add(found, Ordering::Relaxed)),
//! )?;
//! assert_eq!(report.near_bytes + report.far_bytes, report.size);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advise;
mod apart;
pub mod engine;
mod error;
mod far;
mod held;
mod mapping;
mod near;
mod panic;
mod ranges;
mod scan;
pub mod scheduler;
mod sync;
mod view;

pub use apart::{answering, bounded, is_given_up, metadata};
pub use error::Error;
pub use scan::{Chunk, Control, ScanOptions, ScanReport, Source, saved, scan};
pub use view::{view, view_by_parts};
