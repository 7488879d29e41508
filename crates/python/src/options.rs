//! How sets are opened, from Python's arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use nearfirst::{Duplicates, Name, Order, StorageOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Options of object stores.
///
/// # Errors
/// A name that no store knows.
pub(crate) fn storage(given: BTreeMap<String, String>) -> PyResult<StorageOptions> {
    StorageOptions::new(given).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A time of an argument, which a thread can wait for.
///
/// # Errors
/// It is negative, or longer than any.
pub(crate) fn seconds(argument: &str, given: Option<f64>) -> PyResult<Option<Duration>> {
    let seconds = given.map(Duration::try_from_secs_f64).transpose();
    seconds.map_err(|error| PyValueError::new_err(format!("{argument}: {error}")))
}

/// What makes two members one, by its name.
///
/// # Errors
/// Another word.
pub(crate) fn duplicates(word: &str) -> PyResult<Duplicates> {
    match word {
        "name" => Ok(Duplicates::ByName),
        "content" => Ok(Duplicates::ByContent),
        other => {
            Err(PyValueError::new_err(format!("duplicates is 'name' or 'content', not {other:?}")))
        }
    }
}

/// An order by its name, or the names to come first.
///
/// # Errors
/// Another word.
pub(crate) fn order(word: &str, replay: Option<Vec<Vec<u8>>>) -> PyResult<Order> {
    if let Some(names) = replay {
        return Ok(Order::Replay(names.into_iter().map(Name::new).collect()));
    }
    match word {
        "ready" => Ok(Order::Ready),
        "listed" => Ok(Order::Listed),
        "name" => Ok(Order::Name),
        "rank" => Ok(Order::Rank),
        other => Err(PyValueError::new_err(format!(
            "order is 'ready', 'listed', 'name', 'rank' or a list of names, not {other:?}"
        ))),
    }
}
