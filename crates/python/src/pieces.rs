//! Bytes that have arrived and were not read yet.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};

use crate::filling::Filling;

/// Bytes in order, in the pieces in which they came.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Pieces {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Bytes of the first piece.
    pub(crate) fn first_bytes(&self) -> Option<usize> {
        self.pieces.front().map(Bytes::len)
    }

    /// What comes after the others.
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if !piece.is_empty() {
            self.pieces.push_back(piece);
        }
    }

    /// What comes before the others.
    pub(crate) fn put_back(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if !piece.is_empty() {
            self.pieces.push_front(piece);
        }
    }

    /// The first piece, of which there are no more bytes than so many.
    pub(crate) fn pop(&mut self, bytes_max: usize) -> Option<Bytes> {
        let first = self.pieces.front_mut()?;
        let piece = if first.len() > bytes_max {
            first.split_to(bytes_max)
        } else {
            self.pieces.pop_front()?
        };
        self.bytes -= piece.len();
        Some(piece)
    }

    /// Where a byte is first, at `from` or after it and before `to`.
    pub(crate) fn find(&self, byte: u8, from: usize, to: usize) -> Option<usize> {
        // What was looked through before is not gone through again.
        let (mut first, mut start) = (self.pieces.len(), self.bytes);
        while first > 0 && start > from {
            first -= 1;
            start -= self.pieces[first].len();
        }
        for piece in self.pieces.range(first..) {
            let within = |at: usize| at.saturating_sub(start).min(piece.len());
            let (first, end) = (within(from), within(to));
            if let Some(at) = memchr::memchr(byte, &piece[first..end.max(first)]) {
                return Some(start + first + at);
            }
            start += piece.len();
        }
        None
    }

    /// Fills what there is room for.
    pub(crate) fn fill<O>(&mut self, filling: &mut Filling<O>) {
        while let Some(first) = self.pieces.front_mut() {
            let taken = filling.put(first);
            self.bytes -= taken;
            first.advance(taken);
            if !first.is_empty() {
                break;
            }
            self.pieces.pop_front();
        }
    }
}
