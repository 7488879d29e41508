//! What is fuzzed: a function for each place where bytes that others wrote are understood.
//!
//! Each takes any bytes and panics if what it calls panics or breaks its contract. The tests of this
//! crate run them over `fuzz/seeds` and mutations of it; `make fuzz` runs them under libFuzzer.

mod c;
mod find;
#[path = "../../cli/src/locale.rs"]
mod locale;
#[expect(dead_code, reason = "the command uses the rest")]
#[path = "../../cli/src/messages.rs"]
mod messages;
mod mountinfo;
mod patterns;
#[expect(dead_code, reason = "the command uses the rest")]
#[path = "../../cli/src/progress.rs"]
mod progress;
mod records;
mod specs;
mod table;
mod traces;

pub use c::c_calls;
pub use find::expression;
pub use mountinfo::mountinfo;
pub use patterns::patterns;
pub use records::records;
pub use specs::specs;
pub use table::table;
pub use traces::{strace_lines, trace};

/// Something to fuzz.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its program in `fuzz/fuzz_targets` and of its folder in `fuzz/seeds`.
    pub name: &'static str,
    /// What is called with any bytes.
    pub body: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "c_calls", body: c_calls },
    Target { name: "expression", body: expression },
    Target { name: "mountinfo", body: mountinfo },
    Target { name: "patterns", body: patterns },
    Target { name: "records", body: records },
    Target { name: "specs", body: specs },
    Target { name: "strace_lines", body: strace_lines },
    Target { name: "table", body: table },
    Target { name: "trace", body: trace },
];
