//! Names out of what a program prints, as it prints them.

/// A name is at most four times what the system takes for a path (`PATH_MAX`):
/// what is longer is no list of names.
pub(super) const NAME_BYTES_MAX: usize = 4 * 4096;

/// Splits what is printed into names: at NULs if the first piece that holds
/// any separator holds one, else at newlines. Empty names are none. What else
/// is in a name is its own: spaces, carriage returns.
#[derive(Debug, Default)]
pub(super) struct Names {
    printed: Vec<u8>,
    /// Bytes of `printed` that were handed out.
    taken: usize,
    /// Bytes of `printed` that hold no separator, or were handed out.
    searched: usize,
    separator: Option<u8>,
}

/// More was printed than a name can hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Names {
    /// More was printed.
    pub(super) fn push(&mut self, printed: &[u8]) {
        self.printed.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.printed.extend_from_slice(printed);
        if self.separator.is_none() {
            self.separator = [0, b'\n'].into_iter().find(|byte| printed.contains(byte));
        }
    }

    /// The next name that is known to be whole.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        loop {
            let rest = &self.printed[self.searched..];
            let found = rest.iter().position(|&byte| Some(byte) == self.separator);
            let (start, end) = (self.taken, self.searched + found.unwrap_or(rest.len()));
            if end - start > NAME_BYTES_MAX {
                return Err(TooLong);
            }
            self.searched = end;
            if found.is_none() {
                return Ok(None);
            }
            self.searched += 1;
            self.taken = self.searched;
            if end > start {
                return Ok(Some(&self.printed[start..end]));
            }
        }
    }

    /// Nothing more is printed: what follows the last separator, if anything.
    pub(super) fn last(self) -> Option<Vec<u8>> {
        let mut printed = self.printed;
        printed.drain(..self.taken);
        (!printed.is_empty()).then_some(printed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(pieces: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut names = Names::default();
        let mut found = Vec::new();
        for piece in pieces {
            names.push(piece);
            while let Some(name) = names.next()? {
                found.push(name.to_vec());
            }
        }
        found.extend(names.last());
        Ok(found)
    }

    #[test]
    fn the_first_separators_that_are_seen_decide() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["a\nb\n"], &["a", "b"]),
            (&["a\nb\0c\0"], &["a\nb", "c"]),
            (&["a", "b\n\n\nc\r\n", "d"], &["ab", "c\r", "d"]),
            (&["a\n", "b\0c\n"], &["a", "b\0c"]),
            (&["", "\0\0"], &[]),
            (&[], &[]),
        ];
        for (pieces, names) in cases {
            let pieces: Vec<_> = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
            assert_eq!(
                split(&pieces).unwrap(),
                *names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn what_is_too_long_is_no_name() {
        let longest = vec![b'x'; NAME_BYTES_MAX];
        assert_eq!(split(&[longest.clone(), b"\n".to_vec()]), Ok(vec![longest.clone()]));
        assert_eq!(split(&[longest.clone(), b"x".to_vec()]), Err(TooLong));
        assert_eq!(split(&[[&longest[..], b"x\ny\n"].concat()]), Err(TooLong));
    }

    proptest! {
        #[test]
        fn names_are_the_same_however_they_arrive(
            bytes in prop::collection::vec(prop::sample::select(&b"\0\n\r ab"[..]), 0..200),
            cuts in prop::collection::vec(0_usize..200, 0..20),
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect();
            let first = pieces.iter().find(|piece| piece.contains(&0) || piece.contains(&b'\n'));
            let separator = first.map(|piece| if piece.contains(&0) { 0 } else { b'\n' });
            let names: Vec<_> = bytes
                .split(|&byte| Some(byte) == separator)
                .filter(|name| !name.is_empty())
                .map(<[u8]>::to_vec)
                .collect();
            prop_assert_eq!(split(&pieces), Ok(names));
        }
    }
}
