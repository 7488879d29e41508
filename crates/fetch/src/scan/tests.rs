//! Scans of files on the disk of the tests, and of parts of them.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;
use sled::Piece;
use testkit::{Facility, evict, hold, make_near, skip_unless, until};

use super::layout::{cut_at_holes, located, pass_over};
use super::work::{Alarm, Work};
use super::*;
use crate::sync::{Mutex, lock};

type Delivered = Vec<(Range<u64>, Vec<u8>)>;

/// A synced file of which the given share at the front is not in memory, in whole pages.
fn file_of(content: &[u8], evicted: f64) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(content).expect("written");
    file.as_file().sync_all().expect("synced");
    if evicted > 0.0 && !lies_in_memory(&file) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        let bytes = (content.len() as f64 * evicted) as u64;
        evict(file.path());
        make_near(file.path(), bytes..content.len() as u64);
    }
    file
}

/// A file of which the second half is in memory; none, said aloud, where all files are.
fn half_near(content: &[u8]) -> Option<tempfile::NamedTempFile> {
    let file = file_of(content, 0.5);
    if lies_in_memory(&file) {
        testkit::skip("temporary files lie in memory here");
        return None;
    }
    let (half, end) = (content.len() as u64 / 2, content.len() as u64);
    until("half of it is in memory", || {
        let found = store::resident_ranges(file.as_file(), &[0..half, half..end]);
        let is_half = found.expect("it can be asked") == [(0..half, false), (half..end, true)];
        if !is_half {
            evict(file.path());
            make_near(file.path(), half..end);
        }
        is_half
    });
    Some(file)
}

fn lies_in_memory(file: &tempfile::NamedTempFile) -> bool {
    let status = store::Local::default().status(file).expect("asked");
    matches!(status.backing, Backing::Memory)
}

fn scanned(
    file: &tempfile::NamedTempFile,
    options: &ScanOptions,
) -> Result<(Delivered, ScanReport), Error> {
    let costs =
        Costs::with(store::Local::default(), store::TableFiles::default(), store::Clock::manual());
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let found = Mutex::new(Vec::new());
    let report = scan(
        &source,
        options,
        |chunk, _| {
            let mut bytes = chunk.bytes.to_vec();
            if chunk.hole && options.whole_holes {
                bytes.resize(chunk.length.try_into().expect("small"), 0);
            }
            (chunk.offset, bytes)
        },
        |range, (offset, bytes), _| {
            assert_eq!(range.start, offset);
            assert_eq!(range.end - range.start, bytes.len() as u64);
            lock(&found).push((range, bytes));
        },
    )?;
    let mut found = found.into_inner().expect("no panic");
    found.sort_by_key(|(range, _)| range.start);
    Ok((found, report))
}

