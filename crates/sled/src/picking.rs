//! A pick of one file from its beginning to its end: when to ask again where the file is, and how
//! the ends of its records are looked for. What comes next is the picker's.

use crate::{Picker, Piece, Place, Plan, Sled, pull_edges};

/// Past this larger reads from the page cache are no faster, and a disk's readahead covers the rest.
const PIECE_BYTES: u64 = 256 << 10;
/// A pick asks at most so many times again where the file is: at the worst
/// answer seen, 70 ms for 4 GiB, that adds 2 s to a pass of that size.
const ASKS_MAX: u64 = 32;
/// Less than this is not worth asking again for.
const ASK_BYTES_MIN: u64 = 1 << 20;
/// While near pieces are left, asking again is so many times rarer.
const ASK_RARER_WHILE_NEAR: u64 = 4;
/// Far pieces up to this size are read forward before their end is looked for,
/// so that the device sees one sequential read. For longer ones the one seek
/// to the end costs less than reading twice.
const FORWARD_BYTES_MAX: u64 = 16 << 20;
/// Bytes read forward at a time.
const FORWARD_STEP_BYTES: usize = 128 << 10;

/// A file that is picked from.
pub trait Picked {
    /// Why it cannot be asked about or read.
    type Error;

    /// Where its parts are, as far as it goes; nothing of it is read.
    ///
    /// # Errors
    /// It cannot be asked about.
    fn sleds(&self) -> Result<Vec<Sled>, Self::Error>;

    /// Fills the buffer from `offset` on.
    ///
    /// # Errors
    /// It cannot be read, or is shorter.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;
}

/// How a file is picked.
#[derive(Debug, Clone, Copy)]
pub struct PickOptions {
    /// Bytes of a piece at most; by default 256 KiB.
    pub piece_bytes: u64,
    /// With a separator every piece starts at the start of a record and ends with one, or at the
    /// end of the file, and a longer record comes whole. By default none: pieces end anywhere.
    pub separator: Option<u8>,
    /// Near first (the default), or file order.
    pub plan: Plan,
}

impl Default for PickOptions {
    fn default() -> Self {
        Self { piece_bytes: PIECE_BYTES, separator: None, plan: Plan::Best }
    }
}

/// What is left to read of one file, each byte once.
///
/// Where the file is, is asked again now and then: once a 32nd of it has been taken (at least 1 MiB)
/// and nothing near is left, and once an eighth has while something is. In file order it never is.
///
/// To find the ends of records it reads from the file: of near parts only the edges, of far pieces
/// (up to 16 MiB) all, forward and once, so that who reads them next finds them in memory.
///
/// ```
/// use nearfirst_sled::{Device, Pick, PickOptions, Picked, Place, Sled};
///
/// struct Text(&'static [u8]);
///
/// impl Picked for Text {
///     type Error = std::convert::Infallible;
///
///     fn sleds(&self) -> Result<Vec<Sled>, Self::Error> {
///         let (length, device) = (self.0.len() as u64, Device::memory());
///         Ok(vec![Sled { offset: 0, length, device, place: Place::Near, estimate: None }])
///     }
///
///     fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error> {
///         buffer.copy_from_slice(&self.0[offset as usize..][..buffer.len()]);
///         Ok(())
///     }
/// }
///
/// let text = Text(b"one line\nand another\n");
/// let options = PickOptions { piece_bytes: 12, separator: Some(b'\n'), ..PickOptions::default() };
/// let mut pick = Pick::new(&text, options)?;
/// assert_eq!(pick.next(&text)?.map(|piece| piece.range()), Some(0..9));
/// assert_eq!(pick.next(&text)?.map(|piece| piece.range()), Some(9..21));
/// assert!(pick.next(&text)?.is_none());
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pick {
    separator: Option<u8>,
    picker: Picker,
    asks: Asks,
}

impl Pick {
    /// Begins to pick a file as long as it is.
    ///
    /// # Errors
    /// Those of the file.
    pub fn new<F: Picked>(file: &F, options: PickOptions) -> Result<Self, F::Error> {
        let PickOptions { piece_bytes, separator, plan } = options;
        let sleds = sleds_of(file, separator)?;
        let size = sleds.last().map_or(0, |last| last.range().end);
        let picker = Picker::with_plan(&sleds, piece_bytes, plan);
        Ok(Self { separator, picker, asks: Asks::new(size, plan) })
    }

