//! What the commands' JSON Lines have in common; `docs/json.md` describes them.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;

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
        name.to_str().map_or_else(|| Self::Bytes(base64(name.as_bytes())), Self::Text)
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

/// The base64 of RFC 4648, section 4, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, at| {
            bits << 8 | usize::from(group.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * at) & 0x3F];
            text.push(if at > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_rfc_4648_section_10_gives_it() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xff, 0xfe]), "//4=");
    }
}
