//! Predictions that were made and of which it is not known yet what they are worth.

use std::collections::VecDeque;
use std::time::Duration;

use crate::account::Account;
use crate::event::PredictionId;
use crate::names::Name;
use crate::numbered::NumberMap;
use crate::run::RunId;

/// Predicted files of one user that may be waited for: some megabytes of memory.
pub(crate) const FILES_MAX: usize = 1 << 18;
/// Predictions remembered after nothing more is expected of them: what was on its way may still come.
const CLOSED_MAX: usize = 1024;

#[derive(Debug)]
struct Waiting {
    prediction: PredictionId,
    /// The run that waits for it, and when it was expected to need it, if it was predicted for one:
    /// by this prediction or, as nobody has read it since, by an earlier one.
    for_run: Option<(RunId, Duration)>,
    fetched: Option<(u64, Duration)>,
    /// What earlier predictions fetched of it, which nobody has read since.
    before: Option<(u64, Duration)>,
    used: bool,
    /// It cannot be brought near.
    refused: bool,
    /// How many files had been accessed when it was predicted.
    since: u64,
    /// The same when it was first predicted of the times since which nobody has read it.
    first: u64,
}

#[derive(Debug)]
struct Made {
    /// It was for whichever run reads the files next, and not for one.
    foreseen: bool,
    program: Name,
    files: Vec<Name>,
    /// How many files had been accessed then.
    since: u64,
}

/// A prediction of which nothing more is expected.
#[derive(Debug)]
struct Past {
    prediction: PredictionId,
    program: Name,
    since: u64,
}

/// Accesses after which a predicted file that nobody has read may be gone again, and is worth
/// telling once more: a carrier sees at little cost that it is near.
const HELD_ACCESSES: u64 = 24;

/// Accesses after which one that was told again and again, and was not read, was told for nothing: by
/// then it may be gone once more.
const FORGOTTEN_ACCESSES: u64 = 96;

/// One user's predictions.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    files: NumberMap<Name, Waiting>,
    made: NumberMap<PredictionId, Made>,
    past: VecDeque<Past>,
}

/// A predicted file that was read.
#[derive(Debug)]
pub(crate) struct Used {
    /// The run that waited for it, if one did, and when it was expected to need it.
    pub(crate) run: Option<(RunId, Duration)>,
    /// The program that it was predicted for.
    pub(crate) program: Name,
    /// It was foreseen for any run when it was predicted last.
    pub(crate) foreseen: bool,
    pub(crate) account: Account,
}

/// A predicted file that is near.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The run that waits for it, if one does, and the program that it was predicted for.
    pub(crate) run: Option<RunId>,
    pub(crate) program: Name,
    /// Bytes that had been fetched before, and were gone again before anybody read them.
    pub(crate) wasted_bytes: u64,
}

/// What came of a prediction.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) program: Name,
    pub(crate) account: Account,
    /// It was foreseen for any run.
    pub(crate) foreseen: bool,
    /// Some of its files were neither used nor fetched: they are not wanted any more.
    pub(crate) unfetched: bool,
}

impl Outstanding {
    /// Whether a file is predicted already and nobody has opened it since.
    pub(crate) fn awaits(&self, file: Name) -> bool {
        self.files.get(&file).is_some_and(|waiting| !waiting.used)
    }

    /// Whether besides it should still be near after so many accesses in all.
    pub(crate) fn holds(&self, file: Name, accesses: u64) -> bool {
        let waiting = self.files.get(&file).filter(|waiting| !waiting.used);
        waiting.is_some_and(|waiting| accesses.saturating_sub(waiting.since) < HELD_ACCESSES)
    }

    /// Whether besides a run waits for it, or would in vain.
    pub(crate) fn holds_for_run(&self, file: Name, accesses: u64) -> bool {
        let for_run = |waiting: &Waiting| waiting.for_run.is_some() || waiting.refused;
        self.holds(file, accesses) && self.files.get(&file).is_some_and(for_run)
    }

    /// How many files may still be predicted.
    pub(crate) fn room(&self) -> usize {
        FILES_MAX.saturating_sub(self.files.len())
    }

