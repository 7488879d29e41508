//! Which piece of a file to read next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::describe::Distance;
use crate::{Device, Place, Plan, Sled};

/// A piece of a file to read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// First byte.
    pub offset: u64,
    /// Bytes; never 0.
    pub length: u64,
    /// Where it was when last asked.
    pub place: Place,
    /// Where it would be fetched from.
    pub device: Device,
    distance: Distance,
}

impl Piece {
    /// The bytes it covers.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }
}

/// Part of the file that nobody has taken yet.
#[derive(Debug, Clone)]
struct Unseen {
    end: u64,
    distance: Distance,
    place: Place,
    device: Device,
}

/// Chooses what to read next: among the pieces nobody has taken those with
/// the lowest latency, among equals the one with the lowest offset, never
/// longer than the preferred size, each byte exactly once (the paper, section 4.2).
///
/// On a file that is wholly on one device it degenerates to file order.
#[derive(Debug, Clone)]
pub struct Picker {
    piece_bytes: u64,
    plan: Plan,
    unseen: BTreeMap<u64, Unseen>,
    order: BTreeSet<(Distance, u64)>,
}

impl Picker {
    /// Picks near first from `sleds`, in pieces of at most `piece_bytes` (at least 1).
    pub fn new(sleds: &[Sled], piece_bytes: u64) -> Self {
        Self::with_plan(sleds, piece_bytes, Plan::Best)
    }

    /// Picks by `plan`: [`Plan::Linear`] is plain file order.
    pub fn with_plan(sleds: &[Sled], piece_bytes: u64, plan: Plan) -> Self {
        let mut picker = Self {
            piece_bytes: piece_bytes.max(1),
            plan,
            unseen: BTreeMap::new(),
            order: BTreeSet::new(),
        };
        for sled in sleds {
            picker.insert(sled.offset, picker.unseen_of(sled, sled.range().end));
        }
        picker
    }

    /// The piece that [`Picker::take`] would give, without taking it.
    pub fn peek(&self) -> Option<Piece> {
        let &(_, offset) = self.order.first()?;
        Some(self.piece_at(offset))
    }

    /// Takes the next piece.
    pub fn take(&mut self) -> Option<Piece> {
        self.take_at_most(u64::MAX)
    }

    /// As [`Picker::take`], but no more of it than `bytes_max` (at least 1).
    pub fn take_at_most(&mut self, bytes_max: u64) -> Option<Piece> {
        let &(_, offset) = self.order.first()?;
        Some(self.take_at(offset, bytes_max))
    }

    /// Takes the next piece that is not [`Place::Near`], even while near ones are left.
    ///
    /// For a reader that keeps a device busy while others read what is near.
    /// With [`Plan::Linear`] there is none: pieces come in file order only.
    pub fn take_far(&mut self) -> Option<Piece> {
        self.take_far_at_most(u64::MAX)
    }

    /// As [`Picker::take_far`], but no more of it than `bytes_max` (at least 1).
    pub fn take_far_at_most(&mut self, bytes_max: u64) -> Option<Piece> {
        let &(_, offset) = self.order.range((Distance::FIRST_FAR, 0)..).next()?;
        Some(self.take_at(offset, bytes_max))
    }

    /// Takes, too, what follows the piece that ends at `from`, up to `to` or
    /// the end of what is left there; returns where it ends.
    ///
    /// For a record that is longer than a piece.
    pub fn take_on(&mut self, from: u64, to: u64) -> u64 {
        let Some(part) = self.unseen.get(&from) else { return from };
        let end = part.end.min(to.max(from));
        if end > from {
            self.remove(from..end);
        }
        end
    }

    /// Gives back what was taken with `piece`, or on from it, to be picked again.
    ///
    /// For a piece that is cut at the end of its last record.
    pub fn give_back(&mut self, piece: &Piece, range: Range<u64>) {
        let Range { start: from, end } = range;
        if from >= end {
            return;
        }
        let mut part = Unseen {
            end,
            distance: piece.distance,
            place: piece.place,
            device: piece.device.clone(),
        };
        if let Some(next) = self.unseen.get(&end)
            && next.distance == part.distance
            && next.place == part.place
            && next.device == part.device
        {
            part.end = next.end;
            self.remove(end..part.end);
        }
        self.insert(from, part);
    }

