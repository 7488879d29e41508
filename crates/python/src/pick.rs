//! The pieces of a file, near first, for Python.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearfirst::{Backing, Costs, Error, Name, Pick, PickOptions, Picked, Sled};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::apart::{self, Apart};
use crate::costs::{costs, costs_and_warnings};
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
#[pyclass(frozen, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Pieces {
    /// Until it is closed.
    picking: Mutex<Option<Arc<Picking>>>,
    /// Whether its mount may not answer.
    may_stall: bool,
    /// Of such a mount, what Ctrl-C did not wait for: the next one to ask has it.
    coming: Mutex<Option<Apart<Next>>>,
}

/// A piece and its bytes; `None` at the end.
type Next = Result<Option<(nearfirst::Piece, Vec<u8>)>, Error>;

/// A file, and what of it was not handed out yet.
#[derive(Debug)]
struct Picking {
    name: Name,
    file: File,
    pick: Mutex<Pick>,
    /// Taken, but they could not be read: the next calls try again.
    unread: Mutex<Vec<nearfirst::Piece>>,
}

/// The file, and the costs of this process: a fork of the one that opened it has its own.
struct Opened<'a> {
    name: &'a Name,
    file: &'a File,
    costs: &'a Costs,
}

impl Picked for Opened<'_> {
    type Error = Error;

    fn sleds(&self) -> Result<Vec<Sled>, Error> {
        self.costs.file_sleds(self.file).map_err(|error| self.failed(error))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Changed { name: self.name.clone() },
            _ => self.failed(error),
        })
    }
}

impl Opened<'_> {
    fn bytes_of(&self, piece: &nearfirst::Piece) -> Result<Vec<u8>, Error> {
        let mut bytes = zeroed(piece.length).ok_or_else(|| {
            let reason = format!("there is no memory for a piece of {} bytes", piece.length);
            Error::refused(self.name.clone(), reason)
        })?;
        self.read(piece.offset, &mut bytes)?;
        Ok(bytes)
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(self.name.to_string_lossy().into_owned(), error)
    }
}

impl Picking {
    fn opened<'a>(&'a self, costs: &'a Costs) -> Opened<'a> {
        Opened { name: &self.name, file: &self.file, costs }
    }

    fn pick(&self) -> MutexGuard<'_, Pick> {
        self.pick.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unread(&self) -> MutexGuard<'_, Vec<nearfirst::Piece>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, costs: &Costs) -> Next {
        let opened = self.opened(costs);
        let unread = self.unread().pop();
        let piece = match unread {
            Some(piece) => piece,
            None => match self.pick().next(&opened)? {
                Some(piece) => piece,
                None => return Ok(None),
            },
        };
        match opened.bytes_of(&piece) {
            Ok(bytes) => Ok(Some((piece, bytes))),
            Err(error) => {
                self.unread().push(piece);
                Err(error)
            }
        }
    }

    fn refresh(&self, costs: &Costs) -> Result<(), Error> {
        self.pick().refresh(&self.opened(costs))
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

    fn picking(&self) -> MutexGuard<'_, Option<Arc<Picking>>> {
        self.picking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// It was closed.
    fn open(&self) -> PyResult<Arc<Picking>> {
        let closed = || PyValueError::new_err("the pieces are closed");
        self.picking().as_ref().map(Arc::clone).ok_or_else(closed)
    }

    /// The next piece, read by another thread.
    fn apart(&self, py: Python<'_>, picking: Arc<Picking>) -> PyResult<Next> {
        let left = self.coming().take();
        let mut coming = if let Some(coming) = left {
            coming
        } else {
            let costs = costs(py)?;
            Apart::begin(move || picking.next(&costs))?
        };
        coming.ended(py, || Ok(())).inspect_err(|_| *self.coming() = Some(coming))
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
        let picking = self.open()?;
        let next = if self.may_stall {
            self.apart(py, Arc::clone(&picking))?
        } else {
            let costs = costs(py)?;
            py.detach(|| picking.next(&costs))
        };
        let next = next.map_err(|error| error::of(py, &picking.name, &error))?;
        Ok(next.map(|(piece, bytes)| Piece {
            offset: piece.offset,
            place: place_word(piece.place),
            device: piece.device.name().to_owned(),
            data: PyBytes::new(py, &bytes).unbind(),
        }))
    }

    /// Ask again where the rest of the file is.
    ///
    /// What arrived in memory meanwhile comes early, what left is put back. This is done
    /// of itself, too, now and then.
    ///
    /// Raises:
    ///     NearfirstError: It cannot be asked about: it is picked on by the last answer.
    #[expect(clippy::doc_markdown, reason = "it is help of Python")]
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        let (picking, costs) = (self.open()?, costs(py)?);
        let name = picking.name.clone();
        let asked = apart::asked(py, self.may_stall, move || picking.refresh(&costs))?;
        asked.map_err(|error| error::of(py, &name, &error))
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.picking().is_none()
    }

    /// Let go of the file: what is asked for from then on is a `ValueError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let picking = self.picking().take();
        apart::asked(py, self.may_stall, move || drop(picking))
    }

    fn __enter__(slf: Py<Self>) -> PyResult<Py<Self>> {
        slf.get().open()?;
        Ok(slf)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)
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
    let path = local(&name).map_err(raised)?.to_owned();
    let of = Arc::clone(&costs);
    let opened = apart::asked(py, apart::may_stall(py, &path)?, move || of.open_regular(&path))?;
    let (file, status) = opened.map_err(raised)?;
    if status.backing == Backing::Pseudo {
        let reason = "the kernel makes it as it is read: it has no pieces before".to_owned();
        return Err(raised(Error::refused(name, reason)));
    }
    let may_stall = status.backing.may_stall();
    let options = PickOptions { piece_bytes, separator, plan };
    let begin = move || {
        let opened = Opened { name: &name, file: &file, costs: &costs };
        let pick = Mutex::new(Pick::new(&opened, options)?);
        Ok(Picking { name, file, pick, unread: Mutex::default() })
    };
    let picking = apart::asked(py, may_stall, begin)?.map_err(raised)?;
    let picking = Mutex::new(Some(Arc::new(picking)));
    Ok(Pieces { picking, may_stall, coming: Mutex::default() })
}
