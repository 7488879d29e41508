//! Where in the course of earlier reads a run, or everything together, is again.

use std::time::Duration;

use super::course::{Course, Start, Stream};
use super::foresight::Soon;
use super::{Evidence, KINDS};
use crate::names::Name;
use crate::numbered::SPREAD;

/// Earlier reads that may be left out this time.
const SKIPPED_MAX: usize = 4;
/// Reads that may come in between this time.
const BETWEEN_MAX: u8 = 8;
/// Reads looked ahead from where one read was found again, and one more for each that came as
/// earlier since.
const AHEAD_AT_FIRST: usize = 2;

/// A way through the course, by what came earlier.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// The earlier read that was like the latest one of it.
    place: u64,
    /// By which of the contexts that was found.
    order: usize,
    /// Reads since then that came as earlier.
    streak: usize,
    /// Reads that may still come in between.
    patience: u8,
}

impl Way {
    fn found(place: u64, order: usize) -> Self {
        Self { place, order, streak: 0, patience: BETWEEN_MAX }
    }

    /// The same after a read that is not of it.
    fn left_again(self) -> Option<Self> {
        (self.patience > 1).then(|| Self { patience: self.patience - 1, ..self })
    }
}

/// Where a run, or everything together, is in the course.
#[derive(Debug, Clone)]
pub(crate) struct Trail {
    stream: Stream,
    /// What contexts are told apart by, besides names: the executable of a run.
    salt: u64,
    /// Contexts of the first read, the one that says most first.
    start: Vec<u64>,
    way: Option<Way>,
    /// The one that was left for this one, and may go on.
    other: Option<Way>,
    /// The latest files, the last first.
    latest: [Option<Name>; 2],
    /// The latest read's own place.
    last: Option<u64>,
}

impl Trail {
    /// One of all reads.
    pub(crate) fn of_all() -> Self {
        Self::new(Stream::All, 0, Vec::new())
    }

    /// One of a run of an executable, found by its start in these contexts, the one that says most
    /// first.
    pub(crate) fn of_run(executable: Name, start: Vec<u64>) -> Self {
        Self::new(Stream::Run, u64::from(executable.0) + 1, start)
    }

    fn new(stream: Stream, salt: u64, start: Vec<u64>) -> Self {
        Self { stream, salt, start, way: None, other: None, latest: [None, None], last: None }
    }

    /// The latest file.
    pub(crate) fn latest(&self) -> Option<Name> {
        self.latest[0]
    }

    /// The latest read's place.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }

    /// A file is read that is not the latest: finds where it was, and gives the contexts to find it
    /// by.
    pub(crate) fn read(&mut self, course: &mut Course, file: Name) -> Vec<u64> {
        let contexts = self.contexts(file);
        if let (Some(last), Some(Way { place, .. })) = (self.last, self.way) {
            let held = course.next(self.stream, place).is_some_and(|(_, step)| step.file == file);
            course.judge(self.stream, last, place, held);
        }
        self.follow(course, file, &contexts);
        self.latest = [Some(file), self.latest[0]];
        contexts
    }

    /// The same of a read that is only remembered: it was followed then.
    pub(crate) fn remember(&mut self, file: Name) -> Vec<u64> {
        let contexts = self.contexts(file);
        self.latest = [Some(file), self.latest[0]];
        contexts
    }

    /// What it was found by, and will be: before its first read.
    pub(crate) fn start(&self) -> Option<Start> {
        let executable = u32::try_from(self.salt.checked_sub(1)?).ok()?;
        let contexts = self.start.clone();
        (self.last.is_none()).then_some(Start { executable: Name(executable), contexts })
    }

    /// That read's place.
    pub(crate) fn moved(&mut self, place: u64) {
        self.last = Some(place);
    }

    fn follow(&mut self, course: &Course, file: Name, contexts: &[u64]) {
        let onward = |way: Way| self.onward(course, way, file);
        let (way, other) = (self.way.and_then(onward), self.other.and_then(onward));
        let left = |way: Option<Way>| way.and_then(Way::left_again);
        if way.is_some() {
            (self.way, self.other) = (way, other.or(left(self.other)));
        } else if other.is_some() {
            (self.way, self.other) = (other, left(self.way));
        } else {
            // Which of two that are left goes on is the surer the longer it was gone.
            let ways = [left(self.other), left(self.way)].into_iter().flatten();
            self.other = ways.max_by_key(|way| way.streak);
            let mut places = contexts.iter().map(|&context| course.find(context)).enumerate();
            let found = places.find_map(|(order, place)| Some((order, place?)));
            self.way = found.map(|(order, place)| Way::found(place, order));
        }
    }

    /// A way, if a file is one of its next.
    fn onward(&self, course: &Course, way: Way, file: Name) -> Option<Way> {
        let mut place = way.place;
        for skipped in 0..=SKIPPED_MAX {
            let (next, step) = course.next(self.stream, place)?;
            if step.file == file {
                let streak = if skipped == 0 { way.streak + 1 } else { way.streak / 2 };
                return Some(Way { place: next, streak, patience: BETWEEN_MAX, ..way });
            }
            place = next;
        }
        None
    }

    /// The contexts of a read: it and the two before, it and the one before, it alone.
    fn contexts(&mut self, file: Name) -> Vec<u64> {
        if !self.start.is_empty() {
            return std::mem::take(&mut self.start);
        }
        let files = [Some(file), self.latest[0], self.latest[1]];
        let of = |count: usize| {
            let salted = self.salt << 2 | count as u64;
            let mut files = files[..count].iter();
            files.try_fold(salted, |hash, file| Some(mixed(hash, u64::from((*file)?.0))))
        };
        [of(3), of(2), of(1)].into_iter().flatten().collect()
    }