    /// Takes a fresh answer of where data is: what arrived meanwhile comes
    /// early, what left is put back (the improvement the paper names, section 4.2).
    ///
    /// `sleds` cover the file as those given at first; only their places and
    /// estimates count.
    pub fn refresh(&mut self, sleds: &[Sled]) {
        let old = std::mem::take(&mut self.unseen);
        self.order.clear();
        for (offset, part) in old {
            let mut at = offset;
            let first = sleds.partition_point(|sled| sled.range().end <= offset);
            for sled in &sleds[first..] {
                if at >= part.end {
                    break;
                }
                let end = sled.range().end.min(part.end);
                if end > at {
                    self.insert(at, self.unseen_of(sled, end));
                    at = end;
                }
            }
            if at < part.end {
                self.insert(at, Unseen { end: part.end, ..part });
            }
        }
    }

    /// Drops everything from `offset` on: nobody needs it any more. Whether there was any.
    pub fn stop_before(&mut self, offset: u64) -> bool {
        let before = self.unseen.last_key_value().map_or(0, |(_, part)| part.end);
        if let Some((&start, part)) = self.unseen.range(..offset).next_back()
            && part.end > offset
        {
            self.remove(offset..self.unseen[&start].end);
        }
        let beyond: Vec<u64> = self.unseen.range(offset..).map(|(&start, _)| start).collect();
        for start in beyond {
            let end = self.unseen[&start].end;
            self.remove(start..end);
        }
        before > offset
    }

    /// Whether what was in one part with the byte before `offset` goes on there, unseen.
    pub fn follows(&self, offset: u64) -> bool {
        self.unseen.contains_key(&offset)
    }

    /// Where what is not near and follows `offset` without a gap ends; `offset` if nothing does.
    pub fn far_end(&self, offset: u64) -> u64 {
        let mut end = offset;
        while let Some(part) = self.unseen.get(&end).filter(|part| part.place != Place::Near) {
            end = part.end;
        }
        end
    }

