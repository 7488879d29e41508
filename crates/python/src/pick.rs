//! The pieces of a file, near first, for Python.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearfirst::{Backing, Error, Name, Picker};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::apart::{self, Apart};
use crate::costs::costs_and_warnings;
use crate::error;
use crate::sled::{local, place_word, plan_of};

/// A piece of a file, and its bytes.
#[pyclass(frozen, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Piece {
    #[pyo3(get)]
    /// First byte.
    offset: u64,
    #[pyo3(get)]
    /// Where it was when it was picked.
    place: &'static str,
    #[pyo3(get)]
    /// Where it would be fetched from.
    device: String,
    #[pyo3(get)]
    /// Its bytes.
    data: Py<PyBytes>,
}

#[pymethods]
impl Piece {
    fn __bytes__(&self, py: Python<'_>) -> Py<PyBytes> {
        self.data.clone_ref(py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.data.bind(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Self { offset, place, device, .. } = self;
        Ok(format!("<nearfirst.Piece {offset}+{} {place} on {device}>", self.__len__(py)?))
    }
}

/// The pieces of a file, each byte once.
#[pyclass(frozen, module = "nearfirst._nearfirst")]
#[derive(Debug)]
pub(crate) struct Pieces {
    picked: Arc<Picked>,
    /// Whether its mount may not answer.
    may_stall: bool,
    /// Of such a mount, what Ctrl-C did not wait for: the next one to ask has it.
    coming: Mutex<Option<Apart<Next>>>,
}

/// A piece and its bytes; `None` at the end.
type Next = Result<Option<(nearfirst::Piece, Vec<u8>)>, Error>;

/// A file, and what of it was not handed out yet.
#[derive(Debug)]
struct Picked {
    name: Name,
    file: File,
    separator: Option<u8>,
    picker: Mutex<Picker>,
}

impl Picked {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Changed { name: self.name.clone() },
            _ => Error::io(self.name.to_string_lossy().into_owned(), error),
        })
    }

    fn next(&self) -> Next {
        let piece = {
            let mut picker = self.picker.lock().unwrap_or_else(PoisonError::into_inner);
            match self.separator {
                Some(separator) => {
                    picker.take_records(separator, |offset, buffer| self.read(offset, buffer))?
                }
                None => picker.take(),
            }
        };
        let Some(piece) = piece else { return Ok(None) };
        let mut bytes = zeroed(piece.length).ok_or_else(|| {
            let reason = format!("there is no memory for a piece of {} bytes", piece.length);
            Error::refused(self.name.clone(), reason)
        })?;
        self.read(piece.offset, &mut bytes)?;
        Ok(Some((piece, bytes)))
    }
}

/// Bytes to be filled; `None` without memory for them.
fn zeroed(length: u64) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    bytes.resize(length, 0);
    Some(bytes)
}

impl Pieces {
    fn coming(&self) -> MutexGuard<'_, Option<Apart<Next>>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece, read by another thread.
    fn apart(&self, py: Python<'_>) -> PyResult<Next> {
        let left = self.coming().take();
        let mut coming = if let Some(coming) = left {
            coming
        } else {
            let picked = Arc::clone(&self.picked);
            Apart::begin(move || picked.next())?
        };
        coming.ended(py).inspect_err(|_| *self.coming() = Some(coming))
    }
}

#[pymethods]
impl Pieces {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Piece>> {
        // Before, not after: a piece is handed out once.
        py.check_signals()?;
        let next = if self.may_stall { self.apart(py)? } else { py.detach(|| self.picked.next()) };
        let next = next.map_err(|error| error::of(py, &self.picked.name, &error))?;
        Ok(next.map(|(piece, bytes)| Piece {
            offset: piece.offset,
            place: place_word(piece.place),
            device: piece.device.name().to_owned(),
            data: PyBytes::new(py, &bytes).unbind(),
        }))
    }
}

/// The pieces of a file; see `nearfirst.pick`.
#[pyfunction]
pub(crate) fn pick(
    py: Python<'_>,
    name: &[u8],
    piece_bytes: u64,
    record: Option<&[u8]>,
    plan: &str,
) -> PyResult<Pieces> {
    let separator = match record {
        None => None,
        Some(&[separator]) => Some(separator),
        Some(_) => return Err(PyValueError::new_err("record is one byte, such as b'\\n'")),
    };
    let plan = plan_of(plan)?;
    let (costs, name) = (costs_and_warnings(py)?, Name::new(name));
    let raised = |error: Error| error::of(py, &error.name(), &error);
    let path = local(name.as_bytes()).map_err(raised)?.to_owned();
    let (of, at) = (Arc::clone(&costs), path.clone());
    let opened = apart::asked(py, apart::may_stall(&path), move || of.open_regular(&at))?;
    let (file, status) = opened.map_err(raised)?;
    if status.backing == Backing::Pseudo {
        let reason = "the kernel makes it as it is read: it has no pieces before".to_owned();
        return Err(raised(Error::refused(name, reason)));
    }
    let may_stall = status.backing.may_stall();
    let begin = move || {
        let sleds = costs.file_sleds(&file).map_err(|error| Error::io(&path, error))?;
        let picker = Picker::with_plan(&[], piece_bytes, plan);
        let mut pieces = Picked { name, file, separator, picker: Mutex::new(picker) };
        let sleds = match separator {
            Some(separator) => {
                let read = |offset, buffer: &mut [u8]| pieces.read(offset, buffer);
                nearfirst::pull_edges(&sleds, separator, read)?
            }
            None => sleds,
        };
        pieces.picker = Mutex::new(Picker::with_plan(&sleds, piece_bytes, plan));
        Ok(pieces)
    };
    let picked = apart::asked(py, may_stall, begin)?.map_err(raised)?;
    Ok(Pieces { picked: Arc::new(picked), may_stall, coming: Mutex::default() })
}
