//! The one scheduler: what is in flight, what waits, what is delivered.
//!
//! A pure state machine: events and `now` in, actions out. It reads no clock
//! and touches no store; a driver feeds it, and a simulation does the same
//! from a seed.

mod event;
mod limits;

pub use event::{
    Action, Aim, AttemptId, Cause, Contact, Delivery, DeviceId, DeviceTerms, Event, Failure, Kind,
    Listing, MemberId, Order, Origin, SetId, SetTerms,
};
pub use limits::Limits;
