//! Ranges of a file.

use std::ops::Range;

pub(crate) fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// In order, with those as one between which there is no more than `gap`.
pub(crate) fn joined(mut ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let joins = next.start <= last.end.saturating_add(gap);
        if joins {
            last.end = last.end.max(next.end);
        }
        joins
    });
    ranges
}

/// What of `ranges` is not in `others`; both in order, neither overlapping itself.
pub(crate) fn without(ranges: Vec<Range<u64>>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for mut range in ranges {
        let end = range.end;
        let first = others.partition_point(|other| other.end <= range.start);
        for other in others[first..].iter().take_while(|other| other.start < end) {
            if range.start < other.start {
                left.push(range.start..other.start);
            }
            range.start = other.end;
        }
        if range.start < range.end {
            left.push(range);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_almost_touches_is_one() {
        assert_eq!(joined(vec![60..70, 0..10, 20..30, 5..8], 10), [0..30, 60..70]);
        assert_eq!(joined(vec![0..10, 10..20, 21..30], 0), [0..20, 21..30]);
    }

    #[test]
    fn what_is_left_is_in_no_other() {
        assert_eq!(without(vec![0..10, 20..30], &[2..4, 6..22, 40..50]), [0..2, 4..6, 22..30]);
        assert_eq!(without(vec![1..3, 5..8], &[0..10, 11..12]), []);
        assert_eq!(without(vec![1..2, 5..8], &[2..5, 8..9]), [1..2, 5..8]);
    }
}
