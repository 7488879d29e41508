//! File names as the GNU tools write them in messages: quoted for a shell when they need it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use nearfirst::Name;

use super::count::Encoding;
use super::utf8::{self, Decoded};

/// A name for messages: without the password that a URL may hold.
pub(super) fn redacted(name: &OsStr) -> OsString {
    OsStr::from_bytes(Name::new(name.as_bytes()).redacted().as_bytes()).to_owned()
}

/// Quotes a name where a shell or a reader of messages would need it, the colon included.
pub(super) fn quoted(name: &OsStr, encoding: Encoding) -> Cow<'_, str> {
    let bytes = name.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if !needs_quotes(bytes, encoding) => Cow::Borrowed(text),
        _ => Cow::Owned(always_quoted(name, encoding)),
    }
}

/// Quotes a name whether it needs it or not.
pub(super) fn always_quoted(name: &OsStr, encoding: Encoding) -> String {
    let bytes = name.as_bytes();
    if bytes.contains(&b'\'')
        && let Ok(text) = std::str::from_utf8(bytes)
        && fits_double_quotes(bytes, encoding)
    {
        return format!("\"{text}\"");
    }
    let mut out = String::from("'");
    let mut escaping = false;
    for piece in pieces(bytes, encoding) {
        match piece {
            Piece::Escaped(escaped) => {
                if !escaping {
                    out.push_str("'$'");
                }
                for &byte in escaped {
                    escape(byte, &mut out);
                }
                escaping = true;
            }
            Piece::Plain("'") => {
                out.push_str("'\\''");
                escaping = false;
            }
            Piece::Plain(text) => {
                if escaping {
                    out.push_str("''");
                }
                out.push_str(text);
                escaping = false;
            }
        }
    }
    out.push('\'');
    out
}

enum Piece<'a> {
    /// One printable character.
    Plain(&'a str),
    /// Bytes to write as escapes: one, or those of one character that is not printable.
    Escaped(&'a [u8]),
}

fn pieces(bytes: &[u8], encoding: Encoding) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (length, printable) = match (rest[0], encoding) {
            (b' '..=b'~', _) => (1, true),
            (0x80.., Encoding::Utf8(glyphs)) => match utf8::decode(rest) {
                Decoded::Character(character, length) => (length, glyphs.get(character).printable),
                Decoded::Incomplete => (rest.len(), false),
                Decoded::Invalid => (1, false),
            },
            _ => (1, false),
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some(match std::str::from_utf8(piece) {
            Ok(text) if printable => Piece::Plain(text),
            _ => Piece::Escaped(piece),
        })
    })
}

fn needs_quotes(bytes: &[u8], encoding: Encoding) -> bool {
    matches!(bytes, [] | [b'#' | b'~', ..] | b"{" | b"}")
        || bytes.iter().any(|byte| b" !\"$&'()*:;<=>?[\\^`|".contains(byte))
        || pieces(bytes, encoding).any(|piece| matches!(piece, Piece::Escaped(_)))
}

/// Whether a name is the same within double quotes.
fn fits_double_quotes(bytes: &[u8], encoding: Encoding) -> bool {
    pieces(bytes, encoding).enumerate().all(|(at, piece)| match piece {
        Piece::Plain("#" | "~") => at == 0,
        Piece::Plain(text) => match text.as_bytes() {
            [byte] => byte.is_ascii_alphanumeric() || b" %'+,-./:@]_".contains(byte),
            _ => true,
        },
        Piece::Escaped(_) => false,
    })
}

fn escape(byte: u8, out: &mut String) {
    let letter = match byte {
        0x07 => 'a',
        0x08 => 'b',
        b'\t' => 't',
        b'\n' => 'n',
        0x0b => 'v',
        0x0c => 'f',
        b'\r' => 'r',
        _ => {
            write!(out, "\\{byte:03o}").expect("a String takes all that is written to it");
            return;
        }
    };
    out.push('\\');
    out.push(letter);
}
