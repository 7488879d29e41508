//! What waits for the threads of the pool, and who is to take how much of it.

use std::collections::VecDeque;
use std::time::Duration;

use super::files::Job;
use crate::scheduler::{DeviceId, Event};

/// Threads that open and read files of mounts that always answer; beyond them one for each device that
/// none is at, so that nothing waits for another device.
pub(super) const THREADS_MAX: usize = 8;
/// Threads with those: more devices than these that are all slow are rare, and what lies on others waits.
const THREADS_OF_ALL_MAX: usize = 64;
/// Waits that are too short to be told of: silences that count are far longer.
const UNTOLD: Duration = Duration::from_millis(10);
/// Jobs that one thread takes at a time.
pub(super) const BATCH: usize = 32;
/// Fewer opens than these are not worth another thread, while none waits for a device.
const BATCH_MIN: usize = 8;
/// So many opens of a device that took no longer, one after the other, say that the next need not.
const QUICK_RUN: usize = 8;
/// How long a result may wait for others of its batch that are quick; a thread that was not heard of
/// for so long waits for a device.
pub(super) const LINGER: Duration = Duration::from_millis(1);

#[derive(Default)]
pub(super) struct Waiting {
    /// By their turns: what a thread gives back comes before what is later.
    pub(super) jobs: VecDeque<Job>,
    turns: u64,
    /// Of each thread that has jobs, the device that they are of.
    pub(super) at_work: Vec<Option<DeviceId>>,
    /// Of each thread that has a batch of opens.
    opening: Vec<Opening>,
    /// Devices that let an open wait, and how many must be quick in a row until others may follow.
    slow: Vec<(Option<DeviceId>, usize)>,
    /// Whether what was left to threads that are at it is looked at again soon.
    pub(super) is_watched: bool,
    pub(super) threads: usize,
    /// Threads that have nothing to do and were not called.
    pub(super) idle: usize,
    /// Calls that no thread has answered yet.
    pub(super) calls: usize,
    processors: usize,
    pub(super) closed: bool,
}

/// A batch of opens: of which device, and when it was taken.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Opening {
    device: Option<DeviceId>,
    since: Duration,
}

impl Waiting {
    pub(super) fn new(processors: usize) -> Self {
        Self { processors, ..Self::default() }
    }

    pub(super) fn add(&mut self, jobs: Vec<Job>) {
        for mut job in jobs {
            if job.turn > 0 {
                let at = self.jobs.partition_point(|other| other.turn < job.turn);
                self.jobs.insert(at, job);
                continue;
            }
            self.turns += 1;
            job.turn = self.turns;
            self.jobs.push_back(job);
        }
    }

    /// How many opens of a device one thread takes at most.
    fn opens_max(&self, device: Option<DeviceId>) -> usize {
        let is_slow = self.slow.iter().any(|(slow, _)| *slow == device);
        if is_slow { 1 } else { BATCH }
    }

    /// A thread for each read, and for each batch of opens of one device. While those wait for no
    /// device no more than processors, and for a few none but the one that is at it. A thread takes
    /// what is first, whatever it was called for, and calls again.
    pub(super) fn threads_wanted(&self, now: Duration) -> Wanted {
        let (mut threads, mut at, mut are_some_left) = (0, 0, false);
        let fresh = self.opening.iter().filter(|of| now.saturating_sub(of.since) <= LINGER);
        let mut busy: Vec<_> = fresh.map(|opening| opening.device).collect();
        let mut at_work = self.at_work.clone();
        while at < self.jobs.len() && at_work.len() < THREADS_OF_ALL_MAX {
            let first = &self.jobs[at];
            let device = first.device();
            let most = self.opens_max(device);
            let jobs = share(self.jobs.range(at..), most);
            at += jobs;
            if !may_begin(device, &at_work) {
                continue;
            }
            if first.is_open() && most > 1 {
                let at_it = busy.iter().filter(|other| **other == device).count();
                if at_it >= self.processors || (at_it > 0 && jobs < BATCH_MIN) {
                    are_some_left = true;
                    continue;
                }
                busy.push(device);
            }
            at_work.push(device);
            threads += 1;
        }
        Wanted { threads, are_some_left }
    }

