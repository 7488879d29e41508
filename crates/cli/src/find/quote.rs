//! File names in messages, as the GNU tools quote them.

use std::fmt::Write as _;

use crate::locale;

/// A name in the locale's quotation marks; what cannot be printed is escaped.
pub(crate) fn quoted(name: &[u8]) -> String {
    quoted_in(name, locale::is_utf8())
}

fn quoted_in(name: &[u8], utf8: bool) -> String {
    let (open, close) = if utf8 { ('‘', '’') } else { ('\'', '\'') };
    let mut text = String::from(open);
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                '\x07' => text.push_str("\\a"),
                '\x08' => text.push_str("\\b"),
                '\x0b' => text.push_str("\\v"),
                '\x0c' => text.push_str("\\f"),
                '\\' => text.push_str("\\\\"),
                _ if character == close => {
                    text.push('\\');
                    text.push(character);
                }
                _ if character.is_control() || !utf8 && !character.is_ascii() => {
                    octal(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => text.push(character),
            }
        }
        octal(&mut text, chunk.invalid());
    }
    text.push(close);
    text
}

fn octal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "\\{byte:03o}").expect("a String takes all");
    }
}

/// A name as `-ls` shows it: on one line and without spaces.
pub(crate) fn escaped(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'\\' => text.extend_from_slice(b"\\\\"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\x08' => text.extend_from_slice(b"\\b"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            b'\x0c' => text.extend_from_slice(b"\\f"),
            b' ' => text.extend_from_slice(b"\\ "),
            b'"' => text.extend_from_slice(b"\\\""),
            0x21..0x7f => text.push(byte),
            _ => text.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    text
}

/// A name as shown on a terminal, where a control character could do harm.
pub(crate) fn harmless(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            let shown = if character.is_control() { '?' } else { character };
            text.extend_from_slice(shown.encode_utf8(&mut [0; 4]).as_bytes());
        }
        text.extend(chunk.invalid().iter().map(|_| b'?'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_gnu_does() {
        assert_eq!(quoted_in(b"no\xff\npe", true), r"‘no\377\npe’");
        assert_eq!(quoted_in("é’".as_bytes(), true), r"‘é\’’");
        assert_eq!(quoted_in("é'".as_bytes(), false), r"'\303\251\''");
        assert_eq!(escaped("a b\"\\é".as_bytes()), b"a\\ b\\\"\\\\\\303\\251");
        assert_eq!(harmless(b"n\nl\xff"), b"n?l?");
    }
}
