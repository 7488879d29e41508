//! What is left of a member to be read, and where it is.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use nearfirst::fetch::engine::opened_anew;
use nearfirst::{Engine, Member, MemberCopy, MemberError, Name, SpillFolder};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::apart::{self, Apart};
use crate::error;
use crate::filling::Filling;
use crate::pieces::Pieces;
use crate::wait::wait;

/// Bytes of a file that are read between two looks for a signal.
const FILE_READ_BYTES: usize = 8 << 20;
/// Bytes of a file that are read at a time: what is prepared for them stays in a core's cache.
const FILE_SPAN_BYTES: usize = 256 << 10;
/// Bytes that are taken of what has arrived between two looks for a signal: few enough to stay in a
/// core's cache until they are copied.
const ARRIVED_BYTES: usize = 1 << 20;
/// Bytes that are copied between two looks for a signal.
const COPY_BYTES: u64 = 64 << 20;

/// A member that is read forwards; what was read is let go.
#[derive(Debug)]
pub(crate) struct Reading {
    name: Name,
    source: Source,
    /// Arrived, and not read yet.
    pieces: Pieces,
    /// Bytes that were read: the whole is not here any more.
    taken: u64,
    /// Where a copy of it goes that has no place in memory.
    spill_folder: SpillFolder,
    /// Set when the member is closed, also while a thread reads.
    closed: Arc<AtomicBool>,
}

/// Where the bytes after the pieces come from.
#[derive(Debug)]
enum Source {
    /// The set's engine, or a file of this machine.
    Member(Box<Member>, Engine),
    /// A file of a mount that may not answer, of which a thread reads more.
    Away(Apart<(Source, Result<Bytes, MemberError>)>),
    /// All of it is here.
    Ended,
    /// A descriptor holds the whole.
    Kept { file: File, may_stall: bool },
    /// What kept it away.
    Failed(MemberError),
}

impl Reading {
    pub(crate) fn new(member: Member, engine: Engine) -> Self {
        let (name, spill_folder) = (member.name().clone(), engine.spill_folder().clone());
        let source = Source::Member(Box::new(member), engine);
        Self { spill_folder, ..Self::of(name, source) }
    }

    pub(crate) fn failed(error: MemberError) -> Self {
        Self::of(error.name.clone(), Source::Failed(error))
    }

    fn of(name: Name, source: Source) -> Self {
        let (pieces, closed) = (Pieces::default(), Arc::default());
        Self { name, source, pieces, taken: 0, spill_folder: SpillFolder::default(), closed }
    }

