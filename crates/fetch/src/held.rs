//! A file that is all in memory, mapped window by window ahead of those who read it, by threads that
//! can be left behind: its mount may not answer if some of it no longer is.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::apart::{Answer, Apart};
use crate::mapping::Mapping;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// Bytes mapped in one call.
pub(crate) const WINDOW_BYTES: u64 = 2 << 20;
/// Windows mapped beyond those that are asked for: then who reads seldom waits, and a call to
/// another thread and back takes as long as the call itself.
const AHEAD_WINDOWS: u64 = 2;

/// What of a file is mapped.
pub(crate) struct Held {
    mapping: Arc<Mapping>,
    size: u64,
    /// They take turns.
    threads: Vec<Apart>,
    /// By window, whether it is mapped.
    mapped: Arc<[AtomicBool]>,
    /// By window, whether its thread was asked to map it: in the order in which it was.
    asked: Mutex<Vec<bool>>,
}

impl Held {
    /// The first `size` bytes of a file, to be mapped by `threads`, of which there is one at the least.
    pub(crate) fn new(mapping: &Arc<Mapping>, size: u64, threads: Vec<Apart>) -> Self {
        let count = usize::try_from(size.div_ceil(WINDOW_BYTES)).expect("it is mapped");
        let mapped = std::iter::repeat_with(AtomicBool::default).take(count).collect();
        let asked = Mutex::new(vec![false; count]);
        Self { mapping: Arc::clone(mapping), size, threads, mapped, asked }
    }

    /// The bytes of `range`, once its pages are mapped. Valid only as [`Mapping::bytes`] are.
    ///
    /// # Errors
    /// `TimedOut` where the mount does not answer; where there is no thread any more.
    pub(crate) fn bytes(&self, range: &Range<u64>) -> io::Result<&[u8]> {
        let wanted = range.start / WINDOW_BYTES..range.end.div_ceil(WINDOW_BYTES);
        let waits = {
            let mut asked = lock(&self.asked);
            self.ask(wanted.clone(), &mut asked)?;
            // It is done when all that a thread was asked for before is.
            let late = self.late(wanted.clone());
            let waits: Vec<_> =
                late.map(|thread| thread.begin(|_| Ok(()))).collect::<io::Result<_>>()?;
            self.ask(wanted.end..wanted.end + AHEAD_WINDOWS, &mut asked)?;
            waits
        };
        waits.iter().try_for_each(Answer::wait)?;
        Ok(self.mapping.bytes(range))
    }

    /// The threads that have not mapped all of these windows that are theirs.
    fn late(&self, windows: Range<u64>) -> impl Iterator<Item = &Apart> {
        let windows = self.of(windows);
        let turns = self.threads.len();
        let is_late = move |turn| {
            let mut its = windows.clone().filter(|window| window % turns == turn);
            its.any(|window| !self.mapped[window].load(Ordering::Acquire))
        };
        let threads = self.threads.iter().enumerate();
        threads.filter(move |(turn, _)| is_late(*turn)).map(|(_, thread)| thread)
    }

    /// Of these windows those that the file has.
    fn of(&self, windows: Range<u64>) -> Range<usize> {
        let count = self.mapped.len();
        let within = |window: u64| usize::try_from(window).unwrap_or(count).min(count);
        within(windows.start)..within(windows.end)
    }

    fn ask(&self, windows: Range<u64>, asked: &mut [bool]) -> io::Result<()> {
        for window in self.of(windows) {
            if std::mem::replace(&mut asked[window], true) {
                continue;
            }
            let start = window as u64 * WINDOW_BYTES;
            let part = start..self.size.min(start + WINDOW_BYTES);
            let (mapping, mapped) = (Arc::clone(&self.mapping), Arc::clone(&self.mapped));
            self.threads[window % self.threads.len()].begin(move |_| {
                mapping.hold(&part);
                mapped[window].store(true, Ordering::Release);
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use store::{Backing, Clock, Costs, Local, TableFiles};

    use super::*;

    #[test]
    fn windows_are_mapped_and_some_before_they_are_asked_for() {
        const SIZE: u64 = 5 * WINDOW_BYTES + 7;
        let all: Vec<u8> =
            (0_u8..=250).cycle().take(usize::try_from(SIZE).expect("small")).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&all).expect("written");
        let local = Local::new(Duration::from_mins(1));
        let costs = Costs::with(local, TableFiles::default(), Clock::manual());
        let mut status = costs.local().status(&file).expect("known");
        status.backing = Backing::Disk;
        let mapping = Arc::new(Mapping::harmless(&file, SIZE, &status).expect("mapped"));
        for threads in 1..=4 {
            let thread = |_| Apart::new("near", &file, &costs).expect("a thread");
            let held = Held::new(&mapping, SIZE, (0..threads).map(thread).collect());
            let count = || {
                let all_done = |thread: &Apart| thread.call(|_| Ok(())).expect("all is done");
                held.threads.iter().for_each(all_done);
                held.mapped.iter().filter(|mapped| mapped.load(Ordering::Acquire)).count() as u64
            };
            let seen = |start: u64, end: u64| {
                let bytes = held.bytes(&(start..end)).expect("in memory");
                let at = |offset| usize::try_from(offset).expect("small");
                assert!(bytes == &all[at(start)..at(end)], "{start}..{end}");
                let windows = start / WINDOW_BYTES..end.div_ceil(WINDOW_BYTES);
                assert_eq!(held.late(windows).count(), 0, "{start}..{end}");
            };
            seen(WINDOW_BYTES - 1, WINDOW_BYTES);
            assert_eq!(count(), 1 + AHEAD_WINDOWS);
            seen(WINDOW_BYTES - 1, WINDOW_BYTES + 1);
            assert_eq!(count(), 2 + AHEAD_WINDOWS);
            seen(0, SIZE);
            seen(SIZE - 1, SIZE);
            assert_eq!(count(), 6);
        }
    }
}
