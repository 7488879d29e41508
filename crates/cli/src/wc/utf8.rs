//! UTF-8 as the C library's `mbrtowc` reads it, so that counts agree with GNU wc.
//!
//! glibc takes the original definition: sequences of up to six bytes, shortest form only, no
//! surrogates. A byte that starts no such sequence is skipped alone and is no character.

/// Longest sequence, in bytes.
pub(super) const LONGEST: usize = 6;

/// What stands at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A character and its length in bytes.
    Character(u32, usize),
    /// All the bytes are the start of a sequence that goes on.
    Incomplete,
    /// The first byte starts no sequence.
    Invalid,
}

/// Whether a byte can only stand inside of a sequence.
pub(super) fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Reads one character from the start of `bytes`, which are not empty.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    let lead = bytes[0];
    let (length, bits) = match lead {
        0..=0x7f => return Decoded::Character(u32::from(lead), 1),
        0xc2..=0xdf => {
            return match bytes.get(1) {
                None => Decoded::Incomplete,
                Some(&byte) if continues(byte) => {
                    Decoded::Character(u32::from(lead & 0x1f) << 6 | u32::from(byte & 0x3f), 2)
                }
                Some(_) => Decoded::Invalid,
            };
        }
        0xe0..=0xef => (3, lead & 0x0f),
        0xf0..=0xf7 => (4, lead & 0x07),
        0xf8..=0xfb => (5, lead & 0x03),
        0xfc..=0xfd => (6, lead & 0x01),
        _ => return Decoded::Invalid,
    };
    let mut character = u32::from(bits);
    for at in 1..length {
        let Some(&byte) = bytes.get(at) else { return Decoded::Incomplete };
        let second_is_barred = at == 1
            && match lead {
                0xe0 => byte < 0xa0,
                0xf0 => byte < 0x90,
                0xf8 => byte < 0x88,
                0xfc => byte < 0x84,
                0xed => byte >= 0xa0,
                _ => false,
            };
        if !continues(byte) || second_is_barred {
            return Decoded::Invalid;
        }
        character = character << 6 | u32::from(byte & 0x3f);
    }
    Decoded::Character(character, length)
}

/// The length of an unfinished sequence at the end of `bytes`.
pub(super) fn unfinished(bytes: &[u8]) -> usize {
    let reach = bytes.len().min(LONGEST - 1);
    for length in 1..=reach {
        let tail = &bytes[bytes.len() - length..];
        if !continues(tail[0]) {
            return if decode(tail) == Decoded::Incomplete { length } else { 0 };
        }
    }
    0
}
