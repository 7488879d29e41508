//! What is left of a member to be read, and where it is.

use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read as _, Seek as _, Write as _};

use bytes::{Buf as _, Bytes, BytesMut};
use nearfirst::{Engine, Member, MemberError, Name};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::apart::Apart;
use crate::error;
use crate::wait::wait;

/// Bytes of a file that are read between two looks for a signal.
const FILE_READ_BYTES: usize = 8 << 20;
/// Bytes that are copied between two looks for a signal.
const COPY_BYTES: u64 = 64 << 20;
/// Bytes of a remote member up to which its descriptor is memory; larger ones lie in a file.
const MEMORY_FILE_BYTES_MAX: u64 = 8 << 20;

/// A member that is read forwards; what was read is let go.
#[derive(Debug)]
pub(crate) struct Reading {
    name: Name,
    source: Source,
    /// Arrived, and not read yet.
    pieces: VecDeque<Bytes>,
    /// Whether some was read, so that the whole is not here any more.
    begun: bool,
}

/// Where the bytes after the pieces come from.
#[derive(Debug)]
enum Source {
    /// The set's engine, or a file of this machine.
    Member(Box<Member>, Engine),
    /// A file of a mount that may not answer, of which a thread reads more.
    Away(Apart<(Box<Member>, Result<Bytes, MemberError>)>, Engine),
    /// All of it is here.
    Ended,
    /// A descriptor holds the whole.
    Kept(File),
    /// What kept it away.
    Failed(MemberError),
}

impl Reading {
    pub(crate) fn new(member: Member, engine: Engine) -> Self {
        Self::of(member.name().clone(), Source::Member(Box::new(member), engine))
    }

    pub(crate) fn failed(error: MemberError) -> Self {
        Self::of(error.name.clone(), Source::Failed(error))
    }

    fn of(name: Name, source: Source) -> Self {
        Self { name, source, pieces: VecDeque::new(), begun: false }
    }

