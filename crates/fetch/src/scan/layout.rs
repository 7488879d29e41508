//! What a scan is made of before it begins: the sleds of its file, cut at records and at holes.

use std::io;
use std::ops::Range;

use sled::{Device, DeviceTable, Place, Plan, Sled, pull_edges};
use store::Status;

use super::{ScanOptions, Source};
use crate::near::NearReader;

/// What is near within what is far is left out, and read before it, once in so many bytes of the file on
/// average, or so often.
const LEFT_OUT_BYTES: u64 = 1 << 20;
const LEFT_OUT_MIN: u64 = 64;
/// Where there would be more, so much of it is not left out: a window of the kernel's reading ahead,
/// which goes on behind it.
const PASSED_BYTES_MAX: u64 = 128 << 10;
/// With longer chunks holes are read like data, rather than to hold that many zeros ready.
const ZEROS_BYTES_MAX: usize = 64 << 20;

/// The holes that are worth knowing: of a chunk or more, where asking is safe and cheap.
///
/// With a separator there are none: a hole is then part of a record.
pub(super) fn large_holes(
    source: &Source<'_>,
    options: &ScanOptions,
    status: &Status,
) -> Vec<Range<u64>> {
    let bytes_min = options.chunk_bytes.max(1) as u64;
    let sparse = status.allocated.saturating_add(bytes_min) <= status.size;
    let zeros_fit = options.chunk_bytes <= ZEROS_BYTES_MAX;
    if !sparse || !zeros_fit || options.separator.is_some() || status.backing.may_stall() {
        return Vec::new();
    }
    // What is not known to be a hole is read.
    store::holes(source.file, status.size, bytes_min).unwrap_or_default()
}

/// The sleds of the file, with their edges at records and at `holes`.
pub(super) fn located(
    source: &Source<'_>,
    near: &NearReader<'_>,
    options: &ScanOptions,
    size: u64,
    holes: &[Range<u64>],
) -> io::Result<Vec<Sled>> {
    let located = source.costs.local().locate(source.file)?;
    let is_near = located.extents.iter().all(|extent| extent.place == Place::Near);
    let mut sleds = if is_near && !options.estimates {
        sled::describe(located.extents, &DeviceTable::default())
    } else {
        source.costs.describe(located)
    };
    // The file may have grown since its size was pinned.
    sleds.retain(|sled| sled.offset < size);
    if let Some(last) = sleds.last_mut() {
        last.length = size - last.offset;
    }
    if sleds.is_empty() && size > 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let sleds = pass_over(sleds, size);
    match options.separator {
        Some(separator) if options.plan == Plan::Best => {
            pull_edges(&sleds, separator, |offset, buffer| near.read_exact_at(buffer, offset))
        }
        // In file order a chunk that ends at a record starts the next one there.
        Some(_) => Ok(as_one(sleds)),
        None => Ok(cut_at_holes(sleds, holes)),
    }
}

/// The same sleds, cut so that each is in a hole, and near then, or outside. What is offline stays whole.
pub(super) fn cut_at_holes(sleds: Vec<Sled>, holes: &[Range<u64>]) -> Vec<Sled> {
    if holes.is_empty() {
        return sleds;
    }
    let mut cut = Vec::with_capacity(sleds.len() + 2 * holes.len());
    for sled in sleds {
        let Range { start, end } = sled.range();
        let inside = |edge: &u64| start < *edge && *edge < end && sled.place != Place::Cold;
        let first = holes.partition_point(|hole| hole.end <= start);
        let close = holes[first..].iter().take_while(|hole| hole.start < end);
        let edges = close.flat_map(|hole| [hole.start, hole.end]).filter(inside);
        let mut at = start;
        for edge in edges.chain([end]) {
            let piece = Sled { offset: at, length: edge - at, ..sled.clone() };
            let is_known = matches!(sled.place, Place::Near | Place::Cold);
            cut.push(if is_known || !is_within(holes, &piece.range()) {
                piece
            } else {
                // Wherever the file lies, and though nobody may say what of it is in memory.
                Sled { device: Device::memory(), place: Place::Near, estimate: None, ..piece }
            });
            at = edge;
        }
    }
    cut
}

/// The same sleds where they are few. Of finely mixed ones what is far, and what little is near within it,
/// is one: to leave out pages here and there, each with a read that begins anew behind it, takes several
/// times as long as to read them with the rest, and each sled takes memory. How much of it comes from the
/// device is not known then.
pub(super) fn pass_over(sleds: Vec<Sled>, size: u64) -> Vec<Sled> {
    let is_within = |around: &[Sled]| {
        let [before, near, after] = around else { return false };
        near.place == Place::Near && after.place == Place::Far && before.device == after.device
    };
    let left_out = sleds.windows(3).filter(|around| is_within(around)).count() as u64;
    if left_out <= LEFT_OUT_MIN.max(size / LEFT_OUT_BYTES) {
        return sleds;
    }
    let mut passed: Vec<Sled> = Vec::new();
    // Bytes of the last of these.
    let (mut far, mut near) = (0, 0);
    let mut sleds = sleds.into_iter().peekable();
    while let Some(sled) = sleds.next() {
        if let (Some(last), Some(next)) = (passed.last_mut(), sleds.peek())
            && sled.place == Place::Near
            && sled.length <= PASSED_BYTES_MAX
            && next.place == Place::Far
            && next.device == last.device
            // What is mostly near is worth having first.
            && near + sled.length <= far + next.length
        {
            near += sled.length;
            far += next.length;
            last.length = next.range().end - last.offset;
            last.place = Place::Unknown;
            sleds.next();
            continue;
        }
        (far, near) = (if sled.place == Place::Far { sled.length } else { 0 }, 0);
        passed.push(sled);
    }
    passed
}

/// In file order a chunk that ends at a record starts the next one there, so
/// that the edges between sleds do not matter: what is not wholly near is one stream.
/// What of it comes from the device is not known where only some of it is far.
fn as_one(sleds: Vec<Sled>) -> Vec<Sled> {
    let far = sleds.iter().find(|sled| sled.place != Place::Near);
    let Some(far) = far.cloned() else { return sleds };
    let end = sleds.last().map_or(0, |last| last.range().end);
    let is_alike = sleds.iter().all(|sled| sled.place == far.place);
    let place = if is_alike { far.place } else { Place::Unknown };
    vec![Sled { offset: 0, length: end, place, ..far }]
}

/// Whether all of `range` is in one of `holes`.
pub(super) fn is_within(holes: &[Range<u64>], range: &Range<u64>) -> bool {
    let hole = holes.partition_point(|hole| hole.end < range.end);
    holes.get(hole).is_some_and(|hole| hole.start <= range.start)
}
