//! In which order everything was read: by all programs together, and within each run.

use std::collections::VecDeque;
use std::time::Duration;

use crate::names::Name;
use crate::numbered::NumberMap;

/// Reads that are remembered: some days of a person's work, and some twenty megabytes of memory,
/// since each has up to seven contexts to find it by.
const STEPS_MAX: usize = 1 << 16;
/// Reads that are saved: a day's work and more, some ten bytes each.
pub(crate) const KEPT_MAX: usize = 1 << 14;
/// Contexts that a read is found by, at most.
const CONTEXTS_MAX: usize = 7;
/// Memory for the start of a run, about.
const START_BYTES: usize = 96;
/// Memory of the map for a context that it has room for: it keeps an eighth of its slots empty.
const CONTEXT_BYTES: usize = (size_of::<(u64, u64)>() + 1) * 8 / 7;

/// Which reads are one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Those of all programs.
    All,
    /// Those of one run.
    Run,
}

/// How often what followed a read was what had followed it the time before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Held {
    /// One for each time, the latest lowest.
    pub(crate) bits: u8,
    pub(crate) times: u8,
}

impl Held {
    pub(crate) const TIMES_MAX: u8 = 8;

    fn after(self, held: bool) -> Self {
        let times = (self.times + 1).min(Self::TIMES_MAX);
        Self { bits: self.bits << 1 | u8::from(held), times }
    }

    /// What kind of past this is: a number under 8, larger where less is to be expected.
    pub(crate) fn class(self) -> u16 {
        let held = self.bits.count_ones();
        let always = held >= u32::from(self.times);
        match (self.times, held) {
            (0, _) => 3,
            (1, 1) => 2,
            (1, 0) => 6,
            (_, 0) => 7,
            (4.., _) if always => 0,
            _ if always => 1,
            _ if self.bits & 3 == 3 => 4,
            _ => 5,
        }
    }
}

/// One read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) file: Name,
    /// When, in milliseconds; it begins anew every seven weeks.
    pub(crate) at: u32,
    /// So many steps later its run read the next file; 0: it did not, or that is too far.
    pub(crate) next: u16,
    /// What was read after it is not known, for events were lost.
    pub(crate) parted: bool,
    pub(crate) all: Held,
    pub(crate) run: Held,
}

impl Step {
    fn next_place(&self, stream: Stream, place: u64) -> Option<u64> {
        match stream {
            Stream::All => (!self.parted).then(|| place + 1),
            Stream::Run => (self.next > 0).then(|| place + u64::from(self.next)),
        }
    }

    fn held(&self, stream: Stream) -> Held {
        match stream {
            Stream::All => self.all,
            Stream::Run => self.run,
        }
    }
}

/// The last reads, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    steps: VecDeque<Step>,
    /// The place of the first of these.
    begin: u64,
    /// Where a context was last.
    places: NumberMap<u64, u64>,
    /// Steps until contexts are swept that were only at places that are forgotten.
    until_swept: usize,
    /// The first reads of runs, by their places.
    starts: NumberMap<u64, Start>,
}

/// How a run is found again by its first read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) executable: Name,
    /// The one that says most first.
    pub(crate) contexts: Vec<u64>,
}

/// A read as it is saved.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) step: Step,
    /// Of the first one of a run.
    pub(crate) start: Option<Start>,
}

impl Course {
    /// A file was read, in these contexts, after the last read of its run; gives the place.
    pub(crate) fn push(
        &mut self,
        file: Name,
        now: Duration,
        last: Option<u64>,
        contexts: &[u64],
    ) -> u64 {
        if self.steps.len() >= STEPS_MAX {
            self.forget(1);
        }
        if self.until_swept == 0 {
            self.sweep();
        }
        self.until_swept -= 1;
        let place = self.begin + self.steps.len() as u64;
        if let Some(last) = last
            && let Some(step) = self.step_mut(last)
        {
            step.next = u16::try_from(place - last).unwrap_or(0);
        }
        let at = u32::try_from(now.as_millis() & u128::from(u32::MAX)).unwrap_or(0);
        let (all, run) = (Held::default(), Held::default());
        self.steps.push_back(Step { file, at, next: 0, parted: false, all, run });
        for &context in contexts {
            self.places.insert(context, place);
        }
        place
    }

    /// The read at a place was the first of its run.
    pub(crate) fn began(&mut self, place: u64, start: Start) {
        self.starts.insert(place, start);
    }