fn whole(found: &[(Range<u64>, Vec<u8>)]) -> Vec<u8> {
    found.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_byte_comes_once_and_chunks_are_whole_records(
        lines in proptest::collection::vec(0_usize..9000, 0..60),
        evicted in 0.0_f64..1.0,
        chunk_bytes in 1_usize..40_000,
        jobs in 1_usize..4,
        records in any::<bool>(),
        linear in any::<bool>(),
        ahead in any::<bool>(),
        estimates in any::<bool>(),
    ) {
        let mut content = Vec::new();
        for (index, length) in lines.iter().enumerate() {
            content.extend((0..*length).map(|at| b'a' + u8::try_from((at + index) % 26).expect("a letter")));
            content.push(b'\n');
        }
        content.pop();
        let options = ScanOptions {
            chunk_bytes,
            separator: records.then_some(b'\n'),
            jobs,
            plan: if linear { Plan::Linear } else { Plan::Best },
            ahead,
            estimates,
            whole_holes: false,
        };
        let file = file_of(&content, evicted);
        let (found, report) = scanned(&file, &options).expect("it can be read");
        prop_assert_eq!(whole(&found), content.clone());
        prop_assert_eq!(report.near_bytes + report.far_bytes, content.len() as u64);
        prop_assert!(!report.stopped);
        if records {
            for (range, bytes) in &found {
                let ends = bytes.last() == Some(&b'\n') || range.end == report.size;
                prop_assert!(ends, "{range:?}");
            }
        } else {
            prop_assert!(found.iter().all(|(_, bytes)| bytes.len() <= chunk_bytes));
        }
    }

    #[test]
    fn a_file_with_holes_is_read_whole(
        islands in proptest::collection::vec((0_usize..64, 1_usize..6), 0..6),
        chunk_bytes in 1000_usize..40_000,
        jobs in 1_usize..4,
        linear in any::<bool>(),
        evicted in any::<bool>(),
        whole_holes in any::<bool>(),
    ) {
        const PAGE: usize = 4096;
        let mut content = vec![0; 70 * PAGE + 11];
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(content.len() as u64).expect("made long");
        for (start, pages) in islands {
            let range = start * PAGE..(start + pages) * PAGE;
            file.as_file().write_all_at(&vec![b'x'; range.len()], range.start as u64).expect("written");
            content[range].fill(b'x');
        }
        if evicted {
            file.as_file().sync_all().expect("synced");
            let all = std::num::NonZeroU64::new(content.len() as u64);
            rustix::fs::fadvise(file.as_file(), 0, all, rustix::fs::Advice::DontNeed).expect("evicted");
        }
        let plan = if linear { Plan::Linear } else { Plan::Best };
        let options =
            ScanOptions { chunk_bytes, jobs, plan, whole_holes, ..ScanOptions::default() };
        let (found, report) = scanned(&file, &options).expect("it can be read");
        prop_assert!(whole(&found) == content);
        prop_assert_eq!(report.near_bytes + report.far_bytes, content.len() as u64);
        prop_assert!(report.hole_bytes <= memchr::memchr_iter(0, &content).count() as u64);
    }

    #[test]
    fn nothing_before_a_stop_is_missing(
        evicted in 0.0_f64..1.0,
        stop in 0_u64..300_000,
        jobs in 1_usize..4,
        records in any::<bool>(),
    ) {
        let content: Vec<u8> = b"0123456789abcde\n".repeat(16_384);
        let file = file_of(&content, evicted);
        let costs = Costs::with(
            store::Local::default(),
            store::TableFiles::default(),
            store::Clock::manual(),
        );
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let options = ScanOptions {
            chunk_bytes: 5000,
            separator: records.then_some(b'\n'),
            jobs,
            ..ScanOptions::default()
        };
        let delivered = Mutex::new(Vec::new());
        scan(
            &source,
            &options,
            |_, control| control.stop_before(stop),
            |range, (), _| lock(&delivered).push(range),
        )
        .expect("it can be read");
        let mut delivered = delivered.into_inner().expect("no panic");
        delivered.sort_by_key(|range| range.start);
        let mut reached = 0;
        for range in delivered {
            prop_assert!(!records || range.end % 16 == 0, "{range:?} ends within a record");
            if range.start == reached {
                reached = range.end;
            }
        }
        prop_assert!(reached >= stop.min(content.len() as u64), "{reached} {stop}");
    }
}

/// A scan of records of 16 bytes, all far, in chunks of 5000, of which one was taken to be read.
fn with_a_far_chunk_taken(check: impl FnOnce(&Shared<'_>, &Piece, &mut FarReader<'_>)) {
    let file = file_of(&b"0123456789abcde\n".repeat(16_384), 0.0);
    let costs =
        Costs::with(store::Local::default(), store::TableFiles::default(), store::Clock::manual());
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let options =
        ScanOptions { chunk_bytes: 5000, separator: Some(b'\n'), ..ScanOptions::default() };
    let size = 16 * 16_384;
    let device = sled::Device::new("disk:a");
    let far = Sled { offset: 0, length: size, device, place: Place::Far, estimate: None };
    let reader = FarReader::new(source.file, source.path, &costs, false).expect("here");
    let near = NearReader::new(source.file, &costs, false).expect("here");
    let shared = Shared::new(&source, &options, size, &[far], reader, near);
    let Ok(Some(Work::Far(piece, mut reader))) = shared.next_work() else {
        panic!("there is a far piece");
    };
    check(&shared, &piece, &mut reader);
}

