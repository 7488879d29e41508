//! What the commands' JSON Lines have in common; `docs/json.md` describes them.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nearfirst::{Place, Spread};
use serde::Serialize;

/// A name: text if it is UTF-8, else its bytes in base64.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name<'a> {
    /// UTF-8.
    Text(&'a str),
    /// Anything else, in base64.
    Bytes(String),
}

impl<'a> Name<'a> {
    /// The name as JSON can hold it.
    pub(crate) fn new(name: &'a (impl AsRef<OsStr> + ?Sized)) -> Self {
        let name = name.as_ref();
        name.to_str()
            .map_or_else(|| Self::Bytes(BASE64_STANDARD.encode(name.as_bytes())), Self::Text)
    }
}

/// A quantity with its spread.
#[derive(Serialize)]
pub(crate) struct Quantity {
    p50: f64,
    p90: f64,
}

impl From<Spread> for Quantity {
    fn from(spread: Spread) -> Self {
        Self { p50: spread.p50, p90: spread.p90 }
    }
}

/// The word for a place.
pub(crate) fn place(place: Place) -> &'static str {
    match place {
        Place::Near => "near",
        Place::Far => "far",
        Place::Unknown => "unknown",
        Place::Cold => "cold",
    }
}

/// Writes one object and ends its line.
pub(crate) fn line(out: &mut impl Write, object: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    out.write_all(b"\n")
}
