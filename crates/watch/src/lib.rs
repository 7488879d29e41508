//! Seeing programs run: sources of events, and what carries predictions out.

mod source;

pub use source::Source;