    /// What is not near and begins in `range`, in file order.
    pub fn far_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let parts = self.unseen.range(range).filter(|(_, part)| part.place != Place::Near);
        parts.map(|(&start, part)| start..part.end)
    }

    fn take_at(&mut self, offset: u64, bytes_max: u64) -> Piece {
        let mut piece = self.piece_at(offset);
        piece.length = piece.length.min(bytes_max.max(1));
        self.remove(piece.range());
        piece
    }

    fn piece_at(&self, offset: u64) -> Piece {
        let part = &self.unseen[&offset];
        Piece {
            offset,
            length: (part.end - offset).min(self.piece_bytes),
            place: part.place,
            device: part.device.clone(),
            distance: part.distance,
        }
    }

    fn unseen_of(&self, sled: &Sled, end: u64) -> Unseen {
        let distance = match self.plan {
            Plan::Best => sled.distance(),
            Plan::Linear => Distance::NEAREST,
        };
        Unseen { end, distance, place: sled.place, device: sled.device.clone() }
    }

    fn insert(&mut self, offset: u64, part: Unseen) {
        if part.end > offset {
            self.order.insert((part.distance, offset));
            self.unseen.insert(offset, part);
        }
    }

    /// Removes `range`, which begins and ends inside one part.
    fn remove(&mut self, range: Range<u64>) {
        let Some((&offset, part)) = self.unseen.range(..=range.start).next_back() else { return };
        let part = part.clone();
        self.order.remove(&(part.distance, offset));
        self.unseen.remove(&offset);
        self.insert(offset, Unseen { end: range.start, ..part.clone() });
        self.insert(range.end, part);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Estimate;

    fn sled(range: Range<u64>, place: Place, latency: f64) -> Sled {
        Sled {
            offset: range.start,
            length: range.end - range.start,
            device: Device::new(format!("{place:?}{latency}")),
            place,
            estimate: (place != Place::Unknown).then(|| Estimate::exact(latency, 1e6)),
        }
    }

    fn offsets(mut picker: Picker) -> Vec<u64> {
        std::iter::from_fn(|| picker.take()).map(|piece| piece.offset).collect()
    }

    #[test]
    fn near_then_far_then_unknown_then_cold() {
        let sleds = [
            sled(0..1, Place::Cold, 100.0),
            sled(1..2, Place::Unknown, 0.0),
            sled(2..3, Place::Far, 0.02),
            sled(3..4, Place::Far, 0.01),
            sled(4..5, Place::Near, 1e-7),
        ];
        assert_eq!(offsets(Picker::new(&sleds, 10)), [4, 3, 2, 1, 0]);
    }

    #[test]
    fn on_one_device_it_is_file_order_in_pieces() {
        let sleds = [sled(0..25, Place::Far, 0.1)];
        assert_eq!(offsets(Picker::new(&sleds, 10)), [0, 10, 20]);
    }

    #[test]
    fn linear_is_file_order_whatever_is_near() {
        let sleds = [sled(0..5, Place::Far, 0.1), sled(5..9, Place::Near, 0.0)];
        assert_eq!(offsets(Picker::with_plan(&sleds, 4, Plan::Linear)), [0, 4, 5]);
    }

    /// The paper's figure 3: a file of five blocks, an LRU cache of three.
    #[test]
    fn a_second_pass_over_five_blocks_with_a_cache_of_three_fetches_two() {
        let passes = |plan: Plan| {
            let mut cache = std::collections::VecDeque::from([2_u64, 3, 4]);
            let sleds: Vec<Sled> = (0..5)
                .map(|block| {
                    if cache.contains(&block) {
                        sled(block..block + 1, Place::Near, 1e-7)
                    } else {
                        sled(block..block + 1, Place::Far, 0.018)
                    }
                })
                .collect();
            let mut fetched = 0;
            for block in offsets(Picker::with_plan(&sleds, 1, plan)) {
                if let Some(at) = cache.iter().position(|&held| held == block) {
                    cache.remove(at);
                } else {
                    fetched += 1;
                    cache.pop_front();
                }
                cache.push_back(block);
            }
            fetched
        };
        assert_eq!(passes(Plan::Linear), 5);
        assert_eq!(passes(Plan::Best), 2);
    }

    #[test]
    fn what_arrives_is_taken_early_and_what_left_is_put_back() {
        let sleds = [sled(0..4, Place::Far, 0.1), sled(4..8, Place::Near, 0.0)];
        let mut picker = Picker::new(&sleds, 2);
        assert_eq!(picker.take().map(|piece| piece.offset), Some(4));
        picker.refresh(&[
            sled(0..2, Place::Far, 0.1),
            sled(2..4, Place::Near, 0.0),
            sled(4..8, Place::Far, 0.1),
        ]);
        assert_eq!(offsets(picker), [2, 0, 6]);
    }

    #[test]
    fn a_far_piece_can_be_taken_while_near_ones_are_left() {
        let sleds = [sled(0..4, Place::Near, 0.0), sled(4..8, Place::Far, 0.1)];
        let mut picker = Picker::new(&sleds, 4);
        assert_eq!(picker.take_far().map(|piece| piece.offset), Some(4));
        assert_eq!(picker.take_far(), None);
        assert_eq!(offsets(picker), [0]);
    }

    #[test]
    fn what_is_left_of_a_piece_is_not_joined_with_what_follows() {
        let sleds = [sled(0..4, Place::Near, 0.0), sled(4..9, Place::Near, 0.0)];
        let mut picker = Picker::new(&sleds, 4);
        let taken: Vec<_> = std::iter::from_fn(|| picker.take_at_most(3)).collect();
        let ranges: Vec<_> = taken.iter().map(Piece::range).collect();
        assert_eq!(ranges, [0..3, 3..4, 4..7, 7..9]);
        let mut picker = Picker::new(&[sled(0..4, Place::Far, 0.1)], 4);
        assert_eq!(picker.take_far_at_most(3).map(|piece| piece.range()), Some(0..3));
        assert_eq!(picker.take_far_at_most(0).map(|piece| piece.range()), Some(3..4));
    }

    #[test]
    fn what_is_given_back_is_not_joined_with_a_part_of_another_device() {
        let mut sleds = [sled(0..4, Place::Far, 0.1), sled(4..8, Place::Far, 0.1)];
        sleds[1].device = Device::new("another");
        let mut picker = Picker::new(&sleds, 10);
        let piece = picker.take().expect("nothing is taken yet");
        picker.give_back(&piece, 2..4);
        let left: Vec<_> = std::iter::from_fn(|| picker.take())
            .map(|piece| (piece.range(), piece.device))
            .collect();
        assert_eq!(left, [(2..4, piece.device), (4..8, Device::new("another"))]);
    }

    #[test]
    fn a_far_run_ends_where_something_near_or_taken_begins() {
        let sleds = [
            sled(0..4, Place::Far, 0.1),
            sled(4..8, Place::Far, 0.2),
            sled(8..9, Place::Near, 0.0),
            sled(9..12, Place::Far, 0.1),
        ];
        let picker = Picker::new(&sleds, 2);
        assert_eq!((picker.far_end(0), picker.far_end(8), picker.far_end(9)), (8, 8, 12));
    }

    #[test]
    fn an_empty_file_has_no_piece() {
        assert_eq!(Picker::new(&[], 10).take(), None);
    }

    fn any_sleds() -> impl Strategy<Value = Vec<Sled>> {
        let part = (1_u64..50, 0..4_usize);
        proptest::collection::vec(part, 0..20).prop_map(|parts| {
            let mut at = 0;
            let mut sleds = Vec::new();
            for (length, kind) in parts {
                let (place, latency) = [
                    (Place::Near, 0.0),
                    (Place::Far, 0.01),
                    (Place::Far, 0.2),
                    (Place::Cold, 60.0),
                ][kind];
                sleds.push(sled(at..at + length, place, latency));
                at += length;
            }
            sleds
        })
    }

    proptest! {
        #[test]
        fn each_byte_exactly_once_near_first_and_no_longer_than_asked(
            sleds in any_sleds(),
            piece_bytes in 1_u64..64,
        ) {
            let size: u64 = sleds.iter().map(|sled| sled.length).sum();
            let mut seen = vec![false; usize::try_from(size).expect("small")];
            let mut picker = Picker::new(&sleds, piece_bytes);
            let mut last = None;
            while let Some(piece) = picker.take() {
                prop_assert!(piece.length >= 1 && piece.length <= piece_bytes);
                for byte in piece.range() {
                    let byte = usize::try_from(byte).expect("small");
                    prop_assert!(!std::mem::replace(&mut seen[byte], true));
                }
                let key = (piece.distance, piece.offset);
                prop_assert!(last < Some(key));
                last = Some(key);
            }
            prop_assert!(seen.iter().all(|&byte| byte));
        }

        #[test]
        fn giving_back_taking_on_and_refreshing_lose_and_repeat_nothing(
            first in any_sleds(),
            steps in proptest::collection::vec((0..5_u8, 0_u64..40, any::<u64>()), 0..60),
        ) {
            let size: u64 = first.iter().map(|sled| sled.length).sum();
            let mut seen = vec![0_u8; usize::try_from(size).expect("small")];
            let mut picker = Picker::new(&first, 16);
            let mut mark = |range: Range<u64>| {
                for byte in range {
                    seen[usize::try_from(byte).expect("small")] += 1;
                }
            };
            for (step, amount, mix) in steps {
                match step {
                    0 => if let Some(piece) = picker.take() {
                        let cut = (piece.offset + amount).min(piece.range().end);
                        picker.give_back(&piece, cut..piece.range().end);
                        mark(piece.offset..cut);
                    },
                    1 => if let Some(piece) = picker.take() {
                        let end = picker.take_on(piece.range().end, piece.range().end + amount);
                        mark(piece.offset..end.max(piece.range().end));
                    },
                    2 => if let Some(piece) = picker.take_far() { mark(piece.range()) },
                    3 => {
                        let moved: Vec<Sled> = first.iter().enumerate().map(|(index, old)| {
                            match mix >> (index % 64) & 1 {
                                0 => sled(old.range(), Place::Near, 0.0),
                                _ => sled(old.range(), Place::Far, 0.01),
                            }
                        }).collect();
                        picker.refresh(&moved);
                    }
                    _ => if let Some(piece) = picker.take() { mark(piece.range()) },
                }
            }
            while let Some(piece) = picker.take() { mark(piece.range()) }
            prop_assert!(seen.iter().all(|&times| times == 1));
        }

        #[test]
        fn nothing_at_or_after_a_stop_is_picked(sleds in any_sleds(), stop in 0_u64..400) {
            let size: u64 = sleds.iter().map(|sled| sled.length).sum();
            let mut picker = Picker::new(&sleds, 7);
            picker.stop_before(stop);
            let mut taken = 0;
            while let Some(piece) = picker.take() {
                prop_assert!(piece.range().end <= stop);
                taken += piece.length;
            }
            prop_assert_eq!(taken, size.min(stop));
        }
    }
}
