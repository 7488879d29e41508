//! Summaries of a file's parts, which arrive in any order from several threads.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use store::lock;

use super::count::{Encoding, Summary};

/// Joins parts as soon as they are neighbours, so that few are held.
#[derive(Debug)]
pub(super) struct Pieces {
    encoding: Encoding,
    /// By their first byte, with the first byte behind them.
    held: Mutex<BTreeMap<u64, (u64, Summary)>>,
}

impl Pieces {
    pub(super) fn new(encoding: Encoding) -> Pieces {
        Pieces { encoding, held: Mutex::default() }
    }

    /// Adds a part that does not overlap the others.
    pub(super) fn add(&self, range: Range<u64>, summary: Summary) {
        let mut held = lock(&self.held);
        let (mut start, mut end, mut summary) = (range.start, range.end, summary);
        if let Some((&before, &(border, left))) = held.range(..start).next_back()
            && border == start
        {
            held.remove(&before);
            start = before;
            summary = left.merge(summary);
        }
        if let Some((behind, right)) = held.remove(&end) {
            end = behind;
            summary = summary.merge(right);
        }
        held.insert(start, (end, summary));
    }

    /// All parts in file order; what never came is left out.
    pub(super) fn join(self) -> Summary {
        let held = self.held.into_inner().unwrap_or_else(PoisonError::into_inner);
        let parts = held.into_values().map(|(_, summary)| summary);
        parts.fold(Summary::empty(self.encoding), Summary::merge)
    }
}

#[cfg(test)]
mod tests {
    use super::super::count::Wanted;
    use super::*;

    #[test]
    fn parts_in_any_order_are_the_whole() {
        let text = b"one two\nthree  four\tfive\n\nsix";
        let wanted = Wanted { lines: true, words: true, characters: true, columns: true };
        let whole = Summary::of(text, wanted, Encoding::Bytes { no_break_space: true }).counts();
        let cuts = [0, 2, 7, 8, 9, 16, 25, text.len()];
        let mut parts: Vec<Range<usize>> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
        for _ in 0..parts.len() {
            parts.rotate_left(3);
            let pieces = Pieces::new(Encoding::Bytes { no_break_space: true });
            for part in &parts {
                let summary = Summary::of(
                    &text[part.clone()],
                    wanted,
                    Encoding::Bytes { no_break_space: true },
                );
                pieces.add(part.start as u64..part.end as u64, summary);
            }
            assert_eq!(pieces.held.lock().unwrap().len(), 1, "neighbours are joined");
            assert_eq!(pieces.join().counts(), whole, "{parts:?}");
        }
    }
}