#[test]
fn what_follows_a_far_chunk_is_not_near_while_its_last_record_is_not_found() {
    with_a_far_chunk_taken(|shared, piece, _| {
        let mut state = lock(&shared.state);
        state.far_since_refresh = u64::MAX;
        shared.refresh(&mut state).expect("asked");
        let next = state.picker.peek().expect("there is more");
        assert_eq!((next.offset, next.place), (piece.range().end, Place::Far));
    });
}

#[test]
fn a_far_chunk_is_whole_records_though_what_follows_is_no_longer_needed() {
    for (stop, whole) in [(4000, 0..4992), (4995, 0..5008)] {
        with_a_far_chunk_taken(|shared, piece, far| {
            shared.stop_before(stop);
            let mut ranges = vec![shared.read_far(piece, far, &mut Vec::new()).expect("read")];
            let next = || lock(&shared.state).picker.take();
            while let Some(piece) = next() {
                ranges.push(shared.read_far(&piece, far, &mut Vec::new()).expect("read"));
            }
            let end = ranges.last().expect("the first").end;
            assert_eq!(0..end, whole, "{ranges:?}");
            assert!(ranges.iter().all(|range| range.end % 16 == 0), "{ranges:?}");
        });
    }
}

#[test]
fn a_panic_in_one_thread_ends_the_work_of_all() {
    with_a_far_chunk_taken(|shared, _, _| {
        std::thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _alarm = Alarm(shared);
                panic!("as a callback does");
            });
            // Nothing is near, and who reads what is far does not come back.
            assert!(shared.next_work().is_ok_and(|work| work.is_none()));
            panics.join().expect_err("it panics");
        });
    });
}

#[test]
fn a_hole_is_zeros_for_which_nothing_is_read() {
    let file = file_of(&vec![b'x'; 3 << 20], 0.0);
    let size = (1 << 40) + 5;
    file.as_file().set_len(size).expect("made long");
    file.as_file().write_all_at(b"end", size - 3).expect("written");
    let costs = Costs::load();
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    for plan in [Plan::Best, Plan::Linear] {
        let options =
            ScanOptions { chunk_bytes: 32 << 20, jobs: 2, plan, ..ScanOptions::default() };
        let outside = Mutex::new(Vec::new());
        let report = scan(
            &source,
            &options,
            |chunk, _| (!chunk.hole).then(|| chunk.bytes.to_vec()),
            |range, bytes, _| lock(&outside).extend(bytes.map(|bytes| (range.start, bytes))),
        )
        .expect("it can be read");
        let mut outside = outside.into_inner().expect("no panic");
        outside.sort();
        let outside = outside.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>().concat();
        assert_eq!(report.hole_bytes + outside.len() as u64, size);
        assert!(outside.len() < 64 << 20, "{} bytes were read", outside.len());
        assert!(outside[..3 << 20].iter().all(|&byte| byte == b'x'));
        assert!(outside.ends_with(b"end"));
    }
}

#[test]
fn a_whole_hole_is_one_chunk_up_to_a_stop() {
    let file = file_of(b"begin", 0.0);
    let size = (1 << 40) + 5;
    file.as_file().set_len(size).expect("made long");
    file.as_file().write_all_at(b"end", size - 3).expect("written");
    let holes = store::holes(file.as_file(), size, 1).expect("asked");
    let costs = Costs::load();
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    for (plan, stop) in [(Plan::Best, size), (Plan::Linear, size), (Plan::Linear, 1 << 39)] {
        let options = ScanOptions { jobs: 1, plan, whole_holes: true, ..ScanOptions::default() };
        let found = Mutex::new(Vec::new());
        let report = scan(
            &source,
            &options,
            |chunk, control| {
                control.stop_before(stop);
                assert!(chunk.bytes.len() <= options.chunk_bytes);
                chunk.hole.then_some(chunk.length)
            },
            |range, length, _| {
                if let Some(length) = length {
                    assert_eq!(range.end - range.start, length);
                    lock(&found).push(range);
                }
            },
        )
        .expect("it can be read");
        let whole = holes.iter().map(|hole| hole.start..hole.end.min(stop)).collect::<Vec<_>>();
        assert_eq!(found.into_inner().expect("no panic"), whole);
        assert_eq!(report.stopped, stop < size);
    }
}

