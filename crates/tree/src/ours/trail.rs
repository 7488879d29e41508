//! Where in the course of earlier reads a run, or everything together, is again.

use std::time::Duration;

use super::course::{Course, Stream};
use super::foresight::Soon;
use super::{Evidence, KINDS};
use crate::names::Name;

/// Earlier reads that may be left out this time.
const SKIPPED_MAX: usize = 4;
/// Reads that may come in between this time.
const BETWEEN_MAX: u8 = 8;
/// Reads looked ahead from where one read was found again, and one more for each that came as
/// earlier since.
const AHEAD_AT_FIRST: usize = 2;

/// A way through the course.
#[derive(Debug, Clone)]
pub(crate) struct Trail {
    stream: Stream,
    /// What contexts are told apart by, besides names: the executable of a run.
    salt: u64,
    /// Contexts of the first read, the one that says most first.
    start: Vec<u64>,
    /// The earlier read that was like the latest one.
    place: Option<u64>,
    /// By which of the contexts that was found.
    order: usize,
    /// Reads since then that came as earlier.
    streak: usize,
    /// Where it was before reads came in between: place, streak, reads that may still come.
    spare: Option<(u64, usize, u8)>,
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
        Self {
            stream,
            salt,
            start,
            place: None,
            order: 0,
            streak: 0,
            spare: None,
            latest: [None, None],
            last: None,
        }
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
        if let (Some(last), Some(place)) = (self.last, self.place) {
            let held = course.next(self.stream, place).is_some_and(|(_, step)| step.file == file);
            course.judge(self.stream, last, place, held);
        }
        self.follow(course, file, &contexts);
        self.latest = [Some(file), self.latest[0]];
        contexts
    }

    /// That read's place.
    pub(crate) fn moved(&mut self, place: u64) {
        self.last = Some(place);
    }

    fn follow(&mut self, course: &Course, file: Name, contexts: &[u64]) {
        let onward = |place| self.onward(course, place, file);
        if let Some((place, skipped)) = self.place.and_then(onward) {
            self.place = Some(place);
            self.streak = if skipped == 0 { self.streak + 1 } else { self.streak / 2 };
            return;
        }
        if let Some((place, streak, left)) = self.spare {
            if let Some((place, _)) = self.onward(course, place, file) {
                (self.place, self.streak, self.spare) = (Some(place), streak / 2, None);
                return;
            }
            self.spare = (left > 1).then(|| (place, streak, left - 1));
        }
        if let Some(place) = self.place.filter(|_| self.streak >= 2) {
            self.spare = Some((place, self.streak, BETWEEN_MAX));
        }
        let mut places = contexts.iter().map(|&context| course.find(context)).enumerate();
        let found = places.find_map(|(order, place)| Some((order, place?)));
        self.place = found.map(|(_, place)| place);
        self.order = found.map_or(0, |(order, _)| order);
        self.streak = 0;
    }

    /// The next read of a file behind a place, and how many others come before it.
    fn onward(&self, course: &Course, mut place: u64, file: Name) -> Option<(u64, usize)> {
        for skipped in 0..=SKIPPED_MAX {
            let (next, step) = course.next(self.stream, place)?;
            if step.file == file {
                return Some((next, skipped));
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
        self.place.is_some_and(|place| course.next(self.stream, place).is_some())
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
        let Some(place) = self.place else { return Vec::new() };
        let Some(now) = course.step(place).map(|step| step.at) else { return Vec::new() };
        let depth = depth.min(AHEAD_AT_FIRST + self.streak);
        let mut ahead = Vec::new();
        let mut weakest = 0;
        for (steps, (held, step)) in (1..=depth).zip(course.onward(self.stream, place)) {
            weakest = weakest.max(held.class());
            // Most are not, and what is known of them would be found for nothing.
            if !wanted(step.file) {
                continue;
            }
            let found = (self.order, self.streak);
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
    let hash = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
