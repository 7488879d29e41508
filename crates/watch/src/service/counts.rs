//! What is counted of each user, and how attendants tell the service: all numbers anew when one of them
//! has changed, through a pipe.
//!
//! The other end may be held by whoever has its user's rights: whatever comes is numbers.

use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use tree::Account;

use crate::Carried;

/// A number that is counted for each user.
#[derive(Debug)]
pub(crate) struct Counted {
    /// As a monitor knows it.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) help: &'static str,
    /// Times are in microseconds.
    of: fn(&Account, &Carried) -> u64,
}

const fn counted(
    name: &'static str,
    help: &'static str,
    of: fn(&Account, &Carried) -> u64,
) -> Counted {
    Counted { name, help, of }
}

/// All that is counted.
pub(crate) const COUNTED: [Counted; 15] = [
    counted("nearfirst_runs_total", "Runs of programs that ended.", |account, _| account.runs),
    counted(
        "nearfirst_predicted_files_total",
        "Predictions of files; one predicted again before it is read counts again.",
        |account, _| account.predicted,
    ),
    counted(
        "nearfirst_in_time_files_total",
        "Predicted files that were near when they were opened.",
        |account, _| account.in_time,
    ),
    counted(
        "nearfirst_late_files_total",
        "Predicted files that were opened before they were near.",
        |account, _| account.late,
    ),
    counted(
        "nearfirst_unused_files_total",
        "Predicted files that were not opened.",
        |account, _| account.unused,
    ),
    counted(
        "nearfirst_unpredicted_files_total",
        "Files opened that nobody had predicted.",
        |account, _| account.missed,
    ),
    counted(
        "nearfirst_uncounted_reads_total",
        "Times that files were opened to be read by runs of which as many as can be are recorded.",
        |account, _| account.uncounted,
    ),
    counted(
        "nearfirst_fetched_files_total",
        "Predicted files of which something was fetched.",
        |_, carried| carried.fetched,
    ),
    counted("nearfirst_fetched_bytes_total", "Bytes fetched.", |_, carried| carried.fetched_bytes),
    counted("nearfirst_wasted_bytes_total", "Bytes fetched and not read.", |account, _| {
        account.wasted_bytes
    }),
    counted(
        "nearfirst_saved_seconds_total",
        "Time that fetches of files in time took, each by itself: an estimate of what was not waited.",
        |account, _| u64::try_from(account.saved.as_micros()).unwrap_or(u64::MAX),
    ),
    counted(
        "nearfirst_refused_files_total",
        "Predicted files that could not be read, or must not be opened for a guess.",
        |_, carried| carried.refused,
    ),
    counted(
        "nearfirst_dropped_files_total",
        "Predicted files given up since memory was short.",
        |_, carried| carried.dropped,
    ),
    counted(
        "nearfirst_crowded_files_total",
        "Predicted files left alone since too many others waited.",
        |_, carried| carried.crowded,
    ),
    counted(
        "nearfirst_unpowered_files_total",
        "Predicted files left alone since the machine ran on a battery.",
        |_, carried| carried.unpowered,
    ),
];

/// Bytes of all numbers: less than what a pipe takes whole or not at all.
const BYTES: usize = COUNTED.len() * size_of::<u64>();
/// Messages that are read at a time, and how often: all that a pipe may hold.
const TAKEN: usize = 64;
const READS_MAX: usize = 16;

/// The numbers of one user, in the order of [`COUNTED`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) [u64; COUNTED.len()]);

impl Counts {
    pub(crate) fn of(account: &Account, carried: &Carried) -> Self {
        Self(COUNTED.map(|counted| (counted.of)(account, carried)))
    }

    /// Tells whoever reads the other end of `pipe`, which is not waited for.
    pub(crate) fn tell(&self, pipe: impl AsFd) -> io::Result<()> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|number| number.to_le_bytes()).collect();
        rustix::io::write(pipe, &bytes)?;
        Ok(())
    }

    fn read(bytes: &[u8; BYTES]) -> Self {
        let (numbers, _) = bytes.as_chunks();
        let mut counts = Self::default();
        for (count, number) in counts.0.iter_mut().zip(numbers) {
            *count = u64::from_le_bytes(*number);
        }
        counts
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }
}

/// The service's end of the pipe of one attendant.
#[derive(Debug)]
pub(crate) struct Heard {
    pipe: OwnedFd,
    last: Counts,
}

impl Heard {
    /// A new pipe, and the attendant's end of it.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd)> {
        let (pipe, other) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok((Self { pipe, last: Counts::default() }, other))
    }

    /// What it told last.
    pub(crate) fn counts(&mut self) -> Counts {
        let mut bytes = [0; TAKEN * BYTES];
        for _ in 0..READS_MAX {
            let read = rustix::io::read(&self.pipe, &mut bytes).unwrap_or(0);
            let Some(last) = bytes[..read].as_chunks().0.last() else { break };
            self.last = Counts::read(last);
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_last_is_heard_also_of_who_has_ended() {
        let (mut heard, pipe) = Heard::new().expect("descriptors can be had");
        assert_eq!(heard.counts(), Counts::default());
        let counts =
            |runs| Counts::of(&Account { runs, ..Account::default() }, &Carried::default());
        for runs in 1..=100 {
            counts(runs).tell(&pipe).expect("there is room");
        }
        assert_eq!(heard.counts(), counts(100));
        counts(101).tell(&pipe).expect("there is room");
        drop(pipe);
        assert_eq!(heard.counts(), counts(101));
        assert_eq!(heard.counts(), counts(101));
    }

    #[test]
    fn nobody_is_waited_for_and_nonsense_is_numbers() {
        let (mut heard, pipe) = Heard::new().expect("descriptors can be had");
        while rustix::io::write(&pipe, &[7; 1000]).is_ok() {}
        assert!(Counts::default().tell(&pipe).is_err());
        assert_ne!(heard.counts(), Counts::default());
        let mut sum = heard.counts();
        sum += Counts([u64::MAX; COUNTED.len()]);
        assert_eq!(sum, Counts([u64::MAX; COUNTED.len()]));
    }
}