    /// The last reads, to be saved.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let first = self.steps.len().saturating_sub(KEPT_MAX);
        let places = self.begin + first as u64..;
        let kept = |(step, place): (&Step, u64)| Kept {
            step: *step,
            start: self.starts.get(&place).cloned(),
        };
        self.steps.iter().skip(first).zip(places).map(kept).collect()
    }

    /// Makes room for so many saved reads.
    pub(crate) fn reserve(&mut self, steps: usize) {
        self.steps.reserve(steps);
        self.places.reserve(steps * CONTEXTS_MAX);
    }

    /// Puts a saved read behind the others, in these contexts.
    pub(crate) fn restore(&mut self, step: Step, contexts: &[u64]) {
        self.push(step.file, Duration::ZERO, None, contexts);
        if let Some(new) = self.steps.back_mut() {
            *new = step;
        }
    }

    /// What is read next comes not after what was read last: something between was not seen.
    pub(crate) fn part(&mut self) {
        if let Some(last) = self.steps.back_mut() {
            last.parted = true;
        }
    }

    fn forget(&mut self, steps: usize) {
        self.steps.drain(..steps);
        self.begin += steps as u64;
    }

    fn sweep(&mut self) {
        let begin = self.begin;
        self.places.retain(|_, place| *place >= begin);
        self.starts.retain(|place, _| *place >= begin);
        self.until_swept = STEPS_MAX / 2;
    }

    /// Forgets the older half.
    pub(crate) fn shrink(&mut self) {
        self.forget(self.steps.len() / 2);
        self.sweep();
        self.steps.shrink_to_fit();
        self.places.shrink_to_fit();
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
            + self.places.capacity() * CONTEXT_BYTES
            + self.starts.len() * START_BYTES
    }

    /// Where a context was last.
    pub(crate) fn find(&self, context: u64) -> Option<u64> {
        self.places.get(&context).copied().filter(|&place| place >= self.begin)
    }

    /// The read at a place that is still remembered.
    pub(crate) fn step(&self, place: u64) -> Option<&Step> {
        let index = usize::try_from(place.checked_sub(self.begin)?).ok()?;
        self.steps.get(index)
    }

    fn step_mut(&mut self, place: u64) -> Option<&mut Step> {
        let index = usize::try_from(place.checked_sub(self.begin)?).ok()?;
        self.steps.get_mut(index)
    }

    /// The read after the one at a place, and where it is.
    pub(crate) fn next(&self, stream: Stream, place: u64) -> Option<(u64, &Step)> {
        let next = self.step(place)?.next_place(stream, place)?;
        Some((next, self.step(next)?))
    }

    /// The reads after the one at a place, each with how well it is known to follow.
    pub(crate) fn onward(&self, stream: Stream, place: u64) -> impl Iterator<Item = (Held, &Step)> {
        let mut here = self.step(place).map(|step| (place, step));
        std::iter::from_fn(move || {
            let (place, step) = here?;
            let next = step.next_place(stream, place)?;
            here = self.step(next).map(|step| (next, step));
            here.map(|(_, next)| (step.held(stream), next))
        })
    }

    /// How well what follows a place is known.
    fn held(&self, stream: Stream, place: u64) -> Held {
        self.step(place).map_or(Held::default(), |step| step.held(stream))
    }

    /// What followed `place` is what had followed the place `before`, where the same was read, or
    /// not.
    pub(crate) fn judge(&mut self, stream: Stream, place: u64, before: u64, held: bool) {
        let held = self.held(stream, before).after(held);
        let Some(step) = self.step_mut(place) else { return };
        match stream {
            Stream::All => step.all = held,
            Stream::Run => step.run = held,
        }
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.steps.iter().for_each(|step| each(step.file));
        self.starts.values().for_each(|start| each(start.executable));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(course: &mut Course, file: u32, last: Option<u64>) -> u64 {
        course.push(Name(file), Duration::ZERO, last, &[u64::from(file)])
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut course = Course::default();
        let count = u32::try_from(STEPS_MAX).unwrap() * 2;
        for file in 0..count {
            let contexts = [0, 1, 2, 3, 4, 5].map(|kind| u64::from(file) << 3 | kind);
            course.push(Name(file), Duration::ZERO, None, &contexts);
        }
        assert!(course.bytes() < 20 << 20, "{}", course.bytes());
        let held = |course: &Course| {
            let mut held = 0;
            course.names(&mut |_| held += 1);
            held
        };
        assert_eq!(held(&course), STEPS_MAX);
        assert_eq!(course.find(0), None);
        let last = u64::from(count) - 1;
        assert_eq!(course.find(last << 3), Some(last));
        course.shrink();
        assert_eq!((held(&course), course.places.len()), (STEPS_MAX / 2, STEPS_MAX * 3));
        assert!(course.bytes() < 10 << 20, "{}", course.bytes());
    }

    #[test]
    fn a_run_goes_on_where_others_came_between() {
        let mut course = Course::default();
        let first = pushed(&mut course, 1, None);
        let other = pushed(&mut course, 2, None);
        let second = pushed(&mut course, 3, Some(first));
        let next = |stream, place| course.next(stream, place).map(|(place, _)| place);
        assert_eq!(next(Stream::All, first), Some(other));
        assert_eq!(next(Stream::Run, first), Some(second));
        assert_eq!(next(Stream::Run, second), None);
    }

    #[test]
    fn what_was_read_before_something_was_lost_has_no_next() {
        let mut course = Course::default();
        course.part();
        let first = pushed(&mut course, 1, None);
        course.part();
        let second = pushed(&mut course, 2, None);
        pushed(&mut course, 3, None);
        let next = |place| course.next(Stream::All, place).map(|(place, _)| place);
        assert_eq!((next(first), next(second)), (None, Some(second + 1)));
    }

    #[test]
    fn what_held_more_often_is_expected_more() {
        let class = |times: &[bool]| {
            times.iter().fold(Held::default(), |held, &time| held.after(time)).class()
        };
        let kinds: [&[bool]; 8] = [
            &[true; 9],
            &[true; 3],
            &[true],
            &[],
            &[false, true, true],
            &[true, false],
            &[false],
            &[false; 3],
        ];
        let classes: Vec<u16> = kinds.iter().map(|times| class(times)).collect();
        assert_eq!(classes, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
