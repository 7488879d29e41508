//! Flags of commands that ask where data is, and how they come to their [`Costs`].

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Args;
use nearfirst::{Clock, Costs, Local, TableFiles, Warning};

use crate::flags::{count, threads};
use crate::messages;

/// How long a command waits for an answer.
#[derive(Args, Debug, Clone)]
pub(crate) struct AskFlags {
    /// Seconds to wait for a mount that does not answer
    ///
    /// A dead server or a hung FUSE program is given up after this time: its files are reported
    /// and the run goes on. 10 s by default, longer than a sleeping disk needs to wake up. No limit
    /// holds for nearfirst's own folders and for output that is already open. Folders that patterns,
    /// `sleds` or `grep` walk may take four times as long while their mount answers; copies, and what
    /// programs read for `grep`, are given up only when their whole mount stops answering. `sleds`, `order` and
    /// `find` wait as long for what a server says of an object; if the flag is given, also for each page
    /// of a listing, which is asked for several times, the next row of a query, and what a program prints
    /// next. What reads from servers has --stall.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Asking")]
    pub(crate) wait_max: Option<Duration>,
}

impl AskFlags {
    /// The file systems of this machine, each waited for no longer than was asked.
    pub(crate) fn local(&self) -> Local {
        self.wait_max.map_or_else(Local::default, Local::new)
    }

    /// The costs of this machine's files. What is wrong with the device tables is said on stderr, once
    /// they are needed.
    pub(crate) fn costs(&self) -> Costs {
        let told = |warning: &Warning| messages::note(warning);
        Costs::not_loaded(self.local(), TableFiles::default(), Clock::real(), told)
    }
}

/// `--jobs` of commands that ask about many files.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct AskJobs {
    /// Threads that ask about files, of which more than 256 count as 256; by default one per processor
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, help_heading = "Asking")]
    jobs: Option<NonZeroUsize>,
}

impl AskJobs {
    /// The number of threads to use.
    pub(crate) fn threads(self) -> usize {
        threads(self.jobs)
    }
}

/// As good as for ever, and no sum with it is too large: 30 years.
const SECONDS_MAX: Duration = Duration::from_secs(1_000_000_000);

/// Reads a number of seconds, with or without decimals.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok())
        .filter(|seconds| !seconds.is_zero())
        .map(|seconds| seconds.min(SECONDS_MAX))
        .ok_or_else(|| "a number of seconds above 0, such as 3 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_that_can_pass_are_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("1.8e19"), Ok(SECONDS_MAX));
        for text in ["0", "1e-10", "-1", "nan", "inf", "1e300", "", "3s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
