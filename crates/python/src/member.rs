//! A member, for Python.

use std::ffi::{OsStr, c_int};
use std::fs::{File, Permissions};
use std::os::fd::IntoRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use nearfirst::{Engine, Limits, Looks, MemberError};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tempfile::TempDir;

use crate::chunks::Chunks;
use crate::kept::Kept;
use crate::owned::Owned;
use crate::reading::{Reading, is_closed, is_open};
use crate::sled::{self, Sled};
use crate::wait::wait;
use crate::{buffer, entry, error, name};

import_exception!(io, UnsupportedOperation);

/// One object of a set, delivered once, its data near.
///
/// It is read forwards, and what was read is let go. For the whole as a buffer
/// (`memoryview(member)`, `numpy.frombuffer(member)`), a file or a path, ask
/// before reading.
#[pyclass(frozen, weakref, module = "nearfirst")]
#[derive(Debug)]
pub(crate) struct Member {
    entry: nearfirst::Entry,
    headers: Vec<(String, String)>,
    state: Mutex<State>,
    /// Also while a thread reads it, which looks at this as it waits.
    closed: Arc<AtomicBool>,
    /// What is lent to buffers: it stays as long as the member.
    lent: OnceLock<Bytes>,
    /// Stores of Python's that its bytes may come from, and what else its set keeps.
    kept: Vec<Py<Kept>>,
}

#[derive(Debug)]
enum State {
    Open(Box<Owned<Held>>),
    /// A thread reads it.
    Busy,
    Closed,
}

/// What a member holds on to until it is closed.
#[derive(Debug)]
struct Held {
    reading: Reading,
    /// Of one that did not fail.
    engine: Option<Engine>,
    /// Where it is, of a file of this machine.
    path: Option<PathBuf>,
    /// A copy under the member's own file name.
    folder: Option<TempDir>,
}

impl Member {
    pub(crate) fn new(member: nearfirst::Member, engine: Engine, kept: Vec<Py<Kept>>) -> Self {
        let (entry, headers) = (member.entry().clone(), member.headers());
        let path = member.path().map(Path::to_owned);
        let reading = Reading::new(member, engine.clone());
        let held = Held { reading, engine: Some(engine), path, folder: None };
        Self { headers, ..Self::of(entry, held, kept) }
    }

    pub(crate) fn failed(error: MemberError) -> Self {
        let entry = nearfirst::Entry::named(error.name.clone());
        let reading = Reading::failed(error);
        Self::of(entry, Held { reading, engine: None, path: None, folder: None }, Vec::new())
    }

    fn of(entry: nearfirst::Entry, held: Held, kept: Vec<Py<Kept>>) -> Self {
        let closed = held.reading.closed();
        let state = Mutex::new(State::Open(Box::new(Owned::new(held))));
        Self { entry, headers: Vec::new(), state, closed, lent: OnceLock::new(), kept }
    }

    fn replaced(&self, state: State) -> State {
        let mut held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, state)
    }

    /// Uses what it holds; meanwhile other threads are told that it is in use.
    fn using<T>(&self, work: impl FnOnce(&mut Held) -> PyResult<T>) -> PyResult<T> {
        match self.replaced(State::Busy) {
            State::Open(mut held) => {
                let done = held.get_mut().and_then(work);
                self.put_back(held);
                done
            }
            State::Busy => Err(PyRuntimeError::new_err("another thread is reading this member")),
            State::Closed => {
                self.replaced(State::Closed);
                Err(is_closed())
            }
        }
    }

    /// Ends its use, unless it was closed meanwhile.
    fn put_back(&self, held: Box<Owned<Held>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Busy) {
            *state = State::Open(held);
        }
    }

    /// The next bytes, as they came; none at the end.
    pub(crate) fn next_chunk(&self, py: Python<'_>) -> PyResult<Bytes> {
        self.using(|held| held.reading.take_into(py, usize::MAX))
    }

    /// The bytes that are lent to buffers.
    fn lent(&self, py: Python<'_>) -> PyResult<&Bytes> {
        if self.lent.get().is_none() {
            let whole = self.using(|held| held.reading.whole(py))?;
            let _first = self.lent.set(whole);
        }
        Ok(self.lent.get().expect("set above, or by another thread"))
    }
}

