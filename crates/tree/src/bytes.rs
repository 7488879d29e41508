//! Numbers and strings as bytes, and back from bytes that anybody may have written.

use crate::codec::DecodeError;

/// Writes.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// A number, seven bits a byte, the lowest first.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    /// A number that is as often large as small.
    pub(crate) fn fixed(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A count.
    pub(crate) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// A string of any bytes.
    pub(crate) fn string(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, length: bytes.len() }
    }

    pub(crate) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(|| self.damaged())?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.damaged())
    }

    pub(crate) fn fixed(&mut self) -> Result<u64, DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// A number that is at most `most`.
    pub(crate) fn within<T: TryFrom<u64>>(&mut self, most: u64) -> Result<T, DecodeError> {
        let number = self.number()?;
        let narrow = T::try_from(number).ok().filter(|_| number <= most);
        narrow.ok_or_else(|| self.damaged())
    }

    /// How many things follow, each of which takes a byte at least: so never more than bytes.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        self.within(self.rest.len() as u64)
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.count()?;
        let (string, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(string)
    }

    /// Nothing follows.
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged()) }
    }

    /// What was read makes no sense.
    pub(crate) fn damaged(&self) -> DecodeError {
        DecodeError::Damaged { at: self.length - self.rest.len() }
    }
}
