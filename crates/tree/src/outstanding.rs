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
}

#[derive(Debug)]
struct Made {
    run: RunId,
    program: Name,
    files: Vec<Name>,
}

/// One user's predictions.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    files: NumberMap<Name, Waiting>,
    made: NumberMap<PredictionId, Made>,
}

/// A predicted file that was read.
#[derive(Debug)]
pub(crate) struct Used {
    /// The run and the program that it was predicted for.
    pub(crate) run: RunId,
    pub(crate) program: Name,
    /// When it was expected to be needed.
    pub(crate) needed: Duration,
    pub(crate) account: Account,
}

/// What came of a prediction.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) program: Name,
    pub(crate) account: Account,
    /// Some of its files were neither used nor fetched: they are not wanted any more.
    pub(crate) unfetched: bool,
}

impl Outstanding {
    /// Whether a file is predicted already and nobody has opened it since.
    pub(crate) fn awaits(&self, file: Name) -> bool {
        self.files.get(&file).is_some_and(|waiting| !waiting.used)
    }

    /// How many files may still be predicted.
    pub(crate) fn room(&self) -> usize {
        FILES_MAX.saturating_sub(self.files.len())
    }

    /// Files, none of them awaited, were predicted for a run of a program, each with the time at
    /// which it is needed.
    pub(crate) fn made(
        &mut self,
        prediction: PredictionId,
        (run, program): (RunId, Name),
        files: &[(Name, Duration)],
    ) {
        for &(file, needed) in files {
            self.files.insert(file, Waiting { prediction, needed, fetched: None, used: false });
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

    /// A predicted file is near; gives the run and the program it was predicted for.
    pub(crate) fn fetched(
        &mut self,
        prediction: PredictionId,
        file: Name,
        bytes: u64,
        took: Duration,
    ) -> Option<(RunId, Name)> {
        let waiting = self.files.get_mut(&file);
        let waiting = waiting.filter(|waiting| waiting.prediction == prediction)?;
        // Near already: nothing was saved.
        let took = if bytes == 0 { Duration::ZERO } else { took };
        waiting.fetched = Some((bytes, took));
        self.made.get(&prediction).map(|made| (made.run, made.program))
    }

    /// Nothing more is expected of a prediction.
    pub(crate) fn close(&mut self, prediction: PredictionId) -> Option<Closed> {
        let made = self.made.remove(&prediction)?;
        let mut closed =
            Closed { program: made.program, account: Account::default(), unfetched: false };
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
