//! Picks of this process by number; what comes next is the library's.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use nearfirst::{PickOptions, Picked, Piece, Plan, Sled};
use rustix::io::retry_on_intr;

use crate::costs::costs;
use crate::descriptor::{Identity, is_to_read, regular_file};
use crate::error::Failure;
use crate::sync::lock;

/// How a file is to be picked; a `piece_bytes` of 0 leaves that to the library.
pub(crate) fn how(piece_bytes: u64, separator: Option<u8>, plan: Plan) -> PickOptions {
    let default = PickOptions::default();
    let piece_bytes = if piece_bytes == 0 { default.piece_bytes } else { piece_bytes };
    PickOptions { piece_bytes, separator, plan }
}

/// What is left to read of one open file.
#[derive(Debug)]
pub(crate) struct Pick {
    fd: c_int,
    identity: Identity,
    rest: nearfirst::Pick,
    /// Taken but not yet handed out: it did not fit the caller's integers.
    held: Option<Piece>,
}

impl Pick {
    /// Begins to pick from the regular file open at `fd`.
    pub(crate) fn new(fd: c_int, options: PickOptions) -> Result<Self, Failure> {
        let (file, identity) = regular_file(fd)?;
        is_to_read(fd, file)?;
        if options.separator.is_some() && costs().is_offline(&file) {
            let message = format!("descriptor {fd}: offline: to find its records would recall it");
            return Err(Failure::new(libc::EREMOTEIO, message));
        }
        let rest = nearfirst::Pick::new(&Opened { fd, file }, options)?;
        Ok(Self { fd, identity, rest, held: None })
    }

    /// The next piece if `fits` accepts it; one that does not fit is kept for the next call.
    pub(crate) fn next_if<T>(
        &mut self,
        fits: impl FnOnce(Option<&Piece>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // What is held is of the file that was open then.
        let opened = self.opened()?;
        if self.held.is_none() {
            self.held = self.rest.next(&opened)?;
        }
        let fitted = fits(self.held.as_ref())?;
        self.held = None;
        Ok(fitted)
    }

    /// Asks again where the file is.
    pub(crate) fn refresh(&mut self) -> Result<(), Failure> {
        let opened = self.opened()?;
        self.rest.refresh(&opened)
    }

    fn opened<'a>(&self) -> Result<Opened<'a>, Failure> {
        let (file, identity) = regular_file(self.fd)?;
        if identity != self.identity {
            let message = format!("descriptor {} is another file than the one picked", self.fd);
            return Err(Failure::new(libc::EBADF, message));
        }
        Ok(Opened { fd: self.fd, file })
    }
}

/// The caller's descriptor, for the time of a call.
struct Opened<'a> {
    fd: c_int,
    file: BorrowedFd<'a>,
}

impl Picked for Opened<'_> {
    type Error = Failure;

    fn sleds(&self) -> Result<Vec<Sled>, Failure> {
        costs().file_sleds(&self.file).map_err(|error| Failure::of_descriptor(self.fd, error))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        read_at(self.file, offset, buffer).map_err(|error| Failure::of_descriptor(self.fd, error))
    }
}

fn read_at(file: BorrowedFd<'_>, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset)) {
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
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
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
        let mut pick = lock(&pick);
        Some(use_it(&mut pick))
    }

    /// Ends a pick; `false` if there is none.
    pub(crate) fn remove(&self, number: i64) -> bool {
        let removed = self.lock().remove(&number);
        removed.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Arc<Mutex<Pick>>>> {
        lock(&self.0)
    }
}
