//! Ranges of a file.

use std::ops::Range;

/// What of `ranges`, in file order and none over another, lies in `range`.
pub(crate) fn within<'a>(
    ranges: &'a [Range<u64>],
    range: &Range<u64>,
) -> impl Iterator<Item = Range<u64>> + use<'a> {
    let Range { start, end } = *range;
    let first = ranges.partition_point(|part| part.end <= start);
    let common = ranges[first..].iter().take_while(move |part| part.start < end);
    common.map(move |part| part.start.max(start)..part.end.min(end))
}
