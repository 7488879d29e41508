//! What stores written in Python answer and raise, as the library knows it.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use nearfirst::{Cause, Error, Name};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{
    PyConnectionError, PyFileNotFoundError, PyNotImplementedError, PyPermissionError,
    PyTimeoutError, PyTypeError,
};
use pyo3::prelude::*;

use crate::buffer;
use crate::calls::Reply;
use crate::entry::Entry;

/// Entries and the listing that they are of, or `None` at its end.
pub(crate) fn names(given: &Bound<'_, PyAny>) -> PyResult<Reply> {
    let (entries, listing): (Vec<Bound<'_, PyAny>>, Option<Py<PyAny>>) = given.extract()?;
    let taken = entries.iter().map(|entry| Ok(entry_of(entry, "list")?.get().told.clone()));
    Ok(Reply::Names(taken.collect::<PyResult<_>>()?, listing))
}

/// What `stat` gave of an object, under the name that it was asked for.
pub(crate) fn entry(given: &Bound<'_, PyAny>, asked: &Name) -> PyResult<nearfirst::Entry> {
    let entry = entry_of(given, "stat")?;
    Ok(nearfirst::Entry { name: asked.clone(), ..entry.get().told.clone() })
}

fn entry_of<'a, 'py>(
    given: &'a Bound<'py, PyAny>,
    method: &str,
) -> PyResult<&'a Bound<'py, Entry>> {
    given.cast::<Entry>().map_err(|_| {
        let found = given.get_type();
        PyTypeError::new_err(format!("{method} of a store gives nearfirst.Entry, not {found}"))
    })
}

/// What `read` gave, copied: its object must not live as long as somebody has not read the last of it.
pub(crate) fn bytes(given: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    buffer::copied(&PyUntypedBuffer::get(given)?)
}

/// What a store raised, by what the caller can do next.
pub(crate) fn error(py: Python<'_>, about: &Name, raised: PyErr) -> Error {
    let name = about.clone();
    let reason = reason(py, &raised);
    if raised.is_instance_of::<PyFileNotFoundError>(py) {
        Error::NotFound { name }
    } else if raised.is_instance_of::<PyPermissionError>(py) {
        unframed(&reason, |reason| Error::denied(name.clone(), reason))
    } else if is(py, &raised, "Busy") {
        let retry_after = retry_after(py, &raised);
        unframed(&reason, |reason| Error::busy(name.clone(), retry_after, reason))
    } else if is(py, &raised, "Changed") {
        Error::Changed { name }
    } else if is(py, &raised, "Cold") {
        unframed(&reason, |class| Error::Cold { name: name.clone(), class })
    } else if is(py, &raised, "Unsupported") || raised.is_instance_of::<PyNotImplementedError>(py) {
        Error::unsupported(name, reason)
    } else if is(py, &raised, "Interrupted")
        || raised.is_instance_of::<PyConnectionError>(py)
        || raised.is_instance_of::<PyTimeoutError>(py) && !is(py, &raised, "Stalled")
    {
        Error::interrupted(name, reason)
    } else {
        let cause = Cause::new(Raised { error: raised, text: reason });
        Error::io(about.to_string_lossy().into_owned(), io::Error::other(cause))
    }
}

/// An error of this reason, without the words that such errors put around theirs: of ours, which a
/// store passes on, the reason has them already.
fn unframed(reason: &str, of: impl Fn(String) -> Error) -> Error {
    const OWN: char = '\u{e000}';
    let framed = of(OWN.into()).reason();
    let around = framed.split_once(OWN);
    let own = around.and_then(|(before, after)| reason.strip_prefix(before)?.strip_suffix(after));
    of(own.unwrap_or(reason).to_owned())
}

/// When a server asks to be asked again.
fn retry_after(py: Python<'_>, busy: &PyErr) -> Option<Duration> {
    let seconds = busy.value(py).getattr("retry_after").ok()?.extract().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether it is of this class of `nearfirst.errors`.
pub(crate) fn is(py: Python<'_>, raised: &PyErr, class: &str) -> bool {
    let class = py.import("nearfirst.errors").and_then(|errors| errors.getattr(class));
    class.is_ok_and(|class| raised.matches(py, class).unwrap_or(false))
}

/// Its own reason, if it is one of ours; else its class and what it says.
fn reason(py: Python<'_>, raised: &PyErr) -> String {
    let value = raised.value(py);
    let own = value.getattr("reason").and_then(|reason| reason.extract());
    if is(py, raised, "NearfirstError")
        && let Ok(own) = own
    {
        return own;
    }
    let class = raised.get_type(py);
    let class = class.name().map_or_else(|_| "Exception".to_owned(), |name| name.to_string());
    match value.str() {
        Ok(said) if !said.to_string().is_empty() => format!("{class}: {said}"),
        _ => class,
    }
}

/// What a store raised that is of no class that the library acts on.
#[derive(Debug)]
pub(crate) struct Raised {
    pub(crate) error: PyErr,
    text: String,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Raised {}
