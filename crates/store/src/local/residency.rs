//! Which parts of a file are in the page cache.
//!
//! One `cachestat` of the whole file answers "none" and "all" in microseconds.
//! Where the answer is mixed, windows of 2 MiB are asked one by one, and only
//! those that are mixed themselves go page by page through `mincore`, which
//! takes about 50 ns a page where `cachestat` takes about 30 ns a folio.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use super::sys;

/// The largest folio of common file systems: a window is then all or nothing.
const WINDOW_BYTES: u64 = 2 << 20;

/// Bytes of a mixed file from which on two threads ask: asking takes longer than beginning a thread.
const THREAD_BYTES_MIN: u64 = 256 << 20;

/// Runs kept apart. A file of terabytes may be in memory in millions of
/// scattered pages; each run costs some hundred bytes in what is made of it.
const RUNS_MAX: usize = 1 << 17;

/// In file order.
type Ranges = Vec<Range<u64>>;

/// How a file can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `cachestat`, and `mincore` where that is mixed.
    Cachestat,
    /// The same, of a file that is known to be mixed as a whole.
    CachestatOfMixed,
    /// `mincore` alone: on overlayfs, whose inode `cachestat` asks about and
    /// finds empty, and before Linux 6.5.
    Mincore,
}

/// The ranges within `data`, in file order, that are in memory, each with whether it is.
///
/// The pages themselves are not touched. Ranges are whole pages, but for the
/// ends of `data`; neighbours differ.
///
/// # Errors
/// `EPERM` where the kernel does not tell this caller.
pub fn resident_ranges(
    file: &impl AsFd,
    data: &[Range<u64>],
) -> io::Result<Vec<(Range<u64>, bool)>> {
    ranges_by(file.as_fd(), data, Method::Cachestat)
}

/// Whether some of `range` is in memory. `false` also where the kernel does not tell.
pub fn is_in_memory_in_part(file: &impl AsFd, range: &Range<u64>) -> bool {
    sys::cached_pages(file.as_fd(), range).is_ok_and(|pages| pages > 0)
}

/// Whether some of `range` was in memory until others needed the room: then memory is short.
/// `false` where the kernel does not tell.
pub fn was_evicted(file: &impl AsFd, range: &Range<u64>) -> bool {
    sys::evicted_pages(file.as_fd(), range).is_ok_and(|pages| pages > 0)
}

/// How many pages of the first `size` bytes are in memory. Some file systems count pages beyond the
/// end of the file, too.
pub(crate) fn cached_pages(file: BorrowedFd<'_>, size: u64) -> io::Result<u64> {
    let all = 0..size;
    let all = std::slice::from_ref(&all);
    let count = |data: &[Range<u64>]| {
        data.iter().map(|range| sys::cached_pages(file, range)).sum::<io::Result<u64>>()
    };
    match halves(all) {
        Some((first, second)) => {
            let (first, second) = at_once(|| count(&first), || count(&second))?;
            Ok(first + second)
        }
        None => count(all),
    }
}

pub(crate) fn ranges_by(
    file: BorrowedFd<'_>,
    data: &[Range<u64>],
    method: Method,
) -> io::Result<Vec<(Range<u64>, bool)>> {
    if method != Method::Cachestat
        && let Some((first, second)) = halves(data)
    {
        return by_two(file, &first, &second, method);
    }
    let mut asker = Asker::new(file);
    asker.ask_all(data, method)?;
    Ok(asker.found)
}

/// Asks about two parts of a file at once, the later one in a thread of its own.
fn by_two(
    file: BorrowedFd<'_>,
    first: &[Range<u64>],
    second: &[Range<u64>],
    method: Method,
) -> io::Result<Vec<(Range<u64>, bool)>> {
    let ask = |data| {
        let mut asker = Asker::new(file);
        asker.ask_all(data, method).map(|()| (asker.found, asker.short))
    };
    let ((found, short), (later, later_short)) = at_once(|| ask(first), || ask(second))?;
    let mut all = Asker { found, short: short.max(later_short), ..Asker::new(file) };
    for (range, resident) in later {
        all.found_out(range, resident);
    }
    Ok(all.found)
}

