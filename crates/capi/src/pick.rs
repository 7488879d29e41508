//! A pick: what is left to read of one open file, and when to ask again where it is.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearfirst::{Picker, Piece, Place, Plan, Sled, pull_edges};

use crate::costs::costs;
use crate::descriptor::{Identity, is_to_read, regular_file};
use crate::error::Failure;

/// The piece size where the caller leaves it to the library: past it, larger
/// reads from the page cache are no faster, and a disk's readahead covers the rest.
const PIECE_BYTES_DEFAULT: u64 = 256 << 10;
/// A pass asks at most so many times again where the file is: at the worst
/// answer seen, 70 ms for 4 GiB, that adds 2 s to a pass of that size.
const ASKS_MAX: u64 = 32;
/// Less than this is not worth asking again for.
const ASK_BYTES_MIN: u64 = 1 << 20;
/// While near pieces are left, asking again is so many times rarer.
const ASK_RARER_WHILE_NEAR: u64 = 4;
/// Far pieces up to this size are read forward before their end is looked for,
/// so that the device sees one sequential read. For longer ones the one seek
/// to the end costs less than reading twice.
const FORWARD_BYTES_MAX: u64 = 16 << 20;
/// Bytes read forward at a time.
const FORWARD_STEP_BYTES: usize = 128 << 10;

/// How a file is to be picked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PickOptions {
    /// Bytes of a piece at most; 0 leaves it to the library.
    pub(crate) piece_bytes: u64,
    /// With a separator every piece starts at the start of a record.
    pub(crate) separator: Option<u8>,
    pub(crate) plan: Plan,
}

/// What is left to read of one open file.
#[derive(Debug)]
pub(crate) struct Pick {
    fd: c_int,
    identity: Identity,
    separator: Option<u8>,
    piece_bytes: u64,
    picker: Picker,
    /// Taken from the picker but not yet handed out: it did not fit the caller's integers.
    held: Option<Piece>,
    asks: Asks,
    /// The failure after which pieces are missing; the pick cannot go on.
    broken: Option<Failure>,
}

impl Pick {
    /// Begins to pick from the regular file open at `fd`.
    pub(crate) fn new(fd: c_int, options: PickOptions) -> Result<Self, Failure> {
        let (file, identity) = regular_file(fd)?;
        is_to_read(fd, file)?;
        let piece_bytes = match options.piece_bytes {
            0 => PIECE_BYTES_DEFAULT,
            bytes => bytes,
        };
        let sleds = sleds_of(fd, file, options.separator)?;
        Ok(Self {
            fd,
            identity,
            separator: options.separator,
            piece_bytes,
            picker: Picker::with_plan(&sleds, piece_bytes, options.plan),
            held: None,
            asks: Asks::new(sleds.last().map_or(0, |last| last.range().end), options.plan),
            broken: None,
        })
    }

