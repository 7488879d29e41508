//! The user's locale: how bytes become characters, and what the C library says of each.
//!
//! GNU wc asks the C library, so that its counts depend on the locale and on the library's
//! version. Asking the same library gives the same counts.
#![expect(unsafe_code, reason = "calls the C library's locale functions")]

use std::ffi::CStr;
use std::sync::OnceLock;

use libc::{c_int, c_uint, wchar_t};

use super::count::{Encoding, Glyph, Part};

unsafe extern "C" {
    safe fn iswprint(character: c_uint) -> c_int;
    safe fn iswspace(character: c_uint) -> c_int;
    safe fn wcwidth(character: wchar_t) -> c_int;
}

/// Characters whose glyphs are asked for at once.
const PAGE: usize = 256;
const PAGES: usize = 0x11_0000 / PAGE;

static GLYPHS: [OnceLock<Box<[Glyph; PAGE]>>; PAGES] = [const { OnceLock::new() }; PAGES];

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
    if utf8 { Encoding::Utf8(glyph_of) } else { Encoding::Bytes }
}

/// What the C library says of a character, once [`adopt`] was called.
pub(super) fn glyph_of(character: u32) -> Glyph {
    const NOTHING: Glyph = Glyph { part: Part::Neither, width: 0 };
    let at = character as usize;
    GLYPHS.get(at / PAGE).map_or(NOTHING, |page| page.get_or_init(|| page_from(at))[at % PAGE])
}

fn page_from(at: usize) -> Box<[Glyph; PAGE]> {
    let first = at - at % PAGE;
    let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    Box::new(std::array::from_fn(|offset| {
        let character = u32::try_from(first + offset).expect("a page lies below 0x110000");
        ask(character, posix)
    }))
}

fn ask(character: u32, posix: bool) -> Glyph {
    if iswprint(character) == 0 {
        return Glyph { part: Part::Neither, width: 0 };
    }
    // GNU wc takes the no-break spaces for spaces, which POSIX does not.
    let no_break = matches!(character, 0xa0 | 0x2007 | 0x202f | 0x2060);
    let space = iswspace(character) != 0 || (no_break && !posix);
    Glyph {
        part: if space { Part::Space } else { Part::Word },
        width: u8::try_from(wcwidth(character.cast_signed())).unwrap_or(0),
    }
}
