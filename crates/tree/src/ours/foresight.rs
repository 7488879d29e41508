//! What one user's programs will read next, by the course of what they read before, and whether it
//! comes.

use std::collections::VecDeque;
use std::time::Duration;

use super::bar::Bar;
use super::course::{Course, Kept, Start};
use super::{Beliefs, Mixer, Reasons, Subject, Trail};
use crate::event::PredictionId;
use crate::names::Name;
use crate::numbered::NumberMap;

/// Reasons that are remembered for one file.
const REASONS_MAX: usize = 4;
/// Files that are waited for: beyond it those that have been for longest are given up.
const WAITING_MAX: usize = 1 << 14;
/// Reads of all programs within which the next read of a run comes, if it comes: there are seldom
/// more programs at work.
const READS_OF_OTHERS: u64 = 8;
/// The same of the next read of all programs.
const READS_BETWEEN: u64 = 4;
/// Reads that are waited for in any case. What comes later may have left the memory again.
const PATIENCE: u64 = 96;

/// A file that may be read soon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Soon {
    pub(crate) file: Name,
    pub(crate) reasons: Reasons,
    /// Reads ahead, by the nearer course.
    pub(crate) steps: usize,
    /// From now, by how it was earlier.
    pub(crate) after: Duration,
    /// It comes within so many reads, or not at all.
    pub(crate) within: u64,
}

impl Soon {
    /// The other course says so, too.
    fn join(&mut self, other: Self) {
        for (reason, of_other) in self.reasons.iter_mut().zip(other.reasons) {
            *reason = reason.or(of_other);
        }
        self.steps = self.steps.min(other.steps);
        self.after = self.after.min(other.after);
        self.within = self.within.min(other.within);
    }
}

#[derive(Debug)]
struct Waiting {
    subject: Subject,
    reasons: [Reasons; REASONS_MAX],
    count: usize,
    until: u64,
}

/// The course of one user's reads, and what is foreseen by it: whether it is predicted or not, it
/// is counted whether it comes, so that chances mean what they say.
#[derive(Debug)]
pub(crate) struct Foresight {
    /// For what a run will have, and for what comes next.
    pub(crate) run_bar: Bar,
    pub(crate) next_bar: Bar,
    pub(crate) mixer: Mixer,
    course: Course,
    /// Where all programs together are.
    all: Trail,
    waiting: NumberMap<Name, Waiting>,
    /// When each of these is given up, about in this order.
    due: VecDeque<(u64, Name)>,
    predictions: VecDeque<(u64, PredictionId)>,
    /// Reads so far.
    reads: u64,
}

impl Foresight {
    /// One that knows nothing yet, and shall be right in this share of cases.
    pub(crate) fn new(share: f32) -> Self {
        Self {
            run_bar: Bar::new(share),
            next_bar: Bar::new(share),
            mixer: Mixer::new(),
            course: Course::default(),
            all: Trail::of_all(),
            waiting: NumberMap::default(),
            due: VecDeque::new(),
            predictions: VecDeque::new(),
            reads: 0,
        }
    }

    /// The bar for what was foreseen for any run, or predicted for one.
    pub(crate) fn bar(&mut self, foreseen: bool) -> &mut Bar {
        if foreseen { &mut self.next_bar } else { &mut self.run_bar }
    }

    /// A run, which is where `trail` is, read a file; whether that is a step, and not the same
    /// again.
    pub(crate) fn read(
        &mut self,
        beliefs: &mut Beliefs,
        trail: &mut Trail,
        file: Name,
        now: Duration,
    ) -> bool {
        self.reads += 1;
        self.resolve(beliefs, file, true);
        while let Some(&(until, file)) = self.due.front()
            && (until <= self.reads || self.due.len() > WAITING_MAX)
        {
            self.due.pop_front();
            if self.waiting.get(&file).is_some_and(|waiting| waiting.until == until) {
                self.resolve(beliefs, file, false);
            }
        }
        if [self.all.latest(), trail.latest()] == [Some(file); 2] {
            return false;
        }
        let start = trail.start();
        let mut contexts = self.all.read(&mut self.course, file);
        contexts.extend(trail.read(&mut self.course, file));
        let place = self.course.push(file, now, trail.last(), &contexts);
        self.all.moved(place);
        trail.moved(place);
        if let Some(start) = start {
            self.course.began(place, start);
        }
        true
    }