    /// Bytes of a piece at most.
    pub(crate) fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// The next piece if `fits` accepts it; one that does not fit is kept for the next call.
    pub(crate) fn next_if<T>(
        &mut self,
        fits: impl FnOnce(Option<&Piece>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.held {
            None => self.held = self.take()?,
            // It is of the file that was open then.
            Some(_) => drop(self.file()?),
        }
        let fitted = fits(self.held.as_ref())?;
        self.held = None;
        Ok(fitted)
    }

    /// Asks again where the file is.
    pub(crate) fn refresh(&mut self) -> Result<(), Failure> {
        let file = self.file()?;
        let sleds = sleds_of(self.fd, file, self.separator)?;
        self.picker.refresh(&sleds);
        self.asks.asked();
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Piece>, Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        let file = self.file()?;
        let Some(next) = self.picker.peek() else { return Ok(None) };
        if self.asks.is_due(next.place == Place::Near) {
            // Without a fresh answer the last one still holds every byte.
            self.asks.asked();
            drop(self.refresh());
        }
        let piece = match self.separator {
            None => self.picker.take(),
            Some(separator) => self.take_records(file, separator)?,
        };
        self.asks.took(piece.as_ref().map_or(0, |piece| piece.length));
        Ok(piece)
    }

    fn take_records(
        &mut self,
        file: BorrowedFd<'_>,
        separator: u8,
    ) -> Result<Option<Piece>, Failure> {
        let mut read = |offset, buffer: &mut [u8]| read_at(file, offset, buffer);
        let forward = match self.picker.peek() {
            Some(piece) if piece.place != Place::Near && piece.length <= FORWARD_BYTES_MAX => {
                read_forward(&piece, &mut read)
            }
            _ => Ok(()),
        };
        let taken = forward.and_then(|()| self.picker.take_records(separator, &mut read));
        taken.map_err(|error| {
            let failure = Failure::of_descriptor(self.fd, error);
            self.broken = Some(failure.clone());
            failure
        })
    }

    fn file<'a>(&self) -> Result<BorrowedFd<'a>, Failure> {
        let (file, identity) = regular_file(self.fd)?;
        if identity != self.identity {
            let message = format!("descriptor {} is another file than the one picked", self.fd);
            return Err(Failure::new(libc::EBADF, message));
        }
        Ok(file)
    }
}

fn sleds_of(fd: c_int, file: BorrowedFd<'_>, separator: Option<u8>) -> Result<Vec<Sled>, Failure> {
    let failed = |error: io::Error| Failure::of_descriptor(fd, error);
    let sleds = costs().file_sleds(&file).map_err(failed)?;
    match separator {
        None => Ok(sleds),
        Some(_) if sleds.iter().any(|sled| sled.place == Place::Cold) => {
            let message = format!("descriptor {fd}: offline: to find its records would recall it");
            Err(Failure::new(libc::EREMOTEIO, message))
        }
        Some(separator) => {
            pull_edges(&sleds, separator, |offset, buffer| read_at(file, offset, buffer))
                .map_err(failed)
        }
    }
}

fn read_forward(
    piece: &Piece,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; FORWARD_STEP_BYTES];
    let mut at = piece.offset;
    let end = piece.range().end;
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(FORWARD_STEP_BYTES);
        let part = &mut buffer[..left.min(FORWARD_STEP_BYTES)];
        read(at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}

fn read_at(file: BorrowedFd<'_>, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match rustix::io::pread(file, &mut *buffer, offset) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter while it was read",
                ));
            }
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// When to ask again where a file is: after a 32nd of it has been taken once
/// what is next is not near, and after an eighth while near pieces are left.
#[derive(Debug)]
struct Asks {
    step_bytes: u64,
    taken_bytes: u64,
}

impl Asks {
    fn new(size: u64, plan: Plan) -> Self {
        let step_bytes = match plan {
            Plan::Best => (size / ASKS_MAX).max(ASK_BYTES_MIN),
            // File order is file order, wherever data is.
            Plan::Linear => u64::MAX,
        };
        Self { step_bytes, taken_bytes: 0 }
    }

    fn is_due(&self, next_is_near: bool) -> bool {
        let rarer = if next_is_near { ASK_RARER_WHILE_NEAR } else { 1 };
        self.taken_bytes >= self.step_bytes.saturating_mul(rarer)
    }

    fn took(&mut self, bytes: u64) {
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
    }

    fn asked(&mut self) {
        self.taken_bytes = 0;
    }
}

/// Picks under way, each by its number.
#[derive(Debug)]
pub(crate) struct Picks(Mutex<BTreeMap<i64, Arc<Mutex<Pick>>>>);

impl Picks {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Keeps `pick` as `number`, in place of the one before it.
    pub(crate) fn insert(&self, number: i64, pick: Pick) {
        let before = self.lock().insert(number, Arc::new(Mutex::new(pick)));
        drop(before);
    }

    /// Calls `use_it` with the pick; other picks do not wait for it.
    pub(crate) fn with<T>(
        &self,
        number: i64,
        use_it: impl FnOnce(&mut Pick) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let pick = self.lock().get(&number).map(Arc::clone)?;
        let mut pick = pick.lock().unwrap_or_else(PoisonError::into_inner);
        Some(use_it(&mut pick))
    }

    /// Ends a pick; `false` if there is none.
    pub(crate) fn remove(&self, number: i64) -> bool {
        let removed = self.lock().remove(&number);
        removed.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Arc<Mutex<Pick>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_again_is_bounded_and_rarer_while_near_pieces_are_left() {
        let size = 64 << 20;
        let mut asks = Asks::new(size, Plan::Best);
        asks.took(size / 32 - 1);
        assert!(!asks.is_due(false));
        asks.took(1);
        assert!(asks.is_due(false) && !asks.is_due(true));
        asks.took(size / 32 * 3);
        assert!(asks.is_due(true));
        asks.asked();
        assert!(!asks.is_due(false));
    }

    #[test]
    fn file_order_never_asks_again() {
        let mut asks = Asks::new(1 << 40, Plan::Linear);
        asks.took(1 << 40);
        assert!(!asks.is_due(false));
    }
}
