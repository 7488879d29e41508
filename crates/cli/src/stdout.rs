//! Standard output without a buffer, for what comes in large pieces, and where there is none.

use std::io::{self, StdoutLock, Write};

use rustix::net::{AddressFamily, SocketType, socket};
use watch::command::lacks_stdout;

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

/// Has writing fail where the standard output is closed.
///
/// The language's start-up puts `/dev/null` there, in which what is written is lost without a word,
/// and the standard library takes the error of a bad descriptor for success. A socket that leads
/// nowhere takes nothing, and [`crate::messages::reason`] knows what it says.
pub(crate) fn fail_if_closed() {
    if lacks_stdout()
        && let Ok(nowhere) = socket(AddressFamily::UNIX, SocketType::STREAM, None)
    {
        // Where that fails, all is as the start-up left it.
        let _placed = rustix::stdio::dup2_stdout(nowhere);
    }
}

/// Whether an error is that of writing to a standard output that is closed.
pub(crate) fn is_closed(error: &io::Error) -> bool {
    lacks_stdout() && error.kind() == io::ErrorKind::NotConnected
}
