//! Names cut from a text as it comes: from a list, or from what a program prints.

use bstr::ByteSlice as _;

/// Cuts names from a text that comes piece by piece: at NULs if the first piece that holds any
/// separator holds one, else at newlines. What else is in a name is its own.
#[derive(Debug)]
pub struct Cutter {
    /// What has come and was not let go.
    text: Vec<u8>,
    /// Bytes of it that were handed out.
    taken: usize,
    /// Bytes of it that hold no separator, or were handed out.
    searched: usize,
    /// What names end with, when that is known.
    end: Option<u8>,
    /// Whether that was told, not seen.
    is_end_told: bool,
    name_bytes_max: usize,
}

/// Why a text is no list of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoList {
    /// A NUL came after lines had been taken for names.
    #[error("a NUL in a list of lines: names end all with NUL, or none")]
    LateNul,
    /// More came than a name can hold.
    #[error("more than {0} bytes without a separator")]
    TooLong(usize),
}

impl Cutter {
    /// Of a text whose longest name has so many bytes, and ends with `end`, if that is told.
    pub fn new(name_bytes_max: usize, end: Option<u8>) -> Self {
        let is_end_told = end.is_some();
        Self { text: Vec::new(), taken: 0, searched: 0, end, is_end_told, name_bytes_max }
    }

    /// More has come. All names before it are to have been taken.
    ///
    /// # Errors
    /// [`NoList::LateNul`].
    pub fn push(&mut self, piece: &[u8]) -> Result<(), NoList> {
        let has_nul = piece.find_byte(0).is_some();
        if self.end == Some(b'\n') && !self.is_end_told && has_nul {
            return Err(NoList::LateNul);
        }
        self.text.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.text.extend_from_slice(piece);
        let has_newline = || piece.find_byte(b'\n').map(|_| b'\n');
        self.end = self.end.or(has_nul.then_some(0)).or_else(has_newline);
        Ok(())
    }

    /// The next name that is known to be whole; it may be empty.
    ///
    /// # Errors
    /// [`NoList::TooLong`].
    pub fn next_name(&mut self) -> Result<Option<&[u8]>, NoList> {
        let rest = &self.text[self.searched..];
        let found = self.end.and_then(|end| rest.find_byte(end));
        let (start, end) = (self.taken, self.searched + found.unwrap_or(rest.len()));
        if end - start > self.name_bytes_max {
            return Err(NoList::TooLong(self.name_bytes_max));
        }
        self.searched = end;
        if found.is_none() {
            return Ok(None);
        }
        self.searched += 1;
        self.taken = self.searched;
        Ok(Some(&self.text[start..end]))
    }

    /// What names end with, when that is known.
    pub fn end(&self) -> Option<u8> {
        self.end
    }

    /// What has come and was not taken. After the last piece, it is a name if it is not empty.
    pub fn rest(&self) -> &[u8] {
        &self.text[self.taken..]
    }

    /// Takes that.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.text);
        rest.drain(..self.taken);
        (self.taken, self.searched) = (0, 0);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 100;

    fn split(pieces: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, NoList> {
        let mut names = Cutter::new(MAX, None);
        let mut found = Vec::new();
        for piece in pieces {
            names.push(piece)?;
            while let Some(name) = names.next_name()? {
                found.push(name.to_vec());
            }
        }
        found.push(names.take_rest());
        found.retain(|name| !name.is_empty());
        Ok(found)
    }

    #[test]
    fn the_first_separators_that_are_seen_decide() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["a\nb\n"], &["a", "b"]),
            (&["a\nb\0c\0"], &["a\nb", "c"]),
            (&["a", "b\n\n\nc\r\n", "d"], &["ab", "c\r", "d"]),
            (&["", "\0\0"], &[]),
            (&[], &[]),
        ];
        for (pieces, names) in cases {
            let pieces: Vec<_> = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
            let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(split(&pieces), Ok(names));
        }
    }

    #[test]
    fn a_nul_after_lines_makes_it_no_list() {
        let pieces = [&b"a\n"[..], b"b\0c\0"].map(<[u8]>::to_vec);
        assert_eq!(split(&pieces), Err(NoList::LateNul));
        let mut told = Cutter::new(MAX, Some(b'\n'));
        assert_eq!(told.push(b"a\0b\n"), Ok(()));
        assert_eq!(told.next_name(), Ok(Some(&b"a\0b"[..])));
    }

    #[test]
    fn what_is_too_long_is_no_name() {
        let longest = vec![b'x'; MAX];
        assert_eq!(split(&[longest.clone(), b"\n".to_vec()]), Ok(vec![longest.clone()]));
        assert_eq!(split(&[longest.clone(), b"x".to_vec()]), Err(NoList::TooLong(MAX)));
        assert_eq!(split(&[[&longest[..], b"x\ny\n"].concat()]), Err(NoList::TooLong(MAX)));
    }

    proptest! {
        #[test]
        fn names_are_the_same_however_they_arrive(
            bytes in prop::collection::vec(prop::sample::select(&b"\0\n\r ab"[..]), 0..MAX),
            cuts in prop::collection::vec(0_usize..MAX, 0..20),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect();
            let first = pieces.iter().position(|piece| piece.contains(&0) || piece.contains(&b'\n'));
            let first = first.unwrap_or(pieces.len());
            let separator = pieces.get(first).map(|piece| if piece.contains(&0) { 0 } else { b'\n' });
            let is_late = |pieces: &[Vec<u8>]| pieces.concat().contains(&0);
            if separator == Some(b'\n') && is_late(&pieces[first..]) {
                prop_assert_eq!(split(&pieces), Err(NoList::LateNul));
                return Ok(());
            }
            let names: Vec<_> = bytes
                .split(|&byte| Some(byte) == separator)
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect();
            prop_assert_eq!(split(&pieces), Ok(names));
        }
    }
}
