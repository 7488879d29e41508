//! The record splitter: pulled edges, and pieces that are whole records.

use sled::{Device, DeviceTable, Extent, Picker, Place, pull_edges};

/// The separator of the records.
const SEPARATOR: u8 = b'\n';

/// The first bytes say where the file's parts are and how long a piece is; the rest is the file.
///
/// Whatever they are, the pieces are the file, each byte once, and each starts at the start of a
/// record.
pub fn records(bytes: &[u8]) {
    let Some((&[piece, count], rest)) = bytes.split_first_chunk::<2>() else { return };
    let Some((cuts, file)) = rest.split_at_checked(usize::from(count % 16)) else { return };
    let file_end = file.len() as u64;
    let read = |offset: u64, buffer: &mut [u8]| {
        let at = usize::try_from(offset).expect("an offset in a file in memory");
        buffer.copy_from_slice(&file[at..at + buffer.len()]);
        Ok::<(), std::convert::Infallible>(())
    };

    let mut extents = Vec::new();
    let mut offset = 0;
    for (index, cut) in cuts.iter().chain(&[u8::MAX]).enumerate() {
        let is_last = index == cuts.len();
        // Parts of 1 to 256 pages' worth of bytes would need larger files than fuzzing makes.
        let end = if is_last { file_end } else { file_end.min(offset + u64::from(*cut) * 8 + 1) };
        if end > offset {
            extents.push(extent(offset, end - offset, cut % 3));
            offset = end;
        }
    }
    let mut table = DeviceTable::default();
    assert!(table.fill(&Device::new("disk:a"), 0.01, 1e8));
    let sleds = sled::describe(extents, &table);

    let pulled = pull_edges(&sleds, SEPARATOR, read).expect("reading does not fail");
    let starts_a_record = |offset: u64| {
        offset == 0 || file[usize::try_from(offset).expect("within the file") - 1] == SEPARATOR
    };
    let mut expected = 0;
    for sled in &pulled {
        assert_eq!(sled.offset, expected, "the sleds tile the file");
        assert!(starts_a_record(sled.offset), "a sled starts a record");
        expected = sled.range().end;
    }
    assert_eq!(expected, file_end, "the sleds tile the file");

    let mut picker = Picker::new(&pulled, u64::from(piece) + 1);
    let mut seen = vec![false; file.len()];
    while let Some(piece) = picker.take_records(SEPARATOR, read).expect("reading does not fail") {
        assert!(piece.length > 0, "a piece has bytes");
        assert!(starts_a_record(piece.offset), "a piece starts a record");
        let end = piece.range().end;
        assert!(end == file_end || starts_a_record(end), "a piece ends a record");
        let from = usize::try_from(piece.offset).expect("within the file");
        let to = usize::try_from(end).expect("within the file");
        assert!(!seen[from..to].contains(&true), "no byte twice");
        seen[from..to].fill(true);
    }
    assert!(!seen.contains(&false), "every byte once");
}

fn extent(offset: u64, length: u64, kind: u8) -> Extent {
    let (device, place) = match kind {
        0 => (Device::memory(), Place::Near),
        1 => (Device::new("disk:a"), Place::Far),
        _ => (Device::new("disk:unknown"), Place::Unknown),
    };
    Extent { offset, length, device, place }
}
