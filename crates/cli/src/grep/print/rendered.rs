//! Output bytes in which line numbers may still be unknown, and long text be left out.

/// From this size on, text of a file is not copied: far more than a line of text, far less than memory.
pub(in crate::grep) const QUOTED_BYTES_MIN: usize = 1 << 20;

/// Output of a search, ready but for line numbers and long text.
///
/// Part of a file that is searched out of order does not know how many lines
/// are before it: its line numbers are left out of `bytes`, and `marks` says
/// where each belongs. Long text is left out, too: `quotes` says where in the
/// file it is.
#[derive(Debug, Clone, Default)]
pub(in crate::grep) struct Rendered {
    pub(in crate::grep) bytes: Vec<u8>,
    pub(in crate::grep) marks: Vec<Mark>,
    pub(in crate::grep) quotes: Vec<Quote>,
}

/// A place for a line number.
#[derive(Debug, Clone, Copy)]
pub(in crate::grep) struct Mark {
    /// Position in [`Rendered::bytes`].
    pub(in crate::grep) at: usize,
    /// Line number, counted from the start of the part.
    pub(in crate::grep) line: u64,
}

/// A place for text of the file. A mark at the same place comes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::grep) struct Quote {
    /// Position in [`Rendered::bytes`].
    pub(in crate::grep) at: usize,
    /// Where in the file the text begins.
    pub(in crate::grep) start: u64,
    pub(in crate::grep) length: u64,
    pub(in crate::grep) form: Form,
}

/// How text of the file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::grep) enum Form {
    AsItIs,
    /// As UTF-8 between the quotation marks of JSON.
    Json,
    Base64,
}

/// Text that is in the file as it is here.
#[derive(Debug, Clone, Copy)]
pub(in crate::grep) struct InFile<'a> {
    pub(in crate::grep) text: &'a [u8],
    /// Where in the file it begins.
    pub(in crate::grep) offset: u64,
}

impl InFile<'_> {
    /// Where in the file a piece of the text begins.
    fn offset_of(&self, piece: &[u8]) -> Option<u64> {
        let before = piece.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        (before + piece.len() <= self.text.len()).then_some(self.offset + before as u64)
    }
}

impl Rendered {
    /// Appends `piece`; if it is long and one of `text`, only where it is. What follows has to be
    /// a byte at least before the next mark.
    pub(in crate::grep) fn put(&mut self, piece: &[u8], text: Option<InFile<'_>>) {
        if piece.len() < QUOTED_BYTES_MIN || !self.quote(piece, text, Form::AsItIs) {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Leaves a place for `piece` of `text`; false if it is none.
    pub(in crate::grep) fn quote(
        &mut self,
        piece: &[u8],
        text: Option<InFile<'_>>,
        form: Form,
    ) -> bool {
        let Some(start) = text.and_then(|text| text.offset_of(piece)) else { return false };
        self.quotes.push(Quote { at: self.bytes.len(), start, length: piece.len() as u64, form });
        true
    }

    pub(in crate::grep) fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
        self.quotes.clear();
    }

    /// Bytes held in memory.
    pub(in crate::grep) fn held_bytes(&self) -> u64 {
        let quotes = self.quotes.len() * size_of::<Quote>();
        (self.bytes.len() + self.marks.len() * size_of::<Mark>() + quotes) as u64
    }

    /// Hands over all of it, piece by piece, with `lines_before` added to every line number; `space`
    /// is worked in.
    ///
    /// # Errors
    /// Those of `take`.
    pub(in crate::grep) fn resolve<E>(
        &self,
        lines_before: u64,
        space: &mut Vec<u8>,
        mut take: impl FnMut(Resolved<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut from, mut marks) = (0, self.marks.as_slice());
        let ends = self.quotes.iter().map(|quote| (quote.at, Some(quote)));
        for (end, quote) in ends.chain([(self.bytes.len(), None)]) {
            let (here, later) = marks.split_at(marks.partition_point(|mark| mark.at <= end));
            marks = later;
            if here.is_empty() {
                take(Resolved::Bytes(&self.bytes[from..end]))?;
            } else {
                space.clear();
                for mark in here {
                    space.extend_from_slice(&self.bytes[from..mark.at]);
                    push_decimal(space, lines_before + mark.line);
                    from = mark.at;
                }
                space.extend_from_slice(&self.bytes[from..end]);
                take(Resolved::Bytes(space))?;
            }
            from = end;
            if let Some(quote) = quote {
                take(Resolved::Quote(quote))?;
            }
        }
        Ok(())
    }
}

/// A piece of output.
#[derive(Debug, Clone, Copy)]
pub(in crate::grep) enum Resolved<'a> {
    Bytes(&'a [u8]),
    Quote(&'a Quote),
}

/// Appends `number` in decimal.
pub(in crate::grep) fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn line_numbers_are_filled_in() {
        let rendered = Rendered {
            bytes: b":a\n:b\n".to_vec(),
            marks: vec![Mark { at: 0, line: 1 }, Mark { at: 3, line: 7 }],
            quotes: Vec::new(),
        };
        assert_eq!(resolved(&rendered, 93), "94:a\n100:b\n");
    }

    #[test]
    fn long_text_is_named_and_stands_after_the_number_of_its_line() {
        let line = [b"x".repeat(QUOTED_BYTES_MIN), b"yz".to_vec()].concat();
        let text = Some(InFile { text: &line, offset: 1000 });
        let mut rendered = Rendered::default();
        for number in 1..=2 {
            rendered.marks.push(Mark { at: rendered.bytes.len(), line: number });
            rendered.put(&line[1..=QUOTED_BYTES_MIN], text);
            rendered.put(b"\n", None);
        }
        rendered.put(&line[..5], text);
        rendered.put(&b"x".repeat(QUOTED_BYTES_MIN), text);
        let copied = "x".repeat(QUOTED_BYTES_MIN + 5);
        let expected = format!("1<1001>\n2<1001>\n{copied}");
        assert!(resolved(&rendered, 0) == expected);
    }

    /// With `<OFFSET>` in the place of long text.
    fn resolved(rendered: &Rendered, lines_before: u64) -> String {
        let mut out = String::new();
        let taken = rendered.resolve(lines_before, &mut Vec::new(), |piece| {
            match piece {
                Resolved::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
                Resolved::Quote(quote) => write!(out, "<{}>", quote.start)?,
            }
            Ok::<_, std::fmt::Error>(())
        });
        taken.expect("nothing fails");
        out
    }

    #[test]
    fn decimals() {
        for number in [0, 1, 9, 10, 100, 12_345, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
