//! Output bytes in which line numbers may still be unknown.

/// Output of a search, ready but for line numbers.
///
/// Part of a file that is searched out of order does not know how many lines
/// are before it: its line numbers are left out of `bytes`, and `marks` says
/// where each belongs.
#[derive(Debug, Default)]
pub(in crate::grep) struct Rendered {
    pub(in crate::grep) bytes: Vec<u8>,
    pub(in crate::grep) marks: Vec<Mark>,
}

/// A place for a line number.
#[derive(Debug, Clone, Copy)]
pub(in crate::grep) struct Mark {
    /// Position in [`Rendered::bytes`].
    pub(in crate::grep) at: usize,
    /// Line number, counted from the start of the part.
    pub(in crate::grep) line: u64,
}

impl Rendered {
    pub(in crate::grep) fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }

    /// Bytes held in memory.
    pub(in crate::grep) fn held_bytes(&self) -> u64 {
        (self.bytes.len() + self.marks.len() * size_of::<Mark>()) as u64
    }

    /// Writes to `out`, in place of what it held, with `lines_before` added to every line number.
    pub(in crate::grep) fn resolve_into(&self, lines_before: u64, out: &mut Vec<u8>) {
        out.clear();
        let mut from = 0;
        for mark in &self.marks {
            out.extend_from_slice(&self.bytes[from..mark.at]);
            push_decimal(out, lines_before + mark.line);
            from = mark.at;
        }
        out.extend_from_slice(&self.bytes[from..]);
    }
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
    use super::*;

    #[test]
    fn line_numbers_are_filled_in() {
        let rendered = Rendered {
            bytes: b":a\n:b\n".to_vec(),
            marks: vec![Mark { at: 0, line: 1 }, Mark { at: 3, line: 7 }],
        };
        let mut out = Vec::new();
        rendered.resolve_into(93, &mut out);
        assert_eq!(out, b"94:a\n100:b\n");
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
