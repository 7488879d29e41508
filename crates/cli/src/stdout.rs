//! Standard output without a buffer, for what comes in large pieces; and where there is none, or no input.

use std::io::{self, StdoutLock, Write};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketType, socket};
use watch::command::{lacks_stdin, lacks_stdout};

use crate::messages;

/// Writes each piece at once, and as it is: the standard library's keeps what follows the last line
/// end, which of binary data makes two writes of each.
#[derive(Debug)]
pub(crate) struct Unbuffered(StdoutLock<'static>);

impl Unbuffered {
    /// Nobody else writes meanwhile.
    pub(crate) fn lock() -> Self {
        Self(io::stdout().lock())
    }
}

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has reading fail where the standard input is closed, and writing where the standard output is.
///
/// The language's start-up puts `/dev/null` there, in which what is written is lost without a word,
/// and the standard library takes the error of a bad descriptor for success. From what was opened to
/// be written nothing can be read, and a socket that leads nowhere takes nothing.
pub(crate) fn fail_if_closed() {
    let to_write =
        || rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    if lacks_stdin()
        && let Ok(unreadable) = to_write()
    {
        let _ = rustix::stdio::dup2_stdin(unreadable);
    }
    if lacks_stdout()
        && let Ok(nowhere) = socket(AddressFamily::UNIX, SocketType::STREAM, None)
        && rustix::stdio::dup2_stdout(nowhere).is_ok()
    {
        messages::stdout_is_closed();
    }
}