/// A folder with a copy of a member under this name.
fn copied(py: Python<'_>, reading: &mut Reading, file_name: &OsStr) -> PyResult<TempDir> {
    let parent = reading.folder();
    let no_copy = |error: std::io::Error| reading.no_copy(py, &parent, &error);
    // What only this user may fetch, only this user may read, whatever the umask.
    let folder = tempfile::Builder::new()
        .prefix("nearfirst-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(&parent);
    let folder = folder.map_err(no_copy)?;
    let path = folder.path().join(file_name);
    let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
    let file = made.map_err(no_copy)?;
    reading.copied_to(py, file, &parent)?;
    Ok(folder)
}

/// A descriptor as a file object of Python's.
fn file_object(py: Python<'_>, file: File) -> PyResult<Bound<'_, PyAny>> {
    py.import("io")?.getattr("open")?.call1((file.into_raw_fd(), "rb"))
}

#[pymethods]
impl Member {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.kept.iter().try_for_each(|object| visit.call(object))
    }

    /// Its name: a path as it was given, or a URL.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        name::to_python(py, &self.entry.name)
    }

    /// Its URL; `file://` of a path.
    #[getter]
    fn url<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        entry::url(py, &self.entry.name)
    }

    /// Bytes, if its server told.
    #[getter]
    fn size(&self) -> Option<u64> {
        self.entry.size
    }

    /// What tells this content from a later one under the same name.
    #[getter]
    fn version(&self) -> Option<&str> {
        self.entry.version.as_ref().map(nearfirst::Version::as_str)
    }

    /// When its content last changed, in seconds since 1970, if listing told.
    #[getter]
    fn modified(&self) -> Option<f64> {
        self.entry.modified.map(nearfirst::unix_s)
    }

    /// The headers that it came with, by their names in lower case; none of a file.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let headers = PyDict::new(py);
        for (name, value) in &self.headers {
            // A list that came in several lines is one list.
            match headers.get_item(name)? {
                None => headers.set_item(name, value)?,
                Some(before) => headers.set_item(name, format!("{before}, {value}"))?,
            }
        }
        Ok(headers)
    }

    /// What reading it anew would cost, from where its parts are now.
    ///
    /// `Unsupported` if its server does not tell its size.
    #[getter]
    fn cost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let engine = match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open(held) => held.get()?.engine.clone(),
            State::Busy | State::Closed => None,
        };
        let closed = || PyValueError::new_err("the member is closed, in use or failed");
        let engine = engine.ok_or_else(closed)?;
        let looks = Looks::new(engine.stores(), &Limits::default());
        let found =
            wait(py, &engine, || is_open(&self.closed), sled::of_entry(&looks, &self.entry))?;
        let found = found.map_err(|error| error::of(py, &self.entry.name, &error))?;
        let sleds: Vec<_> = found.iter().map(Sled::from).collect();
        py.import("nearfirst._sleds")?.getattr("Sleds")?.call1((sleds,))
    }

    /// What kept it away, as far as that is known.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let error = match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Open(held) => held.get()?.reading.error().cloned(),
            State::Busy | State::Closed => None,
        };
        Ok(error.map(|error| error::of_member(py, &error).into_value(py).into_bound(py).into_any()))
    }

    /// Read the next `size` bytes, or all that were not read yet.
    #[pyo3(signature = (size = None, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        // As of Python's files: what is negative is all.
        let size = size.and_then(|size| usize::try_from(size).ok());
        self.using(|held| held.reading.take(py, size))
    }

    /// Read as many of the next bytes as are here and have room; 0 at the end.
    #[pyo3(signature = (buffer, /))]
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let buffer = PyUntypedBuffer::get(buffer)?;
        buffer::writable(&buffer)?;
        let taken = self.using(|held| held.reading.take_into(py, buffer.len_bytes()))?;
        buffer::fill(&buffer, &taken)?;
        Ok(taken.len())
    }

    /// Read up to the end of a line, and no more than `size` bytes; nothing at the end.
    #[pyo3(signature = (size = None, /))]
    fn readline<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        let size = size.and_then(|size| usize::try_from(size).ok());
        self.using(|held| held.reading.line(py, size.unwrap_or(usize::MAX)))
    }

    /// Its lines as bytes, as files that are read have them.
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let line = self.readline(py, None)?;
        Ok(Some(line).filter(|line| !line.as_bytes().is_empty()))
    }

    /// Iterate over what was not read yet as it comes, without a copy: views of some KiB or MiB.
    ///
    /// A view keeps its bytes in memory, beside the budget, until it is let go.
    fn chunks(slf: Py<Self>) -> Chunks {
        Chunks::of(slf)
    }

    /// Open the whole as a file that can seek; each call has its own position.
    fn open<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let file = self.using(|held| held.reading.file(py))?;
        file_object(py, file)
    }

    /// Name a file with the whole, under the member's own file name.
    ///
    /// That of a remote member is a copy, which goes when the member does.
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        let name = self.entry.name.of_copy();
        let file_name = OsStr::from_bytes(&name);
        self.using(|held| {
            if let Some(error) = held.reading.error() {
                return Err(error::of_member(py, error));
            }
            if let Some(path) = &held.path {
                let Ok(path) = path.as_os_str().into_pyobject(py);
                return Ok(path);
            }
            let folder = match held.folder.take() {
                Some(folder) => folder,
                None => copied(py, &mut held.reading, file_name)?,
            };
            let path = folder.path().join(file_name);
            held.folder = Some(folder);
            let Ok(path) = path.as_os_str().into_pyobject(py);
            Ok(path)
        })
    }

    /// Its text as a stream that has its lines as they come; closing it closes the member.
    ///
    /// The arguments are those of Python's `open`.
    #[pyo3(signature = (encoding = "utf-8", errors = None, newline = None))]
    fn lines<'py>(
        slf: &Bound<'py, Self>,
        encoding: &str,
        errors: Option<&str>,
        newline: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let io = slf.py().import("io")?;
        let buffered = io.getattr("BufferedReader")?.call1((slf,))?;
        let lines = io.getattr("TextIOWrapper")?.call1((&buffered, encoding, errors, newline));
        if lines.is_err() {
            // It would close the member as it goes.
            buffered.call_method0("detach")?;
        }
        lines
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        matches!(*self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Closed)
    }

    /// Yes, as an `io.BufferedReader` over it asks.
    #[staticmethod]
    fn readable() -> bool {
        true
    }

    /// No.
    #[staticmethod]
    fn writable() -> bool {
        false
    }

    /// No: `open` gives a file that is.
    #[staticmethod]
    fn seekable() -> bool {
        false
    }

    /// No.
    #[staticmethod]
    fn isatty() -> bool {
        false
    }

    /// Tell how many bytes were read.
    fn tell(&self) -> PyResult<u64> {
        self.using(|held| Ok(held.reading.taken()))
    }

    /// Raise `io.UnsupportedOperation`: it is read forwards.
    #[staticmethod]
    #[pyo3(signature = (offset, whence = 0, /))]
    fn seek(offset: i64, whence: i32) -> PyResult<u64> {
        let _ = (offset, whence);
        Err(UnsupportedOperation::new_err("seek: a member is read forwards; open gives a file"))
    }

    /// Raise `io.UnsupportedOperation`: nothing is written to it.
    #[staticmethod]
    #[pyo3(signature = (size = None, /))]
    fn truncate(size: Option<i64>) -> PyResult<u64> {
        let _ = size;
        Err(UnsupportedOperation::new_err("truncate: a member is read only"))
    }

    /// Do nothing: nothing is written to it.
    #[staticmethod]
    fn flush() {}

    /// Let go of its data, and end a read that is under way: its thread raises `ValueError`.
    fn close(&self, py: Python<'_>) {
        self.closed.store(true, Ordering::Release);
        let held = self.replaced(State::Closed);
        py.detach(|| drop(held));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.close(py);
    }

    #[expect(unsafe_code, reason = "Python's buffer protocol is a C interface")]
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().lent(slf.py())?;
        // SAFETY: Python passes the view; what is lent is set once and lives as long as the member.
        unsafe { buffer::lend(slf.as_any(), bytes, view, flags) }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<nearfirst.Member {}>", self.name(py).repr()?))
    }
}
