//! What would have been guessed? Recorded work played again, with a cache and a device that are
//! models.
//!
//! A [`Trace`] is what programs opened, with times; it is read from its own text form
//! ([`Trace::parse`], described in [`trace`]) or made from the output of `strace -f` ([`strace`]).
//! [`simulate`] plays it to a [`Predictor`] and reports what the predictor was good for:
//!
//! ```
//! use std::time::Duration;
//! use nearfirst_tree::replay::{Capacity, Device, LastSuccessor, NoPredictor, Options, Trace, simulate};
//!
//! let text = b"nearfirst-trace 1\n\
//!     file 0 /bin/cat 40000\nfile 1 /etc/motd 100\nfile 2 /tmp/long 100\n\
//!     0 found 1 0\n0 exec 1 0 /\n10 read 1 1\n10 read 1 2\n\
//!     10 exec 1 0 /\n10 read 1 1\n";
//! let trace = Trace::parse(text).unwrap();
//! let options = Options { cache: Capacity::Files(2), device: Device::INSTANT, ..Options::default() };
//! let none = simulate(&trace, &mut NoPredictor, &options);
//! let successor = simulate(&trace, &mut LastSuccessor::default(), &options);
//! assert_eq!((none.references, none.misses), (5, 5));
//! assert_eq!((successor.misses, successor.used), (4, 1));
//! ```
//!
//! Pure, as all of this crate: the bytes of a trace come in, numbers come out.

mod cache;
mod device;
mod fate;
mod learner;
mod ledger;
mod names;
mod order;
mod ppm;
mod predictor;
mod report;
mod simulate;
pub mod strace;
mod successor;
pub mod trace;

pub use cache::Capacity;
pub use device::Device;
pub use fate::{Cause, Fate};
pub use ppm::Ppm;
pub use predictor::{NoPredictor, Predictor};
pub use report::{FileReport, Report};
pub use simulate::{Options, simulate, simulate_fates, simulate_files};
pub use successor::{LastSuccessor, ProgramSuccessor};
pub use trace::{Trace, TraceError};
