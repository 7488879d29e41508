//! Predictions that were made and of which it is not known yet what they are worth.

use std::time::Duration;

use crate::account::Account;
use crate::event::PredictionId;
use crate::names::Name;
use crate::numbered::NumberMap;
use crate::run::RunId;

/// Predicted files of one user that may be waited for: some megabytes of memory.
pub(crate) const FILES_MAX: usize = 1 << 18;

#[derive(Debug)]
struct Waiting {
    prediction: PredictionId,
    /// When it was expected to be needed.
    needed: Duration,
    fetched: Option<(u64, Duration)>,
    used: bool,
    /// How many files had been accessed when it was predicted.
    since: u64,
    /// It had been fetched by another prediction before, and nobody has read it since.
    again: bool,
}

#[derive(Debug)]
struct Made {
    run: Option<RunId>,
    program: Name,
    files: Vec<Name>,
}

/// Accesses after which a predicted file that nobody has read may be gone again, and is worth telling
/// once more: a carrier sees at little cost that it is near.
const HELD_ACCESSES: u64 = 24;

/// One user's predictions.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    files: NumberMap<Name, Waiting>,
    made: NumberMap<PredictionId, Made>,
}

/// A predicted file that was read.
#[derive(Debug)]
pub(crate) struct Used {
    /// The run, unless it was foreseen for any, and the program that it was predicted for.
    pub(crate) run: Option<RunId>,
    pub(crate) program: Name,
    /// When it was expected to be needed.
    pub(crate) needed: Duration,
    pub(crate) account: Account,
}

/// A predicted file that is near.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The run, unless it was foreseen for any, and the program that it was predicted for.
    pub(crate) run: Option<RunId>,
    pub(crate) program: Name,
    /// It had been fetched before, and was gone again before anybody read it.
    pub(crate) in_vain: bool,
}

/// What came of a prediction.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) program: Name,
    pub(crate) account: Account,
    /// It was for one run, and not foreseen for any.
    pub(crate) for_run: bool,
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

    /// Whether besides it is predicted for one run, and not foreseen for any.
    pub(crate) fn holds_for_run(&self, file: Name, accesses: u64) -> bool {
        let of = |waiting: &Waiting| self.made.get(&waiting.prediction)?.run;
        self.holds(file, accesses) && self.files.get(&file).and_then(of).is_some()
    }

    /// How many files may still be predicted.
    pub(crate) fn room(&self) -> usize {
        FILES_MAX.saturating_sub(self.files.len())
    }

    /// Files were predicted for a run of a program, or foreseen for any run, each with the time at
    /// which it is needed, after so many accesses.
    pub(crate) fn made(
        &mut self,
        prediction: PredictionId,
        (run, program): (Option<RunId>, Name),
        files: &[(Name, Duration)],
        since: u64,
    ) {
        for &(file, needed) in files {
            let before = self.files.get(&file).filter(|before| !before.used);
            let again = before.is_some_and(|before| before.fetched.is_some());
            let new = Waiting { prediction, needed, fetched: None, used: false, since, again };
            self.files.insert(file, new);
        }
        let files = files.iter().map(|(file, _)| *file).collect();
        self.made.insert(prediction, Made { run, program, files });
    }

    /// A file was opened to be read; gives what came of predicting it, if it was.
    pub(crate) fn read(&mut self, file: Name) -> Option<Used> {
        let waiting = self.files.get_mut(&file).filter(|waiting| !waiting.used)?;
        waiting.used = true;
        let &Made { run, program, .. } = self.made.get(&waiting.prediction)?;
        let account = match waiting.fetched {
            Some((_, took)) => Account { in_time: 1, saved: took, ..Account::default() },
            None => Account { late: 1, ..Account::default() },
        };
        Some(Used { run, program, needed: waiting.needed, account })
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
        // Near already: nothing was saved.
        let took = if bytes == 0 { Duration::ZERO } else { took };
        waiting.fetched = Some((bytes, took));
        let in_vain = waiting.again && bytes > 0;
        let made = self.made.get(&prediction)?;
        Some(Arrived { run: made.run, program: made.program, in_vain })
    }

    /// Nothing more is expected of a prediction.
    pub(crate) fn close(&mut self, prediction: PredictionId) -> Option<Closed> {
        let made = self.made.remove(&prediction)?;
        let mut closed = Closed {
            program: made.program,
            account: Account::default(),
            for_run: made.run.is_some(),
            unfetched: false,
        };
        for file in made.files {
            let Some(waiting) = self.files.get(&file) else { continue };
            if waiting.prediction != prediction {
                continue;
            }
            if !waiting.used {
                closed.account.unused += 1;
                closed.account.wasted_bytes += waiting.fetched.map_or(0, |(bytes, _)| bytes);
                closed.unfetched |= waiting.fetched.is_none();
            }
            self.files.remove(&file);
        }
        Some(closed)
    }

    /// All names that are held.
    pub(crate) fn names(&self, each: &mut impl FnMut(Name)) {
        self.files.keys().for_each(|&file| each(file));
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

    #[test]
    fn what_was_predicted_long_ago_may_be_told_again() {
        let mut outstanding = made(Some(RunId(1)));
        assert!(outstanding.holds_for_run(FILE, 100 + HELD_ACCESSES - 1));
        assert!(!outstanding.holds(FILE, 100 + HELD_ACCESSES) && outstanding.awaits(FILE));
        let again = [(FILE, Duration::ZERO)];
        outstanding.made(PredictionId(2), (None, Name(1)), &again, 100 + HELD_ACCESSES);
        // The first prediction has nothing more to lose, the second has.
        let unused = |closed: Option<Closed>| closed.map(|closed| closed.account.unused);
        assert_eq!(unused(outstanding.close(PredictionId(1))), Some(0));
        assert_eq!(unused(outstanding.close(PredictionId(2))), Some(1));
    }

    #[test]
    fn what_has_to_be_fetched_twice_was_fetched_in_vain() {
        for (bytes, in_vain) in [(4096, true), (0, false)] {
            let mut outstanding = made(Some(RunId(1)));
            let mut fetched = |prediction, bytes| {
                let arrived = outstanding.fetched(prediction, FILE, bytes, Duration::ZERO);
                let again = [(FILE, Duration::ZERO)];
                outstanding.made(PredictionId(2), (None, Name(1)), &again, 200);
                arrived.map(|arrived| arrived.in_vain)
            };
            assert_eq!(fetched(PredictionId(1), 4096), Some(false));
            assert_eq!(fetched(PredictionId(2), bytes), Some(in_vain));
        }
    }

    #[test]
    fn what_is_foreseen_for_any_run_is_still_predicted_for_one() {
        let outstanding = made(None);
        assert!(outstanding.holds(FILE, 100) && !outstanding.holds_for_run(FILE, 100));
    }

    #[test]
    fn what_was_read_is_awaited_no_more() {
        let mut outstanding = made(None);
        assert!(outstanding.read(FILE).is_some_and(|used| used.run.is_none()));
        assert!(!outstanding.awaits(FILE) && !outstanding.holds(FILE, 100));
        assert!(outstanding.read(FILE).is_none());
    }
}
