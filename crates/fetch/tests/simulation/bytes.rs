//! Which bytes of a member have arrived.

use std::ops::Range;

/// Ranges without overlap, in order.
#[derive(Debug, Default, Clone)]
pub(crate) struct Arrived(Vec<Range<u64>>);

impl Arrived {
    /// Adds a range and says how many of its bytes are new.
    pub(crate) fn add(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.len();
        let mut merged = range;
        self.0.retain(|known| {
            let apart = known.end < merged.start || known.start > merged.end;
            if !apart {
                merged = merged.start.min(known.start)..merged.end.max(known.end);
            }
            apart
        });
        let at = self.0.partition_point(|known| known.start < merged.start);
        self.0.insert(at, merged);
        self.len() - before
    }

    /// Takes a range out.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        let known = std::mem::take(&mut self.0);
        self.0 = known
            .into_iter()
            .flat_map(|known| {
                let before = known.start..known.end.min(range.start);
                let after = known.start.max(range.end)..known.end;
                [before, after]
            })
            .filter(|left| left.start < left.end)
            .collect();
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// How many bytes are there from this offset on, without a gap.
    pub(crate) fn from(&self, offset: u64) -> u64 {
        self.0.iter().find(|range| range.contains(&offset)).map_or(0, |range| range.end - offset)
    }

    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.from(range.start) >= range.end - range.start
    }
}
