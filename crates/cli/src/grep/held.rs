//! Output that waits for its turn: in memory as far as there is room, then in a file, if it may be
//! there. Where there is no room, its search waits.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use store::lock;

use super::output::{FileOutput, Output};
use super::trouble::elsewhere;

/// Bytes that come back from a file at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// Room for what waits, shared by all that does.
#[derive(Debug)]
pub(super) struct Room {
    left: AtomicU64,
    /// Where the rest goes, if anywhere.
    folder: Option<PathBuf>,
}

impl Room {
    pub(super) fn new(bytes: u64, folder: Option<PathBuf>) -> Self {
        Self { left: AtomicU64::new(bytes), folder }
    }

    /// Takes so many bytes, if they are left.
    fn take(&self, bytes: usize) -> bool {
        let less = |left: u64| left.checked_sub(bytes as u64);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// When the output of one search may leave.
pub(super) trait Turn: Sync {
    /// Whether it may now.
    fn has_come(&self) -> bool;

    /// Waits until it may, and says whether it does.
    fn comes(&self) -> bool;
}

/// The output of one search.
#[derive(Debug)]
pub(super) struct Held<'a> {
    room: &'a Room,
    output: &'a Output,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// An unlinked file, with what comes after them.
    spill: Option<File>,
    /// Bytes of it: behind them may be what it had no room for.
    spilled: u64,
    /// Whether its turn has come: what is written is not kept any more.
    has_turn: bool,
}

impl<'a> Held<'a> {
    pub(super) fn new(room: &'a Room, output: &'a Output) -> Self {
        Self { room, output, kept: Mutex::default() }
    }

    /// Keeps the next piece until its turn has come. Without room for it, that is waited for.
    ///
    /// # Errors
    /// Those of the file: no room there, either, and no turn; those of standard output.
    pub(super) fn write(&self, bytes: &[u8], turn: &dyn Turn) -> io::Result<()> {
        let kept = &mut *lock(&self.kept);
        if kept.has_turn {
            return self.output.write_more(bytes);
        }
        if !turn.has_come() {
            let Err(error) = self.keep(kept, bytes) else { return Ok(()) };
            if !turn.comes() {
                return Err(error);
            }
        }
        kept.has_turn = true;
        let output = FileOutput::new(self.output);
        self.leave_kept(kept, &output)?;
        output.write(bytes)
    }

    fn keep(&self, kept: &mut Kept, bytes: &[u8]) -> io::Result<()> {
        if kept.spill.is_none() && self.room.take(bytes.len()) {
            kept.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        let spill = match &mut kept.spill {
            Some(spill) => spill,
            none => {
                let folder = self.room.folder.as_ref().ok_or(io::ErrorKind::OutOfMemory)?;
                let file = tempfile::tempfile_in(folder);
                none.insert(file.map_err(|error| self.of_spill(error))?)
            }
        };
        spill.write_all(bytes).map_err(|error| self.of_spill(error))?;
        kept.spilled += bytes.len() as u64;
        Ok(())
    }

    /// Whether its turn came while it was written.
    pub(super) fn has_turn(&self) -> bool {
        lock(&self.kept).has_turn
    }

    /// Whether nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        let kept = lock(&self.kept);
        kept.bytes.is_empty() && kept.spill.is_none()
    }

    /// Writes all that is kept, now that its turn has come.
    ///
    /// # Errors
    /// Those of the file and of standard output; a closed pipe among them.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.leave_kept(&mut lock(&self.kept), &FileOutput::new(self.output))
    }

    fn leave_kept(&self, kept: &mut Kept, output: &FileOutput<'_>) -> io::Result<()> {
        let bytes = std::mem::take(&mut kept.bytes);
        self.room.give_back(bytes.len());
        output.write(&bytes)?;
        let Some(mut spill) = kept.spill.take() else { return Ok(()) };
        spill.rewind().map_err(|error| self.of_spill(error))?;
        let mut spill = spill.take(kept.spilled);
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            match spill.read(&mut block).map_err(|error| self.of_spill(error))? {
                0 => return Ok(()),
                read => output.write(&block[..read])?,
            }
        }
    }

    /// An error of the file, named by its folder: it has no name of its own.
    fn of_spill(&self, error: io::Error) -> io::Error {
        let folder = self.room.folder.as_ref().expect("there is a file in it").display();
        elsewhere(format!("{folder}: results that wait for their turn"), error)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.room
            .give_back(self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Never;

    impl Turn for Never {
        fn has_come(&self) -> bool {
            false
        }

        fn comes(&self) -> bool {
            false
        }
    }

    #[test]
    fn what_finds_no_room_goes_to_a_file_and_room_comes_back() {
        let room = Room::new(10, Some(std::env::temp_dir()));
        let output = Output::new(None, None);
        let (first, second) = (Held::new(&room, &output), Held::new(&room, &output));
        let write = |held: &Held<'_>, bytes: &[u8]| held.write(bytes, &Never).expect("kept");
        write(&first, b"12345");
        write(&second, b"1234567");
        write(&first, b"678");
        assert!(lock(&first.kept).spill.is_none() && lock(&second.kept).spill.is_some());
        drop(first);
        assert_eq!(room.left.load(Ordering::Relaxed), 10);
        write(&second, b"89");
        assert_eq!(lock(&second.kept).bytes, b"", "what comes later stays behind it");
    }
}
