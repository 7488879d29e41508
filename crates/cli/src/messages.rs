//! What is said on stderr, and what the exit code remembers of it.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::progress;

static PROGRAM: OnceLock<String> = OnceLock::new();
static ERRORS: AtomicU64 = AtomicU64::new(0);
static MISUSES: AtomicU64 = AtomicU64::new(0);
static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Sets the name that opens every message; the first call counts.
pub(crate) fn set_program(name: &OsStr) {
    PROGRAM.get_or_init(|| name.to_string_lossy().into_owned());
}

/// The name that opens every message.
pub(crate) fn program() -> &'static str {
    PROGRAM.get().map_or("nearfirst", String::as_str)
}

/// What the program is called in its usage when it runs this command: by the command's name alone if
/// it was called by that.
pub(crate) fn called(command: &str) -> String {
    if program() == command { command.to_owned() } else { format!("nearfirst {command}") }
}

/// The answer to `--version`.
pub(crate) fn version() -> String {
    let by = if program().starts_with("nearfirst") { "" } else { " (nearfirst)" };
    format!("{}{by} {}", program(), env!("CARGO_PKG_VERSION"))
}

/// Says what went wrong; the run goes on and [`any`] remembers it.
pub(crate) fn error(what: impl Display) {
    ERRORS.fetch_add(1, Ordering::Relaxed);
    note(what);
}

/// Says why something failed, with all that it comes from (an error of `anyhow` gives it where it is
/// formatted with `#`), as [`error`] does.
pub(crate) fn failure(why: impl Display) {
    error(store::without_number(format_args!("{why:#}")));
}

/// Says why what the run was told cannot be followed, or what it was for was not kept, as [`failure`] does;
/// [`any_misuse`] remembers it.
pub(crate) fn misuse(why: impl Display) {
    MISUSES.fetch_add(1, Ordering::Relaxed);
    failure(why);
}

/// Says something on stderr that does not change the exit code.
pub(crate) fn note(what: impl Display) {
    // In one write: stderr has no buffer, and often shares a terminal or file with stdout.
    let line = format!("{}: {what}\n", program());
    // A closed stderr leaves nobody to tell.
    progress::without(|| drop(std::io::stderr().lock().write_all(line.as_bytes())));
}

/// Whether [`error`] was called in this run.
pub(crate) fn any() -> bool {
    ERRORS.load(Ordering::Relaxed) > 0
}

/// Whether [`misuse`] was called in this run.
pub(crate) fn any_misuse() -> bool {
    MISUSES.load(Ordering::Relaxed) > 0
}

/// Has [`reason`] know that the standard output is closed.
pub(crate) fn stdout_is_closed() {
    STDOUT_IS_CLOSED.store(true, Ordering::Relaxed);
}

/// The reason of an I/O error as the GNU tools give it: without the number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let is_of_stdout = error.kind() == std::io::ErrorKind::NotConnected;
    if is_of_stdout && STDOUT_IS_CLOSED.load(Ordering::Relaxed) {
        return "Bad file descriptor".to_owned();
    }
    store::io_reason(error)
}
