//! One command and all that comes of it, observed without privileges.
//!
//! A seccomp filter has the kernel ask before the few system calls that matter; every answer is to
//! go on. That sees static programs too, and costs each such call a switch to the supervisor and
//! back. Three processes stand around the command, so that it looks as if nobody did:
//!
//! - the one that was called waits, hands signals on, and ends as the command ends;
//! - its **supervisor** answers calls, learns and fetches, and lives until the last descendant of
//!   the command has ended: a call that nobody answers would fail;
//! - a **guardian** does nothing, unless the supervisor dies: then it answers.

mod aside;
mod filter;
mod guardian;
mod inbox;
mod inherited;
mod known;
mod listener;
mod memory;
mod names;
mod observer;
mod parents;
mod report;
mod run;
mod supervisor;
mod sys;
mod waiter;

pub use inherited::{lacks_stdin, lacks_stdout, mind_children, survive_file_limits};
pub use observer::Observer;
pub use report::Reporter;
pub use run::{Ended, Outcome, Unobserved, replace, run};
pub use sys::{die_by, stop_as};