    /// Files were predicted for a run of a program, each with the time at which it needs it, or
    /// foreseen for any run, after so many accesses. Gives how many of them had been foreseen before, for
    /// nothing.
    pub(crate) fn made(
        &mut self,
        prediction: PredictionId,
        (run, program): (Option<RunId>, Name),
        files: &[(Name, Duration)],
        since: u64,
    ) -> u64 {
        let mut overdue = 0;
        for &(file, needed) in files {
            let unread = self.files.get(&file).filter(|unread| !unread.used);
            let mut first = unread.map_or(since, |unread| unread.first);
            if since.saturating_sub(first) >= FORGOTTEN_ACCESSES {
                overdue += u64::from(unread.is_some_and(|unread| unread.for_run.is_none()));
                first = since;
            }
            let for_run = run.map(|run| (run, needed)).or(unread.and_then(|unread| unread.for_run));
            let before = unread.and_then(|unread| unread.fetched.or(unread.before));
            let (fetched, used, refused) = (None, false, false);
            let new = Waiting { prediction, for_run, fetched, before, used, refused, since, first };
            self.files.insert(file, new);
        }
        let files = files.iter().map(|(file, _)| *file).collect();
        self.made.insert(prediction, Made { foreseen: run.is_none(), program, files, since });
        overdue
    }

    /// A file was opened to be read; gives what came of predicting it, if it was.
    pub(crate) fn read(&mut self, file: Name) -> Option<Used> {
        let waiting = self.files.get_mut(&file).filter(|waiting| !waiting.used)?;
        waiting.used = true;
        let &Made { foreseen, program, .. } = self.made.get(&waiting.prediction)?;
        let account = match waiting.fetched {
            Some((_, took)) => Account { in_time: 1, saved: took, ..Account::default() },
            // To predict it earlier would not help.
            None if waiting.refused => Account { missed: 1, ..Account::default() },
            None => Account { late: 1, ..Account::default() },
        };
        Some(Used { run: waiting.for_run, program, foreseen, account })
    }

    /// A predicted file is near; gives what that tells.
    pub(crate) fn fetched(
        &mut self,
        prediction: PredictionId,
        file: Name,
        bytes: u64,
        took: Duration,
    ) -> Option<Arrived> {
        let waiting = self.files.get_mut(&file);
        let waiting = waiting.filter(|waiting| waiting.prediction == prediction)?;
        let before = waiting.before.take().unwrap_or_default();
        let (fetched, wasted_bytes) = match bytes {
            // Near already: what was saved, if anything, is what the fetch before took.
            0 => (before, 0),
            _ => ((bytes, took), before.0),
        };
        waiting.fetched = Some(fetched);
        let made = self.made.get(&prediction)?;
        let run = waiting.for_run.map(|(run, _)| run);
        Some(Arrived { run, program: made.program, wasted_bytes })
    }

    /// Bytes of a file came that nobody waits for by this prediction: it is over, or a later one has
    /// the file. Gives the program that they were fetched for, and how many of them are in vain, as
    /// of a file that was read after so many accesses, if it was.
    pub(crate) fn came_late(
        &mut self,
        prediction: PredictionId,
        file: Name,
        (bytes, took): (u64, Duration),
        read_at: Option<u64>,
    ) -> Option<(Name, u64)> {
        let made = self.made.get(&prediction).map(|made| (made.program, made.since));
        let past = self.past.iter().rfind(|past| past.prediction == prediction);
        let (program, since) = made.or(past.map(|past| (past.program, past.since)))?;
        if read_at.is_some_and(|at| at > since) {
            return Some((program, 0));
        }
        let Some(waiting) = self.files.get_mut(&file).filter(|waiting| !waiting.used) else {
            return Some((program, bytes));
        };
        // Whoever reads it for the later prediction reads these.
        let came =
            if waiting.fetched.is_some() { &mut waiting.fetched } else { &mut waiting.before };
        let (wasted_bytes, _) = came.replace((bytes, took)).unwrap_or_default();
        Some((program, wasted_bytes))
    }

