//! What a character is to words and columns, remembered once asked.

use std::sync::atomic::{AtomicU8, Ordering};

/// One past the last character that may be printable.
pub(super) const CHARACTERS: usize = 0x11_0000;

/// What counting and quoting need to know about a character over 0x7f.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glyph {
    /// It ends a word; all else is part of one.
    pub(super) space: bool,
    pub(super) printable: bool,
    /// Columns on a terminal, at most 2.
    pub(super) width: u8,
}

impl Glyph {
    /// What nobody knows: part of a word that is not seen.
    pub(super) const UNKNOWN: Glyph = Glyph { space: false, printable: false, width: 0 };
}

/// A [`Glyph`] in a byte that is never zero.
#[derive(Clone, Copy)]
struct Packed(u8);

impl Packed {
    const KNOWN: u8 = 0x80;

    fn new(glyph: Glyph) -> Packed {
        let flags = u8::from(glyph.printable) << 1 | u8::from(glyph.space);
        Packed(Packed::KNOWN | glyph.width.min(2) << 2 | flags)
    }

    fn glyph(self) -> Glyph {
        Glyph { space: self.0 & 1 != 0, printable: self.0 & 2 != 0, width: self.0 >> 2 & 3 }
    }
}

/// Answers for all characters: one byte each, zero until it is asked for.
pub(super) type Answers = [AtomicU8; CHARACTERS];

/// No answers yet, for a `static` of them.
#[expect(clippy::large_stack_arrays, reason = "made by the compiler, never on a stack")]
pub(super) const fn unasked() -> Answers {
    [const { AtomicU8::new(0) }; CHARACTERS]
}

/// Says what each character is, and asks for it once.
#[derive(Clone, Copy)]
pub(super) struct Glyphs {
    pub(super) ask: fn(u32) -> Glyph,
    pub(super) answers: &'static Answers,
}

impl std::fmt::Debug for Glyphs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Glyphs").finish_non_exhaustive()
    }
}

impl Glyphs {
    /// The glyph of a character.
    #[inline]
    pub(super) fn get(self, character: u32) -> Glyph {
        let Some(answer) = self.answers.get(character as usize) else {
            return Glyph::UNKNOWN;
        };
        // Threads that ask at the same time get the same answer.
        match answer.load(Ordering::Relaxed) {
            0 => self.ask(character, answer),
            known => Packed(known).glyph(),
        }
    }

    #[cold]
    fn ask(self, character: u32, answer: &AtomicU8) -> Glyph {
        let packed = Packed::new((self.ask)(character));
        answer.store(packed.0, Ordering::Relaxed);
        packed.glyph()
    }
}
