//! The counting kernel: what a piece of text holds, and how two neighbours join.
//!
//! Pure. A [`Summary`] knows what its first and last bytes leave open: a word, a character or a
//! line may go on in the neighbour. Joining is associative and exact at every cut, so that pieces
//! may be counted in any order, by any number of threads.

use std::mem;

use super::columns::Columns;
use super::glyph::{Glyph, Glyphs};
use super::masks::{self, BLOCK, Masks};
use super::utf8::{self, Decoded, LONGEST};

/// Blocks whose masks are computed at a time.
const STRIP_BLOCKS: usize = 64;

/// What is to be counted; bytes always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of the command")]
pub(super) struct Wanted {
    pub(super) lines: bool,
    pub(super) words: bool,
    pub(super) characters: bool,
    pub(super) columns: bool,
}

/// How bytes become characters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Encoding {
    /// A byte is a character, and those over 0x7f are not printable: the C locale.
    Bytes {
        /// Whether the byte 0xa0 ends words, as it does in Latin-1.
        no_break_space: bool,
    },
    /// UTF-8, with the locale's answer for each character over 0x7f.
    Utf8(Glyphs),
}

/// The counts of a whole text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) lines: u64,
    pub(super) words: u64,
    pub(super) characters: u64,
    pub(super) bytes: u64,
    /// Columns of the widest line.
    pub(super) columns: u64,
}

impl Counts {
    /// Adds another text's counts, as in a `total` line.
    pub(super) fn add(&mut self, other: &Counts) {
        self.lines = self.lines.saturating_add(other.lines);
        self.words = self.words.saturating_add(other.words);
        self.characters = self.characters.saturating_add(other.characters);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.columns = self.columns.max(other.columns);
    }
}

/// Counts of whole characters.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    lines: u64,
    words: u64,
    characters: u64,
    /// Whether the first byte is part of a word; `None` without one.
    starts_in_word: Option<bool>,
    /// The same of the last byte.
    ends_in_word: Option<bool>,
    columns: Columns,
}

impl Tally {
    fn merge(self, right: Tally) -> Tally {
        let joined = self.ends_in_word == Some(true) && right.starts_in_word == Some(true);
        Tally {
            lines: self.lines + right.lines,
            words: self.words + right.words - u64::from(joined),
            characters: self.characters + right.characters,
            starts_in_word: self.starts_in_word.or(right.starts_in_word),
            ends_in_word: right.ends_in_word.or(self.ends_in_word),
            columns: self.columns.merge(right.columns),
        }
    }

    fn glyph(&mut self, glyph: Glyph) {
        self.characters += 1;
        self.part(!glyph.space);
        self.columns.advance(u64::from(glyph.width));
    }

    /// Adds bytes that are no character: they are part of a word.
    fn undecoded(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.part(true);
        }
    }

    fn part(&mut self, in_word: bool) {
        self.words += u64::from(in_word && self.ends_in_word != Some(true));
        self.starts_in_word.get_or_insert(in_word);
        self.ends_in_word = Some(in_word);
    }

    fn columns_break(&mut self, byte: u8) {
        match byte {
            b'\n' | b'\r' | b'\x0c' => self.columns.end_line(),
            b'\t' => self.columns.tab(),
            _ => {}
        }
    }

    /// Adds a block, with which `text` starts. Its masks say of spaces, all their bytes, and of what
    /// is visible, at its first byte, that it is; `wide` marks what has two columns. Does not count
    /// characters.
    #[inline]
    fn block(&mut self, masks: &Masks, wide: u64, text: &[u8], columns: bool) {
        self.lines += u64::from(masks.newline.count_ones());
        let inside = u64::MAX >> BLOCK.saturating_sub(text.len());
        let last = inside ^ inside >> 1;
        let in_word = inside & !masks.space;
        let before = u64::from(self.ends_in_word == Some(true));
        let starts = in_word & !(in_word << 1 | before);
        self.words += u64::from(starts.count_ones());
        self.starts_in_word.get_or_insert(in_word & 1 != 0);
        self.ends_in_word = Some(in_word & last != 0);
        if columns {
            self.block_columns(masks, wide, text);
        }
    }

    fn block_columns(&mut self, masks: &Masks, wide: u64, text: &[u8]) {
        let mut rest = u64::MAX;
        let mut breaks = masks.breaks;
        let width =
            |part: u64| u64::from((masks.visible & part).count_ones() + (wide & part).count_ones());
        while breaks != 0 {
            let at = breaks.trailing_zeros();
            let after = u64::MAX << at;
            self.columns.advance(width(rest & !after));
            self.columns_break(text[at as usize]);
            rest &= after;
            breaks &= breaks - 1;
        }
        self.columns.advance(width(rest));
    }
}