    /// A predicted file cannot be brought near, and is told again no sooner than others; gives the
    /// run that waited for it.
    pub(crate) fn refused(&mut self, prediction: PredictionId, file: Name) -> Option<RunId> {
        let waiting = self.files.get_mut(&file);
        // Of one that was read before, what it told was told.
        let waiting =
            waiting.filter(|waiting| waiting.prediction == prediction && !waiting.used)?;
        waiting.refused = true;
        waiting.for_run.take().map(|(run, _)| run)
    }

    /// Nothing more is expected of a prediction.
    pub(crate) fn close(&mut self, prediction: PredictionId) -> Option<Closed> {
        let made = self.made.remove(&prediction)?;
        if self.past.len() >= CLOSED_MAX {
            self.past.pop_front();
        }
        self.past.push_back(Past { prediction, program: made.program, since: made.since });
        let mut closed = Closed {
            program: made.program,
            account: Account::default(),
            foreseen: made.foreseen,
            unfetched: false,
        };
        for file in made.files {
            let Some(waiting) = self.files.get(&file) else { continue };
            if waiting.prediction != prediction {
                continue;
            }
            if !waiting.used {
                let fetched = waiting.fetched.or(waiting.before);
                let wasted_bytes = fetched.map_or(0, |(bytes, _)| bytes);
                closed.account += Account { unused: 1, wasted_bytes, ..Account::default() };
                closed.unfetched |= waiting.fetched.is_none() && !waiting.refused;
            }
            self.files.remove(&file);
        }
        Some(closed)
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.files.keys().for_each(|&file| each(file));
        self.past.iter().for_each(|past| each(past.program));
        for made in self.made.values() {
            each(made.program);
            made.files.iter().for_each(|&file| each(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Name = Name(7);

    fn made(run: Option<RunId>) -> Outstanding {
        let mut outstanding = Outstanding::default();
        let files = [(FILE, Duration::ZERO)];
        outstanding.made(PredictionId(1), (run, Name(1)), &files, 100);
        outstanding
    }

    /// By the course.
    fn told_again(outstanding: &mut Outstanding, number: u64) {
        let files = [(FILE, Duration::from_hours(1))];
        outstanding.made(PredictionId(number), (None, Name(1)), &files, 200);
    }

    #[test]
    fn what_was_predicted_long_ago_may_be_told_again() {
        let mut outstanding = made(Some(RunId(1)));
        assert!(outstanding.holds_for_run(FILE, 100 + HELD_ACCESSES - 1));
        assert!(!outstanding.holds(FILE, 100 + HELD_ACCESSES) && outstanding.awaits(FILE));
        told_again(&mut outstanding, 2);
        // The first prediction has nothing more to lose, the second has.
        let unused = |closed: Option<Closed>| closed.map(|closed| closed.account.unused);
        assert_eq!(unused(outstanding.close(PredictionId(1))), Some(0));
        assert_eq!(unused(outstanding.close(PredictionId(2))), Some(1));
    }

    #[test]
    fn what_is_told_again_and_again_and_not_read_was_told_for_nothing() {
        let mut outstanding = Outstanding::default();
        let mut told = |number, run: Option<RunId>, at| {
            let files = [(FILE, Duration::ZERO)];
            outstanding.made(PredictionId(number), (run, Name(1)), &files, 100 + at)
        };
        assert_eq!(told(1, None, 0) + told(2, None, FORGOTTEN_ACCESSES - 1), 0);
        assert_eq!(told(3, None, FORGOTTEN_ACCESSES), 1);
        assert_eq!(told(4, None, FORGOTTEN_ACCESSES + 1), 0);
        // What a run waits for may come as late as the run needs it.
        assert_eq!(told(5, Some(RunId(1)), FORGOTTEN_ACCESSES + 2), 0);
        assert_eq!(told(6, None, 9 * FORGOTTEN_ACCESSES), 0);
        assert!(outstanding.read(FILE).is_some());
        assert_eq!(
            outstanding.made(PredictionId(7), (None, Name(1)), &[(FILE, Duration::ZERO)], 5000),
            0
        );
    }

    #[test]
    fn the_run_that_waits_for_a_file_hears_of_it_whoever_told_it_again() {
        let mut outstanding = made(Some(RunId(1)));
        told_again(&mut outstanding, 2);
        assert!(outstanding.holds_for_run(FILE, 200));
        let arrived = outstanding.fetched(PredictionId(2), FILE, 1, Duration::ZERO);
        assert_eq!(arrived.and_then(|arrived| arrived.run), Some(RunId(1)));
        let used = outstanding.read(FILE).unwrap();
        // The course does not know how far the run has come.
        assert_eq!((used.run, used.foreseen), (Some((RunId(1), Duration::ZERO)), true));
        // It waited for that read, and not for the next.
        told_again(&mut outstanding, 3);
        assert_eq!(outstanding.read(FILE).and_then(|used| used.run), None);
    }

    #[test]
    fn what_has_to_be_fetched_twice_was_fetched_in_vain() {
        let took = |milliseconds| Duration::from_millis(milliseconds);
        for (bytes, wasted_bytes, saved) in [(4096, 1000, took(3)), (0, 0, took(7))] {
            for read in [true, false] {
                let mut outstanding = made(Some(RunId(1)));
                let mut fetched = |number, bytes, milliseconds| {
                    let prediction = PredictionId(number);
                    let arrived = outstanding.fetched(prediction, FILE, bytes, took(milliseconds));
                    told_again(&mut outstanding, number + 1);
                    arrived.unwrap().wasted_bytes
                };
                assert_eq!(fetched(1, 1000, 7), 0);
                assert_eq!(fetched(2, bytes, 3), wasted_bytes);
                assert_eq!(fetched(3, 0, 1), 0);
                outstanding.fetched(PredictionId(4), FILE, 0, took(1));
                if read {
                    assert_eq!(outstanding.read(FILE).unwrap().account.saved, saved);
                }
                let kept = if bytes > 0 { bytes } else { 1000 };
                let unread = outstanding.close(PredictionId(4)).unwrap().account.wasted_bytes;
                assert_eq!(unread, if read { 0 } else { kept });
            }
        }
    }

    #[test]
    fn what_was_fetched_is_wasted_if_it_is_told_again_and_never_read() {
        let mut outstanding = made(None);
        outstanding.fetched(PredictionId(1), FILE, 1000, Duration::ZERO);
        told_again(&mut outstanding, 2);
        let closed = outstanding.close(PredictionId(2)).unwrap();
        assert_eq!((closed.account.wasted_bytes, closed.unfetched), (1000, true));
    }

    #[test]
    fn what_is_foreseen_for_any_run_is_still_predicted_for_one() {
        let outstanding = made(None);
        assert!(outstanding.holds(FILE, 100) && !outstanding.holds_for_run(FILE, 100));
    }

    #[test]
    fn what_is_refused_is_waited_for_by_nobody() {
        for read in [true, false] {
            let mut outstanding = made(Some(RunId(1)));
            assert_eq!(outstanding.refused(PredictionId(2), FILE), None);
            assert_eq!(outstanding.refused(PredictionId(1), FILE), Some(RunId(1)));
            assert_eq!(outstanding.refused(PredictionId(1), FILE), None);
            assert!(outstanding.holds_for_run(FILE, 100), "it is not told again at once");
            if read {
                let used = outstanding.read(FILE).unwrap();
                assert_eq!((used.run, used.account.missed, used.account.late), (None, 1, 0));
            }
            let closed = outstanding.close(PredictionId(1)).unwrap();
            assert_eq!((closed.account.unused, closed.unfetched), (u64::from(!read), false));
        }
    }

    #[test]
    fn what_is_refused_after_it_was_read_came_once() {
        let mut outstanding = made(Some(RunId(1)));
        assert!(outstanding.read(FILE).is_some_and(|used| used.run.is_some()));
        assert_eq!(outstanding.refused(PredictionId(1), FILE), None);
    }

    #[test]
    fn what_was_read_is_awaited_no_more() {
        let mut outstanding = made(None);
        assert!(outstanding.read(FILE).is_some_and(|used| used.run.is_none()));
        assert!(!outstanding.awaits(FILE) && !outstanding.holds(FILE, 100));
        assert!(outstanding.read(FILE).is_none());
    }
}