    /// A read, or a share of the opens: processors are all that they need while none waits for a
    /// device. Of those that do one, so that it is asked in their order. Nothing if all that waits is
    /// left to those that are at work.
    pub(super) fn take(&mut self, batch: &mut Vec<Job>, now: Duration) -> Option<Opening> {
        let first = self.jobs.iter().position(|job| may_begin(job.device(), &self.at_work))?;
        let device = self.jobs[first].device();
        let even = self.jobs.len().div_ceil(self.threads.min(self.processors).max(1));
        let most = even.max(BATCH_MIN).min(self.opens_max(device));
        let taken = share(self.jobs.range(first..), most);
        batch.extend(self.jobs.drain(first..first + taken));
        self.began(device);
        let first = batch.first().filter(|first| first.is_open())?;
        let opening = Opening { device: first.device(), since: now };
        self.opening.push(opening);
        Some(opening)
    }

    /// A thread is at jobs of a device from now on.
    pub(super) fn began(&mut self, device: Option<DeviceId>) {
        self.at_work.push(device);
    }

    /// A thread is at jobs of a device no more.
    pub(super) fn left(&mut self, device: Option<DeviceId>) {
        let at = self.at_work.iter().position(|other| *other == device);
        self.at_work.swap_remove(at.expect("it began"));
    }

    /// Notes how a batch of opens went, all of it or as far as its thread came.
    pub(super) fn ended(&mut self, opening: Opening, pace: Pace) {
        let at = self.opening.iter().position(|other| *other == opening);
        self.opening.swap_remove(at.expect("it was taken"));
        let at = self.slow.iter().position(|(device, _)| *device == opening.device);
        match (at, pace) {
            (None, Pace::Quick(_)) => {}
            (None, Pace::Slow) => self.slow.push((opening.device, QUICK_RUN)),
            (Some(at), Pace::Slow) => self.slow[at].1 = QUICK_RUN,
            (Some(at), Pace::Quick(opens)) if opens < self.slow[at].1 => self.slow[at].1 -= opens,
            (Some(at), Pace::Quick(_)) => drop(self.slow.swap_remove(at)),
        }
    }
}

/// Whether one more thread may be at jobs of a device.
fn may_begin(device: Option<DeviceId>, at_work: &[Option<DeviceId>]) -> bool {
    let is_first = at_work.len() < THREADS_OF_ALL_MAX && !at_work.contains(&device);
    at_work.len() < THREADS_MAX || is_first
}

/// Tells of the jobs that have waited until now.
pub(super) fn waited<'a>(jobs: impl Iterator<Item = &'a Job>, now: Duration) -> Vec<Event> {
    let late = jobs.filter(|job| now.saturating_sub(job.since) > UNTOLD);
    late.map(|job| Event::Waited { attempt: job.attempt }).collect()
}

/// How many threads are worth calling, and whether some of what waits is left to those at it.
pub(super) struct Wanted {
    pub(super) threads: usize,
    pub(super) are_some_left: bool,
}

/// How a batch of opens went: so many of them were quick, or the last waited for its device.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pace {
    Quick(usize),
    Slow,
}

impl Pace {
    /// With one more, which may have been cancelled and says nothing.
    pub(super) fn and(self, is_slow: bool, was_done: bool) -> Self {
        match self {
            Self::Quick(_) if is_slow => Self::Slow,
            Self::Quick(opens) => Self::Quick(opens + usize::from(was_done)),
            Self::Slow => Self::Slow,
        }
    }
}