    /// Bytes that were read.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn closed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closed)
    }

    /// # Errors
    /// What a signal handler raises; the member was closed.
    fn goes_on(&self, py: Python<'_>) -> PyResult<()> {
        py.check_signals()?;
        is_open(&self.closed)
    }

    /// Bytes that were not read yet, if its store told how many there are: what is made as it is
    /// read has a size of 0.
    fn told(&self) -> Option<usize> {
        let size = match &self.source {
            Source::Member(member, _) => member.size()?,
            Source::Ended => self.taken + self.pieces.bytes() as u64,
            Source::Kept { file, may_stall: false } => file.metadata().ok()?.len(),
            Source::Away(_) | Source::Kept { .. } | Source::Failed(_) => return None,
        };
        usize::try_from(size.checked_sub(self.taken)?).ok().filter(|&told| told > 0)
    }

    /// Brings at least one more byte here; `false` at the end.
    fn more(&mut self, py: Python<'_>) -> PyResult<bool> {
        // Before, not after: what has arrived must not be lost by a signal.
        self.goes_on(py)?;
        self.send_away();
        let before = self.pieces.bytes();
        let last = match &mut self.source {
            Source::Ended => return Ok(false),
            Source::Failed(error) => return Err(error::of_member(py, error)),
            Source::Away(reading) => {
                let (source, next) = reading.ended(py, || is_open(&self.closed))?;
                self.source = source;
                Some(next)
            }
            Source::Kept { file, .. } => {
                self.pieces.push(py.detach(|| kept_piece(file))?);
                None
            }
            Source::Member(member, _) if is_file(member) => Some(py.detach(|| file_piece(member))),
            Source::Member(member, engine) => {
                let pieces = &mut self.pieces;
                let arrived = poll_fn(|context| poll_arrived(member, pieces, context));
                wait(py, engine, || is_open(&self.closed), arrived)?
            }
        };
        if let Some(next) = last {
            self.came(next);
        }
        match &self.source {
            Source::Failed(error) if self.pieces.bytes() == before => {
                Err(error::of_member(py, error))
            }
            _ => Ok(self.pieces.bytes() > before),
        }
    }

    /// Keeps what came next, or that nothing will.
    fn came(&mut self, next: Result<Bytes, MemberError>) {
        match next {
            // What is kept can be opened again.
            Ok(piece) if piece.is_empty() && !matches!(self.source, Source::Kept { .. }) => {
                self.source = Source::Ended;
            }
            Ok(piece) => self.pieces.push(piece),
            Err(error) => self.source = Source::Failed(error),
        }
    }

    /// Fills what there is room for with what comes next, or up to the end.
    fn fill<O: Send>(&mut self, py: Python<'_>, filling: &mut Filling<O>) -> PyResult<()> {
        loop {
            py.detach(|| self.pieces.fill(filling));
            if filling.room() == 0 {
                return Ok(());
            }
            self.goes_on(py)?;
            let is_more = match &mut self.source {
                Source::Member(member, _) if is_file(member) && !member.may_stall() => {
                    match py.detach(|| read_on(filling, |span| member.read_into(span))) {
                        Ok(read) => read > 0,
                        Err(error) => {
                            self.source = Source::Failed(error);
                            self.more(py)?
                        }
                    }
                }
                Source::Kept { file, may_stall: false } => {
                    py.detach(|| read_on(filling, |span| read_file(file, span)))? > 0
                }
                _ => self.more(py)?,
            };
            if !is_more {
                return Ok(());
            }
        }
    }

    /// Whether there is no more of it.
    fn ends(&mut self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.pieces.is_empty() && !self.more(py)?)
    }

    /// The next `size` bytes, fewer at the end, all if there is no size, in memory of that size.
    fn made<O: Send>(
        &mut self,
        py: Python<'_>,
        size: Option<usize>,
        make: impl Fn(usize) -> io::Result<Filling<O>>,
    ) -> PyResult<Filling<O>> {
        let wanted = size.unwrap_or(usize::MAX);
        let mut told = self.told();
        loop {
            let bytes = if let Some(told) = told.take() {
                told
            } else {
                while self.pieces.bytes() < wanted && self.more(py)? {}
                self.pieces.bytes()
            };
            let bytes_here = bytes.min(wanted);
            let made = make(bytes_here);
            let mut filling = made.map_err(|_| self.has_no_memory(bytes_here))?;
            let is_all = match self.fill(py, &mut filling) {
                Ok(()) if bytes < wanted => self.ends(py),
                filled => filled.map(|()| true),
            };
            if matches!(is_all, Ok(true)) {
                return Ok(filling);
            }
            // A signal or an error, or there is more of it than was told: nothing of it is lost.
            self.pieces.put_back(Bytes::copy_from_slice(filling.filled()));
            is_all?;
        }
    }

    fn has_no_memory(&self, bytes: usize) -> PyErr {
        let name = self.name.redacted();
        PyMemoryError::new_err(format!("{name}: there is no memory for {bytes} bytes"))
    }

    /// Has a thread read on where reading may not return.
    fn send_away(&mut self) {
        let may_stall = match &self.source {
            Source::Member(member, _) => member.may_stall(),
            Source::Kept { may_stall, .. } => *may_stall,
            Source::Away(_) | Source::Ended | Source::Failed(_) => false,
        };
        if !may_stall {
            return;
        }
        let mut source = std::mem::replace(&mut self.source, Source::Ended);
        let name = self.name.clone();
        let read = move || {
            let piece = match &mut source {
                Source::Member(member, _) => file_piece(member),
                Source::Kept { file, .. } => kept_piece(file).map_err(|error| unread(&name, error)),
                _ => unreachable!("nothing else may stall"),
            };
            (source, piece)
        };
        self.source = match Apart::begin(read) {
            Ok(reading) => Source::Away(reading),
            Err(error) => Source::Failed(unread(&self.name, error)),
        };
    }

    fn failing(&self, cause: nearfirst::Error) -> Source {
        Source::Failed(MemberError::new(self.name.clone(), cause))
    }

    /// The next `size` bytes, fewer at the end; all if there is no size.
    pub(crate) fn take<'py>(
        &mut self,
        py: Python<'py>,
        size: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let made = self.made(py, size, |bytes| Filling::object(py, bytes))?;
        self.taken += made.filled().len() as u64;
        Ok(made.done(py))
    }

    /// As many of the next bytes as are here and have room, at least one; 0 at the end.
    pub(crate) fn take_into(&mut self, py: Python<'_>, room: usize) -> PyResult<Bytes> {
        if room > 0 && self.pieces.is_empty() {
            self.more(py)?;
        }
        let taken = self.pieces.pop(room).unwrap_or_default();
        self.taken += taken.len() as u64;
        Ok(taken)
    }

    /// The next bytes up to the end of a line, and no more than `size`; none at the end.
    pub(crate) fn line<'py>(
        &mut self,
        py: Python<'py>,
        size: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut looked = 0;
        let bytes = loop {
            if let Some(end) = self.pieces.find(b'\n', looked, size) {
                break end + 1;
            }
            looked = self.pieces.bytes().min(size);
            if looked == size || !self.more(py)? {
                break looked;
            }
        };
        if self.pieces.first_bytes().is_none_or(|first| first < bytes) {
            return self.take(py, Some(bytes));
        }
        let line = self.pieces.pop(bytes).unwrap_or_default();
        self.taken += line.len() as u64;
        Ok(PyBytes::new(py, &line))
    }

    /// All of it, which stays to be read.
    ///
    /// # Errors
    /// Some was read already; what kept the rest away.
    pub(crate) fn whole(&mut self, py: Python<'_>) -> PyResult<Bytes> {
        self.not_begun()?;
        let whole = if self.pieces.is_empty() && !self.more(py)? {
            Bytes::new()
        } else if self.pieces.first_bytes() == self.told() {
            self.pieces.pop(usize::MAX).expect("it is the only one")
        } else {
            self.made(py, None, Filling::pages)?.done()
        };
        self.pieces.push(whole.clone());
        Ok(whole)
    }

    /// A descriptor of its own position that holds the whole, and can seek.
    ///
    /// # Errors
    /// Some was read already; what kept the rest away; no room for it.
    pub(crate) fn file(&mut self, py: Python<'_>) -> PyResult<File> {
        // A signal may have left a thread that reads of what is kept.
        if let Source::Away(reading) = &mut self.source {
            let (source, next) = reading.ended(py, || is_open(&self.closed))?;
            self.source = source;
            self.came(next);
        }
        if !matches!(self.source, Source::Kept { .. }) {
            self.not_begun()?;
            let may_stall = matches!(&self.source, Source::Member(member, _) if member.may_stall());
            let file = self.gathered(py)?;
            self.source = Source::Kept { file, may_stall };
        }
        let Source::Kept { file, may_stall } = &self.source else {
            unreachable!("it was kept above")
        };
        let file = file.try_clone()?;
        Ok(apart::asked(py, *may_stall, move || opened_anew(&file, 0))??)
    }

    fn gathered(&mut self, py: Python<'_>) -> PyResult<File> {
        if let Source::Member(member, _) = &mut self.source
            && is_file(member)
            && self.pieces.is_empty()
        {
            let file = py.detach(|| member.file());
            return file.map_err(|error| error::of_member(py, &error));
        }
        let size = self.told().map(|told| told as u64);
        let copy = MemberCopy::new(&self.name, size, &self.spill_folder);
        let mut copy = copy.map_err(|error| error::of(py, &self.name, &error))?;
        self.gathered_in(py, &mut copy)?;
        Ok(copy.whole()?)
    }

    /// Writes the whole to a new file, which is what its bytes are had from then on.
    ///
    /// # Errors
    /// Some was read already; what kept the rest away; no room for it.
    pub(crate) fn copied_to(&mut self, py: Python<'_>, file: File, folder: &Path) -> PyResult<()> {
        // A program that somebody has open for writing cannot be run.
        let reader = opened_anew(&file, 0).map_err(|error| self.no_copy(py, folder, &error))?;
        let mut copy = MemberCopy::to(file, folder);
        if let Source::Kept { file: kept, .. } = &self.source {
            let kept = opened_anew(kept, 0)?;
            while py
                .detach(|| copy.put_file(&kept, COPY_BYTES))
                .map_err(|error| error::of(py, &self.name, &self.unwritten(error)))?
                > 0
            {
                self.goes_on(py)?;
            }
            return Ok(());
        }
        self.not_begun()?;
        self.gathered_in(py, &mut copy)?;
        self.source = Source::Kept { file: reader, may_stall: false };
        Ok(())
    }

    /// Where a copy of it goes that has no place in memory.
    pub(crate) fn folder(&self) -> PathBuf {
        self.spill_folder.path().into_owned()
    }

    /// That there is no place for a copy of it.
    pub(crate) fn no_copy(&self, py: Python<'_>, folder: &Path, error: &io::Error) -> PyErr {
        let error = nearfirst::Error::no_copy(self.name.clone(), folder, error);
        error::of(py, &self.name, &error)
    }

    /// That there was a place for some of it.
    fn unwritten(&self, error: io::Error) -> nearfirst::Error {
        nearfirst::Error::io(self.name.to_string_lossy().into_owned(), error)
    }

    /// Adds all that was not read yet.
    fn gathered_in(&mut self, py: Python<'_>, copy: &mut MemberCopy) -> PyResult<()> {
        let copied = self.copy_to(py, copy);
        // What was copied in part is gone: the rest must not pass for the whole.
        if copied.is_err() && !matches!(self.source, Source::Failed(_)) {
            let reason = "copying it was broken off";
            self.source = self.failing(nearfirst::Error::interrupted(self.name.clone(), reason));
        }
        copied
    }

    fn copy_to(&mut self, py: Python<'_>, copy: &mut MemberCopy) -> PyResult<()> {
        loop {
            while let Some(piece) = self.pieces.pop(usize::MAX) {
                if let Err(full) = py.detach(|| copy.put(&piece)) {
                    let cause = self.unwritten(full);
                    let told = error::of(py, &self.name, &cause);
                    self.source = self.failing(cause);
                    return Err(told);
                }
            }
            if !self.more(py)? {
                return Ok(());
            }
        }
    }

    /// What kept it away, if that is known.
    pub(crate) fn error(&self) -> Option<&MemberError> {
        match &self.source {
            Source::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// # Errors
    /// Some was read already.
    pub(crate) fn not_begun(&self) -> PyResult<()> {
        if self.taken > 0 {
            return Err(PyValueError::new_err(
                "some of this member was read and let go; ask for the whole before reading",
            ));
        }
        Ok(())
    }
}

/// # Errors
/// The member was closed.
pub(crate) fn is_open(closed: &AtomicBool) -> PyResult<()> {
    if closed.load(Ordering::Acquire) { Err(is_closed()) } else { Ok(()) }
}

/// That a member was closed.
pub(crate) fn is_closed() -> PyErr {
    PyValueError::new_err("the member is closed")
}

/// Whether it is a file of this machine.
fn is_file(member: &Member) -> bool {
    member.path().is_some()
}

/// That a member cannot be read.
fn unread(name: &Name, error: io::Error) -> MemberError {
    let cause = nearfirst::Error::io(name.to_string_lossy().into_owned(), error);
    MemberError::new(name.clone(), cause)
}

/// Takes what has arrived, and its end or error if that is next; waits for the first of it.
fn poll_arrived(
    member: &mut Member,
    pieces: &mut Pieces,
    context: &Context<'_>,
) -> Poll<Option<Result<Bytes, MemberError>>> {
    let before = pieces.bytes();
    while pieces.bytes() < before + ARRIVED_BYTES {
        match member.poll_chunk(context) {
            Poll::Ready(Ok(piece)) if !piece.is_empty() => pieces.push(piece),
            Poll::Ready(last) => return Poll::Ready(Some(last)),
            Poll::Pending if pieces.bytes() == before => return Poll::Pending,
            Poll::Pending => break,
        }
    }
    Poll::Ready(None)
}

/// Fills some of the room by what `read` reads; 0 bytes at the end.
fn read_on<O, E>(
    filling: &mut Filling<O>,
    mut read: impl FnMut(&mut [u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut bytes = 0;
    while bytes < FILE_READ_BYTES && filling.room() > 0 {
        match filling.read(FILE_SPAN_BYTES, &mut read)? {
            0 => break,
            read => bytes += read,
        }
    }
    Ok(bytes)
}

fn read_file(file: &File, span: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(&*file, &mut *span))?)
}

fn kept_piece(file: &mut File) -> io::Result<Bytes> {
    let mut piece = Vec::new();
    file.take(FILE_READ_BYTES as u64).read_to_end(&mut piece)?;
    Ok(piece.into())
}

/// The next bytes of a file; empty at its end.
fn file_piece(member: &mut Member) -> Result<Bytes, MemberError> {
    let size = member.size().and_then(|size| usize::try_from(size).ok());
    let mut piece = vec![0; size.map_or(FILE_READ_BYTES, |size| size.clamp(1, FILE_READ_BYTES))];
    let mut filled = 0;
    while filled < piece.len() {
        let read = member.read_into(&mut piece[filled..])?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    piece.truncate(filled);
    Ok(piece.into())
}
