//! Writes what commands wrote, each in one piece, as they end or in order.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;

use store::uninterrupted;

use super::child::Output;
use crate::in_turn::InTurn;
use crate::progress;

/// Outputs that wait for their turn: each holds two open files.
const WAITING_MAX: usize = 128;
/// Bytes that are copied at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// Writes outputs for several threads.
#[derive(Debug)]
pub(super) struct Printer(InTurn<Option<Output>>);

impl Printer {
    pub(super) fn new(is_ordered: bool) -> Self {
        Self(InTurn::new(is_ordered.then_some(WAITING_MAX)))
    }

    /// Writes the output of the member of this number, if it is its turn; `false` once nobody reads.
    pub(super) fn write(&self, number: usize, output: Option<Output>) -> bool {
        self.0.deliver(number, output, |output| output.as_ref().map_or(Ok(()), put))
    }

    /// Whether all could be written.
    pub(super) fn into_written(self) -> io::Result<()> {
        self.0.into_written()
    }
}

fn put(output: &Output) -> io::Result<()> {
    progress::wipe();
    // Messages of a command are lost where nobody reads them; its output is not.
    drop(copied(&output.stderr, &mut io::stderr().lock()));
    copied(&output.stdout, &mut io::stdout().lock())
}

/// Copies what is there now. Whoever the command has left behind writes on where the file's position
/// is, which is his, too.
fn copied(from: &File, to: &mut impl Write) -> io::Result<()> {
    let (mut at, end) = (0, from.metadata()?.len());
    let mut block = vec![0; usize::try_from(end).unwrap_or(usize::MAX).min(BLOCK_BYTES)];
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
        let read = uninterrupted(|| from.read_at(&mut block[..most], at))?;
        if read == 0 {
            break;
        }
        to.write_all(&block[..read])?;
        at += read as u64;
    }
    to.flush()
}