/// Up to five bytes of a character that is cut in two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Edge {
    bytes: [u8; LONGEST - 1],
    length: u8,
}

impl Edge {
    /// The first bytes, as many as an edge holds.
    fn of(bytes: &[u8]) -> Edge {
        let mut edge = Edge::default();
        for (to, &from) in edge.bytes.iter_mut().zip(bytes) {
            *to = from;
            edge.length += 1;
        }
        edge
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn is_full(self) -> bool {
        usize::from(self.length) == LONGEST - 1
    }

    fn then(self, next: Edge) -> Joint {
        let mut joint = Joint { bytes: [0; 2 * (LONGEST - 1)], length: 0 };
        for &byte in self.as_slice().iter().chain(next.as_slice()) {
            joint.bytes[joint.length] = byte;
            joint.length += 1;
        }
        joint
    }
}

/// Two edges side by side.
struct Joint {
    bytes: [u8; 2 * (LONGEST - 1)],
    length: usize,
}

impl Joint {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// What a piece of text holds, with what its edges leave open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    encoding: Encoding,
    bytes: u64,
    /// Bytes at the start that only a character begun in the left neighbour can use.
    head: Edge,
    tally: Tally,
    /// A character at the end that goes on in the right neighbour.
    tail: Edge,
    /// The piece has nothing but a head, and that head may go on in the right neighbour.
    open: bool,
}

impl Summary {
    /// The summary of no bytes: joining it changes nothing.
    pub(super) fn empty(encoding: Encoding) -> Summary {
        Summary {
            encoding,
            bytes: 0,
            head: Edge::default(),
            tally: Tally::default(),
            tail: Edge::default(),
            open: true,
        }
    }

    /// Counts what is wanted in one piece of text.
    pub(super) fn of(bytes: &[u8], wanted: Wanted, encoding: Encoding) -> Summary {
        let mut summary = Summary { bytes: bytes.len() as u64, ..Summary::empty(encoding) };
        let in_detail = wanted.words || wanted.columns;
        if wanted.lines && !in_detail {
            summary.tally.lines = bytecount::count(bytes, b'\n') as u64;
        }
        match encoding {
            Encoding::Bytes { no_break_space } => {
                summary.open = bytes.is_empty();
                if in_detail {
                    summary.tally = detail_of_bytes(bytes, wanted, no_break_space);
                }
                summary.tally.characters = bytes.len() as u64;
            }
            Encoding::Utf8(glyphs) if in_detail || wanted.characters => {
                let reach = &bytes[..bytes.len().min(LONGEST - 1)];
                let head = reach.iter().take_while(|byte| utf8::continues(**byte)).count();
                summary.head = Edge::of(&bytes[..head]);
                summary.open = head == bytes.len() && !summary.head.is_full();
                let body = &bytes[head..];
                let (whole, tail) = body.split_at(body.len() - utf8::unfinished(body));
                summary.tail = Edge::of(tail);
                if in_detail {
                    summary.tally = detail_of_utf8(whole, wanted, glyphs);
                } else {
                    summary.tally.characters = characters_of_utf8(whole);
                }
            }
            Encoding::Utf8(_) => summary.open = bytes.is_empty(),
        }
        summary
    }

