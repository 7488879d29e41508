//! What predictions were worth.

use std::ops::AddAssign;
use std::time::Duration;

/// What came of the predictions of one program, or of all.
///
/// Every file that a run reads counts once: as in time, late or missed, or, where nobody had to predict it
/// because it had just been used, as near. Beyond as many files as are recorded reads are
/// [`Self::uncounted`]. While nobody fetches ([`crate::Options::fetches`]) only these and runs are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// Runs that ended.
    pub runs: u64,
    /// Files predicted.
    pub predicted: u64,
    /// Predicted files that were known to be near when they were opened.
    pub in_time: u64,
    /// Predicted files that were opened before they were near or, of what was in memory all along,
    /// before anybody had looked.
    pub late: u64,
    /// Files opened that nobody had predicted.
    pub missed: u64,
    /// Files opened that were not predicted because they had been used a moment before.
    pub near: u64,
    /// Reads of files that a run opened beyond as many as are recorded of one, or of all together, each
    /// time that they are opened. Told by the learner that saw
    /// them ([`crate::Learner::account`]), and not kept.
    pub uncounted: u64,
    /// Predicted files that were not opened before their program ended or stopped matching.
    pub unused: u64,
    /// Bytes fetched by predictions.
    pub fetched_bytes: u64,
    /// Bytes of these that nobody read.
    pub wasted_bytes: u64,
    /// What the fetches of files in time took, each by itself: an estimate of the time that a program
    /// which reads one after the other did not wait.
    pub saved: Duration,
}

impl Account {
    /// The share of predicted files, of which it is known, that were opened; from 0 to 1.
    pub fn accuracy(&self) -> Option<f64> {
        let used = self.in_time + self.late;
        (used + self.unused > 0).then(|| used as f64 / (used + self.unused) as f64)
    }

    /// The share of files read that a prediction had brought near, or found so; from 0 to 1.
    pub fn coverage(&self) -> Option<f64> {
        let read = self.in_time + self.late + self.missed;
        (read > 0).then(|| self.in_time as f64 / read as f64)
    }
}

impl Account {
    /// What was added since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            runs: self.runs.saturating_sub(before.runs),
            predicted: self.predicted.saturating_sub(before.predicted),
            in_time: self.in_time.saturating_sub(before.in_time),
            late: self.late.saturating_sub(before.late),
            missed: self.missed.saturating_sub(before.missed),
            near: self.near.saturating_sub(before.near),
            uncounted: self.uncounted.saturating_sub(before.uncounted),
            unused: self.unused.saturating_sub(before.unused),
            fetched_bytes: self.fetched_bytes.saturating_sub(before.fetched_bytes),
            wasted_bytes: self.wasted_bytes.saturating_sub(before.wasted_bytes),
            saved: self.saved.saturating_sub(before.saved),
        }
    }
}

/// Bytes of sparse files may be more than there are numbers.
impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.predicted = self.predicted.saturating_add(other.predicted);
        self.in_time = self.in_time.saturating_add(other.in_time);
        self.late = self.late.saturating_add(other.late);
        self.missed = self.missed.saturating_add(other.missed);
        self.near = self.near.saturating_add(other.near);
        self.uncounted = self.uncounted.saturating_add(other.uncounted);
        self.unused = self.unused.saturating_add(other.unused);
        self.fetched_bytes = self.fetched_bytes.saturating_add(other.fetched_bytes);
        self.wasted_bytes = self.wasted_bytes.saturating_add(other.wasted_bytes);
        self.saved = self.saved.saturating_add(other.saved);
    }
}
