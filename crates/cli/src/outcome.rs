//! How a run ends: the exit code, from what was written and what was said.

use std::io;
use std::process::ExitCode;

use crate::{messages, sets};

/// The exit codes, for the long help of commands that use [`exit_code`].
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  everything was done
  1  something could not be, stderr says what and why; the rest was done
  2  wrong usage, a configuration that cannot be read, or the output could not be written";

/// The exit code of `wc`, `find` and `each` when whoever read the output has closed it: what a shell says of
/// GNU's, which SIGPIPE ends.
pub(crate) const CLOSED_PIPE_EXIT: u8 = 128 + 13;

/// Why a run cannot begin that the system lets have no thread beside its first.
pub(crate) const NO_THREADS: &str = "no threads can be started";

/// The exit code of a run whose output ended with `written`.
///
/// Who closes the pipe has seen enough: that is no error.
pub(crate) fn exit_code(written: io::Result<()>) -> ExitCode {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            messages::error(format_args!("write error: {}", messages::reason(&error)));
            ExitCode::from(2)
        }
        _ if messages::any_misuse() => ExitCode::from(2),
        _ if messages::any() => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    }
}

/// Of a run that cannot begin.
pub(crate) fn cannot_begin(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<nearfirst::Error>() {
        // It tells of its source itself.
        Some(error) => sets::say_of(&error.name(), error.reason()),
        None => messages::failure(error),
    }
    ExitCode::from(2)
}
