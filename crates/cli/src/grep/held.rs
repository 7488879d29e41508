//! Output that waits for its turn: in memory as far as there is room, then in a file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::output::FileOutput;
use super::trouble::elsewhere;

/// Bytes that come back from a file at a time.
const BLOCK_BYTES: usize = 256 << 10;

/// Room for what waits, shared by all that does.
#[derive(Debug)]
pub(super) struct Room {
    left: AtomicU64,
    /// Where the rest goes.
    folder: PathBuf,
}

impl Room {
    pub(super) fn new(bytes: u64, folder: PathBuf) -> Self {
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

/// The output of one search.
#[derive(Debug)]
pub(super) struct Held<'a> {
    room: &'a Room,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// An unlinked file, with what comes after them.
    spill: Option<File>,
}

impl<'a> Held<'a> {
    pub(super) fn new(room: &'a Room) -> Self {
        Self { room, kept: Mutex::default() }
    }

    /// Keeps the next piece.
    ///
    /// # Errors
    /// Those of the file: no room there, either.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let kept = &mut *self.kept();
        if kept.spill.is_none() && self.room.take(bytes.len()) {
            kept.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        let spill = match &mut kept.spill {
            Some(spill) => spill,
            none => {
                let file = tempfile::tempfile_in(&self.room.folder);
                none.insert(file.map_err(|error| self.of_spill(error))?)
            }
        };
        spill.write_all(bytes).map_err(|error| self.of_spill(error))
    }

    /// Writes it all, now that its turn has come.
    ///
    /// # Errors
    /// Those of the file and of standard output; a closed pipe among them.
    pub(super) fn leave(&self, output: &FileOutput<'_>) -> io::Result<()> {
        let kept = &mut *self.kept();
        output.write(&kept.bytes)?;
        let Some(spill) = &mut kept.spill else { return Ok(()) };
        spill.rewind().map_err(|error| self.of_spill(error))?;
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            match spill.read(&mut block).map_err(|error| self.of_spill(error))? {
                0 => return Ok(()),
                read => output.write(&block[..read])?,
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error of the file, named by its folder: it has no name of its own.
    fn of_spill(&self, error: io::Error) -> io::Error {
        let folder = self.room.folder.display();
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

    #[test]
    fn what_finds_no_room_goes_to_a_file_and_room_comes_back() {
        let room = Room::new(10, std::env::temp_dir());
        let (first, second) = (Held::new(&room), Held::new(&room));
        first.write(b"12345").expect("kept");
        second.write(b"1234567").expect("kept");
        first.write(b"678").expect("kept");
        assert!(first.kept().spill.is_none() && second.kept().spill.is_some());
        drop(first);
        assert_eq!(room.left.load(Ordering::Relaxed), 10);
        second.write(b"89").expect("kept");
        assert_eq!(second.kept().bytes, b"", "what comes later stays behind it");
    }
}
