//! How a learner matches, predicts and forgets.

use std::time::Duration;

/// By which rules trees are matched and predictions are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Matching {
    /// Lei & Duchamp's: ordered trees, compatibility of one pattern tree, nothing withdrawn but at
    /// the end of a program.
    Paper,
    /// Siblings without order, the chance of every file by all runs that resemble this one, names
    /// derived from arguments, predictions for programs that have not started, corrections.
    Ours,
}

/// How a [`crate::Learner`] matches, predicts and forgets.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The rules.
    pub matching: Matching,
    /// Whether somebody fetches what is predicted. If not, that a file was not near when it was read
    /// says nothing about its prediction: what came of that is in [`crate::Learner::account`], and
    /// in no program's.
    pub fetches: bool,
    /// Two trees match if their compatibility is larger. The paper's value is lost; its example of
    /// a match has 0.5, so it was smaller.
    pub match_threshold: f64,
    /// Pattern trees kept of one program under [`Matching::Paper`]. Its value is lost; a program
    /// with more uses than this has too many to tell them apart by their beginnings.
    pub trees_per_program_max: usize,
    /// Least chance at which a file is predicted for a run that begins, under [`Matching::Ours`]:
    /// `right_share` may ask for more, and never for less. Files of a run of an earlier one's
    /// arguments mostly have a chance near 1, so the share of predicted files that are used lies
    /// far above this.
    pub chance_min: f32,
    /// The same for a file that follows another one in earlier runs where no pattern knows what
    /// comes: it is needed at once or not at all, so a wrong one is soon withdrawn. It counts where
    /// so many predictions were right that `right_share` asks for no more.
    pub next_chance_min: f32,
    /// The share of the predicted files that shall be read under [`Matching::Ours`]: where fewer
    /// are, only what is surer is predicted, and where more are, less sure files that come next,
    /// whichever run will read them. Some are gone again before they are read, which a learner
    /// seldom hears of: it aims higher than what is hoped for.
    pub right_share: f32,
    /// How far ahead of a program files are predicted at most under [`Matching::Ours`], by what
    /// earlier runs took: some hundreds of files from a slow device. A tenth of it is what a run
    /// begins with; it grows where files come too late.
    pub horizon: Duration,
    /// Under [`Matching::Ours`] a file is not predicted if fewer files than this were accessed
    /// since it was, fewer bytes than `near_bytes`, and it was less than `near_for` ago: it is near
    /// anyhow, and looking costs more.
    pub near_files: u64,
    /// See `near_files`.
    pub near_bytes: u64,
    /// See `near_files`: what others do to the page cache meanwhile is not seen.
    pub near_for: Duration,
    /// Memory for patterns and the order of earlier reads, about; the older half of that order is
    /// forgotten first, then what is known of files that no pattern has, then the least recently
    /// useful patterns and programs. Names of files that only running programs read do not count.
    pub pattern_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            matching: Matching::Ours,
            fetches: true,
            match_threshold: 0.45,
            trees_per_program_max: 6,
            chance_min: 0.6,
            next_chance_min: 0.4,
            right_share: 0.96,
            horizon: Duration::from_secs(3),
            near_files: 32,
            near_bytes: 1 << 20,
            near_for: Duration::from_secs(5),
            pattern_bytes_max: 64 << 20,
        }
    }
}
