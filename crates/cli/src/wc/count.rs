//! The counting kernel: what a piece of text holds, and how two neighbours join.
//!
//! Pure. A [`Summary`] knows what its first and last bytes leave open: a word, a character or a
//! line may go on in the neighbour. Joining is associative and exact at every cut, so that pieces
//! may be counted in any order, by any number of threads.

use super::columns::Columns;
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

/// What a character does to words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Belongs to a word.
    Word,
    /// Ends a word.
    Space,
    /// Not printable: neither starts nor ends a word.
    Neither,
}

/// What counting needs to know about a character over 0x7f.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glyph {
    pub(super) part: Part,
    /// Columns on a terminal.
    pub(super) width: u8,
}

/// How bytes become characters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Encoding {
    /// A byte is a character, and those over 0x7f are not printable: the C locale.
    Bytes,
    /// UTF-8, with the locale's answer for each character over 0x7f.
    Utf8(fn(u32) -> Glyph),
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
    /// Whether the first character that is in a word or space is in a word; `None` without one.
    starts_in_word: Option<bool>,
    /// The same for the last one.
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
        let in_word = match glyph.part {
            Part::Neither => return,
            Part::Word => true,
            Part::Space => false,
        };
        self.words += u64::from(in_word && self.ends_in_word != Some(true));
        self.starts_in_word.get_or_insert(in_word);
        self.ends_in_word = Some(in_word);
        self.columns.advance(u64::from(glyph.width));
    }

    fn ascii(&mut self, byte: u8) {
        let part = match byte {
            b'\t'..=b'\r' | b' ' => Part::Space,
            b'!'..=b'~' => Part::Word,
            _ => Part::Neither,
        };
        self.lines += u64::from(byte == b'\n');
        let width = u8::from(matches!(byte, b' '..=b'~'));
        self.glyph(Glyph { part, width });
        self.columns_break(byte);
    }

    fn columns_break(&mut self, byte: u8) {
        match byte {
            b'\n' | b'\r' | b'\x0c' => self.columns.end_line(),
            b'\t' => self.columns.tab(),
            _ => {}
        }
    }

    /// Adds a block in which every byte is a character.
    #[inline]
    fn block(&mut self, masks: &Masks, block: &[u8; BLOCK], columns: bool) {
        self.lines += u64::from(masks.newline.count_ones());
        let decided = masks.word | masks.space;
        if decided != 0 {
            let neither = !decided;
            let before = u64::from(self.ends_in_word == Some(true));
            // A word goes on through bytes that are neither: adding a bit at the bottom of such a
            // run turns the whole run to zeros, and leaves runs after a space alone.
            let run_starts = (masks.word << 1 | before) & neither;
            let in_word = masks.word | neither & !neither.wrapping_add(run_starts);
            let starts = masks.word & !(in_word << 1 | before);
            self.words += u64::from(starts.count_ones());
            let first = decided & decided.wrapping_neg();
            self.starts_in_word.get_or_insert(masks.word & first != 0);
            self.ends_in_word = Some(in_word >> (BLOCK - 1) != 0);
        }
        if columns {
            self.block_columns(masks, block);
        }
    }

    fn block_columns(&mut self, masks: &Masks, block: &[u8; BLOCK]) {
        let mut visible = masks.word | masks.blank;
        let mut breaks = masks.space & !masks.blank;
        while breaks != 0 {
            let at = breaks.trailing_zeros();
            let before = (1 << at) - 1;
            self.columns.advance(u64::from((visible & before).count_ones()));
            self.columns_break(block[at as usize]);
            visible &= !before;
            breaks &= breaks - 1;
        }
        self.columns.advance(u64::from(visible.count_ones()));
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
            summary.tally.lines = memchr::memchr_iter(b'\n', bytes).count() as u64;
        }
        match encoding {
            Encoding::Bytes => {
                summary.open = bytes.is_empty();
                if in_detail {
                    summary.tally = detail_of_bytes(bytes, wanted);
                }
                summary.tally.characters = bytes.len() as u64;
            }
            Encoding::Utf8(glyph_of) if in_detail || wanted.characters => {
                let reach = &bytes[..bytes.len().min(LONGEST - 1)];
                let head = reach.iter().take_while(|byte| utf8::continues(**byte)).count();
                summary.head = Edge::of(&bytes[..head]);
                summary.open = head == bytes.len() && !summary.head.is_full();
                let body = &bytes[head..];
                let (whole, tail) = body.split_at(body.len() - utf8::unfinished(body));
                summary.tail = Edge::of(tail);
                if in_detail {
                    summary.tally = detail_of_utf8(whole, wanted, glyph_of);
                } else {
                    summary.tally.characters = utf8::count(whole);
                }
            }
            Encoding::Utf8(_) => summary.open = bytes.is_empty(),
        }
        summary
    }

    /// Joins this piece with the one that follows it.
    pub(super) fn merge(self, right: Summary) -> Summary {
        let bytes = self.bytes + right.bytes;
        if self.open {
            let joint = self.head.then(right.head);
            let head = Edge::of(joint.as_slice());
            let open = right.open && !head.is_full();
            return Summary { bytes, head, open, tally: self.tally.merge(right.tally), ..right };
        }
        let joint = self.tail.then(right.head);
        let mut tally = self.tally;
        let mut tail = right.tail;
        if self.tail.length > 0 {
            match utf8::decode(joint.as_slice()) {
                Decoded::Character(character, _) => {
                    if let Encoding::Utf8(glyph_of) = self.encoding {
                        tally.glyph(glyph_of(character));
                    }
                }
                Decoded::Incomplete if right.open => tail = Edge::of(joint.as_slice()),
                Decoded::Incomplete | Decoded::Invalid => {}
            }
        }
        Summary { bytes, tally: tally.merge(right.tally), tail, ..self }
    }

    /// The counts, when this piece is the whole text: what is open at its edges is no character.
    pub(super) fn counts(self) -> Counts {
        Counts {
            lines: self.tally.lines,
            words: self.tally.words,
            characters: self.tally.characters,
            bytes: self.bytes,
            columns: self.tally.columns.widest(),
        }
    }
}

