//! Seeing programs run: sources of events, and what carries predictions out.

mod carrier;
pub mod command;
mod driver;
mod pressure;
mod recent;
mod source;

pub use carrier::{Carried, Carrier, CarrierOptions};
pub use driver::Driver;
pub use source::Source;
