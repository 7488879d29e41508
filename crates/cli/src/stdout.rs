//! Standard output without a buffer, for what comes in large pieces.

use std::io::{self, StdoutLock, Write};

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
