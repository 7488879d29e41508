//! Records: pulling the edges of the nearer sled in to record boundaries.

use std::cmp::Ordering;

use crate::{Picker, Piece, Sled};

/// Bytes read at first when looking for a separator: a page. They double with each step, so that a
/// long record takes few.
const STEP_MIN: u64 = 4096;
/// Bytes read at a time at most.
const STEP_MAX: u64 = 256 << 10;

/// Moves the boundaries between sleds to record boundaries (the paper, section 4.2 and figure 4).
///
/// Each boundary moves into the nearer of the two sleds, so that a fragment of
/// a record joins the farther one and nothing far is read to find it: forward
/// past the first separator, or back to just after the last one. A sled
/// without a separator joins its farther neighbour. Afterwards every sled
/// starts at the start of a record. The ends of the file stay.
///
/// `read(offset, buffer)` fills the buffer from the file; only the edges of
/// nearer sleds are asked for.
///
/// # Errors
/// The first that `read` gives.
pub fn pull_edges<E>(
    sleds: &[Sled],
    separator: u8,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Vec<Sled>, E> {
    let mut pulled: Vec<Sled> = Vec::with_capacity(sleds.len());
    for sled in sleds {
        let mut sled = sled.clone();
        while let Some(last) = pulled.last_mut() {
            let end = sled.range().end;
            if last.place == sled.place && last.device == sled.device {
                last.length = end - last.offset;
                sled.length = 0;
                break;
            }
            if sled.distance().cmp(&last.distance()) == Ordering::Greater {
                let at = last_record_end(last.offset, sled.offset, separator, &mut read)?;
                if let Some(at) = at {
                    last.length = at - last.offset;
                    sled.offset = at;
                    sled.length = end - at;
                    break;
                }
                sled.offset = last.offset;
                sled.length = end - last.offset;
                pulled.pop();
            } else {
                let first = first_record_end(sled.offset, end, separator, &mut read)?;
                let at = first.unwrap_or(end);
                last.length = at - last.offset;
                sled.offset = at;
                sled.length = end - at;
                break;
            }
        }
        if sled.length > 0 {
            pulled.push(sled);
        }
    }
    Ok(pulled)
}

impl Picker {
    /// Takes the next piece, cut to end with a record: at its last separator,
    /// or, where a record is longer than a piece, at that record's end.
    ///
    /// For sleds from [`pull_edges`], whose every start is the start of a record.
    ///
    /// # Errors
    /// The first that `read` gives; nothing is taken then.
    pub fn take_records<E>(
        &mut self,
        separator: u8,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Option<Piece>, E> {
        let Some(mut piece) = self.take() else { return Ok(None) };
        let mut end = piece.range().end;
        if self.follows(end) {
            let mut found = last_record_end(piece.offset, end, separator, &mut read);
            if matches!(found, Ok(None)) {
                let from = end;
                end = self.take_on(from, u64::MAX);
                found = first_record_end(from, end, separator, &mut read);
            }
            let found = found.inspect_err(|_| self.give_back(&piece, piece.offset..end));
            let at = found?.unwrap_or(end);
            self.give_back(&piece, at..end);
            piece.length = at - piece.offset;
        }
        Ok(Some(piece))
    }
}

/// Where the last record that ends within `from..to` ends: just after the last separator there.
fn last_record_end<E>(
    from: u64,
    to: u64,
    separator: u8,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Option<u64>, E> {
    let (mut buffer, mut step) = (Vec::new(), STEP_MIN);
    let mut end = to;
    while end > from {
        let start = from.max((end - 1) / step * step);
        let part = sized(&mut buffer, end - start);
        read(start, part)?;
        if let Some(at) = memchr::memrchr(separator, part) {
            return Ok(Some(start + at as u64 + 1));
        }
        end = start;
        step = STEP_MAX.min(step * 2);
    }
    Ok(None)
}

/// Where the first record that ends within `from..to` ends: just after the first separator there.
///
/// # Errors
/// The first that `read` gives.
pub fn first_record_end<E>(
    from: u64,
    to: u64,
    separator: u8,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<Option<u64>, E> {
    let (mut buffer, mut step) = (Vec::new(), STEP_MIN);
    let mut start = from;
    while start < to {
        let end = to.min((start / step + 1) * step);
        let part = sized(&mut buffer, end - start);
        read(start, part)?;
        if let Some(at) = memchr::memchr(separator, part) {
            return Ok(Some(start + at as u64 + 1));
        }
        start = end;
        step = STEP_MAX.min(step * 2);
    }
    Ok(None)
}

/// The first `bytes` of a buffer, which has as many then.
fn sized(buffer: &mut Vec<u8>, bytes: u64) -> &mut [u8] {
    let bytes = usize::try_from(bytes).expect("at most STEP_MAX");
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    &mut buffer[..bytes]
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::{Device, Estimate, Place};

    /// A text whose capital letters are near and whose other bytes are far.
    fn sleds_of(text: &[u8], near: impl Fn(u8) -> bool) -> Vec<Sled> {
        let mut sleds: Vec<Sled> = Vec::new();
        for (at, &byte) in text.iter().enumerate() {
            let place = if near(byte) { Place::Near } else { Place::Far };
            match sleds.last_mut() {
                Some(last) if last.place == place => last.length += 1,
                _ => sleds.push(Sled {
                    offset: at as u64,
                    length: 1,
                    device: Device::new(format!("{place:?}")),
                    place,
                    estimate: Some(Estimate::exact(1.0, 1.0)),
                }),
            }
        }
        sleds
    }

    fn reader(text: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Result<(), Infallible> + '_ {
        |offset, buffer| {
            let start = usize::try_from(offset).expect("small");
            buffer.copy_from_slice(&text[start..start + buffer.len()]);
            Ok(())
        }
    }

    /// Sleds as text: near in capitals, `|` between sleds, separator `.` (near) or `,` (far).
    fn pulled(text: &str) -> String {
        let bytes = text.as_bytes();
        let near = |byte: u8| byte.is_ascii_uppercase() || byte == b'.';
        let as_read: Vec<u8> =
            bytes.iter().map(|&byte| if byte == b',' { b'.' } else { byte }).collect();
        let Ok(sleds) = pull_edges(&sleds_of(bytes, near), b'.', reader(&as_read));
        let part = |sled: &Sled| {
            let start = usize::try_from(sled.offset).expect("small");
            let end = usize::try_from(sled.range().end).expect("small");
            let mark = if sled.place == Place::Near { "+" } else { "-" };
            format!("{mark}{}", &text[start..end])
        };
        sleds.iter().map(part).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn fragments_are_pushed_to_the_farther_neighbour() {
        assert_eq!(pulled("ab,cdEF.GH.IJkl,m"), "-ab,cdEF.|+GH.|-IJkl,m");
    }

    #[test]
    fn a_near_sled_without_a_whole_record_vanishes() {
        assert_eq!(pulled("ab,cdEFgh,i"), "-ab,cdEFgh,i");
        assert_eq!(pulled("ab,cdEF.gh,i"), "-ab,cdEF.gh,i");
        assert_eq!(pulled("ABcd,"), "-ABcd,");
    }

    #[test]
    fn the_ends_of_the_file_stay() {
        assert_eq!(pulled("AB.CDef,gh"), "+AB.|-CDef,gh");
        assert_eq!(pulled("ab,cDE.FG"), "-ab,cDE.|+FG");
        assert_eq!(pulled("ABC"), "+ABC");
        assert_eq!(pulled(""), "");
    }

    #[test]
    fn a_record_longer_than_a_piece_comes_whole() {
        let text = b"ab.cdefghij.k";
        let sleds = sleds_of(text, |_| false);
        let mut picker = Picker::new(&sleds, 4);
        let mut taken = Vec::new();
        while let Ok(Some(piece)) = picker.take_records(b'.', reader(text)) {
            taken.push(piece.range());
        }
        assert_eq!(taken, [0..3, 3..12, 12..13]);
    }

    proptest! {
        #[test]
        fn pieces_are_whole_records_and_each_byte_comes_once(
            text in "[a-cA-C.]{0,300}",
            piece_bytes in 1_u64..40,
        ) {
            let text = text.as_bytes();
            let Ok(sleds) = pull_edges(
                &sleds_of(text, |byte| byte.is_ascii_uppercase()),
                b'.',
                reader(text),
            );
            let mut seen = vec![false; text.len()];
            let mut picker = Picker::new(&sleds, piece_bytes);
            while let Ok(Some(piece)) = picker.take_records(b'.', reader(text)) {
                let start = usize::try_from(piece.offset).expect("small");
                let end = usize::try_from(piece.range().end).expect("small");
                prop_assert!(start == 0 || text[start - 1] == b'.');
                prop_assert!(end == text.len() || text[end - 1] == b'.');
                for byte in &mut seen[start..end] {
                    prop_assert!(!std::mem::replace(byte, true));
                }
            }
            prop_assert!(seen.iter().all(|&byte| byte));
        }
    }
}