/// Calls `each` for every block with its masks; the last one is filled up with zeros, which count
/// for nothing, and comes with its true length.
fn each_block(bytes: &[u8], mut each: impl FnMut(&Masks, &[u8; BLOCK], usize)) {
    let mut masks = [Masks::default(); STRIP_BLOCKS];
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for strip in blocks.chunks(STRIP_BLOCKS) {
        let masks = &mut masks[..strip.len()];
        masks::fill(strip, masks);
        for (block, masks) in strip.iter().zip(&*masks) {
            each(masks, block, BLOCK);
        }
    }
    if !rest.is_empty() {
        let mut block = [0; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        masks::fill(&[block], &mut masks[..1]);
        each(&masks[0], &block, rest.len());
    }
}

fn detail_of_bytes(bytes: &[u8], wanted: Wanted) -> Tally {
    let mut tally = Tally::default();
    each_block(bytes, |masks, block, _| tally.block(masks, block, wanted.columns));
    tally
}

fn detail_of_utf8(bytes: &[u8], wanted: Wanted, glyph_of: fn(u32) -> Glyph) -> Tally {
    let mut tally = Tally::default();
    // The next byte to look at: ahead of the block's start after a character that reaches into it.
    let mut next = 0;
    let mut start = 0;
    each_block(bytes, |masks, block, length| {
        let end = start + length;
        if masks.high == 0 {
            tally.block(masks, block, wanted.columns);
            tally.characters += length as u64;
            next = end;
        } else {
            while next < end {
                next += one_character(&mut tally, &bytes[next..], glyph_of);
            }
        }
        start = end;
    });
    tally
}

/// Counts the character at the start of `bytes` and says how long it is.
#[inline]
fn one_character(tally: &mut Tally, bytes: &[u8], glyph_of: fn(u32) -> Glyph) -> usize {
    match utf8::decode(bytes) {
        Decoded::Character(_, 1) => {
            tally.ascii(bytes[0]);
            1
        }
        Decoded::Character(character, length) => {
            tally.glyph(glyph_of(character));
            length
        }
        Decoded::Incomplete | Decoded::Invalid => 1,
    }
}
