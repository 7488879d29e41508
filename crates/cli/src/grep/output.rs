//! Standard output, shared by the threads of a run.

use std::io::{self, IsTerminal as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::retry_on_intr;
use store::lock;

use super::held::{Held, Turn};
use super::trouble::elsewhere;

/// How much output of a file gathers before it leaves.
const BLOCK_BYTES: usize = 64 * 1024;

/// Standard output with a separator between files.
#[derive(Debug)]
pub(super) struct Output {
    /// What stands between the output of two files, with its line end.
    separator: Option<Vec<u8>>,
    /// Each line leaves as soon as it is found.
    by_line: bool,
    /// Whether something was written; held while writing, so that the output
    /// of two files never mixes.
    written: Mutex<bool>,
}

impl Output {
    /// `by_line`: `None` is: on a terminal.
    pub(super) fn new(separator: Option<Vec<u8>>, by_line: Option<bool>) -> Output {
        let by_line = by_line.unwrap_or_else(|| io::stdout().is_terminal());
        Output { separator, by_line, written: Mutex::new(false) }
    }

    /// Writes all that there is to say about one file.
    ///
    /// # Errors
    /// Those of standard output; a closed pipe among them.
    pub(super) fn write_file(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut written = lock(&self.written);
        if std::mem::replace(&mut *written, true)
            && let Some(separator) = &self.separator
        {
            write_all(separator)?;
        }
        write_all(bytes)
    }

    /// Waits until what is being written is written.
    pub(super) fn wait(&self) {
        drop(lock(&self.written));
    }

    /// Writes on, without a separator.
    ///
    /// # Errors
    /// Those of standard output; a closed pipe among them.
    pub(super) fn write_more(&self, bytes: &[u8]) -> io::Result<()> {
        let mut written = lock(&self.written);
        *written |= !bytes.is_empty();
        write_all(bytes)
    }
}

/// The output of one file, piece by piece.
pub(super) struct FileOutput<'a> {
    to: Destination<'a>,
    printed_bytes: AtomicU64,
}

enum Destination<'a> {
    Stdout(&'a Output),
    /// It waits for its turn.
    Held(&'a Held<'a>, &'a dyn Turn),
    /// What the file was searched in may cease to be the file.
    Sound(&'a FileOutput<'a>, &'a (dyn Fn() -> bool + Sync)),
}

impl<'a> FileOutput<'a> {
    pub(super) fn new(output: &'a Output) -> FileOutput<'a> {
        FileOutput { to: Destination::Stdout(output), printed_bytes: AtomicU64::new(0) }
    }

    /// Output that waits for its turn.
    pub(super) fn held(held: &'a Held<'a>, turn: &'a dyn Turn) -> FileOutput<'a> {
        FileOutput { to: Destination::Held(held, turn), printed_bytes: AtomicU64::new(0) }
    }

    /// The same output, of which nothing leaves once what was searched `is_sound` no more.
    pub(super) fn while_sound(&'a self, is_sound: &'a (dyn Fn() -> bool + Sync)) -> FileOutput<'a> {
        FileOutput { to: Destination::Sound(self, is_sound), printed_bytes: AtomicU64::new(0) }
    }

    pub(super) fn printed_bytes(&self) -> u64 {
        self.printed_bytes.load(Ordering::Relaxed)
    }

    /// Whether `gathered` bytes are to be written now.
    pub(super) fn is_due(&self, gathered: usize) -> bool {
        let by_line = match self.to {
            Destination::Stdout(output) => output.by_line,
            Destination::Held(..) => false,
            Destination::Sound(through, _) => return through.is_due(gathered),
        };
        by_line || gathered >= BLOCK_BYTES
    }

    /// Writes the next piece.
    ///
    /// # Errors
    /// Those of standard output, a closed pipe among them; those of keeping it; that it is not sound.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match self.to {
            Destination::Stdout(output) if self.printed_bytes() == 0 => {
                output.write_file(bytes)?;
            }
            Destination::Stdout(output) => output.write_more(bytes)?,
            Destination::Held(held, turn) => held.write(bytes, turn)?,
            Destination::Sound(through, is_sound) if is_sound() => through.write(bytes)?,
            Destination::Sound(..) => return Err(io::Error::other("changed while being read")),
        }
        self.printed_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes past the standard library's buffer: output comes in large pieces.
fn write_all(mut bytes: &[u8]) -> io::Result<()> {
    let stdout = io::stdout();
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::write(&stdout, bytes)) {
            Ok(0) => return Err(elsewhere("standard output", io::ErrorKind::WriteZero.into())),
            Ok(written) => bytes = &bytes[written..],
            Err(error) => return Err(elsewhere("standard output", error.into())),
        }
    }
    Ok(())
}
