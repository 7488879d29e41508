//! A file that is all in memory, mapped window by window ahead of those who read it, by a thread that
//! can be left behind: its mount may not answer if some of it no longer is.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::apart::Apart;
use crate::mapping::Mapping;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// Bytes mapped in one call.
const WINDOW_BYTES: u64 = 2 << 20;
/// Windows mapped beyond those that are asked for: then who reads seldom waits, and a call to
/// another thread and back takes as long as the call itself.
const AHEAD_WINDOWS: u64 = 2;

/// What of a file is mapped.
pub(crate) struct Held {
    mapping: Arc<Mapping>,
    size: u64,
    windows: Arc<Windows>,
    /// By window, whether the thread was asked to map it: in the order in which it was.
    asked: Mutex<Vec<bool>>,
}

struct Windows {
    held: Vec<AtomicBool>,
    /// How many are held.
    count: AtomicU64,
}

impl Held {
    pub(crate) fn new(mapping: &Arc<Mapping>, size: u64) -> Self {
        let count = usize::try_from(size.div_ceil(WINDOW_BYTES)).expect("it is mapped");
        let held = std::iter::repeat_with(AtomicBool::default).take(count).collect();
        let windows = Arc::new(Windows { held, count: AtomicU64::new(0) });
        Self { mapping: Arc::clone(mapping), size, windows, asked: Mutex::new(vec![false; count]) }
    }

    /// The bytes of `range`, once its pages are mapped by `apart`. Valid only as [`Mapping::bytes`] are.
    ///
    /// # Errors
    /// `TimedOut` where the mount does not answer; where there is no thread any more.
    pub(crate) fn bytes(&self, range: &Range<u64>, apart: &Apart) -> io::Result<&[u8]> {
        let wanted = range.start / WINDOW_BYTES..range.end.div_ceil(WINDOW_BYTES);
        let all = {
            let mut asked = lock(&self.asked);
            self.ask(wanted.clone(), &mut asked, apart)?;
            // It is done when all that was asked for before is.
            let all =
                (!self.is_held(wanted.clone())).then(|| apart.begin(|_| Ok(()))).transpose()?;
            self.ask(wanted.end..wanted.end + AHEAD_WINDOWS, &mut asked, apart)?;
            all
        };
        if let Some(all) = all {
            loop {
                let before = self.windows.count.load(Ordering::Relaxed);
                match all.wait() {
                    // The limit is one window's.
                    Err(error)
                        if error.kind() == io::ErrorKind::TimedOut
                            && self.windows.count.load(Ordering::Relaxed) != before => {}
                    waited => break waited?,
                }
            }
        }
        Ok(self.mapping.bytes(range))
    }

    fn is_held(&self, windows: Range<u64>) -> bool {
        self.of(windows).all(|window| self.windows.held[window].load(Ordering::Acquire))
    }

    /// Of these windows those that the file has.
    fn of(&self, windows: Range<u64>) -> Range<usize> {
        let count = self.windows.held.len();
        let within = |window: u64| usize::try_from(window).unwrap_or(count).min(count);
        within(windows.start)..within(windows.end)
    }

    fn ask(&self, windows: Range<u64>, asked: &mut [bool], apart: &Apart) -> io::Result<()> {
        for window in self.of(windows) {
            if std::mem::replace(&mut asked[window], true) {
                continue;
            }
            let start = window as u64 * WINDOW_BYTES;
            let part = start..self.size.min(start + WINDOW_BYTES);
            let (mapping, windows) = (Arc::clone(&self.mapping), Arc::clone(&self.windows));
            apart.begin(move |_| {
                mapping.hold(&part);
                windows.held[window].store(true, Ordering::Release);
                windows.count.fetch_add(1, Ordering::Relaxed);
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
    fn each_window_is_mapped_once_and_some_before_they_are_asked_for() {
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
        let (held, apart) =
            (Held::new(&mapping, SIZE), Apart::new("near", &file, &costs).expect("a thread"));
        let count = || {
            apart.call(|_| Ok(())).expect("all is done");
            held.windows.count.load(Ordering::Relaxed)
        };
        let seen = |start: u64, end: u64| {
            let bytes = held.bytes(&(start..end), &apart).expect("in memory");
            let at = |offset| usize::try_from(offset).expect("small");
            assert!(bytes == &all[at(start)..at(end)], "{start}..{end}");
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