/// Asks twice, the second time in a thread of its own.
fn at_once<T: Send>(
    first: impl FnOnce() -> io::Result<T>,
    second: impl Fn() -> io::Result<T> + Sync,
) -> io::Result<(T, T)> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("residency".into());
        let other = builder.spawn_scoped(scope, &second);
        let found = first()?;
        let later = match other {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            // Where no thread can be had, this one does it all.
            Err(_) => second()?,
        };
        Ok((found, later))
    })
}

/// Two parts of about the same length, where that is worth a thread: cut between windows.
fn halves(data: &[Range<u64>]) -> Option<(Ranges, Ranges)> {
    let total: u64 = data.iter().map(|range| range.end - range.start).sum();
    if total < THREAD_BYTES_MIN || std::thread::available_parallelism().is_ok_and(|n| n.get() == 1)
    {
        return None;
    }
    let (mut first, mut second, mut left) = (Vec::new(), Vec::new(), total / 2);
    for range in data {
        let cut = (range.start.saturating_add(left) / WINDOW_BYTES * WINDOW_BYTES)
            .clamp(range.start, range.end);
        left = left.saturating_sub(range.end - range.start);
        first.extend((cut > range.start).then_some(range.start..cut));
        second.extend((cut < range.end).then_some(cut..range.end));
    }
    Some((first, second))
}

struct Asker<'a> {
    file: BorrowedFd<'a>,
    window: Option<sys::Window>,
    pages: Vec<u8>,
    found: Vec<(Range<u64>, bool)>,
    /// Runs in memory shorter than this were not worth keeping apart.
    short: u64,
}

impl<'a> Asker<'a> {
    fn new(file: BorrowedFd<'a>) -> Self {
        Self { file, window: None, pages: Vec::new(), found: Vec::new(), short: 0 }
    }

    fn ask_all(&mut self, data: &[Range<u64>], method: Method) -> io::Result<()> {
        data.iter().try_for_each(|range| match method {
            Method::Cachestat => self.ask(range),
            Method::CachestatOfMixed => self.ask_by_windows(range),
            Method::Mincore => self.ask_pages(range),
        })
    }

    fn ask(&mut self, range: &Range<u64>) -> io::Result<()> {
        if let Some(resident) = self.uniform(range)? {
            self.found_out(range.clone(), resident);
            return Ok(());
        }
        self.ask_by_windows(range)
    }

    fn ask_by_windows(&mut self, range: &Range<u64>) -> io::Result<()> {
        let mut start = range.start;
        let mut last_was_mixed = false;
        while start < range.end {
            let end = range.end.min((start / WINDOW_BYTES + 1) * WINDOW_BYTES);
            let window = start..end;
            // Mixed windows come in runs; asking them twice would double the cost of the worst case.
            let known = if last_was_mixed { None } else { self.uniform(&window)? };
            if let Some(resident) = known {
                self.found_out(window, resident);
                last_was_mixed = false;
            } else {
                self.ask_pages(&window)?;
                last_was_mixed = self.pages.windows(2).any(|pair| (pair[0] ^ pair[1]) & 1 == 1);
            }
            start = end;
        }
        Ok(())
    }

    /// Whether all of `range` is in memory or none; `None` if it is mixed.
    fn uniform(&self, range: &Range<u64>) -> io::Result<Option<bool>> {
        let page = sys::page_bytes();
        let pages = range.end.div_ceil(page) - range.start / page;
        let cached = sys::cached_pages(self.file, range)?;
        // Some file systems count pages beyond the end of the file, too.
        Ok(match cached {
            0 => Some(false),
            cached if cached >= pages => Some(true),
            _ => None,
        })
    }