    /// The last reads, to be saved.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        self.course.kept()
    }

    /// Where the bars are, to be saved.
    pub(crate) fn bars(&self) -> [f32; 2] {
        [self.run_bar.chance(), self.next_bar.chance()]
    }

    /// Begins with reads that were saved, and where the bars were.
    pub(crate) fn restore(&mut self, kept: Vec<Kept>, [of_runs, of_next]: [f32; 2]) {
        self.run_bar.go_to(of_runs);
        // What is right is counted at once, what is wrong a hundred reads later, and so not at all
        // in a short run: that it sank says nothing.
        self.next_bar.go_to(of_next.max(self.next_bar.chance()));
        let mut all = Trail::of_all();
        // Of runs that go on, by the places of their next reads.
        let mut runs: NumberMap<u64, Trail> = NumberMap::default();
        self.course.reserve(kept.len());
        for (Kept { step, start }, place) in kept.into_iter().zip(0_u64..) {
            let begun = start
                .as_ref()
                .map(|Start { executable, contexts }| Trail::of_run(*executable, contexts.clone()));
            let mut contexts = all.remember(step.file);
            let run = begun.or(runs.remove(&place)).map(|mut run| {
                contexts.extend(run.remember(step.file));
                run
            });
            self.course.restore(step, &contexts);
            if let Some(start) = start {
                self.course.began(place, start);
            }
            if let Some(run) = run.filter(|_| step.next > 0) {
                runs.insert(place + u64::from(step.next), run);
            }
            if step.parted {
                all = Trail::of_all();
            }
        }
        self.course.part();
    }

    /// What comes next of the files that are `wanted`, so many ahead: for the run that is where
    /// `trail` is, then for all. `kin` tells which files are of the kind of the latest one.
    pub(crate) fn ahead(
        &self,
        trail: &Trail,
        depth: usize,
        wanted: impl Fn(Name) -> bool,
        kin: impl Fn(Name) -> bool,
    ) -> Vec<Soon> {
        let contested = trail.speaks(&self.course);
        let mut soon = trail.ahead(&self.course, depth, false, (READS_OF_OTHERS, &wanted, &kin));
        let by_run = soon.len();
        for each in self.all.ahead(&self.course, depth, contested, (READS_BETWEEN, &wanted, &kin)) {
            match soon[..by_run].iter_mut().find(|known| known.file == each.file) {
                Some(known) => known.join(each),
                None => soon.push(each),
            }
        }
        for each in &mut soon {
            each.within += PATIENCE;
        }
        soon
    }

    /// A file is foreseen.
    pub(crate) fn expect(&mut self, soon: Soon, subject: Subject) {
        let until = self.reads + soon.within;
        let new = Waiting { subject, reasons: [soon.reasons; REASONS_MAX], count: 0, until: 0 };
        let waiting = self.waiting.entry(soon.file).or_insert(new);
        let known = &waiting.reasons[..waiting.count];
        if known.len() == REASONS_MAX || known.contains(&soon.reasons) {
            return;
        }
        waiting.reasons[waiting.count] = soon.reasons;
        waiting.count += 1;
        if until > waiting.until {
            waiting.until = until;
            self.due.push_back((until, soon.file));
        }
    }

    fn resolve(&mut self, beliefs: &mut Beliefs, file: Name, came: bool) {
        let Some(waiting) = self.waiting.remove(&file) else { return };
        for reasons in &waiting.reasons[..waiting.count] {
            self.mixer.count(beliefs, (waiting.subject, reasons), came);
        }
    }

    /// A prediction was made of what comes within so many reads.
    pub(crate) fn predicted(&mut self, prediction: PredictionId, within: u64) {
        self.predictions.push_back((self.reads + within, prediction));
    }

    /// The next prediction whose files should all have come, once.
    pub(crate) fn overdue(&mut self) -> Option<PredictionId> {
        let &(_, prediction) =
            self.predictions.front().filter(|(until, _)| *until <= self.reads)?;
        self.predictions.pop_front();
        Some(prediction)
    }

    /// Events were lost: whether what is waited for comes will not be known. Gives the predictions
    /// that are not over.
    pub(crate) fn lost(&mut self) -> Vec<PredictionId> {
        self.course.part();
        self.all = Trail::of_all();
        self.waiting.clear();
        self.due.clear();
        self.predictions.drain(..).map(|(_, prediction)| prediction).collect()
    }

    /// Reads so far.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let waiting = self.waiting.capacity() * size_of::<(Name, Waiting)>();
        self.course.bytes()
            + waiting
            + self.due.capacity() * size_of::<(u64, Name)>()
            + self.mixer.bytes()
    }

    /// Forgets the older half of the course, where memory is short.
    pub(crate) fn shrink(&mut self) {
        self.course.shrink();
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.course.names(each);
        for (&file, waiting) in &self.waiting {
            each(file);
            each(waiting.subject.program);
        }
        self.mixer.names(each);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Evidence;
    use super::super::course::Stream;
    use super::*;

    #[test]
    fn what_comes_and_what_stays_away_is_counted_for_its_reason() {
        let (mut foresight, mut beliefs) = (Foresight::new(0.9), Beliefs::default());
        let mut trail = Trail::of_run(Name(99), vec![1]);
        let reason = |steps| Evidence::of_course(Stream::Run, (0, 0), (0, steps), (false, false));
        let soon = |file, steps| Soon {
            file: Name(file),
            reasons: [Some(reason(steps)), None, None],
            steps,
            after: Duration::ZERO,
            within: 5,
        };
        foresight.expect(soon(1, 1), Subject::of(Name(50), b"x"));
        // The same reason once more counts once.
        foresight.expect(soon(1, 1), Subject::of(Name(50), b"x"));
        foresight.expect(soon(2, 9), Subject::of(Name(50), b"x"));
        for file in [1, 10, 11, 12, 13, 14, 2] {
            foresight.read(&mut beliefs, &mut trail, Name(file), Duration::ZERO);
        }
        let counted = |steps| beliefs.own[&(Name(50), reason(steps))];
        assert_eq!((counted(1).came, counted(1).all), (1, 1));
        assert_eq!((counted(9).came, counted(9).all), (0, 1));
    }

    #[test]
    fn the_bar_of_what_comes_next_sinks_not_from_one_to_the_next() {
        let mut bars = [0.0; 2];
        for _ in 0..100 {
            let mut foresight = Foresight::new(0.9);
            foresight.restore(Vec::new(), bars);
            foresight.run_bar.right();
            foresight.next_bar.right();
            bars = foresight.bars();
        }
        let [of_runs, of_next] = Foresight::new(0.9).bars();
        assert!(bars[0] < of_runs - 0.02 && bars[1] > of_next - 0.001, "{bars:?}");
        let mut foresight = Foresight::new(0.9);
        foresight.next_bar.wrong(10);
        let risen = foresight.bars();
        let mut after = Foresight::new(0.9);
        after.restore(Vec::new(), risen);
        assert_eq!(after.bars().map(f32::to_bits), risen.map(f32::to_bits));
    }

    #[test]
    fn what_may_have_come_unseen_is_not_counted() {
        let (mut foresight, mut beliefs) = (Foresight::new(0.9), Beliefs::default());
        let mut trail = Trail::of_run(Name(99), vec![1]);
        let evidence = Evidence::of_course(Stream::All, (0, 0), (0, 1), (false, false));
        let reasons = [None, Some(evidence), None];
        let soon = Soon { file: Name(1), reasons, steps: 1, after: Duration::ZERO, within: 2 };
        foresight.expect(soon, Subject::of(Name(50), b"x"));
        foresight.predicted(PredictionId(1), 2);
        assert_eq!(foresight.lost(), [PredictionId(1)]);
        for file in 10..20 {
            foresight.read(&mut beliefs, &mut trail, Name(file), Duration::ZERO);
        }
        assert!(beliefs.own.is_empty() && foresight.overdue().is_none());
    }

    #[test]
    fn a_prediction_is_overdue_once_and_not_before_its_time() {
        let (mut foresight, mut beliefs) = (Foresight::new(0.9), Beliefs::default());
        let mut trail = Trail::of_run(Name(99), vec![1]);
        foresight.predicted(PredictionId(1), 2);
        assert_eq!(foresight.overdue(), None);
        for file in 0..2 {
            foresight.read(&mut beliefs, &mut trail, Name(file), Duration::ZERO);
        }
        assert_eq!(foresight.overdue(), Some(PredictionId(1)));
        assert_eq!(foresight.overdue(), None);
    }
}
