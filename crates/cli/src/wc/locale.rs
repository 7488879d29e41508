//! The user's locale: how bytes become characters, and what the C library says of each.
//!
//! GNU wc asks the C library, so that its counts depend on the locale and on the library's
//! version. Asking the same library gives the same counts.
#![expect(unsafe_code, reason = "calls the C library's locale functions")]

use std::ffi::CStr;

use libc::{c_int, c_uint, wchar_t};

use super::count::Encoding;
use super::glyph::{Answers, Glyph, Glyphs, unasked};

unsafe extern "C" {
    safe fn iswprint(character: c_uint) -> c_int;
    safe fn iswspace(character: c_uint) -> c_int;
    safe fn wcwidth(character: wchar_t) -> c_int;
}

static ANSWERS: Answers = unasked();

/// Takes the locale for characters from the environment and says how it encodes them.
///
/// `LC_ALL`, `LC_CTYPE` and `LANG` decide, in this order; a locale that is not installed is the C
/// locale. Encodings other than UTF-8 are counted as in the C locale.
///
/// To be called before other threads start: the C library's locale belongs to the process.
pub(super) fn adopt() -> Encoding {
    // SAFETY: no other thread runs yet (the caller's promise), and both strings end in NUL; the
    // name of the character set is read before anything else calls into the locale.
    let utf8 = unsafe {
        !libc::setlocale(libc::LC_CTYPE, c"".as_ptr()).is_null()
            && CStr::from_ptr(libc::nl_langinfo(libc::CODESET)) == c"UTF-8"
    };
    let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    if !utf8 {
        return Encoding::Bytes { no_break_space: !posix };
    }
    Encoding::Utf8(Glyphs { ask: if posix { ask_posix } else { ask }, answers: &ANSWERS })
}

/// What GNU wc makes of a character: it takes the no-break spaces for spaces.
fn ask(character: u32) -> Glyph {
    let glyph = ask_posix(character);
    let no_break = matches!(character, 0xa0 | 0x2007 | 0x202f | 0x2060);
    Glyph { space: glyph.space || no_break, ..glyph }
}

/// What the C library says of a character.
fn ask_posix(character: u32) -> Glyph {
    Glyph {
        space: iswspace(character) != 0,
        printable: iswprint(character) != 0,
        width: u8::try_from(wcwidth(character.cast_signed())).unwrap_or(0),
    }
}