    fn ask_pages(&mut self, range: &Range<u64>) -> io::Result<()> {
        let page = sys::page_bytes();
        let mut start = range.start / page * page;
        while start < range.end {
            let mapped = self
                .window
                .as_ref()
                .is_some_and(|window| window.range().start <= start && window.range().end > start);
            if !mapped {
                let wanted = start..range.end.max(start + sys::MINCORE_WINDOW_BYTES);
                self.window = Some(sys::Window::map(self.file, &wanted)?);
            }
            let window = self.window.as_ref().expect("it was just mapped");
            let end = range.end.min(window.range().end);
            let mut pages = std::mem::take(&mut self.pages);
            window.resident(&(start..end), &mut pages)?;
            let mut at = start;
            for run in pages.chunk_by(|a, b| (a ^ b) & 1 == 0) {
                let next = at + run.len() as u64 * page;
                self.found_out(at.max(range.start)..next.min(range.end), run[0] & 1 == 1);
                at = next;
            }
            self.pages = pages;
            start = end.div_ceil(page) * page;
        }
        Ok(())
    }

    fn found_out(&mut self, range: Range<u64>, resident: bool) {
        match self.found.last_mut() {
            Some((last, same)) if *same == resident && last.end == range.start => {
                last.end = range.end;
            }
            _ if range.is_empty() => {}
            _ => self.found.push((range, resident)),
        }
        if self.found.len() > RUNS_MAX {
            self.short = coarsen(&mut self.found, self.short, RUNS_MAX / 2);
        }
    }
}

/// Takes short runs in memory for runs that are not, until no more than
/// `runs_max` are left: what is near is then read as if it were far, which
/// costs order and nothing else. Returns what was too short, of which `short`
/// is known to be.
fn coarsen(found: &mut Vec<(Range<u64>, bool)>, short: u64, runs_max: usize) -> u64 {
    let mut short = short.max(sys::page_bytes());
    while found.len() > runs_max {
        short = short.saturating_mul(2);
        let mut kept: Vec<(Range<u64>, bool)> = Vec::with_capacity(runs_max);
        for (range, resident) in found.drain(..) {
            let resident = resident && range.end - range.start >= short;
            // A short hole between two that are not in memory is read with them.
            let gap_max = if resident { 0 } else { short };
            match kept.last_mut() {
                Some((last, same)) if *same == resident && range.start - last.end <= gap_max => {
                    last.end = range.end;
                }
                _ => kept.push((range, resident)),
            }
        }
        *found = kept;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_pages_are_given_up_before_long_runs() {
        let page = sys::page_bytes();
        let mut found: Vec<(Range<u64>, bool)> = (0..1000)
            .map(|at| (at * page..(at + 1) * page, at % 2 == 1))
            .chain(std::iter::once((1000 * page..2000 * page, true)))
            .collect();
        assert_eq!(coarsen(&mut found, 0, 10), 2 * page);
        assert_eq!(found, [(0..1000 * page, false), (1000 * page..2000 * page, true)]);
    }

    #[test]
    fn two_threads_share_what_is_asked_between_windows() {
        let half = THREAD_BYTES_MIN / 2;
        let (gap, page) = (3 * WINDOW_BYTES, sys::page_bytes());
        let data = [0..page, gap..half + gap, half + 2 * gap..2 * half + 2 * gap + page];
        let Some((first, second)) = halves(&data) else {
            let processors = std::thread::available_parallelism().expect("it is known");
            assert_eq!(processors.get(), 1);
            return;
        };
        let length = |part: &[Range<u64>]| part.iter().map(|r| r.end - r.start).sum::<u64>();
        assert!(length(&first).abs_diff(length(&second)) <= 2 * WINDOW_BYTES);
        let mut joined = first;
        joined.extend(second);
        joined.dedup_by(|next, last| {
            let continues = next.start == last.end;
            if continues {
                assert_eq!(next.start % WINDOW_BYTES, 0);
                last.end = next.end;
            }
            continues
        });
        assert_eq!(joined, data);
        assert_eq!(halves(&data[..2]), None);
    }

    #[test]
    fn short_holes_do_not_keep_runs_apart() {
        let page = sys::page_bytes();
        let mut found: Vec<(Range<u64>, bool)> =
            (0..100).map(|at| (2 * at * page..(2 * at + 1) * page, true)).collect();
        coarsen(&mut found, 0, 10);
        assert_eq!(found, [(0..199 * page, false)]);
    }
}
