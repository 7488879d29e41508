//! Seeing programs run: sources of events, and what carries predictions out.

mod carrier;
pub mod command;
mod descriptors;
mod driver;
mod io_priority;
mod mapped;
mod parts;
mod pattern_store;
mod ranges;
mod recent;
pub mod service;
mod session;
mod source;
mod status;
pub mod system;
mod unread;

pub use carrier::{Carried, CarrierOptions};
pub use pattern_store::{Forget, Held, Left, PATTERN_BYTES_MAX, PatternStore, StoreWarning};
pub use session::{Attended, Effort, Record, SessionOptions, attend};
pub use source::Source;
