//! What is guessed? Access trees of programs (Lei & Duchamp, USENIX '97), and what they predict.
//!
//! Pure: no I/O, no clock, no thread. [`Event`]s and `now` go in, [`Decision`]s come out.

mod event;

pub use event::{Access, Decision, Event, File, Identity, Prediction, PredictionId, Predicted, Process, User};