    /// Takes the next piece; `None` when nothing is left.
    ///
    /// # Errors
    /// What looking for the end of a record gave: then nothing was taken, and the next call tries again.
    pub fn next<F: Picked>(&mut self, file: &F) -> Result<Option<Piece>, F::Error> {
        let Some(next) = self.picker.peek() else { return Ok(None) };
        if self.asks.is_due(next.place == Place::Near) {
            self.asks.asked();
            // Without a fresh answer the last one still holds every byte.
            drop(self.refresh(file));
        }
        let piece = match self.separator {
            None => self.picker.take(),
            Some(separator) => self.take_records(file, separator)?,
        };
        self.asks.took(piece.as_ref().map_or(0, |piece| piece.length));
        Ok(piece)
    }

    /// Asks again where the rest of the file is: what arrived in memory meanwhile comes early, what
    /// left is put back.
    ///
    /// # Errors
    /// Those of the file: the pick goes on by the last answer.
    pub fn refresh<F: Picked>(&mut self, file: &F) -> Result<(), F::Error> {
        self.picker.refresh(&sleds_of(file, self.separator)?);
        self.asks.asked();
        Ok(())
    }

    fn take_records<F: Picked>(
        &mut self,
        file: &F,
        separator: u8,
    ) -> Result<Option<Piece>, F::Error> {
        let far = self.picker.peek().filter(|piece| piece.place != Place::Near);
        if let Some(piece) = far.filter(|piece| piece.length <= FORWARD_BYTES_MAX) {
            read_forward(&piece, file)?;
        }
        self.picker.take_records(separator, |offset, buffer| file.read(offset, buffer))
    }
}

/// The sleds of a file, with their edges at records if there is a separator.
fn sleds_of<F: Picked>(file: &F, separator: Option<u8>) -> Result<Vec<Sled>, F::Error> {
    let sleds = file.sleds()?;
    match separator {
        None => Ok(sleds),
        Some(separator) => {
            pull_edges(&sleds, separator, |offset, buffer| file.read(offset, buffer))
        }
    }
}

fn read_forward<F: Picked>(piece: &Piece, file: &F) -> Result<(), F::Error> {
    let mut buffer = vec![0; FORWARD_STEP_BYTES];
    let end = piece.range().end;
    for at in piece.range().step_by(FORWARD_STEP_BYTES) {
        let left = usize::try_from(end - at).unwrap_or(FORWARD_STEP_BYTES);
        file.read(at, &mut buffer[..left.min(FORWARD_STEP_BYTES)])?;
    }
    Ok(())
}

/// When to ask again where a file is: after a 32nd of it has been taken once
/// what is next is not near, and after an eighth while near pieces are left.
#[derive(Debug, Clone)]
struct Asks {
    step_bytes: u64,
    taken_bytes: u64,
}

impl Asks {
    fn new(size: u64, plan: Plan) -> Self {
        let step_bytes = match plan {
            Plan::Best => (size / ASKS_MAX).max(ASK_BYTES_MIN),
            // File order is file order, wherever data is.
            Plan::Linear => u64::MAX,
        };
        Self { step_bytes, taken_bytes: 0 }
    }

    fn is_due(&self, next_is_near: bool) -> bool {
        let rarer = if next_is_near { ASK_RARER_WHILE_NEAR } else { 1 };
        self.taken_bytes >= self.step_bytes.saturating_mul(rarer)
    }

    fn took(&mut self, bytes: u64) {
        self.taken_bytes = self.taken_bytes.saturating_add(bytes);
    }

