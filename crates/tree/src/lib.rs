//! What is guessed? Access trees of programs (Lei & Duchamp, USENIX '97), and what they predict.
//!
//! Pure: no I/O, no clock, no thread. [`Event`]s and `now` go in, [`Decision`]s come out.

mod account;
mod bytes;
mod codec;
mod event;
mod learner;
mod listing;
mod names;
mod numbered;
mod options;
mod ours;
mod outstanding;
mod paper;
mod patterns;
mod program;
mod renamed;
pub mod replay;
mod run;

pub use account::Account;
pub use codec::DecodeError;
pub use event::{
    Access, Decision, Event, File, Identity, PARTS_BYTES_MIN, Predicted, Prediction, PredictionId,
    Process, User, is_on_a_device,
};
pub use learner::Learner;
pub use listing::{Branch, Listed, What};
pub use options::{Matching, Options};
pub use patterns::Patterns;
