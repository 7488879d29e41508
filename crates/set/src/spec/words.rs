//! The words of a program: split at spaces, with a shell's quotes and none of its other meanings.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// What follows an opening `%`, as far as the `%` that closes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The words, and where the `%` is.
    At(usize, Vec<OsString>),
    /// There is a `%`, but within a quote that has no end.
    InQuote,
    /// There is none.
    Missing,
}

/// Reads words up to a `%` that is not quoted.
pub(super) fn split(text: &[u8]) -> Closing {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'%' => {
                words.extend(word.map(OsString::from_vec));
                return Closing::At(at, words);
            }
            b'\'' | b'"' => {
                let Some(end) = quoted(text, at, word.get_or_insert_default()) else {
                    let holds_end = text[at..].contains(&b'%');
                    return if holds_end { Closing::InQuote } else { Closing::Missing };
                };
                at = end;
            }
            b'\\' if at + 1 < text.len() => {
                at += 1;
                word.get_or_insert_default().push(text[at]);
            }
            b' ' | b'\t' | b'\n' => words.extend(word.take().map(OsString::from_vec)),
            _ => word.get_or_insert_default().push(byte),
        }
        at += 1;
    }
    Closing::Missing
}

/// Adds what stands in the quotes that open at `start`; gives where they close.
fn quoted(text: &[u8], start: usize, word: &mut Vec<u8>) -> Option<usize> {
    let quote = text[start];
    let mut at = start + 1;
    loop {
        match (*text.get(at)?, text.get(at + 1)) {
            (byte, _) if byte == quote => return Some(at),
            (b'\\', Some(next @ (b'"' | b'\\'))) if quote == b'"' => {
                word.push(*next);
                at += 1;
            }
            (byte, _) => word.push(byte),
        }
        at += 1;
    }
}

/// The words as [`split`] reads them.
pub(super) fn joined(words: &[OsString]) -> Vec<u8> {
    let texts: Vec<Vec<u8>> = words.iter().map(|word| as_written(word.as_bytes())).collect();
    texts.join(&b' ')
}

fn as_written(word: &[u8]) -> Vec<u8> {
    if !word.is_empty() && !word.iter().any(|byte| b" \t\n'\"\\%".contains(byte)) {
        return word.to_vec();
    }
    let mut text = vec![b'\''];
    for &byte in word {
        if byte == b'\'' { text.extend_from_slice(b"'\\''") } else { text.push(byte) }
    }
    text.push(b'\'');
    text
}