#[test]
fn the_end_of_what_is_near_is_not_read_with_the_hole_behind_it() {
    let file = file_of(&vec![b'x'; 768 << 10], 0.0);
    file.as_file().set_len(9 << 20).expect("made long");
    let holes = store::holes(file.as_file(), 9 << 20, 1).expect("asked");
    let options = ScanOptions { jobs: 1, ..ScanOptions::default() };
    let (found, report) = scanned(&file, &options).expect("it can be read");
    assert_eq!(report.hole_bytes, holes.iter().map(|hole| hole.end - hole.start).sum::<u64>());
    assert_eq!(found.iter().filter(|(_, bytes)| bytes[0] == b'x').count(), 2);
}

#[test]
fn what_was_near_saved_what_its_device_would_have_taken() {
    let file = file_of(&vec![b'x'; 1 << 20], 0.0);
    file.as_file().set_len(9 << 20).expect("made long");
    if lies_in_memory(&file) {
        return testkit::skip("temporary files lie on no device here");
    }
    let costs =
        Costs::with(store::Local::default(), store::TableFiles::default(), store::Clock::manual());
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let mut status = costs.local().status(&file).expect("asked");
    let near = (1 << 20) + (8 << 20);
    // Whatever the tables of this machine say of its disk.
    status.device = sled::Device::new("disk:unknown");
    assert_eq!(saved_bytes(&status, near), status.allocated, "holes are on no device");
    assert_eq!(reading_s(&source, &status, status.allocated), None);
    assert!(costs.fill(&status.device, 2.0, f64::from(1 << 20)));
    assert_eq!(saved_bytes(&status, 1 << 20), 1 << 20);
    let seconds = reading_s(&source, &status, 1 << 20);
    assert!(seconds.is_some_and(|seconds| (seconds - 3.0).abs() < 0.1), "{seconds:?}");
    assert_eq!(reading_s(&source, &status, 0), Some(0.0));
}

#[test]
fn what_is_cut_at_holes_covers_the_same_and_is_near_in_them() {
    let sled = |offset, length, place| {
        let name = if place == Place::Near { "memory" } else { "disk:a" };
        Sled { offset, length, device: sled::Device::new(name), place, estimate: None }
    };
    let places = [Place::Near, Place::Far, Place::Unknown, Place::Cold];
    let sleds = (0..4).zip(places).map(|(n, place)| sled(n * 100, 100, place)).collect();
    let cut = cut_at_holes(sleds, &[10..20, 90..120, 200..300, 320..330]);
    let expected = [
        sled(0, 10, Place::Near),
        sled(10, 10, Place::Near),
        sled(20, 70, Place::Near),
        sled(90, 10, Place::Near),
        sled(100, 20, Place::Near),
        sled(120, 80, Place::Far),
        sled(200, 100, Place::Near),
        sled(300, 100, Place::Cold),
    ];
    assert_eq!(cut, expected);
}