    /// Joins this piece with the one that follows it.
    pub(super) fn merge(self, right: Summary) -> Summary {
        let bytes = self.bytes + right.bytes;
        let mut tally = self.tally;
        if self.open {
            let joint = self.head.then(right.head);
            let head = Edge::of(joint.as_slice());
            let open = right.open && !head.is_full();
            tally.undecoded(&joint.as_slice()[head.as_slice().len()..]);
            return Summary { bytes, head, open, tally: tally.merge(right.tally), ..right };
        }
        let joint = self.tail.then(right.head);
        let joint = joint.as_slice();
        let mut tail = right.tail;
        if let Encoding::Utf8(glyphs) = self.encoding
            && !joint.is_empty()
        {
            match utf8::decode(joint) {
                Decoded::Character(character, length) => {
                    tally.glyph(glyphs.get(character));
                    tally.undecoded(&joint[length..]);
                }
                Decoded::Incomplete if right.open => tail = Edge::of(joint),
                Decoded::Incomplete | Decoded::Invalid => tally.undecoded(joint),
            }
        }
        Summary { bytes, tally: tally.merge(right.tally), tail, ..self }
    }

    /// So many pieces as this one, one after the other: joined two by two, as joining is associative.
    pub(super) fn repeated(self, mut times: u64) -> Summary {
        let (mut all, mut some) = (Summary::empty(self.encoding), self);
        while times > 0 {
            if times % 2 == 1 {
                all = all.merge(some);
            }
            times /= 2;
            // Twice what was needed last may be more than can be counted.
            if times > 0 {
                some = some.merge(some);
            }
        }
        all
    }

    /// The counts, when this piece is the whole text: what is open at its edges is no character.
    pub(super) fn counts(self) -> Counts {
        let (mut tally, mut tail) = (Tally::default(), Tally::default());
        tally.undecoded(self.head.as_slice());
        tail.undecoded(self.tail.as_slice());
        let tally = tally.merge(self.tally).merge(tail);
        Counts {
            lines: tally.lines,
            words: tally.words,
            characters: tally.characters,
            bytes: self.bytes,
            columns: tally.columns.widest(),
        }
    }
}

/// Calls `each` for every block with its masks and with what starts there of the text; the last
/// block is filled up with zeros.
fn each_block(bytes: &[u8], mut each: impl FnMut(&Masks, &[u8; BLOCK], &[u8])) {
    let mut masks = [Masks::default(); STRIP_BLOCKS];
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut text = bytes;
    for strip in blocks.chunks(STRIP_BLOCKS) {
        let masks = &mut masks[..strip.len()];
        masks::fill(strip, masks);
        for (block, masks) in strip.iter().zip(&*masks) {
            each(masks, block, text);
            text = &text[BLOCK..];
        }
    }
    if !rest.is_empty() {
        let block = filled_up(rest);
        masks::fill(&[block], &mut masks[..1]);
        each(&masks[0], &block, rest);
    }
}

fn filled_up(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

/// The positions of the bits that are set.
fn ones(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (at < BLOCK).then_some(at)
    })
}

fn detail_of_bytes(bytes: &[u8], wanted: Wanted, no_break_space: bool) -> Tally {
    let mut tally = Tally::default();
    each_block(bytes, |masks, block, text| {
        let mut masks = *masks;
        if no_break_space && masks.high != 0 {
            masks.space |= masks::no_break_spaces(block);
        }
        tally.block(&masks, 0, text, wanted.columns);
    });
    tally
}

fn detail_of_utf8(bytes: &[u8], wanted: Wanted, glyphs: Glyphs) -> Tally {
    let mut tally = Tally { characters: bytes.len() as u64, ..Tally::default() };
    // The bytes of a space that reaches into the next block.
    let mut space_beyond = 0;
    each_block(bytes, |masks, block, text| {
        if masks.high == 0 {
            return tally.block(masks, 0, text, wanted.columns);
        }
        let mut masks = *masks;
        masks.space |= mem::take(&mut space_beyond);
        let mut wide = 0;
        let mut characters = 0;
        each_high_character(block, text, |at, character, length| {
            characters += 1;
            let glyph = glyphs.get(character);
            if glyph.space {
                let beyond = (at + length).saturating_sub(BLOCK);
                masks.space |= !(u64::MAX << length) << at;
                space_beyond |= !(u64::MAX << beyond);
            }
            masks.visible |= u64::from(glyph.width > 0) << at;
            wide |= u64::from(glyph.width > 1) << at;
        });
        tally.characters -= u64::from(masks.high.count_ones()) - characters;
        tally.block(&masks, wide, text, wanted.columns);
    });
    tally
}

