//! The pieces of a file, near first, for Python.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, PoisonError};

use nearfirst::{Error, Name, Picker};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::costs::costs;
use crate::error;
use crate::sled::{local, place_word, plan_of};

/// A piece of a file, and its bytes.
#[pyclass(frozen, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Piece {
    #[pyo3(get)]
    offset: u64,
    #[pyo3(get)]
    place: &'static str,
    #[pyo3(get)]
    device: String,
    #[pyo3(get)]
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
    name: Name,
    file: File,
    separator: Option<u8>,
    picker: Mutex<Picker>,
}

impl Pieces {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Changed { name: self.name.clone() },
            _ => Error::io(self.name.to_string_lossy().into_owned(), error),
        })
    }

    /// The next piece and its bytes.
    fn next(&self) -> Result<Option<(nearfirst::Piece, Vec<u8>)>, Error> {
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
        let too_large = |_| Error::refused(self.name.clone(), "a record is larger than memory");
        let mut bytes = vec![0; usize::try_from(piece.length).map_err(too_large)?];
        self.read(piece.offset, &mut bytes)?;
        Ok(Some((piece, bytes)))
    }
}

#[pymethods]
impl Pieces {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Piece>> {
        let next = py.detach(|| self.next()).map_err(|error| error::of(py, &self.name, &error))?;
        py.check_signals()?;
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
    let costs = costs();
    let picked = py.detach(|| {
        let path = local(name)?;
        let (file, _) = costs.open_regular(path)?;
        let sleds = costs.file_sleds(&file).map_err(|error| Error::io(path, error))?;
        let picker = Picker::with_plan(&[], piece_bytes, plan);
        let mut pieces =
            Pieces { name: Name::new(name), file, separator, picker: Mutex::new(picker) };
        let sleds = match separator {
            Some(separator) => {
                let read = |offset, buffer: &mut [u8]| pieces.read(offset, buffer);
                nearfirst::pull_edges(&sleds, separator, read)?
            }
            None => sleds,
        };
        pieces.picker = Mutex::new(Picker::with_plan(&sleds, piece_bytes, plan));
        Ok(pieces)
    });
    picked.map_err(|error: Error| error::of(py, &error.name(), &error))
}