#[test]
fn of_what_is_finely_mixed_only_what_is_mostly_near_is_left_out() {
    const PAGE: u64 = 4096;
    let mixed = |near: u64, far: u64, count: u64| {
        let sled = |offset, length, place| {
            let name = if place == Place::Near { "memory" } else { "disk:a" };
            Sled { offset, length, device: sled::Device::new(name), place, estimate: None }
        };
        let at = |index| index * (near + far);
        let pair = |index| {
            let after = at(index) + near;
            [sled(at(index), near, Place::Near), sled(after, far, Place::Far)]
        };
        (0..count).flat_map(pair).collect::<Vec<_>>()
    };
    let few = mixed(PAGE, PAGE, 40);
    assert_eq!(pass_over(few.clone(), 80 * PAGE), few);
    let mostly_near = mixed(15 * PAGE, PAGE, 200);
    assert_eq!(pass_over(mostly_near.clone(), 3200 * PAGE), mostly_near);
    let large = mixed(64 * PAGE, 64 * PAGE, 2000);
    assert_eq!(pass_over(large.clone(), 256_000 * PAGE), large);
    let mut fine = mixed(PAGE, PAGE, 200);
    let end = fine[399].clone();
    fine.push(Sled { offset: 400 * PAGE, length: 64 * PAGE, ..fine[0].clone() });
    let passed = pass_over(fine, 464 * PAGE);
    let found: Vec<_> = passed.iter().map(|sled| (sled.range(), sled.place)).collect();
    let expected = [
        (0..PAGE, Place::Near),
        (PAGE..end.range().end, Place::Unknown),
        (400 * PAGE..464 * PAGE, Place::Near),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_is_finely_mixed_over_two_devices_is_never_one_sled_of_both() {
    const PAGE: u64 = 4096;
    let sled = |index: u64| {
        let (name, place) = match index % 4 {
            1 => ("disk:a", Place::Far),
            3 => ("disk:b", Place::Far),
            _ => ("memory", Place::Near),
        };
        let device = sled::Device::new(name);
        Sled { offset: index * PAGE, length: PAGE, device, place, estimate: None }
    };
    let alternating: Vec<_> = (0..400).map(sled).collect();
    let mut fine: Vec<_> =
        (400..800).map(|index| Sled { offset: index * PAGE, ..sled(index % 2) }).collect();
    let last = fine[399].range().end;
    fine.splice(0..0, alternating.clone());
    let passed = pass_over(fine, last);
    assert_eq!(passed[..400], alternating);
    assert_eq!(
        passed.last().map(|sled| (sled.range().end, sled.place)),
        Some((last, Place::Unknown))
    );
}

#[test]
fn sleds_end_where_the_file_ended_when_the_scan_began() {
    let file = file_of(&[b'a'; 10_000], 0.0);
    let costs =
        Costs::with(store::Local::default(), store::TableFiles::default(), store::Clock::manual());
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let near = NearReader::new(source.file, &costs, false).expect("here");
    for size in [1, 9_000, 10_000, 11_000] {
        let sleds = located(&source, &near, &ScanOptions::default(), size, &[]).expect("asked");
        assert_eq!(sleds.last().map(|sled| sled.range().end), Some(size));
    }
}

#[test]
fn what_is_finely_mixed_is_read_once_and_says_that_some_may_have_been_near() {
    const PAGE: usize = 4096;
    skip_unless!(Facility::Root);
    let content: Vec<u8> = b"0123456789abcde\n".repeat(1 << 16);
    let end = content.len() as u64;
    for plan in [Plan::Best, Plan::Linear] {
        let file = file_of(&content, 1.0);
        if lies_in_memory(&file) {
            return testkit::skip("temporary files lie in memory here");
        }
        let held: Vec<_> = (0..end)
            .step_by(2 * PAGE)
            .map(|at| testkit::hold(file.path(), at..at + PAGE as u64))
            .collect();
        let options = ScanOptions { plan, jobs: 1, ..ScanOptions::default() };
        let (mut delivered, report) = scanned(&file, &options).expect("read");
        drop(held);
        delivered.sort_by_key(|(range, _)| range.start);
        let read: Vec<u8> = delivered.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert!(read == content, "each byte once, in {plan:?}");
        assert_eq!(report.unknown_bytes, end - PAGE as u64, "{report:?}");
        assert_eq!(report.near_bytes, PAGE as u64, "{report:?}");
    }
}

#[test]
fn what_leaves_memory_before_its_turn_is_fetched_in_order_with_what_is_far() {
    // Large enough that one folio is a small part of it.
    let content: Vec<u8> = b"0123456789abcde\n".repeat(1 << 20);
    for separator in [None, Some(b'\n')] {
        let Some(file) = half_near(&content) else { return };
        let costs = Costs::load();
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let options = ScanOptions {
            chunk_bytes: 1 << 20,
            separator,
            jobs: 1,
            ahead: false,
            ..ScanOptions::default()
        };
        let order = Mutex::new(Vec::new());
        let report = scan(
            &source,
            &options,
            |chunk, _| {
                if chunk.near {
                    let advice = rustix::fs::Advice::DontNeed;
                    rustix::fs::fadvise(source.file, 0, None, advice).expect("evicted");
                }
                assert_eq!(
                    chunk.bytes,
                    &content[usize::try_from(chunk.offset).unwrap()..][..chunk.bytes.len()]
                );
            },
            |range, (), _| lock(&order).push(range),
        )
        .expect("it can be read");
        let order = order.into_inner().expect("no panic");
        assert_eq!(order.iter().map(|range| range.end - range.start).sum::<u64>(), report.size);
        // First what was near, of which a folio in use stays; the end of the file left and comes last.
        assert!(order[0].start >= report.size / 2, "{order:?}");
        assert_eq!(order.last().map(|range| range.end), Some(report.size), "{order:?}");
        assert!(report.near_bytes < report.size / 4, "{report:?}");
    }
}

#[test]
fn what_left_memory_before_the_first_piece_is_taken_is_fetched_in_order_too() {
    let Some(file) = half_near(&vec![b'x'; 16 << 20]) else { return };
    let (left, stays) = (8 << 20..10 << 20, 12 << 20..16 << 20);
    let advice = rustix::fs::Advice::DontNeed;
    let length = std::num::NonZeroU64::new(left.end - left.start);
    rustix::fs::fadvise(file.as_file(), left.start, length, advice).expect("evicted");
    let found = store::resident_ranges(file.as_file(), &[left.clone(), stays.clone()]);
    assert_eq!(found.expect("it can be asked"), [(left.clone(), false), (stays, true)]);
    let costs = Costs::load();
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let options =
        ScanOptions { chunk_bytes: 1 << 20, jobs: 1, ahead: false, ..ScanOptions::default() };
    let sled = |offset, place| {
        let device = sled::Device::new("disk:a");
        Sled { offset, length: 8 << 20, device, place, estimate: None }
    };
    let sleds = [sled(0, Place::Far), sled(8 << 20, Place::Near)];
    let far = FarReader::new(source.file, source.path, &costs, false).expect("here");
    let near = NearReader::new(source.file, &costs, false).expect("here");
    let shared = Shared {
        is_near_in_part: true,
        ..Shared::new(&source, &options, 16 << 20, &sleds, far, near)
    };
    shared.notice_what_leaves(&sleds);
    let Ok(Some(Work::Near(first))) = shared.next_work() else { panic!("some of it is near") };
    assert!(first.offset >= left.end, "{first:?}");
}

#[test]
fn what_is_near_with_small_holes_in_it_has_not_left() {
    const PIECE: u64 = 1 << 20;
    skip_unless!(Facility::Root);
    let file = file_of(&[], 0.0);
    let data = || (1..8).step_by(2).map(|at| at * PIECE).chain([8 * PIECE]);
    for at in data() {
        let piece = vec![b'x'; if at == 8 * PIECE { 4 << 20 } else { 1 << 20 }];
        file.as_file().write_all_at(&piece, at).expect("written");
    }
    evict(file.path());
    let near = data().filter(|at| *at < 8 * PIECE);
    let _near: Vec<_> = near.map(|at| hold(file.path(), at..at + PIECE)).collect();
    let costs = Costs::load();
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let options = ScanOptions { chunk_bytes: 2 << 20, ..ScanOptions::default() };
    let report = scan(&source, &options, |_, _| (), |_, (), _| ()).expect("read");
    assert_eq!((report.near_bytes, report.far_bytes), (8 * PIECE, 4 * PIECE), "{report:?}");
}

#[test]
fn it_is_fetched_ahead_only_of_devices_that_keep_up_with_computing() {
    let of = |seconds| DeliveryTime { p50: seconds, p90: seconds, ..DeliveryTime::default() };
    // 1 GB in memory and 1 GB on an SSD, a disk and a server.
    assert!(is_worth_fetching_ahead(1_000_000_000, &of(0.4)));
    assert!(!is_worth_fetching_ahead(1_000_000_000, &of(8.0)));
    assert!(!is_worth_fetching_ahead(1_000_000_000, &of(1000.0)));
}

#[test]
fn a_large_file_in_memory_is_whole_by_trial_copied_and_mapped() {
    let content: Vec<u8> = (0_u32..9 << 20).flat_map(u32::to_le_bytes).collect();
    let file = file_of(&content, 0.0);
    for separator in [None, Some(7)] {
        // To this clock both ways are as quick as the other: the second trial is due within the file.
        let options = ScanOptions { separator, ..ScanOptions::with_jobs(2) };
        let (found, report) = scanned(&file, &options).expect("it can be read");
        assert!(whole(&found) == content);
        assert_eq!(report.near_bytes + report.far_bytes, content.len() as u64);
    }
}

#[test]
fn an_empty_file_is_no_chunk() {
    let (found, report) = scanned(&file_of(b"", 0.0), &ScanOptions::default()).expect("read");
    assert!(found.is_empty());
    assert_eq!(report.size, 0);
}

#[test]
fn a_hole_that_is_cut_off_while_it_is_read_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(1 << 20).expect("made long");
    let costs = Costs::load();
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let options = ScanOptions { chunk_bytes: 1 << 16, jobs: 1, ..ScanOptions::default() };
    let shorten = |_: &Chunk<'_>, _: &Control<'_>| source.file.set_len(5).expect("shortened");
    let result = scan(&source, &options, shorten, |_, (), _| panic!("delivered"));
    assert!(matches!(result, Err(Error::Truncated { found: 5, .. })), "{result:?}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_an_error_and_void_results_are_not_delivered() {
    let content = vec![b'x'; 1 << 20];
    // All in memory it is copied; in part, what is there is mapped.
    let near = || file_of(&content, 0.0);
    let mut files = vec![(near(), None), (near(), Some(b'x')), (file_of(&content, 1.0), None)];
    files.extend(half_near(&content).map(|file| (file, None)));
    for (file, separator) in files {
        let costs = Costs::load();
        let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
        let options =
            ScanOptions { chunk_bytes: 1 << 16, separator, jobs: 1, ..ScanOptions::default() };
        let result = scan(
            &source,
            &options,
            |chunk, _| {
                source.file.set_len(1 << 17).expect("shortened");
                chunk.bytes.iter().all(|&byte| byte == b'x')
            },
            |_, sound, _| assert!(sound),
        );
        assert!(matches!(result, Err(Error::Truncated { found: 0x2_0000, .. })), "{result:?}");
    }
}

#[test]
fn a_panic_over_bytes_that_vanished_is_the_truncation() {
    // In part in memory it is mapped.
    let Some(file) = half_near(&vec![b'x'; 1 << 20]) else { return };
    let costs = Costs::load();
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let panics = |chunk: &Chunk<'_>, _: &Control<'_>| {
        source.file.set_len(5).expect("shortened");
        assert_eq!(chunk.bytes.last(), Some(&b'x'), "as they were");
    };
    let options = ScanOptions { jobs: 1, ..ScanOptions::default() };
    let result = scan(&source, &options, panics, |_, (), _| {});
    assert!(matches!(result, Err(Error::Truncated { found: 5, .. })), "{result:?}");
}

#[test]
#[should_panic(expected = "its own")]
fn a_panic_over_sound_bytes_goes_on() {
    let file = file_of(b"x", 0.0);
    let costs = Costs::load();
    let source = Source { file: file.as_file(), path: file.path(), costs: &costs };
    let options = ScanOptions { jobs: 1, ..ScanOptions::default() };
    drop(scan(&source, &options, |_, _| panic!("its own"), |_, (): (), _| {}));
}