    /// Whether it knows what comes next.
    pub(crate) fn speaks(&self, course: &Course) -> bool {
        self.way.is_some_and(|way| course.next(self.stream, way.place).is_some())
    }

    /// What comes next if everything is as earlier, as far as it is `wanted`, among the next `depth`
    /// files; `contested` if another trail speaks, too. Each comes within `between` reads for each
    /// step.
    pub(crate) fn ahead(
        &self,
        course: &Course,
        depth: usize,
        contested: bool,
        (between, wanted, kin): (u64, impl Fn(Name) -> bool, impl Fn(Name) -> bool),
    ) -> Vec<Soon> {
        let Some(Way { place, order, streak, .. }) = self.way else { return Vec::new() };
        let Some(now) = course.step(place).map(|step| step.at) else { return Vec::new() };
        let depth = depth.min(AHEAD_AT_FIRST + streak);
        let mut ahead = Vec::new();
        let mut weakest = 0;
        for (steps, (held, step)) in (1..=depth).zip(course.onward(self.stream, place)) {
            weakest = weakest.max(held.class());
            // Most are not, and what is known of them would be found for nothing.
            if !wanted(step.file) {
                continue;
            }
            let found = (order, streak);
            let besides = (contested, kin(step.file));
            let evidence = Evidence::of_course(self.stream, found, (weakest, steps), besides);
            let mut reasons = [None; KINDS];
            reasons[usize::from(self.stream == Stream::All)] = Some(evidence);
            ahead.push(Soon {
                file: step.file,
                reasons,
                steps,
                after: Duration::from_millis(u64::from(step.at.saturating_sub(now))),
                within: steps as u64 * between,
            });
        }
        ahead
    }
}

/// Takes a number into a hash; names are numbers that we gave ourselves.
fn mixed(hash: u64, number: u64) -> u64 {
    let hash = (hash ^ number).wrapping_mul(SPREAD);
    hash ^ hash >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of an executable, each a list of files, one run after another.
    struct Reads {
        course: Course,
        all: Trail,
    }

    impl Reads {
        fn new() -> Self {
            Self { course: Course::default(), all: Trail::of_all() }
        }

        fn read(&mut self, run: &mut Trail, files: &[u32]) {
            for &file in files {
                let mut contexts = self.all.read(&mut self.course, Name(file));
                contexts.extend(run.read(&mut self.course, Name(file)));
                let place = self.course.push(Name(file), Duration::ZERO, run.last(), &contexts);
                self.all.moved(place);
                run.moved(place);
            }
        }

        fn ahead(&self, trail: &Trail) -> Vec<u32> {
            let soon = trail.ahead(&self.course, 9, false, (1, |_| true, |_| false));
            soon.into_iter().map(|soon| soon.file.0).collect()
        }
    }

    fn run(start: u64) -> Trail {
        Trail::of_run(Name(99), vec![start])
    }

    #[test]
    fn a_run_that_begins_as_an_earlier_one_goes_its_way() {
        let mut reads = Reads::new();
        reads.read(&mut run(7), &[1, 2, 3]);
        reads.read(&mut run(8), &[1, 4, 5]);
        let mut again = run(7);
        reads.read(&mut again, &[1]);
        assert_eq!(reads.ahead(&again), [2, 3]);
        reads.read(&mut again, &[2]);
        assert_eq!(reads.ahead(&again), [3]);
    }

    #[test]
    fn two_files_tell_more_than_one() {
        let mut reads = Reads::new();
        reads.read(&mut run(7), &[1, 2, 3, 0, 4, 2, 5, 0]);
        let mut again = run(8);
        reads.read(&mut again, &[6, 1, 2]);
        assert_eq!(reads.ahead(&again)[..1], [3]);
        reads.read(&mut again, &[4, 2]);
        assert_eq!(reads.ahead(&again)[..1], [5]);
    }

    #[test]
    fn what_is_left_out_or_comes_between_does_not_lose_the_way() {
        let mut reads = Reads::new();
        reads.read(&mut run(7), &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut again = run(7);
        reads.read(&mut again, &[1, 2, 3, 5]);
        assert_eq!(reads.ahead(&again)[..1], [6]);
        reads.read(&mut again, &[6, 7, 40, 41]);
        assert!(reads.ahead(&again).is_empty());
        reads.read(&mut again, &[8]);
        assert_eq!(reads.ahead(&again), [9]);
    }

    #[test]
    fn a_way_with_the_same_few_between_is_kept_beside_theirs() {
        let mut reads = Reads::new();
        reads.read(&mut run(7), &[1, 2, 3, 4, 5, 6, 7]);
        let mut again = run(8);
        // Of a run's first read nothing but its start tells.
        reads.read(&mut again, &[1]);
        for text in 2..=5 {
            reads.read(&mut again, &[text]);
            // What the first pass tells of more texts the longer it is gone again.
            let ahead = reads.ahead(&again);
            assert_eq!(ahead[..2], [text + 1, text + 2], "{text}");
            assert!(text < 4 || ahead.len() >= 4.min(7 - text as usize), "{text}: {ahead:?}");
            reads.read(&mut again, &[21, 22, 23, 24, 25, 26]);
        }
    }

    #[test]
    fn reads_of_others_do_not_come_into_the_way_of_a_run() {
        let mut reads = Reads::new();
        let (mut one, mut two) = (run(7), run(8));
        for pair in [[1, 11], [2, 12], [3, 13]] {
            reads.read(&mut one, &pair[..1]);
            reads.read(&mut two, &pair[1..]);
        }
        let mut again = run(7);
        reads.read(&mut again, &[1]);
        assert_eq!(reads.ahead(&again), [2, 3]);
        assert_eq!(reads.ahead(&reads.all)[..2], [11, 2]);
    }
}