    /// Bytes that are here.
    fn here(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Brings at least one more byte here; `false` at the end.
    fn more(&mut self, py: Python<'_>) -> PyResult<bool> {
        // Before, not after: what has arrived must not be lost by a signal.
        py.check_signals()?;
        self.send_away();
        let next = match &mut self.source {
            Source::Ended => Ok(Bytes::new()),
            Source::Failed(error) => Err(error.clone()),
            Source::Away(reading, engine) => {
                let (member, next) = reading.ended(py)?;
                self.source = Source::Member(member, engine.clone());
                next
            }
            Source::Kept(_) => return Ok(self.kept_piece(py)?),
            Source::Member(member, _) if member.name().path().is_some() => {
                py.detach(|| file_piece(member))
            }
            Source::Member(member, engine) => {
                let next = poll_fn(|context| member.poll_chunk(context));
                wait(py, engine, || Ok(()), next)?
            }
        };
        match next {
            Ok(piece) if piece.is_empty() => {
                self.source = Source::Ended;
                Ok(false)
            }
            Ok(piece) => {
                self.pieces.push_back(piece);
                Ok(true)
            }
            Err(error) => {
                let raised = error::of_member(py, &error);
                self.source = Source::Failed(error);
                Err(raised)
            }
        }
    }

    /// Has a thread read on where reading may not return.
    fn send_away(&mut self) {
        let may_stall =
            |source: &Source| matches!(source, Source::Member(member, _) if member.may_stall());
        if !may_stall(&self.source) {
            return;
        }
        let Source::Member(mut member, engine) = std::mem::replace(&mut self.source, Source::Ended)
        else {
            unreachable!("it is a member that may stall")
        };
        let read = move || {
            let piece = file_piece(&mut member);
            (member, piece)
        };
        self.source = match Apart::begin(read) {
            Ok(reading) => Source::Away(reading, engine),
            Err(error) => {
                self.failing(nearfirst::Error::io(self.name.to_string_lossy().into_owned(), error))
            }
        };
    }

    fn failing(&self, cause: nearfirst::Error) -> Source {
        Source::Failed(MemberError { name: self.name.clone(), cause: cause.into() })
    }

    fn kept_piece(&mut self, py: Python<'_>) -> io::Result<bool> {
        let Source::Kept(file) = &mut self.source else { return Ok(false) };
        let mut piece = Vec::new();
        py.detach(|| file.take(FILE_READ_BYTES as u64).read_to_end(&mut piece))?;
        let is_more = !piece.is_empty();
        if is_more {
            self.pieces.push_back(piece.into());
        }
        Ok(is_more)
    }

    /// The next `size` bytes, fewer at the end; all if there is no size.
    pub(crate) fn take(&mut self, py: Python<'_>, size: Option<usize>) -> PyResult<Bytes> {
        let wanted = size.unwrap_or(usize::MAX);
        while self.here() < wanted && self.more(py)? {}
        let taken = self.joined(wanted);
        self.begun |= !taken.is_empty();
        Ok(taken)
    }

    /// As many of the next bytes as are here and have room, at least one; 0 at the end.
    pub(crate) fn take_into(&mut self, py: Python<'_>, room: usize) -> PyResult<Bytes> {
        if room > 0 && self.pieces.is_empty() {
            self.more(py)?;
        }
        let first = self.pieces.front().map_or(0, Bytes::len);
        let taken = self.joined(room.min(first));
        self.begun |= !taken.is_empty();
        Ok(taken)
    }

    /// The first bytes of what is here, without a copy if they are one piece's.
    fn joined(&mut self, bytes: usize) -> Bytes {
        let bytes = bytes.min(self.here());
        match self.pieces.front_mut() {
            None => Bytes::new(),
            Some(first) if first.len() > bytes => first.split_to(bytes),
            Some(first) if first.len() == bytes => self.pieces.pop_front().expect("it is there"),
            Some(_) => {
                let mut whole = BytesMut::with_capacity(bytes);
                while whole.len() < bytes {
                    let first = self.pieces.front_mut().expect("so many bytes are here");
                    let part = first.len().min(bytes - whole.len());
                    whole.extend_from_slice(&first[..part]);
                    first.advance(part);
                    if first.is_empty() {
                        self.pieces.pop_front();
                    }
                }
                whole.freeze()
            }
        }
    }

    /// All of it, which stays to be read.
    ///
    /// # Errors
    /// Some was read already; what kept the rest away.
    pub(crate) fn whole(&mut self, py: Python<'_>) -> PyResult<Bytes> {
        self.not_begun()?;
        while self.more(py)? {}
        let whole = self.joined(usize::MAX);
        self.pieces.push_back(whole.clone());
        if let Source::Kept(file) = &mut self.source {
            // Others open it: they begin at its beginning.
            file.rewind()?;
            self.source = Source::Ended;
        }
        Ok(whole)
    }

    /// A descriptor of its own position that holds the whole, and can seek.
    ///
    /// # Errors
    /// Some was read already; what kept the rest away; no room for it.
    pub(crate) fn file(&mut self, py: Python<'_>) -> PyResult<File> {
        if !matches!(self.source, Source::Kept(_)) {
            self.not_begun()?;
            let file = self.gathered(py)?;
            self.source = Source::Kept(file);
            self.begun = false;
        }
        let Source::Kept(file) = &self.source else { unreachable!("it was kept above") };
        Ok(crate::file::again(file)?)
    }

    fn gathered(&mut self, py: Python<'_>) -> PyResult<File> {
        if let Source::Member(member, _) = &mut self.source
            && member.name().path().is_some()
            && self.pieces.is_empty()
        {
            let file = py.detach(|| member.file());
            return file.map_err(|error| error::of_member(py, &error));
        }
        let size = match &self.source {
            Source::Member(member, _) => member.size(),
            Source::Away(..) => None,
            _ => Some(self.here() as u64),
        };
        let file = crate::file::temporary(size.is_some_and(|size| size <= MEMORY_FILE_BYTES_MAX))?;
        self.gathered_in(py, file)
    }

    /// Writes the whole to a new file, which is what its bytes are had from then on.
    ///
    /// # Errors
    /// Some was read already; what kept the rest away; no room for it.
    pub(crate) fn copied_to(&mut self, py: Python<'_>, mut file: File) -> PyResult<()> {
        if let Source::Kept(kept) = &self.source {
            let kept = crate::file::again(kept)?;
            while py.detach(|| io::copy(&mut (&kept).take(COPY_BYTES), &mut file))? > 0 {
                py.check_signals()?;
            }
            return Ok(());
        }
        self.not_begun()?;
        let file = self.gathered_in(py, file)?;
        // A program that somebody has open for writing cannot be run.
        self.source = Source::Kept(crate::file::again(&file)?);
        Ok(())
    }

    /// The file, with all that was not read yet, at its beginning.
    fn gathered_in(&mut self, py: Python<'_>, mut file: File) -> PyResult<File> {
        if let Err(error) = self.copy_to(py, &mut file) {
            // What was copied in part is gone: the rest must not pass for the whole.
            if !matches!(self.source, Source::Failed(_)) {
                let reason = "copying it was broken off";
                self.source =
                    self.failing(nearfirst::Error::interrupted(self.name.clone(), reason));
            }
            return Err(error);
        }
        file.rewind()?;
        Ok(file)
    }

    /// Writes all that was not read yet.
    fn copy_to(&mut self, py: Python<'_>, file: &mut File) -> PyResult<()> {
        loop {
            while let Some(piece) = self.pieces.pop_front() {
                py.detach(|| file.write_all(&piece))?;
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
        if self.begun {
            return Err(PyValueError::new_err(
                "some of this member was read and let go; ask for the whole before reading",
            ));
        }
        Ok(())
    }
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