/// The multi-byte characters whose leads are in a block, told from the masks where they suffice.
///
/// A valid sequence is one wherever it stands, so that each lead can be judged by itself.
struct Starts {
    two: u64,
    three: u64,
    /// Leads to be judged by what follows them, which may be in the next block.
    unsure: u64,
    high: u64,
}

impl Starts {
    fn of(block: &[u8; BLOCK]) -> Starts {
        let leads = masks::leads(block);
        // What follows the last two bytes is in the next block.
        let inside = u64::MAX >> 2;
        let (second, third) = (leads.continues >> 1, leads.continues >> 2);
        Starts {
            two: leads.two & second & inside,
            three: leads.three & second & third & inside,
            unsure: leads.other | (leads.two | leads.three) & !inside,
            high: leads.continues | leads.two | leads.three | leads.other,
        }
    }
}

/// Calls `each` with the place, the character and the length of every multi-byte character that
/// starts in a block, in no order; `text` starts with the block and goes on behind it.
#[inline]
fn each_high_character(block: &[u8; BLOCK], text: &[u8], mut each: impl FnMut(usize, u32, usize)) {
    let starts = Starts::of(block);
    let low_bits = |at: usize| u32::from(block[at % BLOCK] & 0x3f);
    for at in ones(starts.two) {
        each(at, u32::from(block[at] & 0x1f) << 6 | low_bits(at + 1), 2);
    }
    for at in ones(starts.three) {
        let lead = u32::from(block[at] & 0x0f) << 12;
        each(at, lead | low_bits(at + 1) << 6 | low_bits(at + 2), 3);
    }
    for at in ones(starts.unsure) {
        if let Decoded::Character(character, length) = utf8::decode(&text[at..]) {
            each(at, character, length);
        }
    }
}

/// Counts the characters of bytes that end with no unfinished sequence.
fn characters_of_utf8(bytes: &[u8]) -> u64 {
    let mut characters = bytes.len() as u64;
    for (strip_at, strip) in bytes.chunks(STRIP_BLOCKS * BLOCK).enumerate() {
        if strip.is_ascii() {
            continue;
        }
        let (blocks, rest) = strip.as_chunks::<BLOCK>();
        let last = (!rest.is_empty()).then(|| filled_up(rest));
        for (block_at, block) in blocks.iter().chain(&last).enumerate() {
            let start = (strip_at * STRIP_BLOCKS + block_at) * BLOCK;
            characters -= not_characters(block, &bytes[start..]);
        }
    }
    characters
}

