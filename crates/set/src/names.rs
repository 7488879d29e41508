//! Names in a list, as text is written on other systems, too.

use store::{Cutter, Name, NoList};

/// No path and no URL in use is longer; what has no separator for so long is no list.
const NAME_BYTES_MAX: usize = 1 << 20;
/// What some editors put before the first line of a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The same in UTF-16, of either order.
const BYTE_ORDER_MARKS_UTF16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Cuts names from a list, piece by piece. They are NUL-separated if a NUL comes with the
/// first separator, otherwise one a line; empty ones are passed over.
///
/// Lines end as on Windows, by a carriage return before the line's end, if all do that
/// come with the first, until one does not. Alone a name that ends so cannot be told from that: lists of
/// any names are NUL-separated. A mark of byte order before the first is no part of its name.
#[derive(Debug)]
pub struct Names {
    cutter: Cutter,
    /// Whether names are told to end with NUL, and may be any bytes.
    are_any_bytes: bool,
    /// Whether a name has come.
    is_begun: bool,
    /// Whether a carriage return at the end of a line is a part of that.
    has_returns: bool,
}

fn reason(why: NoList) -> String {
    match why {
        NoList::LateNul => why.to_string(),
        NoList::TooLong(_) => format!("no list: {why}"),
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::within(None)
    }
}

impl Names {
    /// Of a list whose names end with this byte, a newline or NUL.
    pub fn ended_by(end: u8) -> Self {
        Self::within(Some(end))
    }

    fn within(end: Option<u8>) -> Self {
        Self {
            cutter: Cutter::new(NAME_BYTES_MAX, end),
            are_any_bytes: end == Some(0),
            is_begun: false,
            has_returns: false,
        }
    }

    /// The names that end in `chunk`, which goes on where the last one ended.
    ///
    /// # Errors
    /// Why it is no list.
    pub fn of(&mut self, chunk: &[u8]) -> Result<Vec<Name>, String> {
        self.cutter.push(chunk).map_err(reason)?;
        if memchr::memchr(0, chunk).is_some() && self.is_utf16() {
            let reason = "no list: it is UTF-16, and names are UTF-8; `iconv -f UTF-16 -t UTF-8` makes it a list";
            return Err(reason.to_owned());
        }
        if !self.is_begun && self.cutter.end() == Some(b'\n') {
            self.has_returns = self.all_return();
        }
        let mut names = Vec::new();
        while let Some(name) = self.cutter.next_name().map_err(reason)? {
            let name = name.to_vec();
            names.extend(self.named(name));
        }
        Ok(names)
    }

    /// Whether a carriage return is at the end of each line that ends in the first piece where one does.
    fn all_return(&self) -> bool {
        let text = self.cutter.rest();
        let Some(last) = memchr::memrchr(b'\n', text) else { return false };
        text[..last].split(|&byte| byte == b'\n').all(|line| line.ends_with(b"\r"))
    }

    /// Whether what has come begins as a text in UTF-16 does.
    fn is_utf16(&self) -> bool {
        let may_be = !self.is_begun && !self.are_any_bytes;
        may_be && BYTE_ORDER_MARKS_UTF16.iter().any(|mark| self.cutter.rest().starts_with(mark))
    }

    /// After the last piece, the name that has no separator behind it, unless it is empty.
    pub fn last(&mut self) -> Option<Name> {
        let rest = self.cutter.take_rest();
        self.named(rest)
    }

    fn named(&mut self, mut name: Vec<u8>) -> Option<Name> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if self.cutter.end() != Some(0) {
            self.trim(&mut name, is_first);
        }
        (!name.is_empty()).then(|| Name::from(name))
    }

    /// Takes from a line what is none of its name.
    fn trim(&mut self, line: &mut Vec<u8>, is_first: bool) {
        if is_first && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        self.has_returns &= line.ends_with(b"\r");
        if self.has_returns {
            line.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_in_pieces(list: &[u8], piece: usize) -> Result<Vec<String>, String> {
        cut(Names::default(), list, piece)
    }

    fn cut(mut names: Names, list: &[u8], piece: usize) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        for chunk in list.chunks(piece) {
            found.extend(names.of(chunk)?);
        }
        found.extend(names.last());
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn names_are_the_same_however_the_list_arrives() {
        for piece in 1..8 {
            let lines = split_in_pieces(b"a\n\nb c\nlast", piece);
            assert_eq!(lines.expect("a list"), ["a", "b c", "last"]);
            let nul = split_in_pieces(b"a\0b c\0\0last\0", piece);
            assert_eq!(nul.expect("a list"), ["a", "b c", "last"]);
        }
        let nul = split_in_pieces(b"new\nline\0b\0", 100);
        assert_eq!(nul.expect("a list"), ["new\nline", "b"]);
    }

    #[test]
    fn a_list_may_be_written_on_windows() {
        for piece in 1..8 {
            let split = |list| split_in_pieces(list, piece).expect("a list");
            assert_eq!(split(b"\xef\xbb\xbfa\r\n\r\nb c\r\r\nlast"), ["a", "b c\r", "last"]);
            assert_eq!(split(b"\xef\xbb\xbfonly"), ["only"]);
            assert_eq!(split(b"a\nb\r\n\xef\xbb\xbfc\n"), ["a", "b\r", "\u{feff}c"]);
            assert_eq!(split(b"\xef\xbb\xbfa\r\0b\r\0"), ["\u{feff}a\r", "b\r"]);
            assert_eq!(split(b"one\r"), ["one\r"]);
            assert_eq!(split(b"a\r\nb\nc\r\n").last().expect("a name"), "c\r");
        }
    }

    #[test]
    fn a_name_may_end_in_a_carriage_return() {
        for names in [Names::default(), Names::ended_by(b'\n')] {
            assert_eq!(cut(names, b"a\r\nb\nc\r\n", 100).expect("a list"), ["a\r", "b", "c\r"]);
        }
    }

    #[test]
    fn a_list_in_utf16_is_refused_by_name() {
        let text = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}a.txt\r\nb.txt\r\n".encode_utf16().flat_map(order).collect()
        };
        for list in [text(u16::to_le_bytes), text(u16::to_be_bytes)] {
            for piece in 1..8 {
                for names in [Names::default(), Names::ended_by(b'\n')] {
                    let refused = cut(names, &list, piece).expect_err("no list");
                    assert!(refused.contains("UTF-16"), "{refused}");
                }
            }
        }
        let odd = cut(Names::ended_by(0), b"\xff\xfea\0b\0", 3).expect("a list");
        assert_eq!(odd.len(), 2);
        let later = split_in_pieces(b"a\0\xff\xfeb\0", 2).expect("a list");
        assert_eq!(later.len(), 2);
    }

    #[test]
    fn an_end_that_is_told_is_not_looked_for() {
        for piece in 1..8 {
            let told = |end, list| cut(Names::ended_by(end), list, piece).expect("a list");
            assert_eq!(told(b'\n', b"a\0b\nc\n"), ["a\0b", "c"]);
            assert_eq!(told(0, b"a\nb\0c\r"), ["a\nb", "c\r"]);
            assert_eq!(told(b'\n', b"a\r\nb\r\n"), ["a", "b"]);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        assert!(split_in_pieces(b"a\nb\0c", 2).is_err());
        assert!(split_in_pieces(&vec![b'x'; NAME_BYTES_MAX + 1], 4096).is_err());
    }
}