/// How many of the first jobs, at most so many, one thread does one after the other: a read, or
/// opens of one device, so that none waits for a slower one.
fn share<'a>(mut jobs: impl Iterator<Item = &'a Job>, most: usize) -> usize {
    let Some(first) = jobs.next() else { return 0 };
    let is_like_first = |job: &&Job| job.is_open() && job.device() == first.device();
    let more = if first.is_open() { most - 1 } else { 0 };
    1 + jobs.take(more).take_while(is_like_first).count()
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::path::Path;
    use std::sync::Arc;

    use sled::Device;
    use store::{Entry, Name};

    use super::super::files::Cancelled;
    use super::super::item::{Item, Source};
    use super::*;
    use crate::scheduler::{Aim, AttemptId};

    fn opens(count: u64) -> Vec<Job> {
        opens_on(0, 1..=count)
    }

    fn opens_on(device: u32, numbers: RangeInclusive<u64>) -> Vec<Job> {
        jobs_on(device, numbers, &Aim::Open)
    }

    fn reads_on(device: u32, numbers: RangeInclusive<u64>) -> Vec<Job> {
        jobs_on(device, numbers, &Aim::Fetch(0..1))
    }

    fn jobs_on(device: u32, numbers: RangeInclusive<u64>, aim: &Aim) -> Vec<Job> {
        let device = (Device::new("d"), DeviceId(device));
        let entry = Entry::named(Name::from(Path::new("/a")));
        let item = || Item::new(0, entry.clone(), Source::Nowhere, Some(device.clone()));
        let job = |number| Job {
            attempt: AttemptId(number),
            item: Arc::new(item()),
            aim: aim.clone(),
            cancelled: Cancelled::default(),
            since: NOW,
            turn: 0,
        };
        numbers.map(job).collect()
    }

    const NOW: Duration = Duration::ZERO;

    /// What a thread takes.
    fn taken(waiting: &mut Waiting) -> (Vec<Job>, Option<Opening>) {
        let mut batch = Vec::new();
        let opening = waiting.take(&mut batch, NOW);
        (batch, opening)
    }

    /// A thread has opened all that it took.
    fn done(waiting: &mut Waiting, opening: Option<Opening>, pace: Pace) {
        let opening = opening.expect("a batch of opens");
        waiting.ended(opening, pace);
        waiting.left(opening.device);
    }

    fn numbers(jobs: &[Job]) -> Vec<u64> {
        jobs.iter().map(|job| job.attempt.0).collect()
    }

    fn wanted(waiting: &Waiting, now: Duration) -> (usize, bool) {
        let Wanted { threads, are_some_left } = waiting.threads_wanted(now);
        (threads, are_some_left)
    }

    #[test]
    fn opens_that_wait_for_a_device_are_taken_one_by_one_and_keep_their_order() {
        let mut waiting = Waiting { threads: 8, processors: 2, ..Waiting::default() };
        waiting.add(opens(20));
        let (mut share, opening) = taken(&mut waiting);
        assert_eq!(numbers(&share), (1..=10).collect::<Vec<_>>());
        done(&mut waiting, opening, Pace::Slow);
        waiting.add(share.split_off(1));
        assert_eq!(wanted(&waiting, NOW), (THREADS_MAX, false));
        for next in 2..=9 {
            let (share, opening) = taken(&mut waiting);
            assert_eq!(numbers(&share), [next]);
            done(&mut waiting, opening, Pace::Quick(1));
        }
        assert_eq!(numbers(&taken(&mut waiting).0), (10..=17).collect::<Vec<_>>(), "quick again");
    }

    #[test]
    fn a_quick_device_does_not_make_a_slow_one_quick() {
        let mut waiting = Waiting { threads: 8, processors: 1, ..Waiting::default() };
        waiting.add(opens_on(0, 1..=1));
        let (_, opening) = taken(&mut waiting);
        done(&mut waiting, opening, Pace::Slow);
        waiting.add(opens_on(1, 2..=33));
        waiting.add(opens_on(0, 34..=50));
        let (share, opening) = taken(&mut waiting);
        assert_eq!(share.len(), 32);
        done(&mut waiting, opening, Pace::Quick(32));
        assert_eq!(numbers(&taken(&mut waiting).0), [34]);
    }

    #[test]
    fn quick_opens_get_no_more_threads_than_are_worth_it() {
        let mut waiting = Waiting { threads: 8, processors: 2, ..Waiting::default() };
        waiting.add(opens(8));
        assert_eq!(wanted(&waiting, NOW), (1, false));
        let (share, _) = taken(&mut waiting);
        assert_eq!(share.len(), 8, "a few go together");
        waiting.add(opens(7));
        assert_eq!(wanted(&waiting, NOW), (0, true), "they are left to the one that is at it");
        assert_eq!(wanted(&waiting, 2 * LINGER), (1, false), "not where that waits itself");
        waiting.add(opens(200));
        assert_eq!(wanted(&waiting, NOW), (1, true), "as many as processors");
    }

    #[test]
    fn opens_do_not_wait_for_those_of_another_device() {
        let mut waiting = Waiting { threads: 8, processors: 1, ..Waiting::default() };
        waiting.add(opens_on(0, 1..=1));
        waiting.add(opens_on(1, 2..=32));
        assert_eq!(wanted(&waiting, NOW), (2, false));
        assert_eq!(numbers(&taken(&mut waiting).0), [1]);
        assert_eq!(wanted(&waiting, NOW), (1, false));
        assert_eq!(taken(&mut waiting).0.len(), 31, "one device keeps its batches");
    }

    #[test]
    fn a_slow_device_does_not_hold_all_threads() {
        let mut waiting = Waiting { processors: 2, ..Waiting::default() };
        waiting.add(reads_on(0, 1..=20));
        waiting.add(reads_on(1, 21..=22));
        waiting.add(opens_on(2, 23..=24));
        assert_eq!(wanted(&waiting, NOW), (THREADS_MAX + 2, false));
        let taken_by_all = (0..THREADS_MAX + 2).flat_map(|_| numbers(&taken(&mut waiting).0));
        assert_eq!(taken_by_all.collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8, 21, 23, 24]);
        assert_eq!(wanted(&waiting, NOW), (0, false));
        assert!(taken(&mut waiting).0.is_empty(), "what is left waits for those at its device");
        waiting.left(Some(DeviceId(1)));
        assert_eq!(numbers(&taken(&mut waiting).0), [22]);
    }

    #[test]
    fn however_many_devices_there_are_threads_have_a_limit() {
        let mut waiting = Waiting { processors: 2, ..Waiting::default() };
        for device in 0..500 {
            waiting.add(reads_on(device, 1..=1));
        }
        assert_eq!(wanted(&waiting, NOW), (THREADS_OF_ALL_MAX, false));
        for _ in 0..THREADS_OF_ALL_MAX {
            assert_eq!(taken(&mut waiting).0.len(), 1);
        }
        assert_eq!(wanted(&waiting, NOW), (0, false));
        assert!(taken(&mut waiting).0.is_empty());
        waiting.left(Some(DeviceId(0)));
        assert_eq!(taken(&mut waiting).0.len(), 1);
    }

    #[test]
    fn of_what_waits_long_is_told() {
        let jobs = opens(2);
        assert_eq!(waited(jobs.iter(), UNTOLD), []);
        let told = [1, 2].map(|number| Event::Waited { attempt: AttemptId(number) });
        assert_eq!(waited(jobs.iter(), 2 * UNTOLD), told);
    }

    #[test]
    fn what_was_cancelled_says_nothing_of_its_device() {
        let pace = [(false, true), (false, false), (false, true)];
        let pace = pace.into_iter().fold(Pace::Quick(0), |pace, (slow, done)| pace.and(slow, done));
        assert!(pace == Pace::Quick(2));
        assert!(pace.and(true, true).and(false, true) == Pace::Slow);
    }
}