/// How many bytes of a block are not the first of a character; `bytes` start with the block and go
/// on behind it.
fn not_characters(block: &[u8; BLOCK], bytes: &[u8]) -> u64 {
    let starts = Starts::of(block);
    let is_character = |at: &usize| matches!(utf8::decode(&bytes[*at..]), Decoded::Character(..));
    let characters = (starts.two | starts.three).count_ones() as usize
        + ones(starts.unsure).filter(is_character).count();
    u64::from(starts.high.count_ones()) - characters as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::glyph::{Answers, unasked};
    use super::*;

    const ALL: Wanted = Wanted { lines: true, words: true, characters: true, columns: true };

    /// A small locale: spaces of two, three and four bytes, a control, a zero-width and a wide
    /// character.
    fn glyph_of(character: u32) -> Glyph {
        let width = match character {
            0x80..0xa0 | 0x300..0x370 | 0x2028 | 0x11_0000.. => 0,
            0x4e00.. => 2,
            _ => 1,
        };
        let space = matches!(character, 0xa0 | 0x2028 | 0x1_f600);
        Glyph { space, printable: width > 0, width }
    }

    static ANSWERS: Answers = unasked();

    const UTF8: Encoding = Encoding::Utf8(Glyphs { ask: glyph_of, answers: &ANSWERS });
    const BYTES: Encoding = Encoding::Bytes { no_break_space: true };
    const ENCODINGS: [Encoding; 3] = [Encoding::Bytes { no_break_space: false }, BYTES, UTF8];

    /// What [`Summary`] must find, one character at a time.
    fn model(bytes: &[u8], encoding: Encoding) -> Counts {
        let mut counts = Counts { bytes: bytes.len() as u64, ..Counts::default() };
        let (mut in_word, mut column, mut rest) = (false, 0, bytes);
        while let Some(&first) = rest.first() {
            let (character, length) = match encoding {
                Encoding::Bytes { .. } => (Some(u32::from(first)), 1),
                Encoding::Utf8(_) => match utf8::decode(rest) {
                    Decoded::Character(character, length) => (Some(character), length),
                    _ => (None, 1),
                },
            };
            rest = &rest[length..];
            counts.characters += u64::from(character.is_some());
            counts.lines += u64::from(character == Some(0x0a));
            let glyph = match (character, encoding) {
                (Some(0x09..=0x0d), _) => Glyph { space: true, ..Glyph::UNKNOWN },
                (Some(0x20), _) => Glyph { space: true, printable: true, width: 1 },
                (Some(0x21..=0x7e), _) => Glyph { space: false, printable: true, width: 1 },
                (Some(character @ 0x80..), Encoding::Utf8(_)) => glyph_of(character),
                (Some(0xa0), Encoding::Bytes { no_break_space: true }) => {
                    Glyph { space: true, ..Glyph::UNKNOWN }
                }
                _ => Glyph::UNKNOWN,
            };
            counts.words += u64::from(!glyph.space && !in_word);
            in_word = !glyph.space;
            column = match character {
                Some(0x0a | 0x0c | 0x0d) => 0,
                Some(0x09) => (column / 8 + 1) * 8,
                _ => column + u64::from(glyph.width),
            };
            counts.columns = counts.columns.max(column);
        }
        counts
    }

    fn whole(bytes: &[u8], encoding: Encoding) -> Counts {
        Summary::of(bytes, ALL, encoding).counts()
    }

    /// Text in which everything that matters is near everything else.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            proptest::sample::select(
                b"ab \n\t\r\x0c\x0b\0\x01\x7f\xff\x80\xa0\xc2\xe2\xf0\xfc".to_vec()
            )
            .prop_map(|byte| vec![byte]),
            any::<char>().prop_map(|character| character.to_string().into_bytes()),
            proptest::sample::select(vec![
                "\u{a0}".as_bytes(),
                "\u{85}".as_bytes(),
                "\u{2028}".as_bytes(),
                "\u{1f600}".as_bytes(),
                "e\u{301}".as_bytes(),
                "\u{4e2d}".as_bytes(),
                b"\xf8\x88\x80\x80\x80",
                b"\xfc\x84\x80\x80\x80\x80",
                b"\xed\xa0\x80",
                b"\xe0\x80\x80",
                b"\x80\x80\x80\x80\x80\x80\x80",
            ])
            .prop_map(<[u8]>::to_vec),
            (proptest::sample::select(b"x \n\t\0".to_vec()), 1..150_usize)
                .prop_map(|(byte, length)| vec![byte; length]),
        ];
        proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(bytes in text()) {
            for encoding in ENCODINGS {
                prop_assert_eq!(whole(&bytes, encoding), model(&bytes, encoding));
            }
        }

        #[test]
        fn agrees_with_the_model_on_any_bytes(bytes: Vec<u8>) {
            for encoding in ENCODINGS {
                prop_assert_eq!(whole(&bytes, encoding), model(&bytes, encoding));
            }
        }

        #[test]
        fn each_count_alone_is_what_it_is_among_the_others(bytes in text()) {
            for encoding in ENCODINGS {
                let all = whole(&bytes, encoding);
                let alone = |wanted| Summary::of(&bytes, wanted, encoding).counts();
                let none = Wanted::default();
                prop_assert_eq!(alone(Wanted { lines: true, ..none }).lines, all.lines);
                prop_assert_eq!(alone(Wanted { words: true, ..none }).words, all.words);
                prop_assert_eq!(
                    alone(Wanted { characters: true, ..none }).characters,
                    all.characters
                );
                prop_assert_eq!(alone(Wanted { columns: true, ..none }).columns, all.columns);
                prop_assert_eq!(alone(none).bytes, all.bytes);
            }
        }

        #[test]
        fn every_cut_gives_the_same(bytes in text()) {
            for encoding in ENCODINGS {
                let expected = whole(&bytes, encoding);
                for cut in 0..=bytes.len() {
                    let (left, right) = bytes.split_at(cut);
                    let left = Summary::of(left, ALL, encoding);
                    let right = Summary::of(right, ALL, encoding);
                    prop_assert_eq!(left.merge(right).counts(), expected, "cut at {}", cut);
                }
            }
        }

        #[test]
        fn what_is_repeated_is_as_if_it_were_written_out(bytes in text(), times in 0..20_usize) {
            for encoding in ENCODINGS {
                let repeated = Summary::of(&bytes, ALL, encoding).repeated(times as u64);
                prop_assert_eq!(repeated.counts(), whole(&bytes.repeat(times), encoding));
            }
        }

        #[test]
        fn many_cuts_join_in_any_order(
            bytes in text(),
            sizes in proptest::collection::vec(0..9_usize, 1..200),
            joins: Vec<proptest::sample::Index>,
        ) {
            for encoding in ENCODINGS {
                let mut rest = bytes.as_slice();
                let mut pieces = Vec::new();
                for size in sizes.iter().cycle().take(400) {
                    let (piece, after) = rest.split_at(rest.len().min(*size));
                    pieces.push(Summary::of(piece, ALL, encoding));
                    rest = after;
                }
                pieces.push(Summary::of(rest, ALL, encoding));
                for join in &joins {
                    if pieces.len() > 1 {
                        let at = join.index(pieces.len() - 1);
                        let right = pieces.remove(at + 1);
                        pieces[at] = pieces[at].merge(right);
                    }
                }
                let joined = pieces.into_iter().rev().reduce(|right, left| left.merge(right));
                prop_assert_eq!(joined.unwrap().counts(), whole(&bytes, encoding));
            }
        }
    }

    #[test]
    fn a_tab_after_a_cut_steps_from_the_true_column() {
        let (left, right) = (b"abcdefghi".as_slice(), b"j\tk\tl\nm".as_slice());
        for encoding in ENCODINGS {
            let left = Summary::of(left, ALL, encoding);
            let right = Summary::of(right, ALL, encoding);
            assert_eq!(left.merge(right).counts().columns, 25);
        }
    }

    #[test]
    fn what_is_no_space_is_part_of_a_word() {
        let words = |bytes: &[u8], encoding| whole(bytes, encoding).words;
        for encoding in ENCODINGS {
            assert_eq!(words(b"\x01 a\0b \x7f\n", encoding), 3);
            assert_eq!(words(b"\xff \xe9t\xe9\n", encoding), 2);
            assert_eq!(words(&[0; 3 * BLOCK], encoding), 1);
        }
        assert_eq!(words(b"\x80 \xe2\x82", UTF8), 2, "at the edges");
        assert_eq!(words(b"\xc2\xa0\xa0", UTF8), 1, "a space, and what is none");
        assert_eq!(words(b"l\xc3\xa0-bas", BYTES), 2, "in the C locale the byte is a space");
    }

    #[test]
    fn only_what_encodes_a_character_is_one() {
        let characters = |bytes: &[u8]| whole(bytes, UTF8).characters;
        assert_eq!(characters("aé中😀".as_bytes()), 4);
        assert_eq!(characters(b"\xed\xa0\x80"), 0, "a surrogate");
        assert_eq!(characters(b"\xc0\x80\xe0\x80\x80\xf0\x80\x80\x80"), 0, "not the shortest form");
        assert_eq!(characters(b"x\xe2\x82A"), 2, "a broken sequence costs none of what follows");
        assert_eq!(characters(b"\xe2\x82"), 0, "an unfinished sequence at the end");
        assert_eq!(characters(b"\xf8\x88\x80\x80\x80\xfd\xbf\xbf\xbf\xbf\xbf"), 2, "long forms");
    }
}
