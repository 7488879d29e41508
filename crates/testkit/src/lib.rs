//! The vocabulary of the end-to-end tests and experiments: files, programs, page cache, mounts, limits, servers.
//!
//! A test body is the case and the expectation:
//!
//! ```no_run
//! use testkit::{Dir, Program, evict, make_near, skip_unless};
//!
//! skip_unless!(testkit::Facility::Root);
//! let dir = Dir::new();
//! let file = dir.create("a.txt", "one\ntwo\n");
//! evict(&file);
//! make_near(&file, 0..4);
//! let wc = Program::at("/usr/bin/wc");
//! wc.cmd(["-l", "a.txt"]).dir(&dir).run().succeeds().prints("2 a.txt\n");
//! ```
//!
//! Everything here panics with a reason when it cannot do what it is asked: it is used by tests.

mod clock;
mod cmd;
mod dir;
mod facility;
mod limit;
mod mount;
mod page_cache;
pub mod server;
mod wait;

pub use cmd::{Cmd, Output, Program, cmd, copy_program};
pub use dir::{Dir, lines, noise};
pub use facility::{Facility, missing, program, skip};
pub use limit::{MemoryCgroup, PidsCgroup};
pub use mount::{FileSystem, LoopDisk, Overlay, SlowDir, Tmpfs};
pub use page_cache::{
    Hold, evict, hold, is_resident, lies_in_memory, make_near, resident_bytes, until_come,
};
pub use wait::{end_of, happens_within, until, until_memory_suffices, writer_of};
