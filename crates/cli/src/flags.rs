//! Flags that several commands share, each defined once.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::OnceLock;

use clap::{Args, ValueEnum};
use nearfirst::Plan;

use crate::asking::AskFlags;

/// Threads that are used at once, whatever is asked for: of more, a walk spends its time on waking
/// them (1000 took 18 s where 64 took 0.02), and at 30,000 the system has no memory for their stacks.
pub(crate) const THREADS_MAX: usize = 256;

/// How a command that reads files goes about it.
#[derive(Args, Debug, Clone)]
pub(crate) struct ReadFlags {
    /// Order of reading: near parts first, or file order
    ///
    /// `best` reads what is in memory before what must come from a device and fetches the rest
    /// meanwhile. `linear` reads from the first byte to the last, as other tools do.
    #[arg(long, value_enum, default_value_t = PlanFlag::Best, value_name = "PLAN", help_heading = "Reading")]
    pub(crate) plan: PlanFlag,

    /// Threads that read and compute, of which more than 256 count as 256; by default one per processor
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, help_heading = "Reading")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Say on stderr what was near, what was waited for and what the device was spared
    #[arg(long, help_heading = "Reading")]
    pub(crate) stats: bool,

    /// Where data is, and how long to wait for the answer.
    #[command(flatten)]
    pub(crate) asking: AskFlags,
}

impl ReadFlags {
    /// The number of threads to use.
    pub(crate) fn threads(&self) -> usize {
        threads(self.jobs)
    }
}

/// The number of threads to use, of which so many were asked for.
pub(crate) fn threads(jobs: Option<NonZeroUsize>) -> usize {
    jobs.map_or_else(processors, NonZeroUsize::get).min(THREADS_MAX)
}

/// `--jobs` and the like as a number.
pub(crate) fn count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "a whole number above 0".to_owned())
}

/// How many threads can run at once. To find out takes a dozen calls, as a control group may say.
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    let count = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    *PROCESSORS.get_or_init(count)
}

/// `--plan`.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanFlag {
    /// In file order.
    Linear,
    /// What is near first.
    Best,
}

impl From<PlanFlag> for Plan {
    fn from(plan: PlanFlag) -> Self {
        match plan {
            PlanFlag::Linear => Self::Linear,
            PlanFlag::Best => Self::Best,
        }
    }
}
