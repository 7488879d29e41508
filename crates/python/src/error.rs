//! The one place where an error of the library becomes an exception.

use std::sync::Arc;

use nearfirst::{Cause, Error, MemberError, Name, SpecError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::answer::{Raised, is};
use crate::name;

/// The class in `nearfirst.errors` for an error.
fn class(error: &Error) -> &'static str {
    match error {
        Error::Io { source, .. } => match source.kind() {
            std::io::ErrorKind::NotFound => "NotFound",
            std::io::ErrorKind::PermissionDenied => "Denied",
            std::io::ErrorKind::TimedOut => "Stalled",
            std::io::ErrorKind::IsADirectory => "IsFolder",
            // Of no system.
            std::io::ErrorKind::Other if source.raw_os_error().is_none() => "Refused",
            _ => "Io",
        },
        Error::Stalled { .. } => "Stalled",
        Error::Offline { .. } | Error::Cold { .. } | Error::Recalling { .. } => "Cold",
        Error::NotFound { .. } | Error::NamesNothing { .. } => "NotFound",
        Error::Denied { .. } => "Denied",
        Error::Busy { .. } => "Busy",
        Error::Interrupted { .. } => "Interrupted",
        Error::Changed { .. } => "Changed",
        Error::Unsupported { .. } => "Unsupported",
        Error::NothingToRead { .. } | Error::NotAllowed { .. } | Error::Refused { .. } => "Refused",
        _ => "NearfirstError",
    }
}

/// An exception of `nearfirst.errors`: its name, what it is about, why, and the system's number.
fn raised(
    py: Python<'_>,
    class: &str,
    about: &Bound<'_, PyString>,
    reason: String,
    errno: Option<i32>,
) -> PyErr {
    let made = py
        .import("nearfirst.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((about, reason, errno)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Of an object, by the name that it was asked for.
pub(crate) fn of(py: Python<'_>, about: &Name, error: &Error) -> PyErr {
    let about = name::to_python(py, about);
    if let Some(cause) = cause(error) {
        let as_it_is = ["Stalled", "IsFolder", "Io"].into_iter().find(|class| is(py, cause, class));
        let errno = as_it_is.and_then(|_| cause.value(py).getattr("errno").ok()?.extract().ok());
        let class = as_it_is.unwrap_or("Refused");
        let made = raised(py, class, &about, error.reason(), errno);
        made.set_cause(py, Some(cause.clone_ref(py)));
        return made;
    }
    let made = raised(py, class(error), &about, error.reason(), error.system_number());
    if let Error::Busy { retry_after: Some(wait), .. } = error {
        // The class has it; another that stands in for it may not.
        drop(made.value(py).setattr("retry_after", wait.as_secs_f64()));
    }
    made
}

/// What a store of Python's raised.
fn cause(error: &Error) -> Option<&PyErr> {
    let Error::Io { source, .. } = error else { return None };
    let cause = source.get_ref()?.downcast_ref::<Cause>()?;
    Some(&cause.get::<Raised>()?.error)
}

/// Of a member.
pub(crate) fn of_member(py: Python<'_>, error: &MemberError) -> PyErr {
    of(py, &error.name, &error.cause)
}

/// Of what could not be listed.
pub(crate) fn of_listing(py: Python<'_>, error: &Arc<Error>) -> PyErr {
    of(py, &error.name(), error)
}

/// Of text that is no spec.
pub(crate) fn of_spec(py: Python<'_>, error: SpecError) -> PyErr {
    raised(py, "SpecError", &name::to_python(py, &error.spec), error.reason, None)
}