    fn asked(&mut self) {
        self.taken_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::ops::Range;

    use super::*;
    use crate::Device;

    const MIB: u64 = 1 << 20;
    /// Bytes of a record of the file, its separator among them.
    const RECORD_BYTES: u64 = 1000;

    /// A file of so many MiB, of which these are in memory, and what was asked of it.
    #[derive(Default)]
    struct File {
        size: u64,
        near: RefCell<Vec<u64>>,
        asked: Cell<u32>,
        read: RefCell<Vec<Range<u64>>>,
        fails: Cell<bool>,
    }

    impl File {
        fn of(size: u64, near: impl IntoIterator<Item = u64>) -> Self {
            let near = RefCell::new(near.into_iter().collect());
            Self { size: size * MIB, near, ..Self::default() }
        }

        fn arrives(&self, at: u64) {
            self.near.borrow_mut().push(at);
        }
    }

    impl Picked for File {
        type Error = &'static str;

        fn sleds(&self) -> Result<Vec<Sled>, Self::Error> {
            self.asked.set(self.asked.get() + 1);
            if self.fails.get() {
                return Err("it is gone");
            }
            let sled = |at| {
                let is_near = self.near.borrow().contains(&at);
                let (place, device) = if is_near {
                    (Place::Near, Device::memory())
                } else {
                    (Place::Far, Device::new("disk:sda"))
                };
                Sled { offset: at * MIB, length: MIB, place, device, estimate: None }
            };
            Ok((0..self.size / MIB).map(sled).collect())
        }

        fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error> {
            if self.fails.get() {
                return Err("it is gone");
            }
            self.read.borrow_mut().push(offset..offset + buffer.len() as u64);
            for (at, byte) in (offset..).zip(buffer) {
                *byte = if (at + 1) % RECORD_BYTES == 0 { b'\n' } else { b'x' };
            }
            Ok(())
        }
    }

    fn by(piece_bytes: u64, separator: Option<u8>) -> PickOptions {
        PickOptions { piece_bytes, separator, ..PickOptions::default() }
    }

    fn begun(file: &File, options: PickOptions) -> Pick {
        Pick::new(file, options).expect("it can be asked about")
    }

    fn next(pick: &mut Pick, file: &File) -> Option<u64> {
        pick.next(file).expect("it can be read").map(|piece| piece.offset / MIB)
    }

    #[test]
    fn what_arrives_is_taken_early_by_asking_and_of_itself() {
        let file = File::of(16, 8..16);
        let mut pick = begun(&file, by(MIB, None));
        assert_eq!(next(&mut pick, &file), Some(8));
        file.arrives(3);
        assert_eq!(next(&mut pick, &file), Some(9));
        pick.refresh(&file).expect("it can be asked about");
        assert_eq!(next(&mut pick, &file), Some(3));
        for at in 10..16 {
            assert_eq!(next(&mut pick, &file), Some(at));
        }
        file.arrives(6);
        for at in [6, 0, 1, 2, 4, 5, 7] {
            assert_eq!(next(&mut pick, &file), Some(at));
        }
        assert_eq!(next(&mut pick, &file), None);
    }

    #[test]
    fn asking_again_is_bounded_and_rarer_while_near_pieces_are_left() {
        let far = File::of(64, []);
        let mut pick = begun(&far, by(MIB / 4, None));
        while next(&mut pick, &far).is_some() {}
        assert_eq!(u64::from(far.asked.get()), ASKS_MAX);
        let near = File::of(64, 0..64);
        let mut pick = begun(&near, by(MIB / 4, None));
        while next(&mut pick, &near).is_some() {}
        assert_eq!(u64::from(near.asked.get()), ASKS_MAX / ASK_RARER_WHILE_NEAR);
    }

    #[test]
    fn file_order_never_asks_again() {
        let file = File::of(64, 32..64);
        let mut pick = begun(&file, PickOptions { plan: Plan::Linear, ..by(MIB, None) });
        for at in 0..64 {
            assert_eq!(next(&mut pick, &file), Some(at));
        }
        assert_eq!((next(&mut pick, &file), file.asked.get()), (None, 1));
    }

    #[test]
    fn a_pick_goes_on_by_the_last_answer_where_there_is_no_other() {
        let file = File::of(8, [0]);
        let mut pick = begun(&file, by(MIB, None));
        file.fails.set(true);
        assert!(pick.refresh(&file).is_err());
        for at in 0..8 {
            assert_eq!(next(&mut pick, &file), Some(at));
        }
    }

    #[test]
    fn far_records_are_read_forward_and_near_ones_at_their_edges() {
        let file = File::of(2, [0]);
        let mut pick = begun(&file, by(MIB / 2, Some(b'\n')));
        file.read.take();
        let near = pick.next(&file).expect("it can be read").expect("a piece");
        assert_eq!((near.offset, near.length % RECORD_BYTES), (0, 0));
        assert!(file.read.take().iter().all(|part| part.start > MIB / 2 - 2 * 4096));
        while pick.next(&file).expect("it can be read").is_some_and(|piece| piece.offset < MIB / 2)
        {
        }
        let read = file.read.take();
        let far = read.iter().position(|part| part.start > MIB - RECORD_BYTES).expect("it is read");
        let mut steps = read[far..].windows(2).take(3);
        assert!(steps.all(|pair| pair[0].end == pair[1].start), "{read:?}");
    }

    #[test]
    fn what_cannot_be_read_is_not_taken() {
        let file = File::of(4, [1]);
        let mut pick = begun(&file, by(MIB / 2, Some(b'\n')));
        let mut seen = Vec::new();
        loop {
            file.fails.set(true);
            let failed = pick.next(&file);
            file.fails.set(false);
            let piece = match failed {
                // The last piece of a part ends where that does.
                Ok(piece) => piece,
                Err(_) => pick.next(&file).expect("it can be read"),
            };
            let Some(piece) = piece else { break };
            seen.push(piece.range());
        }
        seen.sort_by_key(|range| range.start);
        assert!(seen.windows(2).all(|pair| pair[0].end == pair[1].start), "{seen:?}");
        assert_eq!((seen[0].start, seen[seen.len() - 1].end), (0, file.size));
    }
}
